"""A test of calibration by betting against the probabilities: an e-value, valid at any sample size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from calibrant.maps import StepMap
from calibrant.metrics.estimates import measured_rows
from calibrant.numerics import FloatArray
from calibrant.readable import Readable
from calibrant.rows import Rows
from calibrant.summary import DistinctScores, ScoreSummary
from calibrant.validation import ArrayLike, as_generator, check_integer

#: Shares of the stake that are put on the recalibrated probabilities, the rest being kept; averaged over.
STAKES = (0.1, 0.4, 0.9)


@dataclass(frozen=True, slots=True, repr=False)
class EValueTest(Readable):
    """The outcome of a test by betting.

    Attributes
    ----------
    e_value : float
        What one unit of money has become. If the probabilities are calibrated its expectation is at most 1, so it
        exceeds 1 / a with a chance of at most a, whatever the number of rows.
    log_e_value : float
        Its natural logarithm, which doesn't overflow.
    p_value : float
        min(1, 1 / e_value): a valid p-value, by Markov's inequality.
    """

    e_value: float
    log_e_value: float
    p_value: float


class _Half(NamedTuple):
    """Weight and weighted positives at each distinct score of some of the rows."""

    weight: FloatArray
    positives: FloatArray


def calibration_e_value(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_splits: int = 1,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    rng: int | np.random.Generator | None = 0,
) -> EValueTest:
    """Test calibration by betting on probabilities that were recalibrated on other rows.

    Parameters
    ----------
    y_true, y_prob, pos_label, classes
        As in `evaluate`; of several classes the top label is judged.
    n_splits : int
        Number of random splits into halves that the e-value is averaged over. More make it depend less on the seed.
    sample_weight : array-like of shape (n,), optional
        The stake on each row, relative to the largest weight; the scale of the weights changes nothing, and a weight
        of zero counts as no row.
    rng : int, Generator or None
        Seed of the splits: the same seed gives the same numbers. Don't choose among seeds by the result.

    Returns
    -------
    EValueTest

    Notes
    -----
    Rows are split at random into halves. On one half an isotonic regression gives q, with one more row at the mean
    probability in each of its blocks, so that nothing is staked in full. On each row of the other half the stake
    grows by the factor 1 - s + s q(y) / p(y), where p(y) and q(y) are the probabilities of what happened. If rows are
    independent and p is calibrated, each factor has expectation 1, and so has their product. The products are
    averaged over both halves, the splits and the shares s = 0.1, 0.4, 0.9; an average of e-values is one. A factor to
    the power w <= 1 has expectation at most 1, which is what weights do.

    The guarantee holds for any number of rows, unlike that of the other tests here; the price is power. E-values of
    separate batches, such as days, multiply to an e-value of all of them, and one may stop looking whenever one
    likes: the chance that the product ever exceeds 20 is at most 0.05 (Ville's inequality). An e-value below 1 is no
    evidence for calibration.

    References
    ----------
    Dimitriadis, Henzi, Puke and Ziegel (2022), *A safe Hosmer-Lemeshow test*, arXiv:2203.00426. Wasserman, Ramdas and
    Balakrishnan (2020), *Universal inference*, PNAS 117, for the split.

    Examples
    --------
    >>> from calibrant.metrics import calibration_e_value
    >>> calibration_e_value([0, 1] * 50, [0.5, 0.5] * 50).p_value
    1.0
    >>> calibration_e_value([0, 1, 1, 1] * 50, [0.5, 0.5, 0.5, 0.5] * 50).p_value < 0.001
    True
    """
    check_integer("n_splits", n_splits, minimum=1)
    generator = as_generator(rng)
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    column = rows.one_column()
    if column.weight is not None and column.weight.min() == column.weight.max():
        column = replace(column, weight=None)  # the same split on any scale of the weights
    summary = column.summary()
    gains: list[float] = []
    for _ in range(n_splits):
        left, right = _split(column, summary, generator)
        gains += _log_gains(summary.scores, left, right) + _log_gains(summary.scores, right, left)
    largest = max(gains)
    log_e = largest
    if not math.isinf(largest):
        log_e += math.log(math.fsum(math.exp(gain - largest) for gain in gains) / len(gains))
    return EValueTest(math.exp(log_e) if log_e < 709.0 else math.inf, log_e, min(1.0, math.exp(-max(log_e, 0.0))))


def _split(column: Rows, summary: ScoreSummary, rng: np.random.Generator) -> tuple[_Half, _Half]:
    """Give each row to one of two halves by the toss of a coin; whatever the order of the rows."""
    scores, weight, _, positives = summary.distinct
    if column.weight is None:
        n_positive = rng.binomial(positives.astype(np.int64), 0.5).astype(np.float64)
        n_negative = rng.binomial((weight - positives).astype(np.int64), 0.5).astype(np.float64)
        left = _Half(n_positive + n_negative, n_positive)
        return left, _Half(weight - left.weight, positives - left.positives)
    order = np.lexsort((column.weight, column.positive, column.scores))
    stake = column.weight[order] / column.weight.max()
    hits = np.where(column.positive[order], stake, 0.0)
    place = np.searchsorted(scores, column.scores[order])
    is_left = rng.random(order.size) < 0.5
    left, right = (
        _Half(*(np.bincount(place[half], values[half], scores.size).astype(np.float64) for values in (stake, hits)))
        for half in (is_left, ~is_left)
    )
    return left, right


def _log_gains(p: FloatArray, known: _Half, bet: _Half) -> list[float]:
    """Return the logarithm of what each share of the stake gains on one half by what the other half knows."""
    seen = known.weight > 0.0
    if not seen.any():
        return [0.0] * len(STAKES)
    weight, positives = known.weight[seen], np.minimum(known.positives[seen], known.weight[seen])
    q = recalibrated(DistinctScores(p[seen], weight, weight, positives), p)
    return [float(gain) for gain in log_gains(p, q, bet.positives, np.maximum(bet.weight - bet.positives, 0.0))]


def recalibrated(known: DistinctScores, p: FloatArray) -> FloatArray:
    """Return the isotonic regression of known rows at `p`, with one more row at the mean score in each block."""
    blocks = ScoreSummary(known).isotonic_blocks()
    first = np.searchsorted(known.scores, blocks.first)
    mean = np.add.reduceat(known.weight * known.scores, first) / blocks.weight
    level = (blocks.positives + mean) / (blocks.weight + 1.0)
    return StepMap(blocks.last[:-1], level).apply(p)


def log_gains(p: FloatArray, q: FloatArray, wins: FloatArray, losses: FloatArray) -> FloatArray:
    """Return the logarithm of what each of `STAKES` gains by bets on `q` against `p`.

    `wins` and `losses` are the weights of the rows with and without the event at each probability.
    """
    gains = np.zeros(len(STAKES))
    for weight, before, after in ((wins, p, q), (losses, 1.0 - p, 1.0 - q)):
        held = weight > 0.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = after[held] / before[held]
            ratio[np.isnan(ratio)] = 1.0  # 0 / 0: both say that it can't happen
            gains += [float(np.sum(weight[held] * np.log1p(stake * (ratio - 1.0)))) for stake in STAKES]
    return gains
