"""Parts of reliability diagrams: curves with their intervals and bands, the diagonal, and the histogram below."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calibrant.displays import style
from calibrant.numerics import BoolArray, FloatArray
from calibrant.phrases import count
from calibrant.results import Curve
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

#: The line that a calibrated forecast follows.
DIAGONAL = "perfectly calibrated"
#: With more bins than this, intervals are a band and no longer bars.
MAX_BARS = 25
#: Ends of the axes to choose from.
AXIS_ENDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: Height of the histogram as a share of the diagram's.
PANEL_HEIGHT = 0.22
_N_BINS = 40


def axis_end(curves: Iterable[Curve]) -> float:
    """Return where axes end that show all of some curves with their intervals and bands: below 1 for rare events."""
    arrays = [array for curve in curves for array in (curve.x, curve.high, curve.band_high) if array is not None]
    largest = max(float(array.max()) for array in arrays)
    return next(end for end in AXIS_ENDS if largest <= end or end == AXIS_ENDS[-1])


def size_texts(curve: Curve) -> tuple[str, str]:
    """State the rows of a curve, and its events."""
    return f"n = {style.count_text(curve.n.sum())}", f"{style.count_text((curve.n * curve.y).sum())} events"


def count_curves(ax: Axes) -> int:
    """Count the curves that displays have drawn on axes."""
    labels = [str(line.get_label()) for line in ax.lines if np.size(line.get_xdata())]
    return sum(label != DIAGONAL and not label.startswith("_") for label in labels)


def draw_diagonal(ax: Axes, upper: float) -> None:
    """Draw the line of calibrated forecasts and set up the axes, unless they have it already."""
    if DIAGONAL not in (line.get_label() for line in ax.lines):
        ax.plot([0, 1], [0, 1], label=DIAGONAL, **style.REFERENCE)
        ax.set(xlabel="Predicted probability", ylabel="Observed frequency")
        ax.set(xlim=(0.0, upper), ylim=(0.0, upper), aspect="equal")


def draw_band(ax: Axes, curve: Curve) -> None:
    """Shade where a calibrated forecast's points would lie, if the curve says; the legend names such bands once."""
    if curve.band_low is None or curve.band_high is None:
        return
    x, low, high = curve.x, curve.band_low, curve.band_high
    if x.size == 1:  # a band needs a width to be seen
        x, low, high = np.clip(curve.edges[0], *ax.get_xlim()), np.repeat(low, 2), np.repeat(high, 2)
    text = f"{100.0 * curve.level:g}% of calibrated forecasts"
    label = "_band" if text in ax.get_legend_handles_labels()[1] else text
    ax.fill_between(x, low, high, color=style.MUTED, alpha=0.16, linewidth=0.0, zorder=0.5, label=label)


def draw_interval(ax: Axes, curve: Curve, *, color: Any, is_clipped: bool, is_stepped: bool = False) -> None:
    """Draw the intervals of a curve: bars of a few bins, a band of many, or of blocks that are drawn as steps."""
    if is_stepped:
        low, high = np.repeat(curve.low, 2), np.repeat(curve.high, 2)
        ax.fill_between(curve.edges.ravel(), low, high, color=color, alpha=0.13, linewidth=0.0)
    elif curve.x.size > MAX_BARS:
        ax.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.2, linewidth=0.0)
    else:
        ax.vlines(curve.x, curve.low, curve.high, color=color, linewidth=1.3, clip_on=is_clipped)


def draw_curve(ax: Axes, curve: Curve, *, k: int, label: str, upper: float, is_alone: bool = True) -> Line2D:
    """Draw the k-th curve of a picture: points with bars; a line and band for many bins, steps for isotonic blocks.

    Steps among those of other curves are drawn without their bands, which would hide each other.
    """
    properties = style.of(k)
    is_clipped = upper < 1.0  # at 0 and 1 whole markers are wanted
    is_isotonic = curve.strategy == "isotonic"
    if is_alone or not is_isotonic:
        draw_interval(ax, curve, color=properties["color"], is_clipped=is_clipped, is_stepped=is_isotonic)
    x, y = curve.x, curve.y
    if is_isotonic:  # each block is level from its first score to its last
        x, y = curve.edges.ravel(), np.repeat(y, 2)
        properties |= {"marker": "", "linestyle": style.LINES[k % len(style.LINES)]}
    properties |= {"linewidth": 1.6 if is_isotonic else 1.0, "markersize": 3.0 if curve.x.size > MAX_BARS else 5.5}
    (line,) = ax.plot(x, y, clip_on=is_clipped, zorder=3, label=label, **properties)
    return line


@dataclass(frozen=True, slots=True, eq=False)
class ScoreHistogram:
    """Rows and events in equal bins of the predicted probability.

    Attributes
    ----------
    edges : ndarray of shape (m + 1,)
        Ends of the bins. A probability on an inner edge counts in the bin above it.
    n, events : ndarray of shape (m,)
        Weight of the rows in each bin, and of those in which the event happened; their number where unweighted.
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
    def from_rows(cls, rows: Rows) -> Self:
        """Count rows of probabilities in equal bins of [0, 1]."""
        weighted = rows.positive if rows.weight is None else rows.positive * rows.weight
        return cls(*_count_in_bins(rows.scores, rows.weight, weighted, 1.0), rows.n_rows, rows.weight is not None)

    @classmethod
    def from_summary(cls, summary: ScoreSummary, *, n_rows: int, is_weighted: bool, upper: float = 1.0) -> Self:
        """Count the rows of a summary in equal bins of [0, upper]; those above `upper` fall in the last."""
        bins = _count_in_bins(summary.scores, summary.weight, summary.positives, upper)
        return cls(*bins, n_rows, is_weighted)

    def size_texts(self) -> tuple[str, str]:
        """State the number of rows, and of events."""
        rows = f"n = {count(self.n_rows, 'row')}"
        if self.is_weighted:
            return f"{rows} of total weight {self.n.sum():,.6g}", f"{self.events.sum() / self.n.sum():.1%} events"
        return rows, count(round(float(self.events.sum())), "event")

    def __str__(self) -> str:
        return ", ".join(self.size_texts())


def _count_in_bins(
    scores: FloatArray, weight: FloatArray | None, positives: FloatArray | BoolArray, upper: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the edges of the bins, and the sums of weight and of positives in each."""
    edges = np.linspace(0.0, upper, _N_BINS + 1)
    place = np.minimum(np.searchsorted(edges, scores, side="right") - 1, _N_BINS - 1)
    n, events = (np.bincount(place, weights=sums, minlength=_N_BINS) for sums in (weight, positives))
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
