"""Pictures of rank-preserving calibration: how each column moved, and how the solver's iterates converged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.displays import style
from calibrant.displays.sources import as_models
from calibrant.errors import ShapeError
from calibrant.numerics import FloatArray
from calibrant.rank_preserving import ColumnChange, Diagnostics, RankPreservingResult, diagnose
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Of more columns those that moved most are drawn.
MAX_COLUMNS = 9
_N_ACROSS = 3
#: Points of a column whose order is broken: enough for its shape, few enough for each to average some rows.
_N_POINTS = 25
#: Zeros, which a logarithmic axis can't show, are drawn here.
_LEAST = 1e-16


class RankPreservingDisplay:
    """A panel for each column: probabilities after against those before.

    Parameters
    ----------
    diagnostics : Diagnostics
        What `rank_preserving.diagnose` returned; see `from_matrices`.

    Attributes
    ----------
    axes_, figure_ : list of matplotlib Axes, and Figure
        One per column, after `plot`.

    Notes
    -----
    Where the order is kept, a column is one rising line, flat where rows that differed are now equal. Where it is not,
    rows of like probability end up at different ones, and the line is a band from the lowest to the highest. Of more
    than 9 columns those with the largest mean move are drawn.

    Examples
    --------
    >>> import calibrant as cb
    >>> P = [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.2, 0.1, 0.7]]
    >>> display = cb.RankPreservingDisplay.from_matrices(P, cb.rank_preserving.solve(P, [1.5, 0.6, 0.9]))
    >>> [ax.get_title(loc="left") for ax in display.axes_]
    ['0', '1', '2']
    """

    def __init__(self, diagnostics: Diagnostics) -> None:
        advice = "Pass what rank_preserving.diagnose returned, or use from_matrices."
        self.diagnostics = style.check_kind("diagnostics is", diagnostics, Diagnostics, advice)

    @classmethod
    def from_matrices(
        cls,
        P: ArrayLike,
        Q: ArrayLike | RankPreservingResult,
        *,
        sample_weight: ArrayLike | None = None,
        axes: list[Axes] | None = None,
    ) -> RankPreservingDisplay:
        """Draw a matrix after against before, as `diagnose` and `plot` take them."""
        return cls(diagnose(P, Q, sample_weight=sample_weight)).plot(axes)

    @property
    def columns(self) -> list[ColumnChange]:
        """The columns that are drawn, in the order of the matrix."""
        every = self.diagnostics.columns
        farthest = sorted(range(len(every)), key=lambda j: -every[j].mean_move)[:MAX_COLUMNS]
        return [every[j] for j in sorted(farthest)]

    def plot(self, axes: list[Axes] | None = None) -> RankPreservingDisplay:
        """Draw a panel for each of `columns`, on one of the given axes each or in a new figure; return self."""
        columns = self.columns
        is_own = axes is None
        if axes is None:
            n_across = min(len(columns), _N_ACROSS)
            size = (2.9 * n_across, 4.0 * math.ceil(len(columns) / n_across))
            axes = style.new_axes(size, n=len(columns), n_across=n_across)
        if len(axes) != len(columns):
            raise ShapeError(f"axes holds {len(axes)} axes for {len(columns)} columns. Pass one for each.")
        for ax, column in zip(axes, columns, strict=True):
            draw_column(ax, column)
        self.axes_, self.figure_ = list(axes), style.figure_of(axes[0])
        if is_own:
            style.fit_height(self.figure_)
        return self


def draw_column(ax: Axes, column: ColumnChange) -> None:
    """Draw one column: the line or band of its entries after, the diagonal, and how much became flat."""
    before, low, high = _curve(column)
    upper = max(float(np.max(column.curve)), 1e-3) * 1.04
    ax.plot([0.0, upper], [0.0, upper], **style.REFERENCE)
    ax.fill_between(before, low, high, color=style.COLOURS[0], alpha=0.3, linewidth=0.0)
    ax.plot(before, 0.5 * (low + high), color=style.COLOURS[0], linewidth=1.6)
    ax.set(xlim=(0.0, upper), ylim=(0.0, upper), xlabel="Before", ylabel="After", aspect="equal")
    ax.locator_params(nbins=5)
    ax.set_title(style.legible(str(column.column), width=24), loc="left", fontsize="medium")
    words = f"mean {column.mean_before:.3f} to {column.mean_after:.3f}\nflattened {column.flattened:.0%}"
    if column.overtaken > 0.0:
        words += f"\novertaken {column.overtaken:.0%}"
    is_higher = column.mean_after > column.mean_before  # the line leaves the corner below or above it free
    corner, ha, va = ((0.96, 0.04), "right", "bottom") if is_higher else ((0.04, 0.96), "left", "top")
    ax.annotate(words, corner, xycoords="axes fraction", ha=ha, va=va, fontsize="small")


def _curve(column: ColumnChange) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return where the curve's points are before, and from where to where after.

    Of a broken order neighbouring rows are drawn as one point, since a single row has no range.
    """
    before, low, high = np.array(column.curve).T
    width = math.ceil(before.size / _N_POINTS) if column.overtaken > 0.0 else 1
    first = np.arange(0, before.size, width)
    middle = np.add.reduceat(before, first) / np.diff(np.append(first, before.size))
    return middle, np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)


class ConvergenceDisplay:
    """Residual and gap of the iterates of `rank_preserving.solve`, on logarithmic axes.

    Parameters
    ----------
    results : RankPreservingResult, or mapping from name to RankPreservingResult

    Notes
    -----
    The residual (full line) is the largest distance of a row sum from 1 or of a column mean from its margin. The gap
    (dashed) is the distance of the iterate's objective from the proven bound, as a share of the objective: an iterate
    is not feasible yet, so it may lie below the bound.

    Examples
    --------
    >>> import calibrant as cb
    >>> result = cb.rank_preserving.solve([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.2, 0.1, 0.7]], [1.5, 0.6, 0.9])
    >>> display = cb.ConvergenceDisplay(result).plot()
    >>> display.ax_.get_xlabel()
    'Iterations'
    """

    def __init__(self, results: RankPreservingResult | Mapping[str, RankPreservingResult]) -> None:
        named = as_models(results, argument="results")
        for _, each in named:
            advice = "Pass what rank_preserving.solve returned, or a dict of it."
            style.check_kind("results is", each, RankPreservingResult, advice)
        if not any(each.history for _, each in named):
            raise ShapeError("results has no history: the first point was already good enough. There is none to draw.")
        self.results = {name or each.method: each for name, each in named}

    def plot(self, ax: Axes | None = None) -> ConvergenceDisplay:
        """Draw two lines for each result on given axes, or in a figure of their own, `ax_`; return self."""
        ax, self.figure_ = style.place(ax, (6.4, 4.8))
        self.ax_ = ax
        for k, (name, result) in enumerate(self.results.items()):
            n_iter = [check.n_iter for check in result.history]
            residual = [check.residual for check in result.history]
            gap = [abs(check.objective - check.bound) / max(check.objective, _LEAST) for check in result.history]
            for what, values, line in (("residual", residual, "-"), ("gap", gap, "--")):
                label = style.legible(f"{name}: {what}")
                ax.plot(n_iter, np.maximum(values, _LEAST), color=style.of(k)["color"], linestyle=line, label=label)
        ax.set(xlabel="Iterations", ylabel="Residual, relative gap", yscale="log")
        # beside the axes where there are several: many lines leave no corner free
        beside: dict[str, Any] = {} if len(self.results) == 1 else {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        ax.legend(frameon=False, **beside)
        return self
