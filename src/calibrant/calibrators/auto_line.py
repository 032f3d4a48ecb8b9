"""How well lines through the logits explain all rows at once, beside the scores as they are: a Bayes factor."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.logistic import LogisticProblem, minimise
from calibrant.numerics import FloatArray, dot, kish_size
from calibrant.rows import Rows

#: Slope and intercept that change nothing, which the prior is centred on.
_UNCHANGED = np.array([1.0, 0.0])
#: Standard deviation of the prior of either, chosen among .2, .3 and .5 on 23 tables of `CHOSEN_ON`, with figures of 31
#: others in sight; on both it hardly matters.
_SPREAD = 0.3
#: Logits are cut to this, far beyond where their probabilities are 0 or 1 to a float.
_MOST = 1e3


@dataclass(frozen=True, slots=True)
class _LineProblem(LogisticProblem):
    """The logistic loss of a line, less the logarithm of its prior but for a constant."""

    def value(self, theta: FloatArray) -> float:
        off = (theta - _UNCHANGED) / _SPREAD
        return LogisticProblem.value(self, theta) + 0.5 * dot(off, off)

    def units(self) -> FloatArray:
        of_prior = 1.0 / (_SPREAD**2 * float(self.weight.sum()))
        return np.sqrt(LogisticProblem.units(self) ** 2 + of_prior)

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        gradient, hessian, spread = LogisticProblem.derivatives(self, theta)
        return gradient + (theta - _UNCHANGED) / _SPREAD**2, hessian + np.eye(2) / _SPREAD**2, spread


def log_bayes_factor(logits: FloatArray, rows: Rows) -> float:
    """Return the logarithm of the likelihood's mean over lines, less that of the logits of the rows as they are.

    Slope and intercept are normal beforehand, around those that change nothing. The mean is taken by Laplace's method
    (Tierney and Kadane 1986, *Accurate approximations for posterior moments and marginal densities*, JASA 81). Rows of
    unequal weight count as Kish's effective number of rows.
    """
    logits = np.clip(logits, -_MOST, _MOST)
    weight = rows.weights * (kish_size(rows.weights) / rows.total_weight)
    columns = np.stack((logits, np.ones_like(logits)))
    problem = _LineProblem(columns, weight, np.where(rows.positive, weight, 0.0))
    best = minimise(problem, what="line through the logits", start=_UNCHANGED)
    spread = np.linalg.det(problem.derivatives(best)[1] * _SPREAD**2)
    return problem.value(_UNCHANGED) - problem.value(best) - 0.5 * math.log(spread)
