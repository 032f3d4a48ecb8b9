"""Nearly-isotonic regression: the solution at every price, and what cross-validation makes of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import isotonic_regression, lsq_linear

import calibrant as cb
from calibrant import kernels
from calibrant.calibrators._parts import deal
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.summary import DistinctScores


def solve(values, weight, penalties):
    out = np.empty((len(penalties), len(values)))
    kernels.follow_near_isotonic(np.asarray(values, float), np.asarray(weight, float), np.array(penalties), out)
    return out


def by_dual(values, weight, penalty):
    """The same problem's dual, a least-squares problem in a box: b = values - falls' multipliers / weight."""
    D = -np.diff(np.eye(len(values)), axis=0)
    root = np.sqrt(weight)
    dual = lsq_linear((D / root).T, root * values, bounds=(0.0, penalty), tol=1e-14, max_iter=1000)
    return values - D.T @ dual.x / weight


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("weighted", [False, True])
def test_path_equals_the_dual_s_box_problem_at_every_price(seed, weighted):
    rng = np.random.default_rng(seed)
    values = rng.random(30) + 0.02 * np.arange(30)
    weight = rng.exponential(size=30) + 0.1 if weighted else np.ones(30)
    penalties = [0.001, 0.05, 0.2, 0.7, 3.0]
    for penalty, got in zip(penalties, solve(values, weight, penalties), strict=True):
        np.testing.assert_allclose(got, by_dual(values, weight, penalty), atol=1e-6)


@pytest.mark.parametrize("tied", [False, True])
def test_ends_of_the_path_are_the_values_and_their_isotonic_regression(tied):
    rng = np.random.default_rng(3)
    values, weight = rng.random(200), rng.exponential(size=200)
    if tied:
        values, weight = values.round(1), np.ones(200)
    free, isotonic, far = solve(values, weight, [0.0, 1e6, np.inf])
    np.testing.assert_array_equal(free, values)
    np.testing.assert_allclose(isotonic, isotonic_regression(values, weights=weight).x, atol=1e-12)
    np.testing.assert_array_equal(isotonic, far)


def test_rising_values_are_left_alone():
    values = np.linspace(0.0, 1.0, 9)
    np.testing.assert_array_equal(solve(values, np.ones(9), [0.0, 0.1, np.inf]), [values] * 3)


def test_first_example_by_hand():
    """The fall of 1 from the second value to the third closes at speed 2 until they meet at 1/2, at price 1/2."""
    half, met, after = solve([0.0, 1.0, 0.0, 1.0], np.ones(4), [0.25, 0.5, 7.0])
    assert half.tolist() == [0.0, 0.75, 0.25, 1.0]
    assert met.tolist() == after.tolist() == [0.0, 0.5, 0.5, 1.0]


def draw(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return p, rng


def test_price_zero_is_histogram_binning():
    p, rng = draw()
    y = rng.random(p.size) < p
    ours = cb.NearIsotonicCalibrator(lam=0, n_bins=25).fit(p, y).map_
    theirs = cb.HistogramCalibrator(n_bins=25).fit(p, y).map_
    np.testing.assert_array_equal(ours.edges, theirs.edges)
    np.testing.assert_array_equal(ours.levels, theirs.levels)


def test_a_high_price_is_the_isotonic_regression_of_the_cells():
    p, rng = draw()
    y = rng.random(p.size) < p
    ours = cb.NearIsotonicCalibrator(lam=1e9, n_bins=25).fit(p, y).map_
    cells = cb.HistogramCalibrator(n_bins=25).fit(p, y).map_
    expected = isotonic_regression(cells.levels, weights=np.full(25, p.size / 25)).x
    np.testing.assert_allclose(ours.levels, expected, atol=1e-12)


def test_cross_validation_flattens_noise_and_keeps_a_fall_that_is_real():
    p, rng = draw(5000)
    rising = cb.NearIsotonicCalibrator(n_bins=50).fit(p, rng.random(p.size) < p).map_.levels
    raw = np.maximum(-np.diff(cb.HistogramCalibrator(n_bins=50).fit(p, rng.random(p.size) < p).map_.levels), 0.0)
    assert np.maximum(-np.diff(rising), 0.0).sum() < 0.25 * raw.sum()
    valley = np.where(p < 0.5, 0.8 - p, p - 0.2)
    q = cb.NearIsotonicCalibrator(n_bins=50).fit(p, rng.random(p.size) < valley).predict_proba([0.05, 0.5, 0.95])
    assert q == pytest.approx([0.75, 0.3, 0.75], abs=0.08)


def test_parts_share_out_the_rows_of_each_class():
    rng = np.random.default_rng(0)
    positives, negatives = rng.integers(0, 4, 300).astype(float), rng.integers(0, 4, 300).astype(float)
    weight, dealt = deal(
        DistinctScores(np.arange(300.0), positives + negatives, positives + negatives, positives), 5, 0
    )
    np.testing.assert_array_equal(dealt.sum(axis=0), positives)
    np.testing.assert_array_equal(weight.sum(axis=0), positives + negatives)
    np.testing.assert_array_equal(dealt, dealt.round())
    assert np.ptp(dealt.sum(axis=1)) <= 1.0
    assert np.ptp((weight - dealt).sum(axis=1)) <= 1.0


def test_rows_are_dealt_at_random_and_not_in_turn():
    """In turn, each part would show the very rates of the others, and cross-validation see no noise."""
    _, dealt = deal(DistinctScores(np.arange(500.0), np.full(500, 2.0), np.full(500, 2.0), np.ones(500)), 5, 0)
    gaps = np.diff(np.flatnonzero(dealt[0]))
    assert gaps.min() == 1
    assert gaps.max() > 10


def test_parts_of_few_and_of_many_rows_keep_their_sums():
    for total in (0.5, 2.0, 3e6, 1e80):
        weight, dealt = deal(DistinctScores(np.arange(3.0), *(np.full(3, total),) * 2, np.full(3, 0.25 * total)), 5, 0)
        np.testing.assert_allclose(weight.sum(axis=0), total)
        np.testing.assert_allclose(dealt.sum(axis=1), 0.15 * total, rtol=0.2)
        assert (weight >= dealt).all()


@pytest.mark.parametrize(
    ("params", "kind", "text"),
    [
        ({"lam": -1.0}, InvalidInputError, r"lam=-1.0 is outside \[0, inf\)"),
        ({"lam": float("inf")}, InvalidInputError, r"lam=inf is outside \[0, inf\)"),
        ({"lam": float("nan")}, InvalidInputError, r"lam=nan is outside \[0, inf\)"),
        ({"lam": "auto"}, InvalidTypeError, "lam='auto' is not a number. Pass one that is not negative, or 'cv'"),
        ({"lam": True}, InvalidTypeError, "lam=True is not a number"),
        ({"n_bins": 0}, InvalidInputError, "n_bins=0 is too small"),
    ],
)
def test_bad_arguments_are_named(params, kind, text):
    with pytest.raises(kind, match=text):
        cb.NearIsotonicCalibrator(**params).fit([0.1, 0.9], [0, 1])
