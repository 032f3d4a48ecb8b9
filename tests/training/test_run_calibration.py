"""When a run uses its calibrator: always, or where it helps on blocks in time that it was not fitted to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import calibrant as cb
from calibrant.errors import InvalidInputError
from calibrant.metrics import log_loss
from calibrant.numerics import FloatArray, softmax
from calibrant.splits import PurgedKFold
from calibrant.training.calibration import (
    Calibration,
    When,
    calibrate_rows,
    cross_calibrated,
    new_calibrator,
    temperature_of_one,
)
from calibrant.training.dataset import Dataset


def calibrated(prob: FloatArray, data: Dataset, when: When, name: str = "temperature") -> Calibration:
    return calibrate_rows(new_calibrator(name), data.rows(prob), when=when)


def rows(sharpness: float, *, n: int = 3000, n_classes: int = 3, seed: int = 0) -> tuple[FloatArray, Dataset]:
    """Return probabilities that are too sharp by a factor, and rows whose labels follow the true ones."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, n_classes))
    y = (softmax(z).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    time = np.datetime64("2020-01-01") + np.arange(n)
    data = Dataset(
        X=z,
        names=("a", "b", "c")[:n_classes],
        y=y,
        classes=np.arange(n_classes),
        time=time,
        label_end=time,
        symbol=np.full(n, "A", dtype=object),
        weight=np.ones(n),
        label_return=np.zeros(n),
        horizon_time=np.timedelta64(1, "D"),
    )
    return softmax(sharpness * z), data


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("sharpness", "is_cross_fitted"), [(2.5, False), (0.4, True)])
def test_a_temperature_that_is_needed_is_used_and_is_that_of_a_plain_fit(
    n_classes: int, sharpness: float, is_cross_fitted: bool
) -> None:
    prob, data = rows(sharpness, n_classes=n_classes)
    found = calibrated(prob, data, "auto")
    plain = cb.TemperatureCalibrator().fit(prob, data.y)
    assert found.is_used
    assert found.temperature == pytest.approx(sharpness, rel=0.15)
    assert found.temperature == 1.0 / plain.inverse_temperature_
    assert found.calibrator.predict_proba(prob).tobytes() == plain.predict_proba(prob).tobytes()
    assert (found.change is not None and found.change < -0.01) == is_cross_fitted


def test_surer_probabilities_that_do_not_hold_on_other_blocks_are_left_out() -> None:
    prob, data = rows(1.0, n=200, seed=3)
    y = data.y.copy()
    y[:60] = prob[:60].argmax(axis=1)  # one block in time in which the model is always right
    y[60:] = np.where(np.arange(140) % 16 == 0, prob[60:].argmin(axis=1), y[60:])
    data = replace(data, y=y)
    found = calibrated(prob, data, "auto")
    assert found.temperature is not None
    assert found.temperature < 1.0
    expected = []
    for fit, held_out in PurgedKFold(5, times=data.time, label_end=data.label_end).split(prob):
        other = cb.TemperatureCalibrator().fit(prob[fit], y[fit], classes=[0, 1, 2]).predict_proba(prob[held_out])
        expected.append(
            log_loss(y[held_out], other, classes=[0, 1, 2]) - log_loss(y[held_out], prob[held_out], classes=[0, 1, 2])
        )
    assert found.change == pytest.approx(np.mean(expected), rel=1e-9)
    assert np.mean(expected) > 0.0
    assert not found.is_used
    np.testing.assert_allclose(found.calibrator.predict_proba(prob), prob, rtol=1e-13)
    assert "left out (temperature 0." in found.describe()
    assert "rises by" in found.describe()
    assert calibrated(prob, data, "always").is_used


@pytest.mark.parametrize(("when", "is_used"), [("auto", True), ("always", True), ("if_better", False)])
def test_any_other_calibrator_is_used_unless_it_has_to_be_better(when: When, is_used: bool) -> None:
    prob, data = rows(1.0, n=120, seed=1)
    found = calibrated(prob, data, when, "specified")
    assert found.is_used == is_used
    assert (found.change is None) == is_used
    assert found.temperature is None
    assert isinstance(found.calibrator, cb.ProbabilityCalibrator) == is_used


def test_labels_too_long_to_judge_any_block_leave_surer_probabilities_out() -> None:
    prob, data = rows(0.4, n=40)
    long = replace(data, label_end=data.time + np.timedelta64(40, "D"))
    found = calibrated(prob, long, "auto")
    assert (found.is_used, found.change) == (False, 0.0)
    gain = calibrated(prob, data, "auto")
    assert gain.change is not None
    assert gain.change < 0.0
    assert not gain.is_used  # of 40 rows the gain is within its error
    assert calibrated(*rows(0.4, n=400), "auto").is_used


def test_no_row_decides_on_itself() -> None:
    """Rows of a block that would tip the balance tip that of the other blocks only."""
    prob, data = rows(0.9, n=150, seed=5)
    before = cross_calibrated(new_calibrator("temperature"), data.rows(prob), when="auto")
    y = data.y.copy()
    y[60:90] = prob[60:90].argmin(axis=1)
    after = cross_calibrated(new_calibrator("temperature"), replace(data, y=y).rows(prob), when="auto")
    assert before[60:90].tobytes() == after[60:90].tobytes()
    assert before[:60].tobytes() != after[:60].tobytes()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("suffix", ["json", "pkl"])
def test_what_leaves_probabilities_alone_saves_and_loads(n_classes: int, suffix: str, tmp_path: Path) -> None:
    prob, data = rows(0.7, n=100, n_classes=n_classes)
    prob[0] = np.eye(n_classes)[0]
    made = temperature_of_one(data.rows(prob))
    np.testing.assert_allclose(made.predict_proba(prob)[1:], prob[1:], rtol=1e-12)
    assert (made.predict_proba(prob)[0] > 0.0).all()
    cb.save(made, tmp_path / f"left.{suffix}")
    again = cb.load(tmp_path / f"left.{suffix}").predict_proba(prob)
    assert again.tobytes() == made.predict_proba(prob).tobytes()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_calibrator_that_is_left_out_changes_no_row_that_is_surer_than_those_before(n_classes: int) -> None:
    prob, data = rows(0.7, n=100, n_classes=n_classes)
    surer = softmax(np.array([[0.0, -14.0, -20.0], [9.0, 0.0, -9.0]])[:, :n_classes])
    made = temperature_of_one(data.rows(prob))
    np.testing.assert_allclose(made.predict_proba(surer), surer, rtol=1e-9)


def test_an_infinite_log_loss_is_said_and_has_no_standard_error() -> None:
    prob, data = rows(1.0, n_classes=2)
    unsure = calibrate_rows(new_calibrator(cb.IsotonicCalibrator()), data.rows(prob), when="if_better")
    assert (unsure.is_used, unsure.change, unsure.change_error) == (False, np.inf, None)
    assert unsure.describe().startswith("calibrator left out: with it the log loss is infinite on blocks")
    prob[0] = np.eye(2)[1 - data.y[0]]
    ruled_out = calibrated(prob, data, "if_better", "isotonic")
    assert (ruled_out.is_used, ruled_out.change, ruled_out.change_error) == (True, -np.inf, None)
    assert ruled_out.describe().startswith("calibrator used: without it the log loss is infinite on blocks")
    surer, data = rows(0.4)
    surer[0] = np.eye(3)[(data.y[0] + 1) % 3]
    assert calibrated(surer, data, "if_better").is_used


def test_settings_of_a_given_calibrator_are_checked() -> None:
    with pytest.raises(InvalidInputError, match="unknown value of form: 'zz'"):
        new_calibrator(cb.BetaCalibrator(form="zz"))
