"""A candidate of automatic calibration: its fits to all rows, and to most of them from where the former ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.one_vs_rest import OneVsRestCalibrator
from calibrant.errors import hold_warnings
from calibrant.maps import PoolPart
from calibrant.row_stream import RowStream
from calibrant.rows import Rows


class CandidateFit:
    """The fits of a calibrator of more than two classes; the one to the rows of the folds is made once only."""

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = calibrator
        self._known: tuple[Rows, PoolPart] | None = None

    @property
    def is_one_vs_rest(self) -> bool:
        """Whether its map has a table for each class."""
        return isinstance(self.calibrator, OneVsRestCalibrator)

    def __call__(self, data: Rows | RowStream) -> PoolPart:
        """Return the map of all rows."""
        if not isinstance(data, Rows):
            return cast("PoolPart", self.calibrator.map_of_stream(data))
        if self._known is not None and self._known[0] is data:
            return self._known[1]
        return cast("PoolPart", self.calibrator.map_of(data))

    def refit(self, rows: Rows) -> Callable[[Rows], PoolPart]:
        """Return the fit to parts of these rows, which starts from the fit to all of them."""
        with hold_warnings() as held:
            whole, refit = self.calibrator.map_and_refit(rows)
        self._known = None if held else (rows, cast("PoolPart", whole))  # the fit is made again where it has to warn
        return cast("Callable[[Rows], PoolPart]", refit)
