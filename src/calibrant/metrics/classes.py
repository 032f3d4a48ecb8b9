"""The scores of each class: against the rest, and where it is the top label."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.metrics.bins import Bins, make_bins
from calibrant.metrics.calibration_error_intervals import ece_debiased_estimate
from calibrant.metrics.estimates import Estimate, mean_of, normal_estimate, rate_estimate
from calibrant.metrics.gap_bounds import gap_bounds
from calibrant.metrics.gate import measured_rows
from calibrant.metrics.proper_scores import brier_losses, mean_loss_and_error
from calibrant.metrics.ranking import auc_estimate
from calibrant.metrics.slope_intercept import slope_intercept_estimates
from calibrant.numerics import IntArray
from calibrant.results import Score, Scores
from calibrant.rows import Rows
from calibrant.validation import ArrayLike, check_fraction, check_integer

#: A class has at most one bin for so many rows.
_ROWS_PER_BIN = 20
_MOST_NAMED = 10
#: The looks by which a class is judged, each with the same share of the chance of a false alarm.
LOOKS = ("mean_gap", "worst_gap", "top_gap")


@dataclass(frozen=True, slots=True)
class ClassScores:
    """Scores of each class, the worst first, and of all together.

    Attributes
    ----------
    overall : Scores
        `marginal_calibration_error`, and `mean_gap`, `ece_debiased` and `accuracy` of the top label, at `level`.
    classes : dict of Scores
        By class: those that are off first, the largest debiased error first among them and among the others.
    level : float
        Chance that no class of calibrated predictions is found off.
    interval_level : float
        Coverage of each interval of a class: 1 - (1 - level) / (3 K) for K classes and three looks at each.
    """

    overall: Scores
    classes: Mapping[Any, Scores]
    level: float
    interval_level: float

    def is_off(self, label: object) -> bool:
        """Say whether the interval of the class's `mean_gap`, `worst_gap` or `top_gap` excludes zero."""
        return any(at_least(self.classes[label][name]) > 0.0 for name in LOOKS)

    @property
    def off(self) -> tuple[Any, ...]:
        """The classes that are off, the worst first."""
        return tuple(label for label in self.classes if self.is_off(label))

    @property
    def multiplicity(self) -> str:
        """What the level of the intervals means, in a sentence."""
        return (
            f"{len(self.classes):,} classes are looked at, so the intervals of each have the level "
            f"{100.0 * self.interval_level:.6g}%: with probability {100.0 * self.level:g}% no class of calibrated "
            "predictions is found off."
        )

    @property
    def verdict(self) -> str:
        """Which classes are off, in words."""
        return self.describe(str)

    def describe(self, name: Callable[[object], str]) -> str:
        """Say which classes are off, with `name` to write each of them."""
        if not self.off:
            return f"No class found off. {self.multiplicity}"
        named = ", ".join(map(name, self.off[:_MOST_NAMED])) + (", ..." if len(self.off) > _MOST_NAMED else "")
        return f"Off, worst first: {named} ({len(self.off):,} of {len(self.classes):,}). {self.multiplicity}"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain Python values."""
        classes = [
            {"class": label, "is_off": self.is_off(label), **scores.to_dict()} for label, scores in self.classes.items()
        ]
        return {
            "level": self.level,
            "interval_level": self.interval_level,
            "verdict": self.verdict,
            "overall": self.overall.to_dict(),
            "classes": classes,
        }

    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"{label}: {scores.verdict}" for label, scores in self.classes.items())])


def evaluate_classes(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    evaluated_on: str = "given data",
) -> ClassScores:
    """Measure the predictions of each class, with intervals that are corrected for the number of classes.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of each of the sorted classes; of one column, of the positive one and the rest.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.
    n_bins : int
        Largest number of bins of a class, of near-equal weight; there is one per 20 rows at most.
    level : float
        Chance that no class is found off where predictions are calibrated.
    pos_label : scalar, optional
        The positive one of two labels; the larger one by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y_true` may lack some.
    evaluated_on : str
        What the rows are, such as "held-out"; kept in each score.

    Returns
    -------
    ClassScores
        Of each class, its column p against the event that a row is of it:

        - `mean_prob` and `base_rate`, the predicted and the observed share, and `mean_gap`, their difference: is the
          class predicted as often as it occurs (calibration in the large)?
        - `brier`, of this column alone, in [0, 1]; `ece_debiased`; `slope` and `intercept`; `auc`.
        - `worst_gap`, the mean of p less the rate in that bin of p whose gap is furthest from zero for sure; its
          `note` says where, its `level` is 1 - (1 - level) / (3 K m) for m bins.
        - `top_gap`, the mean of p less the rate among the rows where the class is the top label: when the model says
          "cat", is it as sure as it is right? Its `n` counts these rows, `top_prob` and `precision` are the two.

        Its `verdict` says in words what is off.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    A class is found off where the interval of one of its three gaps excludes zero. These are Chernoff's (see
    `calibrant.metrics.gap_bounds`), which hold for any number of rows and take rows to be independent; by
    Bonferroni's correction some class of calibrated predictions is found off with probability at most 1 - `level`.
    The other intervals are those of `evaluate`, right for many events only, so no class is judged by them.

    Where a figure is undefined, as the slope of a class without rows, it is NaN and its note says why.

    References
    ----------
    Kull et al. (2019), *Beyond temperature scaling: obtaining well-calibrated multi-class probabilities with
    Dirichlet calibration*, NeurIPS, equation 3, for calibration by class. Gupta and Ramdas (2022), *Top-label
    calibration and multiclass-to-binary reductions*, ICLR, definition 1, for `top_gap`. Dunn (1961), *Multiple
    comparisons among means*, JASA 56.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import evaluate_classes
    >>> rng = np.random.default_rng(0)
    >>> P = rng.dirichlet([1.0, 1.0, 1.0], 3_000)
    >>> y = np.array([rng.choice(["cat", "dog", "eel"], p=row) for row in P])
    >>> y[(y == "dog") & (rng.random(3_000) < 0.3)] = "eel"
    >>> found = evaluate_classes(y, P)
    >>> sorted(found.off)
    ['dog', 'eel']
    >>> found.classes["dog"]["mean_gap"].low > 0.0
    True
    """
    n_bins = check_integer("n_bins", n_bins, minimum=1)
    level = check_fraction("level", level)
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    n_classes = rows.n_classes
    few = max(1, min(n_bins, rows.n_rows // _ROWS_PER_BIN))
    each = 1.0 - (1.0 - level) / (len(LOOKS) * n_classes)
    top = _top_labels(rows)
    of_top = _gaps_on_top(rows.top_label(), top, n_classes, each)
    measured: list[Scores] = []
    bins: list[Bins] = []
    for k in range(n_classes):
        own = rows.of_class(k)
        summary = own.summary()
        bins.append(make_bins(summary, few, "quantile"))
        scores = [
            Score(name, e.value, e.low, e.high, each, rows.n_rows, e.method, evaluated_on, e.note)
            for name, e in _estimates(own, bins[-1], each).items()
        ]
        scores.append(_worst_gap(own, bins[-1], 1.0 - (1.0 - each) / bins[-1].share.size, evaluated_on))
        scores += [
            Score(name, e.value, e.low, e.high, each, n, e.method, evaluated_on, e.note)
            for n, estimates in [of_top[k]]
            for name, e in estimates.items()
        ]
        measured.append(Scores(scores, verdict=_words({score.name: score for score in scores})))
    found = ClassScores(
        _overall(rows, bins, few, level, evaluated_on),
        dict(zip(rows.classes.tolist(), measured, strict=True)),
        level,
        each,
    )
    ranked = sorted(found.classes.items(), key=lambda item: (not found.is_off(item[0]), -item[1]["ece_debiased"].value))
    return ClassScores(found.overall, dict(ranked), level, each)


def at_least(gap: Score) -> float:
    """Return how far a gap is from zero at least; 0 where it is undefined."""
    return max(gap.low, -gap.high, 0.0) if math.isfinite(gap.value) else 0.0


def _estimates(own: Rows, bins: Bins, level: float) -> dict[str, Estimate]:
    """Estimate the figures of one column against its own class."""
    summary = own.summary()
    size, scores = summary.effective_size, summary.tied().scores
    weight = np.ones(own.scores.size) if own.weight is None else own.weight
    predicted = mean_of([(own.scores, weight)], size)
    at_mean = brier_losses(np.array([predicted.value]))
    bounds = gap_bounds(own.scores, own.positive, own.weight, np.zeros(own.scores.size, dtype=np.int64), 1, level)
    gap, low, high = (float(end[0]) for end in (bounds.gap, bounds.low, bounds.high))
    return {
        "mean_prob": normal_estimate(predicted, level, least=0.0, most=1.0),
        "base_rate": rate_estimate(summary.base_rate, size, level),
        "mean_gap": Estimate(gap, low, high, "Chernoff"),
        "brier": normal_estimate(
            mean_loss_and_error(summary, brier_losses(scores), at_mean), level, least=0.0, most=1.0
        ),
        "ece_debiased": ece_debiased_estimate([bins], size, level),
        **slope_intercept_estimates(summary, level),
        "auc": auc_estimate(summary, level),
    }


def _worst_gap(own: Rows, bins: Bins, level: float, evaluated_on: str) -> Score:
    """Return the gap of the bin that is furthest from zero for sure, or by value where none is."""
    codes = np.searchsorted(bins.edges[1:, 0], own.scores, side="left")
    bounds = gap_bounds(own.scores, own.positive, own.weight, codes, len(bins.edges), level)
    sure = np.maximum(np.maximum(bounds.low, -bounds.high), 0.0)
    b = int(np.lexsort((np.abs(bounds.gap), sure))[-1])
    gap, low, high = (float(end[b]) for end in (bounds.gap, bounds.low, bounds.high))
    first, last = bins.edges[b].tolist()
    note = f"at {first:.3f} to {last:.3f}"
    return Score("worst_gap", gap, low, high, level, int(np.sum(codes == b)), "Chernoff", evaluated_on, note)


def _top_labels(rows: Rows) -> IntArray:
    """Return the top label of each row, of equal probabilities the first."""
    if rows.is_binary:
        return np.asarray(rows.scores > 0.5, dtype=np.int64)
    return np.asarray(rows.scores.argmax(axis=1), dtype=np.int64)


def _gaps_on_top(data: Rows, top: IntArray, n_classes: int, level: float) -> list[tuple[int, dict[str, Estimate]]]:
    """Estimate confidence, precision and their gap where each class is the top label, and count its rows."""
    counts = np.bincount(top, minlength=n_classes)
    present = np.flatnonzero(counts)
    place = np.searchsorted(present, top)
    bounds = gap_bounds(data.scores, data.positive, data.weight, place, present.size, level)
    never = Estimate(math.nan, math.nan, math.nan, "none", "undefined: never the top label")
    found = [(0, {"top_gap": never, "top_prob": never, "precision": never}) for _ in range(n_classes)]
    for code, k in enumerate(present.tolist()):
        kept = place == code
        weight = np.ones(int(counts[k])) if data.weight is None else data.weight[kept]
        size = float(weight.sum() ** 2 / np.square(weight).sum())
        gap, low, high = (float(end[code]) for end in (bounds.gap, bounds.low, bounds.high))
        confidence = mean_of([(data.scores[kept], weight)], size)
        found[k] = (
            int(counts[k]),
            {
                "top_gap": Estimate(gap, low, high, "Chernoff"),
                "top_prob": normal_estimate(confidence, level, least=0.0, most=1.0),
                "precision": rate_estimate(float(bounds.observed[code]), size, level),
            },
        )
    return found


def _overall(rows: Rows, bins: list[Bins], n_bins: int, level: float, evaluated_on: str) -> Scores:
    """Measure the classes together, and the top label."""
    top, size = rows.top_label(), rows.effective_size
    summary = top.summary()
    bounds = gap_bounds(top.scores, top.positive, top.weight, np.zeros(rows.n_rows, dtype=np.int64), 1, level)
    gap, low, high = (float(end[0]) for end in (bounds.gap, bounds.low, bounds.high))
    estimates = {
        "marginal_calibration_error": ece_debiased_estimate(bins, size, level),
        "mean_gap": Estimate(gap, low, high, "Chernoff"),
        "ece_debiased": ece_debiased_estimate([make_bins(summary, n_bins, "quantile")], size, level),
        "accuracy": rate_estimate(summary.base_rate, size, level),
    }
    scores = [
        Score(name, e.value, e.low, e.high, level, rows.n_rows, e.method, evaluated_on, e.note)
        for name, e in estimates.items()
    ]
    verdict = "The top label is not found off on average."
    if at_least(scores[1]) > 0.0:
        verdict = f"The top label is too {_side(scores[1])}, by {abs(gap):.3f} on average."
    return Scores(scores, verdict=verdict)


def _words(scores: Mapping[str, Score]) -> str:
    """Say in words which of the three gaps of a class are off."""
    said = []
    overall, worst, on_top = (scores[name] for name in LOOKS)
    if at_least(overall) > 0.0:
        predicted, observed = scores["mean_prob"].value, scores["base_rate"].value
        said.append(f"Predicted too {_side(overall)}: {predicted:.3f} on average, {observed:.3f} seen.")
    if at_least(worst) > 0.0:
        where = worst.note.removeprefix("at ")
        said.append(f"Probabilities of {where} are too {_side(worst)}, by {abs(worst.value):.3f}.")
    if at_least(on_top) > 0.0:
        sure, right = scores["top_prob"].value, scores["precision"].value
        said.append(f"As top label too {_side(on_top)}: {sure:.3f} sure, {right:.3f} right.")
    return " ".join(said) or "Not found off."


def _side(gap: Score) -> str:
    return "high" if gap.value > 0.0 else "low"
