"""scikit-learn's CalibrationDisplay: its arguments and its picture, with intervals, band and histogram on request."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import metrics
from calibrant.displays import diagram, style
from calibrant.displays.diagram import ScoreHistogram
from calibrant.displays.sources import response
from calibrant.numerics import FloatArray
from calibrant.results import Curve
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What the legend calls the diagonal; a second display on the same axes finds it there.
_DIAGONAL = "Perfectly calibrated"
#: Nominal coverage of the band where no level is given.
_LEVEL = 0.95
#: Width in inches of a figure with a histogram.
_WIDTH = 5.0


@dataclass(eq=False, repr=False)
class CalibrationDisplay:
    """Calibration curve, also called reliability diagram, of a binary classifier.

    A drop-in for `sklearn.calibration.CalibrationDisplay`: made by `from_estimator` or `from_predictions`. Those also
    take weights, more kinds of bins, and on request add intervals, a consistency band and a histogram.
    `ReliabilityDisplay` draws all of these by default.

    Parameters
    ----------
    prob_true, prob_pred : ndarray of shape (m,)
        Share of positives in each bin, and its mean predicted probability.
    y_prob : ndarray of shape (n,)
        Probability of the positive class of each row.
    estimator_name : str, optional
        What the legend calls the curve; without it, the legend leaves it out.
    pos_label : scalar, optional
        The positive class, which the names of the axes then state.
    curve : Curve, optional
        The same curve with the intervals or the band to draw.
    histogram : ScoreHistogram, optional
        What to draw below the curve.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve, after `plot`.
    ax_, ax_histogram_, figure_ : matplotlib Axes, Axes or None, and Figure
        What the curve, and the histogram if there is one, are drawn on.

    Examples
    --------
    >>> import calibrant as cb
    >>> display = cb.CalibrationDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.2, 0.4, 0.9], n_bins=2)
    >>> display.ax_.get_xlabel(), display.prob_true.round(3)
    ('Mean predicted probability (Positive class: 1)', array([0.333, 1.   ]))
    """

    prob_true: FloatArray
    prob_pred: FloatArray
    y_prob: ArrayLike
    _: KW_ONLY
    estimator_name: str | None = None
    pos_label: object = None
    curve: Curve | None = None
    histogram: ScoreHistogram | None = None

    def plot(
        self,
        *,
        ax: Axes | None = None,
        name: str | None = None,
        ref_line: bool = True,
        ax_histogram: Axes | None = None,
        **kwargs: Any,
    ) -> CalibrationDisplay:
        """Draw the curve and return self.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.
        name : str, optional
            What the legend calls the curve; `estimator_name` by default.
        ref_line : bool
            Whether to draw the diagonal, unless `ax` has it already.
        ax_histogram : matplotlib Axes, optional
            Where to draw the histogram when `ax` is given; without it there is none.
        **kwargs
            Properties of the line, by any of matplotlib's names for them.
        """
        from matplotlib import pyplot as plt
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        name = self.estimator_name if name is None else name
        properties: dict[str, Any] = {"marker": "s", "linestyle": "-"} | ({} if name is None else {"label": name})
        properties |= normalize_kwargs(kwargs, Line2D)
        owns_diagram = ax is None and self.histogram is not None
        if owns_diagram:
            ax, ax_histogram = diagram.diagram_axes(_WIDTH)
        elif ax is None:
            _, ax = plt.subplots()
        self.ax_, self.ax_histogram_, self.figure_ = ax, ax_histogram, ax.get_figure()
        if ref_line and _DIAGONAL not in ax.get_legend_handles_labels()[1]:
            ax.plot([0, 1], [0, 1], "k:", label=_DIAGONAL)
        (self.line_,) = ax.plot(self.prob_pred, self.prob_true, **properties)
        if self.curve is not None:
            diagram.draw_band(ax, self.curve)
            if (self.curve.low < self.curve.high).any():
                diagram.draw_interval(ax, self.curve, color=self.line_.get_color(), is_clipped=True)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="lower right")
        positive = "" if self.pos_label is None else f" (Positive class: {self.pos_label})"
        xlabel = f"Mean predicted probability{positive}"
        ax.set(xlabel=xlabel, ylabel=f"Fraction of positives{positive}")
        if ax_histogram is not None and self.histogram is not None:
            diagram.draw_histogram(ax_histogram, self.histogram, color=self.line_.get_color())
            diagram.finish_panel(ax_histogram, ax, xlabel)
        if owns_diagram:
            style.fit_height(style.figure_of(ax))
        return self

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, pos_label: object = None, name: str | None = None, **options: Any
    ) -> CalibrationDisplay:
        """Draw the calibration curve of a fitted binary classifier, or of a pipeline that ends in one.

        Parameters are those of `ReliabilityDisplay.from_estimator`; the options are those of `from_predictions`:
        `n_bins`, `strategy`, `ax`, `ref_line` and the others, and those of the line.
        """
        y_prob, pos_label = response(estimator, X, is_binary=True).positive(pos_label)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, y_prob, pos_label=pos_label, name=name, **options)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        n_bins: int = 5,
        strategy: metrics.CurveBins | ArrayLike = "uniform",
        pos_label: object = None,
        name: str | None = None,
        ax: Axes | None = None,
        ref_line: bool = True,
        sample_weight: ArrayLike | None = None,
        level: float | None = None,
        band: metrics.Band | None = None,
        histogram: bool = False,
        rng: int | np.random.Generator | None = 0,
        **kwargs: Any,
    ) -> CalibrationDisplay:
        """Draw the calibration curve of labels and probabilities.

        Parameters
        ----------
        y_true, y_prob, n_bins, strategy, pos_label, sample_weight
            As in `calibration_curve`.
        name : str, optional
            What the legend calls the curve; "Classifier" by default.
        ax, ref_line, **kwargs
            As in `plot`.
        level : float, optional
            Draw the interval of each share, of this nominal coverage.
        band : {"consistency"}, optional
            Shade where the curve would lie if the probabilities were calibrated, at `level` or 0.95.
        histogram : bool
            Whether to draw how the probabilities are spread below the curve, in a figure of its own.
        rng : int, Generator or None
            Seed of the band.
        """
        rows = metrics.read_curve_rows(y_true, y_prob, sample_weight, pos_label)
        bins = metrics.curve_bins(rows, n_bins, strategy)
        kind: metrics.CurveStrategy = "isotonic" if isinstance(strategy, str) and strategy == "isotonic" else "uniform"
        settings = metrics.curve_settings(n_bins, kind, _LEVEL if level is None else level, band, rng)
        curve = None if level is None and band is None else metrics.curve_of_event(rows, settings, bins=bins)
        if curve is not None and level is None:
            curve = replace(curve, low=curve.y, high=curve.y)
        display = cls(
            prob_true=bins.rate,
            prob_pred=bins.mean_score,
            y_prob=y_prob,
            estimator_name="Classifier" if name is None else name,
            pos_label=1 if pos_label is None else pos_label,
            curve=curve,
            histogram=ScoreHistogram.from_rows(rows) if histogram else None,
        )
        return display.plot(ax=ax, ref_line=ref_line, **kwargs)
