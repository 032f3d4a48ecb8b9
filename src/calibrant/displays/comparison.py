"""Models and methods beside each other: ranked by a value with its interval, and by the parts of their score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from calibrant.comparison import Comparison
from calibrant.displays import style
from calibrant.displays.sources import as_models
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.metrics import Decomposition, ScoreName, decompose
from calibrant.phrases import capitalised
from calibrant.results import Score
from calibrant.validation import ArrayLike, check_choice, check_fraction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

#: What scores are called.
_TITLES = {"log_loss": "log loss", "log": "log loss", "brier": "Brier score"}
#: Inches of a row, and of what lies above and below all rows.
_ROW, _MARGINS = 0.3, 1.2
#: Uncertainties that differ by more than this share are of other outcomes.
_SAME = 1e-6
#: Lines of equal score that a picture asks for.
_N_LINES = 8
_LINE_COLOUR = "#d0d0d0"
#: Height of the display's own axes as a share of their width, and least width as a share of the height in data.
_HEIGHT, _LEAST_WIDTH = 0.9, 0.3


class ComparisonRow(NamedTuple):
    """A method: its name, a value of which less is better, and the interval of the value, NaN where it has none."""

    name: str
    value: float
    low: float
    high: float

    @property
    def has_interval(self) -> bool:
        """Whether value and interval are known."""
        return all(map(math.isfinite, self[1:]))

    @property
    def rank(self) -> tuple[bool, float, str]:
        """What the order goes by: the value; undefined ones are last."""
        return math.isnan(self.value), 0.0 if math.isnan(self.value) else self.value, self.name


class ComparisonDisplay:
    """Methods from best to worst: a value with its interval each, beside the value of doing nothing.

    A method whose whole interval lies left of the reference line is better than the reference, one to the right of it
    is worse; of the others these rows can't tell.

    Parameters
    ----------
    rows : iterable of tuples (name, value, low, high), or of objects with these attributes such as a Score
        Of the values less is better; infinite ones are drawn as a triangle at the end of the axis. Ends of an
        interval that is not known are NaN.
    reference, reference_name : float, str
        The value of doing nothing, 0 for differences, and what doing nothing is called.
    xlabel : str
        What the values are.
    level : float
        Nominal coverage of the intervals.

    Examples
    --------
    >>> import calibrant as cb
    >>> p, y = [0.2, 0.4, 0.6, 0.8] * 30, [0, 0, 1, 1] * 30
    >>> found = cb.compare(p, y, methods=["sigmoid", "histogram"])
    >>> display = cb.ComparisonDisplay.from_comparison(found, score="brier")
    >>> display.reference_name, len(display.rows)
    ('uncalibrated', 2)
    """

    def __init__(
        self,
        rows: Iterable[Score | tuple[str, float, float, float]],
        *,
        reference: float = 0.0,
        reference_name: str = "uncalibrated",
        xlabel: str = "Held-out log loss, less that of the uncalibrated scores",
        level: float = 0.95,
    ) -> None:
        self.rows = sorted(map(_as_row, rows), key=lambda row: row.rank)
        if not self.rows:
            raise ShapeError("rows is empty. Pass at least one method.")
        self.reference, self.reference_name, self.xlabel = float(reference), reference_name, xlabel
        self.level = check_fraction("level", level)

    @classmethod
    def from_comparison(
        cls, comparison: Comparison, *, score: Literal["log_loss", "brier"] = "log_loss", ax: Axes | None = None
    ) -> ComparisonDisplay:
        """Draw what `calibrant.compare` returns.

        Parameters
        ----------
        comparison : Comparison
        score : {"log_loss", "brier"}
            Whose differences to the baseline are drawn; or the scores themselves where that of the baseline is
            infinite, as all differences to it then are.
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.
        """
        check_choice("score", score, ("log_loss", "brier"))
        advice = "Pass what calibrant.compare returns, or rows to ComparisonDisplay(rows)."
        style.check_kind("comparison is", comparison, Comparison, advice)
        by_name = {each.name: each for each in comparison.methods}
        baseline = by_name.pop(comparison.baseline)
        name, what = (baseline.name,) * 2 if baseline.name != "none" else ("uncalibrated", "the uncalibrated scores")
        if math.isinf(getattr(baseline, score)):
            xlabel, reference = f"Held-out {_TITLES[score]}; that of {what} is infinite", math.inf
            rows = [(each, getattr(found, score), math.nan, math.nan) for each, found in by_name.items()]
        else:
            xlabel, reference = f"Held-out {_TITLES[score]}, less that of {what}", 0.0
            rows = [(each, *astuple(getattr(found, f"{score}_difference"))) for each, found in by_name.items()]
        return cls(rows, reference=reference, reference_name=name, xlabel=xlabel, level=comparison.level).plot(ax)

    def plot(self, ax: Axes | None = None) -> ComparisonDisplay:
        """Draw the methods, best at the top, on given axes or in a figure of its own, `ax_`; return self."""
        n = len(self.rows)
        ax, self.figure_ = style.place(ax, (7.2, _MARGINS + _ROW * n))
        self.ax_ = ax
        beside: dict[str, Any] = {"textcoords": "offset points", "fontsize": "small"}
        if math.isfinite(self.reference):
            ax.axvline(self.reference, zorder=1, **style.REFERENCE)
            above: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (0, 3), "ha": "center"}
            ax.annotate(style.legible(self.reference_name), (self.reference, 1.0), color=style.MUTED, **above, **beside)
        for i, row in enumerate(self.rows):
            self._draw_row(ax, i, row)
            text = _text(row, sign="+" if self.reference == 0.0 else "")
            ax.annotate(text, (1.0, i), xycoords=("axes fraction", "data"), xytext=(6, 0), va="center", **beside)
        ax.set_yticks(range(n), [style.legible(row.name, width=28) for row in self.rows])
        ax.set_ylim(n - 0.4, -0.6)
        ax.tick_params(axis="y", length=0.0)
        ax.margins(x=0.08)
        if not any(math.isfinite(row.value) for row in self.rows):  # a scale would say nothing
            ax.set_xticks([self.reference] if math.isfinite(self.reference) else [])
        intervals = f"; {100.0 * self.level:g}% intervals" if any(row.has_interval for row in self.rows) else ""
        ax.set_xlabel(f"{self.xlabel}\n(less is better{intervals})")
        return self

    def _draw_row(self, ax: Axes, i: int, row: ComparisonRow) -> None:
        colour, face = self._colours(row)
        point: dict[str, Any] = {"color": colour, "markerfacecolor": face, "markersize": 6.0, "zorder": 3}
        if row.has_interval:
            ax.hlines(i, row.low, row.high, color=colour, linewidth=1.6, zorder=2)
        if math.isfinite(row.value):
            ax.plot(row.value, i, "o", **point)
        elif math.isinf(row.value):
            end, marker = (0.985, ">") if row.value > 0.0 else (0.015, "<")
            ax.plot(end, i, marker, transform=ax.get_yaxis_transform(), **point)

    def _colours(self, row: ComparisonRow) -> tuple[str, str]:
        """Return the colours of line and point: blue where better, vermilion where worse, hollow where unknown."""
        low, high = (row.value, row.value) if math.isinf(self.reference) else (row.low, row.high)
        if high < self.reference:
            return style.COLOURS[0], style.COLOURS[0]
        return (style.COLOURS[1], style.COLOURS[1]) if low > self.reference else (style.MUTED, "white")


def _as_row(row: Score | tuple[str, float, float, float]) -> ComparisonRow:
    fields: Any = (
        row if isinstance(row, tuple) else [getattr(row, key, None) for key in ("name", "value", "low", "high")]
    )
    if len(fields) != 4 or any(field is None for field in fields):
        raise InvalidTypeError(
            f"rows holds {row!r:.80}, which is no (name, value, low, high). Pass such tuples, or Score objects."
        )
    name, *numbers = fields
    try:
        value, low, high = map(float, numbers)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"rows: {numbers!r:.80} of {name!r} are not three numbers.") from None
    if low > value or value > high:
        raise InvalidInputError(f"rows: the value {value!r} of {name!r} is outside its interval [{low!r}, {high!r}].")
    return ComparisonRow(str(name), value, low, high)


def _text(row: ComparisonRow, *, sign: str) -> str:
    if not math.isfinite(row.value):
        return "infinite" if row.value > 0.0 else "minus infinity" if row.value < 0.0 else "undefined"
    interval = f" [{row.low:{sign}.4f}, {row.high:{sign}.4f}]" if row.has_interval else ""
    return f"{row.value:{sign}.4f}{interval}".replace("-", "\N{MINUS SIGN}")


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
    points_ : dict of str to matplotlib Line2D
        The point of each model whose score is finite, after `plot`.

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

    def __init__(self, decompositions: Mapping[str, Decomposition], *, score: ScoreName = "brier") -> None:
        check_choice("score", score, get_args(ScoreName))
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
        name, ax
            What the legend calls a single model, and where to draw; by default in a figure of its own.
        """
        what: dict[str, Any] = {"sample_weight": sample_weight, "pos_label": pos_label, "classes": classes}
        models = as_models(y_prob, name)
        parts = {label or "model": decompose(y_true, prob, score=score, **what) for label, prob in models}
        return cls(parts, score=score).plot(ax)

    def plot(self, ax: Axes | None = None) -> DecompositionDisplay:
        """Draw points and lines of equal score on given axes, or in a figure of its own; return self."""
        is_own = ax is None
        ax, self.figure_ = style.place(ax, (5.4, 10.8))
        self.ax_ = ax
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
        style.add_legend(ax, is_own=is_own, n_columns=n_columns, title=capitalised(what))
        if is_own:
            style.fit_height(self.figure_)
        return self

    def _draw_isolines(self, ax: Axes, right: float, top: float) -> None:
        """Draw lines of equal score over [0, right] x [0, top], each named where it leaves on the right or the top.

        They are one collection, which keeps them out of the search for the legend's best place.
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
