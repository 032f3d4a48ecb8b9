"""Each calibrator against somebody else's solution of the same problem."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize, minimize_scalar
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression

import calibrant as cb
from calibrant.numerics import clip_from_data, clip_open, logit


def draw(n=2000, seed=0, power=1.5):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.8, 1.2, n)
    return p, (rng.random(n) < p**power).astype(int)


def log_loss(z, y, w=None):
    return np.average(np.logaddexp(0, z) - y * z, weights=w)


@pytest.mark.filterwarnings("ignore:the scores run against the labels")
@pytest.mark.parametrize("n", [1, 2, 5, 33, 1000, 100_000])
@pytest.mark.parametrize("kind", ["continuous", "tied", "skewed", "constant", "mixed sign", "near", "inverse"])
@pytest.mark.parametrize("weighted", [False, True])
def test_isotonic_equals_scikit_learn_s(n, kind, weighted):
    rng = np.random.default_rng(n)
    s = {
        "continuous": lambda: rng.beta(1, 2, n),
        "tied": lambda: rng.beta(1, 2, n).round(2),
        "skewed": lambda: rng.random(n) ** 12,
        "constant": lambda: np.full(n, 0.3),
        "mixed sign": lambda: rng.normal(size=n),
        "near": lambda: 0.5 + 1e-11 * rng.integers(0, 1000, n),
        "inverse": lambda: rng.random(n),
    }[kind]()
    p = {"mixed sign": lambda: 1 / (1 + np.exp(-s)), "inverse": lambda: 1 - s}.get(kind, lambda: s)()
    y = (rng.random(n) < p).astype(int)
    y[:1] = 1 - y[-1:]  # both classes
    if n == 1:
        s, y = np.array([0.3, 0.4]), np.array([1, 0])
    w = rng.exponential(size=s.size) * (rng.random(s.size) < 0.9) + 1e-3 if weighted else None
    ours = cb.IsotonicCalibrator(input="score").fit(s, y, sample_weight=w)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(s, y, w)
    new = np.concatenate((s[:5000], rng.uniform(-0.1, 1.1, 5000)))
    np.testing.assert_allclose(ours.predict_proba(new), theirs.predict(new), atol=1e-12)


def test_isotonic_keeps_scores_apart_that_scikit_learn_merges():
    """Float32 scores closer than 1e-6 and float64 scores closer than 1e-15 are different scores."""
    s = np.nextafter(np.float32(0.5), np.float32(1)) + np.arange(64, dtype=np.float32) * np.float32(2**-24)
    y = np.arange(64) >= 32
    assert cb.IsotonicCalibrator().fit(s, y).predict_proba(s).tolist() == y.astype(float).tolist()
    s = 1e-300 * np.arange(1, 65)
    assert cb.IsotonicCalibrator().fit(s, y).predict_proba(s).tolist() == y.astype(float).tolist()


def test_bounded_isotonic_is_isotonic_moved_inside():
    p, y = draw(300)
    plain = cb.IsotonicCalibrator().fit(p, y).predict_proba(p)
    bounded = cb.IsotonicCalibrator(bounded=True).fit(p, y).predict_proba(p)
    assert plain.min() == 0.0
    np.testing.assert_allclose(bounded, np.clip(plain, 1 / 302, 301 / 302), atol=1e-15)


@pytest.mark.parametrize("weighted", [False, True])
def test_sigmoid_equals_scikit_learn_s_on_scores(weighted):
    p, y = draw()
    s = logit(p) * 3 + 1
    w = np.random.default_rng(1).exponential(size=s.size) if weighted else None
    theirs = _SigmoidCalibration().fit(s, y, w)
    ours = cb.SigmoidCalibrator(input="score").fit(s, y, sample_weight=w).map_
    assert ours.slope == pytest.approx(-theirs.a_, abs=1e-5)
    assert ours.intercept == pytest.approx(-theirs.b_, abs=1e-5)


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_sigmoid_solves_its_gradient_whatever_the_unit_of_the_scores(shift, scale):
    p, y = draw(5000)
    s = (logit(p) + shift) * scale
    fitted = cb.SigmoidCalibrator(input="score").fit(s, y)
    n1 = y.sum()
    target = np.where(y == 1, (n1 + 1) / (n1 + 2), 1 / (y.size - n1 + 2))
    residual = fitted.predict_proba(s) - target
    assert abs(residual.mean()) < 1e-8
    assert abs((residual * (s - s.mean()) / s.std()).mean()) < 1e-8


def test_sigmoid_on_probabilities_is_sigmoid_on_their_logits():
    p, y = draw()
    on_p = cb.SigmoidCalibrator().fit(p, y).predict_proba(p)
    on_z = cb.SigmoidCalibrator(input="logit").fit(logit(p), y).predict_proba(logit(p))
    np.testing.assert_allclose(on_p, on_z, atol=1e-9)


def test_large_samples_reach_the_same_optimum_as_statsmodels():
    p, y = draw(200_000)
    fitted = cb.BetaCalibrator().fit(p, y).map_
    q = clip_open(p, fitted.clip)
    X = np.column_stack((np.log(q), -np.log1p(-q), np.ones_like(q)))
    theirs = sm.Logit(y, X).fit(disp=False, method="newton", tol=1e-12).params
    np.testing.assert_allclose([fitted.a, fitted.b, fitted.c], theirs, atol=1e-6)


@pytest.mark.parametrize("period", [2, 16, 17])
def test_rows_in_a_pattern_do_not_lead_the_warm_start_astray(period):
    s = np.arange(60_000) / 1e6
    y = np.arange(60_000) % period == 0
    fitted = cb.SigmoidCalibrator(input="score").fit(s, y)
    assert fitted.predict_proba([0.03])[0] == pytest.approx(1 / period, abs=1e-3)
    order = np.random.default_rng(0).permutation(s.size)
    shuffled = cb.SigmoidCalibrator(input="score").fit(s[order], y[order])
    np.testing.assert_allclose(fitted.predict_proba(s), shuffled.predict_proba(s), atol=1e-9)


def test_one_event_in_many_rows_is_fitted():
    """The thinned problem of the warm start has no event at all."""
    rng = np.random.default_rng(0)
    s = rng.normal(size=100_000)
    y = np.arange(s.size) == 77
    q = cb.SigmoidCalibrator(input="score").fit(s, y).predict_proba(s)
    n0 = s.size - 1
    assert q.mean() == pytest.approx((2 / 3 + n0 / (n0 + 2)) / s.size, rel=1e-6)


FORM_COLUMNS = {
    "abm": lambda lp, lq: np.column_stack((lp, lq, np.ones_like(lp))),
    "ab": lambda lp, lq: np.column_stack((lp + np.log(2.0), lq - np.log(2.0))),
    "am": lambda lp, lq: np.column_stack((lp + lq, np.ones_like(lp))),
    "a": lambda lp, lq: (lp + lq)[:, None],
}


@pytest.mark.filterwarnings("ignore:the scores run against the labels")
@pytest.mark.parametrize("form", FORM_COLUMNS)
@pytest.mark.parametrize("case", ["ordinary", "reversed", "left half reversed", "right half reversed", "noise"])
@pytest.mark.parametrize("weighted", [False, True])
def test_beta_is_the_constrained_optimum(form, case, weighted):
    """Against L-BFGS-B with bounds, also where the free optimum would have a negative slope."""
    rng = np.random.default_rng(5)
    p = rng.beta(0.8, 1.2, 1500)
    rate = {
        "ordinary": p**1.5,
        "reversed": 1 - p,
        "left half reversed": np.where(p < 0.5, 1 - p, p),
        "right half reversed": np.where(p > 0.5, 1 - p, p),
        "noise": np.full(p.size, 0.3),
    }[case]
    y = rng.random(p.size) < rate
    w = rng.exponential(size=p.size) if weighted else None
    fitted = cb.BetaCalibrator(form=form).fit(p, y, sample_weight=w).map_
    q = clip_open(p, fitted.clip)
    X = FORM_COLUMNS[form](np.log(q), -np.log1p(-q))
    n_slopes = {"abm": 2, "ab": 2, "am": 1, "a": 1}[form]
    bounds = [(0, None)] * n_slopes + [(None, None)] * (X.shape[1] - n_slopes)
    theirs = minimize(
        lambda t: log_loss(X @ t, y, w),
        np.full(X.shape[1], 0.5),
        jac=lambda t: np.average(((1 / (1 + np.exp(-(X @ t)))) - y)[:, None] * X, axis=0, weights=w),
        bounds=bounds,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000},
    )
    z = fitted.a * np.log(q) - fitted.b * np.log1p(-q) + fitted.c
    assert fitted.a >= 0
    assert fitted.b >= 0
    assert log_loss(z, y, w) <= theirs.fun + 1e-9


def test_separated_scores_fall_back_to_platt_s_targets():
    with pytest.warns(cb.errors.DataWarning, match="separate the classes"):
        fitted = cb.BetaCalibrator(form="am").fit([0.1, 0.2, 0.7, 0.9], [0, 0, 1, 1])
    sigmoid = cb.SigmoidCalibrator().fit([0.1, 0.2, 0.7, 0.9], [0, 0, 1, 1])
    new = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(fitted.predict_proba(new), sigmoid.predict_proba(new), atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_temperature_is_the_minimiser(n_classes, weighted):
    rng = np.random.default_rng(n_classes)
    z = rng.normal(size=(3000, n_classes)) * 2
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1)
    w = rng.exponential(size=3000) if weighted else None
    sharp = 2.5 * z
    fitted = cb.TemperatureCalibrator(input="logit").fit(sharp, y, sample_weight=w)

    def loss(slope):
        s = slope * sharp
        s = s - s.max(axis=1, keepdims=True)
        return np.average(np.log(np.exp(s).sum(axis=1)) - s[np.arange(3000), y], weights=w)

    theirs = minimize_scalar(loss, bounds=(0.01, 10), method="bounded", options={"xatol": 1e-10})
    assert fitted.inverse_temperature_ == pytest.approx(theirs.x, abs=1e-6)
    assert fitted.inverse_temperature_ == pytest.approx(0.4, abs=0.04)


def test_temperature_of_probabilities_is_that_of_logits_and_of_one_column():
    p, y = draw()
    slope = cb.TemperatureCalibrator().fit(p, y).inverse_temperature_
    for other in (
        cb.TemperatureCalibrator().fit(np.column_stack((1 - p, p)), y),
        cb.TemperatureCalibrator(input="logit").fit(logit(p), y),
        cb.BetaCalibrator(form="a").fit(p, y).map_,
    ):
        found = other.a if hasattr(other, "a") else other.inverse_temperature_
        assert found == pytest.approx(slope, abs=1e-7)


def test_large_samples_warm_start_to_the_same_temperature():
    p, y = draw(150_000)
    z = logit(p)
    warm = cb.TemperatureCalibrator(input="logit").fit(z, y).inverse_temperature_
    theirs = minimize_scalar(lambda b: log_loss(b * z, y), bounds=(0.1, 5), method="bounded", options={"xatol": 1e-10})
    assert warm == pytest.approx(theirs.x, abs=1e-6)


@pytest.mark.parametrize("labels", [[1, 2, 3], [-1, 0, 1], ["x", "y", "z"], [10, 20, 30]])
def test_temperature_takes_labels_of_any_kind(labels):
    """scikit-learn 1.9 returns a slope of about zero, silently, unless labels are 0 to K - 1."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 1], 2000)
    codes = (P.cumsum(axis=1) > rng.random((2000, 1))).argmax(axis=1)
    expected = cb.TemperatureCalibrator().fit(P, codes).inverse_temperature_
    assert expected == pytest.approx(1.0, abs=0.1)
    assert cb.TemperatureCalibrator().fit(P, np.array(labels)[codes]).inverse_temperature_ == expected


def test_one_row_has_one_temperature_in_any_batch():
    """scikit-learn 1.9 decides from the whole batch whether numbers are probabilities or logits."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1, 1, 1], 500)
    fitted = cb.TemperatureCalibrator().fit(P, rng.integers(0, 3, 500) * 0 + P.argmax(axis=1) * (rng.random(500) < 0.6))
    row = np.array([[0.2, 0.3, 0.5]])
    beside = np.vstack((row, P[:9].astype(np.float16)))
    assert fitted.predict_proba(row)[0].tolist() == fitted.predict_proba(beside)[0].tolist()


def test_correct_classification_of_every_row_is_said_and_stays_finite():
    P = np.repeat([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]], 30, axis=0)
    y = np.repeat([0, 1, 2], 30)
    with pytest.warns(cb.errors.DataWarning, match="every row is classified correctly"):
        fitted = cb.TemperatureCalibrator().fit(P, y)
    mean_own = fitted.predict_proba(P)[np.arange(90), y].mean()
    assert 0.95 < mean_own < 0.99


def test_scores_against_the_labels_are_said():
    with pytest.warns(cb.errors.DataWarning, match="best temperature is infinite"):
        fitted = cb.TemperatureCalibrator().fit([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0])
    assert fitted.predict_proba([0.1, 0.9]).tolist() == [0.5, 0.5]


def test_a_huge_optimal_slope_is_found():
    fitted = cb.TemperatureCalibrator(input="logit").fit([1.0, 1e-100], [1, 0])
    gradient = -np.exp(-fitted.inverse_temperature_) + 1e-100 * 0.5
    assert abs(gradient) < 1e-103


def test_the_optimal_temperature_of_a_known_truth_is_found():
    """p* = softmax(z) sharpened by T = 0.4: temperature comes within 1e-4 of the Bayes Brier score."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(40_000, 3))
    truth = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (truth.cumsum(axis=1) > rng.random((40_000, 1))).argmax(axis=1)
    half = slice(0, 20_000), slice(20_000, None)
    q = cb.TemperatureCalibrator(input="logit").fit(z[half[0]] / 0.4, y[half[0]]).predict_proba(z[half[1]] / 0.4)
    excess = ((q - truth[half[1]]) ** 2).sum(axis=1).mean()
    assert excess < 1e-4


def test_histogram_levels_are_rates_of_equal_mass_bins():
    p, y = draw(1000)
    fitted = cb.HistogramCalibrator(n_bins=10).fit(p, y).map_
    order = np.argsort(p)
    np.testing.assert_allclose(fitted.levels, y[order].reshape(10, 100).mean(axis=1))
    np.testing.assert_allclose(fitted.edges, (p[order][99:-1:100] + p[order][100::100]) / 2)


def test_uniform_histogram_levels_are_rates_between_fixed_edges():
    p, y = draw(1000)
    fitted = cb.HistogramCalibrator(n_bins=4, strategy="uniform").fit(p, y).map_
    assert fitted.edges.tolist() == [0.25, 0.5, 0.75]
    bins = np.digitize(p, [0.25, 0.5, 0.75], right=True)
    np.testing.assert_allclose(fitted.levels, [y[bins == k].mean() for k in range(4)])


def test_room_of_an_empty_bin_is_shared_by_its_neighbours():
    fitted = cb.HistogramCalibrator(n_bins=5, strategy="uniform").fit([0.1, 0.15, 0.9, 0.95], [0, 1, 1, 1])
    assert fitted.map_.edges.tolist() == [0.5]
    assert fitted.predict_proba([0.0, 0.5, np.nextafter(0.5, 1), 1.0]).tolist() == [0.5, 0.5, 1.0, 1.0]


def test_ties_are_never_split_between_quantile_bins():
    fitted = cb.HistogramCalibrator(n_bins=4).fit([0.2] * 90 + [0.4] * 5 + [0.6] * 5, [0, 1] * 45 + [1] * 10)
    assert fitted.predict_proba([0.2]).tolist() == [0.5]
    assert fitted.predict_proba([0.4, 0.6]).tolist() == [1.0, 1.0]


def test_the_clip_lies_outside_what_the_data_show():
    assert clip_from_data(np.array([0.0, 0.01, 0.5, 1.0]), 4) == 0.005
    assert clip_from_data(np.array([0.0, 0.4, 1.0]), 99) == 1 / 10
    assert clip_from_data(np.array([0.0, 1.0]), 2) == 1 / 6
    assert clip_from_data(np.array([1e-300, 0.5]), 2) == 5e-301
    assert clip_from_data(np.array([0.5, 1 - 1e-4]), 2) == pytest.approx(5e-5)
