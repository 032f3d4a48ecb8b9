"""Reliability of the quantiles of forecasts, on average or on both sides of a threshold rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from calibrant.displays.style import COLOURS, LINES, MUTED, legible
from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.forecasts import Forecast, LevelCurve, ThresholdRule, level_curve, threshold_curves
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Curves whose names fit beside them.
_INSIDE = 2


class ForecastReliabilityDisplay:
    """How often outcomes fell below the quantiles of their forecasts, against how often they should.

    A curve on the diagonal is calibrated; one above it at low levels and below it at high ones is of forecasts that
    are too narrow. The band shows where the first curve would lie at each level if it were calibrated.

    Parameters
    ----------
    curve : LevelCurve or sequence of LevelCurve
        What `calibrant.forecasts.level_curve` or `threshold_curves` return.

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
    >>> forecast = cb.forecasts.GaussianForecast(np.zeros(500), 0.5)
    >>> display = cb.ForecastReliabilityDisplay.from_forecast(forecast, y)
    >>> round(display.curves[0].error, 2)
    0.11
    """

    ax_: Axes
    figure_: Figure | None

    def __init__(self, curve: LevelCurve | Sequence[LevelCurve]) -> None:
        self.curves = (curve,) if isinstance(curve, LevelCurve) else tuple(curve)
        for each in self.curves:
            if not isinstance(each, LevelCurve):
                raise InvalidTypeError(
                    f"curve holds a {type(each).__name__}. Pass what level_curve returns, or use "
                    "ForecastReliabilityDisplay.from_forecast(forecast, y)."
                )
        if not self.curves:
            raise ShapeError("curve is an empty sequence. Pass at least one LevelCurve.")

    @classmethod
    def from_forecast(
        cls,
        forecast: Forecast | Mapping[str, Forecast],
        y: ArrayLike,
        *,
        decision: ThresholdRule | tuple[float, float] | None = None,
        sample_weight: ArrayLike | None = None,
        level: float = 0.95,
        ax: Axes | None = None,
    ) -> ForecastReliabilityDisplay:
        """Measure the curve of a forecast, or of several under their names, and draw it.

        Parameters
        ----------
        forecast : Forecast, or mapping of names to forecasts
        y : array-like of shape (n,)
            What happened.
        decision : ThresholdRule or (y0, alpha), optional
            Draw the rows on both sides of this rule by themselves.
        sample_weight : array-like of shape (n,), optional
        level : float
            Coverage of the band.
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        named = forecast if isinstance(forecast, Mapping) else {"": forecast}
        if not named:
            raise ShapeError("forecast is an empty mapping. Pass at least one forecast.")
        curves: list[LevelCurve] = []
        for name, each in named.items():
            if decision is None:
                curves.append(level_curve(each, y, sample_weight=sample_weight, level=level, label=str(name)))
                continue
            for side in threshold_curves(each, y, decision, sample_weight=sample_weight, level=level):
                label = f"{name}: {side.label}" if name else side.label
                curves.append(replace(side, label=label))
        return cls(curves).plot(ax)

    def plot(self, ax: Axes | None = None) -> ForecastReliabilityDisplay:
        """Draw the curves over the diagonal."""
        if ax is None:
            from matplotlib import pyplot as plt

            _, ax = plt.subplots(figsize=(4.8, 4.8), layout="constrained")
        first = self.curves[0]
        ax.fill_between(
            first.levels,
            first.low,
            first.high,
            color=MUTED,
            alpha=0.3,
            linewidth=0.0,
            label=f"{100 * first.level:g}% if calibrated, n = {first.n:,}",
        )
        ax.plot([0.0, 1.0], [0.0, 1.0], color=MUTED, linewidth=1.0, linestyle="--")
        for k, curve in enumerate(self.curves):
            name = f"{legible(curve.label)}: " if curve.label else ""
            ax.plot(
                curve.levels,
                curve.share,
                color=COLOURS[k % len(COLOURS)],
                linestyle=LINES[k // len(COLOURS) % len(LINES)],
                linewidth=1.8,
                label=f"{name}error {curve.error:.3f}",
            )
        ax.set(
            xlim=(0.0, 1.0),
            ylim=(0.0, 1.0),
            aspect="equal",
            xlabel="Level of the quantile",
            ylabel="Share of outcomes at or below it",
        )
        if len(self.curves) <= _INSIDE:
            ax.legend(loc="upper left", frameon=False, fontsize="small")
        else:  # of more the names would lie on the curves
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False, fontsize="small")
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        return self
