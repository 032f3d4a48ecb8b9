"""Methods ranked by how much better than leaving the scores alone they are, with intervals."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from calibrant.displays.style import COLOURS, MUTED, legible
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.validation import check_choice, check_fraction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from calibrant.comparison import Comparison

#: What the compared scores are called.
_TITLES = {"log_loss": "log loss", "brier": "Brier score"}
#: Inches of a row, and of what lies above and below all rows.
_ROW, _MARGINS = 0.3, 1.1


class HasInterval(Protocol):
    """A value with its name and interval, such as a `Score`."""

    @property
    def name(self) -> str:
        """What was measured."""

    @property
    def value(self) -> float:
        """The estimate."""

    @property
    def low(self) -> float:
        """Lower end of the interval."""

    @property
    def high(self) -> float:
        """Upper end of the interval."""


class ComparisonRow(NamedTuple):
    """A method: its name, a value of which less is better, and the interval of the value."""

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
    rows : iterable of tuples (name, value, low, high), or of objects with these attributes
        Of the values less is better; infinite ones are named and not drawn.
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
    ax_ : matplotlib Axes
        Where it was drawn, after `plot`.
    figure_ : matplotlib Figure
        The figure of `ax_`.

    Examples
    --------
    >>> import calibrant as cb
    >>> rows = [("isotonic", 0.02, -0.01, 0.05), ("beta", -0.03, -0.04, -0.02)]
    >>> display = cb.ComparisonDisplay(rows).plot()
    >>> [row.name for row in display.rows]
    ['beta', 'isotonic']
    """

    ax_: Axes
    figure_: Figure | None

    def __init__(
        self,
        rows: Iterable[HasInterval | tuple[str, float, float, float]],
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
            Whose differences to the baseline are drawn.
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.

        Examples
        --------
        >>> import calibrant as cb
        >>> p, y = [0.2, 0.4, 0.6, 0.8] * 30, [0, 0, 1, 1] * 30
        >>> found = cb.compare(p, y, methods=["sigmoid", "histogram"])
        >>> display = cb.ComparisonDisplay.from_comparison(found, score="brier")
        >>> display.reference_name, len(display.rows)
        ('uncalibrated', 2)
        """
        check_choice("score", score, list(_TITLES))
        if not hasattr(comparison, "methods"):
            raise InvalidTypeError(
                f"comparison is a {type(comparison).__name__}. Pass what calibrant.compare returns, "
                "or rows to ComparisonDisplay(rows)."
            )
        differences = [(each.name, getattr(each, f"{score}_difference")) for each in comparison.methods]
        rows = [(name, d.value, d.low, d.high) for name, d in differences if name != comparison.baseline]
        baseline = "uncalibrated" if comparison.baseline == "none" else comparison.baseline
        what = "the uncalibrated scores" if comparison.baseline == "none" else baseline
        xlabel = f"Held-out {_TITLES[score]}, less that of {what}"
        return cls(rows, reference_name=baseline, xlabel=xlabel, level=comparison.level).plot(ax)

    def plot(self, ax: Axes | None = None) -> ComparisonDisplay:
        """Draw the methods, best at the top; nothing is shown and no global setting is touched.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.

        Returns
        -------
        ComparisonDisplay
            Itself, with the attributes set.
        """
        if ax is None:
            from matplotlib import pyplot as plt

            _, ax = plt.subplots(figsize=(7.2, _MARGINS + _ROW * len(self.rows)), layout="constrained")
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        ax.axvline(self.reference, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
        ax.annotate(
            legible(self.reference_name),
            (self.reference, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize="small",
            color=MUTED,
        )
        for i, row in enumerate(self.rows):
            self._draw_row(ax, i, row)
        ax.set_yticks(range(len(self.rows)), [legible(row.name, width=28) for row in self.rows])
        ax.set_ylim(len(self.rows) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0.0)
        ax.margins(x=0.08)
        ax.set_xlabel(f"{self.xlabel}\n(less is better; {100.0 * self.level:g}% intervals)")
        return self

    def _draw_row(self, ax: Axes, i: int, row: ComparisonRow) -> None:
        colour, face = self._look(row)
        if all(map(math.isfinite, (row.value, row.low, row.high))):
            ax.hlines(i, row.low, row.high, color=colour, linewidth=1.6, zorder=2)
        if math.isfinite(row.value):
            ax.plot(row.value, i, "o", color=colour, markerfacecolor=face, markersize=6.0, zorder=3)
        ax.annotate(
            _text(row),
            (1.0, i),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )

    def _look(self, row: ComparisonRow) -> tuple[str, str]:
        """Return the colours of line and point: blue where better, vermilion where worse, hollow where unknown."""
        if row.high < self.reference:
            return COLOURS[0], COLOURS[0]
        if row.low > self.reference:
            return COLOURS[1], COLOURS[1]
        return MUTED, "white"


def _as_row(row: HasInterval | tuple[str, float, float, float]) -> ComparisonRow:
    values: object = row
    if not isinstance(row, tuple):
        try:
            values = operator.attrgetter("name", "value", "low", "high")(row)
        except AttributeError:
            values = ()
    if not isinstance(values, tuple) or len(values) != 4:
        raise InvalidTypeError(
            f"rows holds {row!r:.80}, which is no (name, value, low, high). Pass such tuples, or Score objects."
        )
    name, *numbers = values
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


def _text(row: ComparisonRow) -> str:
    if math.isnan(row.value):
        return "undefined"
    if math.isinf(row.value):
        return "infinite" if row.value > 0.0 else "minus infinity"
    interval = ""
    if math.isfinite(row.low) and math.isfinite(row.high):
        interval = f" [{row.low:+.4f}, {row.high:+.4f}]"
    return f"{row.value:+.4f}{interval}".replace("-", "\N{MINUS SIGN}")
