"""Bets against probabilities: how the past is turned into other ones, and what a bet on them gains.

A row with probability p and the bettor's probability q multiplies a stake s by F = 1 + s (q(y) / p(y) - 1), where p(y)
and q(y) are those of what happened. Where p is right given all that q was made from, F has expectation 1. Of rows that
may depend on each other in any way, the product has not, but the mean of F - 1 still has expectation 0: such rows, a
unit, multiply the stake by 1 + s k mean(F - 1) with k as large as their number where no outcome can then lose more than
s. A row that is its own unit is bet on as above.
"""

from __future__ import annotations

import numpy as np

from calibrant.metrics import STAKES, log_gains, recalibrated
from calibrant.numerics import BoolArray, FloatArray, IntArray, clip_open, dot, expit, logit
from calibrant.quantised import LEAST_BITS, CellTable
from calibrant.summary import DistinctScores, ScoreSummary

#: Weight that what was known keeps when a window is added, for each memory of the past.
MEMORIES = (1.0, 0.7)
#: How the past is turned into other probabilities.
METHODS = ("isotonic", "shift")
#: One for each share of the stake, memory and method.
N_BETTORS = len(MEMORIES) * len(METHODS) * len(STAKES)
#: Cells of the past that are kept apart; beyond that, neighbours are gathered.
_MOST_CELLS = 4096
_CLIP = 1e-9
_NEWTON_STEPS = 50
_LARGEST_STEP = 4.0
_SETTLED = 1e-10
#: Weight of a row that is drawn towards no shift.
_PRIOR_ROWS = 4.0


def window_gains(memory: DistinctScores | None, window: ScoreSummary) -> FloatArray:
    """Return the logarithm of what each method and stake gains on independent rows; nothing is bet without a past."""
    if memory is None:
        return np.zeros(len(METHODS) * len(STAKES))
    p, wins = window.scores, window.positives
    losses = np.maximum(window.weight - wins, 0.0)
    return np.concatenate([log_gains(p, q, wins, losses) for q in _others(memory, p)])


def unit_gains(
    memory: DistinctScores, p: FloatArray, positive: BoolArray, weight: FloatArray, unit: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the logarithm of what each method and stake gains on each unit, and of the least that it can gain.

    `unit` numbers the units of the rows from 0; weights are at most 1. The results have shape (n_bettors, n_units).
    """
    size = np.bincount(unit).astype(np.float64)
    found, least = [], []
    for q in _others(memory, p):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            win, loss = q / p - 1.0, (1.0 - q) / (1.0 - p) - 1.0
        win[np.isnan(win)] = 0.0  # 0 / 0: both say that it can't happen
        loss[np.isnan(loss)] = 0.0
        gained = np.bincount(unit, weights=weight * np.where(positive, win, loss)) / size
        lost = np.bincount(unit, weights=weight * np.minimum(win, loss)) / size
        lever = 1.0 / np.maximum(-lost, 1.0 / size)
        found += [np.log1p(stake * lever * gained) for stake in STAKES]
        least += [np.log1p(stake * lever * lost) for stake in STAKES]
    return np.array(found), np.array(least)


def remember(memory: DistinctScores | None, window: DistinctScores, kept: float) -> DistinctScores:
    """Return a memory of the past with further rows; what was known keeps the share `kept` of its weight."""
    cells = window
    if memory is not None:
        parts = zip(DistinctScores(memory[0], *(kept * column for column in memory[1:])), window, strict=True)
        scores, weight, squared, positives = (np.concatenate(pair) for pair in parts)
        cells = ScoreSummary.from_cells(scores, weight, np.minimum(positives, weight), weight_squared=squared).distinct
    if cells.scores.size <= _MOST_CELLS:
        return cells
    table = CellTable.empty(LEAST_BITS, is_probability=True)
    table.add_distinct(cells)
    return table.summary().distinct


def _others(memory: DistinctScores, p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the probabilities by which each method replaces `p`."""
    return recalibrated(memory, p), _shifted(memory, p)


def _shifted(memory: DistinctScores, p: FloatArray) -> FloatArray:
    """Shift the logits of `p` by what brings the past's mean probability to its rate, drawn towards nothing."""
    z = logit(clip_open(memory.scores, _CLIP))
    shift = 0.0
    for _ in range(_NEWTON_STEPS):
        q = expit(z + shift)
        slope = dot(memory.weight, q) - float(memory.positives.sum()) + _PRIOR_ROWS * 0.25 * shift
        bend = dot(memory.weight, q * (1.0 - q)) + _PRIOR_ROWS * 0.25
        step = max(-_LARGEST_STEP, min(_LARGEST_STEP, slope / bend))
        shift -= step
        if abs(step) < _SETTLED:
            break
    moved = expit(logit(clip_open(p, _CLIP)) + shift)
    return np.where((p > 0.0) & (p < 1.0), moved, p)
