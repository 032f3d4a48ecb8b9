"""Methods ranked by how much better than leaving the scores alone they are, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from calibrant.comparison import Comparison
from calibrant.displays import style
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.results import Score
from calibrant.validation import check_choice, check_fraction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What the compared scores are called.
_TITLES = {"log_loss": "log loss", "brier": "Brier score"}
#: Inches of a row, and of what lies above and below all rows.
_ROW, _MARGINS = 0.3, 1.2


class ComparisonRow(NamedTuple):
    """A method: its name, a value of which less is better, and the interval of the value, NaN where it has none."""

    name: str
    value: float
    low: float
    high: float


class ComparisonDisplay:
    """Methods from best to worst: a value with its interval each, beside the value of doing nothing.

    A method whose whole interval lies left of the reference line is better than the reference, one to the right of it
    is worse; of the others these rows can't tell.

    Parameters
    ----------
    rows : iterable of tuples (name, value, low, high), or of objects with these attributes such as a Score
        Of the values less is better; infinite ones are drawn as a triangle at the end of the axis. Ends of an
        interval that is not known are NaN.
    reference : float
        The value of doing nothing; 0 for differences.
    reference_name : str
        What doing nothing is called.
    xlabel : str
        What the values are.
    level : float
        Nominal coverage of the intervals.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn, after `plot`.

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
        self.rows = sorted(map(_as_row, rows), key=_rank)
        if not self.rows:
            raise ShapeError("rows is empty. Pass at least one method.")
        self.reference, self.reference_name, self.xlabel = float(reference), reference_name, xlabel
        self.level = check_fraction("level", level)

    @classmethod
    def from_comparison(
        cls,
        comparison: Comparison,
        *,
        score: Literal["log_loss", "brier"] = "log_loss",
        ax: Axes | None = None,
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
        check_choice("score", score, list(_TITLES))
        advice = "Pass what calibrant.compare returns, or rows to ComparisonDisplay(rows)."
        style.check_kind("comparison is", comparison, Comparison, advice)
        others = [each for each in comparison.methods if each.name != comparison.baseline]
        is_none = comparison.baseline == "none"
        name, what = ("uncalibrated", "the uncalibrated scores") if is_none else (comparison.baseline,) * 2
        (doing_nothing,) = (getattr(each, score) for each in comparison.methods if each.name == comparison.baseline)
        if math.isinf(doing_nothing):
            xlabel, reference = f"Held-out {_TITLES[score]}; that of {what} is infinite", math.inf
            rows = [(each.name, getattr(each, score), math.nan, math.nan) for each in others]
        else:
            xlabel, reference = f"Held-out {_TITLES[score]}, less that of {what}", 0.0
            rows = [(each.name, *astuple(getattr(each, f"{score}_difference"))) for each in others]
        return cls(rows, reference=reference, reference_name=name, xlabel=xlabel, level=comparison.level).plot(ax)

    def plot(self, ax: Axes | None = None) -> ComparisonDisplay:
        """Draw the methods, best at the top, on given axes or in a figure of its own; return self."""
        n = len(self.rows)
        self.ax_, self.figure_ = style.place(ax, (7.2, _MARGINS + _ROW * n))
        ax = self.ax_
        beside: dict[str, Any] = {"textcoords": "offset points", "fontsize": "small"}
        if math.isfinite(self.reference):
            ax.axvline(self.reference, zorder=1, **style.REFERENCE)
            above: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (0, 3), "ha": "center"}
            ax.annotate(style.legible(self.reference_name), (self.reference, 1.0), color=style.MUTED, **above, **beside)
        for i, row in enumerate(self.rows):
            self._draw_row(ax, i, row)
            text = _text(row, is_signed=self.reference == 0.0)
            ax.annotate(text, (1.0, i), xycoords=("axes fraction", "data"), xytext=(6, 0), va="center", **beside)
        ax.set_yticks(range(n), [style.legible(row.name, width=28) for row in self.rows])
        ax.set_ylim(n - 0.4, -0.6)
        ax.tick_params(axis="y", length=0.0)
        ax.margins(x=0.08)
        if not any(math.isfinite(row.value) for row in self.rows):  # a scale would say nothing
            ax.set_xticks([self.reference] if math.isfinite(self.reference) else [])
        intervals = f"; {100.0 * self.level:g}% intervals" if any(map(_has_interval, self.rows)) else ""
        ax.set_xlabel(f"{self.xlabel}\n(less is better{intervals})")
        return self

    def _draw_row(self, ax: Axes, i: int, row: ComparisonRow) -> None:
        colour, face = self._colours(row)
        point: dict[str, Any] = {"color": colour, "markerfacecolor": face, "markersize": 6.0, "zorder": 3}
        if _has_interval(row):
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
        if low > self.reference:
            return style.COLOURS[1], style.COLOURS[1]
        return style.MUTED, "white"


def _as_row(row: Score | tuple[str, float, float, float]) -> ComparisonRow:
    fields: tuple[Any, ...] = (
        row if isinstance(row, tuple) else tuple(getattr(row, key, None) for key in ComparisonRow._fields)
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


def _rank(row: ComparisonRow) -> tuple[bool, float, str]:
    """Order by value, undefined ones last."""
    return math.isnan(row.value), 0.0 if math.isnan(row.value) else row.value, row.name


def _has_interval(row: ComparisonRow) -> bool:
    return all(map(math.isfinite, row[1:]))


def _text(row: ComparisonRow, *, is_signed: bool) -> str:
    if math.isnan(row.value):
        return "undefined"
    if math.isinf(row.value):
        return "infinite" if row.value > 0.0 else "minus infinity"
    sign = "+" if is_signed else ""
    interval = f" [{row.low:{sign}.4f}, {row.high:{sign}.4f}]" if _has_interval(row) else ""
    return f"{row.value:{sign}.4f}{interval}".replace("-", "\N{MINUS SIGN}")
