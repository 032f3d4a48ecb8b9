"""The nearest columns of relaxed orders: against a general solver, and against counts over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calibrant import kernels

EDGES = np.array([0, 1, 2, 4, 5, 6, 7, 9, 10], dtype=np.int32)  # ten places, two pairs of which are ties


def test_column_with_slack_is_nearest_under_weights() -> None:
    rng = np.random.default_rng(0)
    tie = np.repeat(np.arange(8), np.diff(EDGES))
    violations = [(a, b) for a in range(10) for b in range(10) if a != b and tie[a] <= tie[b]]
    high, low = np.array(violations).T
    slope = np.eye(10)[low] - np.eye(10)[high]
    for slack in (0.0, 0.1, 0.5, 5.0):
        value, weight = rng.normal(0.3, 0.5, 10), rng.uniform(0.5, 3.0, 10)
        out = np.empty(10)
        kernels.fit_relaxed(value, weight, EDGES, (kernels.SLACK, slack), out)
        best = minimize(
            lambda q, v=value, w=weight: 0.5 * w @ (q - v) ** 2,
            np.full(10, 0.3),
            jac=lambda q, v=value, w=weight: w * (q - v),
            bounds=[(0.0, None)] * 10,
            constraints=[{"type": "ineq", "fun": lambda q, s=slack: q[low] - q[high] + s, "jac": lambda _: slope}],
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1_000},
        )
        np.testing.assert_allclose(out, best.x, rtol=0, atol=2e-6)
        assert (out[high] - out[low]).max() <= slack + 1e-15


def neighbours_cost(q: np.ndarray, value: np.ndarray, weight: np.ndarray, price: float) -> float:
    highest, lowest = np.maximum.reduceat(q, EDGES[:-1]), np.minimum.reduceat(q, EDGES[:-1])
    violations = (highest - lowest).sum() + np.maximum(highest[:-1] - lowest[1:], 0.0).sum()
    return float(0.5 * weight @ (q - value) ** 2 + price * violations)


def all_pairs_cost(q: np.ndarray, value: np.ndarray, weight: np.ndarray, price: float) -> float:
    tie = np.repeat(np.arange(8), np.diff(EDGES))
    violations = sum(
        weight[a] * weight[b] * max(q[a] - q[b], 0.0)
        for a in range(10)
        for b in range(10)
        if a != b and tie[a] <= tie[b]
    )
    return float(0.5 * weight @ (q - value) ** 2 + price * violations)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "cost"),
    [
        (kernels.NEIGHBOURS, neighbours_cost),
        (kernels.PAIRS, all_pairs_cost),
    ],
)
def test_no_column_near_the_answer_costs_less_at_a_price(kind, cost) -> None:  # type: ignore[no-untyped-def]
    """The cost is convex: least among its neighbours is least of all. Entries of a tie that are equal move as one."""
    rng = np.random.default_rng(1)
    for price in (0.0, 0.001, 0.05, 0.4, 50.0):
        for _ in range(6):
            value, weight = rng.normal(0.3, 0.5, 10), rng.uniform(0.5, 3.0, 10)
            out = np.empty(10)
            kernels.fit_relaxed(value, weight, EDGES, (kind, price), out)
            assert out.min() >= 0.0
            least = cost(out, value, weight, price)
            levels = np.unique(out)
            for step in (1e-4, -1e-4, 1e-2, -1e-2):
                for _ in range(40):
                    way = np.where(rng.random() < 0.5, rng.normal(size=10), rng.normal(size=levels.size)[0])
                    of_level = rng.normal(size=levels.size)[np.searchsorted(levels, out)]
                    for direction in (way, of_level, (rng.random(10) < 0.3) * 1.0):
                        other = np.maximum(out + step * direction, 0.0)
                        assert cost(other, value, weight, price) >= least - 1e-13 * (1.0 + price)


def test_column_at_a_price_keeps_equal_entries_apart_only_where_that_pays() -> None:
    value, weight, edges = np.array([0.2, 0.6, 0.9]), np.ones(3), np.array([0, 2, 3], dtype=np.int32)
    for kind in (kernels.NEIGHBOURS, kernels.PAIRS):
        for price, expected in ((0.0, [0.2, 0.6]), (0.05, [0.25, 0.55]), (0.2, [0.4, 0.4]), (9.0, [0.4, 0.4])):
            out = np.empty(3)
            kernels.fit_relaxed(value, weight, edges, (kind, price), out)
            np.testing.assert_allclose(out, [*expected, 0.9], rtol=0, atol=1e-15)


def test_violations_of_all_pairs_are_those_counted_one_by_one() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        value, weight = rng.normal(size=10).round(1), rng.uniform(0.5, 3.0, 10)
        counted = all_pairs_cost(value, value, weight, 1.0)
        assert kernels.sum_pair_violations(value, weight, EDGES) == pytest.approx(counted, rel=1e-13)
    rising = np.repeat(np.linspace(0.0, 1.0, 8), np.diff(EDGES))
    assert kernels.sum_pair_violations(rising, weight, EDGES) == 0.0
