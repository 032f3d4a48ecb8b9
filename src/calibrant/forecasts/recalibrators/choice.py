"""How many rounds of threshold recalibration held-out rows ask for, with fewer corrections among the candidates.

Rounds are made on all but each fold, one at a time in all folds. After each, the rows left out are scored by the mean
squared error of P(Y <= y) at 40 thresholds, a CRPS by quadrature. Rounds stop where the score has not fallen for 10 of
them; taken is the simplest candidate whose score is within half a standard error of the best, by paired differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant.forecasts.level_maps import Knots, sum_by
from calibrant.forecasts.recalibrators.rounds import (
    Regularised,
    Rounds,
    ThresholdChain,
    ThresholdRound,
    middle_thresholds,
)
from calibrant.forecasts.scores import Outcomes
from calibrant.numerics import FloatArray, IntArray

Choice: TypeAlias = Literal["none", "average", "rounds"]
CHOICES: tuple[Choice, ...] = get_args(Choice)
#: Called after each round with the number of rounds done, the most there may be, and the greatest error.
Progress: TypeAlias = Callable[[int, int, float], None]
#: Thresholds at which the CRPS of held-out rows is taken, and rounds without a better one that end the search.
_N_SCORED, _PATIENCE = 40, 10
#: A simpler candidate may be worse than the best by so many standard errors, taken from so many parts of the rows.
_TOLERANCE, _N_PARTS = 0.5, 200


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen by held-out rows, and the mean score of each candidate.

    Attributes
    ----------
    choice, n_rounds : {"none", "average", "rounds"}, int
    score_average, score_rounds : float, ndarray
        Mean squared error at the scored thresholds of the average recalibration, and of 0, 1, 2, ... rounds; of 0 it
        is that of no recalibration.
    chains, records : tuple of ThresholdChain, tuple of tuple of ThresholdRound
        What was fitted on all but each fold, up to `n_rounds`, and its rounds.
    """

    choice: Choice
    n_rounds: int
    score_average: float
    score_rounds: FloatArray
    chains: tuple[ThresholdChain, ...]
    records: tuple[tuple[ThresholdRound, ...], ...]


class _Fold:
    """Rounds on the rows that a fold keeps, and what they make of the rows that it leaves out."""

    def __init__(self, rounds: Rounds, left_out: Outcomes, scored: FloatArray) -> None:
        self.rounds = rounds
        self._n_searched = rounds.state.thresholds.size
        points = np.concatenate((rounds.state.thresholds, scored))
        self._levels = np.array(left_out.forecast.cdf(points[None, :]), dtype=np.float64, order="C")
        self._is_below = left_out.y[:, None] <= scored
        self._weight = left_out.weights
        units = left_out.units()
        code, n = (np.arange(len(left_out)), len(left_out)) if units is None else (units.code, units.n)
        self._part = code * _N_PARTS // n

    def step(self) -> bool:
        """Make a round, and map what is left out by it; return false where there is nothing to split."""
        if not self.rounds.step():
            return False
        split = self.rounds.splits[-1]
        side = (self._levels[:, split.k] > split.alpha).astype(np.int32)[:, None]
        self.rounds.maps[-1].apply(self._levels, side)
        return True

    def score(self, by: Knots | None = None) -> FloatArray:
        """Return, of each part of the rows, the sum of their mean squared errors at the scored thresholds."""
        levels = self._levels[:, self._n_searched :]
        if by is not None:
            levels = np.interp(levels, *by)
        return sum_by(self._part, self._weight * np.square(levels - self._is_below).mean(axis=1), _N_PARTS)


def choose(
    rows: Outcomes,
    thresholds: FloatArray,
    rule: Regularised,
    epsilon: float,
    fold_of: IntArray,
    most: int,
    progress: Progress | None,
) -> Chosen:
    """Choose by held-out rows: `fold_of` numbers the fold that leaves a row out, from 0 on; -1 is never left out."""
    scored = middle_thresholds(rows.y, rows.weights, _N_SCORED, 0.01, 0.99)
    folds = [
        _Fold(Rounds(rows.fitted_without(fold_of, k), thresholds, rule, epsilon), rows.take(fold_of == k), scored)
        for k in range(int(fold_of.max()) + 1)
    ]
    states = [fold.rounds.state for fold in folds]
    average = [fold.score(rule.smooth_map(s.level, s.weight)) for fold, s in zip(folds, states, strict=True)]
    scores = [[fold.score() for fold in folds]]
    totals = [float(np.sum(scores[0]))]
    while len(totals) <= most and len(totals) - int(np.argmin(totals)) <= _PATIENCE:
        stepped = [fold.step() for fold in folds]
        if not any(stepped):
            break
        scores.append([fold.score() for fold in folds])
        totals.append(float(np.sum(scores[-1])))
        if progress is not None:
            progress(len(totals) - 1, most, max(fold.rounds.greatest_error for fold in folds))
    simplest = _simplest(np.array([np.ravel(each) for each in (scores[0], average, *scores[1:])]))
    n_rounds = max(simplest - 1, 0)
    total = float(rows.weights[fold_of >= 0].sum())
    return Chosen(
        CHOICES[min(simplest, 2)],
        n_rounds,
        float(np.sum(average)) / total,
        np.array(totals) / total,
        tuple(fold.rounds.chain(n_rounds) for fold in folds),
        tuple(fold.rounds.records(n_rounds, k) for k, fold in enumerate(folds)),
    )


def _simplest(scores: FloatArray) -> int:
    """Return the first candidate that is not worse than the best by more than chance, scores having shape (c, parts).

    By paired differences, part by part: a score that hardly differs costs density for nothing.
    """
    excess = scores - scores[int(scores.sum(axis=1).argmin())]
    n = excess.shape[1]
    error = np.sqrt(np.square(excess - excess.mean(axis=1, keepdims=True)).sum(axis=1) * n / max(n - 1, 1))
    return int(np.argmax(excess.sum(axis=1) <= _TOLERANCE * error))
