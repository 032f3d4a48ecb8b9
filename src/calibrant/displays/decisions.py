"""Pictures of decisions: decision curves, promised against realised losses, risk against coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant import decisions
from calibrant.decisions import DecisionCurve, DecisionScores, RiskCoverageCurve
from calibrant.displays import style
from calibrant.displays.sources import as_models
from calibrant.phrases import figure
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Bands of more curves than this would hide each other.
_MAX_BANDS = 3
#: Share of the height by which axes reach below a net benefit of 0.
_BELOW = 0.12
#: Inches of a row of actions, and of what lies above and below all.
_ROW, _MARGINS = 0.42, 1.25


class DecisionCurveDisplay:
    """Net benefit over the threshold at which one would act, beside acting on all rows and on none.

    A model is of use where its curve is above both others. The bands hold at each threshold by itself.

    Parameters
    ----------
    curve : DecisionCurve or sequence of DecisionCurve
        What `calibrant.decisions.decision_curve` returns, of the same rows.

    Examples
    --------
    >>> import calibrant as cb
    >>> y, p = [0, 0, 0, 1] * 50, [0.1, 0.3, 0.6, 0.8] * 50
    >>> display = cb.DecisionCurveDisplay.from_predictions(y, p)
    >>> float(display.curves[0].net_benefit.max())
    0.25
    """

    def __init__(self, curve: DecisionCurve | Sequence[DecisionCurve]) -> None:
        advice = "Pass what decision_curve returns, or use DecisionCurveDisplay.from_predictions(y, probabilities)."
        self.curves = style.as_parts("curve", curve, DecisionCurve, advice)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        probabilities: ArrayLike | Mapping[str, ArrayLike],
        *,
        thresholds: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
        pos_label: object = None,
        level: float = 0.95,
        ax: Axes | None = None,
    ) -> DecisionCurveDisplay:
        """Measure the curve of probabilities, or of several under their names, and draw it.

        Parameters
        ----------
        y, thresholds, sample_weight, cluster, time, label_end, pos_label, level
            As in `calibrant.decisions.decision_curve`.
        probabilities : array-like, or mapping of names to these
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.
        """
        how: dict[str, Any] = {"thresholds": thresholds, "sample_weight": sample_weight, "pos_label": pos_label}
        how |= {"cluster": cluster, "time": time, "label_end": label_end, "level": level}
        curves = [
            decisions.decision_curve(y, p, label=name, **how)
            for name, p in as_models(probabilities, argument="probabilities")
        ]
        return cls(curves).plot(ax)

    def plot(self, ax: Axes | None = None) -> DecisionCurveDisplay:
        """Draw the curves on given axes, or in a figure of their own, `ax_`; return self."""
        is_own = ax is None
        ax, self.figure_ = style.place(ax, (6.4, 4.2))
        self.ax_, first = ax, self.curves[0]
        for k, curve in enumerate(self.curves):
            ax.plot(curve.threshold, curve.net_benefit, label=style.legible(curve.label or "model"), **style.line(k))
            if len(self.curves) <= _MAX_BANDS:
                band: dict[str, Any] = {"color": style.COLOURS[k % len(style.COLOURS)], "alpha": 0.18, "linewidth": 0.0}
                ax.fill_between(curve.threshold, curve.low, curve.high, **band)
        ax.plot(first.threshold, first.all, color=style.MUTED, linewidth=1.2, label="act on all")
        ax.axhline(0.0, label="act on none", **style.REFERENCE)
        top = max(first.base_rate, max(float(np.max(curve.high)) for curve in self.curves))
        ax.set_ylim(-_BELOW * top, 1.05 * top)
        ax.set_xlim(float(first.threshold.min()), float(first.threshold.max()))
        ax.set_xlabel("Threshold: the probability from which on one would act")
        ax.set_ylabel("Net benefit, true positives per row")
        if is_own:
            style.add_legend(ax, is_own=True, n_columns=min(len(self.curves) + 2, 3))
        else:
            style.add_legend(ax, is_own=False)
        return self


class PromiseDisplay:
    """What was promised of decisions and what they cost: of all rows, and of the rows that got each action.

    Hollow points are promises, filled ones with their intervals what was lost. Where the interval of the gap between
    the two excludes 0 a row is drawn in vermilion, and the promise was not kept.

    Parameters
    ----------
    scores : DecisionScores
        What `calibrant.decisions.evaluate` returns.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> p = np.random.default_rng(0).random(500)
    >>> y = np.random.default_rng(1).random(500) < p
    >>> problem = cb.decisions.Problem.two_actions(false_positive=1.0, false_negative=4.0)
    >>> cb.PromiseDisplay(cb.decisions.evaluate(y, p, problem)).plot().names
    ['all rows', 'no', 'yes']
    """

    def __init__(self, scores: DecisionScores) -> None:
        advice = "Pass what calibrant.decisions.evaluate returns."
        self.scores = style.check_kind("scores is", scores, DecisionScores, advice)

    @property
    def names(self) -> list[str]:
        """What the rows of the picture are called, from the top."""
        return ["all rows", *self.scores.by_action]

    def plot(self, ax: Axes | None = None) -> PromiseDisplay:
        """Draw the losses on given axes, or in a figure of their own, `ax_`; return self."""
        parts = [self.scores, *self.scores.by_action.values()]
        is_own = ax is None
        ax, self.figure_ = style.place(ax, (6.8, _MARGINS + _ROW * len(parts)))
        self.ax_ = ax
        told: set[str] = set()
        for i, part in enumerate(parts):
            promised, realised, gap = (part[name] for name in ("promised", "realised", "gap"))
            is_kept = gap.low <= 0.0 <= gap.high
            colour = style.COLOURS[0] if is_kept else style.COLOURS[1]
            word = "realised, promise kept" if is_kept else "realised, promise not kept"
            labels = (None if word in told else word, "promised" if i == 0 else None)
            told.add(word)
            ax.hlines(i, realised.low, realised.high, color=colour, linewidth=1.6, zorder=2)
            ax.plot(realised.value, i, "o", color=colour, markersize=6.0, zorder=3, label=labels[0])
            hollow: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": "#333333", "zorder": 4}
            ax.plot(promised.value, i, "D", markersize=5.0, linestyle="none", label=labels[1], **hollow)
            share = "" if i == 0 else f"{100.0 * part['share'].value:.3g}% of rows"
            where: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            text = f"gap {figure(gap.value, sign=True)}".replace("-", "\N{MINUS SIGN}") + (
                f"\n{share}" if share else ""
            )
            ax.annotate(text, (1.0, i), xytext=(6, 0), va="center", fontsize="small", **where)
        ax.set_yticks(range(len(parts)), [style.legible(name, width=24) for name in self.names])
        ax.set_ylim(len(parts) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0.0)
        ax.margins(x=0.08)
        ax.set_xlabel(
            f"Mean loss per row\n({100.0 * self.scores['gap'].level:g}% interval of all; gap: realised less promised)"
        )
        style.add_legend(ax, is_own=is_own, n_columns=2)
        return self


class RiskCoverageDisplay:
    """The mean loss of the most confident rows, over the share of rows that are decided.

    Parameters
    ----------
    curve : RiskCoverageCurve or sequence of RiskCoverageCurve
        What `calibrant.decisions.risk_coverage_curve` returns.

    Examples
    --------
    >>> import calibrant as cb
    >>> display = cb.RiskCoverageDisplay.from_predictions([1, 0, 1, 1], [0.9, 0.2, 0.3, 0.6])
    >>> display.curves[0].risk.tolist()[-1]
    0.25
    """

    def __init__(self, curve: RiskCoverageCurve | Sequence[RiskCoverageCurve]) -> None:
        advice = "Pass what risk_coverage_curve returns, or use RiskCoverageDisplay.from_predictions(y, probabilities)."
        self.curves = style.as_parts("curve", curve, RiskCoverageCurve, advice)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        probabilities: ArrayLike | Mapping[str, ArrayLike],
        *,
        loss: Any = "error",
        costs: Any = None,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        level: float = 0.95,
        ax: Axes | None = None,
    ) -> RiskCoverageDisplay:
        """Measure the curve of probabilities, or of several under their names, and draw it.

        Parameters
        ----------
        y, loss, costs, sample_weight, cluster, time, label_end, classes, level
            As in `calibrant.decisions.risk_coverage_curve`.
        probabilities : array-like, or mapping of names to these
        ax : matplotlib Axes, optional
            Where to draw; by default a figure of its own.
        """
        how: dict[str, Any] = {"loss": loss, "costs": costs, "sample_weight": sample_weight, "classes": classes}
        how |= {"cluster": cluster, "time": time, "label_end": label_end, "level": level}
        curves = [
            decisions.risk_coverage_curve(y, p, label=name, **how)
            for name, p in as_models(probabilities, argument="probabilities")
        ]
        return cls(curves).plot(ax)

    def plot(self, ax: Axes | None = None) -> RiskCoverageDisplay:
        """Draw the curves on given axes, or in a figure of their own, `ax_`; return self."""
        is_own = ax is None
        ax, self.figure_ = style.place(ax, (6.0, 4.0))
        self.ax_ = ax
        top = 0.0
        for k, curve in enumerate(self.curves):
            name = f"{curve.label}: area" if curve.label else "area"
            label = f"{style.legible(name)} {curve.aurc.value:.4g}"
            ax.plot(curve.coverage, curve.risk, label=label, **style.line(k))
            top = max(top, float(curve.risk.max()))
            if len(self.curves) <= _MAX_BANDS:
                band: dict[str, Any] = {"color": style.COLOURS[k % len(style.COLOURS)], "alpha": 0.18, "linewidth": 0.0}
                low, high = (np.where(np.isfinite(end), end, np.nan) for end in (curve.low, curve.high))
                ax.fill_between(curve.coverage, low, high, **band)
        ax.set(xlim=(0.0, 1.0), ylim=(0.0 if top > 0.0 else None, 1.35 * top if top > 0.0 else None))
        ax.set_xlabel("Coverage: share of rows that are decided, the most confident first")
        what = "Error rate" if all(curve.loss == "error" for curve in self.curves) else "Mean loss"
        ax.set_ylabel(f"{what} of these rows")
        style.add_legend(ax, is_own=is_own, n_columns=2)
        return self
