"""calibrant report: the library's report of the right columns, by suffix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import calibrant as cb
from calibrant.cli import data
from calibrant.decisions import Policy, Problem

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


def assert_written(run: Run, command: str, expected: cb.Report) -> None:
    for suffix, text in (("html", expected.html()), ("json", expected.json()), ("md", expected.markdown())):
        result = run(f"report {command} -o r.{suffix}")
        assert result.exit_code == 0, result.output
        assert Path(f"r.{suffix}").read_text("utf-8") == text


def test_costs_add_the_section_on_decisions(run: Run, binary: pa.Table) -> None:
    of = {"score_names": ["p"], "source": "scores.csv", "label_name": "y"}
    two = Problem.two_actions(false_positive=1.0, false_negative=4.0)
    expected = cb.Report(binary["y"], binary["p"], problem=two, **of)
    assert_written(run, "scores.csv --false-positive 1 --false-negative 4", expected)
    losses = {"losses": {"no": {"0": 0.0, "1": 4.0}, "yes": {"0": 1.0, "1": 0.0}}, "abstain": 0.3}
    Path("costs.json").write_text(json.dumps(losses))
    expected = cb.Report(binary["y"], binary["p"], problem=losses, **of)
    assert_written(run, "scores.csv --costs costs.json", expected)
    threshold = Policy(two, threshold=0.35)
    expected = cb.Report(binary["y"], binary["p"], problem=threshold, sample_weight=binary["w"], **of)
    assert_written(run, "scores.csv --false-positive 1 --false-negative 4 --threshold 0.35 --weight w", expected)


def test_capacities_and_columns_of_costs_are_read_beside_rows_of_weight(run: Run, binary: pa.Table) -> None:
    rng = np.random.default_rng(0)
    day, fee = rng.integers(0, 6, 600), rng.uniform(0.5, 2.0, 600)
    pq.write_table(binary.append_column("day", pa.array(day)).append_column("fee", pa.array(fee)), "t.parquet")
    losses = {"losses": {"no": {"0": 0.0, "1": 4.0}, "yes": {"0": "fee", "1": 0.0}}, "capacity": {"yes": 9}}
    Path("costs.json").write_text(json.dumps(losses))
    assert run("report t.parquet --weight w --costs costs.json --per day -o r.json").exit_code == 0
    found = json.loads(Path("r.json").read_text("utf-8"))["decisions"]
    kept = binary["w"].to_numpy() > 0
    y, p, w = (binary[name].to_numpy()[kept] for name in ("y", "p", "w"))
    costs = pa.table({"fee": fee[kept]})
    expected = cb.decisions.evaluate(y, p, losses, sample_weight=w, per=day[kept], costs=costs)
    assert found["scores"]["realised"] == expected["realised"].to_dict()
    assert found["per"] == "day"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--false-positive 1", "what do decisions cost? Pass --false-positive and --false-negative"),
        ("--per row", "what do decisions cost?"),
        ("--false-positive 1 --false-negative 4 --per row", "per= says what capacities are for each of"),
        ("--costs no.json", "no.json"),
        ("--false-positive 1 --false-negative 4 --threshold 2", "threshold"),
    ],
)
def test_costs_that_say_nothing_are_refused(run: Run, binary: pa.Table, options: str, message: str) -> None:
    result = run(f"report scores.csv {options} -o r.html")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("r.html").exists()


def test_calibrator_shows_the_scores_before_and_after_it(run: Run, binary: pa.Table) -> None:
    run("fit scores.csv --method beta -o c.json")
    fitted = cb.load("c.json")
    expected = cb.Report(
        binary["y"],
        binary["p"],
        sample_weight=binary["w"],
        calibrator=fitted,
        score_names=["p"],
        source="scores.csv",
        label_name="y",
    )
    assert_written(run, "scores.csv --calibrator c.json --weight w", expected)
    assert expected.summary()["calibrator"]["change"]["brier"]["high"] < 0.0
    run("fit scores.csv --method beta --weight w -o own.json")
    run("report scores.csv --calibrator own.json --weight w -o r.md")
    assert "Judge the calibrator on rows that it was not fitted to." in Path("r.md").read_text("utf-8")
    assert "fitted to 600 rows of scores.csv, at 20" in expected.markdown()


def test_calibrator_of_several_columns_in_any_order(run: Run, several: pa.Table) -> None:
    names = ["p_cat", "p_dog", "p_eel"]
    run("fit several.parquet --score p_* --method temperature -o c.json")
    expected = cb.Report(
        several["y"],
        several.select(names),
        calibrator=cb.load("c.json"),
        score_names=names,
        source="several.parquet",
        label_name="y",
    ).summary()
    assert run("report several.parquet --calibrator c.json -o r.json").exit_code == 0
    found = json.loads(Path("r.json").read_text("utf-8"))
    assert found["calibrator"] == expected["calibrator"]
    assert found["scores"] == expected["scores"]


def test_files_of_too_many_rows_are_decided_on_and_say_what_is_left_out(
    run: Run, binary: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("fit scores.parquet --method beta -o c.json")
    costs = "--false-positive 1 --false-negative 4"
    run(f"report scores.parquet {costs} -o held.json")
    monkeypatch.setattr(data, "MANY", 500)
    run(f"report scores.parquet {costs} -o passes.json")
    held, passes = (json.loads(Path(f"{name}.json").read_text("utf-8")) for name in ("held", "passes"))
    assert passes["decisions"] == held["decisions"]
    run("report scores.parquet --calibrator c.json -o r.json")
    found = json.loads(Path("r.json").read_text("utf-8"))
    assert found["calibrator"] is None
    assert found["data"]["notes"] == [
        "More rows than are held in memory: the scores before the calibrator are left out."
    ]
