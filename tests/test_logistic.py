"""Weighted logistic regression against statsmodels and SciPy, and the choice of its smaller problems."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from calibrant.errors import ConvergenceWarning
from calibrant.logistic import (
    LogisticProblem,
    _Cells,
    base_logit,
    fit_slope_intercept,
    minimise,
    on_logits,
    platt_targets,
    rising_slope,
    separates,
)
from calibrant.numerics import expit
from calibrant.summary import TiedScores


def draw(n=500, d=2, seed=0):
    rng = np.random.default_rng(seed)
    columns = [*rng.normal(size=(d - 1, n)) * np.logspace(0, 3, max(d - 1, 1))[:, None], np.ones(n)]
    z = sum(column / np.abs(column).max() for column in columns[:-1]) - 0.3
    return np.stack(columns), rng.exponential(size=n), (rng.random(n) < expit(2.0 * z)).astype(float)


def ties(s, y, w=None):
    w = np.ones(len(s)) if w is None else np.asarray(w, float)
    return TiedScores(np.asarray(s, float), w, w * np.asarray(y, float))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("n", [40, 500, 6_000, 40_000])
def test_minimum_is_that_of_statsmodels(n, d):
    columns, w, y = draw(n, d)
    found = minimise(LogisticProblem(columns, w, w * y), what="fit")
    theirs = sm.GLM(y, np.column_stack(columns), family=sm.families.Binomial(), freq_weights=w).fit(tol=1e-12).params
    np.testing.assert_allclose(found, theirs, rtol=1e-5, atol=1e-7)


def test_value_and_derivatives_are_those_of_differences():
    columns, w, y = draw(300, 3)
    problem, theta = LogisticProblem(columns, w, w * y), np.array([0.3, 1e-3, -0.2])
    gradient, hessian, spread = problem.derivatives(theta)
    for j, step in enumerate((1e-5, 1e-8, 1e-5)):
        up, down = (theta + sign * step * np.eye(3)[j] for sign in (1.0, -1.0))
        assert (problem.value(up) - problem.value(down)) / (2 * step) == pytest.approx(gradient[j], rel=1e-4)
        slope = (problem.derivatives(up)[0] - problem.derivatives(down)[0]) / (2 * step)
        np.testing.assert_allclose(hessian[j], slope, rtol=1e-4, atol=1e-6)
    q = expit(sum(t * column for t, column in zip(theta, columns, strict=True)))
    assert spread == pytest.approx((w * q * (1 - q)).sum())


def logits(n, steepness, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.normal(0.0, 2.0, n) + 3.0
    return s, (rng.random(n) < expit(steepness * (s - 2.5))).astype(float), rng.exponential(size=n)


@pytest.mark.parametrize("rates", [None, (0.0, 1.0), (0.1, 0.7)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("steepness", [-0.4, 1.0, 40.0])  # cells tell the rows of the first two
def test_fit_of_many_rows_is_that_of_each_row(steepness, weighted, rates):
    s, y, w = logits(50_000, steepness)
    rows = ties(s, y, w if weighted else None)
    theirs = minimise(
        LogisticProblem(np.stack((s, np.ones(s.size))), rows.weight, platt_targets(rows, rates)), what="rows"
    )
    np.testing.assert_allclose(fit_slope_intercept(rows, rates), theirs, rtol=1e-7)


def test_close_scores_far_from_zero_are_told_apart_as_near_it():
    s, y, w = logits(50_000, 1.0)
    s = np.ldexp(np.rint(np.ldexp(s, 10)), -10)  # so that the sums below are exact
    slope, intercept = fit_slope_intercept(ties(s, y, w))
    far = ties(s * 2.0**-10 + 2.0**30, y, w)
    found, level = fit_slope_intercept(far)
    np.testing.assert_allclose(
        found * far.scores + level, slope * s + intercept, rtol=0.0, atol=2e-4
    )  # rounding of the level
    assert found * 2.0**-10 == pytest.approx(slope, rel=1e-9)


def test_cells_tell_the_rows_where_they_are_narrow_only(monkeypatch):
    calls = []
    monkeypatch.setattr("calibrant.logistic.minimise", lambda problem, **_: calls.append(problem) or np.zeros(2))
    for steepness, n_calls in ((1.0, 0), (40.0, 1)):
        fit_slope_intercept(ties(*logits(50_000, steepness)))
        assert len(calls) == n_calls


def test_value_and_derivatives_of_cells_are_those_of_their_rows():
    s, y, w = logits(40_000, 1.0)
    rows = ties(s, y, w)
    cells = _Cells.gather(rows, float(s.min()), float(s.max()), None)
    problem = LogisticProblem(np.stack((s - cells.centre, np.ones(s.size))), w, platt_targets(rows))
    for theta in np.array([[1.0, 0.2], [-0.7, -3.0], [0.0, 1.0]]):
        assert cells.value(theta) == pytest.approx(problem.value(theta), rel=1e-12)
        for found, wanted, error in zip(
            cells.derivatives(theta), problem.derivatives(theta), (1e-11, 1e-5, 1e-5), strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=error, atol=1e-7)


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1.0, 1e200])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_unit_and_origin_of_the_scores_change_nothing_but_the_slope(scale, shift):
    columns, w, y = draw()
    slope, intercept = fit_slope_intercept(ties(columns[0], y, w))
    found, level = fit_slope_intercept(ties(scale * (columns[0] + shift), y, w))
    assert found * scale == pytest.approx(slope, rel=1e-6)
    assert level + found * scale * shift == pytest.approx(intercept, rel=1e-6, abs=1e-6)


def test_constant_scores_have_no_slope_and_the_logit_of_their_rate():
    rows = ties([0.7] * 10, [1, 1, 1] + [0] * 7)
    assert fit_slope_intercept(rows) == (0.0, base_logit(rows))
    assert base_logit(rows) == pytest.approx(np.log(3 / 7))


@pytest.mark.parametrize("has_ones", [True, False])
def test_a_slope_that_would_fall_is_zero_and_the_intercept_fits_alone(has_ones):
    columns, w, y = draw()
    used = columns if has_ones else columns[:1]
    loss, slope, intercept = rising_slope(LogisticProblem(np.vstack(used), w, w * y), what="fit")
    assert slope > 0.0
    problem = LogisticProblem(np.vstack([-columns[0], *used[1:]]), w, w * y)
    turned, none, level = rising_slope(problem, what="fit")
    assert none == 0.0
    rate = np.average(y, weights=w)
    assert level == pytest.approx(np.log(rate / (1 - rate)) if has_ones else 0.0)
    assert turned == problem.value(np.array([0.0, level][: len(used)]))
    assert loss < turned
    assert (intercept != 0.0) == has_ones


@pytest.mark.parametrize(
    ("scores", "y", "wanted"),
    [
        ([0.1, 0.2, 0.3], [0, 0, 1], True),
        ([0.1, 0.2, 0.2], [0, 0, 1], True),  # they touch
        ([0.1, 0.2, 0.15], [0, 0, 1], False),
        ([0.3, 0.2, 0.1], [0, 0, 1], False),  # the wrong way round
        ([0.2, 0.2, 0.2], [0, 0, 1], False),  # no slope
    ],
)
def test_separation_is_that_of_all_negative_scores_below_all_positive_ones(scores, y, wanted):
    assert separates(ties(scores, y)) == wanted


def test_targets_are_those_of_platt():
    rows = ties([0.1, 0.2, 0.3, 0.4], [0, 1, 1, 0], [1.0, 1.0, 2.0, 1.0])
    np.testing.assert_allclose(platt_targets(rows), [1 / 4, 4 / 5, 2 * 4 / 5, 1 / 4])
    unit = TiedScores(np.arange(4.0), np.broadcast_to(1.0, (4,)), np.array([0.0, 1.0, 1.0, 0.0]))
    np.testing.assert_allclose(platt_targets(unit), [1 / 4, 3 / 4, 3 / 4, 1 / 4])


def test_probabilities_enter_as_logits_of_the_clip_that_they_set():
    rows, clip = on_logits(ties([0.0, 0.2, 1.0], [0, 1, 1]), "probability")
    assert clip == pytest.approx(0.1)
    np.testing.assert_allclose(expit(rows.scores), [0.1, 0.2, 0.9])
    raw = ties([-3.0, 4.0], [0, 1])
    assert on_logits(raw, "logit") == (raw, None)


def test_an_iteration_that_stops_short_says_so(monkeypatch):
    monkeypatch.setattr("calibrant.logistic._MAX_ITER", 1)
    columns, w, y = draw()
    with pytest.warns(ConvergenceWarning, match=r"some fit: Newton decrement .* > tol 1e-08 after 1 iterations"):
        minimise(LogisticProblem(columns, w, w * y), what="some fit")
