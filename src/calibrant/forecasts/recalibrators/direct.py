"""The direct layer: an isotonic regression per threshold, put in order over the thresholds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.document_field import DocumentField
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.level_maps import Knots, PackedMaps, sum_by, with_ends
from calibrant.forecasts.recalibrated import DerivedForecast, base_quantiles, refine_quantiles
from calibrant.forecasts.recalibrators.base import Layer, named, numbers_within_reach
from calibrant.forecasts.recalibrators.rounds import middle_thresholds
from calibrant.forecasts.scores import Outcomes
from calibrant.numerics import SMALLEST_CLIP, TINY, FloatArray

#: Half the width of an atom: this share of the outcomes' range, and at most a quarter of the way to the next outcome.
_ATOM_WIDTH = 1e-6


class AnchoredForecast(DerivedForecast):
    """A forecast that has given probabilities at given thresholds, and between them the shape of another.

    `levels` and `anchors`, shape (n, K), are the base's P(Y <= threshold) and the ones to be had instead.
    """

    __slots__ = ("_anchors", "_levels", "_thresholds")
    _by_row = ("_anchors", "base", "_levels")

    def __init__(self, base: Forecast, thresholds: FloatArray, levels: FloatArray, anchors: FloatArray) -> None:
        super().__init__(base)
        n = len(base)
        self._thresholds = thresholds
        self._levels = np.column_stack((np.zeros(n), levels, np.ones(n)))
        # Where the base is sure that Y lies below a threshold, so are we: nothing would carry the rest.
        self._anchors = np.column_stack((np.zeros(n), np.where(levels >= 1.0, 1.0, anchors), np.ones(n)))

    def _ends(self, k: npt.NDArray[np.intp]) -> Iterator[FloatArray]:
        """Yield the base's levels and the anchors at both ends of the pieces k, shape (n, m)."""
        return (np.take_along_axis(ends, k + i, axis=1) for ends in (self._levels, self._anchors) for i in (0, 1))

    def _pieces_of(self, y: FloatArray, side: Literal["left", "right"]) -> npt.NDArray[np.intp]:
        """Return the piece between two thresholds that each point lies in."""
        return np.broadcast_to(np.searchsorted(self._thresholds, y, side=side), (len(self), y.shape[1]))

    def _between(self, level: FloatArray, pieces: npt.NDArray[np.intp]) -> FloatArray:
        low, high, start, end = self._ends(pieces)
        return start + (end - start) * _share(level - low, high - low)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._between(self.base.cdf(y), self._pieces_of(y, "right"))

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        return self._between(self.base.cdf_below(y), self._pieces_of(y, "left"))

    def _ppf(self, u: FloatArray) -> FloatArray:
        u = np.broadcast_to(u, (len(self), u.shape[1]))
        k = np.empty(u.shape, dtype=np.int64)
        above_0 = np.maximum(u, TINY)  # the quantile of level 0 is where probability begins
        for i, anchors in enumerate(self._anchors):
            k[i] = np.clip(np.searchsorted(anchors, above_0[i], side="left") - 1, 0, anchors.size - 2)
        low, high, start, end = self._ends(k)
        rise = end - start
        bounds = np.concatenate(([-np.inf], self._thresholds, [np.inf]))
        level = low + (high - low) * _share(u - start, rise)
        y = np.clip(base_quantiles(self.base, level, u), bounds[k], bounds[k + 1])
        # Where the base has nothing between two thresholds, what we have there sits on the upper one.
        return refine_quantiles(self, np.where((high <= low) & (rise > 0.0), bounds[k + 1], y), u)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        low, high, start, end = self._ends(self._pieces_of(y, "right"))
        width = high - low
        # Levels saturate in the far tails, densities don't: there the base's is left alone.
        slope = np.divide(end - start, width, out=np.ones_like(width), where=width > 0.0)
        with np.errstate(divide="ignore"):  # none is right where a threshold's map is flat at 0 or 1
            return np.asarray(self.base.logpdf(y) + np.log(slope))


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return part / whole in [0, 1]; 0 where there is no whole."""
    return np.clip(np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0.0), 0.0, 1.0)


@named("threshold_levels")
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
        levels = forecast.cdf(self.thresholds[None, :])
        anchors = np.empty_like(levels)
        for k in range(self.thresholds.size):
            anchors[:, k] = np.interp(levels[:, k], *self.maps.knots(k))
        anchors = (1.0 - self.share) * np.sort(anchors, axis=1) + self.share * levels
        return AnchoredForecast(forecast, self.thresholds, levels, anchors)

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        fields = body.members(("thresholds", "maps", "share"))
        thresholds = numbers_within_reach(fields["thresholds"], fields["thresholds"].rising())
        share = fields["share"].share()
        return cls(thresholds, PackedMaps.decode(fields["maps"], thresholds.size, rises=False), share)


def fit_levels(rows: Outcomes, n_thresholds: int, pseudo_counts: float) -> ThresholdLevels:
    """Regress, for each threshold, the outcome Y <= threshold on its probability."""
    weight = rows.weights
    thresholds = _with_atoms(rows.y, weight, n_thresholds)
    levels = rows.forecast.cdf(thresholds[None, :])
    maps = [
        _isotonic(levels[:, k], (rows.y <= threshold).astype(np.float64), weight, pseudo_counts)
        for k, threshold in enumerate(thresholds)
    ]
    return ThresholdLevels(thresholds, PackedMaps.pack(maps), 1.0 / (float(weight.sum()) + 1.0))


def _with_atoms(y: FloatArray, weight: FloatArray, n: int) -> FloatArray:
    """Return thresholds between outcomes, and two around each outcome that has 1 / (2 n) of the weight or more."""
    distinct, tie = np.unique(y, return_inverse=True)
    mass = sum_by(tie, weight)
    heavy = distinct[mass >= mass.sum() / (2.0 * n)]
    if distinct.size == 1:
        return distinct
    width = min(_ATOM_WIDTH * float(distinct[-1] - distinct[0]), 0.25 * float(np.diff(distinct).min()))
    return np.unique(np.concatenate((heavy - width, heavy + width, middle_thresholds(y, weight, n))))


def _isotonic(h: FloatArray, z: FloatArray, weight: FloatArray, pseudo_counts: float) -> Knots:
    """Return the isotonic fit of z on h as knots at the blocks' means, drawn towards the identity."""
    order = np.argsort(h, kind="stable")
    x, tie = np.unique(h[order], return_inverse=True)
    mass = sum_by(tie, weight[order])
    hits = sum_by(tie, (weight * z)[order])
    block_mass, block_hits = np.empty_like(mass), np.empty_like(mass)
    end = np.empty(mass.size, dtype=np.int64)
    n_blocks = kernels.pool_weighted(mass, hits, block_mass, block_hits, end)
    block_mass, block_hits = block_mass[:n_blocks], block_hits[:n_blocks]
    start = np.concatenate(([0], end[: n_blocks - 1]))
    at = np.add.reduceat(mass * x, start) / block_mass
    rate = np.maximum.accumulate((block_hits + pseudo_counts * at) / (block_mass + pseudo_counts))
    inside = (at > SMALLEST_CLIP) & (at < 1.0 - SMALLEST_CLIP)
    return with_ends(at[inside], np.clip(rate[inside], 0.0, 1.0))
