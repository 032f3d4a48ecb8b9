"""Mimic calibration as it happens: bins that merge pass by pass, and the curve that they leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.calibrators import BinTable, Calibrator, IsotonicCalibrator, MimicCalibrator, SigmoidCalibrator
from calibrant.displays import style
from calibrant.errors import InvalidInputError, not_fitted
from calibrant.maps import InterpolatedMap
from calibrant.numerics import FloatArray
from calibrant.phrases import count
from calibrant.rows import read_rows
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

#: Of more passes than this, some are left out of the picture; of more than the second, some are not in the legend.
MAX_PASSES, MAX_NAMED = 12, 5
#: How much colour the first bins have; the final ones have all of it.
_LIGHTEST = 0.35
#: More recorded points than this are drawn smaller.
_MANY_BINS = 40
_GRID = 1001
_ADVICE = "Pass a MimicCalibrator; ReliabilityDisplay draws the outputs of any other."
_X_LABELS = {"probability": "Predicted probability", "logit": "Logit", "score": "Score"}


class MimicDisplay:
    """The merging of a mimic calibrator's bins, from light to dark, and its curve beside those of other methods.

    Parameters
    ----------
    calibrator : MimicCalibrator
        Fitted to one score; with `record_history=True` all passes can be drawn, else the final bins only.
    rivals : mapping of str to Calibrator, optional
        Other fitted calibrators of the same scores, with their names.

    Attributes
    ----------
    ax_, ax_history_, figure_ : matplotlib Axes, Axes and Figure
        Where the curves and the bins are, after `plot`; the same axes where the caller gave only one.
    lines_ : dict of str to matplotlib Line2D
        The curves by name; `"mimic"` is the calibrator's.
    bars_, points_ : list of matplotlib LineCollection, and Line2D
        The bins of each pass drawn: a bar from the least to the greatest score of each, at its rate; and the recorded
        points of the final bins.

    Examples
    --------
    >>> import calibrant as cb
    >>> scores, y = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], [0, 0, 1, 1, 0, 1, 0, 1]
    >>> display = cb.MimicDisplay.from_calibrator(cb.MimicCalibrator(1), scores, y)
    >>> list(display.lines_)
    ['mimic', 'isotonic', 'sigmoid (Platt)']
    >>> [table.size for table in display.passes]
    [4, 2]
    """

    def __init__(self, calibrator: MimicCalibrator, *, rivals: Mapping[str, Calibrator] | None = None) -> None:
        self.calibrator = style.check_kind("calibrator is", calibrator, MimicCalibrator, _ADVICE)
        self.rivals = dict(rivals or {})
        #: Each pass's bins, the first binning first.
        self.passes: list[BinTable] = calibrator.history_ or [calibrator.calibrated_model_]
        for name, rival in self.rivals.items():
            if not rival.is_fitted:
                raise not_fitted(f"rivals: {name!r} is not fitted. Call its fit(scores, y) first.")
            if rival.input != calibrator.input or not rival.fitted_map.is_binary:
                raise InvalidInputError(
                    f"rivals: {name!r} takes input={rival.input!r} of {len(rival.classes_)} classes, the calibrator "
                    f"input={calibrator.input!r} of 2. Fit both to the same scores."
                )

    @classmethod
    def from_calibrator(
        cls,
        calibrator: MimicCalibrator,
        scores: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> MimicDisplay:
        """Fit the calibrator, isotonic and Platt calibration to the same rows, and draw them.

        Parameters
        ----------
        calibrator : MimicCalibrator
            Left as it is: a copy that records its history is fitted. One that is fitted must have been fitted to
            these rows.
        scores, y, sample_weight
            The rows, as in `MimicCalibrator.fit`.
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of two panels.
        """
        kind = style.check_kind("calibrator is", calibrator, MimicCalibrator, _ADVICE).input
        copy = calibrator.fresh().set_params(record_history=True)
        copy.check_params()
        rows = read_rows(scores, y, input=kind, sample_weight=sample_weight, both_classes=True)
        copy.fit_rows(rows)
        if calibrator.is_fitted and not _is_same(calibrator, copy):
            raise InvalidInputError(
                "calibrator was fitted to other rows than these. Pass its calibration rows, "
                "or MimicDisplay(calibrator) to draw it as it is."
            )
        others = {"isotonic": IsotonicCalibrator(input=kind), "sigmoid (Platt)": SigmoidCalibrator(input=kind)}
        rivals = {name: other.fit_rows(rows) for name, other in others.items()}
        return cls(copy, rivals=rivals).plot(ax)

    def plot(self, ax: Axes | None = None, *, ax_history: Axes | None = None, upper: float = 1.0) -> MimicDisplay:
        """Draw the bins of each pass and the curves, and return self.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of two panels.
        ax_history : matplotlib Axes, optional
            Where to draw the bins when `ax` is given; by default in `ax` too.
        upper : float
            Where the axes of probabilities end; below 1, a close-up of rare events.
        """
        is_own = ax is None
        if ax is None:
            ax_history, ax = style.new_axes((9.6, 9.6), n=2, n_across=2, subplot_kw={"box_aspect": 1.0})
        self.ax_, self.figure_ = ax, style.figure_of(ax)
        self.ax_history_ = ax if ax_history is None else ax_history
        low, high = self._range(upper)
        self._draw_history(self.ax_history_, upper)
        self._draw_curves(ax, low, high)
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2, "fontsize": "small"}
        for each, label in ((self.ax_history_, "Observed frequency"), (ax, "Calibrated probability")):
            each.set(xlabel=_X_LABELS[self.calibrator.input], ylabel=label, xlim=(low, high), ylim=(0.0, upper))
            each.legend(frameon=False, **(above if is_own else {"loc": "best", "fontsize": "x-small"}))
        if is_own:
            style.fit_height(self.figure_)
        return self

    def _range(self, upper: float) -> tuple[float, float]:
        if self.calibrator.input == "probability":
            return 0.0, upper
        final = self.calibrator.calibrated_model_
        low, high = float(final.score_min[0]), float(final.score_max[-1])
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    def _draw_history(self, ax: Axes, upper: float) -> None:
        from matplotlib.colors import to_rgb

        full = np.array(to_rgb(style.COLOURS[0]))
        n = len(self.passes)
        drawn = _spread(n, MAX_PASSES)
        named = {drawn[k] for k in _spread(len(drawn), MAX_NAMED)}
        self.bars_: list[LineCollection] = []
        for k in drawn:
            table = self.passes[k]
            share = 1.0 if k == n - 1 else _LIGHTEST + (1.0 - _LIGHTEST) * k / n
            label = _pass_text(k, n, table.size) if k in named else "_unnamed"
            bars = ax.hlines(table.rate, table.score_min, table.score_max, tuple(1.0 - share * (1.0 - full)))
            bars.set(label=label, linewidth=1.8, zorder=1.5 + k / n, capstyle="round")  # a bin of one score is a dot
            self.bars_.append(bars)
        final = self.passes[-1]
        (self.points_,) = ax.plot(final.boundary, final.rate, "o", color=style.COLOURS[0], label="recorded points")
        self.points_.set(markersize=5.0 if final.size <= _MANY_BINS else 3.0, zorder=3)
        self.points_.set_clip_on(upper < 1.0)  # at 0 and 1 whole markers are wanted

    def _draw_curves(self, ax: Axes, low: float, high: float) -> None:
        if self.calibrator.input == "probability":
            ax.plot([0, 1], [0, 1], label="scores as they are", **style.REFERENCE)
        final = self.calibrator.calibrated_model_
        size = f"n = {style.count_text(final.n.sum())}, {style.count_text(final.positives.sum())} events"
        curves = {"mimic": self.calibrator, **self.rivals}
        self.lines_: dict[str, Line2D] = {}
        for i, (name, calibrator) in enumerate(curves.items()):
            knots, _ = _knots(calibrator)
            x = np.union1d(np.linspace(low, high, _GRID), knots[(knots >= low) & (knots <= high)])
            label = style.legible(name if i else f"{name}, {count(final.size, 'bin')}") + ("" if i else f"\n{size}")
            (line,) = ax.plot(x, calibrator.map_.apply(x), label=label, zorder=4 - i / len(curves))
            line.set(linestyle=style.LINES[i % len(style.LINES)], color=style.COLOURS[i % len(style.COLOURS)])
            line.set_linewidth(1.4 if i else 2.0)
            self.lines_[name] = line


def _is_same(one: MimicCalibrator, other: MimicCalibrator) -> bool:
    """Say whether two fits recorded the same points, to the rounding of sums of weights."""
    return all(a.shape == b.shape and np.allclose(a, b) for a, b in zip(_knots(one), _knots(other), strict=True))


def _knots(calibrator: Calibrator) -> tuple[FloatArray, FloatArray]:
    fitted = calibrator.map_
    return (fitted.x, fitted.y) if isinstance(fitted, InterpolatedMap) else (np.empty(0), np.empty(0))


def _spread(n: int, most: int) -> list[int]:
    """Return at most `most` of 0, ..., n - 1, evenly spread, with both ends."""
    return list(range(n)) if n <= most else np.linspace(0, n - 1, most).round().astype(int).tolist()


def _pass_text(k: int, n: int, size: int) -> str:
    stage = "final" if n == 1 else f"after pass {k}{' (last)' if k == n - 1 else ''}" if k else "first"
    return f"{stage}: {count(size, 'bin')}"
