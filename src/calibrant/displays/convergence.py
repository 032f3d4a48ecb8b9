"""How an iteration came to its end: how far its iterates were from feasible and from proven best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from calibrant.displays.style import legible, style
from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.rank_preserving import RankPreservingResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Zeros, which a logarithmic axis can't show, are drawn here.
_LEAST = 1e-16


class ConvergenceDisplay:
    """Residual and gap of the iterates of `rank_preserving.solve`, on logarithmic axes.

    Parameters
    ----------
    results : RankPreservingResult, or mapping from name to RankPreservingResult

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

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

    ax_: Axes
    figure_: Figure

    def __init__(self, results: RankPreservingResult | Mapping[str, RankPreservingResult]) -> None:
        named: object = {results.method: results} if isinstance(results, RankPreservingResult) else results
        if not isinstance(named, Mapping) or not all(isinstance(r, RankPreservingResult) for r in named.values()):
            raise InvalidTypeError(
                f"results is a {type(results).__name__}. Pass what rank_preserving.solve returned, or a dict of it."
            )
        if not any(result.history for result in named.values()):
            raise ShapeError("results has no history: the first point was already good enough. There is none to draw.")
        self.results = dict(named)

    def plot(self, ax: Axes | None = None) -> ConvergenceDisplay:
        """Draw two lines for each result; return self."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(layout="constrained")[1]
        for k, (name, result) in enumerate(self.results.items()):
            colour = style(k)["color"]
            n_iter = [check.n_iter for check in result.history]
            residual = np.maximum([check.residual for check in result.history], _LEAST)
            gap = [abs(check.objective - check.bound) / max(check.objective, _LEAST) for check in result.history]
            ax.plot(n_iter, residual, color=colour, label=legible(f"{name}: residual"))
            ax.plot(n_iter, np.maximum(gap, _LEAST), color=colour, linestyle="--", label=legible(f"{name}: gap"))
        ax.set(xlabel="Iterations", ylabel="Residual, relative gap", yscale="log")
        if len(self.results) == 1:
            ax.legend()
        else:  # beside the axes: many lines leave no corner free
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        self.ax_ = ax
        self.figure_ = ax.get_figure(root=True)  # type: ignore[assignment]  # axes of a display are on a figure
        return self
