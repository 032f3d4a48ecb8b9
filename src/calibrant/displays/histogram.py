"""How the predicted probabilities are spread: the small picture below a reliability diagram."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.numerics import FloatArray
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary


@dataclass(frozen=True, slots=True, eq=False)
class ScoreHistogram:
    """Rows and events in equal cells of the predicted probability.

    Attributes
    ----------
    edges : ndarray of shape (m + 1,)
        Ends of the cells. A probability on an inner edge counts in the cell above it.
    n : ndarray of shape (m,)
        Weight in each cell; the number of rows where unweighted.
    events : ndarray of shape (m,)
        Weight of the rows of each cell in which the event happened.
    n_rows : int
        Number of rows in all cells.
    is_weighted : bool
        Whether `n` and `events` are sums of weights and not counts of rows.
    """

    edges: FloatArray
    n: FloatArray
    events: FloatArray
    n_rows: int
    is_weighted: bool = False

    @classmethod
    def from_rows(cls, rows: Rows, *, upper: float = 1.0, n_cells: int = 40) -> ScoreHistogram:
        """Count rows of probabilities in `n_cells` equal cells of [0, upper]; those above `upper` fall in the last."""
        edges = np.linspace(0.0, upper, n_cells + 1)
        cell = np.minimum(np.searchsorted(edges, rows.scores, side="right") - 1, n_cells - 1)
        n = np.bincount(cell, weights=rows.weight, minlength=n_cells).astype(np.float64)
        event = rows.positive
        happened = None if rows.weight is None else rows.weight[event]
        events = np.bincount(cell[event], weights=happened, minlength=n_cells).astype(np.float64)
        return cls(edges, n, events, rows.scores.size, rows.weight is not None)

    @classmethod
    def from_summary(
        cls, summary: ScoreSummary, *, n_rows: int, is_weighted: bool, upper: float = 1.0, n_cells: int = 40
    ) -> ScoreHistogram:
        """Count the rows of a summary, as `from_rows` does; those of a cell of scores together."""
        edges = np.linspace(0.0, upper, n_cells + 1)
        cell = np.minimum(np.searchsorted(edges, summary.scores, side="right") - 1, n_cells - 1)
        n = np.bincount(cell, weights=summary.weight, minlength=n_cells).astype(np.float64)
        events = np.bincount(cell, weights=summary.positives, minlength=n_cells).astype(np.float64)
        return cls(edges, n, events, n_rows, is_weighted)

    def __str__(self) -> str:
        rows = f"n = {self.n_rows:,} rows"
        if not self.is_weighted:
            count = self.events.sum()
            return f"{rows}, {count:,.0f} event{'' if count == 1 else 's'}"
        return f"{rows} of total weight {self.n.sum():,.6g}, {self.events.sum() / self.n.sum():.1%} events"
