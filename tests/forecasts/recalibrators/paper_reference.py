"""Algorithm 1 of Sahoo et al. (2021) in plain NumPy, with the grids of its official code: the oracle of the tests.

Every candidate split is computed from scratch. `apply_on_grid` is the design of the official code: each row's CDF on a
grid of thousands of points, pushed through all rounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
CLIP = 1e-12


class PaperRound(NamedTuple):
    """A split and the knots of the maps on both sides."""

    k: int
    alpha: float
    error: float
    left: tuple[Array, Array]
    right: tuple[Array, Array]


def thresholds(y: Array, n: int = 50) -> Array:
    rising = np.sort(y)
    return np.linspace(rising[int(0.2 * y.size)], rising[int(0.8 * y.size)], n)


def distance(u: Array) -> float:
    return float(np.abs(np.sort(u) - np.linspace(0.0, 1.0, u.size)).mean())


def ecdf(u: Array) -> tuple[Array, Array]:
    """Return (0, 0), (u_(i), i / (n + 2)), (1, 1), tied u at the mean of theirs."""
    rising = np.sort(np.clip(u, CLIP, 1.0 - CLIP))
    x, group, count = np.unique(rising, return_inverse=True, return_counts=True)
    y = np.bincount(group, (np.arange(u.size) + 1.0) / (u.size + 2.0)) / count
    return np.concatenate(([0.0], x, [1.0])), np.concatenate(([0.0], y, [1.0]))


def worst_split(u: Array, h: Array, alphas: Array, least: float) -> tuple[float, int, float] | None:
    """Return the first (y0, alpha) with the greatest sum of both sides' distances; `h` has shape (n, K)."""
    best: tuple[float, int, float] | None = None
    order = np.argsort(u, kind="stable")
    rising, sorted_h = u[order], h[order]
    for k in range(h.shape[1]):
        for alpha in alphas:
            left = sorted_h[:, k] <= alpha
            n_left = int(left.sum())
            if min(n_left, u.size - n_left) <= least:
                continue
            error = sum(
                float(np.abs(side - np.linspace(0.0, 1.0, side.size)).mean()) for side in (rising[left], rising[~left])
            )
            if best is None or error > best[0]:
                best = error, k, float(alpha)
    return best


def fit(u: Array, h: Array, *, n_rounds: int = 40, least: float | None = None) -> tuple[list[PaperRound], Array]:
    """Return the rounds, and the levels of the outcomes after them."""
    u, h = u.copy(), h.copy()
    alphas = np.linspace(0.05, 0.95, 20)
    least = min(200, (u.size - 1) // 4) if least is None else least
    rounds = []
    for _ in range(n_rounds):
        found = worst_split(u, h, alphas, least)
        if found is None:
            break
        error, k, alpha = found
        is_left = h[:, k] <= alpha
        left, right = ecdf(u[is_left]), ecdf(u[~is_left])
        rounds.append(PaperRound(k, alpha, error, left, right))
        u = np.where(is_left, np.interp(u, *left), np.interp(u, *right))
        h = np.where(is_left[:, None], np.interp(h, *left), np.interp(h, *right))
    return rounds, u


def apply_on_grid(rounds: list[PaperRound], y0: Array, cdf: Any, low: float, high: float, at: Array) -> Array:
    """Return the recalibrated CDFs at the points `at`, shape (m,), by way of 8,000 points per row."""
    grid = np.linspace(low, high, 8_000)
    levels = cdf(grid[None, :])
    place = np.searchsorted(grid, y0)
    for made in rounds:
        is_left = levels[:, place[made.k]] <= made.alpha
        for rows, knots in ((is_left, made.left), (~is_left, made.right)):
            levels[rows] = np.interp(levels[rows], *knots)
    return np.array([np.interp(at, grid, row) for row in levels])
