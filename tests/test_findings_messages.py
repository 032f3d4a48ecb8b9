"""Findings on messages: each as the case that showed it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression

import calibrant as cb
from calibrant import rank_preserving
from calibrant.cli import main
from calibrant.errors import CalibrantError
from calibrant.splits import PurgedKFold

DATES = ["01/04/1999"] * 3 + ["1999-04-02"]


def three_columns() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 200)
    return (p.cumsum(axis=1) < rng.random((200, 1))).sum(axis=1), p


#: What is called, and what its error names: argument, value, count and one fix.
MESSAGES: dict[str, tuple[Any, str]] = {
    "columns for labels": (
        lambda: cb.ProbabilityCalibrator().fit(*three_columns()[::-1]),
        (
            r"y_true has 3 columns of probabilities and probabilities holds labels \(200 rows\): the two are swapped\. "
            r"Pass y_true first, probabilities second\."
        ),
    ),
    "labels for columns": (
        lambda: cb.TemperatureCalibrator().fit(*three_columns()),
        r"y has 3 columns of probabilities and scores holds labels \(200 rows\): .* Pass scores first, y second\.",
    ),
    "scores for labels": (
        lambda: cb.ProbabilityCalibrator().fit([0.25, 1.0, 0.5], [0, 1, 1]),
        r"y_true row 0: 0\.25 is not a class label \(2 of 3 rows\)\. .*swapped\? Pass labels first, scores second\.",
    ),
    "one column": (
        lambda: rank_preserving.solve(np.full(5, 0.2), np.ones(1)),
        r"P has shape \(5,\)\. Pass one column per class, at least two: np\.column_stack\(\(1 - p, p\)\)",
    ),
    "a column of one": (
        lambda: rank_preserving.solve(np.ones((5, 1)), np.full(1, 5.0)),
        r"P has shape \(5, 1\)\. Pass one column per class, at least two: np\.column_stack\(\(1 - p, p\)\)",
    ),
    "one class": (
        lambda: cb.CalibratedClassifierCV(LogisticRegression()).fit(np.eye(50), ["a"] * 50),
        r"y holds one class only, 'a', in all 50 rows\. Pass rows of at least two classes\.",
    ),
    "horizon": (
        lambda: list(PurgedKFold(2, purge=1_000).split(range(100))),
        (
            r"split 0 has no row to train on: of 100 rows, .* last up to 1000 with their purge, the embargo is 0, "
            r"and the times of all rows span 99\. Shorten label_end, purge or embargo\."
        ),
    ),
    "dates": (
        lambda: cb.evaluate([0, 1, 1, 0], [0.1, 0.9, 0.8, 0.2], time=DATES, label_end=DATES),
        (
            r"time row 0: '01/04/1999' is text, not a time \(4 of 4 rows\)\. Pass datetimes, in Parquet a column of "
            r"dates; in CSV write 1999-04-01"
        ),
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages_name_argument_value_count_and_one_fix(case: str) -> None:
    call, message = MESSAGES[case]
    with pytest.raises(CalibrantError, match=message):
        call()


def test_messages_of_commands_speak_of_options_and_dates(tmp_path: Any) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("p,y,d\n" + "".join(f"{k - 1.5},{k % 2},{k:02d}/04/1999\n" for k in range(1, 21)))
    data = [str(file), "--score", "p", "--label", "y"]
    for command in (["fit", *data, "-o", str(tmp_path / "c.json")], ["evaluate", *data]):
        output = CliRunner().invoke(main, command).output
        assert re.search(r"line 2: -0\.5 is outside \[0, 1\] \(19 of 20 rows\)\. .* pass --input logit", output)
        assert "input=" not in output
    file.write_text("p,y,d\n" + "".join(f"0.5,{k % 2},{k:02d}/04/1999\n" for k in range(1, 21)))
    output = CliRunner().invoke(main, ["monitor", *data, "--date", "d"]).output
    assert re.search(r"line 2: '01/04/1999' is no date \(20 of 20 rows\)\. Write 1999-04-01", output)
