"""Miscalibration against discrimination: what separates models of equal score."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from calibrant.displays.models import as_models
from calibrant.displays.style import MUTED, legible, style
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from calibrant.metrics import Decomposition, ScoreName
    from calibrant.validation import ArrayLike

#: What the decomposed scores are called.
_TITLES = {"brier": "Brier score", "log": "log loss"}
#: Uncertainties that differ by more than this share are of other outcomes.
_SAME = 1e-6
#: Lines of equal score that a picture asks for.
_N_LINES = 8
_LINE_COLOUR = "#d0d0d0"


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
    ax_ : matplotlib Axes
        Where it was drawn, after `plot`.
    figure_ : matplotlib Figure
        The figure of `ax_`.
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

    ax_: Axes
    figure_: Figure | None
    points_: dict[str, Line2D]

    def __init__(
        self, decompositions: Mapping[str, Decomposition], *, score: Literal["brier", "log"] = "brier"
    ) -> None:
        from calibrant.metrics import Decomposition
        from calibrant.validation import check_choice

        check_choice("score", score, list(_TITLES))
        if not isinstance(decompositions, Mapping):
            raise InvalidTypeError(
                f"decompositions is a {type(decompositions).__name__}. Pass a mapping of names to what "
                "metrics.decompose returns, or use DecompositionDisplay.from_predictions(y_true, y_prob)."
            )
        if not decompositions:
            raise ShapeError("decompositions is empty. Pass at least one model.")
        for name, each in decompositions.items():
            if not isinstance(each, Decomposition):
                raise InvalidTypeError(
                    f"decompositions[{name!r}] is a {type(each).__name__}. Pass what metrics.decompose returns."
                )
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
        y_true : array-like of shape (n,)
            Labels of any kind.
        y_prob : array-like of shape (n,) or (n, K), or mapping of names to such
            Probabilities of one model, or of several by name.
        sample_weight : array-like of shape (n,), optional
        score : {"brier", "log"}
            The score to split; "log" is for one column.
        pos_label : scalar, optional
            The positive one of two labels; the larger one by default.
        classes : array-like of shape (K,), optional
            All classes, sorted, where `y_true` may lack some.
        name : str, optional
            What the legend calls a single model.
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        from calibrant.metrics import decompose

        parts = {
            label or "model": decompose(
                y_true, prob, sample_weight=sample_weight, score=score, pos_label=pos_label, classes=classes
            )
            for label, prob in as_models(y_prob, name)
        }
        return cls(parts, score=score).plot(ax)

    def plot(self, ax: Axes | None = None) -> DecompositionDisplay:
        """Draw the points and the lines of equal score; nothing is shown and no global setting is touched.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.

        Returns
        -------
        DecompositionDisplay
            Itself, with the attributes set.
        """
        owns_figure = ax is None
        if ax is None:
            from matplotlib import pyplot as plt

            _, ax = plt.subplots(figsize=(5.4, 5.6), layout="constrained")
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        finite = [each for each in self.decompositions.values() if math.isfinite(each.score)]
        right = 1.25 * max(each.miscalibration for each in finite) or 0.1 * self.uncertainty or 0.1
        top = max(1.2 * max(each.discrimination for each in finite), right)
        ax.set(xlim=(0.0, right), ylim=(0.0, top))
        self._draw_isolines(ax, right, top)
        self.points_ = {}
        for k, (name, each) in enumerate(self.decompositions.items()):
            text = f"{legible(name)}: {each.score:.4f}"
            look = style(k) | {"linestyle": "none", "markersize": 8.0, "clip_on": False, "zorder": 3}
            if math.isfinite(each.score):
                (self.points_[name],) = ax.plot(each.miscalibration, each.discrimination, label=text, **look)
            else:
                ax.plot([], [], label=f"{legible(name)}: infinite, not shown", **look)
        ax.set(xlabel="Miscalibration (lower is better)", ylabel="Discrimination (higher is better)")
        what = _TITLES[self.score]
        ax.set_title(f"Lines of equal {what}; uncertainty {self.uncertainty:.4f}", fontsize="small", loc="left", pad=14)
        if owns_figure and self.figure_ is not None:
            n_columns = 2 if len(self.decompositions) > 3 else 1
            title = what[:1].upper() + what[1:]
            self.figure_.legend(
                loc="outside upper left",
                title=title,
                alignment="left",
                frameon=False,
                fontsize="small",
                ncols=n_columns,
            )
        else:
            ax.legend(loc="best", fontsize="x-small")
        return self

    def _draw_isolines(self, ax: Axes, right: float, top: float) -> None:
        """Draw lines of equal score over [0, right] x [0, top], each named where it leaves on the right or the top."""
        from matplotlib.ticker import MaxNLocator

        best, worst = self.uncertainty - top, self.uncertainty + right
        levels = [float(score) for score in MaxNLocator(_N_LINES).tick_values(best, worst)]
        step = levels[1] - levels[0]
        digits = max(0, 1 - math.floor(math.log10(step)))
        for score in levels:
            if not best < score < worst or abs(score - self.uncertainty) < 0.4 * step:  # beside the line of no skill
                continue
            self._draw_line(ax, score, right, top, f"{score:.{digits}f}", color=_LINE_COLOUR, linewidth=0.8)
        self._draw_line(ax, self.uncertainty, right, top, "no skill", color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))

    def _draw_line(self, ax: Axes, score: float, right: float, top: float, text: str, **look: object) -> None:
        """Draw discrimination = miscalibration + uncertainty - score within the axes."""
        shift = self.uncertainty - score
        x0, x1 = max(0.0, -shift), min(right, top - shift)
        ax.plot([x0, x1], [x0 + shift, x1 + shift], label="_isoline", zorder=1, **look)  # type: ignore[arg-type]
        leaves_right = x1 == right
        ax.annotate(
            text,
            (x1, x1 + shift),
            xytext=(3, 0) if leaves_right else (0, 2),
            textcoords="offset points",
            ha="left" if leaves_right else "center",
            va="center" if leaves_right else "bottom",
            fontsize="x-small",
            color=MUTED,
        )
