"""Coupling of one-vs-rest probabilities: the optimum, its edges, and what the calibrator makes of it."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from scipy.special import rel_entr

import calibrant as cb
from calibrant import kernels
from calibrant.errors import DataWarning, UnknownNameError
from calibrant.maps.coupling import couple, most_likely
from calibrant.numerics import EPS

RATE = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 0.5, 1e-12, 1.0 - 1e-12, 5e-324, 1.0 - 2.0**-53]))
#: Nearer to 0 or 1, what is right to the last bit can round to them, where the divergence is infinite.
ORDINARY = st.one_of(st.floats(1e-12, 1.0 - 1e-12), st.sampled_from([0.0, 1.0, 0.5]))
ROWS = st.integers(2, 7).flatmap(lambda k: st.lists(RATE, min_size=k, max_size=k))


def divergence(r: np.ndarray, p: np.ndarray) -> float:
    """Return the sum of binary Kullback-Leibler divergences, by SciPy."""
    return float((rel_entr(r, p) + rel_entr(1.0 - r, 1.0 - p)).sum())


def draw(n: int, k: int, seed: int = 0) -> np.ndarray:
    """Return rates whose rows sum to far less and far more than one, with some zeros and ones."""
    rng = np.random.default_rng(seed)
    r = rng.beta(0.4, 0.4 * rng.choice([0.3, 1.0, 3.0], (n, 1)) * k, (n, k))
    r[rng.random(r.shape) < 0.15] = 0.0
    r[rng.random(r.shape) < 0.03] = 1.0
    return r


@pytest.mark.parametrize("k", [2, 3, 5])
def test_distribution_is_the_one_that_slsqp_finds(k: int) -> None:
    r = np.clip(draw(40, k), 1e-3, 1.0 - 1e-3)
    p = most_likely(r)
    for row, found in zip(r, p, strict=True):
        best = minimize(
            lambda q, row=row: divergence(row, np.clip(q, 1e-9, 1.0 - 1e-9)),
            np.full(k, 1.0 / k),
            bounds=[(1e-9, 1.0 - 1e-9)] * k,
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1.0},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert divergence(row, found) <= best.fun + 1e-9
        np.testing.assert_allclose(found, best.x, atol=2e-4)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(ORDINARY, min_size=2, max_size=7), st.integers(0, 2**32 - 1))
def test_no_other_distribution_is_nearer(row: list[float], seed: int) -> None:
    r = np.array(row)
    (p,) = most_likely(r[None])
    least = divergence(r, p)
    others = np.random.default_rng(seed).dirichlet(np.full(r.size, 0.5), 50)
    for other in (*others, *np.eye(r.size), np.full(r.size, 1.0 / r.size)):
        for step in (1.0, 1e-2, 1e-4):
            assert least <= divergence(r, p + step * (other - p)) + 1e-12


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(ROWS)
def test_rows_are_distributions_and_larger_rates_stay_larger(row: list[float]) -> None:
    (p,) = most_likely(np.array([row]))
    assert (p >= 0.0).all()
    assert abs(p.sum() - 1.0) <= 4 * EPS
    order = np.argsort(row, kind="stable")
    assert (np.diff(p[order]) >= -2 * EPS).all()


@pytest.mark.parametrize("r", [[0.3, 0.2, 0.1], [0.9, 0.6, 0.01, 0.2], [0.999, 0.998], [1e-9, 0.2, 0.3], [0.5] * 8])
def test_the_multiplier_is_that_of_exact_arithmetic(r: list[float]) -> None:
    """(p - r) / (p (1 - p)) = mu in 60 digits, bisected for the mu whose roots sum to one."""
    with localcontext() as context:
        context.prec = 60
        rates = [Decimal(v) for v in r]

        def roots(mu: Decimal) -> list[Decimal]:
            d = [((1 - mu) ** 2 + 4 * mu * v).sqrt() for v in rates]
            return [2 * v / (1 - mu + each) for v, each in zip(rates, d, strict=True)]

        low, high = Decimal(1) - 2 * sum(rates), Decimal(len(r)) / (len(r) - 1)
        for _ in range(180):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(roots(middle)) < 1 else (low, middle)
        wanted = [float(p) for p in roots(low)]
    np.testing.assert_allclose(most_likely(np.array([r]))[0], wanted, rtol=1e-13)


@pytest.mark.parametrize(
    ("rates", "wanted"),
    [
        ([0.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]),
        ([1.0, 1.0, 1.0, 1.0], [0.25] * 4),
        ([1.0, 1.0, 0.0], [0.5, 0.5, 0.0]),
        ([0.0, 1.0, 0.0], [0.0, 1.0, 0.0]),
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
        ([1.0, 0.5, 0.0], [0.75, 0.25, 0.0]),  # 1 / p = 0.5 / p' - 0.5 / (1 - p') with p' = 1 - p
        ([0.0, 0.5, 0.4], [0.0, 0.55, 0.45]),  # two classes share what is missing, as (p - r) / (p (1 - p)) are equal
    ],
)
def test_edges_have_their_stated_meaning(rates: list[float], wanted: list[float]) -> None:
    np.testing.assert_allclose(most_likely(np.array([rates])), [wanted], atol=1e-15)


@pytest.mark.parametrize(("rates", "stays"), [([0.0, 0.25, 0.26], True), ([0.0, 0.25, 0.24], False)])
def test_zero_stays_zero_while_the_square_roots_of_the_others_reach_one(rates: list[float], stays: bool) -> None:
    assert (most_likely(np.array([rates]))[0, 0] == 0.0) == stays


def test_two_classes_have_their_closed_form() -> None:
    """Of two classes the second column speaks for the first: p = (r_1 + 1 - r_2) / 2."""
    r = np.random.default_rng(0).random((500, 2))
    np.testing.assert_allclose(most_likely(r)[:, 0], 0.5 * (r[:, 0] + 1.0 - r[:, 1]), atol=1e-14)


@pytest.mark.parametrize("k", [2, 3, 10, 40, 100])
def test_one_row_alone_has_the_bits_of_the_row_in_a_batch(k: int) -> None:
    r = draw(300, k)
    batch = most_likely(r)
    np.testing.assert_array_equal(np.vstack([most_likely(r[i : i + 1]) for i in range(300)]), batch)
    np.testing.assert_array_equal(most_likely(r[::-1].copy())[::-1], batch)


def test_every_row_converges() -> None:
    for k in (2, 3, 10, 100):
        r = draw(4000, k, seed=k)
        p = most_likely(r)
        inside = (p > 0.0) & (p < 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mu = np.where(inside & (r > 0.0) & (r < 1.0), (p - r) / (p * (1.0 - p)), np.nan)
        full = np.isfinite(mu).sum(axis=1) > 1
        low, high = np.nanmin(mu[full], axis=1), np.nanmax(mu[full], axis=1)
        assert (high - low <= 1e-9 * (1.0 + np.abs(low))).mean() > 0.999
        assert full.sum() > 1000


def test_normalise_divides_by_the_sum_and_makes_zeros_uniform() -> None:
    r = np.array([[0.2, 0.2, 0.6], [0.5, 0.5, 0.25], [0.0, 0.0, 0.0]])
    wanted = [[0.2, 0.2, 0.6], [0.4, 0.4, 0.2], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(couple(r, "normalise"), wanted, rtol=1e-15)


def scores(n: int = 600, k: int = 4, seed: int = 0, sharpness: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return overconfident probabilities of k classes."""
    rng = np.random.default_rng(seed)
    z = sharpness * rng.normal(size=(n, k))
    truth = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(k, p=row) for row in truth])
    p = np.exp(2.0 * z)
    return p / p.sum(axis=1, keepdims=True), y


def test_the_calibrator_couples_what_scikit_learn_fits_to_each_column() -> None:
    from sklearn.isotonic import IsotonicRegression

    P, y = scores()
    rates = np.column_stack(
        [
            IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(P[:, k], y == k).predict(P[:, k])
            for k in range(4)
        ]
    )
    plain = cb.OneVsRestCalibrator().fit(P, y).predict_proba(P)
    np.testing.assert_allclose(plain, rates / rates.sum(axis=1, keepdims=True), atol=1e-12)
    coupled = cb.OneVsRestCalibrator(coupling="likelihood").fit(P, y).predict_proba(P)
    np.testing.assert_allclose(coupled, most_likely(rates), atol=1e-8)
    assert np.abs(coupled - plain).max() > 0.01


def test_likelihood_lowers_the_held_out_log_loss_where_rows_are_sure() -> None:
    losses = {"normalise": 0.0, "likelihood": 0.0}
    for seed in range(5):
        P, y = scores(2400, 5, seed, sharpness=8.0)
        for coupling in losses:
            inner = cb.IsotonicCalibrator(bounded=True)
            fitted = cb.OneVsRestCalibrator(inner, coupling=coupling).fit(P[:400], y[:400])
            losses[coupling] += cb.metrics.log_loss(y[400:], fitted.predict_proba(P[400:])) / 5
    assert losses["likelihood"] < losses["normalise"] - 0.002


def test_class_without_rows_is_coupled_by_its_own_probabilities() -> None:
    P, y = scores(300, 3)
    with pytest.warns(DataWarning, match="class 2 has no rows to calibrate on"):
        fitted = cb.OneVsRestCalibrator("beta", coupling="likelihood").fit(P, np.minimum(y, 1))
    rates = np.column_stack([m.apply(P[:, k].copy()) for k, m in enumerate(fitted.map_.maps)])
    np.testing.assert_array_equal(rates[:, 2], P[:, 2])
    np.testing.assert_array_equal(fitted.predict_proba(P), most_likely(rates))


def test_coupling_is_a_parameter_like_the_others() -> None:
    from sklearn.base import clone

    calibrator = cb.OneVsRestCalibrator("beta", coupling="likelihood")
    assert repr(clone(calibrator)) == "OneVsRestCalibrator('beta', coupling='likelihood')"
    assert repr(cb.OneVsRestCalibrator()) == "OneVsRestCalibrator('isotonic')"
    assert cb.OneVsRestCalibrator(cb.HistogramCalibrator(n_bins=3)).get_params()["calibrator__n_bins"] == 3


def test_unknown_coupling_is_refused() -> None:
    P, y = scores(30)
    with pytest.raises(UnknownNameError, match=r"unknown value of coupling: 'likelyhood'. Did you mean 'likelihood'\?"):
        cb.OneVsRestCalibrator(coupling="likelyhood").fit(P, y)  # type: ignore[arg-type]


def test_newton_takes_few_steps() -> None:
    """Halving the bracket alone would take 50 steps for each row; at a kink of the roots of zeros some rows do."""
    rates = draw(2000, 10)
    assert kernels.couple_rows(rates, np.empty_like(rates)) < 12 * 2000
