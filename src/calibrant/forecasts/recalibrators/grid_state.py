"""The state of the paper's algorithm: the level of each outcome, and the probabilities at a grid of thresholds."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.packed_maps import PackedMaps
from calibrant.forecasts.recalibrators.level_maps import Knots
from calibrant.forecasts.recalibrators.search_state import outcome_levels
from calibrant.numerics import FloatArray

#: Blocks of neighbouring levels, by the root of the number of rows: as narrow as the noise of a level, and no more.
_BLOCKS_PER_ROOT = 4.0
_MOST_BLOCKS = 1_024
#: Rounding of the bounds' sums: splits this close below the best are measured.
_SLACK = 1e-9
#: Splits that are measured between two looks at which are left.
_AT_ONCE = 8


class GridState:
    """Levels of n rows, and their probabilities at K thresholds; takes 8 bytes per row and threshold."""

    def __init__(self, forecast: Forecast, y: FloatArray, thresholds: FloatArray) -> None:
        n = y.size
        self.thresholds = thresholds
        self.weight = np.ones(n)
        self._values = np.empty((thresholds.size + 1, n))
        for k, threshold in enumerate(thresholds):
            self._values[k] = np.clip(forecast._cdf(np.full((1, 1), threshold))[:, 0], 0.0, 1.0)
        self._values[-1] = outcome_levels(forecast, y)
        self._by_level = np.argsort(self.level, kind="stable").astype(np.int32)

    @property
    def level(self) -> FloatArray:
        """The level of each outcome."""
        level: FloatArray = self._values[-1]
        return level

    def greatest(self, alphas: FloatArray, least: float) -> tuple[int, float, float] | None:
        """Return the first threshold and alpha with the greatest error of the official code, and that error.

        None if no split leaves more than `least` rows on both sides.
        """
        n = self.level.size
        values, rising = self._values[:-1], self.level[self._by_level]
        n_blocks = min(max(int(_BLOCKS_PER_ROOT * math.sqrt(n)), 1), _MOST_BLOCKS, n)
        block_start = np.arange(n_blocks + 1, dtype=np.int64) * n // n_blocks
        block = np.empty(n, dtype=np.uint16)
        block[self._by_level] = np.repeat(np.arange(n_blocks, dtype=np.uint16), np.diff(block_start))
        lower, upper = (np.empty((self.thresholds.size, alphas.size)) for _ in range(2))
        kernels.bound_splits(values, self.level, block, rising, block_start, alphas, least, lower, upper)
        if (upper < 0.0).all():
            return None
        order = np.argsort(-upper, axis=None, kind="stable")
        best = (-1.0, 0)
        while order.size:  # those that may be the greatest, a few at a time
            now, order = order[:_AT_ONCE], order[_AT_ONCE:]
            k, a = np.divmod(np.sort(now), alphas.size)
            error = np.empty(k.size)
            kernels.measure_splits(values, rising, self._by_level, k, alphas[a], error)
            best = max(best, *zip(error.tolist(), (-np.sort(now)).tolist(), strict=True))
            order = order[upper.flat[order] >= max(best[0], lower.max()) - _SLACK]
        k_best, a_best = divmod(-best[1], alphas.size)
        return k_best, float(alphas[a_best]), best[0]

    def rows_by_level(self) -> npt.NDArray[np.int32]:
        """Return the rows in the order of their levels."""
        return self._by_level

    def sides(self, k: int, alpha: float) -> npt.NDArray[np.uint8]:
        """Return 0 for the rows with a probability of at most alpha, and 1 for the others."""
        side: npt.NDArray[np.uint8] = (self._values[k] > alpha).astype(np.uint8)
        return side

    def push(self, side: npt.NDArray[np.uint8], left: Knots, right: Knots) -> None:
        """Push everything through the map of its side."""
        index = PackedMaps.pack([left, right]).index
        kernels.push_lines(self._values, side, index.cell_start, *index.knots, index.cells)
        # Each side stays in order: two runs, which a stable sort merges.
        rows = np.concatenate([self._by_level[side[self._by_level] == s] for s in (0, 1)])
        self._by_level = rows[np.argsort(self.level[rows], kind="stable")]
