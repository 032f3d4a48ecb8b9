"""The state of a fit: the level of each outcome, and the sorted probabilities at every threshold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.recalibrators.level_maps import Knots, sum_groups, weighted_quantiles
from calibrant.numerics import FloatArray

#: Cells in which levels are counted where not all cuts are looked at.
_CELLS = 64
#: Numbers at thresholds that are held at once while a forecast is read.
_BATCH = 20_000_000


class SearchState:
    """Levels of n rows, and for K thresholds the sorted probabilities with the rows that they belong to.

    Takes 12 bytes per row and threshold.
    """

    def __init__(self, forecast: Forecast, y: FloatArray, weight: FloatArray, thresholds: FloatArray) -> None:
        n = y.size
        self.thresholds = thresholds
        self.weight = weight
        self.level = outcome_levels(forecast, y)
        self._values = np.empty((thresholds.size + 1, n))
        self._order = np.empty((thresholds.size + 1, n), dtype=np.int32)
        for k, threshold in enumerate(thresholds):
            self._sort_into(k, forecast._cdf(np.full((1, 1), threshold))[:, 0])
        self._sort_into(thresholds.size, self.level)

    def _sort_into(self, line: int, values: FloatArray) -> None:
        order = np.argsort(values, kind="stable")
        self._order[line] = order
        self._values[line] = values[order]

    def greatest(self, least: float, n_cuts: int | None) -> tuple[int, int, float]:
        """Return threshold, cut and distance where the mass-weighted Cramer-von Mises distance is greatest.

        `n_cuts` None looks at all cuts, exactly; else at so many of equal weight, with levels counted in cells.
        A distance of -1 says that no cut leaves a weight of `least` on both sides.
        """
        best = np.empty(self.thresholds.size)
        cut = np.empty(self.thresholds.size, dtype=np.int64)
        values, order = self._values[:-1], self._order[:-1]
        if n_cuts is None:
            kernels.search_all_cuts(values, order, self.level, self._ranks(), self.weight, least, best, cut)
        else:
            edge = np.arange(1, _CELLS + 1) / _CELLS
            cell = np.minimum(self.level * _CELLS, _CELLS - 1.0).astype(np.uint8)
            mass = sum_groups(cell, self.weight, _CELLS)
            kernels.search_some_cuts(values, order, cell, self.weight, mass, edge, n_cuts, least, best, cut)
        k = int(best.argmax())
        return k, int(cut[k]), float(best[k])

    def rows_by_level(self) -> npt.NDArray[np.int32]:
        """Return the rows in the order of their levels: what is sorted already sorts fast."""
        rows: npt.NDArray[np.int32] = self._order[-1]
        return rows

    def _ranks(self) -> npt.NDArray[np.int32]:
        """Return the rank of each row's level."""
        rank = np.empty(self.level.size, dtype=np.int32)
        rank[self._order[-1]] = np.arange(self.level.size, dtype=np.int32)
        return rank

    def alpha_at(self, k: int, cut: int) -> float:
        """Return a probability between those on both sides of a cut."""
        low, high = float(self._values[k, cut - 1]), float(self._values[k, cut])
        middle = 0.5 * (low + high)
        return low if middle >= high else middle

    def sides(self, k: int, alpha: float) -> npt.NDArray[np.uint8]:
        """Return 0 for the rows with a probability of at most alpha, and 1 for the others."""
        side = np.ones(self.level.size, dtype=np.uint8)
        side[self._order[k, : np.searchsorted(self._values[k], alpha, side="right")]] = 0
        return side

    def push(self, side: npt.NDArray[np.uint8], left: Knots, right: Knots) -> None:
        """Push everything through the map of its side."""
        kernels.push_state(self._values, self._order, side, *left, *right)
        self.level[self._order[-1]] = self._values[-1]


def outcome_levels(forecast: Forecast, y: FloatArray) -> FloatArray:
    """Return the level of each outcome: its probability integral transform, midway where it is an atom."""
    level = forecast._cdf(y[:, None])[:, 0]
    if forecast.has_atoms:
        level = 0.5 * (level + forecast._cdf_below(y[:, None])[:, 0])
    return np.array(level, dtype=np.float64)


def levels_at(forecast: Forecast, thresholds: FloatArray) -> FloatArray:
    """Return P(Y <= threshold) of all rows, shape (n, K)."""
    return np.array(forecast._cdf(thresholds[None, :]), dtype=np.float64, order="C")


def row_batches(forecast: Forecast, width: int) -> list[slice]:
    """Return slices of rows that hold a bounded number of values, `width` per row."""
    step = max(_BATCH // max(width, 1), 1)
    return [slice(start, min(start + step, len(forecast))) for start in range(0, len(forecast), step)]


def middle_thresholds(y: FloatArray, weight: FloatArray, n: int, low: float = 0.0, high: float = 1.0) -> FloatArray:
    """Return up to `n` thresholds at equal steps of weight between two shares, each midway between two labels."""
    distinct = np.unique(y)
    if distinct.size == 1:
        return distinct
    middles = 0.5 * (distinct[1:] + distinct[:-1])
    share = low + (high - low) * (np.arange(n) + 0.5) / n
    at = weighted_quantiles(y, weight, share)
    found = np.clip(np.searchsorted(distinct, at, side="right") - 1, 0, middles.size - 1)
    return np.unique(middles[found])
