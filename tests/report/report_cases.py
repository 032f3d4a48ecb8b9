"""Rows that the report's tests judge: the same in every run, and of every kind that a user has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import calibrant as cb

HOSTILE = "<script>alert(1)</script></style>\"'&<img src=x onerror=alert(2)>{{ 7*7 }}"
RIGHT_TO_LEFT = "\N{HEBREW LETTER SHIN}\N{HEBREW LETTER LAMED} \N{RIGHT-TO-LEFT OVERRIDE}abc"
PARTY = "\N{PARTY POPPER}"


def binary(n: int, *, sharpness: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    """Return events and predictions, calibrated at sharpness 1 and over-confident above."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n)
    y = rng.random(n) < truth
    return y, 1.0 / (1.0 + ((1.0 - truth) / truth) ** sharpness)


def multiclass(n: int, k: int, *, sharpness: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, 0.6), n)
    y = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    p = truth**sharpness
    return y, p / p.sum(axis=1, keepdims=True)


def hostile_report() -> cb.Report:
    y, p = multiclass(400, 3, sharpness=2.0)
    names = np.array(sorted([HOSTILE, RIGHT_TO_LEFT + PARTY, "W" * 3000]), dtype=object)
    return cb.Report(
        names[y], p, title=HOSTILE * 3, source=RIGHT_TO_LEFT + HOSTILE, score_names=[HOSTILE, PARTY, "x" * 3000]
    )


def hostile_groups() -> cb.Report:
    names = np.array([HOSTILE, RIGHT_TO_LEFT + PARTY, "W" * 3000, *(f"{HOSTILE}{i}" for i in range(17))], dtype=object)
    y, p = binary(600, sharpness=3.0)
    return cb.Report(y, p, groups=names[np.arange(600) % 20], group_name=HOSTILE)


def hostile_segments() -> cb.Report:
    names = np.array([HOSTILE, RIGHT_TO_LEFT + PARTY, "W" * 3000], dtype=object)
    y, p = binary(600, sharpness=3.0)
    p[::7], y[::7] = 0.0, True
    columns = {HOSTILE: names[np.arange(600) % 3], RIGHT_TO_LEFT: np.arange(600) % 7 == 0, "x$y": p.round(1)}
    return cb.Report(y, p, features=columns, depth=1)


CASES: dict[str, Callable[[], cb.Report]] = {
    "calibrated": lambda: cb.Report(*binary(5_000), source="held_out.parquet", score_names=["p"]),
    "over-confident": lambda: cb.Report(*binary(2_000, sharpness=2.5)),
    "weighted": lambda: cb.Report(*binary(1_000), sample_weight=np.arange(1_000) % 4 / 2.0),
    "30 rows": lambda: cb.Report(*binary(30)),
    "1 row": lambda: cb.Report([1], [0.7]),
    "100,000 rows": lambda: cb.Report(*binary(100_000, sharpness=1.2)),
    "rare events": lambda: cb.Report(np.arange(5_000) % 100 == 0, np.linspace(0.0, 0.02, 5_000)),
    "constant score": lambda: cb.Report(np.arange(100) % 3 == 0, np.full(100, 1.0 / 3.0)),
    "single class": lambda: cb.Report(np.zeros(200, dtype=int), np.linspace(0.0, 1.0, 200)),
    "perfect separation": lambda: cb.Report(np.arange(100) >= 50, np.arange(100) >= 50),
    "infinite loss": lambda: cb.Report([0, 1, 0, 1] * 20, [0.0, 0.0, 1.0, 1.0] * 20),
    "2 columns": lambda: cb.Report(*multiclass(500, 2)),
    "3 classes": lambda: cb.Report(*multiclass(2_000, 3, sharpness=2.0)),
    "15 classes": lambda: cb.Report(*multiclass(2_000, 15)),
    "100 classes": lambda: cb.Report(*multiclass(3_000, 100, sharpness=3.0)),
    "hostile names": hostile_report,
    "groups": lambda: cb.Report(*binary(2_000, sharpness=1.5), groups=np.arange(2_000) % 4, group_name="city"),
    "hostile groups": hostile_groups,
    "hostile segments": hostile_segments,
}
