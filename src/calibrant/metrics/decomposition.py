"""The CORP decomposition of a proper score into miscalibration, discrimination and uncertainty, with intervals."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from calibrant.dependent_rows import with_effect
from calibrant.errors import InvalidInputError
from calibrant.maps import StepMap
from calibrant.metrics.estimates import Column, Estimate, Mean, mean_of, measured_rows, rate_estimate
from calibrant.metrics.proper_scores import Losses, LossFunction, brier_losses, log_losses, loss_parts, mean_loss
from calibrant.numerics import FloatArray, IntArray, dot, normal_quantile
from calibrant.readable import Readable
from calibrant.rows import Rows
from calibrant.summary import Blocks, ScoreSummary, TiedScores, equal_mass_starts
from calibrant.validation import ArrayLike, check_choice

ScoreName: TypeAlias = Literal["brier", "log"]
_LOSSES: dict[ScoreName, LossFunction] = {"brier": brier_losses, "log": log_losses}
#: Rows whose labels are drawn in all refits of a decomposition together, and the bounds of the number of refits.
_DRAWN_ROWS = 4_000_000
_REFITS = (10, 200)
#: Ties of more rows than this have their labels drawn at once.
_ROWS_PER_TIE = 4
#: Ties of the draws that are refitted together: what they need stays in cache.
_TOGETHER = 1 << 17


@dataclass(frozen=True, slots=True, repr=False)
class Decomposition(Readable):
    """A mean score in three parts: score = miscalibration - discrimination + uncertainty.

    Attributes
    ----------
    miscalibration : float
        What recalibrating by isotonic regression would save; 0 where it changes nothing.
    discrimination : float
        What the recalibrated probabilities save against predicting the base rate for all rows.
    uncertainty : float
        The score of the base rate: a property of the outcomes alone.
    score : float
        The mean score of the probabilities as they are.
    """

    miscalibration: float
    discrimination: float
    uncertainty: float
    score: float


def decompose(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    score: ScoreName = "brier",
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> Decomposition:
    """Split the Brier score or log loss into miscalibration, discrimination and uncertainty.

    Parameters
    ----------
    y_true, y_prob, sample_weight, pos_label, classes
        As in `evaluate`; of several classes the Brier score of each column against the rest is split, and the parts
        are summed over the classes.
    score : {"brier", "log"}
        The score to split; "log" is for one column.

    Returns
    -------
    Decomposition

    Notes
    -----
    The recalibrated probabilities are the isotonic regression of the outcomes on the probabilities: no bins to
    choose, and no part is negative. It is fitted to the rows that it is judged on, so miscalibration and
    discrimination are both biased upward, by the same amount, which falls about as n^(-2/3).

    Log loss and with it miscalibration are infinite where something happened that had probability 0.

    References
    ----------
    Dimitriadis, Gneiting and Jordan (2021), *Stable reliability diagrams for probabilistic classifiers*, PNAS 118.

    Examples
    --------
    >>> from calibrant.metrics import decompose
    >>> parts = decompose([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9])
    >>> round(parts.miscalibration, 4), parts.discrimination, parts.uncertainty
    (0.1017, 0.125, 0.25)
    """
    check_choice("score", score, get_args(ScoreName))
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    losses = _LOSSES[score]
    if rows.is_binary:
        return split(rows.one_column().summary(), losses)
    if score == "log":
        raise InvalidInputError(
            f'score="log" is for one column, but y_prob has {rows.n_classes}: the log loss of K classes is no sum over '
            'columns. Use score="brier", or pass one column and binary labels.'
        )
    return sum_of([split(rows.of_class(k).summary(), losses) for k in range(rows.n_classes)])


def split(summary: ScoreSummary, losses: LossFunction, blocks: Blocks | None = None) -> Decomposition:
    """Split the mean loss of the rows of a summary, whose isotonic blocks may be given."""
    blocks = summary.isotonic_blocks() if blocks is None else blocks
    ties = summary.tied()
    score = mean_loss(ties, losses(ties.scores))
    recalibrated = mean_loss(TiedScores(blocks.rate, blocks.weight, blocks.positives), losses(blocks.rate))
    base_rate = np.array([summary.base_rate])
    everything = TiedScores(base_rate, np.array([summary.total_weight]), np.array([summary.total_positives]))
    uncertainty = mean_loss(everything, losses(base_rate))
    # rounding must not make a saving of nothing negative
    return Decomposition(max(score - recalibrated, 0.0), max(uncertainty - recalibrated, 0.0), uncertainty, score)


def sum_of(parts: list[Decomposition]) -> Decomposition:
    """Sum decompositions part by part."""
    return Decomposition(*map(sum, zip(*map(astuple, parts), strict=True)))


class Excess(NamedTuple):
    """What noise adds to a part of a score: mean, standard deviation, and the mean if rows were independent."""

    value: float
    error: float
    least: float


class Overfit(NamedTuple):
    """What noise adds to miscalibration and to discrimination."""

    miscalibration: Excess
    discrimination: Excess


@dataclass(frozen=True, slots=True, eq=False)
class ClassParts:
    """One class's decomposition, its overfit, and what gives each row's share of both parts."""

    decomposition: Decomposition
    overfit: Overfit
    refit: StepMap
    base_rate: float
    smooth_base_rate: float

    def of_rows(self, own: Rows) -> tuple[FloatArray, FloatArray]:
        """Return what recalibration saves, and what the base rate loses, on each row."""
        refitted = (self.refit.apply(own.scores) - own.positive) ** 2
        return (own.scores - own.positive) ** 2 - refitted, (self.base_rate - own.positive) ** 2 - refitted


def decomposition_estimates(column: Column) -> dict[str, Estimate]:
    """Estimate miscalibration, discrimination and uncertainty of the Brier score of one column.

    Miscalibration is [S(p) - S(t)] + [S(t) - S(q)], with t the true rate at each probability and q the fitted one.
    The first difference is a mean over rows whose spread the fitted rates give: to first order they may stand in for
    the true ones, because t minimises the expected score. The second is the overfit, never negative, whose mean and
    spread come from a parametric bootstrap. Discrimination is S(r) - S(q) likewise, with r the base rate.

    How much rows that are not independent overfit depends on whether those that share something have like scores. The
    ends go by both extremes: the overfit of independent rows, and that of as many fewer as the design effect says.
    """
    summary, level = column.summary, column.level
    blocks, overfit = _fit(column, 1)
    ties = summary.tied()
    refitted = brier_losses(np.repeat(blocks.rate, _scores_in(blocks, summary.scores)))
    saved = _minus(brier_losses(summary.scores), refitted)
    gained = _minus(brier_losses(np.full(summary.scores.size, summary.base_rate)), refitted)
    at_mean = _minus(brier_losses(column.mean_prob), brier_losses(np.array([smooth_base_rate(summary)])))
    spreads = (
        mean_of(loss_parts(ties, saved), column.size, extra=np.concatenate(at_mean)),
        mean_of(loss_parts(ties, gained), column.size, extra=np.zeros(1)),
    )
    return {
        **_part_estimates(split(summary, brier_losses, blocks), spreads, overfit, level, 1),
        "uncertainty": uncertainty_estimate(summary, level),
    }


def class_parts(column: Column, n_classes: int) -> ClassParts:
    """Decompose one of K classes against the rest."""
    summary = column.summary
    blocks, overfit = _fit(column, n_classes)
    split_up = split(summary, brier_losses, blocks)
    return ClassParts(split_up, overfit, refit_of(blocks), summary.base_rate, smooth_base_rate(summary))


def refit_of(blocks: Blocks) -> StepMap:
    """Return the rate of each isotonic block as a function of the score."""
    return StepMap(blocks.last[:-1], blocks.rate)


def sum_estimates(classes: list[ClassParts], spreads: tuple[Mean, Mean], level: float) -> dict[str, Estimate]:
    """Estimate the sums of the parts over classes; `spreads` are what recalibration saves and gains by row.

    Standard deviations of overfits add up as if the classes' noise were one and the same, the worst case.
    """
    overfits = zip(*(each.overfit for each in classes), strict=True)
    overfit = Overfit(*(Excess(*map(sum, zip(*each, strict=True))) for each in overfits))
    return _part_estimates(sum_of([each.decomposition for each in classes]), spreads, overfit, level, len(classes))


def uncertainty_of_classes(rates: FloatArray, size: float, level: float) -> Estimate:
    """Estimate the sum of r (1 - r) over the base rates r of K classes, seen in `size` independent rows.

    With S the covariance of one row's class, the estimate is U = tr S, its bias -U / n, and its variance
    4 r'S r / n + 2 tr(S S) / n^2, to second order: near equal rates the first term vanishes. The ends hold U, and can't
    exceed the value of equal rates.
    """
    powers = [float(np.sum(rates**k)) for k in (2, 3)]
    value = 1.0 - powers[0]
    slope, bend = powers[1] - powers[0] ** 2, powers[0] - 2.0 * powers[1] + powers[0] ** 2
    half = normal_quantile(level) * math.sqrt(max(4.0 * slope / size + 2.0 * bend / size**2, 0.0))
    centre = value * (1.0 + 1.0 / size)
    high = max(value, min(centre + half, 1.0 - 1.0 / rates.size))
    return Estimate(value, max(min(centre - half, value), 0.0), high, "normal (second order)")


def _part_estimates(
    parts: Decomposition, spreads: tuple[Mean, Mean], overfit: Overfit, level: float, n_columns: int
) -> dict[str, Estimate]:
    """Estimate miscalibration and discrimination, given means with their standard errors, and the overfit in both.

    They are at most the greatest Brier score, and that of the base rate, of one column or of all classes.
    """
    most = (1.0, 0.25) if n_columns == 1 else (2.0, 1.0 - 1.0 / n_columns)
    return {
        "miscalibration": _corrected(parts.miscalibration, spreads[0].error, overfit.miscalibration, level, most[0]),
        "discrimination": _corrected(parts.discrimination, spreads[1].error, overfit.discrimination, level, most[1]),
    }


def uncertainty_estimate(summary: ScoreSummary, level: float) -> Estimate:
    """Estimate r (1 - r) of the base rate r, with the values that it takes in Wilson's interval of r."""
    rate = rate_estimate(summary.base_rate, summary.effective_size, level)
    ends = (rate.low * (1.0 - rate.low), rate.high * (1.0 - rate.high))
    high = 0.25 if rate.low <= 0.5 <= rate.high else max(ends)
    return Estimate(rate.value * (1.0 - rate.value), min(ends), high, "Wilson, mapped")


def smooth_base_rate(summary: ScoreSummary) -> float:
    """Return the base rate with one event and one non-event added: never 0 or 1, where noise would not show."""
    return (summary.base_rate * summary.effective_size + 1.0) / (summary.effective_size + 2.0)


def _fit(column: Column, n_classes: int) -> tuple[Blocks, Overfit]:
    """Fit isotonic blocks, and measure their overfit."""
    blocks = column.summary.isotonic_blocks()
    draws = _drawn_overfit(column.summary, blocks, n_classes, column.rng)
    least = draws
    if column.effect != 1.0:
        least = _drawn_overfit(with_effect(column.summary, 1.0 / column.effect), blocks, n_classes, column.rng)
    parts = (Excess(*found, min(other.value, found.value)) for found, other in zip(draws, least, strict=True))
    return blocks, Overfit(*parts)


def _scores_in(blocks: Blocks, scores: FloatArray) -> IntArray:
    """Return the number of the sorted scores that lie in each block."""
    return np.diff(np.append(np.searchsorted(scores, blocks.first), scores.size))


def _drawn_overfit(
    summary: ScoreSummary, blocks: Blocks, n_classes: int, rng: np.random.Generator
) -> tuple[Mean, Mean]:
    """Return what noise adds to miscalibration and discrimination, refitted to the ties that the blocks are made of.

    The rates that labels are drawn from are those of the blocks with one row at the base rate added to each.
    """
    tied = ScoreSummary(summary.near_ties)
    size = blocks.weight * (tied.effective_size / tied.total_weight)
    rate = np.maximum.accumulate((blocks.rate * size + smooth_base_rate(tied)) / (size + 1.0))
    n_draws = min(max(int(_DRAWN_ROWS / (n_classes * tied.effective_size)), _REFITS[0]), _REFITS[1])
    return _overfit(tied, np.repeat(rate, _scores_in(blocks, tied.scores)), n_draws, rng)


def _overfit(summary: ScoreSummary, true_rate: FloatArray, n_draws: int, rng: np.random.Generator) -> tuple[Mean, Mean]:
    """Draw labels from rates, refit, and measure how far the refit's Brier score lies below that of the rates.

    The labels are of as many rows as there are effectively: neighbouring scores that together weigh less than one
    share a row. Coarser bins would hide overfit.
    """
    weight, truth = summary.weight, true_rate
    if not np.array_equal(summary.weight, summary.weight_squared):
        first = equal_mass_starts(summary.weight, max(1, round(summary.effective_size)))
        weight = np.add.reduceat(summary.weight, first)
        truth = np.clip(np.add.reduceat(summary.weight * true_rate, first) / weight, 0.0, 1.0)
    size = np.maximum(np.rint(weight / summary.total_weight * summary.effective_size), 1.0).astype(np.int64)
    is_count = np.array_equal(weight, size)  # whole numbers, of which less is computed
    found = []
    step = max(1, _TOGETHER // size.size)
    for done in range(0, n_draws, step):
        hits = np.array([draw_hits(size, truth, rng) for _ in range(done, min(done + step, n_draws))])
        found.append(refit_gains(hits if is_count else hits * (weight / size), weight, truth))
    excess, shift = (np.concatenate(each) / summary.total_weight for each in zip(*found, strict=True))
    return _mean_of_draws(excess), _mean_of_draws(excess - shift**2)


def refit_gains(positives: npt.NDArray[Any], weight: FloatArray, truth: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return by how much each draw's refit has a lower Brier score than the true rates, and its positives less theirs.

    `positives`, shape (draws, m), is the weight of the positives in each of m sorted groups of this `weight`, and the
    refit is the isotonic regression on their rates. Both are weighted sums over the groups, shape (draws,).

    Adjacent groups whose rates do not rise share a block of the answer, whatever the others are, so that all such runs
    of all draws are pooled at once, round after round. Few rounds are left after the first, and few blocks.
    """
    n_draws, m = positives.shape
    is_even = bool((weight == weight[0]).all())
    left, right = positives[:, :-1], positives[:, 1:]
    is_start = np.ones((n_draws, m), dtype=np.bool_)
    is_start[:, 1:] = left < right if is_even else left * weight[1:] < right * weight[:-1]
    start = np.flatnonzero(is_start)
    is_first = start % m == 0
    sums = _up_to(positives)
    mass = None if is_even else _up_to(np.broadcast_to(weight, (n_draws, m)))
    while True:
        end = np.append(start[1:], n_draws * m)
        w = (end - start) * weight[0] if mass is None else mass[end] - mass[start]
        p = sums[end] - sums[start]
        rises = np.append(True, p[:-1] * w[1:] < p[1:] * w[:-1]) | is_first
        if rises.all():
            break
        start, is_first = start[rises], is_first[rises]
    # mean (truth - labels)^2 less mean (refit - labels)^2, where the mean of labels * refit is that of refit^2
    gain = np.add.reduceat(p * p / w, np.flatnonzero(is_first))
    gain += dot(weight * truth, truth) - 2.0 * np.sum(positives * truth, axis=1)
    return gain, positives.sum(axis=1) - dot(weight, truth)


def _up_to(values: npt.NDArray[Any]) -> FloatArray:
    """Return the sum of all values before each place of a flattened array, and of all."""
    out = np.zeros(values.size + 1)
    np.cumsum(values, dtype=np.float64, out=out[1:])
    return out


def draw_hits(size: IntArray, truth: FloatArray, rng: np.random.Generator) -> npt.NDArray[np.integer[Any]]:
    """Draw the number of positives in each tie: row by row, or at once where rows are many more than ties."""
    n_rows = int(size.sum())
    if n_rows > max(_DRAWN_ROWS, _ROWS_PER_TIE * size.size):
        return np.asarray(rng.binomial(size, truth), dtype=np.int64)
    if n_rows == size.size:
        return (rng.random(n_rows) < truth).view(np.int8)
    is_hit = rng.random(n_rows) < np.repeat(truth, size)
    return np.add.reduceat(is_hit, np.cumsum(size) - size, dtype=np.int64)


def _mean_of_draws(draws: FloatArray) -> Mean:
    """Return the mean of simulated values and the spread of one more about it."""
    return Mean(float(np.mean(draws)), float(np.std(draws, ddof=1)) * math.sqrt(1.0 + 1.0 / draws.size))


def _corrected(part: float, error: float, overfit: Excess, level: float, most: float) -> Estimate:
    """Return a normal interval around the part without its overfit, up to `most`, stretched to hold the part."""
    half = normal_quantile(level) * math.hypot(error, overfit.error)
    low, high = max(min(part - overfit.value - half, part), 0.0), max(min(part - overfit.least + half, most), part)
    return Estimate(part, low, high, "CLT less bootstrapped overfit")


def _minus(a: Losses, b: Losses) -> Losses:
    return Losses(a.if_positive - b.if_positive, a.if_negative - b.if_negative)
