"""Picture of a decision experiment: the reliability gap before and after each recalibrator, and what decisions lose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant.displays import style
from calibrant.forecasts import DecisionExperiment
from calibrant.numerics import IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class DecisionExperimentDisplay:
    """The reliability gap before and after each recalibrator beside what chance gives, and promised and realised loss.

    Left, the mean gap over all decisions with its bounds; a grey mark is what a forecast that is right would show.
    Right, the mean loss of the best decisions, as the forecasts promise it (open) and as it came (full): they meet
    where promises are kept, and lower is better.

    Parameters
    ----------
    experiment : DecisionExperiment
        What `calibrant.forecasts.decision_experiment` returns.

    Attributes
    ----------
    axes_, figure_ : list of two matplotlib Axes, and Figure
        After `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> y = np.random.default_rng(0).normal(size=400)
    >>> forecast = cb.forecasts.GaussianForecast(np.zeros(400), 0.5)
    >>> found = cb.forecasts.decision_experiment(forecast, y, recalibrators=["average"])
    >>> display = cb.DecisionExperimentDisplay(found).plot()
    >>> [label.get_text() for label in display.axes_[0].get_yticklabels()]
    ['none', 'average']
    """

    def __init__(self, experiment: DecisionExperiment) -> None:
        advice = "Pass what decision_experiment returns."
        self.experiment = style.check_kind("experiment is", experiment, DecisionExperiment, advice)

    def plot(self) -> DecisionExperimentDisplay:
        """Draw into a figure of its own; return self."""
        scores = self.experiment.scores
        n = len(scores)
        self.axes_ = style.new_axes((8.4, 1.5 + 0.42 * n), n=2, n_across=2, sharey=True)
        left, right = self.axes_
        self.figure_ = style.figure_of(left)
        at = np.arange(n)
        self._draw_gaps(left, at)
        self._draw_losses(right, at)
        left.set_yticks(at, [style.legible(name) for name in scores])
        left.set_ylim(n - 0.4, -0.6)
        return self

    def _draw_gaps(self, ax: Axes, at: IntArray) -> None:
        gaps = [scores["gap"] for scores in self.experiment.scores.values()]
        low, high, value = (np.array([getattr(gap, end) for gap in gaps]) for end in ("low", "high", "value"))
        floors = np.array([float(gap.note.removeprefix("noise floor ")) for gap in gaps])
        ax.hlines(at, low, high, color=style.COLOURS[0], linewidth=1.6)
        ax.plot(value, at, "o", color=style.COLOURS[0], markersize=6.0, label=f"gap, {100 * gaps[0].level:g}% bounds")
        ax.plot(floors, at, "|", color=style.MUTED, markersize=13.0, markeredgewidth=2.0, label="by chance")
        ax.set_xlim(0.0, 1.08 * float(high.max()))
        ax.set(xlabel="Reliability gap, mean over decisions")
        ax.set_title(f"n = {self.experiment.n_held_out:,} rows held out", fontsize="medium")
        self._finish(ax)

    def _draw_losses(self, ax: Axes, at: IntArray) -> None:
        promised, realised = (
            np.array([scores[name].value for scores in self.experiment.scores.values()])
            for name in ("promised_loss", "decision_loss")
        )
        ax.hlines(at, np.minimum(promised, realised), np.maximum(promised, realised), color=style.MUTED, linewidth=1.2)
        ax.plot(promised, at, "o", color=style.COLOURS[1], markerfacecolor="white", markersize=6.0, label="promised")
        ax.plot(realised, at, "o", color=style.COLOURS[1], markersize=6.0, label="came true")
        ax.set(xlabel="Mean loss of the best decisions")
        ax.set_title("One decision per threshold and cost ratio", fontsize="medium")
        self._finish(ax)

    @staticmethod
    def _finish(ax: Axes) -> None:
        ax.grid(axis="x", color=style.MUTED, alpha=0.25, linewidth=0.6)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, frameon=False, fontsize="small")
