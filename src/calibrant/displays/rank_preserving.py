"""How each column of a matrix moved: its entries after against those before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from calibrant.displays.style import COLOURS, MUTED, legible
from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.numerics import FloatArray
from calibrant.rank_preserving import ColumnChange, Diagnostics, RankPreservingResult, diagnose
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Of more columns those that moved most are drawn.
MOST_COLUMNS = 9
_PER_LINE = 3
#: Places of a column whose order is broken: enough for its shape, few enough for each to hold some rows.
_FEW_PLACES = 25


class RankPreservingDisplay:
    """A panel for each column: probabilities after against those before.

    Parameters
    ----------
    diagnostics : Diagnostics
        What `rank_preserving.diagnose` returned; see `from_matrices`.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        One per column, after `plot`.
    figure_ : matplotlib Figure

    Notes
    -----
    Where the order is kept, a column is one rising line, flat where rows that differed are now equal. Where it is not,
    rows of like probability end up at different ones, and the line is a band from the lowest to the highest. Of more
    than 9 columns those with the largest mean move are drawn.

    Examples
    --------
    >>> import calibrant as cb
    >>> P = [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.2, 0.1, 0.7]]
    >>> display = cb.RankPreservingDisplay.from_matrices(P, cb.rank_preserving.solve(P, [1.5, 0.6, 0.9])).plot()
    >>> [ax.get_title(loc="left") for ax in display.axes_]
    ['0', '1', '2']
    """

    axes_: list[Axes]
    figure_: Figure

    def __init__(self, diagnostics: Diagnostics) -> None:
        if not isinstance(diagnostics, Diagnostics):
            raise InvalidTypeError(
                f"diagnostics is a {type(diagnostics).__name__}. Pass what rank_preserving.diagnose returned, or use "
                "from_matrices."
            )
        self.diagnostics = diagnostics

    @classmethod
    def from_matrices(
        cls, P: ArrayLike, Q: ArrayLike | RankPreservingResult, *, sample_weight: ArrayLike | None = None
    ) -> RankPreservingDisplay:
        """Make the display of a matrix before and after."""
        return cls(diagnose(P, Q, sample_weight=sample_weight))

    @property
    def columns(self) -> list[ColumnChange]:
        """The columns that are drawn, in the order of the matrix."""
        every = self.diagnostics.columns
        farthest = sorted(range(len(every)), key=lambda j: -every[j].mean_move)[:MOST_COLUMNS]
        return [every[j] for j in sorted(farthest)]

    def plot(self, axes: list[Axes] | None = None) -> RankPreservingDisplay:
        """Draw a panel for each column; return self.

        Parameters
        ----------
        axes : list of matplotlib Axes, optional
            One for each of `columns`; by default those of a new figure.
        """
        columns = self.columns
        if axes is None:
            axes = _new_axes(len(columns))
        if len(axes) != len(columns):
            raise ShapeError(f"axes holds {len(axes)} axes for {len(columns)} columns. Pass one for each.")
        for ax, column in zip(axes, columns, strict=True):
            draw_column(ax, column)
        self.axes_ = list(axes)
        self.figure_ = axes[0].get_figure(root=True)  # type: ignore[assignment]  # axes of a display are on a figure
        return self


def draw_column(ax: Axes, column: ColumnChange) -> None:
    """Draw one column: the line or band of its entries after, the diagonal, and how much became flat."""
    before, low, high = _places(column)
    upper = max(float(np.max(column.curve)), 1e-3) * 1.04
    ax.plot([0.0, upper], [0.0, upper], color=MUTED, linestyle="--", linewidth=0.9)
    ax.fill_between(before, low, high, color=COLOURS[0], alpha=0.3, linewidth=0.0)
    ax.plot(before, 0.5 * (low + high), color=COLOURS[0], linewidth=1.6)
    ax.set(xlim=(0.0, upper), ylim=(0.0, upper), xlabel="Before", ylabel="After", aspect="equal")
    ax.set_title(legible(str(column.column), width=24), loc="left", fontsize="medium")
    words = f"mean {column.mean_before:.3f} to {column.mean_after:.3f}\nflattened {column.flattened:.0%}"
    if column.overtaken > 0.0:
        words += f"\novertaken {column.overtaken:.0%}"
    ax.annotate(words, (0.04, 0.96), xycoords="axes fraction", va="top", fontsize="small")


def _places(column: ColumnChange) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return places of the curve and the range at each; of a broken order few, as single rows are no range."""
    before, low, high = np.array(column.curve).T
    width = math.ceil(before.size / _FEW_PLACES) if column.overtaken > 0.0 else 1
    first = np.arange(0, before.size, width)
    middle = np.add.reduceat(before, first) / np.diff(np.append(first, before.size))
    return middle, np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)


def _new_axes(n: int) -> list[Axes]:
    import matplotlib.pyplot as plt

    n_across = min(n, _PER_LINE)
    n_down = math.ceil(n / n_across)
    figure, grid = plt.subplots(
        n_down, n_across, figsize=(2.9 * n_across, 3.1 * n_down), layout="constrained", squeeze=False
    )
    every = list(grid.ravel())
    for ax in every[n:]:
        figure.delaxes(ax)
    return every[:n]
