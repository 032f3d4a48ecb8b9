"""The sign of dependence: seldom without it, nearly always with it, and not by drift or by sorted rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from calibrant.dependence import dependence_hint

Floats = npt.NDArray[np.float64]


def overlapping_labels(rng: np.random.Generator, n: int, h: int) -> tuple[Floats, Floats]:
    """Return probabilities near one half, and whether a random walk is higher h steps later."""
    walk = np.concatenate(([0.0], rng.normal(size=n + h).cumsum()))
    return rng.uniform(0.48, 0.52, n), (walk[h : h + n] > walk[:n]).astype(float)


@pytest.mark.parametrize(("n", "rate"), [(50, 0.5), (200, 0.05), (1_000, 0.01), (1_000, 0.5)])
def test_independent_rows_show_no_sign_of_dependence(n: int, rate: float) -> None:
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(2_000):
        p = rng.beta(2.0, 2.0 / rate - 2.0, n)
        found += dependence_hint((rng.random(n) < p) - p, scores=p) != ""
    assert found <= 2


@pytest.mark.parametrize("h", [5, 20, 200])
def test_labels_that_overlap_show_it_in_nearly_every_table(h: int) -> None:
    rng = np.random.default_rng(1)
    tables = [overlapping_labels(rng, 2_000, h) for _ in range(100)]
    assert sum(dependence_hint(y - p, scores=p) != "" for p, y in tables) >= 99
    assert "errors of neighbouring rows are alike (correlation " in dependence_hint(tables[0][1] - tables[0][0])


def test_clusters_of_neighbours_show_it() -> None:
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(50):
        z = np.repeat(rng.normal(size=100), 20)
        p = np.full(2_000, 0.5)
        y = rng.random(2_000) < 1.0 / (1.0 + np.exp(-z))
        found += dependence_hint(y - p, weight=np.full(2_000, 2.0)) != ""
    assert found >= 49


@pytest.mark.parametrize("order", ["by score", "by label", "by label, downwards"])
def test_rows_that_are_sorted_and_not_calibrated_are_no_sign(order: str) -> None:
    found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p = rng.uniform(size=4_000)
        y = (rng.random(4_000) < p**2).astype(float)
        at = np.argsort({"by score": p, "by label": y, "by label, downwards": -y}[order], kind="stable")
        found += dependence_hint((y - p)[at], scores=p[at]) != ""
    assert found <= 1


def test_a_drift_of_independent_rows_is_no_sign() -> None:
    found = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.05, 0.75, 6_000)
        shift = 0.1 * (np.arange(6_000) >= 3_000)
        found += dependence_hint((rng.random(6_000) < p + shift) - p, scores=p) != ""
    assert found <= 2
