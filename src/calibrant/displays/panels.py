"""A diagram with a low panel below it, which shows how the probabilities are spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calibrant.displays.histogram import ScoreHistogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Height of the histogram as a share of the diagram's.
PANEL_HEIGHT = 0.22


def new_axes(size: tuple[float, float]) -> tuple[Axes, Axes]:
    """Return a square diagram with a low panel of the same width below it, in a figure of their own."""
    from matplotlib import pyplot as plt

    _, (ax, ax_histogram) = plt.subplots(
        2, 1, figsize=size, sharex=True, height_ratios=[1.0, PANEL_HEIGHT], layout="constrained"
    )
    ax_histogram.set_box_aspect(PANEL_HEIGHT)
    return ax, ax_histogram


def draw_histogram(ax: Axes, histogram: ScoreHistogram, *, color: Any) -> None:
    """Draw all rows pale, and the events among them full."""
    ax.stairs(histogram.n, histogram.edges, fill=True, color=color, alpha=0.3, label="all rows")
    ax.stairs(histogram.events, histogram.edges, fill=True, color=color, label="events")
    ax.set(ylabel="Weight" if histogram.is_weighted else "Rows")
    finish_panel(ax)


def finish_panel(ax: Axes) -> None:
    """Let the panel start at zero, with few and whole numbers beside it."""
    ax.set(xlabel="Predicted probability")
    ax.set_ylim(bottom=0.0)
    ax.locator_params(axis="y", nbins=2)
    ax.yaxis.set_major_formatter("{x:,.9g}")
