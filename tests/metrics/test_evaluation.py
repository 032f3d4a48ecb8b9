"""`evaluate`: which scores it gives, that they are the metrics' own, and what its verdict says."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from metric_data import draw_binary, draw_classes, draw_weights

import calibrant as cb
from calibrant import metrics
from calibrant.errors import InvalidTypeError

BINARY_NAMES = [
    "brier",
    "log_loss",
    "ece",
    "ece_debiased",
    "auc",
    "miscalibration",
    "discrimination",
    "uncertainty",
    "mean_gap",
    "base_rate",
    "smooth_ece",
    "slope",
    "intercept",
    "ici",
    "worst_bin_gap",
]
CLASS_NAMES = [
    "brier",
    "log_loss",
    "ece",
    "ece_debiased",
    "classwise_ece",
    "marginal_calibration_error",
    "auc",
    "miscalibration",
    "discrimination",
    "uncertainty",
    "accuracy",
    "mean_gap",
    "smooth_ece",
    "ici",
    "worst_bin_gap",
    "class_gap",
    "class_share_gap",
]


def triples(scores):
    return {name: (score.value, score.low, score.high) for name, score in scores.items()}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_values_are_those_of_the_metrics(weighted, n_classes):
    y, p = draw_binary(500, decimals=2) if n_classes == 2 else draw_classes(500)
    p = p.clip(0.01, 0.99) if n_classes == 2 else p
    w = draw_weights(500) if weighted else None
    scores = cb.evaluate(y, p, sample_weight=w, n_bins=12)
    parts = metrics.decompose(y, p, sample_weight=w)
    expected = {
        "brier": metrics.brier_score(y, p, sample_weight=w),
        "log_loss": metrics.log_loss(y, p, sample_weight=w),
        "ece": metrics.ece(y, p, sample_weight=w, n_bins=12),
        "ece_debiased": metrics.ece_debiased(y, p, sample_weight=w, n_bins=12),
        "auc": metrics.roc_auc(y, p, sample_weight=w),
        "miscalibration": parts.miscalibration,
        "discrimination": parts.discrimination,
        "uncertainty": parts.uncertainty,
        "smooth_ece": metrics.smooth_ece(y, p, sample_weight=w),
        "ici": metrics.integrated_calibration_index(y, p, sample_weight=w),
    }
    expected["mean_gap"] = metrics.calibration_in_the_large(y, p, sample_weight=w)
    found = {name: score.value for name, score in scores.items()}
    parts = [found.pop(name) for name in ("worst_bin_gap", "class_gap", "class_share_gap") if name in found]
    assert np.all(np.abs(parts) < 0.5)
    if n_classes == 2:
        line = metrics.calibration_slope_intercept(y, p, sample_weight=w)
        expected |= {"slope": line.slope, "intercept": line.intercept}
        expected["base_rate"] = np.average(y, weights=w)
    else:
        expected["classwise_ece"] = metrics.classwise_ece(y, p, sample_weight=w, n_bins=12)
        expected["marginal_calibration_error"] = metrics.marginal_calibration_error(y, p, sample_weight=w, n_bins=12)
        expected["accuracy"] = np.average(p.argmax(axis=1) == y, weights=w)
    assert found == pytest.approx(expected)
    assert list(scores) == (BINARY_NAMES if n_classes == 2 else CLASS_NAMES)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_same_seed_gives_the_same_numbers(n_classes):
    y, p = draw_binary(300) if n_classes == 2 else draw_classes(300)
    first = cb.evaluate(y, p, rng=7)
    assert triples(cb.evaluate(y, p, rng=7)) == triples(first)
    assert triples(cb.evaluate(y, p, rng=np.random.default_rng(7))) == triples(first)
    assert triples(cb.evaluate(y, p, rng=8)) != triples(first)
    assert triples(cb.evaluate(y, p)) == triples(cb.evaluate(y, p))


def test_row_order_changes_no_bit_of_an_unweighted_binary_result():
    y, p = draw_binary(300)
    order = np.random.default_rng(0).permutation(300)
    assert triples(cb.evaluate(y[order], p[order])) == triples(cb.evaluate(y, p))


def test_scores_carry_where_they_come_from():
    y, p = draw_binary(50)
    for score in cb.evaluate(y, p, level=0.8, evaluated_on="held-out").values():
        assert (score.n, score.level, score.evaluated_on) == (50, 0.8, "held-out")
        assert score.method
    assert cb.evaluate(y, p, sample_weight=np.arange(50) % 2)["brier"].n == 25


@pytest.mark.parametrize("kind", [pd.Series, pl.Series, pa.array, list])
def test_any_container_gives_the_same_scores(kind):
    y, p = draw_binary(60)
    assert triples(cb.evaluate(kind(y), kind(p))) == triples(cb.evaluate(y, p))


def test_higher_level_gives_wider_intervals():
    y, p = draw_binary(300)
    narrow, wide = cb.evaluate(y, p, level=0.5), cb.evaluate(y, p, level=0.99)
    for name in BINARY_NAMES:
        assert wide[name].high - wide[name].low > narrow[name].high - narrow[name].low, name


def test_rows_of_one_class_have_no_auc_and_say_so():
    scores = cb.evaluate([0, 0, 0], [0.1, 0.2, 0.3])
    assert math.isnan(scores["auc"].value)
    assert scores["auc"].note == "undefined: one class"
    assert scores.to_dict()["scores"]["auc"]["value"] is None
    alone = cb.evaluate([1, 1, 1], np.full((3, 3), 1 / 3))
    assert alone["auc"].note == "undefined: one class"


def test_class_without_rows_is_left_out_of_the_mean_auc_and_counted():
    y, P = draw_classes(200)
    kept = y < 2
    scores = cb.evaluate(y[kept], P[kept])
    areas = [metrics.roc_auc(y[kept] == k, P[kept][:, k]) for k in range(2)]
    assert scores["auc"].value == pytest.approx(np.mean(areas))
    assert scores["auc"].note == "mean over 2 of 3 classes: the others have no rows"


def test_infinite_log_loss_is_kept_and_explained():
    score = cb.evaluate([0, 1, 1], [0.2, 0.0, 0.9])["log_loss"]
    assert score.value == score.low == score.high == math.inf
    assert score.note == "infinite: something happened that had probability 0"


def rows_at(p, rate, n):
    """Return n labels of which a share `rate` is 1, all predicted p."""
    return np.arange(n) < round(rate * n), np.full(n, p)


def joined(*parts):
    y, p = zip(*parts, strict=True)
    return np.concatenate(y), np.concatenate(p)


def test_verdict_says_too_high_by_how_much_and_where():
    y, p = joined(rows_at(0.65, 0.41, 310), rows_at(0.2, 0.2, 500), rows_at(0.9, 0.9, 500))
    verdict = cb.evaluate(y, p, n_bins=10).verdict
    gap = cb.evaluate(y, p)["mean_gap"]
    assert verdict.startswith(
        f"Not calibrated: predictions are too high, by {gap.value:.3f} on average "
        f"(95% interval {gap.low:.3f} to {gap.high:.3f})"
    )
    assert "Worst between 0.60 and 0.70: predicted 0.65, happened 0.41 (310 rows)." in verdict


def test_worst_place_is_the_one_that_adds_most_and_not_the_largest_gap():
    y, p = joined(rows_at(0.65, 0.41, 310), rows_at(0.15, 1.0, 5), rows_at(0.9, 0.9, 500))
    assert "Worst between 0.60 and 0.70" in cb.evaluate(y, p, n_bins=10).verdict


def test_verdict_says_too_low_with_the_interval_the_right_way_round():
    y, p = rows_at(0.3, 0.5, 400)
    scores = cb.evaluate(y, p, level=0.9)
    gap = scores["mean_gap"]
    assert scores.verdict.startswith(
        f"Not calibrated: predictions are too low, by 0.200 on average (90% interval {-gap.high:.3f} to {-gap.low:.3f})"
    )


def test_verdict_says_over_confident_and_under_confident():
    over = joined(rows_at(0.05, 0.25, 400), rows_at(0.95, 0.75, 400))
    assert "right on average but over-confident (too far from the base rate of 0.50)" in cb.evaluate(*over).verdict
    under = joined(rows_at(0.3, 0.1, 400), rows_at(0.7, 0.9, 400))
    assert "right on average but under-confident (too near the base rate of 0.50)" in cb.evaluate(*under).verdict


def test_verdict_says_off_in_places_where_the_gaps_cancel():
    y, p = joined(rows_at(0.1, 0.1, 900), rows_at(0.45, 0.7, 300), rows_at(0.55, 0.3, 300), rows_at(0.9, 0.9, 900))
    assert "predictions are right on average but off in places" in cb.evaluate(y, p).verdict


def test_verdict_on_perfect_probabilities_finds_nothing():
    y, p = joined(*(rows_at(k / 10, k / 10, 2000) for k in range(1, 10)))
    assert cb.evaluate(y, p).verdict.startswith("No miscalibration found: predictions are off by")
    assert "wide" not in cb.evaluate(y, p).verdict


def test_verdict_on_few_rows_says_what_can_t_be_ruled_out():
    y, p = joined(rows_at(0.3, 0.3, 10), rows_at(0.8, 0.8, 10))
    scores = cb.evaluate(y, p)
    largest = max(scores["ece_debiased"].high, scores["mean_gap"].high, -scores["mean_gap"].low)
    assert scores.verdict.endswith(
        f"With 20 rows the intervals are wide: an error of {largest:.2f} can't be ruled out."
    )


def test_verdict_on_classes_speaks_of_confidence():
    y, P = draw_classes(3000, temperature=0.5)
    verdict = cb.evaluate(y, P).verdict
    assert verdict.startswith("Not calibrated: the confidence in the predicted class is too high, by 0.")
    assert ", right 0." in verdict


def test_verdict_on_weighted_rows_gives_a_share_instead_of_a_count():
    y, p = rows_at(0.9, 0.5, 200)
    assert "(100% of the weight)" in cb.evaluate(y, p, sample_weight=np.arange(200) + 1.0).verdict


def without_and_with_intervals(y, p, **how):
    return cb.evaluate(y, p, intervals=False, **how), cb.evaluate(y, p, **how)


def assert_same_values(found, full, *, rtol=0.0):
    assert list(found) == list(full)
    for name, score in found.items():
        np.testing.assert_allclose(score.value, full[name].value, rtol=rtol, atol=0.0, err_msg=name)
        assert (score.n, score.n_eff, score.evaluated_on) == (full[name].n, full[name].n_eff, full[name].evaluated_on)
        assert (score.note, score.where) == (full[name].note, full[name].where), name
        assert score.method == "none", name
        assert math.isnan(score.low)
        assert math.isnan(score.high)
    assert found.test is None
    assert found.verdict == "Not judged: a verdict goes by intervals, and none were asked for."


@pytest.mark.parametrize("n", [50, 100, 5000])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_the_same_bits_without_intervals(n, weighted):
    y, p = draw_binary(n)
    weight = draw_weights(n) if weighted else None
    assert_same_values(*without_and_with_intervals(y, p, sample_weight=weight, evaluated_on="held-out"))


@pytest.mark.parametrize("name", ["impossible", "votes", "one class", "separated", "constant"])
def test_values_and_notes_are_the_same_without_intervals_where_some_are_undefined(name):
    y, p = {
        "impossible": ([0, 1] * 30, [0.25, 0.0] * 30),
        "votes": ([0, 1, 1, 0] * 20, [0.2, 0.4, 0.8, 0.6] * 20),
        "one class": ([0] * 40, [0.1, 0.3] * 20),
        "separated": ([0, 1] * 20, [0.25, 0.75] * 20),
        "constant": ([0, 1] * 20, [0.5] * 40),
    }[name]
    assert_same_values(*without_and_with_intervals(y, p, classes=[0, 1]))


def test_values_are_the_same_without_intervals_where_rows_are_not_independent():
    y, p = draw_binary(400)
    assert_same_values(*without_and_with_intervals(y, p, cluster=np.arange(400) // 8))


@pytest.mark.parametrize("n_classes", [3, 12])
def test_values_of_classes_are_the_same_without_intervals(n_classes):
    rng = np.random.default_rng(n_classes)
    P = rng.dirichlet(np.ones(n_classes), 300)
    y = (rng.random(300)[:, None] > P.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 2)  # one class has no rows
    assert_same_values(*without_and_with_intervals(y, P, classes=np.arange(n_classes)), rtol=1e-14)


def test_intervals_is_a_flag():
    with pytest.raises(InvalidTypeError, match="intervals=0 is not True or False"):
        cb.evaluate([0, 1], [0.2, 0.8], intervals=0)
