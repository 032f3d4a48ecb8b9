"""Losses that forecasts promise and losses that come true: a map of the gaps, and one against the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from calibrant.displays.style import COLOURS, MARKERS, MUTED, legible
from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.forecasts import Forecast, ReliabilityGaps, reliability_gaps
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Rules drawn in the scatter of each forecast, spread evenly over the family.
_POINTS = 1_500


class ReliabilityGapDisplay:
    """Reliability gaps over thresholds and levels, one map per forecast, and predicted against true losses.

    Parameters
    ----------
    gaps : ReliabilityGaps, or mapping of names to such
        What `calibrant.forecasts.reliability_gaps` returns; of several forecasts, over the same thresholds.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        A map for each forecast, then the losses.
    figure_ : matplotlib Figure
        Their figure.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> forecast = cb.forecasts.GaussianForecast(np.zeros(500), 0.5)
    >>> display = cb.ReliabilityGapDisplay.from_forecast({"raw": forecast}, y)
    >>> len(display.axes_)
    2
    """

    axes_: list[Axes]
    figure_: Figure

    def __init__(self, gaps: ReliabilityGaps | Mapping[str, ReliabilityGaps]) -> None:
        self.gaps = dict(gaps) if isinstance(gaps, Mapping) else {"": gaps}
        if not self.gaps:
            raise ShapeError("gaps is an empty mapping. Pass at least one.")
        for each in self.gaps.values():
            if not isinstance(each, ReliabilityGaps):
                raise InvalidTypeError(
                    f"gaps holds a {type(each).__name__}. Pass what reliability_gaps returns, or use "
                    "ReliabilityGapDisplay.from_forecast(forecast, y)."
                )

    @classmethod
    def from_forecast(
        cls,
        forecast: Forecast | Mapping[str, Forecast],
        y: ArrayLike,
        *,
        y0: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> ReliabilityGapDisplay:
        """Measure the gaps of a forecast, or of several such as before and after, and draw them.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        named = forecast if isinstance(forecast, Mapping) else {"": forecast}
        found = {
            str(name): reliability_gaps(each, y, y0=y0, sample_weight=sample_weight) for name, each in named.items()
        }
        return cls(found).plot()

    def plot(self) -> ReliabilityGapDisplay:
        """Draw into a figure of its own."""
        from matplotlib import pyplot as plt

        n = len(self.gaps)
        figure, axes = plt.subplots(1, n + 1, figsize=(3.6 * (n + 1) + 0.4, 3.6), layout="constrained", squeeze=False)
        *maps, scatter = axes[0]
        tables = {name: each.values.mean(axis=2) for name, each in self.gaps.items()}
        top = max(float(table.max()) for table in tables.values())
        image = None
        for ax, (name, table) in zip(maps, tables.items(), strict=True):
            found = self.gaps[name]
            image = ax.pcolormesh(found.y0, found.alpha, table.T, cmap="cividis", vmin=0.0, vmax=top, shading="nearest")
            title = f"{legible(name)}\n" if name else ""
            ax.set(
                xlabel="Threshold y0", ylabel="Level α", title=f"{title}mean gap {found.mean:.3f}, max {found.max:.3f}"
            )
        if image is not None:
            figure.colorbar(image, ax=maps, label="Reliability gap, mean over losses")
        self._draw_losses(scatter)
        self.axes_, self.figure_ = [*maps, scatter], figure
        return self

    def _draw_losses(self, ax: Axes) -> None:
        """Draw true against predicted losses of rules spread over the family."""
        highest = 0.0
        for k, (name, found) in enumerate(self.gaps.items()):
            step = max(found.true.size // _POINTS, 1)
            predicted, true = found.predicted.ravel()[::step], found.true.ravel()[::step]
            highest = max(highest, float(np.max(predicted)), float(np.max(true)))
            ax.scatter(
                predicted,
                true,
                s=7.0,
                marker=MARKERS[k % len(MARKERS)],
                color=COLOURS[k % len(COLOURS)],
                alpha=0.5,
                linewidths=0.0,
                label=legible(name) if name else None,
            )
        ax.plot([0.0, highest], [0.0, highest], color=MUTED, linewidth=1.0, linestyle="--")
        ax.set(aspect="equal", xlabel="Predicted loss", ylabel="True loss", title="A rule and a loss each")
        if any(self.gaps):
            ax.legend(loc="upper left", frameon=False, fontsize="small", markerscale=2.0)
