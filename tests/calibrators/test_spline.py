"""The spline calibrator: each curve an optimum, the leave-one-out loss a true one, safe where data are few or odd."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import calibrant as cb
from calibrant.calibrators.rising_curve import CurveProblem, Place, fit_rising_curves
from calibrant.calibrators.spline import fit_paths, gather, leave_one_out
from calibrant.errors import ConvergenceWarning, InvalidInputError
from calibrant.logistic import fit_slope_intercept, platt_rates, platt_targets
from calibrant.numerics import expit, softplus
from calibrant.summary import TiedScores

RATES = {
    "bent": lambda z: expit(np.where(z > 0, 2.0 * z, 0.3 * z)),
    "step": lambda z: np.where(z > 0.5, 0.8, 0.2),
    "wave": lambda z: expit(2.0 * np.sin(2.0 * z)),
    "reversed": lambda z: expit(-z),
}


def draw(rate="bent", n=400, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    return z, rng.random(n) < RATES[rate](z)


def standard_ties(rate="bent", n=400, seed=0, weighted=False):
    z, y = draw(rate, n, seed)
    z, y = np.sort(z), y[np.argsort(z)]
    w = np.random.default_rng(seed + 1).exponential(size=n) if weighted else np.ones(n)
    mean = np.average(z, weights=w)
    return TiedScores((z - mean) / np.sqrt(np.average((z - mean) ** 2, weights=w)), w, np.where(y, w, 0.0))


def hats(u, knots):
    """The interpolation from values at knots to values at u, as a dense matrix."""
    return np.array([np.interp(u, knots, row) for row in np.eye(knots.size)]).T


def bends(knots):
    """The change of slope at each inner knot, as a dense matrix."""
    slopes = np.diff(np.eye(knots.size), axis=0) / np.diff(knots)[:, None]
    return np.diff(slopes, axis=0)


def fit(ties, knots, penalty, target, weight=None):
    weight = ties.weight if weight is None else weight
    total = weight.sum()
    place, start = Place.of(ties.scores, knots), np.linspace(-1.0, 1.0, knots.size)
    shares = np.array([penalty / total])
    (found,) = fit_rising_curves([CurveProblem(place, weight / total, target / total, np.diff(knots), shares, start)])
    assert found.measure[0] < 1e-7
    return found.values[0], found.inverse[0] / total


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("penalty", [0.1, 3.0, 1e3])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_curve_is_the_constrained_optimum(rate, penalty, weighted):
    """Against SLSQP, with rises as variables that are not negative."""
    ties = standard_ties(rate, weighted=weighted)
    knots = np.linspace(ties.scores[0], ties.scores[-1], 9)
    target = platt_targets(ties)
    X, D, total = hats(ties.scores, knots), bends(knots), ties.weight.sum()
    rising = np.tril(np.ones((9, 9)))

    def objective(theta):
        f = X @ (rising @ theta)
        residual = ties.weight * expit(f) - target
        bend = D @ (rising @ theta)
        value = ties.weight @ softplus(f) - target @ f + 0.5 * penalty * bend @ bend
        return value / total, rising.T @ (X.T @ residual + penalty * D.T @ bend) / total

    theirs = minimize(
        objective,
        np.array([-1.0] + [0.2] * 8),
        jac=True,
        bounds=[(None, None)] + [(0.0, None)] * 8,
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    curve, _ = fit(ties, knots, penalty, target)
    ours = objective(np.diff(curve, prepend=0.0))[0]
    assert ours <= theirs.fun + 1e-9
    assert (np.diff(curve) >= 0.0).all()
    np.testing.assert_allclose(curve, rising @ theirs.x, atol=5e-3)


def test_a_huge_penalty_gives_the_line_of_platt():
    ties = standard_ties()
    knots = np.linspace(ties.scores[0], ties.scores[-1], 20)
    slope, intercept = fit_slope_intercept(ties)
    curve, _ = fit(ties, knots, 1e9, platt_targets(ties))
    np.testing.assert_allclose(curve, slope * knots + intercept, atol=1e-5)
    np.testing.assert_allclose(fit_paths([(ties, knots)])[0][0][0], slope * knots + intercept, atol=1e-12)


@pytest.mark.parametrize("penalty", [0.1, 10.0, 1e4])
def test_leave_one_out_loss_is_that_of_refits(penalty):
    """Each row left out in turn and the curve fitted anew, at the same knots and targets."""
    ties = standard_ties(n=80, seed=3)
    knots = np.linspace(ties.scores[0], ties.scores[-1], 15)
    target, X = platt_targets(ties), hats(ties.scores, knots)
    curve, bands = fit(ties, knots, penalty, target)
    inverse = np.diag(bands[0]) + np.diag(bands[1, :-1], 1) + np.diag(bands[1, :-1], -1)
    estimate = leave_one_out(ties, X @ curve, np.einsum("ij,jk,ik->i", X, inverse, X))
    refits = 0.0
    for i in range(ties.weight.size):
        kept = np.ones(ties.weight.size)
        kept[i] = 0.0
        without, _ = fit(ties, knots, penalty, target * kept, weight=kept)
        f = X[i] @ without
        refits += np.logaddexp(0.0, f) - ties.positives[i] * f
    fitted = np.sum(softplus(X @ curve) - ties.positives * (X @ curve))
    assert refits - fitted > 1.0
    assert estimate == pytest.approx(refits, abs=0.1 * (refits - fitted))


def test_the_straight_line_s_leave_one_out_loss_is_that_of_refits():
    ties = standard_ties(n=80, seed=3)
    estimate = fit_paths([(ties, ties.scores[[0, -1]])])[0][1][0]
    refits = 0.0
    for i in range(80):
        kept = np.arange(80) != i
        rest = TiedScores(ties.scores[kept], ties.weight[kept], ties.positives[kept])
        slope, intercept = fit_slope_intercept(rest, platt_rates(ties))
        f = slope * ties.scores[i] + intercept
        refits += np.logaddexp(0.0, f) - ties.positives[i] * f
    assert estimate == pytest.approx(refits, abs=0.05)


@pytest.mark.filterwarnings("ignore:the scores run against the labels")
@pytest.mark.parametrize("rate", RATES)
def test_curve_does_not_fall_even_where_the_rate_does(rate):
    z, y = draw(rate, 2000)
    q = cb.SplineCalibrator(input="score").fit(z, y).predict_proba(np.linspace(-8.0, 8.0, 5001))
    assert (np.diff(q) >= 0.0).all()
    assert 0.0 < q.min()
    assert q.max() < 1.0


def test_scores_that_run_against_the_labels_give_nearly_a_constant():
    z, y = draw("reversed", 2000)
    with pytest.warns(cb.errors.DataWarning, match="run against the labels"):
        q = cb.SplineCalibrator(input="score").fit(z, y).predict_proba(z)
    np.testing.assert_allclose(q, y.mean(), atol=2e-3)


@pytest.mark.parametrize(("rate", "gain"), [("bent", 0.01), ("step", 0.03)])
def test_a_bent_truth_is_found_where_platt_s_line_misses_it(rate, gain):
    z, y = draw(rate, 3000)
    new, _ = draw(rate, 20_000, seed=9)
    truth = RATES[rate](new)

    def risk(calibrator):
        q = calibrator.fit(z, y).predict_proba(new)
        return -np.mean(truth * np.log(q) + (1 - truth) * np.log1p(-q))

    best = -np.mean(truth * np.log(truth) + (1 - truth) * np.log1p(-truth))
    spline = risk(cb.SplineCalibrator(input="score"))
    assert spline < risk(cb.SigmoidCalibrator(input="score")) - gain
    assert spline - best < 0.006


def test_a_straight_truth_costs_little_more_than_platt_s_line():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=200)
        y = rng.random(200) < expit(1.5 * z - 0.5)
        new = rng.normal(size=20_000)
        truth = expit(1.5 * new - 0.5)
        spline, platt = (
            -np.mean(truth * np.log(q) + (1 - truth) * np.log1p(-q))
            for q in (
                c.fit(z, y).predict_proba(new)
                for c in (cb.SplineCalibrator(input="score"), cb.SigmoidCalibrator(input="score"))
            )
        )
        assert spline < platt + 0.006


@pytest.mark.parametrize("n", [2, 3, 40])
def test_separable_scores_stay_inside(n):
    z = np.linspace(-1.0, 1.0, n)
    q = cb.SplineCalibrator(input="score").fit(z, z >= z[n // 2]).predict_proba(z)
    assert 1e-4 < q.min() < 0.5
    assert 0.5 < q.max() < 1.0 - 1e-4


def test_two_distinct_scores_get_the_line_of_platt():
    z = np.repeat([-1.0, 2.0], 50)
    y = np.arange(100) % 5 < np.where(z > 0, 3, 1)
    new = [-3.0, -1.0, 0.0, 2.0, 5.0]
    ours = cb.SplineCalibrator(input="score").fit(z, y).predict_proba(new)
    np.testing.assert_allclose(ours, cb.SigmoidCalibrator(input="score").fit(z, y).predict_proba(new), atol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 1e5])
@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1e300])
def test_unit_and_origin_of_the_scores_do_not_matter(shift, scale):
    z, y = draw()
    plain = cb.SplineCalibrator(input="score").fit(z, y).predict_proba(z)
    moved = (z + shift) * scale
    np.testing.assert_allclose(cb.SplineCalibrator(input="score").fit(moved, y).predict_proba(moved), plain, atol=1e-6)


@pytest.mark.parametrize("outlier", [1e3, 1e12, 1e308])
def test_one_far_score_leaves_the_others_calibrated(outlier):
    z, y = draw(n=2000)
    with_outlier = cb.SplineCalibrator(input="score").fit(np.append(z, outlier), np.append(y, True))
    q = with_outlier.predict_proba(np.array([-1e308, outlier, 1e308]))
    assert np.isfinite(q).all()
    assert (np.diff(q) >= 0.0).all()


@pytest.mark.parametrize("factor", [1e-9, 1e9, 1e90])
def test_any_total_weight_fits(factor):
    z, y = draw()
    q = cb.SplineCalibrator(input="score").fit(z, y, sample_weight=np.full(z.size, factor)).predict_proba(np.sort(z))
    assert (np.diff(q) >= 0.0).all()
    assert q.mean() == pytest.approx(y.mean() if factor > 1.0 else 0.5, abs=0.01)


def test_gathered_ties_keep_weight_positives_and_mean():
    ties = standard_ties(n=5000, weighted=True)
    few = gather(ties, 256)
    assert few.weight.size <= 256
    assert few.weight.max() < 2.5 * ties.weight.sum() / 256
    for whole, part in ((ties.weight, few.weight), (ties.positives, few.positives)):
        assert part.sum() == pytest.approx(whole.sum())
    assert few.weight @ few.scores == pytest.approx(ties.weight @ ties.scores, abs=1e-9)
    assert gather(ties, 5000) is ties


def test_many_rows_fit_as_they_would_ungathered(monkeypatch):
    z, y = draw(n=20_000)
    gathered = cb.SplineCalibrator(input="score").fit(z, y).predict_proba(z)
    monkeypatch.setattr("calibrant.calibrators.spline._MOST_TIES", 10**6)
    whole = cb.SplineCalibrator(input="score").fit(z, y).predict_proba(z)
    assert np.abs(gathered - whole).max() > 0.0
    np.testing.assert_allclose(gathered, whole, atol=2.5e-3)


def test_a_fit_that_stops_short_says_so(monkeypatch):
    monkeypatch.setattr("calibrant.calibrators.rising_curve._MAX_ITER", 2)
    z, y = draw()
    with pytest.warns(ConvergenceWarning, match=r"spline fit at penalty \d+.*: duality measure .* after 2 it"):
        cb.SplineCalibrator(input="score").fit(z, y)


def test_one_knot_is_refused():
    with pytest.raises(InvalidInputError, match="n_knots=1 is too small"):
        cb.SplineCalibrator(n_knots=1).fit([0.1, 0.9], [0, 1])
