"""What all displays share: colours and markers, figures of their own and their legends, and texts."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from calibrant.errors import InvalidTypeError, ShapeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Part = TypeVar("Part")

#: Okabe and Ito's colours, told apart by every kind of colour vision; their greys differ from first to third.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#333333")
MARKERS = "os^DvPX"
LINES = ("-", "--", "-.", ":")
#: The colour of lines that a reader compares with, and how they are drawn.
MUTED = "#767676"
REFERENCE: dict[str, Any] = {"color": MUTED, "linewidth": 1.0, "linestyle": (0, (4, 3))}
#: Names longer than this many lines are cut.
MAX_LINES = 4
#: Inches around what a display draws in a figure of its own.
_PAD = 0.08


def line(k: int) -> dict[str, Any]:
    """Return colour and line of the k-th series of a picture."""
    return {"color": COLOURS[k % len(COLOURS)], "linestyle": LINES[k // len(COLOURS) % len(LINES)]}


def of(k: int) -> dict[str, Any]:
    """Return colour, line and marker of the k-th series of a picture."""
    return line(k) | {"marker": MARKERS[k % len(MARKERS)]}


def new_axes(size: tuple[float, float], *, n: int = 1, n_across: int = 1, **options: Any) -> list[Axes]:
    """Return `n` axes, `n_across` side by side, in a figure of their own of `size` inches."""
    from matplotlib import pyplot as plt
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=_PAD, h_pad=_PAD, wspace=0.0, hspace=0.0)
    n_down = math.ceil(n / n_across)
    figure, grid = plt.subplots(n_down, n_across, figsize=size, squeeze=False, layout=layout, **options)
    for ax in grid.flat[n:]:
        figure.delaxes(ax)
    return list(grid.flat[:n])


def place(ax: Axes | None, size: tuple[float, float]) -> tuple[Axes, Figure]:
    """Return the axes to draw on and their figure: those given, or new ones of `size` inches."""
    ax = new_axes(size)[0] if ax is None else ax
    return ax, figure_of(ax)


#: The mark of a legend that a display placed above the axes of its own figure.
_ABOVE = "calibrant-legend"


def figure_of(ax: Axes) -> Figure:
    """Return the figure that axes lie in: all of it where they lie in a part."""
    return cast("Figure", ax.get_figure(root=True))


def fit_height(figure: Figure) -> None:
    """Make a figure that is too high as high as it needs to be for axes whose height is tied to their width.

    The layout centres such axes, with what is written around them, in a place for each: what is left empty there above
    and below each row of axes is cut off.
    """
    _lay_out(figure)
    height = figure.get_figheight()
    empty: dict[int, list[tuple[float, float]]] = {}
    for ax in figure.axes:
        grid, drawn = ax.get_subplotspec(), ax.get_tightbbox()
        if grid is not None and drawn is not None:
            place, drawn = ax.get_position(original=True), drawn.transformed(figure.transFigure.inverted())
            ends = max(drawn.y0 - place.y0, 0.0), max(place.y1 - drawn.y1, 0.0)
            empty.setdefault(grid.rowspan.start, []).append(ends)
    figure.set_figheight(height * (1.0 - sum(min(end) for row in empty.values() for end in zip(*row, strict=True))))
    _lay_out(figure)  # drawing lays out once more; where it starts from the other height, labels are cut


def _lay_out(figure: Figure) -> None:
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)


def add_legend(ax: Axes, *, is_own: bool, n_columns: int = 1, title: str | None = None) -> bool:
    """Name what was drawn: above the axes in a figure of a display's own, else inside them; say whether above.

    A further display in such a figure names all that is drawn there, in the same place.
    """
    figure = figure_of(ax)
    above = [legend for legend in figure.legends if legend.get_gid() == _ABOVE]
    if is_own or above:
        for legend in above:
            legend.remove()
        place: dict[str, Any] = {"loc": "outside upper left", "ncols": n_columns, "alignment": "left", "borderpad": 0.0}
        figure.legend(title=title, frameon=False, fontsize="small", **place).set_gid(_ABOVE)
    else:
        ax.legend(title=title, frameon=title is not None, fontsize="x-small", title_fontsize="x-small")
    return is_own or bool(above)


def count_text(total: float) -> str:
    """Write a sum of weights: as a count where it is one."""
    return f"{total:,.0f}" if np.isclose(total, np.round(total), rtol=1e-12, atol=1e-9) else f"{total:,.1f}"


def legible(text: str, *, width: int = 34) -> str:
    """Wrap a long text, and keep matplotlib from reading it as mathematics or as the name of a hidden line."""
    wrapped = "\n".join(textwrap.wrap(text, width, max_lines=MAX_LINES, placeholder=" ...")).replace("$", r"\$")
    return f"\N{ZERO WIDTH SPACE}{wrapped}" if wrapped.startswith("_") else wrapped


def check_kind(what: str, value: object, kind: type[Part], advice: str) -> Part:
    """Return a value if it is what a display draws, else raise InvalidTypeError; `what` says which, with its verb."""
    if not isinstance(value, kind):
        raise InvalidTypeError(f"{what} a {type(value).__name__}. {advice}")
    return value


def as_parts(argument: str, given: Part | Sequence[Part], kind: type[Part], advice: str) -> tuple[Part, ...]:
    """Return what a display draws, one or several of a kind, as a tuple; raise where it is of another kind or empty."""
    every: Any = (given,) if isinstance(given, kind) else given
    parts = tuple(check_kind(f"{argument} holds", each, kind, advice) for each in every)
    if not parts:
        raise ShapeError(f"{argument} is an empty sequence. Pass at least one {kind.__name__}.")
    return parts
