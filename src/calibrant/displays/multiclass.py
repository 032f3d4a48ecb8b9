"""Reliability of several classes as small multiples: the top label, then each class against the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant import metrics
from calibrant.displays import diagram, style
from calibrant.displays.sources import response
from calibrant.errors import ShapeError
from calibrant.results import Curve
from calibrant.validation import ArrayLike, check_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Of a panel: inches across, and the width of its title in letters.
_SIDE, _TITLE = 2.25, 24


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
    axes_, ax_, figure_ : ndarray of matplotlib Axes, the first of them, and its Figure
        The panels that were drawn on, after `plot`.

    Examples
    --------
    >>> import calibrant as cb
    >>> y = ["ant", "bee", "cow", "bee"]
    >>> p = [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4], [0.5, 0.4, 0.1]]
    >>> display = cb.MulticlassReliabilityDisplay.from_predictions(y, p, n_bins=2)
    >>> [curve.label for curve in display.curves], len(display.axes_)
    (['ant', 'bee', 'cow'], 4)
    """

    def __init__(self, top_label: Curve, curves: Sequence[Curve], *, n_classes: int | None = None) -> None:
        advice = "Pass what reliability_curve returns, or use MulticlassReliabilityDisplay.from_predictions."
        (self.top_label,) = style.as_parts("top_label", (top_label,), Curve, advice)
        self.curves = style.as_parts("curves", curves, Curve, advice)
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
        strategy: metrics.CurveStrategy = "quantile",
        level: float = 0.95,
        band: metrics.Band | None = None,
        rng: int | np.random.Generator | None = 0,
        axes: Sequence[Axes] | npt.NDArray[np.object_] | None = None,
    ) -> MulticlassReliabilityDisplay:
        """Measure the curves of labels and probabilities and draw them.

        Parameters
        ----------
        y_true, y_prob, sample_weight, classes, n_bins, strategy, level, band, rng
            As in `reliability_curve`; `y_prob` has a column for each of the sorted classes.
        max_classes : int
            Of more classes than this, those with the largest calibration error are shown, largest first.
        axes : sequence of matplotlib Axes, optional
            Where to draw, as in `plot`.
        """
        check_integer("max_classes", max_classes, minimum=1)
        settings = metrics.curve_settings(n_bins, strategy, level, band, rng)
        rows = metrics.measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=None, classes=classes)
        if rows.is_binary:
            raise ShapeError("y_prob has one column. Pass one for each class, shape (n, K), or use ReliabilityDisplay.")
        top = metrics.curve_of_event(rows.one_column(), settings, label="top label")
        labels = rows.classes.tolist()
        shown = list(range(len(labels)))
        if len(shown) > max_classes:
            bins = [metrics.bin_rows(rows.of_class(k), n_bins, "quantile") for k in shown]
            shown = sorted(shown, key=lambda k: -float(np.sum(bins[k].share * np.abs(bins[k].gap))))[:max_classes]
        curves = [metrics.curve_of_event(rows.of_class(k), settings, label=str(labels[k])) for k in shown]
        return cls(top, curves, n_classes=len(labels)).plot(axes)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, **options: Any) -> MulticlassReliabilityDisplay:
        """Measure the curves of a fitted classifier of three or more classes and draw them.

        Parameters are those of `ReliabilityDisplay.from_estimator`, and options those of `from_predictions`.
        """
        answer = response(estimator, X)
        return cls.from_predictions(y, answer.prob, classes=answer.classes, **options)

    def plot(self, axes: Sequence[Axes] | npt.NDArray[np.object_] | None = None) -> MulticlassReliabilityDisplay:
        """Draw the panels and return self.

        Parameters
        ----------
        axes : sequence or array of matplotlib Axes, optional
            Where to draw: at least one for the top label and one for each class; what is left over stays empty. By
            default a figure of their own.
        """
        n_panels = 1 + len(self.curves)
        is_own = axes is None
        if axes is None:  # four in a row, or five where that leaves fewer places empty
            n_across = min(n_panels, 4 if -n_panels % 4 <= -n_panels % 5 else 5)
            size = (0.5 + n_across * _SIDE, 1.0 + math.ceil(n_panels / n_across) * 2.0 * _SIDE)
            axes = style.new_axes(size, n=n_panels, n_across=n_across)
        panels = np.asarray(axes, dtype=object).ravel()
        if panels.size < n_panels:
            raise ShapeError(
                f"axes holds {panels.size} for {n_panels} panels, one of the top label and one for each class shown. "
                "Pass as many, or a smaller max_classes."
            )
        self.axes_ = panels[:n_panels]
        self.ax_, self.figure_ = self.axes_[0], style.figure_of(self.axes_[0])
        n_rows, right = diagram.size_texts(self.top_label)
        _draw_panel(self.ax_, self.top_label, f"{n_rows}, {right.replace('events', 'right')}", k=0, upper=1.0)
        upper = diagram.axis_end(self.curves)
        for ax, curve in zip(self.axes_[1:], self.curves, strict=True):
            own_rows, events = diagram.size_texts(curve)
            size_text = events if own_rows == n_rows else f"{own_rows}, {events}"
            _draw_panel(ax, curve, size_text, k=1, upper=upper)
        if is_own:
            self.figure_.supxlabel("Predicted probability", fontsize="medium")
            self.figure_.supylabel("Observed frequency", fontsize="medium")
            if len(self.curves) < self.n_classes:
                shown = f"{len(self.curves)} of {self.n_classes} classes"
                self.figure_.suptitle(f"{shown}: those of the largest calibration error first", fontsize="medium")
            style.fit_height(self.figure_)
        return self


def _draw_panel(ax: Axes, curve: Curve, size_text: str, *, k: int, upper: float) -> None:
    """Draw one panel, titled by its label, its rows and its events."""
    diagram.draw_diagonal(ax, upper)
    diagram.draw_band(ax, curve)
    diagram.draw_curve(ax, curve, k=k, label=curve.label, upper=upper)
    ax.set_title(f"{style.legible(curve.label, width=_TITLE)}\n{size_text}", fontsize="small", loc="left")
    ticks = [0.0, upper / 2.0, upper]
    ax.set(xlabel="", ylabel="", xticks=ticks, yticks=ticks)
    ax.tick_params(labelsize="small")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
