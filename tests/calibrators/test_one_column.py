"""Scores of shape (n, 1), as scikit-learn's X has it: the fit, the answer and the metrics of shape (n,)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import IsotonicRegression

import calibrant as cb
from calibrant.calibrators import CALIBRATORS, make_calibrator
from calibrant.errors import CalibrantError

RNG = np.random.default_rng(0)
TRUTH = RNG.random(300)
Y = RNG.random(300) < TRUTH
P = TRUTH**2


@pytest.mark.parametrize("name", CALIBRATORS)
def test_every_calibrator_takes_one_column_as_one_score_per_row(name: str) -> None:
    flat = make_calibrator(name).fit(P, Y)
    column = make_calibrator(name).fit(P[:, None], Y)
    for scores in (P, P[:, None], P[:1, None]):
        expected = flat.predict_proba(scores.ravel())
        np.testing.assert_array_equal(column.predict_proba(scores), expected)
        np.testing.assert_array_equal(flat.predict_proba(scores), expected)


def test_shapes_are_those_of_isotonic_regression() -> None:
    theirs = IsotonicRegression(out_of_bounds="clip").fit(P[:, None], Y)
    ours = cb.IsotonicCalibrator().fit(P[:, None], Y)
    assert ours.predict_proba(P[:, None]).shape == theirs.predict(P[:, None]).shape == (300,)


def test_a_frame_of_one_column_keeps_its_index_and_name() -> None:
    frame = pd.DataFrame({"p": P}, index=np.arange(300) + 1000)
    fitted = cb.SigmoidCalibrator().fit(frame, Y)
    out = fitted.predict_proba(frame)
    assert isinstance(out, pd.Series)
    assert out.index.tolist() == frame.index.tolist()
    assert list(fitted.score_names_ or ()) == ["p"]
    np.testing.assert_array_equal(out, cb.SigmoidCalibrator().fit(P, Y).predict_proba(P))


def test_metrics_take_it_too() -> None:
    assert cb.evaluate(Y, P[:, None]).to_dict() == cb.evaluate(Y, P).to_dict()
    assert cb.compare_models(Y, {"a": P[:, None], "b": TRUTH}).to_dict() == (
        cb.compare_models(Y, {"a": P, "b": TRUTH[:, None]}).to_dict()
    )


@pytest.mark.parametrize("number", [0.5, np.float64(0.5), np.array(0.5)])
def test_a_number_is_no_row_and_the_message_says_what_to_pass(number: Any) -> None:
    fitted = cb.SigmoidCalibrator().fit(P, Y)
    for call in (lambda: fitted.predict_proba(number), lambda: cb.metrics.brier_score([1], number)):
        with pytest.raises(CalibrantError, match=r"Pass an array of shape \(n,\), such as \[0\.5\]"):
            call()


def test_one_column_for_three_classes_names_both() -> None:
    with pytest.raises(CalibrantError, match=r"y holds 3 classes, \[0, 1, 2\], for one column of scores in scores"):
        cb.TemperatureCalibrator().fit(P[:, None], np.arange(300) % 3)
