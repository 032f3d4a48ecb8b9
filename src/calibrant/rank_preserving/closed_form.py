"""The feasible point that needs no search: a mixture of the matrix and one row."""

from __future__ import annotations

import numpy as np

from calibrant.numerics import FloatArray
from calibrant.rank_preserving.problem import Problem


def closed_form(problem: Problem, *, share: float = 1.0) -> FloatArray:
    """Return the sorted columns of a + c P, see `closed_line`."""
    constant, slope = closed_line(problem, share=share)
    q: FloatArray = slope * problem.p
    q += constant[:, None]
    return np.maximum(q, 0.0, out=q)


def closed_line(problem: Problem, *, share: float = 1.0) -> tuple[FloatArray, float]:
    """Return a and c of a + c P, with `share` of the largest c in [0, 1] that leaves no entry negative.

    Notes
    -----
    The margins fix a_j = (M_j - c sum_i w_i P_ij) / sum_i w_i, and sum_j a_j = 1 - c follows. Every order is kept,
    strictly while c > 0; c = 0, equal rows, is feasible whatever P is. So margins that are not negative and sum to
    the weight of the rows are never at odds with the order.
    """
    total = problem.total
    mean = np.array([np.average(p, weights=problem.weight[o]) for p, o in zip(problem.p, problem.order, strict=True)])
    rate = problem.margins / total
    spread = mean - problem.p[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.where(spread > 0.0, rate / spread, np.inf)
    c = share * min(1.0, float(largest.min()))
    constant: FloatArray = rate - c * mean
    return constant, c
