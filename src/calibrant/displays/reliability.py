"""The reliability diagram: how often the event happened against how often it was predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from calibrant.displays.curves import DIAGONAL, draw_band, draw_curve, draw_diagonal, size_text
from calibrant.displays.histogram import ScoreHistogram
from calibrant.displays.models import as_models
from calibrant.displays.style import legible, style
from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.results import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from calibrant.metrics.bins import CurveStrategy
    from calibrant.validation import ArrayLike

#: Height of the histogram as a share of the diagram's.
PANEL_HEIGHT = 0.22
#: With more curves than this, the legend of the display's own figure has two columns.
MAX_ONE_COLUMN = 2
#: Inches of the display's own figure, and of one that has to name many curves.
_SIZE, _LARGE = (5.0, 7.0), (6.2, 8.4)


class ReliabilityDisplay:
    """Reliability diagram of one curve, or of several in one picture.

    Each point is a bin of rows: across, the mean predicted probability; up, how often the event happened, with
    its interval. On the diagonal the two agree. A curve of isotonic blocks is drawn in steps. Where a curve has a
    consistency band, it is shaded: there the points of a calibrated forecast lie.

    Parameters
    ----------
    curve : Curve or sequence of Curve
        What `reliability_curve` returns.
    histogram : ScoreHistogram or sequence of ScoreHistogram, optional
        How the probabilities are spread, one for each curve. Without it, the picture below the diagram shows the
        weight of each bin.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The diagram, after `plot`.
    ax_histogram_ : matplotlib Axes or None
        The picture below it; None where the caller gave axes for the diagram only.
    figure_ : matplotlib Figure
        The figure of `ax_`.
    line_ : matplotlib Line2D
        The first curve; `lines_` holds all of them.

    Examples
    --------
    >>> import calibrant as cb
    >>> curve = cb.reliability_curve([0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.8, 0.9], n_bins=2)
    >>> display = cb.ReliabilityDisplay(curve).plot()
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('Predicted probability', 'Observed frequency')
    """

    ax_: Axes
    ax_histogram_: Axes | None
    figure_: Figure | None
    line_: Line2D
    lines_: list[Line2D]

    def __init__(
        self, curve: Curve | Sequence[Curve], *, histogram: ScoreHistogram | Sequence[ScoreHistogram] | None = None
    ) -> None:
        self.curves = (curve,) if isinstance(curve, Curve) else tuple(curve)
        self.histograms = (histogram,) if isinstance(histogram, ScoreHistogram) else tuple(histogram or ())
        for each in self.curves:
            if not isinstance(each, Curve):
                raise InvalidTypeError(
                    f"curve holds a {type(each).__name__}. Pass what reliability_curve returns, "
                    "or use ReliabilityDisplay.from_predictions(y_true, y_prob)."
                )
        if not self.curves:
            raise ShapeError("curve is an empty sequence. Pass at least one Curve.")
        if self.histograms and len(self.histograms) != len(self.curves):
            raise ShapeError(
                f"{len(self.curves)} curves and {len(self.histograms)} histograms. Pass one histogram for each curve."
            )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike | Mapping[str, ArrayLike],
        *,
        sample_weight: ArrayLike | None = None,
        n_bins: int = 10,
        strategy: CurveStrategy = "quantile",
        level: float = 0.95,
        pos_label: object = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> ReliabilityDisplay:
        """Measure the reliability curve of labels and probabilities and draw it.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels of any kind.
        y_prob : array-like of shape (n,) or (n, K), or mapping of names to such
            Probability of the positive class; or of every class, for the curve of the top label: how often the
            most probable class was right. A mapping holds those of several models, each drawn under its name.
        sample_weight : array-like of shape (n,), optional
        n_bins : int
        strategy : {"quantile", "uniform", "isotonic"}
            Bins of equal weight, of equal width, or the blocks of the isotonic regression.
        level : float
            Nominal coverage of the intervals.
        pos_label : scalar, optional
            The class that `y_prob` is the probability of; the larger of two by default.
        name : str, optional
            What the legend calls the curve of a single model.
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own, with a histogram below.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.

        Examples
        --------
        >>> import calibrant as cb
        >>> y, p = [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.8, 0.9]
        >>> display = cb.ReliabilityDisplay.from_predictions(y, p, n_bins=2, name="model")
        >>> display.curves[0].y.round(3).tolist()
        [0.333, 0.667]
        """
        from calibrant.metrics import reliability_curve
        from calibrant.metrics.rows import read_rows

        curves, histograms = [], []
        for label, prob in as_models(y_prob, name):
            curve = reliability_curve(
                y_true,
                prob,
                sample_weight=sample_weight,
                n_bins=n_bins,
                strategy=strategy,
                level=level,
                pos_label=pos_label,
                label=label,
            )
            rows = read_rows(y_true, prob, sample_weight=sample_weight, pos_label=pos_label, classes=None)
            curves.append(curve)
            histograms.append(ScoreHistogram.from_rows(rows.one_column()))
        return cls(curves, histogram=histograms).plot(ax)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        ax_histogram: Axes | None = None,
        name: str | Sequence[str] | None = None,
        upper: float = 1.0,
    ) -> ReliabilityDisplay:
        """Draw the diagram.

        Nothing is shown and no global setting is touched. Axes that are given keep their style and take further
        displays: each draws its curves in the next colour and marker.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own, with the histogram below.
        ax_histogram : matplotlib Axes, optional
            Where to draw the histogram when `ax` is given.
        name : str or sequence of str, optional
            Names for the legend, one for each curve; by default the curves' own labels.
        upper : float
            Where both axes end; below 1, a close-up of rare events.

        Returns
        -------
        ReliabilityDisplay
            Itself, with the attributes set.
        """
        names = self._names(name)
        owns_figure = ax is None
        if ax is None:
            ax, ax_histogram = _new_axes(_SIZE if len(self.curves) <= MAX_ONE_COLUMN else _LARGE)
        self.ax_, self.ax_histogram_ = ax, ax_histogram
        self.figure_ = ax.get_figure(root=True)
        self._draw_curves(ax, names, upper)
        if ax_histogram is not None:
            self._draw_histogram(ax_histogram, _n_curves(ax) - len(self.lines_))
            ax.tick_params(labelbottom=False)
            ax.xaxis.label.set_visible(False)  # the panel below says it
        if owns_figure and self.figure_ is not None:
            n_columns = 2 if len(self.histograms) == 1 or len(self.curves) > MAX_ONE_COLUMN else 1
            self.figure_.legend(loc="outside upper left", frameon=False, fontsize="small", ncols=n_columns)
        else:
            ax.legend(loc="best", frameon=False, fontsize="x-small")
        return self

    def _names(self, name: str | Sequence[str] | None) -> list[str]:
        if name is None:
            return [curve.label for curve in self.curves]
        names = [name] if isinstance(name, str) else list(name)
        if len(names) != len(self.curves):
            raise ShapeError(f"{len(names)} names for {len(self.curves)} curves. Pass one name for each curve.")
        return names

    def _draw_curves(self, ax: Axes, names: list[str], upper: float) -> None:
        draw_diagonal(ax, upper)
        start = _n_curves(ax)
        for i, curve in enumerate(self.curves):
            is_first = i == start == 0
            draw_band(ax, curve, label=f"{100.0 * curve.level:g}% of calibrated forecasts" if is_first else "_band")
        is_alone = len(self.curves) == 1
        self.lines_ = [
            draw_curve(ax, curve, k=start + i, label=self._legend_text(i, name), upper=upper, is_alone=is_alone)
            for i, (curve, name) in enumerate(zip(self.curves, names, strict=True))
        ]
        self.line_ = self.lines_[0]

    def _legend_text(self, i: int, name: str) -> str:
        curve = self.curves[i]
        size = str(self.histograms[i]) if self.histograms else size_text(curve)
        shows_interval = curve.strategy != "isotonic" or len(self.curves) == 1
        interval = f", {100.0 * curve.level:g}% interval" if shows_interval else ""
        return f"{legible((name or 'observed') + interval)}\n{size}"

    def _draw_histogram(self, ax: Axes, start: int) -> None:
        if not self.histograms:
            for i, curve in enumerate(self.curves):
                ax.vlines(curve.x, 0.0, curve.n, linewidth=2.5, color=style(start + i)["color"])
            ax.set(ylabel="n in bin")
        elif len(self.histograms) == 1:
            (histogram,) = self.histograms
            colour = style(start)["color"]
            ax.stairs(histogram.n, histogram.edges, fill=True, color=colour, alpha=0.3, label="all rows")
            ax.stairs(histogram.events, histogram.edges, fill=True, color=colour, label="events")
            ax.set(ylabel="Weight" if histogram.is_weighted else "Rows")
        else:
            for i, histogram in enumerate(self.histograms):
                look = style(start + i)
                share = histogram.n / histogram.n.sum()
                ax.stairs(share, histogram.edges, color=look["color"], linestyle=look["linestyle"], linewidth=1.2)
            ax.set(ylabel="Share of rows")
        ax.set(xlabel="Predicted probability")
        ax.set_ylim(bottom=0.0)
        ax.locator_params(axis="y", nbins=2)
        ax.yaxis.set_major_formatter("{x:,.9g}")


def _new_axes(size: tuple[float, float]) -> tuple[Axes, Axes]:
    """Return a square diagram with a low panel of the same width below it, in a figure of their own."""
    from matplotlib import pyplot as plt

    _, (ax, ax_histogram) = plt.subplots(
        2, 1, figsize=size, sharex=True, height_ratios=[1.0, PANEL_HEIGHT], layout="constrained"
    )
    ax_histogram.set_box_aspect(PANEL_HEIGHT)
    return ax, ax_histogram


def _n_curves(ax: Axes) -> int:
    """Count the curves that displays have drawn on axes."""
    labels = [str(line.get_label()) for line in ax.lines]
    return sum(label != DIAGONAL and not label.startswith("_") for label in labels)
