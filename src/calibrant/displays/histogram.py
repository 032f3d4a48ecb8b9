"""How the predicted probabilities are spread: the histogram, and the low panel below a diagram that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.displays import style
from calibrant.numerics import BoolArray, FloatArray
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Height of the panel as a share of the diagram's.
PANEL_HEIGHT = 0.22
_N_BINS = 40


@dataclass(frozen=True, slots=True, eq=False)
class ScoreHistogram:
    """Rows and events in equal bins of the predicted probability.

    Attributes
    ----------
    edges : ndarray of shape (m + 1,)
        Ends of the bins. A probability on an inner edge counts in the bin above it.
    n : ndarray of shape (m,)
        Weight in each bin; the number of rows where unweighted.
    events : ndarray of shape (m,)
        Weight of the rows of each bin in which the event happened.
    n_rows : int
        Number of rows in all bins.
    is_weighted : bool
        Whether `n` and `events` are sums of weights and not counts of rows.
    """

    edges: FloatArray
    n: FloatArray
    events: FloatArray
    n_rows: int
    is_weighted: bool = False

    @classmethod
    def from_rows(cls, rows: Rows, *, upper: float = 1.0, n_bins: int = _N_BINS) -> ScoreHistogram:
        """Count rows of probabilities in `n_bins` equal bins of [0, upper]; those above `upper` fall in the last."""
        weighted = rows.positive if rows.weight is None else rows.positive * rows.weight
        bins = _counted(rows.scores, rows.weight, weighted, upper, n_bins)
        return cls(*bins, rows.scores.size, rows.weight is not None)

    @classmethod
    def from_summary(
        cls, summary: ScoreSummary, *, n_rows: int, is_weighted: bool, upper: float = 1.0, n_bins: int = _N_BINS
    ) -> ScoreHistogram:
        """Count the rows of a summary, as `from_rows` does; those of a distinct score together."""
        bins = _counted(summary.scores, summary.weight, summary.positives, upper, n_bins)
        return cls(*bins, n_rows, is_weighted)

    def size_texts(self) -> tuple[str, str]:
        """State the number of rows, and of events."""
        rows = f"n = {self.n_rows:,} rows"
        if self.is_weighted:
            return f"{rows} of total weight {self.n.sum():,.6g}", f"{self.events.sum() / self.n.sum():.1%} events"
        count = self.events.sum()
        return rows, f"{count:,.0f} event{'' if count == 1 else 's'}"

    def __str__(self) -> str:
        return ", ".join(self.size_texts())


def _counted(
    scores: FloatArray, weight: FloatArray | None, positives: FloatArray | BoolArray, upper: float, n_bins: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the edges of the bins, and the sums of weight and of positives in each."""
    edges = np.linspace(0.0, upper, n_bins + 1)
    place = np.minimum(np.searchsorted(edges, scores, side="right") - 1, n_bins - 1)
    n, events = (np.bincount(place, weights=sums, minlength=n_bins) for sums in (weight, positives))
    return edges, n.astype(np.float64), events.astype(np.float64)


def diagram_axes(width: float) -> tuple[Axes, Axes]:
    """Return a square diagram with a low panel below it, in a figure of their own; see `fit_height`."""
    ax, panel = style.new_axes((width, 3.0 * width), n=2, sharex=True, height_ratios=[1.0, PANEL_HEIGHT])
    ax.set_box_aspect(1.0)
    panel.set_box_aspect(PANEL_HEIGHT)
    return ax, panel


def draw_histogram(ax: Axes, histogram: ScoreHistogram, *, color: Any) -> None:
    """Draw all rows pale, and the events among them full."""
    ax.stairs(histogram.n, histogram.edges, fill=True, color=color, alpha=0.3, label="all rows")
    ax.stairs(histogram.events, histogram.edges, fill=True, color=color, label="events")
    ax.set(ylabel="Weight" if histogram.is_weighted else "Rows")


def finish_panel(panel: Axes, ax: Axes, xlabel: str) -> None:
    """Let the panel start at zero, with few and whole numbers beside it, and name the axis across below it only."""
    panel.set(xlabel=xlabel)
    panel.set_ylim(bottom=0.0)
    panel.locator_params(axis="y", nbins=2)
    panel.yaxis.set_major_formatter("{x:,.9g}")
    ax.tick_params(labelbottom=False)
    ax.xaxis.label.set_visible(False)
