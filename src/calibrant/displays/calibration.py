"""scikit-learn's CalibrationDisplay: its arguments and its picture, with intervals, band and histogram on request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.displays.curves import draw_band, draw_interval
from calibrant.displays.estimators import response
from calibrant.displays.histogram import ScoreHistogram
from calibrant.displays.panels import draw_histogram, new_axes
from calibrant.numerics import FloatArray
from calibrant.results import Curve
from calibrant.validation import as_generator, check_choice, check_fraction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from calibrant.metrics import Band, Bins, CurveBins, CurveStrategy
    from calibrant.rows import Rows
    from calibrant.validation import ArrayLike

#: What the legend calls the diagonal; a second display on the same axes finds it there.
_DIAGONAL = "Perfectly calibrated"
#: Nominal coverage of the band where no level is given.
_LEVEL = 0.95
#: Inches of a figure with a histogram.
_SIZE = (5.0, 6.4)


class CalibrationDisplay:
    """Calibration curve, also called reliability diagram, of a binary classifier.

    A drop-in for `sklearn.calibration.CalibrationDisplay`: made by `from_estimator` or `from_predictions`. Those also
    take weights, more kinds of bins, and on request add intervals, a consistency band and a histogram.
    `ReliabilityDisplay` draws all of these by default.

    Parameters
    ----------
    prob_true : ndarray of shape (m,)
        Share of positives in each bin.
    prob_pred : ndarray of shape (m,)
        Mean predicted probability in each bin.
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
    ax_ : matplotlib Axes
        What it is drawn on.
    ax_histogram_ : matplotlib Axes or None
        What the histogram is drawn on, if it is.
    figure_ : matplotlib Figure
        The figure of `ax_`.

    Examples
    --------
    >>> import calibrant as cb
    >>> display = cb.CalibrationDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.2, 0.4, 0.9], n_bins=2)
    >>> display.ax_.get_xlabel(), display.prob_true.round(3)
    ('Mean predicted probability (Positive class: 1)', array([0.333, 1.   ]))
    """

    line_: Line2D
    ax_: Axes
    ax_histogram_: Axes | None
    figure_: Figure | None

    def __init__(
        self,
        prob_true: FloatArray,
        prob_pred: FloatArray,
        y_prob: ArrayLike,
        *,
        estimator_name: str | None = None,
        pos_label: object = None,
        curve: Curve | None = None,
        histogram: ScoreHistogram | None = None,
    ) -> None:
        self.prob_true = prob_true
        self.prob_pred = prob_pred
        self.y_prob = y_prob
        self.estimator_name = estimator_name
        self.pos_label = pos_label
        self.curve = curve
        self.histogram = histogram

    def plot(
        self,
        *,
        ax: Axes | None = None,
        name: str | None = None,
        ref_line: bool = True,
        ax_histogram: Axes | None = None,
        **kwargs: Any,
    ) -> CalibrationDisplay:
        """Draw the curve.

        Nothing is shown and no global setting is touched.

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

        Returns
        -------
        CalibrationDisplay
            Itself, with the attributes set.
        """
        from matplotlib import pyplot as plt
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        name = self.estimator_name if name is None else name
        look: dict[str, Any] = {"marker": "s", "linestyle": "-"} | ({} if name is None else {"label": name})
        look |= normalize_kwargs(kwargs, Line2D)
        if ax is None and self.histogram is not None:
            ax, ax_histogram = new_axes(_SIZE)
            ax.set_box_aspect(1.0)
        elif ax is None:
            _, ax = plt.subplots()
        self.ax_, self.ax_histogram_ = ax, ax_histogram
        self.figure_ = ax.get_figure()  # type: ignore[assignment]
        if ref_line and _DIAGONAL not in ax.get_legend_handles_labels()[1]:
            ax.plot([0, 1], [0, 1], "k:", label=_DIAGONAL)
        (self.line_,) = ax.plot(self.prob_pred, self.prob_true, **look)
        self._draw_uncertainty(ax)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="lower right")
        positive = "" if self.pos_label is None else f" (Positive class: {self.pos_label})"
        across = f"Mean predicted probability{positive}"
        ax.set(xlabel=across, ylabel=f"Fraction of positives{positive}")
        if ax_histogram is not None and self.histogram is not None:
            draw_histogram(ax_histogram, self.histogram, color=self.line_.get_color())
            ax_histogram.set(xlabel=across)
            ax.tick_params(labelbottom=False)
            ax.xaxis.label.set_visible(False)  # the panel below says it
        return self

    def _draw_uncertainty(self, ax: Axes) -> None:
        if self.curve is None:
            return
        label = f"{100.0 * self.curve.level:g}% of calibrated forecasts"
        is_named = label in ax.get_legend_handles_labels()[1]
        draw_band(ax, self.curve, label="_band" if is_named else label)
        if (self.curve.low < self.curve.high).any():
            draw_interval(ax, self.curve, color=self.line_.get_color(), is_clipped=True)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        n_bins: int = 5,
        strategy: CurveBins | ArrayLike = "uniform",
        pos_label: object = None,
        name: str | None = None,
        ax: Axes | None = None,
        ref_line: bool = True,
        sample_weight: ArrayLike | None = None,
        level: float | None = None,
        band: Band | None = None,
        histogram: bool = False,
        rng: int | np.random.Generator | None = 0,
        **kwargs: Any,
    ) -> CalibrationDisplay:
        """Draw the calibration curve of a fitted binary classifier.

        Parameters
        ----------
        estimator : classifier
            Fitted, with `predict_proba` and two `classes_`; or a pipeline that ends in one.
        X : array-like or sparse matrix of shape (n, n_features)
            What it predicts from.
        y : array-like of shape (n,)
            Labels.
        n_bins, strategy, ax, ref_line, sample_weight, level, band, histogram, rng, **kwargs
            As in `from_predictions`.
        pos_label : scalar, optional
            The positive class; the last of `classes_` by default.
        name : str, optional
            What the legend calls the curve; the estimator's class by default.

        Returns
        -------
        CalibrationDisplay

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        NotFittedError
            scikit-learn's own, if the estimator is not fitted.
        """
        y_prob, pos_label = response(estimator, X, is_binary=True).positive(pos_label)
        return cls.from_predictions(
            y,
            y_prob,
            n_bins=n_bins,
            strategy=strategy,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            ref_line=ref_line,
            sample_weight=sample_weight,
            level=level,
            band=band,
            histogram=histogram,
            rng=rng,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        n_bins: int = 5,
        strategy: CurveBins | ArrayLike = "uniform",
        pos_label: object = None,
        name: str | None = None,
        ax: Axes | None = None,
        ref_line: bool = True,
        sample_weight: ArrayLike | None = None,
        level: float | None = None,
        band: Band | None = None,
        histogram: bool = False,
        rng: int | np.random.Generator | None = 0,
        **kwargs: Any,
    ) -> CalibrationDisplay:
        """Draw the calibration curve of labels and probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels of two kinds.
        y_prob : array-like of shape (n,)
            Probability of the positive class.
        n_bins, strategy, pos_label
            As in `calibration_curve`.
        name : str, optional
            What the legend calls the curve; "Classifier" by default.
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.
        ref_line : bool
            Whether to draw the diagonal.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts as two rows, a weight of zero as none.
        level : float, optional
            Draw the interval of each share, of this nominal coverage.
        band : {"consistency"}, optional
            Shade where the curve would lie if the probabilities were calibrated, at `level` or 0.95.
        histogram : bool
            Whether to draw how the probabilities are spread below the curve, in a figure of its own.
        rng : int, Generator or None
            Seed of the band.
        **kwargs
            Properties of the line, as `matplotlib.pyplot.plot` takes them.

        Returns
        -------
        CalibrationDisplay

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        from calibrant.metrics import curve_bins, read_curve_rows

        rows = read_curve_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label)
        bins = curve_bins(rows, n_bins, strategy)
        display = cls(
            prob_true=bins.rate,
            prob_pred=bins.mean_score,
            y_prob=y_prob,
            estimator_name="Classifier" if name is None else name,
            pos_label=1 if pos_label is None else pos_label,
            curve=_uncertain(rows, bins, strategy, level, band, rng),
            histogram=ScoreHistogram.from_rows(rows) if histogram else None,
        )
        return display.plot(ax=ax, ref_line=ref_line, **kwargs)


def _uncertain(
    rows: Rows,
    bins: Bins,
    strategy: CurveBins | ArrayLike,
    level: float | None,
    band: Band | None,
    rng: int | np.random.Generator | None,
) -> Curve | None:
    """Return the bins as a curve with what was asked for, intervals or band; None where neither was."""
    from calibrant.metrics import consistency_band, wilson

    generator = as_generator(rng)
    if band is not None:
        check_choice("band", band, ("consistency",))
    if level is not None:
        check_fraction("level", level)
    if level is None and band is None:
        return None
    kind: CurveStrategy = "isotonic" if isinstance(strategy, str) and strategy == "isotonic" else "uniform"
    own = _LEVEL if level is None else level
    rate = bins.rate
    low, high = (rate, rate) if level is None else wilson(rate, bins.size, own)
    ends = (None, None) if band is None else consistency_band(rows.summary(), bins, kind, own, generator)
    return Curve(bins.mean_score, rate, low, high, bins.weight, bins.edges, own, kind, "", *ends)
