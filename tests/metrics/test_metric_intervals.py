"""Intervals: equal to the formula they are named after, and right as often as they say."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from metric_data import draw_binary, draw_classes, draw_weights
from scipy.special import ndtr
from sklearn.isotonic import IsotonicRegression
from some_scores import measure_only
from statsmodels.stats.proportion import proportion_confint

import calibrant as cb
from calibrant.metrics.decomposition import draw_hits, refit_gains, uncertainty_of_classes

Z = 1.959963984540054


def test_delong_interval_equals_the_loop_over_pairs():
    y, p = draw_binary(150, decimals=1)
    positive, negative = p[y == 1], p[y == 0]
    wins = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)
    variance = wins.mean(axis=1).var(ddof=1) / positive.size + wins.mean(axis=0).var(ddof=1) / negative.size
    auc = wins.mean()
    half = Z * sqrt(variance) / (auc * (1 - auc))
    score = cb.evaluate(y, p)["auc"]
    assert score.value == pytest.approx(auc)
    for end, sign in ((score.low, -1), (score.high, 1)):
        assert log(end / (1 - end)) == pytest.approx(log(auc / (1 - auc)) + sign * half)
    assert score.method == "DeLong, logit"


def test_macro_auc_of_two_columns_has_nearly_the_interval_of_one():
    y, p = draw_binary(2000)
    one, two = cb.evaluate(y, p)["auc"], cb.evaluate(y, np.column_stack((1 - p, p)))["auc"]
    assert two.value == pytest.approx(one.value)
    assert (two.low, two.high) == pytest.approx((one.low, one.high), abs=1e-4)


def test_separated_or_few_rows_get_newcombe_s_interval():
    y, p = np.repeat([0, 1], [9, 6]), np.arange(15) / 20
    for y_true, area in ((y, 1.0), (1 - y, 0.0), (np.roll(y, 1), None)):
        score = cb.evaluate(y_true, p)["auc"]
        assert score.method == "Newcombe 5"
        if area is not None:
            assert score.value == area
        m, n = 6 if y_true.sum() == 6 else 9, 9 if y_true.sum() == 6 else 6
        for end in (score.low, score.high):
            if 0.0 < end < 1.0:
                inner = 1 + ((m + n) / 2 - 1) * ((1 - end) / (2 - end) + end / (1 + end))
                assert abs(end - score.value) == pytest.approx(Z * sqrt(end * (1 - end) * inner / (m * n)))


def test_base_rate_and_accuracy_have_wilson_s_interval():
    y, p = draw_binary(80)
    rate = cb.evaluate(y, p, level=0.9)["base_rate"]
    assert (rate.low, rate.high) == pytest.approx(proportion_confint(y.sum(), 80, alpha=0.1, method="wilson"))
    y, P = draw_classes(80)
    right = (P.argmax(axis=1) == y).sum()
    accuracy = cb.evaluate(y, P)["accuracy"]
    assert (accuracy.low, accuracy.high) == pytest.approx(proportion_confint(right, 80, method="wilson"))


def test_brier_interval_is_that_of_a_mean_with_two_more_rows_in_the_spread():
    y, p = draw_binary(300)
    loss, at_mean = (p - y) ** 2, np.array([(1 - p.mean()) ** 2, p.mean() ** 2])
    deviations = np.concatenate((loss, at_mean)) - loss.mean()
    half = Z * sqrt((deviations**2).mean() / 300)
    score = cb.evaluate(y, p)["brier"]
    assert (score.low, score.high) == pytest.approx((loss.mean() - half, loss.mean() + half))


def test_uncertainty_interval_reaches_a_quarter_where_a_rate_of_one_half_is_possible():
    score = cb.evaluate([0, 1] * 10, [0.3, 0.6] * 10)["uncertainty"]
    assert (score.value, score.high) == (0.25, 0.25)
    low, high = proportion_confint(10, 20, method="wilson")
    assert score.low == pytest.approx(low * (1 - low))
    assert score.low == pytest.approx(high * (1 - high))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_intervals_hold_their_value_and_ignore_the_scale_of_weights(n_classes):
    y, p = draw_binary(150) if n_classes == 2 else draw_classes(150)
    w = draw_weights(150)
    expected = cb.evaluate(y, p, sample_weight=w)
    for scale in (1e-6, 1e6):
        scores = cb.evaluate(y, p, sample_weight=scale * w)
        for name, score in scores.items():
            assert score.low <= score.value <= score.high, name
            triple = (expected[name].value, expected[name].low, expected[name].high)
            assert (score.value, score.low, score.high) == pytest.approx(triple, abs=1e-8), name


@pytest.mark.parametrize("weight", [0.1, 1 / 3, 1e-6, 7e6])
def test_equal_weights_of_any_size_change_nothing_of_few_rows(weight):
    rng = np.random.default_rng(11)
    for n in range(3, 31, 3):
        p = rng.integers(1, 20, n) / 20
        y = (rng.random(n) < p).astype(int)
        expected = cb.evaluate(y, p, classes=[0, 1])
        scores = cb.evaluate(y, p, classes=[0, 1], sample_weight=np.full(n, weight))
        for name in set(expected) - {"slope", "intercept"}:  # whose zeros and ones go by the total weight
            triple = (expected[name].value, expected[name].low, expected[name].high)
            ours = (scores[name].value, scores[name].low, scores[name].high)
            assert ours == pytest.approx(triple, abs=1e-8, nan_ok=True), (name, n)


def test_scores_that_differ_by_rounding_are_as_good_as_ties():
    rng = np.random.default_rng(12)
    p = rng.integers(1, 10, 300) / 10
    y = (rng.random(300) < 0.9 * p + 0.05).astype(int)
    ours, expected = cb.evaluate(y, p + rng.integers(-2, 3, 300) * np.spacing(p), n_bins=7), cb.evaluate(y, p, n_bins=7)
    assert ours.test.parts == pytest.approx(expected.test.parts, abs=1e-9)
    for name in ("miscalibration", "discrimination"):
        triple = (expected[name].value, expected[name].low, expected[name].high)
        assert (ours[name].value, ours[name].low, ours[name].high) == pytest.approx(triple, abs=5e-4), name


def test_uneven_weights_widen_intervals():
    y, p = draw_binary(2000)
    even = cb.evaluate(y, p)
    uneven = cb.evaluate(y, p, sample_weight=np.where(np.arange(2000) % 10 == 0, 1.0, 1e-3))
    for name in ("brier", "log_loss", "ece_debiased", "auc", "mean_gap", "base_rate", "discrimination"):
        ratio = (uneven[name].high - uneven[name].low) / (even[name].high - even[name].low)
        assert 2.0 < ratio < 5.0, name  # 10 times fewer rows: sqrt(10) times wider


@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([0, 1] * 20, [0.0, 1.0] * 20),
        ([0] * 30, [0.0] * 30),
        ([1], [0.3]),
        (range(5), np.eye(5)),
        ([1], [[0.2, 0.7, 0.1]]),
    ],
)
def test_nothing_that_varied_is_no_certainty(y, p):
    scores = cb.evaluate(list(y), p)
    for name in ("brier", "log_loss", "ece", "ece_debiased", "miscalibration", "smooth_ece", "ici"):
        assert scores[name].high > scores[name].low, name


def test_parts_of_two_columns_have_twice_the_interval_of_one():
    one, two = cb.evaluate([1], [0.3]), cb.evaluate([1], [[0.7, 0.3]])
    assert two["miscalibration"].high == pytest.approx(2 * one["miscalibration"].high, rel=0.02)
    y, p = draw_binary(2000)
    one, two = cb.evaluate(y, p), cb.evaluate(y, np.column_stack((1 - p, p)))
    for name in ("brier", "miscalibration", "discrimination", "uncertainty"):
        for end in ("value", "low", "high"):
            assert getattr(two[name], end) == pytest.approx(2 * getattr(one[name], end), rel=0.02), name


def test_parts_end_at_the_greatest_score_that_there_is():
    found = cb.evaluate([1, 1, 1], [1e-3] * 3, classes=[0, 1])
    assert found["miscalibration"].high == 1.0
    few = cb.evaluate([1, 0, 1, 0, 0, 1], [0.9, 0.1, 0.9, 0.1, 0.1, 0.9], cluster=[0, 0, 1, 1, 2, 2])
    assert few["discrimination"].high == 0.25


def test_constant_score_certainly_does_not_discriminate():
    score = cb.evaluate([0, 1, 1] * 30, [0.5] * 90)["discrimination"]
    assert (score.value, score.low, score.high) == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


@pytest.mark.parametrize("m", [1, 2, 40, 300])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_refits_to_drawn_labels_equal_scikit_learn_s(m, is_weighted):
    rng = np.random.default_rng(5)
    size = rng.integers(1, 6, m) if is_weighted else np.ones(m, dtype=np.int64)
    weight = size * (rng.uniform(0.5, 2.0, m) if is_weighted else 1.0)
    truth = np.sort(rng.random(m))
    rates = np.array([np.zeros(m), np.ones(m), *rng.binomial(size, truth, (20, m)) / size])
    gains, shifts = refit_gains(rates * weight, weight, truth)
    for rate, gain, shift in zip(rates, gains, shifts, strict=True):
        refit = IsotonicRegression().fit(np.arange(m), rate, sample_weight=weight).predict(np.arange(m))
        assert gain == pytest.approx(weight @ ((rate - truth) ** 2 - (rate - refit) ** 2))
        assert shift == pytest.approx(weight @ (rate - truth), abs=1e-10)


def test_labels_of_ties_are_drawn_row_by_row_at_their_rate():
    size, truth = np.array([1, 5, 2, 7]), np.array([0.1, 0.4, 0.6, 0.9])
    uniform = np.random.default_rng(3).random(15)
    of_row = np.repeat(np.arange(4), size)
    expected = [int((uniform[of_row == tie] < truth[tie]).sum()) for tie in range(4)]
    assert draw_hits(size, truth, np.random.default_rng(3)).tolist() == expected


def coverage(draw, truths, n_runs=120):
    """Return how often each interval holds its true value."""
    hits = dict.fromkeys(truths, 0)
    for i in range(n_runs):
        scores = cb.evaluate(*draw(np.random.default_rng(i)), rng=i)
        for name, truth in truths.items():
            hits[name] += scores[name].low <= truth <= scores[name].high
    return {name: hit / n_runs for name, hit in hits.items()}


@pytest.mark.slow
def test_intervals_cover_the_truth_of_perfect_probabilities(monkeypatch):
    def draw(rng):
        p = rng.random(400)
        return rng.random(400) < p, p

    truths = {
        "brier": 1 / 6,
        "log_loss": 0.5,
        "ece": 0.0,
        "ece_debiased": 0.0,
        "auc": 5 / 6,
        "miscalibration": 0.0,
        "discrimination": 1 / 12,
        "uncertainty": 0.25,
        "mean_gap": 0.0,
        "base_rate": 0.5,
    }
    measure_only(tuple(truths), monkeypatch)
    assert min(coverage(draw, truths).values()) >= 0.9


@pytest.mark.slow
def test_intervals_cover_the_truth_of_wrong_probabilities(monkeypatch):
    def draw(rng):
        p = rng.random(400)
        return rng.random(400) < 0.25 + 0.5 * p, p

    p = (np.arange(300_000) + 0.5) / 300_000
    gap = p - (0.25 + 0.5 * p)
    bins = gap.reshape(15, -1).mean(axis=1)
    truths = {
        "brier": 0.25 - 1 / 48 + np.mean(gap**2),
        "ece": np.abs(bins).mean(),
        "ece_debiased": sqrt(np.mean(bins**2)),
        "miscalibration": np.mean(gap**2),
        "discrimination": 1 / 48,
        "mean_gap": 0.0,
    }
    measure_only(tuple(truths), monkeypatch)
    assert min(coverage(draw, truths).values()) >= 0.9


@pytest.mark.slow
def test_classwise_interval_covers_zero_for_perfect_probabilities():
    def draw(rng):
        return draw_classes(300, n_classes=6, seed=int(rng.integers(2**31)))

    assert min(coverage(draw, {"classwise_ece": 0.0, "miscalibration": 0.0}, n_runs=40).values()) >= 0.9


@pytest.mark.slow
def test_miscalibration_of_many_perfect_probabilities_is_not_significant():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        p = rng.random(50_000)
        score = cb.evaluate(rng.random(50_000) < p, p)["miscalibration"]
        assert score.value > score.low == 0.0


def test_gaps_smaller_than_noise_rule_out_no_error():
    y, p = np.tile([0, 1], 100), np.linspace(0.499, 0.501, 200)  # half are right in each bin, as never by chance
    error = cb.evaluate(y, p)["ece_debiased"]
    assert (error.value, error.low) == (0.0, 0.0)
    at_random = cb.evaluate(np.random.default_rng(0).random(200) < p, p)["ece_debiased"]
    assert 0.03 < error.high <= at_random.high < 0.2


@pytest.mark.parametrize(("rates", "least", "most"), [((0.6, 0.3, 0.1), 0.93, 0.97), ((0.35, 0.33, 0.32), 0.95, 1.0)])
def test_uncertainty_of_several_classes_is_covered_and_not_vacuously(rates, least, most):
    rng = np.random.default_rng(0)
    n, true = 300, 1.0 - np.square(rates).sum()
    found = [uncertainty_of_classes(rng.multinomial(n, rates) / n, float(n), 0.95) for _ in range(4_000)]
    values = np.array([each.value for each in found])
    assert least <= np.mean([each.low <= true <= each.high for each in found]) <= most
    assert np.mean([each.high - each.low for each in found]) < 2.0 * 1.96 * values.std() * 1.2


def test_scores_of_several_classes_have_design_effects_of_their_own():
    y, P = draw_classes(400)
    five = np.repeat(np.arange(400), 5)
    repeated = cb.evaluate(y[five], P[five], cluster=five)
    for name in ("brier", "log_loss", "accuracy", "mean_gap", "auc", "uncertainty", "miscalibration"):
        assert repeated[name].n_eff == pytest.approx(400.0, rel=0.02), name
    by_chance = cb.evaluate(y, P, cluster=np.arange(400) % 80)
    assert all(by_chance[name].n_eff > 250.0 for name in ("accuracy", "mean_gap", "auc", "uncertainty"))


@pytest.mark.parametrize("has_like_scores", [True, False])
def test_miscalibration_of_clusters_is_covered_and_not_vacuously(has_like_scores, monkeypatch):
    measure_only(("miscalibration",), monkeypatch)
    n, size = 2_000, 5
    cluster = np.arange(n) // size

    def draw(rng):
        p = rng.random(n)[cluster] if has_like_scores else rng.random(n)
        common = rng.normal(size=n // size)[cluster]
        u = ndtr(sqrt(0.5) * common + sqrt(0.5) * rng.normal(size=n))
        return u < np.clip(p + 0.15 * np.sign(0.5 - p), 0.0, 1.0), p

    found = []
    for seed in range(60):
        y, p = draw(np.random.default_rng(seed))
        found.append(cb.evaluate(y, p, cluster=cluster)["miscalibration"])
    assert np.mean([each.low <= 0.15**2 <= each.high for each in found]) >= 0.9
    assert np.median([each.high - each.low for each in found]) < 4.0 * 1.96 * np.std([each.value for each in found])
