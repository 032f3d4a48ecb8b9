"""The state of the paper's algorithm: the level of each outcome, and the probabilities at a grid of thresholds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.recalibrated import PackedMaps
from calibrant.forecasts.recalibrators.level_maps import Knots
from calibrant.forecasts.recalibrators.search_state import outcome_levels
from calibrant.numerics import FloatArray

#: Rows per block of neighbouring levels, and the fewest and most blocks.
_ROWS_PER_BLOCK = 64
_BLOCKS = (16, 256)
#: Rounding of the bounds' sums: splits this close below the best are measured.
_SLACK = 1e-9


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
        n_blocks = min(max(n // _ROWS_PER_BLOCK, _BLOCKS[0]), _BLOCKS[1], n)
        block_start = np.arange(n_blocks + 1, dtype=np.int64) * n // n_blocks
        block = np.empty(n, dtype=np.uint16)
        block[self._by_level] = np.repeat(np.arange(n_blocks, dtype=np.uint16), np.diff(block_start))
        lower, upper = (np.empty((self.thresholds.size, alphas.size)) for _ in range(2))
        kernels.bound_splits(values, self.level, block, rising, block_start, alphas, least, lower, upper)
        if (upper < 0.0).all():
            return None
        k, a = (found.astype(np.int64) for found in np.nonzero(upper >= lower.max() - _SLACK))
        error = np.empty(k.size)
        kernels.measure_splits(values, rising, self._by_level, k, alphas[a], error)
        best = int(error.argmax())
        return int(k[best]), float(alphas[a[best]]), float(error[best])

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
