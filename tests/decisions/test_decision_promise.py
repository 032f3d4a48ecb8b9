"""expected_loss: the promise, its correction by cross-fitting, and what its interval carries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

import calibrant as cb
from calibrant.decisions import CalibrationRows, Policy, Problem, evaluate, expected_loss
from calibrant.decisions.choosing import charges_of, choose
from calibrant.errors import CalibrantError, InvalidInputError, InvalidLabelError, InvalidTypeError
from calibrant.forecasts import GaussianForecast
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
    with pytest.raises(InvalidInputError, match="says nothing of capacities of a rule"):
        expected_loss([0.5], lambda p: p > 0.3, limited, fitted_to=fit)
    with pytest.raises(InvalidInputError, match="groups= is what a calibrator of scores was fitted by"):
        expected_loss([0.5], YES_NO, groups=["a"])
    with pytest.raises(InvalidInputError, match="was not fitted by group"):
        expected_loss([0.5], YES_NO, calibrator=calibrator, fitted_to=fit, groups=["a"])


# --- capacities ---------------------------------------------------------------------------------------------------

CALL = {"wait": {0: 0.0, 1: 4.0}, "call": {0: 1.0, 1: 0.5}}
MAIL = {**CALL, "mail": {0: 0.3, 1: 2.2}}


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(2, 4))
def test_with_the_prices_of_places_no_row_would_rather_have_another_action(seed: int, n: int, n_actions: int) -> None:
    rng = np.random.default_rng(seed)
    losses = rng.normal(size=(n, n_actions))
    limited = rng.permutation(n_actions)[: rng.integers(1, n_actions)].tolist()
    capacity = {a: int(rng.integers(0, n + 1)) for a in limited}
    taken = choose(losses, capacity)
    charges = charges_of(losses, taken, capacity)
    paid = losses + charges
    assert (paid[np.arange(n), taken] <= paid.min(axis=1) + 1e-12).all()
    assert (charges >= 0.0).all()
    assert all(charges[a] == 0.0 for a in range(n_actions) if (taken == a).sum() < capacity.get(a, n + 1))


def test_a_price_lies_between_the_gains_of_the_last_row_in_and_the_first_one_out() -> None:
    p = draw(300, 10)[0]
    losses = Problem(CALL).expected_losses(p)
    gain = np.sort(losses[:, 0] - losses[:, 1])[::-1]
    charges = charges_of(losses, choose(losses, {1: 20}), {1: 20})
    assert charges == pytest.approx([0.0, 0.5 * (gain[19] + gain[20])])
    assert charges_of(losses, choose(losses, {1: 0}), {1: 0}).tolist() == [0.0, np.inf]


def test_the_correction_decides_the_fit_rows_by_the_price_of_the_new_ones() -> None:
    """Of two days the fit rows are decided twice, by the price of each, and count by their shares of the new rows."""
    (s, y, _), new, day = draw(400, 11), draw(300, 12)[0], np.repeat([0, 1], [100, 200])
    limited = Problem(CALL, capacity={"call": 15})
    found = expected_loss(new, limited, fitted_to=(s, y), per=day)
    off, free = 0.0, Problem(CALL)
    for name, share in ((0, 1 / 3), (1, 2 / 3)):
        gain = np.sort(np.diff(-free.expected_losses(new[day == name]), axis=1)[:, 0])[::-1]
        price = 0.5 * (gain[14] + gain[15])
        expected = free.expected_losses(s)
        taken = (expected[:, 1] + price < expected[:, 0]).astype(int)
        lost = np.array([[0.0, 4.0], [1.0, 0.5]])[taken, y]
        off += share * np.mean(lost - expected[np.arange(400), taken])
    assert found.value == pytest.approx(expected_loss(new, limited, per=day).value + off, abs=1e-12)


def test_a_capacity_that_nobody_reaches_changes_no_promise() -> None:
    (s, y, _), new = draw(200, 13), draw(300, 14)[0]
    calibrator = cb.SigmoidCalibrator().fit(s, y)
    for about in ("future", "rows"):
        limited, free = (
            expected_loss(new, Problem(CALL, capacity=most), calibrator=calibrator, fitted_to=(s, y), about=about)
            for most in ({"call": 300}, None)
        )
        assert limited == free


def test_forecasts_and_costs_of_rows_have_prices_too() -> None:
    rng = np.random.default_rng(15)
    mean, fee = rng.normal(size=600), rng.uniform(0.5, 1.5, 600)
    came, forecast = mean + rng.normal(size=600), GaussianForecast(mean, 0.4)
    losses = {"few": {"calm": 0.0, "busy": 9.0}, "all": {"calm": "fee", "busy": "fee"}}
    limited = Problem(losses, thresholds=1.0, capacity={"all": 40})
    known = CalibrationRows(forecast[:300], came[:300], costs={"fee": fee[:300]})
    costs = {"fee": fee[300:]}
    found = expected_loss(forecast[300:], limited, fitted_to=known, costs=costs, about="rows")
    realised = evaluate(came[300:], forecast[300:], limited, costs=costs).realised
    alone = expected_loss(forecast[300:], limited, costs=costs, about="rows")
    assert found.low < realised.value < found.high
    assert alone.high < realised.value, "too sure a forecast promises too little"


@pytest.mark.slow
@pytest.mark.parametrize("about", ["future", "rows"])
@pytest.mark.parametrize("name", ["two", "three"])
def test_promises_with_capacities_cover(about: Any, name: str) -> None:
    """Of 150 samples the share is uncertain by 1.8%; that of the scores as they are, without correction, is far off."""
    table, most = (CALL, {"call": 60}) if name == "two" else (MAIL, {"call": 40, "mail": 80})
    limited, costs = Problem(table, capacity=most), np.array([list(row.values()) for row in table.values()])
    truth, held, naive = [], [], []

    def lost(seed: int, *, is_mean: bool) -> float:
        s, y, rate = draw(500, seed)
        taken = [limited.actions.index(name) for name in Policy(limited).decide(s)]
        of = costs[taken]
        return float((of[:, 0] * (1 - rate) + of[:, 1] * rate if is_mean else of[np.arange(500), y]).mean())

    if about == "future":
        truth = [float(np.mean([lost(90_000 + k, is_mean=True) for k in range(300)]))] * 150
    for seed in range(150):
        s, y, _ = draw(300, 1_000 + seed)
        new = draw(500, 5_000 + seed)[0]
        if about == "rows":
            truth.append(lost(5_000 + seed, is_mean=False))
        found, alone = (expected_loss(new, limited, about=about, fitted_to=to) for to in ((s, y), None))
        held.append(found.low <= truth[seed] <= found.high)
        naive.append(alone.low <= truth[seed] <= alone.high)
    assert 0.9 <= np.mean(held) <= 0.99
    assert np.mean(naive) <= 0.7


def test_a_place_that_is_taken_is_taken_from_another_row() -> None:
    """Of calibrated rows, draws of the rows vary as the interval says; losses of the rows alone vary otherwise."""
    limited = Problem(CALL, capacity={"call": 60})
    promises = [expected_loss(draw(500, seed)[2], limited) for seed in range(400)]
    spread = np.std([each.value for each in promises])
    said = np.mean([(each.high - each.low) / (2 * stats.norm.ppf(0.975)) for each in promises])
    assert said == pytest.approx(spread, rel=0.12)


@pytest.mark.parametrize(
    ("make", "beside", "refused"),
    [
        (lambda: cb.GroupedCalibrator("sigmoid"), lambda site: {"groups": site}, "fitted by group"),
        (
            lambda: cb.SegmentCalibrator("sigmoid", cv=2),
            lambda site: {"features": {"site": site}},
            "fitted to features",
        ),
    ],
    ids=["by group", "by segments"],
)
def test_calibrators_by_more_than_scores_are_cross_fitted_by_it(make, beside, refused) -> None:
    (s, y, _), (new, _, _) = draw(600, 16), draw(500, 17)
    site, other = (np.random.default_rng(seed).choice(["a", "b"], n) for seed, n in ((1, 600), (2, 500)))
    y = np.where(site == "b", 1 - y, y)
    calibrator = make().fit(s, y, **beside(site))
    fitted_to = CalibrationRows(s, y, **beside(site))
    found = expected_loss(new, YES_NO, calibrator=calibrator, fitted_to=fitted_to, **beside(other), n_folds=5)
    from calibrant.dependence import stratified_folds

    folds, out = stratified_folds(y, 5, 0), np.empty(600)
    for fold in range(5):
        held = folds == fold
        fitted = make().fit(s[~held], y[~held], **beside(site[~held]))
        out[held] = fitted.predict_proba(s[held], **beside(site[held]))
    plain = expected_loss(calibrator.predict_proba(new, **beside(other)), YES_NO).value
    assert found.value == pytest.approx(plain + evaluate(y, out, YES_NO)["gap"].value, abs=1e-12)
    with pytest.raises(InvalidInputError, match=refused):
        expected_loss(new, YES_NO, calibrator=calibrator, fitted_to=fitted_to)


def test_labels_that_the_calibrator_was_not_fitted_to_are_refused() -> None:
    """Of other labels the larger one may be the other class, so that all would be fitted the wrong way round."""
    (s, y, _), (new, _, _) = draw(300, 16), draw(200, 17)
    calibrator = cb.BetaCalibrator().fit(s, y)
    known = expected_loss(new, YES_NO, calibrator=calibrator, fitted_to=(s, y))
    for same in (y.astype(bool), y.astype(str), y.astype(float)):
        assert expected_loss(new, YES_NO, calibrator=calibrator, fitted_to=(s, same)) == known
    with pytest.raises(InvalidLabelError, match="hold 'bad', and the calibrator was fitted to the classes 0, 1"):
        expected_loss(new, YES_NO, calibrator=calibrator, fitted_to=(s, np.where(y, "bad", "good")))
