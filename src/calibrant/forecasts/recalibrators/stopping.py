"""How many rounds: by the CRPS of held-out rows, with no recalibration and the average one among the candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant import kernels
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import Outcomes
from calibrant.forecasts.recalibrators.layers import OneMap, ThresholdChain
from calibrant.forecasts.recalibrators.level_maps import smooth_map, sum_groups
from calibrant.forecasts.recalibrators.rounds import Rounds, Smooth
from calibrant.forecasts.recalibrators.search_state import SearchState, levels_at, middle_thresholds, outcome_levels
from calibrant.numerics import FloatArray, IntArray

Choice: TypeAlias = Literal["none", "average", "rounds"]
CHOICES: tuple[Choice, ...] = get_args(Choice)
#: Called after each round with the number of rounds done, the most there may be, and the greatest error.
Progress: TypeAlias = Callable[[int, int, float], None]
#: Thresholds at which the CRPS of held-out rows is taken.
_N_SCORED = 40
#: Rounds without a better held-out score after which no more are tried.
_PATIENCE = 40
#: A simpler candidate is taken where it is worse than the best by at most this many standard errors.
_TOLERANCE = 0.5
#: Parts of the held-out rows from which standard errors are taken.
_N_PARTS = 200
#: Least and greatest number of folds, and the rows at which the least is used: few rows can spare only few.
_FOLDS = (5, 20)
_ROWS_OF_LEAST = 1_000


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen by held-out rows, and the mean score of each candidate.

    Attributes
    ----------
    choice : {"none", "average", "rounds"}
    n_rounds : int
    score_average : float
        Mean squared error at the scored thresholds of the average recalibration.
    score_rounds : ndarray
        That of 0, 1, 2, ... rounds; of 0 it is that of no recalibration.
    chains : tuple of ThresholdChain
        What was fitted on all but each fold, up to `n_rounds`.
    """

    choice: Choice
    n_rounds: int
    score_average: float
    score_rounds: FloatArray
    chains: tuple[ThresholdChain, ...]


class HeldOut:
    """Rows that a fold left out: their probabilities at the fold's thresholds and at those that are scored."""

    def __init__(self, rows: Outcomes, thresholds: FloatArray, scored: FloatArray) -> None:
        self._n_asked = thresholds.size
        self._levels = levels_at(rows.forecast, np.concatenate((thresholds, scored)))
        self._is_below = rows.y[:, None] <= scored
        self._weight = rows.weights
        self._part = np.arange(rows.y.size) * _N_PARTS // rows.y.size

    def push(self, fitted: Rounds[SearchState]) -> None:
        """Go through the latest round of a fit."""
        split = fitted.splits[-1]
        index = fitted.chain_of_last().index
        side = (self._levels[:, split.k] > split.alpha).astype(np.int32)[:, None]
        kernels.push_levels(self._levels, side, index.start, index.cell_start, *index.knots, index.cells)

    def score(self, by: OneMap | None = None) -> FloatArray:
        """Return, of each part of the rows, the sum of their mean squared errors at the scored thresholds."""
        levels = self._levels[:, self._n_asked :]
        if by is not None:
            levels = np.interp(levels, by.x, by.y)
        of_rows = self._weight * np.square(levels - self._is_below).mean(axis=1)
        return sum_groups(self._part, of_rows, _N_PARTS)


def choose(
    rows: Outcomes,
    thresholds: FloatArray,
    rule: Smooth,
    epsilon: float,
    folds: IntArray,
    most: int,
    progress: Progress | None,
) -> Chosen:
    """Fit on all but each fold, a round at a time in all of them, and score what each leaves out.

    `folds` numbers the fold that leaves a row out, from 0 on; -1 is never left out.
    """
    scored = middle_thresholds(rows.y, rows.weights, _N_SCORED, 0.01, 0.99)
    fits: list[Rounds[SearchState]] = []
    tests: list[HeldOut] = []
    average: list[FloatArray] = []
    for fold in range(int(folds.max()) + 1):
        kept, left = pick(rows, folds != fold), pick(rows, folds == fold)
        weight = kept.weights
        fits.append(Rounds(SearchState(kept.forecast, kept.y, weight, thresholds), rule, epsilon))
        tests.append(HeldOut(left, thresholds, scored))
        u = outcome_levels(kept.forecast, kept.y)
        average.append(tests[-1].score(OneMap(*smooth_map(u, weight, rule.n_knots, rule.pseudo_counts))))
    scores = [[test.score() for test in tests]]
    totals = [float(np.sum(scores[0]))]
    while len(totals) <= most and len(totals) - int(np.argmin(totals)) <= _PATIENCE:
        stepped = [fit.step() for fit in fits]
        if not any(stepped):
            break
        for fit, test, has_stepped in zip(fits, tests, stepped, strict=True):
            if has_stepped:
                test.push(fit)
        scores.append([test.score() for test in tests])
        totals.append(float(np.sum(scores[-1])))
        if progress is not None:
            progress(len(totals) - 1, most, max(fit.greatest_error for fit in fits))
    by_part = np.array([np.ravel(s) for s in (scores[0], average, *scores[1:])])
    simplest = _simplest(by_part)
    choice: Choice = "none" if simplest == 0 else "average" if simplest == 1 else "rounds"
    n_rounds = max(simplest - 1, 0)
    chains = tuple(fit.chain().first(min(n_rounds, len(fit.records))) for fit in fits)
    total = float(rows.weights[folds >= 0].sum())
    return Chosen(choice, n_rounds, float(np.sum(average)) / total, np.array(totals) / total, chains)


def _simplest(scores: FloatArray) -> int:
    """Return the first candidate that is not worse than the best by more than chance, scores having shape (c, parts).

    By paired differences, part by part: a score that hardly differs costs density for nothing.
    """
    excess = scores - scores[int(scores.sum(axis=1).argmin())]
    n = excess.shape[1]
    error = np.sqrt(np.square(excess - excess.mean(axis=1, keepdims=True)).sum(axis=1) * n / max(n - 1, 1))
    return int(np.argmax(excess.sum(axis=1) <= _TOLERANCE * error))


def pick(rows: Outcomes, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Outcomes:
    """Return some of the rows."""
    weight = None if rows.weight is None else rows.weight[kept]
    return Outcomes(take(rows.forecast, kept), rows.y[kept], weight)


def take(forecast: Forecast, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Forecast:
    """Return the forecast of some rows, of which there may be none."""
    return forecast._take(np.flatnonzero(kept))


def dealt_folds(n: int, n_folds: int | None, seed: int) -> IntArray:
    """Return the fold of each row, dealt out at random; None stands for 5 folds, or more for less than 1,000 rows."""
    least, most = _FOLDS
    if n_folds is None:
        n_folds = min(max(least * _ROWS_OF_LEAST // n, least), most)
    n_folds = min(n_folds, n)
    return np.random.default_rng(seed).permutation(n) % n_folds


def one_part(n: int, share: float, seed: int) -> IntArray:
    """Return 0 for a random share of the rows, at least one, and -1 for the others."""
    part = np.full(n, -1, dtype=np.int64)
    part[np.random.default_rng(seed).permutation(n)[: max(round(share * n), 1)]] = 0
    return part
