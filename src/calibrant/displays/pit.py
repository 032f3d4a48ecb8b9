"""PIT histograms of forecasts, with the bands of a forecast that is calibrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.displays.style import COLOURS, MUTED
from calibrant.errors import InvalidTypeError
from calibrant.forecasts import Forecast, PitHistogram, pit_histogram
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class PitDisplay:
    """Where outcomes fell in their forecasts: flat if calibrated.

    A U says that forecasts are too narrow, a hump that they are too wide, a slope that they are too low (rising) or
    too high (falling). The dark band holds each bar of a calibrated forecast as often as its level says, the
    pale one all bars together.

    Parameters
    ----------
    histogram : PitHistogram
        What `calibrant.forecasts.pit_histogram` returns.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn, after `plot`.
    figure_ : matplotlib Figure
        The figure of `ax_`.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> display = cb.PitDisplay.from_forecast(cb.forecasts.GaussianForecast(np.zeros(500), 1.0), y)
    >>> display.histogram.n
    500
    """

    ax_: Axes
    figure_: Figure | None

    def __init__(self, histogram: PitHistogram) -> None:
        if not isinstance(histogram, PitHistogram):
            raise InvalidTypeError(
                f"histogram is a {type(histogram).__name__}. Pass what pit_histogram returns, or use "
                "PitDisplay.from_forecast(forecast, y)."
            )
        self.histogram = histogram

    @classmethod
    def from_forecast(
        cls,
        forecast: Forecast,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        n_bins: int = 20,
        level: float = 0.95,
        ax: Axes | None = None,
    ) -> PitDisplay:
        """Count outcomes by where they fell in their forecasts, and draw it; see `calibrant.forecasts.pit_histogram`.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        histogram = pit_histogram(forecast, y, sample_weight=sample_weight, n_bins=n_bins, level=level)
        return cls(histogram).plot(ax)

    def plot(self, ax: Axes | None = None) -> PitDisplay:
        """Draw bars and bands."""
        if ax is None:
            from matplotlib import pyplot as plt

            _, ax = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
        found = self.histogram
        share = f"{100 * found.level:g}%"
        ax.stairs(found.density, found.edges, fill=True, color=COLOURS[0], alpha=0.55, linewidth=0.0)
        ax.stairs(found.density, found.edges, color=COLOURS[0], linewidth=1.0)
        ax.axhspan(found.low_all, found.high_all, color=MUTED, alpha=0.18, linewidth=0.0, label=f"{share} of all bins")
        ax.axhspan(found.low, found.high, color=MUTED, alpha=0.35, linewidth=0.0, label=f"{share} of one bin")
        ax.axhline(1.0, color=MUTED, linewidth=1.0, linestyle="--")
        top = max(float(found.density.max()), found.high_all)
        ax.set(
            xlim=(0.0, 1.0),
            ylim=(0.0, 1.3 * top),
            xlabel="Level of the forecast that the outcome fell on (PIT)",
            ylabel="Density",
            title=f"n = {found.n:,} rows",
        )
        ax.legend(loc="upper center", ncols=2, frameon=False, title="where a calibrated forecast lies")
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        return self
