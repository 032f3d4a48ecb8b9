"""Calibration slope and intercept against statsmodels, and what happens where there is no line."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from metric_data import draw_binary, draw_classes, draw_weights
from scipy.stats import chi2

import calibrant as cb
from calibrant.errors import ConvergenceWarning
from calibrant.metrics import (
    calibration_in_the_large,
    calibration_intercept,
    calibration_slope_intercept,
    slope_intercept,
)
from calibrant.metrics.estimates import Column
from calibrant.metrics.slope_intercept import slope_intercept_estimates
from calibrant.numerics import clip_as_given, expit, logit


def regress(y, p, w=None):
    return sm.GLM(y, sm.add_constant(logit(p)), family=sm.families.Binomial(), freq_weights=w).fit(tol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [None, 2])
def test_line_equals_statsmodels(weighted, decimals):
    y, p = draw_binary(800, decimals=decimals)
    p = p.clip(0.01, 0.99)
    w = draw_weights(800) if weighted else None
    expected = regress(y, p, w).params
    line = calibration_slope_intercept(y, p, sample_weight=w)
    assert (line.intercept, line.slope) == pytest.approx(tuple(expected), abs=1e-8)
    slope, intercept = line
    assert (slope, intercept) == (line.slope, line.intercept)


@pytest.mark.parametrize("weighted", [False, True])
def test_intercept_in_the_large_equals_statsmodels_with_an_offset(weighted):
    y, p = draw_binary(500)
    p = p.clip(0.001, 0.999)
    w = draw_weights(500) if weighted else None
    fit = sm.GLM(y, np.ones(500), family=sm.families.Binomial(), offset=logit(p), freq_weights=w).fit(tol=1e-12)
    assert calibration_intercept(y, p, sample_weight=w) == pytest.approx(fit.params[0], abs=1e-8)


def test_intercept_in_the_large_makes_the_mean_right():
    y, p = draw_binary(500)
    p = p.clip(0.001, 0.999)
    moved = 1 / (1 + np.exp(-logit(p) - calibration_intercept(y, p)))
    assert calibration_in_the_large(y, moved) == pytest.approx(0.0, abs=1e-12)
    assert calibration_intercept(y, moved) == pytest.approx(0.0, abs=1e-9)


def test_extreme_offsets_converge():
    y = np.array([0, 0, 1, 0, 1, 1])
    p = np.array([1 - 1e-12] * 3 + [1e-12] * 3)
    moved = logit(p) + calibration_intercept(y, p)
    assert np.sum(1 / (1 + np.exp(-moved))) == pytest.approx(3.0, abs=1e-3)
    assert calibration_intercept([0, 1], [1e-9, 1e-9]) == pytest.approx(-logit(1e-9), rel=1e-6)


def test_interval_is_the_robust_one_of_statsmodels():
    y, p = draw_binary(600)
    p = p.clip(0.001, 0.999)
    fit = sm.Logit(y, sm.add_constant(logit(p))).fit(disp=0, tol=1e-12, cov_type="HC1")
    low, high = fit.conf_int(0.1).T
    scores = cb.evaluate(y, p, level=0.9)
    for name, k in (("intercept", 0), ("slope", 1)):
        assert (scores[name].low, scores[name].high) == pytest.approx((low[k], high[k]), abs=2e-2), name
        assert scores[name].method == "profile likelihood"


def test_ends_of_the_interval_are_where_the_profile_of_the_likelihood_ends():
    """Against statsmodels with one of the two held at the end, where the sandwich asks for no more than the model."""
    rng = np.random.default_rng(3)
    p = expit(rng.normal(-3.0, 1.0, 400))
    y = rng.random(400) < p
    column, ones = logit(p)[:, None], np.ones((400, 1))
    scores = cb.evaluate(y, p)
    most = sm.Logit(y, np.hstack((column, ones))).fit(disp=0, tol=1e-12)
    sandwich = sm.Logit(y, np.hstack((column, ones))).fit(disp=0, cov_type="HC0")
    for k, name in enumerate(("slope", "intercept")):
        free, held = (ones, column) if name == "slope" else (column, ones)
        factor = max(1.0, (sandwich.bse[k] / most.bse[k]) ** 2) * 400 / 398
        for end in (scores[name].low, scores[name].high):
            rest = sm.GLM(y, free, family=sm.families.Binomial(), offset=end * held[:, 0]).fit(tol=1e-12)
            assert 2.0 * (most.llf - rest.llf) / factor == pytest.approx(chi2.ppf(0.95, 1), rel=1e-5), name


@pytest.mark.slow
@pytest.mark.parametrize("expected", [3, 10])
def test_intervals_of_the_line_cover_with_few_events_and_are_not_vacuous(expected: int):
    """The normal ones covered .62 with three expected events, .89 with ten (500 draws: standard error .01)."""
    rng = np.random.default_rng(0)
    hits, widths = [], []
    while len(hits) < 500:
        z = logit(expected / 300) - 0.5 + rng.normal(size=300)
        y = rng.random(300) < expit(z)
        if not y.any():
            continue
        column = Column(cb.ScoreSummary.from_arrays(expit(z), y), len(y), 0.95)
        found = slope_intercept_estimates(column)["slope"]
        if len(hits) < 5:
            score = cb.evaluate(y, expit(z), classes=[False, True])["slope"]
            assert (score.low, score.high) == (found.low, found.high)
        if not math.isnan(found.value):
            hits.append(found.low <= 1.0 <= found.high)
            widths.append(found.high - found.low)
    assert np.mean(hits) >= 0.925
    assert np.median(widths) < (6.0 if expected == 3 else 2.5)


def test_too_few_events_are_said():
    assert "too few events" in cb.evaluate([0] * 60 + [1] + [0] * 39, np.linspace(0.001, 0.02, 100))["slope"].note
    assert cb.evaluate([0, 1] * 4 + [0] * 92, np.linspace(0.001, 0.02, 100))["slope"].note == ""


@pytest.mark.slow
def test_intervals_cover_the_line_that_is_true():
    hits = {"slope": 0, "intercept": 0}
    for i in range(300):
        rng = np.random.default_rng(i)
        p = rng.beta(2, 2, 300)
        y = rng.random(300) < 1 / (1 + np.exp(-0.7 * logit(p) + 0.4))
        estimates = slope_intercept_estimates(Column(cb.ScoreSummary.from_arrays(p, y), len(y), 0.95))
        hits["slope"] += estimates["slope"].low <= 0.7 <= estimates["slope"].high
        hits["intercept"] += estimates["intercept"].low <= -0.4 <= estimates["intercept"].high
    assert min(hits.values()) >= 0.9 * 300


def test_zeros_and_ones_enter_by_the_clip_that_the_data_set():
    y, p = draw_binary(200, decimals=1)
    assert (p == 0).any()
    clip = clip_as_given(p, 200)
    clipped = p.clip(clip, 1 - clip)
    expected = regress(y, clipped).params
    line = calibration_slope_intercept(y, p)
    assert (line.intercept, line.slope) == pytest.approx(tuple(expected), abs=1e-7)


def test_k_columns_are_judged_by_the_top_label():
    y, P = draw_classes(300)
    right, confidence = P.argmax(axis=1) == y, P.max(axis=1)
    assert calibration_slope_intercept(y, P) == calibration_slope_intercept(right, confidence)


@pytest.mark.parametrize(
    ("y", "p", "reason"),
    [
        ([0, 0, 1, 1], [0.1, 0.2, 0.7, 0.8], "the probabilities separate the classes, so the slope has no bound"),
        ([0, 1, 0, 1], [0.1, 0.2, 0.2, 0.8], "the probabilities separate the classes, so the slope has no bound"),
        ([1, 1, 0, 0], [0.1, 0.2, 0.7, 0.8], "the probabilities separate the classes, so the slope has no bound"),
        ([0, 1, 1], [0.5, 0.5, 0.5], "all probabilities are the same"),
        ([0, 0, 0], [0.1, 0.2, 0.7], "all rows are of one class"),
        ([1, 1, 1], [0.1, 0.2, 0.7], "all rows are of one class"),
    ],
)
def test_data_without_a_line_give_nan_and_say_why(y, p, reason):
    with pytest.warns(ConvergenceWarning) as caught:
        line = calibration_slope_intercept(y, p, classes=[0, 1])
    assert str(caught[0].message) == f"calibration_slope_intercept is undefined, hence nan: {reason}."
    assert caught[0].filename == __file__
    assert math.isnan(line.slope)
    assert math.isnan(line.intercept)
    scores = cb.evaluate(y, p, classes=[0, 1])
    for name in ("slope", "intercept"):
        assert math.isnan(scores[name].value)
        assert scores[name].note == f"undefined: {reason}"


@pytest.mark.parametrize("extra", [[], [0.9]])
def test_nearly_constant_scores_have_no_line_whatever_their_spacing(extra):
    """Rounding made the moments of the logits singular for some samples of most spacings; and beside one far row."""
    for ulps in 2.0 ** np.arange(27):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            p = np.append(0.3 + 2.0**-54 * ulps * rng.integers(0, 3, 100), extra)
            y = np.append((rng.random(100) < 0.3).astype(np.int64), np.ones(len(extra), np.int64))
            with warnings.catch_warnings():  # of a fit that rounding stops
                warnings.simplefilter("ignore", ConvergenceWarning)
                found = slope_intercept_estimates(Column(cb.ScoreSummary.from_arrays(p, y), len(y), 0.95))
            for name in ("slope", "intercept"):
                assert math.isnan(found[name].low)
                assert extra or found[name].note == "undefined: all probabilities are nearly the same"
                assert found[name].note.startswith(("undefined: ", "no interval: "))


def test_models_of_nearly_constant_scores_are_measured_and_compared():
    y, p = np.array([0, 0, 1, 1] * 25), np.array([0.3, 0.3 + 2.0**-54] * 50)
    assert math.isnan(cb.evaluate(y, p)["slope"].value)
    assert set(cb.compare_models(y, {"a": p, "b": p[::-1]}).models) == {"a", "b"}
    with pytest.warns(ConvergenceWarning, match="undefined, hence nan: all probabilities are nearly the same"):
        assert math.isnan(calibration_slope_intercept(y, p).slope)


def test_intercept_of_one_class_is_nan_and_says_why():
    with pytest.warns(ConvergenceWarning, match="calibration_intercept is undefined, hence nan: all rows are of one"):
        assert math.isnan(calibration_intercept([1, 1], [0.3, 0.4]))


def test_ends_of_few_rows_and_scores_are_found_wherever_the_search_begins(monkeypatch: pytest.MonkeyPatch):
    rng, found = np.random.default_rng(0), []
    best_other = slope_intercept._best_other

    def from_afar(ties, columns, theta, fixed):
        far = np.array(theta)
        far[1 - fixed] += 500.0
        value, other = best_other(ties, columns, theta, fixed), best_other(ties, columns, far, fixed)
        found.append(abs(value - other) / (1.0 + abs(value)))
        return value

    monkeypatch.setattr(slope_intercept, "_best_other", from_afar)
    for _ in range(100):
        n = int(rng.integers(6, 60))
        p = rng.choice(rng.random(int(rng.integers(2, 12))), n)
        y = rng.random(n) < np.clip(p + rng.normal(0.0, 0.2), 0.0, 1.0)
        if 0 < y.sum() < n:
            scores = cb.evaluate(y, p, level=0.995)
            for name in ("slope", "intercept"):
                assert scores[name].note or scores[name].low <= scores[name].value <= scores[name].high
    assert len(found) > 1_000
    assert max(found) < 1e-6


def test_a_line_whose_interval_has_no_end_is_told_with_and_without_intervals():
    y, p, w = [0, 1, 0, 1], [0.2, 0.4, 0.6, 0.8], [1.0, 1e-9, 1e-9, 1.0]
    line = calibration_slope_intercept(y, p, sample_weight=w)
    for intervals in (True, False):
        scores = cb.evaluate(y, p, sample_weight=w, intervals=intervals)
        assert (scores["slope"].value, scores["intercept"].value) == pytest.approx(tuple(line))
        assert math.isnan(scores["slope"].low)
        assert math.isnan(scores["slope"].high)
    assert "no end" in cb.evaluate(y, p, sample_weight=w)["slope"].note
