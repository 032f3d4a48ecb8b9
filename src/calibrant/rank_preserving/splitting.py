"""The over-relaxed Douglas-Rachford splitting (ADMM), with one penalty or with one for each row."""

from __future__ import annotations

import math

import numpy as np

from calibrant.numerics import FloatArray
from calibrant.rank_preserving.certify import Certifier
from calibrant.rank_preserving.lanes import Lanes
from calibrant.rank_preserving.problem import Problem

_RELAXATION = 1.85
_FIRST_PENALTY = 20.0
#: Iterations between two looks: at first, their growth, at most.
_FIRST_LOOK, _GROWTH, _LONGEST_LOOK = 30, 1.1, 200
#: Largest change of the penalty's logarithm at a look, divided by one plus half the number of turns so far.
_TURN = 0.5
#: Changes fade after this many looks, so that in the end the penalties are constant and the iteration converges.
_LIVELY, _FADING = 20, 2.0
#: A row's penalty grows with this power of its multiplier over the median one, between these ratios.
_POWER, _LEAST_RATIO, _LARGEST_RATIO = 0.75, 0.1, 1e3


def split(problem: Problem, certifier: Certifier, *, max_iter: int, by_row: bool) -> int:
    """Iterate until the certifier is content or `max_iter` is reached; return the number of iterations.

    Notes
    -----
    Alternates between the matrices with the right row sums and margins, where the nearest one is known in closed
    form, and those whose columns rise and are not negative, where it is found by pooling. The multipliers of the
    sums give a lower bound of the optimum at every look.

    Multipliers of rows differ in size by orders of magnitude: where a margin moves far, a few rows at the foot of its
    column carry most of it and hand it on to their neighbours in the other columns. One penalty suits either these
    rows or the many others. With `by_row` each row's penalty follows the size of its own multiplier, which saves
    most of the iterations. The common factor follows the sign of the duality gap of the iterate: below 0 the sums are
    met too loosely, above 0 the objective is.
    """
    n_columns, n = problem.p.shape
    state, move = problem.p.copy(), np.empty((n_columns, n))
    order = problem.order.copy() if problem.runs.size else problem.order
    penalty, ratio = _FIRST_PENALTY, np.ones(n)
    turns, last, n_iter, n_looks, look = 0, 0, 0, 0, float(_FIRST_LOOK)
    with Lanes(problem, order, certifier.space) as lanes:
        while not certifier.is_done():
            was = penalty * ratio * problem.weight
            steps = min(int(look), max_iter - n_iter)
            lanes.step(state, move, was, _RELAXATION, steps)
            n_iter += steps
            lanes.pool(state, was, move)
            lift = lanes.lift()
            gap = certifier.look(n_iter, move, order, lift, lanes.shift)
            if certifier.is_done():
                break
            if certifier.is_overwritten:
                lanes.pool(state, was, move)
            if n_iter >= max_iter:
                certifier.finish(move, order)
                break
            sign = 1 if gap < 0.0 else -1
            turns += last * sign < 0
            last = sign
            n_looks += 1
            pace = min(1.0, (_LIVELY / n_looks) ** _FADING)
            penalty *= math.exp(sign * pace * _TURN / (1.0 + 0.5 * turns))
            if by_row:
                ratio = ratio ** (1.0 - 0.5 * pace) * _row_ratio(lift) ** (0.5 * pace)
            was /= penalty * ratio * problem.weight
            for j in range(n_columns):  # the multipliers stay, in units of the new penalty
                state[j] = move[j] + (state[j] - move[j]) * was[order[j]]
            look = min(look * _GROWTH, _LONGEST_LOOK)
    return n_iter


def _row_ratio(lift: FloatArray) -> FloatArray:
    """Return how large each row's penalty should be, from the size of its multiplier."""
    size = np.abs(lift)
    middle = float(np.median(size))
    if middle == 0.0:
        return np.ones_like(size)
    ratio: FloatArray = np.clip(size / middle, _LEAST_RATIO, _LARGEST_RATIO) ** _POWER
    return ratio
