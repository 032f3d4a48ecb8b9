"""Tests of calibration: their statistics by slow loops, their distributions by simulation, their promises kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from metric_data import draw_binary, draw_classes, draw_weights
from scipy import stats

from calibrant.errors import InvalidInputError
from calibrant.metrics import calibration_e_value, hosmer_lemeshow, kolmogorov_smirnov, kuiper, spiegelhalter_z
from calibrant.metrics.calibration_tests import motion_exceeds, range_exceeds

TESTS = {
    "spiegelhalter_z": spiegelhalter_z,
    "hosmer_lemeshow": hosmer_lemeshow,
    "kolmogorov_smirnov": kolmogorov_smirnov,
    "kuiper": kuiper,
    "e_value": calibration_e_value,
}


@pytest.mark.parametrize("weighted", [False, True])
def test_spiegelhalter_z_equals_the_standardised_brier_score(weighted):
    y, p = draw_binary(300)
    w = draw_weights(300) if weighted else np.ones(300)
    share = w / w.sum()
    excess = share @ (p - y) ** 2 - share @ (p * (1 - p))
    variance = share**2 @ ((1 - 2 * p) ** 2 * p * (1 - p))  # of (p - y)^2, whose values are p^2 and (1 - p)^2
    test = spiegelhalter_z(y, p, sample_weight=w)
    assert test.z == pytest.approx(excess / math.sqrt(variance))
    assert test.p_value == pytest.approx(2 * stats.norm.sf(abs(test.z)))


def test_spiegelhalter_z_says_worse_or_better_than_promised():
    y = np.arange(100) % 10 < 3
    assert spiegelhalter_z(y, np.where(y, 0.2, 0.1)).z > 0
    assert spiegelhalter_z(y, np.where(y, 0.6, 0.4)).z < 0


@pytest.mark.parametrize(
    ("y", "p", "z", "p_value"),
    [([0, 1], [0.5, 0.5], 0.0, 1.0), ([0, 1], [0.0, 1.0], 0.0, 1.0), ([1, 1], [0.0, 1.0], math.inf, 0.0)],
)
def test_probabilities_that_leave_nothing_to_chance(y, p, z, p_value):
    test = spiegelhalter_z(y, p)
    assert (test.z, test.p_value) == (z, p_value)


@pytest.mark.parametrize("in_sample", [False, True])
def test_hosmer_lemeshow_equals_a_loop_over_groups(in_sample):
    y, p = draw_binary(300)
    order = np.argsort(p)
    statistic = 0.0
    for g in np.array_split(order, 10):
        expected = p[g].sum()
        statistic += (y[g].sum() - expected) ** 2 / (expected * (1 - expected / g.size))
    test = hosmer_lemeshow(y, p, in_sample=in_sample)
    assert test.statistic == pytest.approx(statistic)
    assert test.dof == (8 if in_sample else 10)
    assert test.p_value == pytest.approx(stats.chi2.sf(statistic, test.dof))


def test_hosmer_lemeshow_keeps_ties_whole_and_counts_the_groups_that_there_are():
    y, p = [0, 1, 1, 0, 1, 0], [0.2, 0.2, 0.2, 0.2, 0.7, 0.7]
    assert hosmer_lemeshow(y, p).dof == 2
    with pytest.raises(InvalidInputError, match="2 groups leave no degree of freedom with in_sample=True"):
        hosmer_lemeshow(y, p, in_sample=True)
    impossible = hosmer_lemeshow([1, 0], [0.0, 0.5])
    assert (impossible.statistic, impossible.p_value) == (math.inf, 0.0)
    assert hosmer_lemeshow([0, 1], [0.0, 1.0]).p_value == 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_cumulative_statistics_equal_a_loop_over_ranges(weighted):
    y, p = draw_binary(60, decimals=1)
    w = draw_weights(60) if weighted else np.ones(60)
    share = w / w.sum()
    cuts = [-1.0, *np.unique(p)]
    below = [share @ ((y - p) * (p <= cut)) for cut in cuts]
    spread = math.sqrt(share**2 @ (p * (1 - p)))
    for test, expected in (
        (kolmogorov_smirnov(y, p, sample_weight=w), max(abs(c) for c in below)),
        (kuiper(y, p, sample_weight=w), max(abs(a - b) for a in below for b in below)),
    ):
        assert test.statistic == pytest.approx(expected)
        assert test.scaled == pytest.approx(expected / spread)


def test_cumulative_tests_of_certain_probabilities():
    for test in (kolmogorov_smirnov, kuiper):
        assert test([0, 1], [0.0, 1.0]).p_value == 1.0
        wrong = test([1, 1], [0.0, 1.0])
        assert (wrong.statistic, wrong.scaled, wrong.p_value) == (0.5, math.inf, 0.0)


def test_distributions_of_brownian_motion_agree_with_simulated_walks():
    rng = np.random.default_rng(0)
    walks = np.cumsum(rng.standard_normal((8000, 900), dtype=np.float32), axis=1) / 30.0
    missed = 0.5826 / 30.0  # by which the extremes of a motion lie beyond those of its steps (Chernoff, 1965)
    largest = np.abs(walks).max(axis=1)
    spread = np.maximum(walks.max(axis=1), 0) - np.minimum(walks.min(axis=1), 0)
    for x in (0.6, 0.9, 1.3, 1.9, 2.3):
        assert motion_exceeds(x) == pytest.approx((largest > x - missed).mean(), abs=0.02)
        assert range_exceeds(x) == pytest.approx((spread > x - 2 * missed).mean(), abs=0.02)


@pytest.mark.slow
def test_distributions_have_their_known_moments_and_no_seam():
    x = np.linspace(0.0, 12.0, 24_001)
    tails = {f: np.array([f(v) for v in x.tolist()]) for f in (motion_exceeds, range_exceeds)}
    mean = {f: np.trapezoid(tail, x) for f, tail in tails.items()}
    square = {f: np.trapezoid(2 * x * tail, x) for f, tail in tails.items()}
    assert mean[motion_exceeds] == pytest.approx(math.sqrt(math.pi / 2), abs=1e-7)
    assert mean[range_exceeds] == pytest.approx(math.sqrt(8 / math.pi), abs=1e-7)  # Feller (1951), equation 1.5
    assert square[range_exceeds] == pytest.approx(4 * math.log(2), abs=1e-6)
    for f, tail in tails.items():
        assert (np.diff(tail) <= 1e-12).all()
        assert f(2.0 + 1e-9) == pytest.approx(f(2.0), abs=1e-8)
        assert (f(0.0), f(-1.0), f(40.0)) == (1.0, 1.0, 0.0)


def draw_calibrated(rng, n):
    p = rng.beta(0.7, 1.0, n)
    return rng.random(n) < p, p


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_calibrated_probabilities_are_rarely_rejected(name, weighted):
    rng = np.random.default_rng(11)
    values = []
    for _ in range(400):
        y, p = draw_calibrated(rng, 250)
        w = rng.gamma(2.0, 0.5, 250) if weighted else None
        values.append(TESTS[name](y, p, sample_weight=w).p_value)
    rejected = np.mean(np.array(values) <= 0.05)
    assert rejected <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
    if name != "e_value":
        assert rejected >= 0.01
        assert np.mean(np.array(values) <= 0.5) >= 0.35


@pytest.mark.parametrize("test", [kuiper, kolmogorov_smirnov])
def test_one_of_few_rare_events_is_as_surprising_as_it_is_rare(test):
    p = np.linspace(0.0005, 0.0015, 50)
    one = test([0] * 49 + [1], p).p_value
    assert one == pytest.approx(-math.expm1(np.log1p(-p).sum()), abs=0.02)
    assert test([0] * 48 + [1, 1], p).p_value < 0.005
    assert test([0] * 50, p, classes=[0, 1]).p_value > 0.9


@pytest.mark.parametrize("name", TESTS)
def test_wrong_probabilities_are_rejected(name):
    rng = np.random.default_rng(2)
    p = rng.random(2000)
    over_confident = rng.random(2000) < 0.25 + 0.5 * p
    assert TESTS[name](over_confident, p).p_value < 1e-3
    assert TESTS[name](rng.random(2000) < p**1.5, p).p_value < (1.0 if name == "spiegelhalter_z" else 0.01)


@pytest.mark.slow
def test_e_value_has_expectation_one_at_most():
    rng = np.random.default_rng(5)
    for weighted in (False, True):
        values = []
        for i in range(1500):
            y, p = draw_calibrated(rng, 12)
            w = rng.gamma(2.0, 0.5, 12) if weighted else None
            values.append(calibration_e_value(y, p, sample_weight=w, classes=[0, 1], rng=i).e_value)
        assert np.mean(values) <= 1.0 + 3 * np.std(values) / math.sqrt(1500)


@pytest.mark.slow
def test_product_of_e_values_over_days_seldom_ever_exceeds_twenty():
    rng = np.random.default_rng(6)
    exceeded = 0
    for _ in range(100):
        days = (calibration_e_value(*draw_calibrated(rng, 80), classes=[0, 1], rng=rng) for _ in range(10))
        exceeded += max(np.cumsum([day.log_e_value for day in days])) > math.log(20)
    assert exceeded <= 11


def test_e_value_of_an_impossible_event_is_infinite_and_of_certain_ones_is_one():
    test = calibration_e_value([1] * 20 + [0] * 20, [0.0] * 20 + [0.5] * 20)
    assert (test.e_value, test.log_e_value, test.p_value) == (math.inf, math.inf, 0.0)
    test = calibration_e_value([0, 1] * 20, [0.0, 1.0] * 20)
    assert (test.e_value, test.p_value) == (1.0, 1.0)
    assert calibration_e_value([1], [0.3]).e_value > 0.0


def test_e_value_of_equal_weights_is_that_of_rows_without_weights():
    y, p = draw_calibrated(np.random.default_rng(3), 60)
    for weight in (1.0, 2.0, 1e-6):
        assert calibration_e_value(y, p, sample_weight=np.full(60, weight)) == calibration_e_value(y, p)


def test_e_value_depends_on_the_seed_less_with_more_splits():
    y, p = draw_binary(300, power=1.2)
    spread = {n: np.std([calibration_e_value(y, p, n_splits=n, rng=i).log_e_value for i in range(20)]) for n in (1, 30)}
    assert spread[30] < 0.6 * spread[1]
    assert calibration_e_value(y, p, rng=3) == calibration_e_value(y, p, rng=3)
    with pytest.raises(InvalidInputError, match="n_splits=0 is too small"):
        calibration_e_value(y, p, n_splits=0)


@pytest.mark.parametrize("name", TESTS)
def test_scale_of_weights_and_order_of_rows_change_no_p_value(name):
    y, p = draw_binary(200, decimals=2)
    w = draw_weights(200)
    order = np.random.default_rng(1).permutation(200)
    expected = TESTS[name](y, p, sample_weight=w).p_value
    assert TESTS[name](y, p, sample_weight=1e6 * w).p_value == pytest.approx(expected, rel=1e-9)
    assert TESTS[name](y[order], p[order], sample_weight=w[order]).p_value == pytest.approx(expected, rel=1e-9)
    assert TESTS[name](y[order], p[order]).p_value == pytest.approx(TESTS[name](y, p).p_value, rel=1e-9)
    assert (
        TESTS[name](y, p, sample_weight=np.full(200, 7.0)).p_value == pytest.approx(TESTS[name](y, p).p_value, rel=1e-9)
        or name == "e_value"
    )


@pytest.mark.parametrize("name", TESTS)
def test_rows_of_weight_zero_are_no_rows(name):
    y, p = draw_binary(200)
    w = draw_weights(200)
    w[::4] = 0.0
    kept = w > 0
    assert TESTS[name](y, p, sample_weight=w) == TESTS[name](y[kept], p[kept], sample_weight=w[kept])
    assert TESTS[name](y, p, sample_weight=kept.astype(float)) == TESTS[name](y[kept], p[kept])


@pytest.mark.parametrize("name", TESTS)
def test_k_columns_are_judged_by_the_top_label(name):
    y, P = draw_classes(300)
    assert TESTS[name](y, P) == TESTS[name](P.argmax(axis=1) == y, P.max(axis=1))
