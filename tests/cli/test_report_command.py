"""calibrant report: the library's report of the right columns, by suffix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result

import calibrant as cb

Run = Callable[..., Result]


def test_each_suffix_gives_its_format(run: Run, binary: pa.Table) -> None:
    report = cb.Report(binary["y"], binary["p"], score_names=["p"], source="scores.csv", label_name="y")
    for suffix, text in (("html", report.html()), ("json", report.json()), ("md", report.markdown())):
        assert run(f"report scores.csv -o report.{suffix}").output == f"Wrote report.{suffix}\n"
        assert Path(f"report.{suffix}").read_text("utf-8") == text


def test_options_reach_the_report(run: Run, binary: pa.Table) -> None:
    run("report scores.csv --weight w --bins 5 --level 0.9 --positive 0 -o r.json --title", "May <b>")
    expected = cb.Report(
        binary["y"],
        binary["p"],
        sample_weight=binary["w"],
        n_bins=5,
        level=0.9,
        pos_label=0,
        title="May <b>",
        score_names=["p"],
        source="scores.csv",
    )
    assert json.loads(Path("r.json").read_text("utf-8")) == json.loads(expected.json())


def test_several_columns_are_reported_by_class(run: Run, several: pa.Table) -> None:
    names = ["p_cat", "p_dog", "p_eel"]
    run("report several.parquet --score p_* -o r.json")
    of = {"score_names": names, "source": "several.parquet", "label_name": "y"}
    expected = cb.Report(several["y"], several.select(names), **of)
    assert json.loads(Path("r.json").read_text("utf-8")) == json.loads(expected.json())


def test_unknown_suffix_is_refused(run: Run, binary: pa.Table) -> None:
    result = run("report scores.csv -o report.pdf")
    assert result.exit_code == 2
    assert result.stderr == "Error: -o report.pdf doesn't say what to write. End it in .html, .json or .md.\n"


@pytest.mark.parametrize("target", ["scores.csv", "no/r.html"])
def test_nothing_is_written_in_the_wrong_place(run: Run, binary: pa.Table, target: str) -> None:
    before = Path("scores.csv").read_bytes()
    assert run(f"report scores.csv -o {target}").exit_code == 2
    assert Path("scores.csv").read_bytes() == before


def test_scores_in_a_json_file_are_not_written_over(run: Run, binary: pa.Table) -> None:
    lines = "\n".join(json.dumps(row) for row in binary.to_pylist())
    Path("scores.json").write_text(lines, "utf-8")
    result = run("report scores.json -o scores.json")
    assert "-o scores.json is the file that is read" in result.stderr
    assert Path("scores.json").read_text("utf-8") == lines
