"""The joint test: its parts against exact distributions and other tests, its size, its power, dependence."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.special import expit, logit

from calibrant.metrics import joint_test, kuiper, spiegelhalter_z


def drawn(n: int, seed: int, *, centre: float = 0.0, slope: float = 1.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    p = expit(rng.normal(centre, 1.5, n))
    return rng.random(n) < expit(slope * logit(p)), p


@pytest.mark.parametrize(("n", "rate"), [(40, 0.5), (60, 0.1), (400, 0.02), (2_000, 0.3)])
def test_mean_has_the_tail_of_the_binomial(n: int, rate: float) -> None:
    """With one probability the sum is binomial; the saddlepoint lies between its tails with and without the count."""
    for k in range(n + 1):
        if n * rate == k or not 1e-12 < stats.binom.pmf(k, n, rate) < 0.02:
            continue
        p = joint_test([1] * k + [0] * (n - k), np.full(n, rate), classes=[0, 1]).p_value
        tail = stats.binom.sf(k, n, rate) if k > n * rate else stats.binom.cdf(k - 1, n, rate)
        with_count = tail + stats.binom.pmf(k, n, rate)
        assert 2.0 * tail * 0.9 <= p <= 2.0 * with_count * 1.1


def test_mean_of_many_probabilities_has_the_tail_that_simulation_gives() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 20.0, 150)
    sums = (rng.random((40_000, 150)) < p).sum(axis=1)
    k = int(np.quantile(sums, 0.99))
    y = np.zeros(150, dtype=int)
    y[np.argsort(-p)[:k]] = 1
    found = joint_test(y, p, classes=[0, 1]).parts["mean"]
    assert 2.0 * np.mean(sums > k) * 0.9 <= found <= 2.0 * np.mean(sums >= k) * 1.1


def test_parts_are_the_tests_they_are_named_after() -> None:
    y, p = drawn(5_000, 1, slope=0.99)
    parts = joint_test(y, p).parts
    assert parts["confidence"] == pytest.approx(spiegelhalter_z(y, p).p_value, rel=0.2)
    assert parts["range"] == pytest.approx(kuiper(y, p).p_value, rel=0.2)
    v, z = p * (1 - p), logit(p)
    centred = z - np.average(z, weights=v)
    score = np.sum(centred * (y - p)) / np.sqrt(np.sum(v * centred**2))
    assert parts["slope"] == pytest.approx(2.0 * stats.norm.sf(abs(score)), rel=0.2)


def test_what_was_impossible_and_happened_is_proof() -> None:
    y, p = drawn(500, 0)
    p[np.flatnonzero(y)[0]] = 0.0
    test = joint_test(y, p)
    assert test.p_value == 0.0
    assert test.strongest == "impossible"
    assert min(p for part, p in test.parts.items() if part != "impossible") > 1e-3


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans(), st.floats(1e-3, 1e3)), min_size=1, max_size=60))
def test_any_rows_have_p_values(rows: list[tuple[float, bool, float]]) -> None:
    p, y, w = (np.array(column) for column in zip(*rows, strict=True))
    for weight in (None, w):
        test = joint_test(y, p, sample_weight=weight, classes=[False, True])
        assert all(0.0 <= each <= 1.0 for each in (test.p_value, *test.parts.values()))


def test_the_scale_of_weights_changes_nothing() -> None:
    y, p = drawn(800, 2)
    w = np.random.default_rng(0).uniform(0.5, 2.0, 800)
    assert joint_test(y, p, sample_weight=w).p_value == pytest.approx(joint_test(y, p, sample_weight=7 * w).p_value)
    assert joint_test(y, p, sample_weight=np.full(800, 3.0)).p_value == pytest.approx(joint_test(y, p).p_value)


def share_rejected(draw: Any, n_draws: int, **what: Any) -> float:
    return float(np.mean([joint_test(*draw(seed), classes=[0, 1], **what).p_value < 0.05 for seed in range(n_draws)]))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "centre"), [(100, 0.0), (1_000, -6.0), (3_000, 0.0)])
def test_calibrated_rows_are_rejected_as_rarely_as_is_said(n: int, centre: float) -> None:
    assert share_rejected(lambda seed: drawn(n, seed, centre=centre), 600) <= 0.05 + 2.5 * 0.009


@pytest.mark.slow
def test_each_way_of_being_off_is_found_nearly_as_often_as_by_the_test_for_it() -> None:
    for slope in (0.8, 1.3):
        rows = [drawn(1_000, seed, slope=slope) for seed in range(200)]
        best = np.mean([spiegelhalter_z(y, p).p_value < 0.05 for y, p in rows])
        assert np.mean([joint_test(y, p).p_value < 0.05 for y, p in rows]) >= best - 0.15


#: Few rows, most of them of probabilities that leave little to chance.
FEW_ROWS = {
    "sure": [0.2, 1e-5, 1e-6, 1e-7, 1 - 1e-5, 1 - 1e-6, 1 - 1e-7],
    "three": [0.99, 0.99, 0.99],
    "rare": [0.01] * 9,
    "even": [0.5] * 9,
    "uniform": np.random.default_rng(0).uniform(size=9),
    "extreme": expit(np.random.default_rng(1).normal(0.0, 12.0, 9)),
    "ends": np.random.default_rng(2).beta(0.1, 0.1, 9),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", FEW_ROWS)
def test_of_all_outcomes_of_few_rows_those_found_off_are_as_rare_as_is_said(name: str, weighted: bool) -> None:
    p = np.array(FEW_ROWS[name])
    w = np.exp(1.5 * np.random.default_rng(3).normal(size=p.size)) if weighted else None
    outcomes = [np.array(y) for y in product((0, 1), repeat=p.size)]
    chance = np.array([np.prod(np.where(y, p, 1.0 - p)) for y in outcomes])
    found = np.array([joint_test(y, p, sample_weight=w, classes=[0, 1]).p_value for y in outcomes])
    for level in (0.05, 0.01, 0.001):
        assert chance[found <= level].sum() <= 1.25 * level


def test_predictions_next_to_0_and_1_prove_nothing() -> None:
    p = np.r_[np.full(100, 0.3), np.full(100, 0.7), 1.0 - 1e-15]
    y = np.r_[np.ones(30), np.zeros(70), np.ones(70), np.zeros(30), 1.0].astype(int)
    assert joint_test(y, p).p_value == 1.0

    def sure(seed: int) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        p = rng.beta(0.1, 0.1, 500)
        return rng.random(500) < p, p

    assert share_rejected(sure, 200) <= 0.05 + 2.5 * 0.0154


def test_a_few_heavy_rows_decide_by_themselves() -> None:
    def heavy(seed: int) -> float:
        rng = np.random.default_rng(seed)
        p = rng.uniform(size=100)
        w = np.r_[np.ones(3), np.full(97, 1e-9)]
        return joint_test(rng.random(100) < p, p, sample_weight=w, classes=[False, True]).p_value

    assert np.mean([heavy(seed) < 0.05 for seed in range(200)]) <= 0.05 + 2.5 * 0.0154


def clustered(n: int, size: int, seed: int) -> tuple[Any, Any, Any]:
    """Return calibrated rows whose clusters share much of the chance."""
    rng = np.random.default_rng(seed)
    p, cluster = expit(rng.normal(0.0, 1.0, n)), np.arange(n) // size
    shared = np.sqrt(0.5) * rng.normal(size=n // size)[cluster] + np.sqrt(0.5) * rng.normal(size=n)
    return stats.norm.cdf(shared) < p, p, cluster


@pytest.mark.slow
def test_clusters_are_allowed_for_and_ignoring_them_is_not_harmless() -> None:
    rows = [clustered(1_000, 20, seed) for seed in range(300)]
    ignored = np.mean([joint_test(y, p).p_value < 0.05 for y, p, _ in rows])
    declared = np.mean([joint_test(y, p, cluster=cluster).p_value < 0.05 for y, p, cluster in rows])
    assert ignored > 0.3
    assert declared <= 0.05 + 2.5 * 0.0126


def test_one_cluster_proves_nothing() -> None:
    y, p = drawn(300, 0, slope=0.5)
    assert joint_test(y, p).p_value < 1e-3
    assert joint_test(y, p, cluster=np.zeros(300)).p_value > 0.2
