"""Maps of several columns: one row by itself becomes the same bits as among many."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from calibrant.maps import (
    BetaMap,
    InterpolatedMap,
    LogitInterpolatedMap,
    OneVsRestMap,
    QuadraticMap,
    SingleMap,
    VennAbersMap,
)

MAPS: dict[str, Callable[[], SingleMap]] = {
    "beta": lambda: BetaMap(1.3, 0.7, -0.2, 1e-9),
    "left alone": lambda: BetaMap(1.0, 1.0, 0.0, 1e-9),
    "quadratic": lambda: QuadraticMap(2.0, 0.6, -0.1, -4.0, 5.0, 1e-6),
    "spline": lambda: LogitInterpolatedMap(np.array([-2.0, 0.1, 3.0]), np.array([-1.5, 0.0, 2.5]), 1e-6),
    "flat spline": lambda: LogitInterpolatedMap(np.array([0.5]), np.array([-1.5]), 1e-6),
    "line": lambda: InterpolatedMap(np.array([0.1, 0.6, 0.9]), np.array([0.2, 0.5, 0.7])),
    "steps": lambda: VennAbersMap(np.array([0.3]), np.array([0.1, 0.4]), np.array([0.3]), np.array([0.2, 0.6])),
}


@pytest.mark.parametrize(
    "names",
    [
        ("beta", "quadratic", "spline"),
        ("beta", "left alone", "spline"),
        ("beta", "line", "flat spline"),
        ("steps",) * 3,
    ],
)
def test_one_row_has_the_bits_that_it_has_among_many(names: tuple[str, ...]) -> None:
    fitted = OneVsRestMap(tuple(MAPS[name]() for name in names))
    rows = np.random.default_rng(0).dirichlet(np.full(3, 0.4), 2_000)
    rows[:3] = np.eye(3)
    together = fitted.apply(rows)
    for at in range(200):
        assert fitted.apply(rows[at : at + 1]).tobytes() == together[at : at + 1].tobytes()
