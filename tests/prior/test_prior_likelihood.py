"""New class rates from probabilities alone: the maximum of the likelihood, its certificate, and honest intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from prior_data import draw, even
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.stats import chi2

import calibrant as cb
from calibrant.errors import ConvergenceWarning, DataWarning, InvalidInputError, InvalidTypeError, ShapeError
from calibrant.prior import LikelihoodEstimate, estimate_prior, prior_shift


def plain_em(p: np.ndarray, old: np.ndarray, n_steps: int) -> np.ndarray:
    """Follow equations 2.9 and 2.10 of Saerens, Latinne and Decaestecker by hand."""
    new = old.copy()
    for _ in range(n_steps):
        q = p * (new / old)
        new = (q / q.sum(axis=1, keepdims=True)).mean(axis=0)
    return new


def log_likelihood(p: np.ndarray, old: np.ndarray, new: np.ndarray) -> float:
    return float(np.log((p * (new / old)).sum(axis=1)).sum())


@pytest.mark.parametrize("k", [2, 3, 6])
def test_maximum_is_where_plain_em_ends(k: int) -> None:
    rng = np.random.default_rng(k)
    old = rng.dirichlet(np.full(k, 5.0))
    _, p = draw(rng, 1_000, rng.dirichlet(np.full(k, 5.0)).tolist(), 1.5)
    p = np.asarray(prior_shift(p, old=even(k), new=old))
    estimate = estimate_prior(p, old=old)
    np.testing.assert_allclose(estimate.new, plain_em(p, old, 5_000), atol=2e-8)
    assert estimate.converged
    assert estimate.n_iter < 20
    assert estimate.new.sum() == pytest.approx(1.0, rel=1e-14)


def test_estimate_explains_its_own_correction() -> None:
    """At the maximum the corrected probabilities have the estimated rates as their mean."""
    _, p = draw(np.random.default_rng(1), 500, [0.2, 0.7, 0.1], 1.0)
    estimate = estimate_prior(p, old=even(3))
    np.testing.assert_allclose(estimate.shift().predict_proba(p).mean(axis=0), estimate.new, atol=1e-8)


def test_maximum_and_statistic_are_those_of_a_general_optimiser() -> None:
    _, p = draw(np.random.default_rng(2), 300, [0.5, 0.2, 0.2, 0.1], 1.0)
    old = even(4)
    found = minimize(
        lambda v: -log_likelihood(p, old, v) / 300,
        old,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * 4,
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1.0},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    estimate = estimate_prior(p, old=old)
    np.testing.assert_allclose(estimate.new, found.x, atol=1e-5)
    statistic = 2.0 * (log_likelihood(p, old, estimate.new) - log_likelihood(p, old, old))
    assert estimate.statistic == pytest.approx(statistic, rel=1e-9)
    assert -300 * found.fun <= 300 * estimate.log_likelihood + log_likelihood(p, old, old) + 300 * estimate.gap + 1e-9
    assert estimate.p_value == pytest.approx(chi2.sf(statistic, 3), rel=1e-9)


def test_certain_predictions_are_counted() -> None:
    """Rows of 0 and 1 have the share of ones as the closed form, and the interval of a binomial likelihood."""
    p = np.repeat([1.0, 0.0], [30, 70])
    estimate = estimate_prior(p, old=0.5, level=0.9)
    np.testing.assert_allclose(estimate.new, [0.7, 0.3], atol=1e-9)

    def excess(q: float) -> float:
        best = 30 * np.log(0.3) + 70 * np.log(0.7)
        return 2 * (best - 30 * np.log(q) - 70 * np.log1p(-q)) - chi2.ppf(0.9, 1)

    ends = brentq(excess, 1e-6, 0.3), brentq(excess, 0.3, 1 - 1e-6)
    assert (estimate.low[1], estimate.high[1]) == pytest.approx(ends, rel=1e-3)
    np.testing.assert_allclose(estimate.low, 1.0 - estimate.high[::-1], atol=1e-4)


def test_two_values_of_two_classes_have_a_closed_form() -> None:
    """With p in {a, 1 - a} at old 1/2, the share s of a solves s = a v + (1 - a)(1 - v)."""
    a, s = 0.8, 0.62
    p = np.repeat([a, 1.0 - a], [62, 38])
    assert estimate_prior(p, old=0.5).new[1] == pytest.approx((s - (1 - a)) / (2 * a - 1), abs=1e-9)


def test_class_that_nothing_speaks_for_is_absent() -> None:
    rng = np.random.default_rng(3)
    _, p = draw(rng, 400, [0.6, 0.4, 0.0], 2.5)
    estimate = estimate_prior(p, old=even(3))
    assert estimate.new[2] < 0.01
    assert estimate.low[2] == 0.0
    assert estimate.high[2] > 0.001
    certain = estimate_prior(np.full(50, 1e-9), old=0.5)
    assert certain.new[1] < 1e-12
    assert (certain.low[1], certain.high[0]) == (0.0, 1.0)
    assert 0.01 < certain.high[1] < 0.1
    with pytest.warns(DataWarning, match="the new rate of 1 is below 0.019, one row in 52, and is taken as that"):
        shift = certain.shift()
    assert shift.factor[1] / shift.factor[0] == pytest.approx(1 / 51, rel=0.05)


def test_interval_ends_where_the_profile_likelihood_has_fallen_by_the_quantile() -> None:
    _, p = draw(np.random.default_rng(4), 200, [0.5, 0.3, 0.2], 1.0)
    old = even(3)
    estimate = estimate_prior(p, old=old)
    best = log_likelihood(p, old, estimate.new)

    def profile(share: float) -> float:
        def lost(t: float) -> float:
            return -log_likelihood(p, old, np.array([share, (1 - share) * t, (1 - share) * (1 - t)]))

        return -minimize_scalar(lost, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10}).fun

    for end in (estimate.low[0], estimate.high[0]):
        assert 2 * (best - profile(end)) == pytest.approx(chi2.ppf(0.95, 1), rel=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("rates", "least"), [([0.9, 0.1], 0.91), ([0.5, 0.3, 0.2], 0.91), ([0.9, 0.1, 0.0], 0.94)])
def test_intervals_cover_the_rates_that_the_rows_were_drawn_with(rates: list[float], least: float) -> None:
    rng = np.random.default_rng(5)
    covered = np.zeros(len(rates))
    for _ in range(200):
        _, p = draw(rng, 200, rates, 1.2)
        estimate = estimate_prior(p, old=even(len(rates)))
        covered += (estimate.low <= rates) & (rates <= estimate.high)
    assert (covered / 200 >= least).all()  # 0.95 less 2.6 standard errors of 200 draws


@pytest.mark.slow
def test_no_shift_is_rejected_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(6)
    p_values = [estimate_prior(draw(rng, 200, [1 / 3] * 3, 1.2)[1], old=even(3)).p_value for _ in range(200)]
    assert 0.01 <= np.mean(np.array(p_values) < 0.05) <= 0.10
    assert 0.4 < np.mean(p_values) < 0.6


def test_equal_components_have_a_solution_too() -> None:
    p = np.column_stack((np.full(40, 0.5), np.full(40, 0.25), np.full(40, 0.25)))
    estimate = estimate_prior(p, old=[0.5, 0.25, 0.25])
    assert estimate.converged
    assert estimate.p_value == 1.0
    assert estimate.low.tolist() == [0.0] * 3
    assert estimate.high.tolist() == [1.0] * 3


def test_weight_two_is_two_rows_and_zero_none() -> None:
    rng = np.random.default_rng(7)
    _, p = draw(rng, 100, [0.7, 0.3], 1.0)
    w = rng.integers(0, 3, 100)
    weighted = estimate_prior(p, old=even(2), sample_weight=w)
    repeated = estimate_prior(np.repeat(p, w, axis=0), old=even(2))
    np.testing.assert_allclose(weighted.new, repeated.new, atol=1e-9)
    assert weighted.n == np.count_nonzero(w)
    same = estimate_prior(p, old=even(2), sample_weight=np.full(100, 2.0))
    np.testing.assert_allclose(same.low, estimate_prior(p, old=even(2)).low, rtol=1e-9)


def test_one_column_and_two_agree_and_order_of_classes_does_not_matter() -> None:
    _, p = draw(np.random.default_rng(8), 300, [0.5, 0.3, 0.2], 1.0)
    binary = p[:, :2] / p[:, :2].sum(axis=1, keepdims=True)
    one, two = estimate_prior(binary[:, 1], old=0.4), estimate_prior(binary, old=[0.6, 0.4])
    np.testing.assert_allclose(one.new, two.new, atol=1e-9)
    turned = estimate_prior(p[:, ::-1], old=even(3))
    np.testing.assert_allclose(turned.new[::-1], estimate_prior(p, old=even(3)).new, atol=1e-7)


def test_correction_is_saved_and_has_the_names_of_the_classes(tmp_path: Any) -> None:
    _, p = draw(np.random.default_rng(9), 300, [0.9, 0.1], 1.5)
    estimate = estimate_prior(p, old=even(2), classes=["no", "yes"])
    assert isinstance(estimate, LikelihoodEstimate)
    assert str(estimate).splitlines()[-2].split()[:2] == ["no", "0.5000"]
    cb.save(estimate.shift(), tmp_path / "shift.json")
    assert cb.load(tmp_path / "shift.json").classes_.tolist() == ["no", "yes"]
    assert estimate.to_dict()["classes"] == ["no", "yes"]


def test_too_few_iterations_are_said() -> None:
    _, p = draw(np.random.default_rng(10), 300, [0.9, 0.1], 1.0)
    with pytest.warns(
        ConvergenceWarning, match=r"may be .* per row below its maximum, more than tol=1e-10, after 1 it"
    ):
        estimate = estimate_prior(p, old=even(2), max_iter=1)
    assert not estimate.converged


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"old": [0.2, 0.3, 0.5]}, ShapeError, "probabilities has 1 columns and old 3 base rates"),
        ({"old": 1.0}, InvalidInputError, "old=1.0 is no base rate"),
        ({"old": 0.5, "tol": 0.0}, InvalidInputError, r"tol=0.0 is outside \(0, inf\)"),
        ({"old": 0.5, "tol": "small"}, InvalidTypeError, "tol='small' is not a number"),
        ({"old": 0.5, "level": 1.0}, InvalidInputError, "level=1.0 is outside"),
        ({"old": 0.5, "max_iter": 0}, InvalidInputError, "max_iter=0 is too small"),
        ({"old": 0.5, "classes": ["a"]}, ShapeError, "classes names 1 classes for 2"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        estimate_prior([0.2, 0.4, 0.9], **arguments)


def test_no_row_becomes_impossible_however_light_it_is() -> None:
    """A floor under the density makes an impossible row of next to no weight look cheap; in truth it costs all."""
    quarters = [[2, 1, 0, 1], [1, 1, 2, 0], [0, 3, 0, 1], [2, 1, 0, 1], [1, 1, 0, 2], [1, 2, 1, 0], [0, 2, 1, 1]]
    weight = [0.075, 0.81, 6e-05, 1.3e-05, 0.12, 0.0012, 1.0]
    p, old = np.array(quarters) / 4, np.array([0.14, 0.39, 0.17, 0.3])
    estimate = estimate_prior(p, old=old, sample_weight=weight)
    assert estimate.converged
    assert ((p / old) @ estimate.new).min() > 0.0
