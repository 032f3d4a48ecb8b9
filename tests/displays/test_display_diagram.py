"""Parts of reliability diagrams: where axes end, what is drawn once, and bands that are named once."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from matplotlib import pyplot as plt

import calibrant as cb
from calibrant.displays.diagram import (
    AXIS_ENDS,
    DIAGONAL,
    MAX_BARS,
    axis_end,
    count_curves,
    draw_band,
    draw_curve,
    draw_diagonal,
    draw_interval,
    size_texts,
)
from calibrant.results import Curve

RNG = np.random.default_rng(0)


def make_curve(m: int, largest: float = 1.0) -> Curve:
    p = largest * RNG.random(2_000)
    return cb.reliability_curve(RNG.random(2_000) < p, p, n_bins=m)


@pytest.mark.parametrize("largest", [0.003, 0.04, 0.3, 1.0])
def test_axes_end_at_the_first_round_number_that_shows_all(largest: float) -> None:
    curves = [make_curve(5, largest), make_curve(8, 0.5 * largest)]
    end = axis_end(curves)
    needed = max(float(values.max()) for curve in curves for values in (curve.x, curve.high))
    assert end in AXIS_ENDS
    assert needed <= end
    assert all(other < needed for other in AXIS_ENDS if other < end)
    wider = dataclasses.replace(curves[0], band_low=curves[0].low, band_high=np.full(curves[0].x.size, 1.0))
    assert axis_end([wider]) == 1.0


def test_rows_and_events_are_stated() -> None:
    curve = cb.reliability_curve([0, 1, 1], [0.1, 0.6, 0.9], n_bins=2)
    assert size_texts(curve) == ("n = 3", "2 events")


def test_diagonal_is_drawn_once_and_is_no_curve() -> None:
    _, ax = plt.subplots()
    draw_diagonal(ax, 0.5)
    draw_diagonal(ax, 1.0)
    assert [line.get_label() for line in ax.lines] == [DIAGONAL]
    assert ax.get_xlim() == (0.0, 0.5)
    ax.plot([], [], label="words of the legend")
    assert count_curves(ax) == 0
    draw_curve(ax, make_curve(5), k=0, label="a", upper=1.0)
    assert count_curves(ax) == 1


def test_intervals_are_bars_of_few_bins_and_a_band_of_many() -> None:
    kinds = []
    for m in (MAX_BARS, MAX_BARS + 1):
        _, ax = plt.subplots()
        draw_interval(ax, make_curve(m), color="k", is_clipped=True)
        kinds.append(type(ax.collections[0]).__name__)
    assert kinds[0] == "LineCollection" != kinds[1]


def test_bands_are_named_once() -> None:
    curve = make_curve(5)
    banded = dataclasses.replace(curve, band_low=curve.x - 0.05, band_high=curve.x + 0.05)
    _, ax = plt.subplots()
    for each in (curve, banded, banded, dataclasses.replace(banded, level=0.5)):
        draw_band(ax, each)
    labels = [collection.get_label() for collection in ax.collections]
    assert labels == ["95% of calibrated forecasts", "_band", "50% of calibrated forecasts"]
