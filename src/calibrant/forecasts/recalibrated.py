"""Forecasts whose levels were mapped: a base forecast and the maps of each of its rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from calibrant import kernels
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.packed_maps import PackedMaps
from calibrant.forecasts.settling import settled
from calibrant.numerics import EPS, SMALLEST_CLIP, TINY, FloatArray

RowNumbers = npt.NDArray[np.intp]
MapNumbers = npt.NDArray[np.int32]
#: Halvings of [0, 1] after which the two ends are neighbours, or nearly.
_HALVINGS = 60


class RowMaps(ABC):
    """A rising map of levels for each row of a forecast."""

    __slots__ = ()

    @abstractmethod
    def push(self, v: FloatArray) -> FloatArray:
        """Return the maps of levels, shape (n, m)."""

    @abstractmethod
    def pull(self, u: FloatArray) -> FloatArray:
        """Return the levels, shape (n, m), that are mapped to `u`."""

    @abstractmethod
    def log_slope(self, v: FloatArray) -> FloatArray:
        """Return the log of the maps' slopes at levels, shape (n, m)."""

    @abstractmethod
    def take(self, rows: RowNumbers) -> Self:
        """Return the maps of some rows."""


@dataclass(frozen=True, slots=True)
class ChainRows(RowMaps):
    """Maps one after the other: row i goes through `chosen[i, 0]`, `chosen[i, 1]` and so on of `maps`."""

    maps: PackedMaps
    chosen: MapNumbers

    def push(self, v: FloatArray) -> FloatArray:
        """Return the maps of levels, a look-up per round."""
        out = np.array(v, dtype=np.float64, order="C")
        index = self.maps.index
        kernels.push_levels(out, self.chosen, index.start, index.cell_start, *index.knots, index.cells)
        return out

    def pull(self, u: FloatArray) -> FloatArray:
        """Push levels backwards through the chain."""
        out = np.array(u, dtype=np.float64, order="C")
        index = self.maps.inverse.index
        backwards = np.ascontiguousarray(self.chosen[:, ::-1])
        kernels.push_levels(out, backwards, index.start, index.cell_start, *index.knots, index.cells)
        return out

    def log_slope(self, v: FloatArray) -> FloatArray:
        """Return the sum of the logs of the slopes along the chain."""
        level = np.array(v, dtype=np.float64, order="C")
        out = np.zeros_like(level)
        index = self.maps.index
        kernels.push_slopes(level, out, self.chosen, index.cell_start, *index.knots, index.cells, index.log_slope)
        return out

    def take(self, rows: RowNumbers) -> Self:
        """Return the chains of some rows."""
        return type(self)(self.maps, self.chosen[rows])


@dataclass(frozen=True, slots=True)
class MeanRows(RowMaps):
    """The mean of several maps of each row: that of a mixture of forecasts in equal parts."""

    parts: tuple[RowMaps, ...]

    def push(self, v: FloatArray) -> FloatArray:
        """Return the mean of the parts' maps."""
        total = self.parts[0].push(v)
        for part in self.parts[1:]:
            total += part.push(v)
        total /= len(self.parts)
        return total

    def pull(self, u: FloatArray) -> FloatArray:
        """Halve [0, 1] until nothing is left of it."""
        low, high = np.zeros(u.shape), np.ones(u.shape)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            is_low = self.push(middle) < u
            low = np.where(is_low, middle, low)
            high = np.where(is_low, high, middle)
        return np.where(u <= 0.0, 0.0, high)

    def log_slope(self, v: FloatArray) -> FloatArray:
        """Return the log of the mean slope."""
        logs = np.stack([part.log_slope(v) for part in self.parts])
        largest = logs.max(axis=0)
        slope: FloatArray = largest + np.log(np.exp(logs - largest).mean(axis=0))
        return slope

    def take(self, rows: RowNumbers) -> Self:
        """Return the maps of some rows."""
        return type(self)(tuple(part.take(rows) for part in self.parts))


@dataclass(frozen=True, slots=True)
class ProbitRows(RowMaps):
    """The map z -> (z - shift) / scale of the levels' normal scores, the same in all rows."""

    scale: float
    shift: float

    def push(self, v: FloatArray) -> FloatArray:
        """Return the maps of levels; 0 and 1 stay what they are."""
        mapped: FloatArray = ndtr((ndtri(v) - self.shift) / self.scale)
        return mapped

    def pull(self, u: FloatArray) -> FloatArray:
        """Return the levels that are mapped to `u`."""
        level: FloatArray = ndtr(ndtri(u) * self.scale + self.shift)
        return level

    def log_slope(self, v: FloatArray) -> FloatArray:
        """Return the log of the maps' slopes; levels near 0 and 1 are first moved inward."""
        z = ndtri(np.clip(v, SMALLEST_CLIP, 1.0 - SMALLEST_CLIP))
        slope: FloatArray = 0.5 * (z * z - ((z - self.shift) / self.scale) ** 2) - np.log(self.scale)
        return slope

    def take(self, rows: RowNumbers) -> Self:  # noqa: ARG002 - one map for all rows
        """Return the maps of some rows: the same."""
        return self


class RecalibratedForecast(Forecast):
    """A forecast whose levels were mapped: P(Y <= y) = map_i(P_base(Y <= y)).

    What `transform` of a recalibrator returns. Quantiles are the base's at the level that the map sends there; the
    density is the base's times the slope of the map.
    """

    __slots__ = ("_base", "_maps")

    def __init__(self, base: Forecast, maps: RowMaps) -> None:
        self._base = base
        self._maps = maps

    @property
    def base(self) -> Forecast:
        """The forecast before."""
        return self._base

    @property
    def maps(self) -> RowMaps:
        """The maps of its rows."""
        return self._maps

    @property
    def has_density(self) -> bool:
        """Whether the forecast before has a density."""
        return self._base.has_density

    @property
    def has_atoms(self) -> bool:
        """Whether the forecast before may give single values a positive probability."""
        return self._base.has_atoms

    def __len__(self) -> int:
        return len(self._base)

    def _take(self, rows: RowNumbers) -> Self:
        return type(self)(self._base._take(rows), self._maps.take(rows))

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._maps.push(self._base._cdf(y))

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        return self._maps.push(self._base._cdf_below(y))

    def _ppf(self, u: FloatArray) -> FloatArray:
        u = np.broadcast_to(u, (len(self), u.shape[1]))
        return settled(self, base_quantiles(self._base, self._maps.pull(u), u), u)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        density = self._base._logpdf(y)
        return density + self._maps.log_slope(self._base._cdf(y))


def base_quantiles(base: Forecast, level: FloatArray, u: FloatArray) -> FloatArray:
    """Return the base's quantiles at the levels that `u` came from: finite ones, unless u itself is 0 or 1.

    A level that rounds to 1 stands for one just below it.
    """
    level = np.where(u < 1.0, np.minimum(level, 1.0 - 0.5 * EPS), np.minimum(level, 1.0))
    return base._ppf(np.where(u > 0.0, np.maximum(level, TINY), level))
