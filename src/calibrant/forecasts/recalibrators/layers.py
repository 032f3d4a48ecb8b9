"""Fitted recalibrations as data: each turns a forecast into another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from calibrant import kernels
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.packed_maps import PackedMaps
from calibrant.forecasts.recalibrated import ChainRows, MapNumbers, MeanRows, RecalibratedForecast, RowMaps
from calibrant.forecasts.recalibrators.search_state import levels_at, row_batches
from calibrant.numerics import FloatArray, IntArray


class Layer(ABC):
    """A recalibration of forecasts, fitted."""

    __slots__ = ()

    @abstractmethod
    def apply(self, forecast: Forecast) -> Forecast:
        """Return the recalibrated forecast."""


class MapLayer(Layer):
    """A recalibration that maps the levels of each row."""

    __slots__ = ()

    @abstractmethod
    def rows(self, forecast: Forecast) -> RowMaps:
        """Return the map of each row of a forecast."""

    def apply(self, forecast: Forecast) -> Forecast:
        """Return the forecast with mapped levels."""
        return RecalibratedForecast(forecast, self.rows(forecast))


@dataclass(frozen=True, slots=True)
class OneMap(MapLayer):
    """One map for all rows."""

    x: FloatArray
    y: FloatArray

    def rows(self, forecast: Forecast) -> RowMaps:
        """Return the same map for each row."""
        return ChainRows(PackedMaps.pack([(self.x, self.y)]), np.zeros((len(forecast), 1), dtype=np.int32))


@dataclass(frozen=True, slots=True)
class ThresholdChain(MapLayer):
    """Rounds of splits: a row takes map 2 t or 2 t + 1 of round t, as its level at a threshold is at most alpha or not.

    `thresholds`, rising, are the distinct ones; round t asks for number `column[t]` of them.
    """

    thresholds: FloatArray
    column: IntArray
    alpha: FloatArray
    maps: PackedMaps

    @classmethod
    def of_rounds(cls, thresholds: FloatArray, k: list[int], alpha: list[float], maps: PackedMaps) -> ThresholdChain:
        """Keep, of all thresholds that were searched, those that rounds ask for."""
        used, column = np.unique(np.array(k, dtype=np.int64), return_inverse=True)
        return cls(thresholds[used], column.astype(np.int64), np.array(alpha, dtype=np.float64), maps)

    def __len__(self) -> int:
        return self.column.size

    def first(self, n: int) -> ThresholdChain:
        """Return the first `n` rounds."""
        used, column = np.unique(self.column[:n], return_inverse=True)
        maps = self.maps.first(2 * n)
        return ThresholdChain(self.thresholds[used], column.astype(np.int64), self.alpha[:n], maps)

    def rows(self, forecast: Forecast) -> RowMaps:
        """Return the chain of each row: every round pushes on the probabilities that later rounds ask for."""
        chosen: MapNumbers = np.empty((len(forecast), len(self)), dtype=np.int32)
        rounds = np.arange(len(self))
        last = np.zeros(self.thresholds.size, dtype=np.int64)
        np.maximum.at(last, self.column, rounds)
        order = np.argsort(-last, kind="stable")  # those that are asked for the longest come first
        column = np.argsort(order)[self.column]
        n_needed = (last > rounds[:, None]).sum(axis=1)
        index = self.maps.index
        for part in row_batches(forecast, self.thresholds.size):
            level = np.ascontiguousarray(levels_at(forecast[part], self.thresholds)[:, order])
            kernels.choose_maps(
                level, column, n_needed, self.alpha, index.cell_start, *index.knots, index.cells, chosen[part]
            )
        return ChainRows(self.maps, chosen)


@dataclass(frozen=True, slots=True)
class MeanOfChains(MapLayer):
    """The mixture, in equal parts, of several chains."""

    chains: tuple[ThresholdChain, ...]

    def rows(self, forecast: Forecast) -> RowMaps:
        """Return the mean of each row's maps."""
        return MeanRows(tuple(chain.rows(forecast) for chain in self.chains))
