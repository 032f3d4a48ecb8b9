"""Pictures of forecasts: PIT histograms, reliability of quantiles, and gaps between predicted and true losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calibrant import forecasts
from calibrant.displays import style
from calibrant.displays.sources import as_models
from calibrant.forecasts import Forecast, LevelCurve, PitHistogram, ReliabilityGaps, ThresholdRule
from calibrant.phrases import count
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Curves whose names find room inside the axes; those of more would lie on them.
_MAX_INSIDE = 2
#: Rules drawn in the scatter of each forecast, spread evenly over the family.
_N_POINTS = 1_500


class PitDisplay:
    """Where outcomes fell in their forecasts: flat if calibrated.

    A U says that forecasts are too narrow, a hump that they are too wide, a slope that they are too low (rising) or
    too high (falling). The dark band holds each bar of a calibrated forecast as often as its level says, the
    pale one all bars together.

    Parameters
    ----------
    histogram : PitHistogram
        What `calibrant.forecasts.pit_histogram` returns.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> display = cb.PitDisplay.from_forecast(cb.forecasts.GaussianForecast(np.zeros(500), 1.0), y)
    >>> display.histogram.n
    500
    """

    def __init__(self, histogram: PitHistogram) -> None:
        advice = "Pass what pit_histogram returns, or use PitDisplay.from_forecast(forecast, y)."
        self.histogram = style.check_kind("histogram is", histogram, PitHistogram, advice)

    @classmethod
    def from_forecast(
        cls,
        forecast: Forecast,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
        n_bins: int = 20,
        level: float = 0.95,
        ax: Axes | None = None,
    ) -> PitDisplay:
        """Count outcomes by where they fell in their forecasts, as `forecasts.pit_histogram` does, and draw it."""
        known: dict[str, Any] = {"cluster": cluster, "time": time, "label_end": label_end}
        how: dict[str, Any] = {"sample_weight": sample_weight, "n_bins": n_bins, "level": level}
        histogram = forecasts.pit_histogram(forecast, y, **how, **known)
        return cls(histogram).plot(ax)

    def plot(self, ax: Axes | None = None, *, color: str = style.COLOURS[0]) -> PitDisplay:
        """Draw bars, in a colour of matplotlib's, and bands on given axes, or in a figure of their own; return self."""
        ax, self.figure_ = style.place(ax, (5.6, 3.6))
        self.ax_, found = ax, self.histogram
        share = f"{100 * found.level:g}%"
        ax.stairs(found.density, found.edges, fill=True, color=color, alpha=0.55, linewidth=0.0)
        ax.stairs(found.density, found.edges, color=color, linewidth=1.0)
        band: dict[str, Any] = {"color": style.MUTED, "linewidth": 0.0}
        ax.axhspan(found.low_all, found.high_all, alpha=0.18, label=f"{share} of all bins", **band)
        ax.axhspan(found.low, found.high, alpha=0.35, label=f"{share} of one bin", **band)
        ax.axhline(1.0, **style.REFERENCE)
        ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.3 * max(float(found.density.max()), found.high_all)))
        ax.set(xlabel="Level of the forecast that the outcome fell on (PIT)", ylabel="Density")
        ax.set_title(f"n = {count(found.n, 'row')}")
        ax.legend(loc="upper center", ncols=2, frameon=False, title="where a calibrated forecast lies")
        return self


class ForecastReliabilityDisplay:
    """How often outcomes fell below the quantiles of their forecasts, against how often they should.

    A curve on the diagonal is calibrated; one above it at low levels and below it at high ones is of forecasts that
    are too narrow. The band shows where the first curve would lie at each level if it were calibrated.

    Parameters
    ----------
    curve : LevelCurve or sequence of LevelCurve
        What `calibrant.forecasts.level_curve` or `threshold_curves` return.

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

    def __init__(self, curve: LevelCurve | Sequence[LevelCurve]) -> None:
        advice = "Pass what level_curve returns, or use ForecastReliabilityDisplay.from_forecast(forecast, y)."
        self.curves = style.as_parts("curve", curve, LevelCurve, advice)

    @classmethod
    def from_forecast(
        cls,
        forecast: Forecast | Mapping[str, Forecast],
        y: ArrayLike,
        *,
        decision: ThresholdRule | tuple[float, float] | None = None,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
        level: float = 0.95,
        ax: Axes | None = None,
    ) -> ForecastReliabilityDisplay:
        """Measure the curve of a forecast, or of several under their names, and draw it.

        Parameters
        ----------
        forecast : Forecast, or mapping of names to forecasts
        y, sample_weight, cluster, time, label_end, level
            What happened and the rest as in `forecasts.level_curve`.
        decision : ThresholdRule or (y0, alpha), optional
            Draw the rows on both sides of this rule by themselves.
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.
        """
        curves: list[LevelCurve] = []
        how: dict[str, Any] = {"sample_weight": sample_weight, "level": level}
        how |= {"cluster": cluster, "time": time, "label_end": label_end}
        for name, each in as_models(forecast, argument="forecast"):
            if decision is None:
                curves.append(forecasts.level_curve(each, y, label=name, **how))
            else:
                sides = forecasts.threshold_curves(each, y, decision, **how)
                curves += [replace(side, label=f"{name}: {side.label}" if name else side.label) for side in sides]
        return cls(curves).plot(ax)

    def plot(self, ax: Axes | None = None) -> ForecastReliabilityDisplay:
        """Draw the curves over the diagonal on given axes, or in a figure of their own, `ax_`; return self."""
        is_own, first = ax is None, self.curves[0]
        ax, self.figure_ = style.place(ax, (4.8, 9.6))
        self.ax_ = ax
        band = f"{100 * first.level:g}% if calibrated, n = {first.n:,}"
        ax.fill_between(first.levels, first.low, first.high, color=style.MUTED, alpha=0.3, linewidth=0.0, label=band)
        ax.plot([0.0, 1.0], [0.0, 1.0], **style.REFERENCE)
        for k, curve in enumerate(self.curves):
            name = f"{style.legible(curve.label)}: " if curve.label else ""
            ax.plot(curve.levels, curve.share, linewidth=1.8, label=f"{name}error {curve.error:.3f}", **style.line(k))
        ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
        ax.set(xlabel="Level of the quantile", ylabel="Share of outcomes at or below it")
        is_inside = len(self.curves) <= _MAX_INSIDE
        if is_own and not is_inside:
            style.add_legend(ax, is_own=True)
        else:
            where = {"loc": "upper left"} if is_inside else {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14)}
            ax.legend(frameon=False, fontsize="small", **where)
        if is_own:
            style.fit_height(self.figure_)
        return self


class ReliabilityGapDisplay:
    """Reliability gaps over thresholds and levels, one map per forecast, and predicted against true losses.

    Parameters
    ----------
    gaps : ReliabilityGaps, or mapping of names to such
        What `calibrant.forecasts.reliability_gaps` returns; of several forecasts, over the same thresholds.

    Attributes
    ----------
    axes_, figure_ : list of matplotlib Axes, and Figure
        A map for each forecast, then the losses; after `plot`.

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

    def __init__(self, gaps: ReliabilityGaps | Mapping[str, ReliabilityGaps]) -> None:
        self.gaps = dict(as_models(gaps, argument="gaps"))
        advice = "Pass what reliability_gaps returns, or use ReliabilityGapDisplay.from_forecast(forecast, y)."
        for each in self.gaps.values():
            style.check_kind("gaps holds", each, ReliabilityGaps, advice)

    @classmethod
    def from_forecast(
        cls,
        forecast: Forecast | Mapping[str, Forecast],
        y: ArrayLike,
        *,
        y0: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> ReliabilityGapDisplay:
        """Measure the gaps of a forecast, or of several such as before and after, and draw them."""
        named = as_models(forecast, argument="forecast")
        gaps = {name: forecasts.reliability_gaps(each, y, y0=y0, sample_weight=sample_weight) for name, each in named}
        return cls(gaps).plot()

    def plot(self) -> ReliabilityGapDisplay:
        """Draw into a figure of its own; return self."""
        n = len(self.gaps)
        *maps, scatter = self.axes_ = style.new_axes((3.6 * (n + 1) + 0.6, 3.6), n=n + 1, n_across=n + 1)
        self.figure_ = style.figure_of(scatter)
        tables = [found.values.mean(axis=2) for found in self.gaps.values()]
        top = max(float(table.max()) for table in tables)
        for ax, (name, found), table in zip(maps, self.gaps.items(), tables, strict=True):
            image = ax.pcolormesh(found.y0, found.alpha, table.T, cmap="cividis", vmin=0.0, vmax=top, shading="nearest")
            words = f"mean gap {found.mean:.3f}, max {found.max:.3f}"
            ax.set_title(f"{style.legible(name)}\n{words}" if name else words, fontsize="medium")
            ax.set(xlabel="Threshold y0", ylabel="Level α")
        self.figure_.colorbar(image, ax=maps, label="Reliability gap, mean over losses")
        self._draw_losses(scatter)
        return self

    def _draw_losses(self, ax: Axes) -> None:
        """Draw true against predicted losses of rules spread over the family."""
        highest = 0.0
        for k, (name, found) in enumerate(self.gaps.items()):
            step = max(found.true.size // _N_POINTS, 1)
            predicted, true = found.predicted.ravel()[::step], found.true.ravel()[::step]
            highest = max(highest, float(predicted.max()), float(true.max()))
            properties = style.of(k) | {"linestyle": "none", "markersize": 2.6, "markeredgewidth": 0.0, "alpha": 0.5}
            ax.plot(predicted, true, label=style.legible(name) or None, **properties)
        ax.plot([0.0, highest], [0.0, highest], **style.REFERENCE)
        ax.set(aspect="equal", xlabel="Predicted loss", ylabel="True loss")
        ax.set_title("One point per rule and loss", fontsize="medium")
        if any(self.gaps):
            ax.legend(loc="upper left", frameon=False, fontsize="small", markerscale=2.0)
