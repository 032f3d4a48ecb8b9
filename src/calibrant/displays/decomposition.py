"""Miscalibration against discrimination: what separates models of equal score."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from calibrant.displays import style
from calibrant.displays.sources import as_models
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.metrics import Decomposition, ScoreName, decompose
from calibrant.validation import ArrayLike, check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

#: What the decomposed scores are called.
_TITLES = {"brier": "Brier score", "log": "log loss"}
#: Uncertainties that differ by more than this share are of other outcomes.
_SAME = 1e-6
#: Lines of equal score that a picture asks for.
_N_LINES = 8
_LINE_COLOUR = "#d0d0d0"
#: Height of the display's own axes as a share of their width, and least width as a share of the height in data.
_HEIGHT, _LEAST_WIDTH = 0.9, 0.3


class DecompositionDisplay:
    """Miscalibration across, discrimination up, one point per model, with lines of equal score.

    Score = miscalibration - discrimination + uncertainty, and the uncertainty is that of the outcomes: models that
    were measured on the same rows differ only in the other two. Up and to the left is better. On the line "no skill"
    a model is worth as much as predicting the base rate for all rows.

    Parameters
    ----------
    decompositions : mapping of str to Decomposition
        What `metrics.decompose` returns for each model, on the same rows.
    score : {"brier", "log"}
        Which score was decomposed.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn, after `plot`.
    points_ : dict of str to matplotlib Line2D
        The point of each model whose score is finite.

    References
    ----------
    Dimitriadis, Gneiting, Jordan and Vogel (2024), *Evaluating probabilistic classifiers: the triptych*, International
    Journal of Forecasting 40.

    Examples
    --------
    >>> import calibrant as cb
    >>> y = [0, 0, 0, 1, 1, 1]
    >>> models = {"a": [0.4, 0.3, 0.2, 0.1, 0.5, 0.9], "b": [0.5, 0.4, 0.2, 0.6, 0.5, 0.7]}
    >>> display = cb.DecompositionDisplay.from_predictions(y, models)
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('Miscalibration (lower is better)', 'Discrimination (higher is better)')
    """

    def __init__(
        self, decompositions: Mapping[str, Decomposition], *, score: Literal["brier", "log"] = "brier"
    ) -> None:
        check_choice("score", score, list(_TITLES))
        advice = "Pass a mapping of names to what metrics.decompose returns, or use from_predictions."
        style.check_kind("decompositions is", decompositions, Mapping, advice)
        if not decompositions:
            raise ShapeError("decompositions is empty. Pass at least one model.")
        for name, each in decompositions.items():
            style.check_kind(f"decompositions[{name!r}] is", each, Decomposition, "Pass what decompose returns.")
        self.decompositions, self.score = dict(decompositions), score
        (first, parts), *others = self.decompositions.items()
        for name, other in others:
            if not math.isclose(parts.uncertainty, other.uncertainty, rel_tol=_SAME):
                raise InvalidInputError(
                    f"the uncertainty of {first!r} is {parts.uncertainty:.6g} and of {name!r} {other.uncertainty:.6g}: "
                    "they were measured on different outcomes. Decompose all models on the same rows."
                )
        if not any(math.isfinite(each.score) for each in self.decompositions.values()):
            raise InvalidInputError("the score of every model is infinite. Decompose the Brier score instead.")
        self.uncertainty = parts.uncertainty

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike | Mapping[str, ArrayLike],
        *,
        sample_weight: ArrayLike | None = None,
        score: ScoreName = "brier",
        pos_label: object = None,
        classes: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> DecompositionDisplay:
        """Decompose the score of one model or several and draw it.

        Parameters
        ----------
        y_true, y_prob, sample_weight, score, pos_label, classes
            As in `metrics.decompose`; `y_prob` can be a mapping of the names of models to their probabilities.
        name : str, optional
            What the legend calls a single model.
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.
        """
        what: dict[str, Any] = {"sample_weight": sample_weight, "pos_label": pos_label, "classes": classes}
        models = as_models(y_prob, name)
        parts = {label or "model": decompose(y_true, prob, score=score, **what) for label, prob in models}
        return cls(parts, score=score).plot(ax)

    def plot(self, ax: Axes | None = None) -> DecompositionDisplay:
        """Draw points and lines of equal score on given axes, or in a figure of its own; return self."""
        is_own = ax is None
        self.ax_, self.figure_ = style.place(ax, (5.4, 10.8))
        ax = self.ax_
        if is_own:
            ax.set_box_aspect(_HEIGHT)
        finite = [each for each in self.decompositions.values() if math.isfinite(each.score)]
        top = 1.2 * max(each.discrimination for each in finite)
        right = max(1.25 * max(each.miscalibration for each in finite), _LEAST_WIDTH * top)
        right = right or 0.1 * self.uncertainty or 0.1
        top = max(top, right)
        ax.set(xlim=(0.0, right), ylim=(0.0, top))
        ax.locator_params(axis="x", nbins=6)
        self._draw_isolines(ax, right, top)
        self.points_: dict[str, Line2D] = {}
        for k, (name, each) in enumerate(self.decompositions.items()):
            text = f"{style.legible(name)}: {each.score:.4f}"
            properties = style.of(k) | {"linestyle": "none", "markersize": 8.0, "clip_on": False, "zorder": 3}
            if math.isfinite(each.score):
                (self.points_[name],) = ax.plot(each.miscalibration, each.discrimination, label=text, **properties)
            else:
                ax.plot([], [], label=f"{style.legible(name)}: infinite, not shown", **properties)
        ax.set(xlabel="Miscalibration (lower is better)", ylabel="Discrimination (higher is better)")
        what = _TITLES[self.score]
        ax.set_title(f"Lines of equal {what}; uncertainty {self.uncertainty:.4f}", fontsize="small", loc="left", pad=14)
        n_columns = 2 if len(self.decompositions) > 3 else 1
        style.add_legend(ax, is_own=is_own, n_columns=n_columns, title=what[:1].upper() + what[1:])
        if is_own:
            style.fit_height(self.figure_)
        return self

    def _draw_isolines(self, ax: Axes, right: float, top: float) -> None:
        """Draw lines of equal score over [0, right] x [0, top], each named where it leaves on the right or the top.

        They are one collection, which keeps them out of the search for the legend's best style.place.
        """
        from matplotlib.collections import LineCollection
        from matplotlib.ticker import MaxNLocator

        best, worst = self.uncertainty - top, self.uncertainty + right
        levels = [float(score) for score in MaxNLocator(_N_LINES).tick_values(best, worst)]
        step = levels[1] - levels[0]
        digits = max(0, 1 - math.floor(math.log10(step)))
        # but for those beside the line of no skill
        drawn = [score for score in levels if best < score < worst and abs(score - self.uncertainty) >= 0.4 * step]
        names = [*(f"{score:.{digits}f}" for score in drawn), "no skill"]
        lines = [self._isoline(score, right, top) for score in (*drawn, self.uncertainty)]
        ax.add_collection(LineCollection(lines[:-1], colors=_LINE_COLOUR, linewidths=0.8, zorder=1), autolim=False)
        ax.add_collection(LineCollection(lines[-1:], zorder=1, **style.REFERENCE), autolim=False)
        for text, (_, end) in zip(names, lines, strict=True):
            place: dict[str, Any] = {"xytext": (0, 2), "ha": "center", "va": "bottom"}
            if end[0] == right:
                place = {"xytext": (3, 0), "ha": "left", "va": "center"}
            ax.annotate(text, end, textcoords="offset points", fontsize="x-small", color=style.MUTED, **place)

    def _isoline(self, score: float, right: float, top: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the ends of discrimination = miscalibration + uncertainty - score within the axes."""
        shift = self.uncertainty - score
        x0, x1 = max(0.0, -shift), min(right, top - shift)
        return (x0, x0 + shift), (x1, x1 + shift)
