"""The reliability diagram: how often the event happened against how often it was predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import metrics
from calibrant.displays import diagram, style
from calibrant.displays.diagram import ScoreHistogram
from calibrant.displays.sources import Response, as_cases, as_models, common_classes, folds, response
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.results import Curve
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Width in inches of the display's own figure; and of one of more curves than so many, with a legend of two columns.
_WIDTH, _LARGE, _MAX_ONE_COLUMN = 5.0, 6.2, 2


class ReliabilityDisplay:
    """Reliability diagram of one curve, or of several in one picture.

    Each point is a bin of rows: across, the mean predicted probability; up, how often the event happened, with its
    interval. On the diagonal the two agree. A curve of isotonic blocks is drawn in steps. A consistency band is shaded:
    there the points of a calibrated forecast lie.

    Parameters
    ----------
    curve : Curve or sequence of Curve
        What `reliability_curve` returns.
    histogram : ScoreHistogram or sequence of ScoreHistogram, optional
        How the probabilities are spread, one for each curve. Without it, the picture below the diagram shows the
        weight of each bin.

    Attributes
    ----------
    ax_, ax_histogram_, figure_ : matplotlib Axes, Axes or None, and Figure
        The diagram and the picture below it, None where the caller gave axes for the diagram only; after `plot`.
    line_, lines_ : matplotlib Line2D, and a list of them
        The first curve, and all of them.

    Examples
    --------
    >>> import calibrant as cb
    >>> y, p = [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.8, 0.9]
    >>> display = cb.ReliabilityDisplay.from_predictions(y, p, n_bins=2, name="model")
    >>> display.curves[0].y.round(3).tolist(), display.ax_.get_xlabel()
    ([0.333, 0.667], 'Predicted probability')
    """

    def __init__(
        self, curve: Curve | Sequence[Curve], *, histogram: ScoreHistogram | Sequence[ScoreHistogram] | None = None
    ) -> None:
        advice = "Pass what reliability_curve returns, or use ReliabilityDisplay.from_predictions(y_true, y_prob)."
        self.curves = style.as_parts("curve", curve, Curve, advice)
        self.histograms = (histogram,) if isinstance(histogram, ScoreHistogram) else tuple(histogram or ())
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
        strategy: metrics.CurveStrategy = "quantile",
        level: float = 0.95,
        band: metrics.Band | None = None,
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
        n_bins, strategy, level, band, pos_label, classes, class_label, rng
            As in `reliability_curve`.
        name : str, optional
            What the legend calls the curve of a single model.
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own, with a histogram below.
        """
        curves, histograms = [], []
        for label, labels, prob, weight in as_cases(y_true, y_prob, sample_weight, name):
            settings = metrics.curve_settings(n_bins, strategy, level, band, rng)
            rows = metrics.measured_rows(labels, prob, sample_weight=weight, pos_label=pos_label, classes=classes)
            event = metrics.event_rows(rows, class_label)
            curves.append(metrics.curve_of_event(event, settings, label=label))
            histograms.append(ScoreHistogram.from_rows(event))
        return cls(curves, histogram=histograms).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, pos_label: object = None, name: str | None = None, **options: Any
    ) -> ReliabilityDisplay:
        """Measure the reliability curve of a fitted classifier, or of several, and draw it.

        Parameters
        ----------
        estimator : classifier, or mapping of names to classifiers
            Fitted, with `predict_proba` and `classes_`. Of two classes the curve shows the positive one, of more the
            top label.
        X, y : array-like
            Rows that it was not fitted to, and their labels.
        pos_label : scalar, optional
            The positive one of two classes; the last of `classes_` by default.
        name : str, optional
            What the legend calls the curve; the estimator's class by default.
        **options
            As in `from_predictions`.
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
        X, y, sample_weight : array-like
            What it was called with; the weights are optional.
        pos_label, **options
            As in `from_estimator`.
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
            for key, answer in answers.items():
                prob[key], options["pos_label"] = answer.positive(pos_label)
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
        """Draw the diagram and return self.

        Axes that are given keep their style and take further displays: each draws its curves in the next colour and
        marker.

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
        """
        n = len(self.curves)
        given = [curve.label for curve in self.curves] if name is None else name
        names = [given] if isinstance(given, str) else list(given)
        if len(names) != n:
            raise ShapeError(f"{len(names)} names for {n} curves. Pass one name for each curve.")
        is_own = ax is None
        if ax is None:
            ax, ax_histogram = diagram.diagram_axes(_WIDTH if n <= _MAX_ONE_COLUMN else _LARGE)
        self.ax_, self.ax_histogram_, self.figure_ = ax, ax_histogram, style.figure_of(ax)
        diagram.draw_diagonal(ax, upper)
        for curve in self.curves:
            diagram.draw_band(ax, curve)
        start = diagram.count_curves(ax)
        labels, shared = self._legend_texts(names)
        self.lines_ = [
            diagram.draw_curve(ax, curve, k=start + i, label=labels[i], upper=upper, is_alone=n == 1)
            for i, curve in enumerate(self.curves)
        ]
        self.line_ = self.lines_[0]
        if shared:
            ax.plot([], [], linestyle="none", label=shared)
        if ax_histogram is not None:
            self._draw_histogram(ax_histogram, start)
            diagram.finish_panel(ax_histogram, ax, "Predicted probability")
        n_columns = 2 if len(self.histograms) == 1 or n > _MAX_ONE_COLUMN else 1
        if style.add_legend(ax, is_own=is_own, n_columns=n_columns):
            style.fit_height(self.figure_)
        return self

    def _legend_texts(self, names: list[str]) -> tuple[list[str], str]:
        """Return what the legend says of each curve, and what it says once as all of several curves have it."""
        several = len(self.curves) > 1
        sizes = [each.size_texts() for each in self.histograms] or [diagram.size_texts(each) for each in self.curves]
        has_interval = [not (several and curve.strategy == "isotonic") for curve in self.curves]
        intervals = [f"{100.0 * c.level:g}% interval" * has for c, has in zip(self.curves, has_interval, strict=True)]
        columns = [*zip(*sizes, strict=True), intervals]
        shared = [column[0] if several and len(set(column)) == 1 else "" for column in columns]
        own = [[""] * len(column) if text else column for column, text in zip(columns, shared, strict=True)]
        labels = []
        for name, rows, events, interval in zip(names, *own, strict=True):
            size = ", ".join(filter(None, (rows, events)))
            named = style.legible(", ".join(filter(None, (name or "observed", interval))))
            labels.append(f"{named}\n{size}" if size else named)
        return labels, style.legible(", ".join(filter(None, shared)), width=48)

    def _draw_histogram(self, ax: Axes, start: int) -> None:
        if len(self.histograms) == 1:
            diagram.draw_histogram(ax, self.histograms[0], color=style.line(start)["color"])
            return
        for i, histogram in enumerate(self.histograms):
            ax.stairs(histogram.n / histogram.n.sum(), histogram.edges, linewidth=1.2, **style.line(start + i))
        for i, curve in enumerate(() if self.histograms else self.curves):
            ax.vlines(curve.x, 0.0, curve.n, linewidth=2.5, color=style.line(start + i)["color"])
        ax.set(ylabel="Share of rows" if self.histograms else "n in bin")
