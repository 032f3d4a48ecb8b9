"""Rising maps of levels, one after the other, and the index that finds a level's piece without a search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.numerics import FloatArray, IntArray

#: Cells of [0, 1] per knot of a map, and the fewest.
_CELLS_PER_KNOT = 1
_FEWEST_CELLS = 64


@dataclass(frozen=True)
class PackedMaps:
    """Rising piecewise-linear maps of [0, 1] onto itself, one after the other.

    Map j has the knots `x[start[j]:start[j + 1]]`, `y[...]`, from (0, 0) to (1, 1), both strictly rising.
    """

    x: FloatArray
    y: FloatArray
    start: IntArray

    @classmethod
    def pack(cls, knots: list[tuple[FloatArray, FloatArray]]) -> PackedMaps:
        """Lay maps, each its knots, one after the other."""
        sizes = [x.size for x, _ in knots]
        return cls(
            np.concatenate([x for x, _ in knots]) if knots else np.empty(0),
            np.concatenate([y for _, y in knots]) if knots else np.empty(0),
            np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64),
        )

    def __len__(self) -> int:
        return self.start.size - 1

    def knots(self, j: int) -> tuple[FloatArray, FloatArray]:
        """Return the knots of map j."""
        part = slice(int(self.start[j]), int(self.start[j + 1]))
        return self.x[part], self.y[part]

    def first(self, n: int) -> PackedMaps:
        """Return the first `n` maps."""
        end = int(self.start[n])
        return PackedMaps(self.x[:end], self.y[:end], self.start[: n + 1])

    @cached_property
    def index(self) -> MapIndex:
        """The maps as the loops read them."""
        sizes = np.diff(self.start)
        n_cells = np.maximum(2 ** np.ceil(np.log2(_CELLS_PER_KNOT * sizes)).astype(np.int64), _FEWEST_CELLS)
        cell_start = np.concatenate(([0], np.cumsum(n_cells + 2))).astype(np.int64)
        at, height, slope = (np.empty(self.x.size + sizes.size) for _ in range(3))
        cells = np.empty(int(cell_start[-1]), dtype=np.uint32)
        kernels.index_knots(self.x, self.y, self.start, cell_start, at, height, slope, cells)
        return MapIndex(self.start, cell_start, (at, height, slope), cells)

    @cached_property
    def inverse(self) -> PackedMaps:
        """The maps that lead back."""
        return PackedMaps(self.y, self.x, self.start)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what can be computed again."""
        return {"x": self.x, "y": self.y, "start": self.start}


@dataclass(frozen=True)
class MapIndex:
    """Places, heights and slopes of all knots, and the knot at which each cell of [0, 1] begins: see the kernels."""

    start: IntArray
    cell_start: IntArray
    knots: tuple[FloatArray, FloatArray, FloatArray]
    cells: npt.NDArray[np.uint32]

    @cached_property
    def log_slope(self) -> FloatArray:
        """Log of the slope of the piece after each knot; at 1, of the last piece."""
        slope = self.knots[2].copy()
        ends = self.start[1:] + np.arange(self.start.size - 1)  # of each map: the knot at 1, then the one at infinity
        slope[ends - 1] = slope[ends - 2]
        slope[ends] = 1.0
        log_slope: FloatArray = np.log(slope)
        return log_slope
