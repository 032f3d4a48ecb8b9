"""Calibrators of segments, drawn without a fit, with rows that reach every kind of value: what exports are held to."""

from __future__ import annotations

from typing import Any

import numpy as np

import calibrant as cb
from calibrant.maps import BetaMap, Map, SoftmaxMap, TreesMap
from calibrant.numerics import FloatArray
from calibrant.segments import FeatureColumn

N = 600
#: Levels that mean something in SQL, or hardly anything anywhere.
LEVELS = sorted(
    (
        *(
            "Bonn",
            "O'Hare",
            "''",
            'a"b',
            "a\\",
            "a\\'b",
            "a\nb",
            "a\n\n  b",
            "%s",
            "?",
            ":a",
            "--",
            "; DROP TABLE scores",
        ),
        *("NULL", "1", " ", "a`b", "\u00e9", "e\u0301", "\u4e2d", "\U0001f600", "${x}", "${env:HOME}"),
        *("__SQLGLOT__LB__", "{{ a }}", "$1", "\t", "\x01", ""),
    )
)
COLUMNS = (
    FeatureColumn("age"),
    FeatureColumn('the "city"', np.array(LEVELS, dtype=object)),
    FeatureColumn("is new", np.array([False, True])),
    FeatureColumn("zip", np.arange(-3, 37)),
    FeatureColumn("order"),
)


def random_trees(rng: np.random.Generator, n_trees: int, n_outputs: int, *, leaves: int = 12) -> TreesMap:
    """Return trees of random shapes and cuts, one of them a single leaf, that look at margins and all features."""
    columns: list[int] = []
    found: dict[str, list[Any]] = {
        name: [] for name in ("roots", "values", "left", "right", "missing_left", "set_sizes", "set_codes")
    }

    def add(leaves: int) -> int:
        at = len(columns)
        columns.append(-1)
        found["values"].append(float(rng.normal(0.0, 0.2)))
        for name in ("left", "right"):
            found[name].append(-1)
        for name in ("missing_left", "set_sizes"):
            found[name].append(0)
        if leaves > 1:
            j = int(rng.integers(n_outputs + len(COLUMNS)))
            levels = None if j < n_outputs else COLUMNS[j - n_outputs].levels
            columns[at] = j
            found["missing_left"][at] = int(rng.integers(2))
            if levels is None:
                found["values"][at] = float(rng.choice([*range(20, 60, 5), -1.0, 0.25, 1.5]) if j >= n_outputs else 0.3)
            else:
                codes = np.flatnonzero(rng.random(len(levels)) < 0.4)
                codes = codes if codes.size else np.array([0])
                found["set_sizes"][at], found["values"][at] = codes.size, 0.0
                found["set_codes"] += codes.tolist()
            n_left = int(rng.integers(1, leaves))
            found["left"][at] = add(n_left)
            found["right"][at] = add(leaves - n_left)
        return at

    for t in range(n_trees):
        found["roots"].append(add(1 if t == 1 else leaves))
    arrays: dict[str, Any] = {
        name: np.array(values, dtype=np.int64) for name, values in found.items() if name != "values"
    }
    outputs = np.arange(n_trees) % n_outputs
    values = np.array(found["values"])
    return TreesMap(
        n_outputs + len(COLUMNS), n_outputs, outputs=outputs, columns=np.array(columns), values=values, **arrays
    )


def segment_calibrator(n_classes: int, *, n_trees: int = 30, leaves: int = 12) -> cb.SegmentCalibrator:
    """Return a calibrator of segments of two classes, or more, with random trees."""
    rng = np.random.default_rng(n_classes)
    of_scores: Map = BetaMap(1.3, 0.8, 0.2, 1e-6)
    if n_classes > 2:
        of_scores = SoftmaxMap(np.array(0.8), np.zeros(n_classes), 1e-9)
    made = cb.SegmentCalibrator("beta" if n_classes == 2 else "temperature")
    made.map_, made.columns_ = of_scores, COLUMNS
    made.trees_ = random_trees(rng, n_trees, 1 if n_classes == 2 else n_classes, leaves=leaves)
    made.classes_, made.n_rows_, made.score_names_ = np.arange(n_classes), 1, None
    return made


def mean_calibrator(*, n_trees: int = 30, leaves: int = 12) -> cb.SegmentMeanCalibrator:
    """Return a calibrator of numbers with random trees."""
    made = cb.SegmentMeanCalibrator()
    made.slope_, made.intercept_, made.scale_ = 0.9, -12.5, 40.0
    made.columns_, made.n_rows_ = COLUMNS, 1
    made.trees_ = random_trees(np.random.default_rng(1), n_trees, 1, leaves=leaves) if n_trees else None
    return made


def predictions() -> FloatArray:
    """Return predictions of N rows: also large and tiny ones, and the one whose line lies at the cut of trees."""
    drawn = np.random.default_rng(3).normal(30.0, 60.0, N)
    drawn[:7] = [0.0, -0.0, 1e-300, 1e200, -1e200, (0.3 * 40.0 + 12.5) / 0.9, 1e-20]
    return drawn


def scores_of(width: int) -> FloatArray:
    """Return the scores of N rows, shape (N,) or (N, K)."""
    drawn = np.random.default_rng(width).dirichlet([1.0] * max(width, 2), N)
    return drawn[:, 1].copy() if width == 1 else drawn


def features(*, has_missing: bool = True) -> dict[str, list[Any]]:
    """Return the features of N rows: known levels, others, thresholds themselves and their neighbours, missing ones."""
    rng = np.random.default_rng(9)
    age = rng.choice([*range(20, 60, 5), 22.5, np.nextafter(25.0, 0.0), np.nextafter(25.0, 99.0), -1e300, 1e300], N)
    table: dict[str, list[Any]] = {
        "age": age.tolist(),
        'the "city"': [LEVELS[i] if i < len(LEVELS) else "bonn" for i in rng.integers(len(LEVELS) + 2, size=N)],
        "is new": (rng.random(N) < 0.5).tolist(),
        "zip": rng.integers(-6, 40, N).tolist(),
        "order": rng.normal(size=N).tolist(),
    }
    if not has_missing:
        return table
    lacks = rng.random((len(table), N)) < 0.1
    found = {
        name: [None if lack else value for value, lack in zip(column, lacking, strict=True)]
        for (name, column), lacking in zip(table.items(), lacks, strict=True)
    }
    found["order"][:3] = [float("nan")] * 3
    return found
