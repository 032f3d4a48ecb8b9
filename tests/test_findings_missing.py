"""Findings on missing scores and late labels: each as the case that showed it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import calibrant as cb
from calibrant.cli import main


def test_the_monitor_waits_for_labels_that_come_late(tmp_path: Any) -> None:
    """They aborted the run; now the window waits, and counts as if they had been there."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.48, 0.52, 300)
    y = rng.random(300) < p
    file, state = tmp_path / "rows.csv", tmp_path / "s.json"
    command = ["monitor", str(file), "--rows", "100", "--state", str(state), "--missing", "wait", "--json"]

    def watch(n_known: int) -> Any:
        labels = ["" if i >= n_known else str(int(label)) for i, label in enumerate(y)]
        file.write_text("p,y\n" + "".join(f"{a},{b}\n" for a, b in zip(p.tolist(), labels, strict=True)))
        return json.loads(CliRunner().invoke(main, command).output)

    late = watch(250)
    assert (late["n_windows"], late["notes"]) == (
        2,
        ["100 rows wait until their window has all of its rows and labels."],
    )
    assert watch(300)["n_windows"] == 3
    in_parts = watch(300)["rows"]
    state.unlink()
    assert watch(300)["rows"] == in_parts


def lacking(folder: Any) -> tuple[Any, int]:
    """Write a file of 1,000 rows of which one lacks its score and 50, the last ones, their labels."""
    rng = np.random.default_rng(0)
    p = rng.random(1_000)
    y = (rng.random(1_000) < p).astype(int)
    lines = [f"{'' if i == 500 else a},{'' if i >= 950 else b}" for i, (a, b) in enumerate(zip(p, y, strict=True))]
    (folder / "new.csv").write_text("p,y\n" + "\n".join(lines) + "\n")
    cb.save(cb.SigmoidCalibrator().fit(p, y), folder / "c.json")
    return folder / "new.csv", 949


def test_one_missing_score_does_not_abort_apply(tmp_path: Any) -> None:
    """T14: exported SQL gives NULL there, and so does `--missing keep`; the error names the option."""
    file, _ = lacking(tmp_path)
    command = ["apply", str(tmp_path / "c.json"), str(file), "--score", "p", "-o", str(tmp_path / "out.csv")]
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 2
    assert "line 502: missing value (1 of 1,000 rows). Pass --missing keep" in refused.stderr
    kept = CliRunner().invoke(main, [*command, "--missing", "keep"])
    assert "1,000 rows with p_calibrated; 1 row without a score, without a probability" in kept.output
    before, after = (path.read_text().splitlines() for path in (file, tmp_path / "out.csv"))
    assert len(after) == len(before)
    assert after[501] == before[501] + ","
    assert all(float(line.rsplit(",", 1)[1]) > 0.0 for i, line in enumerate(after[1:]) if i != 500)
    skipped = CliRunner().invoke(main, [*command, "--missing", "skip"])
    assert "999 rows with p_calibrated; 1 row without a score, left out" in skipped.output
    assert (tmp_path / "out.csv").read_text().splitlines() == [line for i, line in enumerate(after) if i != 501]


@pytest.mark.parametrize("command", ["evaluate", "report", "audit", "compare", "fit"])
def test_missing_labels_are_an_error_that_names_the_option_or_are_counted(command: str, tmp_path: Any) -> None:
    """T14: late labels are normal in production."""
    file, n = lacking(tmp_path)
    table = file.read_text().splitlines()
    file.write_text("\n".join([f"{table[0]},g", *(f"{line},{i % 2}" for i, line in enumerate(table[1:]))]) + "\n")
    out = {"report": ["-o", str(tmp_path / "r.json")], "fit": ["--method", "beta", "-o", str(tmp_path / "f.json")]}
    more = out.get(command, []) + {"audit": ["--features", "g"], "compare": ["--methods", "sigmoid"]}.get(command, [])
    refused = CliRunner().invoke(main, [command, str(file), *more])
    assert refused.exit_code == 2
    assert "missing value (1 of 1,000 rows). Pass --missing skip (missing='skip' in Python)" in refused.stderr
    more += ["--missing", "skip"]
    done = CliRunner().invoke(main, [command, str(file), *more])
    assert done.exit_code == 0, done.output
    if command == "report":
        assert json.loads((tmp_path / "r.json").read_text())["data"]["n_skipped"] == 51
    else:
        assert f"{n:,} rows (51 rows left out for missing values: 1 in column 'p', 50 in column 'y')" in done.output
    if command in ("evaluate", "audit", "compare"):
        assert json.loads(CliRunner().invoke(main, [command, str(file), *more, "--json"]).stdout)["n_skipped"] == 51


def test_rows_that_are_late_change_no_figure(tmp_path: Any) -> None:
    file, n = lacking(tmp_path)
    whole = [line for line in file.read_text().splitlines() if not line.startswith(",") and not line.endswith(",")]
    (tmp_path / "known.csv").write_text("\n".join(whole) + "\n")
    found, expected = (
        json.loads(CliRunner().invoke(main, ["evaluate", str(path), "--json", *options]).stdout)
        for path, options in ((file, ["--missing", "skip"]), (tmp_path / "known.csv", []))
    )
    assert found["n"] == n
    assert found["scores"] == expected["scores"]
    assert found["verdict"] == expected["verdict"]


def test_functions_of_python_say_how_many_values_are_missing_and_what_to_do() -> None:
    p, y = np.array([0.2, np.nan, 0.7, np.nan]), [0, 1, 1, 0]
    with pytest.raises(
        cb.errors.InvalidScoreError, match=r"y_prob row 1: nan is not finite \(2 of 4 rows\)\. Drop rows with NaN"
    ):
        cb.evaluate(y, p)
    with pytest.raises(
        cb.errors.InvalidScoreError, match=r"scores row 1: nan is not finite \(2 of 4 rows\)\. Drop rows with NaN"
    ):
        cb.IsotonicCalibrator().fit(p, y)
    with pytest.raises(cb.errors.InvalidLabelError, match=r"y_true row 0: missing label \(1 of 4 rows\)\. Drop these"):
        cb.evaluate([None, 1, 1, 0], [0.1, 0.2, 0.3, 0.4])
