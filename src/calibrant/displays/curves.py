"""One reliability curve on axes: its points or steps, their intervals, and what a calibrated forecast would show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.displays import style
from calibrant.results import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

#: The line that a calibrated forecast follows.
DIAGONAL = "perfectly calibrated"
#: With more bins than this, intervals are a band and no longer bars.
MAX_BARS = 25
#: Ends of the axes to choose from.
AXIS_ENDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


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
    if DIAGONAL in (line.get_label() for line in ax.lines):
        return
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
    width = 1.6 if is_isotonic else 1.0
    size = 3.0 if curve.x.size > MAX_BARS else 5.5
    (line,) = ax.plot(x, y, linewidth=width, markersize=size, clip_on=is_clipped, zorder=3, label=label, **properties)
    return line
