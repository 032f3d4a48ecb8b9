"""Rows with features, and a search over their segments that is written as plainly as can be."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd


def draw_rows(n: int = 3000, seed: int = 0) -> tuple[np.random.Generator, Any, dict[str, Any]]:
    """Return a generator, probabilities, and features of two kinds."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.8, 1.2, n)
    features = {
        "city": rng.choice(["Bonn", "Kyiv", "Rome"], n),
        "sex": rng.choice(["f", "m"], n),
        "k": rng.integers(0, 4, n),
        "age": rng.normal(40.0, 12.0, n),
    }
    return rng, p, features


class Plain(NamedTuple):
    """What the plain search finds of one segment."""

    rows: frozenset[int]
    sigma: float
    error: float
    gap: float


def cut(column: Any, n_bins: int) -> list[Any]:
    """Return what segments are made by: values, or ranges between quantiles as pandas cuts them."""
    series = pd.Series(column)
    if series.dtype.kind in "fiu" and series.nunique() > n_bins:
        edges = series.quantile(np.linspace(0.0, 1.0, n_bins + 1))
        series = pd.cut(series, edges, labels=False, include_lowest=True, duplicates="drop")
    return ["missing" if pd.isna(v) else v for v in series.tolist()]


def plain_search(
    y: Any, p: Any, features: Any, *, depth: int = 2, min_rows: int = 50, n_bins: int = 5, weight: Any = None
) -> list[Plain]:
    """Measure all segments one by one; those of the same rows are one."""
    y, p = np.asarray(y, float), np.asarray(p, float)
    w = np.ones(p.size) if weight is None else np.asarray(weight, float)
    columns = {name: cut(column, n_bins) for name, column in features.items()}
    found: dict[frozenset[int], Plain] = {}
    for order in range(depth + 1):
        for names in itertools.combinations(columns, order):
            members: dict[tuple[Any, ...], list[int]] = {}
            for i in range(p.size):
                members.setdefault(tuple(columns[name][i] for name in names), []).append(i)
            for rows in members.values():
                if len(rows) >= min_rows:
                    found.setdefault(frozenset(rows), _measure(rows, y, p, w))
    return sorted(found.values(), key=lambda each: -each.sigma)


def _measure(rows: list[int], y: Any, p: Any, w: Any) -> Plain:
    walk, total = [0.0], sum(w[i] for i in rows)
    by_score = sorted(rows, key=lambda i: p[i])
    at = 0.0
    for k, i in enumerate(by_score):
        at += w[i] * (y[i] - p[i]) / total
        if k + 1 == len(by_score) or p[by_score[k + 1]] > p[i]:
            walk.append(at)
    error = max(walk) - min(walk)
    spread = math.sqrt(sum(w[i] ** 2 * p[i] * (1.0 - p[i]) for i in rows)) / total
    gap = sum(w[i] * (p[i] - y[i]) for i in rows) / total
    return Plain(frozenset(rows), error / spread, error, gap)
