"""The embargo between two parts of the rows: counted in bars of each symbol, and never shorter than as many steps.

Twenty steps of an hour after a Friday's close end on Saturday, when not a bar has come. So a clock of bars counts those
that a symbol did have, and stands still over weekends, holidays and gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.dependence import TimeArray
from calibrant.numerics import BoolArray, IntArray


def usual_step(times: TimeArray) -> Any:
    """Return the median time from one moment to the next, as one of the steps there are."""
    steps = np.sort(np.diff(np.unique(times)))
    return steps[steps.size // 2] if steps.size else times[:1].max() - times[:1].max()


@dataclass(frozen=True, slots=True, eq=False)
class BarClock:
    """When the bars of each symbol close, sorted, and the usual time from one to the next.

    Without bars, as of a table, steps alone are counted.
    """

    time: Mapping[str, TimeArray] = field(default_factory=dict)
    step: Any = None

    def n_between(self, symbol: npt.NDArray[Any], after: Any, before: Any) -> IntArray:
        """Return how many bars of each row's symbol close after one time and before another."""
        after, before = (np.broadcast_to(when, symbol.shape) for when in (after, before))
        found, named = np.zeros(symbol.size, dtype=np.int64), symbol.astype(str)
        for name in np.unique(named).tolist():
            own, closes = named == name, self.time[name]
            first = np.searchsorted(closes, after[own], side="right")
            found[own] = np.maximum(np.searchsorted(closes, before[own], side="left") - first, 0)
        return found

    def is_apart(self, symbol: npt.NDArray[Any], after: Any, before: Any, n_bars: int) -> BoolArray:
        """Say which rows have an embargo of so many bars between two times: the bars themselves, and as many steps.

        Of a symbol whose bars have ended, the embargo never does: at the time, nothing told the end from a gap.
        """
        is_later: BoolArray = np.broadcast_to(before - after > self.step * n_bars, symbol.shape)
        if not self.time:
            return is_later
        return is_later & (self.n_between(symbol, after, before) >= n_bars)
