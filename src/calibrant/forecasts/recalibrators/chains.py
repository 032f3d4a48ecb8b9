"""Chains of maps, as rounds of threshold recalibration leave them: a row's map in a round is chosen by a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.level_maps import MapNumbers, PackedMaps
from calibrant.forecasts.recalibrated import ChainRows, MeanRows, RowMaps
from calibrant.forecasts.recalibrators.base import MapLayer, named, numbers_within_reach
from calibrant.numerics import FloatArray, IntArray

#: Probabilities at thresholds that are held at once.
_BATCH = 20_000_000


@named("rounds")
@dataclass(frozen=True, slots=True)
class ThresholdChain(MapLayer):
    """Rounds of splits: a row takes map 2 t or 2 t + 1 of round t, as its level at a threshold is at most alpha or not.

    `thresholds`, rising, are the distinct ones; round t asks for number `column[t]` of them.
    """

    thresholds: FloatArray
    column: IntArray
    alpha: FloatArray
    maps: PackedMaps

    def __len__(self) -> int:
        return self.column.size

    def rows(self, forecast: Forecast) -> RowMaps:
        """Return the chain of each row: every round maps the probabilities that later rounds ask for."""
        chosen: MapNumbers = np.empty((len(forecast), len(self)), dtype=np.int32)
        rounds = np.arange(len(self))
        last = np.zeros(self.thresholds.size, dtype=np.int64)
        np.maximum.at(last, self.column, rounds)
        order = np.argsort(-last, kind="stable")  # those that are asked for the longest come first
        column = np.argsort(order)[self.column]
        n_needed = (last > rounds[:, None]).sum(axis=1)
        step = max(_BATCH // max(self.thresholds.size, 1), 1)
        for start in range(0, len(forecast), step):
            part = slice(start, start + step)
            level = np.ascontiguousarray(forecast[part].cdf(self.thresholds[None, :])[:, order])
            self.maps.choose(level, column, n_needed, self.alpha, chosen[part])
        return ChainRows(self.maps, chosen)

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        """Check plain data, and return the layer that they are of."""
        fields = body.members(("thresholds", "column", "alpha", "maps"))
        columns = fields["column"].items(minimum=0)
        places = fields["thresholds"]
        thresholds = numbers_within_reach(places, places.rising()) if columns else np.empty(0)
        column = np.array([c.integer(minimum=0, maximum=thresholds.size - 1) for c in columns], dtype=np.int64)
        alpha = fields["alpha"].numbers(minimum=0)
        if alpha.size != column.size:
            fields["alpha"].refuse(f"does not go with {column.size} rounds: one number for each is needed")
        return cls(thresholds, column, alpha, PackedMaps.decode(fields["maps"], 2 * column.size))


@named("mean_of_chains")
@dataclass(frozen=True, slots=True)
class MeanOfChains(MapLayer):
    """The mixture, in equal parts, of several chains."""

    chains: tuple[ThresholdChain, ...]

    def rows(self, forecast: Forecast) -> RowMaps:
        """Return the mean of each row's maps."""
        return MeanRows(tuple(chain.rows(forecast) for chain in self.chains))

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        """Check plain data, and return the layer that they are of."""
        return cls(tuple(map(ThresholdChain.decode, body.members(("chains",))["chains"].items())))
