"""Reliability of several classes as small multiples: the top label, then each class against the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant.displays.curves import axis_end, draw_band, draw_curve, draw_diagonal, size_text
from calibrant.displays.estimators import response
from calibrant.displays.style import legible
from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.results import Curve
from calibrant.validation import as_generator, check_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from calibrant.metrics import Band, CurveStrategy
    from calibrant.validation import ArrayLike

#: Inches of a panel's side.
_SIDE = 2.1
#: Width of a panel's title in letters.
_TITLE = 24


class MulticlassReliabilityDisplay:
    """Reliability diagrams of several classes, one panel each.

    The first panel is that of the top label: how often the most probable class was right, against its probability.
    Each further panel shows one class against the rest, with axes that all classes share.

    Parameters
    ----------
    top_label : Curve
        The curve of the most probable class.
    curves : sequence of Curve
        The curve of each class shown; its `label` is the panel's title.
    n_classes : int, optional
        Number of all classes, where fewer are shown.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        The panels that were drawn on, after `plot`.
    ax_ : matplotlib Axes
        The first panel, of the top label.
    figure_ : matplotlib Figure
        The figure of `ax_`.

    Examples
    --------
    >>> import calibrant as cb
    >>> y = ["ant", "bee", "cow", "bee"]
    >>> p = [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4], [0.5, 0.4, 0.1]]
    >>> display = cb.MulticlassReliabilityDisplay.from_predictions(y, p, n_bins=2)
    >>> [curve.label for curve in display.curves], len(display.axes_)
    (['ant', 'bee', 'cow'], 4)
    """

    axes_: npt.NDArray[np.object_]
    ax_: Axes
    figure_: Figure | None

    def __init__(self, top_label: Curve, curves: Sequence[Curve], *, n_classes: int | None = None) -> None:
        self.top_label, self.curves = top_label, tuple(curves)
        for each in (top_label, *self.curves):
            if not isinstance(each, Curve):
                raise InvalidTypeError(
                    f"curves hold a {type(each).__name__}. Pass what reliability_curve returns, "
                    "or use MulticlassReliabilityDisplay.from_predictions(y_true, y_prob)."
                )
        if not self.curves:
            raise ShapeError("curves is an empty sequence. Pass at least one Curve.")
        self.n_classes = len(self.curves) if n_classes is None else n_classes

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        max_classes: int = 12,
        n_bins: int = 10,
        strategy: CurveStrategy = "quantile",
        level: float = 0.95,
        band: Band | None = None,
        rng: int | np.random.Generator | None = 0,
        axes: Sequence[Axes] | npt.NDArray[np.object_] | None = None,
    ) -> MulticlassReliabilityDisplay:
        """Measure the curves of labels and probabilities and draw them.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels of any kind.
        y_prob : array-like of shape (n, K)
            Probability of each of the sorted classes.
        sample_weight : array-like of shape (n,), optional
        classes : array-like of shape (K,), optional
            All classes, sorted, where `y_true` may lack some.
        max_classes : int
            Of more classes than this, those with the largest calibration error are shown, largest first.
        n_bins : int
        strategy : {"quantile", "uniform", "isotonic"}
            Bins of equal weight, of equal width, or the blocks of the isotonic regression.
        level : float
            Nominal coverage of the intervals.
        band : {"consistency"}, optional
            Shade where each curve would lie, at `level`, if the probabilities were calibrated.
        rng : int, Generator or None
            Seed of the bands.
        axes : sequence of matplotlib Axes, optional
            Where to draw, as in `plot`.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        from calibrant.metrics import ece, measured_rows, reliability_curve

        check_integer("max_classes", max_classes, minimum=1)
        rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=None, classes=classes)
        if rows.is_binary:
            raise ShapeError(
                "y_prob has one column. Pass one column per class, shape (n, K), or use ReliabilityDisplay."
            )
        codes, weight = rows.codes, rows.weight
        options: dict[str, Any] = {"sample_weight": weight, "n_bins": n_bins, "strategy": strategy, "level": level}
        options |= {"band": band, "rng": as_generator(rng) if band is not None else None}
        top = reliability_curve(codes, rows.scores, classes=np.arange(rows.n_classes), label="top label", **options)
        shown = list(range(rows.n_classes))
        if len(shown) > max_classes:
            errors = [
                ece(codes == k, rows.scores[:, k], n_bins=n_bins, strategy="quantile", sample_weight=weight)
                for k in shown
            ]
            shown = sorted(shown, key=lambda k: -errors[k])[:max_classes]
        labels = rows.classes.tolist()
        curves = [reliability_curve(codes == k, rows.scores[:, k], label=str(labels[k]), **options) for k in shown]
        return cls(top, curves, n_classes=len(labels)).plot(axes)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, **options: Any) -> MulticlassReliabilityDisplay:
        """Measure the curves of a fitted classifier and draw them.

        Parameters
        ----------
        estimator : classifier
            Fitted, with `predict_proba` and three or more `classes_`.
        X : array-like or frame of shape (n, n_features)
            What it predicts from: rows that it was not fitted to.
        y : array-like of shape (n,)
            Labels.
        **options
            As in `from_predictions`.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        NotFittedError
            scikit-learn's own, if the estimator is not fitted.
        """
        answer = response(estimator, X)
        return cls.from_predictions(y, answer.prob, classes=answer.classes, **options)

    def plot(self, axes: Sequence[Axes] | npt.NDArray[np.object_] | None = None) -> MulticlassReliabilityDisplay:
        """Draw the panels.

        Nothing is shown and no global setting is touched.

        Parameters
        ----------
        axes : sequence or array of matplotlib Axes, optional
            Where to draw: at least one for the top label and one for each class; what is left over stays empty. By
            default a figure of their own.

        Returns
        -------
        MulticlassReliabilityDisplay
            Itself, with the attributes set.

        Raises
        ------
        ShapeError
            If there are fewer axes than panels.
        """
        n_panels = 1 + len(self.curves)
        owns_figure = axes is None
        panels = _new_axes(n_panels) if axes is None else np.asarray(axes, dtype=object).ravel()
        if panels.size < n_panels:
            raise ShapeError(
                f"axes holds {panels.size} for {n_panels} panels, one of the top label and one for each class shown. "
                "Pass as many, or a smaller max_classes."
            )
        self.axes_ = panels[:n_panels]
        self.ax_ = self.axes_[0]
        self.figure_ = self.ax_.get_figure(root=True)
        upper = axis_end(self.curves)
        _draw_panel(self.ax_, self.top_label, k=0, event="right", upper=1.0)
        for ax, curve in zip(self.axes_[1:], self.curves, strict=True):
            _draw_panel(ax, curve, k=1, event="events", upper=upper)
        if owns_figure and self.figure_ is not None:
            self.figure_.supxlabel("Predicted probability", fontsize="medium")
            self.figure_.supylabel("Observed frequency", fontsize="medium")
            if len(self.curves) < self.n_classes:
                self.figure_.suptitle(
                    f"{len(self.curves)} of {self.n_classes} classes: those of the largest calibration error first",
                    fontsize="medium",
                )
        return self


def _draw_panel(ax: Axes, curve: Curve, *, k: int, event: str, upper: float) -> None:
    """Draw one panel, titled by its label, its rows and its events."""
    draw_diagonal(ax, upper)
    draw_band(ax, curve, label="_band")
    draw_curve(ax, curve, k=k, label=curve.label, upper=upper)
    size = size_text(curve).replace("events", event)
    ax.set_title(f"{legible(curve.label, width=_TITLE)}\n{size}", fontsize="small", loc="left")
    ax.set(xlabel="", ylabel="")
    ax.set_xticks([0.0, upper / 2.0, upper])
    ax.set_yticks([0.0, upper / 2.0, upper])
    ax.tick_params(labelsize="small")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")


def _new_axes(n_panels: int) -> npt.NDArray[np.object_]:
    """Return square panels in rows of up to four, or five where that leaves fewer empty."""
    from matplotlib import pyplot as plt

    n_columns = min(n_panels, 4 if -n_panels % 4 <= -n_panels % 5 else 5)
    n_rows = math.ceil(n_panels / n_columns)
    size = (0.5 + n_columns * (_SIDE + 0.15), 0.6 + n_rows * (_SIDE + 0.55))
    figure, axes = plt.subplots(n_rows, n_columns, figsize=size, squeeze=False, layout="constrained")
    for ax in axes.flat[n_panels:]:
        figure.delaxes(ax)
    return np.asarray(axes.flat[:n_panels], dtype=object)
