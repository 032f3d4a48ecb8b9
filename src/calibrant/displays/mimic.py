"""Mimic calibration as it happens: bins that merge pass by pass, and the curve that they leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from calibrant.calibrators import Calibrator, IsotonicCalibrator, MimicCalibrator, SigmoidCalibrator
from calibrant.displays.style import COLOURS, LINES, MUTED, count_text, legible
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.maps import InterpolatedMap
from calibrant.numerics import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from calibrant.calibrators import BinTable
    from calibrant.validation import ArrayLike

#: Of more passes than this, some are left out of the picture; of more than the second, some have no place in the key.
MAX_PASSES, MAX_NAMED = 12, 5
#: How much colour the first bins have; the final ones have all of it.
LIGHTEST = 0.35
#: More recorded points than this are drawn smaller.
MANY_BINS = 40
_GRID = 1001
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
    ax_ : matplotlib Axes
        Where the curves are, after `plot`.
    ax_history_ : matplotlib Axes
        Where the bins are: a panel of its own, or `ax_` where the caller gave no other axes.
    figure_ : matplotlib Figure
        The figure of `ax_`.
    lines_ : dict of str to matplotlib Line2D
        The curves by name; `"mimic"` is the calibrator's.
    bars_ : list of matplotlib LineCollection
        The bins of each pass drawn: a bar from the least to the greatest score of each, at its rate.
    points_ : matplotlib Line2D
        The recorded points of the final bins.

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

    ax_: Axes
    ax_history_: Axes
    figure_: Figure | None
    lines_: dict[str, Line2D]
    bars_: list[LineCollection]
    points_: Line2D

    def __init__(self, calibrator: MimicCalibrator, *, rivals: Mapping[str, Calibrator] | None = None) -> None:
        _check_mimic(calibrator)
        self.calibrator = calibrator
        self.rivals = dict(rivals or {})
        final = calibrator.calibrated_model_
        #: Each pass's bins, the first binning first.
        self.passes: list[BinTable] = calibrator.history_ or [final]
        for name, rival in self.rivals.items():
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
        scores : array-like of shape (n,)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of two panels.

        Raises
        ------
        CalibrantError
            If an argument can't be used, or the calibrator was fitted to other rows.

        Examples
        --------
        >>> import calibrant as cb
        >>> scores, y = [0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]
        >>> display = cb.MimicDisplay.from_calibrator(cb.MimicCalibrator(1), scores, y)
        >>> display.ax_.get_ylabel()
        'Calibrated probability'
        """
        _check_mimic(calibrator)
        kind = calibrator.input
        copy = MimicCalibrator(**{**calibrator.get_params(), "record_history": True})
        copy.fit(scores, y, sample_weight=sample_weight)
        if hasattr(calibrator, "map_") and not _is_same(calibrator, copy):
            raise InvalidInputError(
                "calibrator was fitted to other rows than these. Pass its calibration rows, "
                "or MimicDisplay(calibrator) to draw it as it is."
            )
        rivals = {"isotonic": IsotonicCalibrator(input=kind), "sigmoid (Platt)": SigmoidCalibrator(input=kind)}
        for rival in rivals.values():
            rival.fit(scores, y, sample_weight=sample_weight)
        return cls(copy, rivals=rivals).plot(ax)

    def plot(self, ax: Axes | None = None, *, ax_history: Axes | None = None, upper: float = 1.0) -> MimicDisplay:
        """Draw the bins of each pass and the curves.

        Nothing is shown and no global setting is touched.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of two panels.
        ax_history : matplotlib Axes, optional
            Where to draw the bins when `ax` is given; by default in `ax` too.
        upper : float
            Where the axes of probabilities end; below 1, a close-up of rare events.

        Returns
        -------
        MimicDisplay
            Itself, with the attributes set.
        """
        owns_figure = ax is None
        if ax is None:
            ax_history, ax = _new_axes()
        self.ax_, self.figure_ = ax, ax.get_figure(root=True)
        self.ax_history_ = ax if ax_history is None else ax_history
        low, high = self._range(upper)
        self._draw_history(self.ax_history_, upper)
        self._draw_curves(ax, low, high)
        for each, label in ((self.ax_history_, "Observed frequency"), (ax, "Calibrated probability")):
            each.set(xlabel=_X_LABELS[self.calibrator.input], ylabel=label, xlim=(low, high), ylim=(0.0, upper))
            if owns_figure:
                each.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, fontsize="small")
            else:
                each.legend(loc="best", frameon=False, fontsize="x-small")
        return self

    def _range(self, upper: float) -> tuple[float, float]:
        """Return where the axis of scores begins and ends."""
        if self.calibrator.input == "probability":
            return 0.0, upper
        final = self.calibrator.calibrated_model_
        low, high = float(final.score_min[0]), float(final.score_max[-1])
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    def _draw_history(self, ax: Axes, upper: float) -> None:
        from matplotlib.colors import to_rgb

        full = np.array(to_rgb(COLOURS[0]))
        n = len(self.passes)
        drawn = _spread(n, MAX_PASSES)
        named = {drawn[k] for k in _spread(len(drawn), MAX_NAMED)}
        self.bars_ = []
        for k in drawn:
            table = self.passes[k]
            share = 1.0 if k == n - 1 else LIGHTEST + (1.0 - LIGHTEST) * k / n
            bars = ax.hlines(
                table.rate,
                table.score_min,
                table.score_max,
                color=tuple(1.0 - share * (1.0 - full)),
                linewidth=1.8,
                capstyle="round",  # a bin of one score is a dot
                label=_pass_text(k, n, table.size) if k in named else "_unnamed",
                zorder=1.5 + k / n,
            )
            self.bars_.append(bars)
        final = self.passes[-1]
        (self.points_,) = ax.plot(
            final.boundary,
            final.rate,
            "o",
            color=COLOURS[0],
            markersize=5.0 if final.size <= MANY_BINS else 3.0,
            label="recorded points",
            clip_on=upper < 1.0,  # at 0 and 1 whole markers are wanted
            zorder=3,
        )

    def _draw_curves(self, ax: Axes, low: float, high: float) -> None:
        if self.calibrator.input == "probability":
            ax.plot([0, 1], [0, 1], color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), label="scores as they are")
        final = self.calibrator.calibrated_model_
        size = f"n = {count_text(final.n.sum())}, {count_text(final.positives.sum())} events"
        curves = {"mimic": self.calibrator, **self.rivals}
        self.lines_ = {}
        for i, (name, calibrator) in enumerate(curves.items()):
            fitted = calibrator.map_
            knots = fitted.x if isinstance(fitted, InterpolatedMap) else np.empty(0)
            x = np.union1d(np.linspace(low, high, _GRID), knots[(knots >= low) & (knots <= high)])
            (self.lines_[name],) = ax.plot(
                x,
                fitted.apply(x),
                color=COLOURS[i % len(COLOURS)],
                linestyle=LINES[i % len(LINES)],
                linewidth=2.0 if i == 0 else 1.4,
                label=legible(f"{name}, {_bins(final.size)}") + f"\n{size}" if i == 0 else legible(name),
                zorder=4 - i / len(curves),
            )


def _new_axes() -> tuple[Axes, Axes]:
    """Return two square panels side by side in a figure of their own."""
    from matplotlib import pyplot as plt

    _, (left, right) = plt.subplots(1, 2, figsize=(9.6, 5.7), layout="constrained", subplot_kw={"box_aspect": 1.0})
    return left, right


def _check_mimic(calibrator: object) -> None:
    if not isinstance(calibrator, MimicCalibrator):
        raise InvalidTypeError(
            f"calibrator is a {type(calibrator).__name__}. Pass a MimicCalibrator; "
            "ReliabilityDisplay draws the outputs of any other."
        )


def _is_same(one: MimicCalibrator, other: MimicCalibrator) -> bool:
    """Say whether two fits recorded the same points, to the rounding of sums of weights."""
    return all(a.shape == b.shape and np.allclose(a, b) for a, b in zip(_knots(one), _knots(other), strict=True))


def _knots(calibrator: MimicCalibrator) -> tuple[FloatArray, FloatArray]:
    fitted = calibrator.map_
    return (fitted.x, fitted.y) if isinstance(fitted, InterpolatedMap) else (np.empty(0), np.empty(0))


def _spread(n: int, most: int) -> list[int]:
    """Return at most `most` of 0, ..., n - 1, evenly spread, with both ends."""
    return list(range(n)) if n <= most else np.linspace(0, n - 1, most).round().astype(int).tolist()


def _pass_text(k: int, n: int, size: int) -> str:
    if n == 1:
        return f"final: {_bins(size)}"
    if k == 0:
        return f"first: {_bins(size)}"
    return f"after pass {k}{' (last)' if k == n - 1 else ''}: {_bins(size)}"


def _bins(size: int) -> str:
    return f"{size:,} bin{'' if size == 1 else 's'}"
