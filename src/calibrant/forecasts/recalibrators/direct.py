"""The direct layer: an isotonic regression per threshold, put in order over the thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrant import kernels
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.packed_maps import PackedMaps
from calibrant.forecasts.points import Outcomes
from calibrant.forecasts.recalibrated import RowNumbers, base_quantiles
from calibrant.forecasts.recalibrators.layers import Layer
from calibrant.forecasts.recalibrators.level_maps import Knots, sum_groups
from calibrant.forecasts.recalibrators.search_state import levels_at, middle_thresholds
from calibrant.forecasts.settling import settled
from calibrant.numerics import SMALLEST_CLIP, FloatArray

#: Half the width of an atom: this share of the labels' range, and at most a quarter of the way to the next label.
_ATOM_WIDTH = 1e-6


class AnchoredForecast(Forecast):
    """A forecast that has given probabilities at given thresholds, and between them the shape of another.

    `levels` and `anchors`, shape (n, K), are the base's P(Y <= threshold) and the ones to be had instead.
    """

    __slots__ = ("_anchors", "_base", "_levels", "_thresholds")

    def __init__(self, base: Forecast, thresholds: FloatArray, levels: FloatArray, anchors: FloatArray) -> None:
        n = len(base)
        self._base = base
        self._thresholds = thresholds
        self._levels = np.column_stack((np.zeros(n), levels, np.ones(n)))
        # Where the base is sure that Y lies below a threshold, so are we: nothing would carry the rest.
        self._anchors = np.column_stack((np.zeros(n), np.where(levels >= 1.0, 1.0, anchors), np.ones(n)))

    @property
    def base(self) -> Forecast:
        """The forecast before."""
        return self._base

    @property
    def has_density(self) -> bool:
        """Whether the forecast before has a density."""
        return self._base.has_density

    def __len__(self) -> int:
        return len(self._base)

    def _take(self, rows: RowNumbers) -> Self:
        taken = type(self).__new__(type(self))
        taken._base, taken._thresholds = self._base._take(rows), self._thresholds
        taken._levels, taken._anchors = self._levels[rows], self._anchors[rows]
        return taken

    def _piece(self, y: FloatArray, side: str) -> tuple[FloatArray, ...]:
        """Return of each point's piece the base's levels and the anchors, at both of its ends."""
        k = np.broadcast_to(np.searchsorted(self._thresholds, y, side=side), (len(self), y.shape[1]))  # type: ignore[call-overload]
        return tuple(np.take_along_axis(ends, k + i, axis=1) for ends in (self._levels, self._anchors) for i in (0, 1))

    def _between(self, level: FloatArray, y: FloatArray, side: str) -> FloatArray:
        low, high, start, end = self._piece(y, side)
        width = high - low
        share = np.divide(level - low, width, out=np.zeros_like(level), where=width > 0.0)
        between: FloatArray = start + (end - start) * np.clip(share, 0.0, 1.0)
        return between

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._between(self._base._cdf(y), y, "right")

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        return self._between(self._base._cdf_below(y), y, "left")

    def _ppf(self, u: FloatArray) -> FloatArray:
        u = np.broadcast_to(u, (len(self), u.shape[1]))
        k = np.empty(u.shape, dtype=np.int64)
        for i, anchors in enumerate(self._anchors):
            k[i] = np.clip(np.searchsorted(anchors, u[i], side="left") - 1, 0, anchors.size - 2)
        low, high, start, end = (
            np.take_along_axis(ends, k + i, axis=1) for ends in (self._levels, self._anchors) for i in (0, 1)
        )
        rise = end - start
        share = np.divide(u - start, rise, out=np.zeros(u.shape), where=rise > 0.0)
        bounds = np.concatenate(([-np.inf], self._thresholds, [np.inf]))
        level = low + (high - low) * np.clip(share, 0.0, 1.0)
        y = np.clip(base_quantiles(self._base, level, u), bounds[k], bounds[k + 1])
        # Where the base has nothing between two thresholds, what we have there sits on the upper one.
        return settled(self, np.where((high <= low) & (rise > 0.0), bounds[k + 1], y), u)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        low, high, start, end = self._piece(y, "right")
        width = high - low
        # Levels saturate in the far tails, densities don't: there the base's is left alone.
        slope = np.divide(end - start, width, out=np.ones_like(width), where=width > 0.0)
        with np.errstate(divide="ignore"):  # none is right where a threshold's map is flat at 0 or 1
            density: FloatArray = self._base._logpdf(y) + np.log(slope)
        return density


@dataclass(frozen=True, slots=True)
class ThresholdLevels(Layer):
    """A map per threshold, of the probability that Y is at most it.

    `share` of the probability stays where the forecast before has it, so that no density vanishes where isotonic
    fits of neighbouring thresholds agree.
    """

    thresholds: FloatArray
    maps: PackedMaps
    share: float

    def apply(self, forecast: Forecast) -> Forecast:
        """Return the forecast with each threshold's probability mapped, put in order, and the base's shape between."""
        levels = levels_at(forecast, self.thresholds)
        anchors = np.empty_like(levels)
        for k in range(self.thresholds.size):
            anchors[:, k] = np.interp(levels[:, k], *self.maps.knots(k))
        anchors = (1.0 - self.share) * np.sort(anchors, axis=1) + self.share * levels
        return AnchoredForecast(forecast, self.thresholds, levels, anchors)


def fit_levels(rows: Outcomes, n_thresholds: int, pseudo_counts: float) -> ThresholdLevels:
    """Regress, for each threshold, the outcome Y <= threshold on its probability."""
    weight = rows.weights
    thresholds = _with_atoms(rows.y, weight, n_thresholds)
    levels = levels_at(rows.forecast, thresholds)
    maps = [
        _isotonic(levels[:, k], (rows.y <= threshold).astype(np.float64), weight, pseudo_counts)
        for k, threshold in enumerate(thresholds)
    ]
    return ThresholdLevels(thresholds, PackedMaps.pack(maps), 1.0 / (float(weight.sum()) + 1.0))


def _with_atoms(y: FloatArray, weight: FloatArray, n: int) -> FloatArray:
    """Return thresholds between labels, and two around each label that carries 1 / (2 n) of the weight or more."""
    distinct, group = np.unique(y, return_inverse=True)
    mass = sum_groups(group, weight)
    heavy = distinct[mass >= mass.sum() / (2.0 * n)]
    middles = middle_thresholds(y, weight, n)
    if distinct.size == 1:
        return distinct
    width = min(_ATOM_WIDTH * float(distinct[-1] - distinct[0]), 0.25 * float(np.diff(distinct).min()))
    return np.unique(np.concatenate((heavy - width, heavy + width, middles)))


def _isotonic(h: FloatArray, z: FloatArray, weight: FloatArray, pseudo_counts: float) -> Knots:
    """Return the isotonic fit of z on h as knots at the blocks' means, drawn towards the identity."""
    order = np.argsort(h, kind="stable")
    x, group = np.unique(h[order], return_inverse=True)
    mass = sum_groups(group, weight[order])
    hits = sum_groups(group, (weight * z)[order])
    block_mass, block_hits = np.empty_like(mass), np.empty_like(mass)
    end = np.empty(mass.size, dtype=np.int64)
    n_blocks = kernels.pool_weighted(mass, hits, block_mass, block_hits, end)
    block_mass, block_hits = block_mass[:n_blocks], block_hits[:n_blocks]
    start = np.concatenate(([0], end[: n_blocks - 1]))
    at = np.add.reduceat(mass * x, start) / block_mass
    rate = np.maximum.accumulate((block_hits + pseudo_counts * at) / (block_mass + pseudo_counts))
    inside = (at > SMALLEST_CLIP) & (at < 1.0 - SMALLEST_CLIP)
    at, rate = at[inside], np.clip(rate[inside], 0.0, 1.0)
    return np.concatenate(([0.0], at, [1.0])), np.concatenate(([0.0], rate, [1.0]))
