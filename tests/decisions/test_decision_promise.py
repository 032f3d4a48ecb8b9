"""expected_loss: the promise, its correction by cross-fitting, and what its interval carries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import calibrant as cb
from calibrant.decisions import CalibrationRows, Policy, Problem, evaluate, expected_loss
from calibrant.errors import CalibrantError, InvalidInputError, InvalidTypeError
from calibrant.numerics import expit

YES_NO = Problem.two_actions(false_positive=0.2, false_negative=0.8)


def draw(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, labels, and the rate of the label at each score."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-0.5, 1.6, n)
    rate = expit(0.6 * z - 0.4)
    return expit(z), (rng.random(n) < rate).astype(int), rate


def test_promise_without_calibrator_is_the_mean_of_expected_losses() -> None:
    p = np.random.default_rng(0).random(1_000)
    found = expected_loss(p, YES_NO)
    losses = np.minimum(0.8 * p, 0.2 * (1 - p))
    assert found.value == pytest.approx(losses.mean(), abs=1e-15)
    error = losses.std(ddof=1) / np.sqrt(1_000)
    assert (found.low, found.high) == pytest.approx(stats.norm.interval(0.95, losses.mean(), error), abs=2e-4)
    assert "taken for calibrated" in found.note


def test_promise_of_these_rows_has_the_chance_of_their_outcomes() -> None:
    """The interval holds what calibrated rows will show as often as its level says: outcomes drawn again and again."""
    rng = np.random.default_rng(1)
    p = rng.random(400)
    found = expected_loss(p, YES_NO, about="rows")
    yes = Policy(YES_NO).decide(p) == "yes"
    y = rng.random((4_000, 400)) < p
    shown = np.where(yes, 0.2 * ~y, 0.8 * y).mean(axis=1)
    assert 0.94 <= np.mean((shown >= found.low) & (shown <= found.high)) <= 0.96


def test_correction_is_the_mean_residual_out_of_fold() -> None:
    s, y, _ = draw(300, 2)
    new = draw(500, 3)[0]
    calibrator = cb.BetaCalibrator().fit(s, y)
    found = expected_loss(new, YES_NO, calibrator=calibrator, fitted_to=(s, y), n_folds=5)
    from calibrant.dependence import stratified_folds

    folds = stratified_folds(y, 5, 0)
    out = np.empty(300)
    for fold in range(5):
        held = folds == fold
        out[held] = cb.BetaCalibrator().fit(s[~held], y[~held]).predict_proba(s[held])
    gap = evaluate(y, out, YES_NO)["gap"].value
    plain = expected_loss(calibrator.predict_proba(new), YES_NO).value
    assert found.value == pytest.approx(plain + gap, abs=1e-12)
    assert "cross-fitted on 300 rows" in found.method


def test_rows_that_nothing_was_fitted_to_correct_a_promise_without_a_calibrator() -> None:
    s, y, _ = draw(2_000, 4)
    held = evaluate(y, s, YES_NO)
    found = expected_loss(s, YES_NO, fitted_to=(s, y))
    assert found.value == pytest.approx(held["realised"].value, abs=1e-12), "of the same rows it is what they lost"
    assert not expected_loss(s, YES_NO).low <= held["realised"].value <= expected_loss(s, YES_NO).high


@pytest.mark.parametrize(
    ("name", "n"), [("BetaCalibrator", 300), ("IsotonicCalibrator", 300), ("SigmoidCalibrator", 3_000)]
)
def test_interval_holds_the_truth_where_it_is_known(name: str, n: int) -> None:
    """The benchmark of decisions measures more cases."""
    scores, _, rate = draw(100_000, 5)
    make, hits, plain = getattr(cb, name), [], []
    for seed in range(120):
        s, y, _ = draw(n, 1_000 + seed)
        new = draw(1_000, 5_000 + seed)[0]
        calibrator = make().fit(s, y)
        yes = Policy(YES_NO).decide(calibrator.predict_proba(scores)) == "yes"
        truth = np.where(yes, 0.2 * (1 - rate), 0.8 * rate).mean()
        found = expected_loss(new, YES_NO, calibrator=calibrator, fitted_to=(s, y))
        alone = expected_loss(calibrator.predict_proba(new), YES_NO)
        hits.append(found.low <= truth <= found.high)
        plain.append(alone.low <= truth <= alone.high)
    assert np.mean(hits) >= 0.9
    assert np.mean(plain) <= 0.7


def test_clusters_of_the_fit_widen_the_interval() -> None:
    s, y, _ = draw(100, 6)
    new, calibrator = draw(5_000, 7)[0], cb.SigmoidCalibrator().fit(np.repeat(s, 6), np.repeat(y, 6))
    rows = CalibrationRows(np.repeat(s, 6), np.repeat(y, 6), cluster=np.repeat(np.arange(100), 6))
    wide = expected_loss(new, YES_NO, calibrator=calibrator, fitted_to=rows)
    narrow = expected_loss(new, YES_NO, calibrator=calibrator, fitted_to=(rows.scores, rows.y))
    assert wide.high - wide.low > 1.8 * (narrow.high - narrow.low)


def test_several_classes_and_costs_of_rows() -> None:
    rng = np.random.default_rng(8)
    p = rng.dirichlet([1.0, 1.0, 1.0], 600)
    y = np.array(["a", "b", "c"])[(p.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)]
    losses = {"x": {"a": "fee", "b": 4.0, "c": 1.0}, "z": {"a": 2.0, "b": 1.0, "c": 3.0}}
    fee = {"fee": rng.uniform(0.0, 1.0, 600)}
    calibrator = cb.TemperatureCalibrator().fit(p, y)
    found = expected_loss(
        p, Problem(losses), calibrator=calibrator, fitted_to=CalibrationRows(p, y, costs=fee), costs=fee
    )
    expected = Problem(losses).expected_losses(calibrator.predict_proba(p), costs=fee).min(axis=1).mean()
    assert f"{expected:.4f}" in found.note
    assert found.low < evaluate(y, p, Problem(losses), costs=fee)["realised"].value < found.high


def test_given_actions_and_capacities_are_promised_as_they_are() -> None:
    p = np.random.default_rng(9).random(200)
    actions = np.array(["yes", "no"])[np.arange(200) % 2]
    assert expected_loss(p, actions, YES_NO).value == pytest.approx(
        np.where(actions == "yes", 0.2 * (1 - p), 0.8 * p).mean()
    )
    limited = Problem({"call": {0: 1.0, 1: -9.0}}, do_nothing="wait", capacity={"call": 5})
    best = np.sort(p)[-5:]
    assert expected_loss(p, limited).value == pytest.approx((1.0 - 10.0 * best).sum() / 200)


class Unfitted:
    """No calibrator."""


@pytest.mark.parametrize(
    ("more", "kind", "message"),
    [
        ({"calibrator": cb.BetaCalibrator()}, InvalidInputError, "needs fitted_to="),
        ({"calibrator": cb.BetaCalibrator(), "fitted_to": ([0.1, 0.9], [0, 1])}, CalibrantError, "not fitted"),
        ({"calibrator": Unfitted(), "fitted_to": ([0.1, 0.9], [0, 1])}, InvalidTypeError, "calibrator is a Unfitted"),
        ({"fitted_to": [0.1]}, InvalidTypeError, "Pass \\(scores, y\\)"),
        ({"fitted_to": ([0.1, 2.0], [0, 1])}, CalibrantError, "the scores of fitted_to row 1: 2.0"),
        ({"about": "past"}, CalibrantError, "'past'"),
        ({"n_folds": 1}, InvalidInputError, "n_folds=1"),
        ({"label_end": [1, 2, 3]}, InvalidInputError, "needs time"),
        ({"sample_weight": [0.0, 0.0, 0.0]}, CalibrantError, "sample_weight is zero"),
    ],
)
def test_what_cannot_be_promised_is_refused(more: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        expected_loss([0.1, 0.5, 0.9], YES_NO, **more)


def test_what_cannot_be_cross_fitted_is_refused() -> None:
    fit = ([0.1, 0.3, 0.2, 0.9], [0, 0, 1, 0])
    calibrator = cb.BetaCalibrator().fit(*fit)
    with pytest.raises(InvalidInputError, match="a class in 1 row"):
        expected_loss([0.5], YES_NO, calibrator=calibrator, fitted_to=fit)
    shift = cb.prior.PriorShift([1.0, 2.0])
    with pytest.raises(InvalidInputError, match="can't be fitted again"):
        expected_loss([0.5], YES_NO, calibrator=shift, fitted_to=fit)
    limited = Problem({"call": {0: 1.0, 1: -9.0}}, do_nothing="wait", capacity={"call": 5})
    with pytest.raises(InvalidInputError, match="says nothing of capacities"):
        expected_loss([0.5], limited, fitted_to=fit)
