"""Forecasts whose levels were mapped: a base forecast and the maps of each of its rows.

Quantiles of the base at the levels that map to u are close to right, but steep maps turn a rounding of the level into
a jump. `refine_quantiles` therefore searches, for each quantile whose CDF is off, the least float at which the CDF
reaches u: outward from the first guess in growing steps until the CDF is on the other side of u, then by halving the
interval until its two ends are neighbouring floats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from calibrant.forecasts.base import Forecast
from calibrant.forecasts.kinds import SampleForecast
from calibrant.forecasts.level_maps import MapNumbers, PackedMaps
from calibrant.numerics import EPS, TINY, BoolArray, FloatArray, IntArray

RowNumbers = npt.NDArray[np.intp]
#: Halvings of [0, 1] after which the two ends are neighbours, or nearly.
_HALVINGS = 60
#: A level is reached where the CDF is this close. Quantiles that are searched for at once.
_CLOSE, _BATCH = 1e-10, 50_000
#: The first step is to the next float, and each further one so many times the last; after so many steps outward, or
#: halvings, two neighbouring floats are found wherever they lie.
_GROWTH, _MAX_STEPS = 8.0, 400


class RowMaps(ABC):
    """A rising map of levels for each row of a forecast; levels have shape (n, m)."""

    __slots__ = ()

    @abstractmethod
    def apply(self, v: FloatArray) -> FloatArray:
        """Return the maps of levels."""

    @abstractmethod
    def invert(self, u: FloatArray) -> FloatArray:
        """Return the levels that are mapped to `u`."""

    @abstractmethod
    def log_slope(self, v: FloatArray) -> FloatArray:
        """Return the log of the maps' slopes at levels."""

    @abstractmethod
    def take(self, rows: RowNumbers) -> Self:
        """Return the maps of some rows."""


@dataclass(frozen=True, slots=True)
class ChainRows(RowMaps):
    """Maps one after the other: row i goes through `chosen[i, 0]`, `chosen[i, 1]` and so on of `maps`."""

    maps: PackedMaps
    chosen: MapNumbers

    def apply(self, v: FloatArray) -> FloatArray:
        out = np.array(v, dtype=np.float64, order="C")
        self.maps.apply(out, self.chosen)
        return out

    def invert(self, u: FloatArray) -> FloatArray:
        out = np.array(u, dtype=np.float64, order="C")
        self.maps.inverse.apply(out, np.ascontiguousarray(self.chosen[:, ::-1]))
        return out

    def log_slope(self, v: FloatArray) -> FloatArray:
        return self.maps.log_slope(np.array(v, dtype=np.float64, order="C"), self.chosen)

    def take(self, rows: RowNumbers) -> Self:
        return type(self)(self.maps, self.chosen[rows])


@dataclass(frozen=True, slots=True)
class MeanRows(RowMaps):
    """The mean of several maps of each row: that of a mixture of forecasts in equal parts."""

    parts: tuple[RowMaps, ...]

    def apply(self, v: FloatArray) -> FloatArray:
        total = self.parts[0].apply(v)
        for part in self.parts[1:]:
            total += part.apply(v)
        total /= len(self.parts)
        return total

    def invert(self, u: FloatArray) -> FloatArray:
        low, high = np.zeros(u.shape), np.ones(u.shape)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            is_low = self.apply(middle) < u
            low = np.where(is_low, middle, low)
            high = np.where(is_low, high, middle)
        return np.where(u <= 0.0, 0.0, high)

    def log_slope(self, v: FloatArray) -> FloatArray:
        logs = np.stack([part.log_slope(v) for part in self.parts])
        largest = logs.max(axis=0)
        return np.asarray(largest + np.log(np.exp(logs - largest).mean(axis=0)))

    def take(self, rows: RowNumbers) -> Self:
        return type(self)(tuple(part.take(rows) for part in self.parts))


class DerivedForecast(Forecast):
    """A forecast made of another, its base: the base's rows, and the base's density where it has one."""

    __slots__ = ("base",)

    def __init__(self, base: Forecast) -> None:
        self.base = base

    @property
    def has_density(self) -> bool:
        return self.base.has_density

    def __len__(self) -> int:
        return len(self.base)


class RecalibratedForecast(DerivedForecast):
    """A forecast whose levels were mapped: P(Y <= y) = map_i(P_base(Y <= y)).

    What `transform` of a recalibrator returns. Quantiles are the base's at the level that the map sends there; the
    density is the base's times the slope of the map.
    """

    __slots__ = ("_maps",)

    def __init__(self, base: Forecast, maps: RowMaps) -> None:
        super().__init__(base)
        self._maps = maps

    @property
    def has_atoms(self) -> bool:
        return self.base.has_atoms

    def _take(self, rows: RowNumbers) -> Self:
        return type(self)(self.base[rows], self._maps.take(rows))

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._maps.apply(self.base.cdf(y))

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        return self._maps.apply(self.base.cdf_below(y))

    def _ppf(self, u: FloatArray) -> FloatArray:
        u = np.broadcast_to(u, (len(self), u.shape[1]))
        return refine_quantiles(self, base_quantiles(self.base, self._maps.invert(u), u), u)

    def _atoms(self) -> FloatArray | None:
        return self.base._atoms()

    def _crps(self, y: FloatArray) -> FloatArray:
        steps = self._steps()
        return super()._crps(y) if steps is None else steps.crps(y)

    def mean(self) -> FloatArray:
        steps = self._steps()
        return super().mean() if steps is None else steps.mean()

    def std(self) -> FloatArray:
        steps = self._steps()
        return super().std() if steps is None else steps.std()

    def _steps(self) -> SampleForecast | None:
        """Return the same distributions on the base's atoms, whose integrals are sums; None where there is more."""
        atoms = self._atoms()
        return None if atoms is None else SampleForecast.from_cdf(atoms, self.cdf(atoms))

    def _logpdf(self, y: FloatArray) -> FloatArray:
        density = self.base.logpdf(y)
        return density + self._maps.log_slope(self.base.cdf(y))


def base_quantiles(base: Forecast, level: FloatArray, u: FloatArray) -> FloatArray:
    """Return the base's quantiles at the levels that `u` came from: finite ones, unless u itself is 0 or 1.

    A level that rounds to 1 stands for one just below it.
    """
    level = np.where(u < 1.0, np.minimum(level, 1.0 - 0.5 * EPS), np.minimum(level, 1.0))
    return base.ppf(np.where(u > 0.0, np.maximum(level, TINY), level))


def refine_quantiles(forecast: Forecast, y: FloatArray, u: FloatArray) -> FloatArray:
    """Return the least floats at which the CDF of each row is at least u, near `y`; all of shape (n, m).

    `y` is kept where the CDF there is within 1e-10 of u, or jumps over u, and where u is 0, which all floats reach.
    """
    excess = forecast.cdf(y) - u
    is_off = np.isfinite(y) & (u > 0.0) & (np.abs(excess) > _CLOSE)
    if not is_off.any():
        return y
    is_off &= (excess < 0.0) | (forecast.cdf(np.where(is_off, y - np.spacing(np.abs(y)), y)) >= u)
    rows, columns = np.nonzero(is_off)
    y = y.copy()
    for start in range(0, rows.size, _BATCH):
        i, j = rows[start : start + _BATCH], columns[start : start + _BATCH]
        with np.errstate(over="ignore"):  # of steps to beyond the last float
            y[i, j] = _least(forecast[i], y[i, j], u[i, j])
    return y


def _least(forecast: Forecast, y: FloatArray, u: FloatArray) -> FloatArray:
    """Return the least float of each row at which its CDF is at least u, searched for from y outward."""

    def reaches(rows: IntArray, at: FloatArray) -> BoolArray:
        return forecast[rows].cdf(at[rows]) >= u[rows]

    all_rows = np.arange(y.size)
    is_high = reaches(all_rows, y)
    near, far, step = y.copy(), y.copy(), np.spacing(np.abs(y))
    left = all_rows
    for _ in range(_MAX_STEPS):
        near[left] = far[left]
        far[left] += np.where(is_high, -step, step)[left]
        step[left] *= _GROWTH
        left = left[(reaches(left, far) == is_high[left]) & np.isfinite(far[left])]
        if left.size == 0:
            break
    low, high = np.where(is_high, far, near), np.where(is_high, near, far)
    left = all_rows
    for _ in range(_MAX_STEPS):
        middle = low + 0.5 * (high - low)
        left = left[(middle[left] > low[left]) & (middle[left] < high[left])]
        if left.size == 0:
            break
        is_reached = reaches(left, middle)
        high[left[is_reached]] = middle[left[is_reached]]
        low[left[~is_reached]] = middle[left[~is_reached]]
    return high
