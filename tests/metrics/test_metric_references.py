"""Each metric against somebody else's solution: scikit-learn, slow loops, exact rationals, published values."""

from __future__ import annotations

import os
from fractions import Fraction
from math import inf, sqrt
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, strategies as st
from metric_data import draw_binary, draw_classes, draw_weights
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from statsmodels.stats.proportion import proportion_confint

from calibrant import metrics

LABELS = np.array([0, 0, 0, 1, 1, 1])
SCORES = np.array([0.4, 0.3, 0.2, 0.1, 0.5, 0.9])
#: Probabilities k / 20, which touch the edges of 4, 5 and 10 bins, and both ends.
EXACT_ROWS = st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.integers(1, 3)), min_size=1, max_size=40)


@pytest.mark.parametrize("weighted", [False, True])
def test_brier_log_loss_and_auc_equal_scikit_learn_s(weighted):
    y, p = draw_binary(3000, decimals=3)
    p = p.clip(0.001, 0.999)
    w = draw_weights(3000) if weighted else None
    assert metrics.brier_score(y, p, sample_weight=w) == pytest.approx(sk.brier_score_loss(y, p, sample_weight=w))
    assert metrics.log_loss(y, p, sample_weight=w) == pytest.approx(sk.log_loss(y, p, sample_weight=w))
    assert metrics.roc_auc(y, p, sample_weight=w) == pytest.approx(sk.roc_auc_score(y, p, sample_weight=w))


@pytest.mark.parametrize("weighted", [False, True])
def test_multiclass_log_loss_and_macro_auc_equal_scikit_learn_s(weighted):
    y, P = draw_classes(2000)
    w = draw_weights(2000) if weighted else None
    assert metrics.log_loss(y, P, sample_weight=w) == pytest.approx(sk.log_loss(y, P, sample_weight=w))
    expected = np.mean([sk.roc_auc_score(y == k, P[:, k], sample_weight=w) for k in range(3)])
    assert metrics.roc_auc(y, P, sample_weight=w) == pytest.approx(expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_multiclass_brier_is_the_sum_over_classes(weighted):
    y, P = draw_classes(500)
    w = draw_weights(500) if weighted else np.ones(500)
    expected = np.average(((P - np.eye(3)[y]) ** 2).sum(axis=1), weights=w)
    assert metrics.brier_score(y, P, sample_weight=w) == pytest.approx(expected)


def test_clip_of_log_loss_equals_scikit_learn_s_eps():
    y, p = np.array([0, 1, 1, 0]), np.array([0.0, 0.0, 1.0, 0.25])
    eps = np.finfo(float).eps
    assert metrics.log_loss(y, p) == inf
    assert metrics.log_loss(y, p, clip=eps) == pytest.approx(sk.log_loss(y, p))
    assert metrics.log_loss([0, 1], [[1.0, 0.0], [1.0, 0.0]]) == inf
    assert metrics.log_loss([0, 1], [[1.0, 0.0], [1.0, 0.0]], clip=0.25) == pytest.approx(-np.log(0.75 * 0.25) / 2)


@pytest.mark.parametrize("n_bins", [1, 3, 5, 7, 10, 15])
def test_uniform_curve_equals_scikit_learn_s(n_bins):
    y, p = draw_binary(2000, decimals=1)
    curve = metrics.reliability_curve(y, p, n_bins=n_bins, strategy="uniform")
    rate, mean = calibration_curve(y, p, n_bins=n_bins, strategy="uniform")
    np.testing.assert_allclose(curve.x, mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(curve.y, rate, rtol=0, atol=1e-12)


def test_intervals_of_the_curve_equal_statsmodels_wilson():
    y, p = draw_binary(200)
    curve = metrics.reliability_curve(y, p, n_bins=6, level=0.9)
    low, high = proportion_confint(curve.y * curve.n, curve.n, alpha=0.1, method="wilson")
    np.testing.assert_allclose(curve.low, low, rtol=0, atol=1e-12)
    np.testing.assert_allclose(curve.high, high, rtol=0, atol=1e-12)
    assert curve.n.sum() == 200


@given(rows=EXACT_ROWS, n_bins=st.sampled_from([1, 4, 5, 10]))
def test_uniform_ece_equals_exact_rationals(rows, n_bins):
    k, y, w = (np.array(column) for column in zip(*rows, strict=True))
    expected = exact_errors(k, y, w, [bin_of_twentieth(v, n_bins) for v in k])
    assert_errors(expected, k / 20, y, w, n_bins=n_bins, strategy="uniform")


@given(rows=EXACT_ROWS, n_bins=st.integers(1, 12))
def test_quantile_ece_equals_exact_rationals(rows, n_bins):
    k, y, w = (np.array(column) for column in zip(*rows, strict=True))
    weight = {v: int(w[k == v].sum()) for v in set(k.tolist())}
    middle = {v: sum(weight[u] for u in weight if u < v) + Fraction(weight[v], 2) for v in weight}
    total = sum(weight.values())
    bins = {v: min(int(middle[v] * n_bins / total), n_bins - 1) for v in weight}
    if any((middle[v] * n_bins / total).denominator == 1 for v in weight):
        return  # the middle lies on an edge, where rounding decides
    expected = exact_errors(k, y, w, [bins[v] for v in k.tolist()])
    assert_errors(expected, k / 20, y, w, n_bins=n_bins, strategy="quantile")


def bin_of_twentieth(k, n_bins):
    """Return the bin of k / 20; an edge belongs to the bin below it."""
    return max(-(-k * n_bins // 20) - 1, 0)


def exact_errors(k, y, w, bins):
    """Return the L1 error, the mean squared gap and the largest gap as exact fractions."""
    total, gaps = int(w.sum()), {}
    for i, b in enumerate(bins):
        mass, gap = gaps.get(b, (0, Fraction(0)))
        gaps[b] = (mass + int(w[i]), gap + int(w[i]) * (Fraction(int(k[i]), 20) - int(y[i])))
    shares = [(Fraction(mass, total), abs(gap / mass)) for mass, gap in gaps.values()]
    return sum(s * g for s, g in shares), sum(s * g**2 for s, g in shares), max(g for _, g in shares)


def assert_errors(expected, p, y, w, **options):
    l1, square, largest = expected
    assert metrics.ece(y, p, sample_weight=w, **options) == pytest.approx(float(l1), abs=1e-12)
    assert metrics.ece(y, p, sample_weight=w, norm="l2", **options) ** 2 == pytest.approx(float(square), abs=1e-12)
    assert metrics.max_calibration_error(y, p, sample_weight=w, **options) == pytest.approx(float(largest), abs=1e-12)


def test_confidence_of_exactly_zero_or_one_is_not_lost():
    y, p = [1, 1, 0, 0], [0.0, 0.0, 1.0, 1.0]
    assert metrics.ece(y, p) == 1.0
    assert metrics.ece([0, 1], [0.0, 1.0]) == 0.0


def test_debiased_error_equals_a_loop_over_bins():
    y, p = draw_binary(300, power=2.0)
    order = np.argsort(p)
    square = 0.0
    for b in np.array_split(order, 10):  # 300 distinct scores: 30 each
        rate, gap = y[b].mean(), p[b].mean() - y[b].mean()
        square += b.size / 300 * (gap**2 - rate * (1 - rate) / (b.size - 1))
    assert metrics.ece_debiased(y, p, n_bins=10) == pytest.approx(sqrt(square))


@pytest.mark.slow
def test_debiased_square_is_unbiased():
    rng = np.random.default_rng(3)
    p = np.repeat([0.2, 0.5, 0.9], 8)
    rate = np.repeat([0.3, 0.5, 0.7], 8)
    truth = (0.1**2 + 0.0 + 0.2**2) / 3
    from calibrant.metrics.bins import make_bins
    from calibrant.metrics.calibration_error import debiased_square
    from calibrant.summary import ScoreSummary

    draws = [
        debiased_square(make_bins(ScoreSummary.from_rows(p, rng.random(24) < rate, None), 3, "quantile"))
        for _ in range(4000)
    ]
    assert np.mean(draws) == pytest.approx(truth, abs=4 * np.std(draws) / sqrt(4000))


def test_top_label_and_classwise_errors_are_binary_errors_of_columns():
    y, P = draw_classes(600, n_classes=4)
    right = P.argmax(axis=1) == y
    assert metrics.top_label_ece(y, P) == pytest.approx(metrics.ece(right, P.max(axis=1)))
    assert metrics.ece(y, P) == metrics.top_label_ece(y, P)
    columns = [metrics.ece(y == k, P[:, k]) for k in range(4)]
    assert metrics.classwise_ece(y, P) == pytest.approx(np.mean(columns))


def test_one_column_has_the_top_label_of_its_two_columns():
    y, p = draw_binary(400)
    p[:3] = 0.5
    both = np.column_stack((1 - p, p))
    assert metrics.top_label_ece(y, p) == pytest.approx(metrics.top_label_ece(y, both))
    assert metrics.classwise_ece(y, p) == pytest.approx(metrics.classwise_ece(y, both))
    assert metrics.brier_score(y, both) == pytest.approx(2 * metrics.brier_score(y, p))
    assert metrics.log_loss(y, both) == pytest.approx(metrics.log_loss(y, p))


def test_decomposition_has_the_values_published_with_reliabilitydiag():
    brier = metrics.decompose(LABELS, SCORES)
    assert (brier.miscalibration, brier.discrimination, brier.uncertainty) == pytest.approx((0.1016667, 0.125, 0.25))
    log = metrics.decompose(LABELS, SCORES, score="log")
    parts = (log.miscalibration, log.discrimination, log.uncertainty)
    assert parts == pytest.approx((0.3237327, 0.3182571, 0.6931472), abs=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [None, 2])
def test_decomposition_equals_scikit_learn_s_isotonic_fit(weighted, decimals):
    y, p = draw_binary(800, decimals=decimals)
    w = draw_weights(800) if weighted else np.ones(800)
    q = IsotonicRegression().fit(p, y, sample_weight=w).predict(p)
    score, refit = np.average((p - y) ** 2, weights=w), np.average((q - y) ** 2, weights=w)
    rate = np.average(y, weights=w)
    parts = metrics.decompose(y, p, sample_weight=w)
    assert parts.miscalibration == pytest.approx(score - refit)
    assert parts.discrimination == pytest.approx(rate * (1 - rate) - refit)


def test_multiclass_decomposition_sums_the_columns_against_the_rest():
    y, P = draw_classes(500)
    parts = metrics.decompose(y, P)
    columns = [metrics.decompose(y == k, P[:, k]) for k in range(3)]
    for name in ("miscalibration", "discrimination", "uncertainty", "score"):
        assert getattr(parts, name) == pytest.approx(sum(getattr(c, name) for c in columns))
    assert parts.score == pytest.approx(metrics.brier_score(y, P))


def test_log_decomposition_of_a_confident_miss_is_infinite():
    parts = metrics.decompose([1, 0, 1], [0.0, 0.5, 0.7], score="log")
    assert parts.score == parts.miscalibration == inf
    assert np.isfinite(parts.discrimination)


@pytest.fixture
def data_folder() -> Path:
    folder = os.environ.get("CALIBRANT_DATA")
    if not folder:
        pytest.skip("CALIBRANT_DATA doesn't name a folder with scores/niamey_precip_2016.csv and others")
    return Path(folder)


@pytest.mark.parametrize(
    ("forecaster", "miscalibration", "discrimination"),
    [("Logistic", 0.01708, 0.05554), ("EMOS", 0.01828, 0.03047), ("ENS", 0.06607, 0.04412), ("EPC", 0.02235, 0.03228)],
)
def test_niamey_forecasts_have_the_published_decomposition(data_folder, forecaster, miscalibration, discrimination):
    table = pyarrow.csv.read_csv(data_folder / "scores" / "niamey_precip_2016.csv")
    parts = metrics.decompose(table["obs"], table[forecaster])
    assert parts.miscalibration == pytest.approx(miscalibration, abs=5e-6)
    assert parts.discrimination == pytest.approx(discrimination, abs=5e-6)
    assert parts.uncertainty == pytest.approx(0.24421, abs=5e-6)


def test_hpc_jobs_have_the_known_top_label_error(data_folder):
    table = pyarrow.parquet.read_table(data_folder / "scores" / "hpc_cv_4class.parquet")
    P = np.column_stack([table[c].to_numpy() for c in ("p_VF", "p_F", "p_M", "p_L")])
    assert metrics.top_label_ece(table["y"], P) == pytest.approx(0.071205, abs=5e-7)
