"""What an iteration is asked for, and who hears of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from calibrant.rank_preserving.result import Progress


@dataclass(frozen=True, slots=True)
class Watch:
    """Tolerances, the clock and the caller's ear.

    `gap_tol` is the gap that is good enough, and `aim` the one that iterations are spent on.
    """

    tol: float
    gap_tol: float
    aim: float
    callback: Callable[[Progress], object] | None = None
    start: float = field(default_factory=time.perf_counter)

    def tell(self, n_iter: int, residual: float, objective: float, bound: float) -> Progress:
        """Make the record of a look, and pass it on."""
        progress = Progress(n_iter, residual, objective, bound, self.elapsed())
        if self.callback is not None:
            self.callback(progress)
        return progress

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.start
