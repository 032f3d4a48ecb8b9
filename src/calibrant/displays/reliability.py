"""The reliability diagram: how often the event happened against how often it was predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calibrant.displays.curves import DIAGONAL, draw_band, draw_curve, draw_diagonal, size_text
from calibrant.displays.estimators import Response, common_classes, folds, response
from calibrant.displays.histogram import ScoreHistogram
from calibrant.displays.models import as_cases, as_models
from calibrant.displays.panels import draw_histogram, finish_panel, new_axes
from calibrant.displays.style import legible, style
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.results import Curve

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from calibrant.metrics import Band, CurveStrategy
    from calibrant.validation import ArrayLike

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
        y_true: ArrayLike | Mapping[str, ArrayLike],
        y_prob: ArrayLike | Mapping[str, ArrayLike],
        *,
        sample_weight: ArrayLike | Mapping[str, ArrayLike] | None = None,
        n_bins: int = 10,
        strategy: CurveStrategy = "quantile",
        level: float = 0.95,
        band: Band | None = None,
        pos_label: object = None,
        classes: ArrayLike | None = None,
        class_label: object = None,
        name: str | None = None,
        ax: Axes | None = None,
        rng: int | np.random.Generator | None = 0,
    ) -> ReliabilityDisplay:
        """Measure the reliability curve of labels and probabilities and draw it.

        Parameters
        ----------
        y_true : array-like of shape (n,), or mapping of names to such
            Labels of any kind. A mapping with the names of `y_prob` holds other rows for each, such as folds.
        y_prob : array-like of shape (n,) or (n, K), or mapping of names to such
            Probability of the positive class; or of every class, for the curve of the top label: how often the
            most probable class was right. A mapping holds those of several models, each drawn under its name.
        sample_weight : array-like of shape (n,), optional
            A mapping where `y_true` is one.
        n_bins : int
        strategy : {"quantile", "uniform", "isotonic"}
            Bins of equal weight, of equal width, or the blocks of the isotonic regression.
        level : float
            Nominal coverage of the intervals.
        band : {"consistency"}, optional
            Shade where the curve would lie, at `level`, if the probabilities were calibrated.
        pos_label : scalar, optional
            The class that `y_prob` is the probability of; the larger of two by default.
        classes : array-like of shape (K,), optional
            All classes, sorted, where `y_true` may lack some.
        class_label : scalar, optional
            With K columns: the class to show against the rest, in place of the top label.
        name : str, optional
            What the legend calls the curve of a single model.
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own, with a histogram below.
        rng : int, Generator or None
            Seed of the band.

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
        from calibrant.metrics import event_rows, measured_rows, reliability_curve

        curves, histograms = [], []
        for case in as_cases(y_true, y_prob, sample_weight, name):
            what: dict[str, Any] = {"sample_weight": case.weight, "pos_label": pos_label, "classes": classes}
            curve = reliability_curve(
                case.y_true,
                case.y_prob,
                n_bins=n_bins,
                strategy=strategy,
                level=level,
                band=band,
                class_label=class_label,
                label=case.name,
                rng=rng,
                **what,
            )
            curves.append(curve)
            rows = event_rows(measured_rows(case.y_true, case.y_prob, **what), class_label)
            histograms.append(ScoreHistogram.from_rows(rows))
        return cls(curves, histogram=histograms).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        pos_label: object = None,
        name: str | None = None,
        **options: Any,
    ) -> ReliabilityDisplay:
        """Measure the reliability curve of a fitted classifier, or of several, and draw it.

        Parameters
        ----------
        estimator : classifier, or mapping of names to classifiers
            Fitted, with `predict_proba` and `classes_`. Of two classes the curve shows the positive one, of more the
            top label.
        X : array-like or frame of shape (n, n_features)
            What it predicts from: rows that it was not fitted to.
        y : array-like of shape (n,)
            Labels.
        pos_label : scalar, optional
            The positive one of two classes; the last of `classes_` by default.
        name : str, optional
            What the legend calls the curve; the estimator's class by default.
        **options
            As in `from_predictions`.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        NotFittedError
            scikit-learn's own, if an estimator is not fitted.
        """
        models = as_models(estimator, name)
        answers = {key or type(each).__name__: response(each, X) for key, each in models}
        return cls._of_responses(dict.fromkeys(answers, y), answers, pos_label, options)

    @classmethod
    def from_cv_results(
        cls,
        cv_results: Mapping[str, Any],
        X: Any,
        y: ArrayLike,
        *,
        pos_label: object = None,
        sample_weight: ArrayLike | None = None,
        **options: Any,
    ) -> ReliabilityDisplay:
        """Measure the reliability curve of each fold of a cross-validation, on the rows it was not fitted to.

        Parameters
        ----------
        cv_results : dict
            What scikit-learn's `cross_validate` returns with `return_estimator=True` and `return_indices=True`.
        X, y : array-like
            What it was called with.
        pos_label : scalar, optional
            The positive one of two classes; the last of `classes_` by default.
        sample_weight : array-like of shape (n,), optional
        **options
            As in `from_predictions`.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        labels, answers, weights = {}, {}, {}
        for key, estimator, rows, own, weight in folds(cv_results, X, y, sample_weight):
            labels[key], answers[key], weights[key] = own, response(estimator, rows), weight
        if sample_weight is not None:
            options["sample_weight"] = weights
        return cls._of_responses(labels, answers, pos_label, options)

    @classmethod
    def _of_responses(
        cls,
        labels: Mapping[str, ArrayLike],
        answers: Mapping[str, Response],
        pos_label: object,
        options: dict[str, Any],
    ) -> ReliabilityDisplay:
        """Draw what classifiers of the same classes answered for the rows of each."""
        classes = common_classes(answers)
        prob = {key: answer.prob for key, answer in answers.items()}
        if len(classes) == 2:
            prob, positive = {}, pos_label
            for key, answer in answers.items():
                prob[key], positive = answer.positive(pos_label)
            options["pos_label"] = positive
        elif pos_label is not None:
            raise InvalidInputError(
                f"pos_label={pos_label!r} is for two classes, but the estimator has {len(classes)}. "
                "Pass class_label to show one of them against the rest."
            )
        if options.get("sample_weight") is not None and not isinstance(options["sample_weight"], Mapping):
            options["sample_weight"] = dict.fromkeys(prob, options["sample_weight"])
        return cls.from_predictions(labels, prob, classes=classes, **options)

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
            ax, ax_histogram = new_axes(_SIZE if len(self.curves) <= MAX_ONE_COLUMN else _LARGE)
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
            draw_histogram(ax, self.histograms[0], color=style(start)["color"])
        else:
            for i, histogram in enumerate(self.histograms):
                look = style(start + i)
                share = histogram.n / histogram.n.sum()
                ax.stairs(share, histogram.edges, color=look["color"], linestyle=look["linestyle"], linewidth=1.2)
            ax.set(ylabel="Share of rows")
        finish_panel(ax)


def _n_curves(ax: Axes) -> int:
    """Count the curves that displays have drawn on axes."""
    labels = [str(line.get_label()) for line in ax.lines]
    return sum(label != DIAGONAL and not label.startswith("_") for label in labels)
