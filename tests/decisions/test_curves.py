"""Curves over all costs: net benefit as R's dcurves has it, cost curves by exact fractions, areas by other means."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm
from sklearn.metrics import roc_curve
from statsmodels.stats.proportion import proportion_confint

from calibrant.decisions import Problem, cost_curve, decision_curve, net_benefit, risk_coverage_curve, tune_threshold
from calibrant.errors import CalibrantError, InvalidInputError, InvalidTypeError, ShapeError

#: R's dcurves on its example data, df_binary: dca(cancer ~ famhistory), of 750 patients, 105 with cancer, 24 of whom
#: have cancer in the family, as have 91 of the others (files r_dca_famhistory.csv and interventions_avoided.csv among
#: the tests of dcurves for Python, version 1.1). Net benefit by threshold, and interventions avoided of 100.
FAMILY_HISTORY = {
    0.0: 0.032,
    0.05: 0.025614035087719297,
    0.2: 0.0016666666666666635,
    0.35: -0.033333333333333354,
    0.65: -0.19333333333333338,
}
AVOIDED = {0.05: -131.33333333333337, 0.14: 7.523809523809523, 0.5: 63.06666666666666, 0.99: 73.75757575757575}
TREAT_ALL = {0.0: 0.14, 0.05: 0.09473684210526317, 0.14: 0.0, 0.2: -0.075, 0.99: -84.99999999999993}
#: The same package's dca(cancer ~ cancerpredmarker): by threshold the true and false positives of 750, and net benefit
#: (file r_bin_dca_result_1.csv).
MARKER = {
    0.01: (105, 562, 0.13243097643097645),
    0.05: (96, 320, 0.1055438596491228),
    0.1: (87, 193, 0.08740740740740742),
    0.2: (75, 98, 0.06733333333333334),
    0.3: (62, 49, 0.05466666666666668),
    0.4: (47, 27, 0.038666666666666676),
    0.45: (40, 23, 0.02824242424242425),
}
TWO = {"a": {0: 1.0, 1: 0.0}, "b": {0: 0.0, 1: 1.0}}


def family_history() -> tuple[np.ndarray, np.ndarray]:
    counts = {(1, 1.0): 24, (0, 1.0): 91, (1, 0.0): 81, (0, 0.0): 554}
    rows = [row for row, n in counts.items() for _ in range(n)]
    return np.array([y for y, _ in rows]), np.array([p for _, p in rows])


def marker() -> tuple[np.ndarray, np.ndarray]:
    """Return rows that lie between the same thresholds as R's do: as many at each threshold itself, which counts."""
    y, p, above = [], [], (0, 0)
    for threshold, (positives, negatives, _) in sorted(MARKER.items(), reverse=True):
        for label, n in ((1, positives - above[0]), (0, negatives - above[1])):
            y += [label] * n
            p += [threshold] * n
        above = positives, negatives
    y += [1] * (105 - above[0]) + [0] * (645 - above[1])
    p += [0.001] * (750 - sum(above))
    return np.array(y), np.array(p)


def test_net_benefit_equals_that_of_dcurves_on_its_published_example() -> None:
    y, p = family_history()
    for threshold, value in FAMILY_HISTORY.items():
        assert net_benefit(y, p, threshold).value == pytest.approx(value, abs=1e-15)
    curve = decision_curve(y, p)
    assert curve.threshold.tolist() == [k / 100 for k in range(100)]
    for threshold, value in TREAT_ALL.items():
        assert curve.all[round(100 * threshold)] == pytest.approx(value, abs=1e-12)
    for threshold, value in AVOIDED.items():
        assert 100.0 * curve.interventions_avoided[round(100 * threshold)] == pytest.approx(value, rel=1e-12)
    y, p = marker()
    curve = decision_curve(y, p, thresholds=list(MARKER))
    np.testing.assert_allclose(curve.net_benefit, [value for *_, value in MARKER.values()], rtol=0.0, atol=1e-15)
    assert curve.base_rate == pytest.approx(0.14)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=3, max_size=20), st.integers(0, 7))
def test_net_benefit_is_that_of_exact_fractions(rows: list[tuple[bool, int]], eighth: int) -> None:
    y, p = np.array([r[0] for r in rows]), np.array([r[1] for r in rows]) / 8
    y[:2] = [True, False]
    t = Fraction(eighth, 8)
    acted = [q > 0 and Fraction(q) >= t for q in p.tolist()]
    tp, fp = (
        sum(a and b for a, b in zip(acted, y, strict=True)),
        sum(a and not b for a, b in zip(acted, y, strict=True)),
    )
    exact = Fraction(tp, len(rows)) - Fraction(fp, len(rows)) * t / (1 - t)
    assert net_benefit(y, p, eighth / 8).value == pytest.approx(float(exact), abs=1e-14)


def test_net_benefit_is_the_loss_saved_over_acting_on_none() -> None:
    """At threshold t costs of t and 1 - t, divided by 1 - t."""
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = rng.random(300) < p
    for t in (0.1, 0.35, 0.8):
        losses = np.where(p >= t, t * ~y, (1.0 - t) * y)
        assert net_benefit(y, p, t).value == pytest.approx(((1.0 - t) * y - losses).mean() / (1.0 - t), abs=1e-12)


def test_bands_of_a_decision_curve_cover() -> None:
    """The net benefit of true probabilities at 0.3 is known by integration: p uniform."""
    p = np.linspace(0.3, 1.0, 100_001)
    truth = 0.7 * float(np.mean(p - (1.0 - p) * 0.3 / 0.7))
    all_truth = 0.5 - 0.5 * 0.3 / 0.7
    hits = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        p = rng.random(250)
        curve = decision_curve(rng.random(250) < p, p, thresholds=[0.3])
        hits.append(
            (
                curve.low[0] <= truth <= curve.high[0],
                curve.all_low[0] <= all_truth <= curve.all_high[0],
                curve.over_all_low[0] <= truth - all_truth <= curve.over_all_high[0],
            )
        )
    assert np.all(np.mean(hits, axis=0) >= 0.92)
    assert np.all(np.mean(hits, axis=0) <= 0.98)


def test_clusters_widen_the_bands() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(100)
    y = rng.random(100) < p
    alone = decision_curve(y, p, thresholds=[0.2, 0.5])
    copies = {"cluster": np.repeat(np.arange(100), 4)}
    copied = decision_curve(np.repeat(y, 4), np.repeat(p, 4), thresholds=[0.2, 0.5], **copies)
    np.testing.assert_allclose(copied.high - copied.low, alone.high - alone.low, rtol=0.02)
    independent = decision_curve(np.repeat(y, 4), np.repeat(p, 4), thresholds=[0.2, 0.5])
    assert np.all(independent.high - independent.low < 0.6 * (alone.high - alone.low))


def test_cost_curve_is_that_of_scikit_learns_error_rates() -> None:
    rng = np.random.default_rng(2)
    p = rng.random(200)
    y = rng.random(200) < p**2
    curve = cost_curve(y, p)
    alarms, hits, cuts = roc_curve(y, p, drop_intermediate=False)
    envelope = np.min(
        curve.probability_cost[:, None] * (1 - hits) + (1 - curve.probability_cost[:, None]) * alarms, axis=1
    )
    np.testing.assert_allclose(curve.best, envelope, atol=1e-12)
    for i in (10, 50, 90):
        x, t = curve.probability_cost[i], curve.threshold[i]
        k = np.flatnonzero(cuts >= t)[-1]
        assert curve.expected_cost[i] == pytest.approx(x * (1 - hits[k]) + (1 - x) * alarms[k], abs=1e-12)
    assert np.all(curve.best <= np.minimum(curve.expected_cost, curve.trivial) + 1e-12)


def test_probability_cost_turns_into_the_threshold_of_its_costs() -> None:
    """PC(+) = pi FN / (pi FN + (1 - pi) FP), and Elkan's threshold FP / (FP + FN)."""
    y = np.array([0] * 6 + [1] * 2)
    curve = cost_curve(y, np.linspace(0.1, 0.8, 8), probability_cost=[0.25, 0.5])
    pi = Fraction(1, 4)
    for x, threshold in zip((Fraction(1, 4), Fraction(1, 2)), curve.threshold, strict=True):
        fn = x / pi / (x / pi + (1 - x) / (1 - pi))  # FN + FP = 1
        assert threshold == pytest.approx(float(1 - fn), abs=1e-15)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=2, max_size=6))
def test_area_is_the_mean_over_the_orders_of_equal_rows(rows: list[tuple[int, int]]) -> None:
    sure, losses = [r[0] for r in rows], [Fraction(r[1]) for r in rows]
    areas = []
    for order in permutations(range(len(rows))):
        if all(sure[a] >= sure[b] for a, b in pairwise(order)):
            sums = [sum((losses[i] for i in order[: k + 1]), Fraction(0)) / (k + 1) for k in range(len(rows))]
            areas.append(sum(sums) / len(rows))
    n = len(rows)
    curve = risk_coverage_curve([0, 1] + [0] * (n - 2), [0.5] * n, loss=[float(x) for x in losses], confidence=sure)
    assert curve.aurc.value == pytest.approx(float(sum(areas) / len(areas)), abs=1e-12)
    assert curve.excess >= -1e-12


def test_order_of_rows_with_weights_changes_no_area() -> None:
    rng = np.random.default_rng(5)
    p, w = rng.integers(0, 11, 40) / 10, rng.exponential(size=40)
    y = (rng.random(40) < p).astype(int)
    expected = risk_coverage_curve(y, p, sample_weight=w)
    assert 0.0 <= expected.aurc.low <= expected.best <= expected.aurc.value <= expected.aurc.high <= 1.0
    for _ in range(5):
        order = rng.permutation(40)
        ours = risk_coverage_curve(y[order], p[order], sample_weight=1e6 * w[order])
        ends = (ours.aurc.value, ours.aurc.low, ours.aurc.high, ours.best)
        assert ends == pytest.approx((expected.aurc.value, expected.aurc.low, expected.aurc.high, expected.best))


def test_rounding_makes_no_row_more_confident() -> None:
    p = np.array([0.43, 0.57])  # 1 - 0.43 is 0.5700000000000001
    curve = risk_coverage_curve([1, 1], p, loss=[1.0, 0.0])
    assert curve.coverage.tolist() == [1.0]
    assert curve.aurc.value == 0.5
    costs = [np.mean([0.1] * 3 + [0.7] * 7), np.mean([0.7] * 7 + [0.1] * 3)]
    assert costs[0] != costs[1]
    assert risk_coverage_curve([0, 1], p, confidence=costs).coverage.tolist() == [1.0]
    apart = [-1e-300, -0.0, 0.0, 1e-300]
    assert risk_coverage_curve([0, 1, 0, 1], [0.2, 0.9, 0.1, 0.8], confidence=apart).coverage.tolist() == [
        0.25,
        0.75,
        1,
    ]


def test_area_of_few_rows_has_an_interval_of_error_rates() -> None:
    aurc = risk_coverage_curve([0, 1, 1], [0.9, 0.2, 0.7]).aurc
    assert (aurc.low, aurc.high) == (0.0, 1.0)


def test_interval_of_the_area_covers_its_value_in_the_population() -> None:
    """Confidence c uniform on (1/2, 1) and errors of rate 1 - c: the area is the integral of E[error | c > q]."""
    rng = np.random.default_rng(3)
    c = np.sort(rng.uniform(0.5, 1.0, 400_000))[::-1]
    truth = float(np.mean(np.cumsum(1.0 - c) / np.arange(1, c.size + 1)))
    hits = []
    for seed in range(300):
        rng = np.random.default_rng([4, seed])
        p = rng.random(300)
        aurc = risk_coverage_curve(rng.random(300) < p, p).aurc
        hits.append(aurc.low <= truth <= aurc.high)
    assert 0.92 <= np.mean(hits) <= 0.98


def test_intervals_of_a_cost_curve_cover_where_misses_are_rare_and_dear() -> None:
    rng, x = np.random.default_rng(0), np.array([0.3, 0.8, 0.95, 0.98])
    p = rng.beta(0.3, 2.5, 400_000)
    rate = p.mean()
    acted = p >= ((1.0 - x) * rate / (x * (1.0 - rate) + (1.0 - x) * rate))[:, None]
    truth = x * np.mean(p * ~acted, axis=1) / rate + (1.0 - x) * np.mean((1.0 - p) * acted, axis=1) / (1.0 - rate)
    hits = []
    for _ in range(100):
        p = rng.beta(0.3, 2.5, 1_000)
        curve = cost_curve(rng.random(1_000) < p, p, probability_cost=x)
        assert ((curve.low <= curve.expected_cost) & (curve.expected_cost <= curve.high)).all()
        hits.append((curve.low <= truth) & (truth <= curve.high))
    assert np.mean(hits, axis=0).min() > 0.9
    few = cost_curve([0, 0, 1], [0.2, 0.6, 0.9])
    assert 0.0 <= few.low.min() <= few.high.max() <= 1.0


@pytest.mark.parametrize("n_levels", [1, 2, 5])
def test_error_of_the_area_is_that_of_the_jackknife_also_where_rows_tie(n_levels: int) -> None:
    rng = np.random.default_rng(n_levels)
    n = 400
    p = rng.choice(np.linspace(0.55, 0.95, n_levels), n)
    weight = rng.uniform(0.5, 2.0, n)
    hit = rng.random(n) < p
    aurc = risk_coverage_curve(hit, p, sample_weight=weight).aurc
    left_out = [np.arange(n) != i for i in range(n)]
    areas = [risk_coverage_curve(hit[at], p[at], sample_weight=weight[at]).aurc.value for at in left_out]
    error = np.sqrt((n - 1) * np.var(areas))
    assert (aurc.high - aurc.low) / (2.0 * norm.ppf(0.975)) == pytest.approx(error, rel=0.1)


def test_area_without_an_error_claims_no_certainty() -> None:
    p = np.linspace(0.7, 0.9, 30)
    aurc = risk_coverage_curve(np.ones(30), p, confidence=p).aurc
    assert aurc.value == aurc.low == 0.0
    assert aurc.high > 0.05


def test_risk_at_full_coverage_is_the_mean_loss_of_the_policy() -> None:
    rng = np.random.default_rng(5)
    p = rng.random(400)
    y = rng.random(400) < p
    problem = Problem.two_actions(false_positive=1.0, false_negative=4.0)
    curve = risk_coverage_curve(y, p, loss=problem)
    assert curve.risk[-1] == pytest.approx(np.where(p > 0.2, ~y, 4.0 * y).mean())
    assert curve.risk[0] <= curve.risk[-1]
    assert curve.coverage[-1] == 1.0


def test_tuning_finds_what_calibration_would_and_claims_nothing_for_calibrated_rows() -> None:
    rng = np.random.default_rng(6)
    p = rng.random(6_000)
    problem = Problem.two_actions(false_positive=1.0, false_negative=3.0)
    off = tune_threshold(rng.random(6_000) < p**2, p, problem)
    assert off.threshold.low <= 0.5 <= off.threshold.high, "where p ** 2 is 0.25"
    assert off.saved.low > 0.0
    held = []
    for seed in range(12):
        rng = np.random.default_rng([8, seed])
        p = rng.random(1_000)
        right = tune_threshold(rng.random(1_000) < p, p, problem)
        held.append((right.threshold.low <= 0.25 <= right.threshold.high, right.saved.low <= 1e-12))
    assert np.sum(held, axis=0).min() >= 10
    yes = off.policy().decide([off.threshold.value, off.threshold.value - 1e-9])
    assert yes.tolist() == ["yes", "no"]
    assert off.to_dict()["realised"]["evaluated_on"] == "the other rows"


def test_tuning_keeps_clusters_whole_and_times_apart() -> None:
    rng = np.random.default_rng(7)
    p = rng.random(400)
    y = rng.random(400) < p
    problem = Problem.two_actions(false_positive=1.0, false_negative=3.0)
    found = tune_threshold(y, p, problem, cluster=np.repeat(np.arange(40), 10), share=0.25)
    assert (found.threshold.n, found.realised.n) == (100, 300)
    assert "30 clusters" in found.realised.method
    start = np.arange(400)
    found = tune_threshold(y, p, problem, time=start, label_end=start + 20)
    assert found.threshold.n == 180, "20 of the first 200 have labels that overlap those of the others"
    assert found.realised.n == 200


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: net_benefit([0, 1], [0.1, 0.9], 1.0), InvalidInputError, "infinite odds"),
        (lambda: net_benefit([0, 1], [0.1, 0.9], 1.5), InvalidInputError, "threshold=1.5"),
        (lambda: net_benefit([0, 1, 1], [0.1, 0.9], 0.5), ShapeError, "2 rows and y has 3"),
        (lambda: net_benefit([1, 1], [0.1, 0.9], 0.5), CalibrantError, "y"),
        (lambda: net_benefit([0, 1, 2], np.eye(3), 0.5), ShapeError, "of 3 classes, and a threshold is on one"),
        (
            lambda: decision_curve([0, 1], [0.1, 0.9], thresholds=[0.1, 1.0]),
            InvalidInputError,
            r"s\[1\] is 1.0",
        ),
        (lambda: decision_curve([0, 1], [0.1, np.nan]), CalibrantError, "probabilities row 1"),
        (
            lambda: cost_curve([0, 1], [0.1, 0.9], probability_cost=[0.1, -0.2]),
            CalibrantError,
            "cost row 1",
        ),
        (lambda: risk_coverage_curve([0, 1], [0.1, 0.9], loss="cost"), InvalidTypeError, "loss='cost' is no loss"),
        (lambda: risk_coverage_curve([0, 1], [0.1, 0.9], loss=[1.0]), ShapeError, "loss has 1 rows"),
        (lambda: risk_coverage_curve([0, 1], [0.1, 0.9], confidence=[1.0, np.inf]), CalibrantError, "confidence row 1"),
        (
            lambda: tune_threshold([0, 1], [0.1, 0.9], {"a": {0: 1, 1: 0}, "b": {0: 0, 1: 1}}),
            InvalidInputError,
            "share",
        ),
        (
            lambda: tune_threshold([0, 1], [0.1, 0.9], Problem(TWO, abstain=1.0)),
            InvalidInputError,
            "two actions",
        ),
    ],
)
def test_what_has_no_curve_is_refused(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_risk_of_rows_without_an_error_may_be_as_great_as_wilsons_interval_says() -> None:
    y, p = np.append(np.zeros(40, int), 1), np.append(np.full(40, 1e-9), 1.0 - 1e-9)
    curve = risk_coverage_curve(y, p)
    expected = proportion_confint(0, 41, method="wilson")[1]
    assert (curve.risk[-1], curve.low[-1]) == (0.0, 0.0)
    assert curve.high[-1] == pytest.approx(expected, rel=1e-9)


def test_risk_of_probabilities_that_are_too_sure_is_covered() -> None:
    """What they say of their own errors is too little where they are surest, and rows with errors are few there."""
    rng, missed = np.random.default_rng(0), np.zeros(3)
    for _ in range(60):
        z = rng.normal(0.0, 3.0, 300)
        true, said = norm.cdf(z / 1.5), norm.cdf(z)
        curve = risk_coverage_curve((rng.random(300) < true).astype(int), said)
        order = np.argsort(-np.maximum(said, 1.0 - said), kind="stable")
        error = np.where(said > 0.5, 1.0 - true, true)[order]
        for k, share in enumerate((0.1, 0.3, 1.0)):
            i = int(np.abs(curve.coverage - share).argmin())
            risk = error[: round(curve.coverage[i] * 300)].mean()
            missed[k] += not curve.low[i] <= risk <= curve.high[i]
    assert missed.max() <= 6  # of 60 at 95%
