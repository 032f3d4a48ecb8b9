"""The over-relaxed Douglas-Rachford splitting (ADMM), with one penalty or with one for each row."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from calibrant.numerics import FloatArray
from calibrant.rank_preserving.certify import Certifier
from calibrant.rank_preserving.lanes import Lanes
from calibrant.rank_preserving.problem import Problem
from calibrant.rank_preserving.straight import Start, straight_start

_RELAXATION = 1.85
_FIRST_PENALTY = 20.0
#: Iterations between two looks: at first, their growth, at most.
_FIRST_LOOK, _GROWTH, _LONGEST_LOOK = 30, 1.1, 200
#: Largest change of the penalty's logarithm at a look, divided by one plus half the number of turns so far.
_TURN = 0.5
#: Changes fade after this many looks, so that in the end the penalties are constant and the iteration converges.
_LIVELY, _FADING = 20, 2.0
#: From multipliers that all but prove the closed form: the first penalty of a descent, its looks, its iterations,
#: and the last penalty, which above so many rows grows with the fourth root of their number.
_HIGHEST, _DESCENT_LOOKS, _DESCENT = 20_000.0, 24, 264
_LOWEST, _LOWEST_ROWS = 50.0, 100_000
#: Weight of a look's multipliers in the mean of a descent's, whose bound is steadier.
_RECENT = 0.4
#: Iterations from which on a start from the closed form pays.
_WORTH_A_START = 100
#: A descent's iterates are worth a try from this multiple of its lowest penalty on.
_PROMISING = 4.0
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

    Where rows are many, `straight_start` gives the multipliers of all but the optimum. From there the penalty starts
    high, where steps are long and the bound is poor, and descends.
    """
    n_columns, n = problem.p.shape
    start, n_iter = None, 0
    if by_row and max_iter >= _WORTH_A_START and not certifier.is_done():
        start = straight_start(problem, certifier.space, max_passes=max_iter // 2)
    if start is not None:
        n_iter = start.n_passes + 1
        if 2.0 * certifier.take_start(n_iter, start.lift, start.shift) < certifier.objective:
            start = None
    certifier.space.reset(problem)
    if certifier.is_done():
        return n_iter
    state, move = problem.p.copy(), np.empty((n_columns, n))
    lowest = _LOWEST * max(n / _LOWEST_ROWS, 1.0) ** 0.25
    penalty, ratio, looks = _FIRST_PENALTY, np.ones(n), _descent(0, lowest)
    if start is not None:
        penalty, ratio, looks = _HIGHEST, _row_ratio(start.lift), _descent(max_iter - n_iter, lowest)
        _set_out(problem, start, penalty * ratio, state)
        del start
    mean: tuple[FloatArray, FloatArray] | None = None
    lift: FloatArray | None = None
    was: FloatArray | None = None
    order = problem.order.copy() if problem.runs.size else problem.order
    turns, last, n_looks, look = 0, 0, 0, float(_FIRST_LOOK)
    with Lanes(problem, order, certifier.space) as lanes:
        while not certifier.is_done():
            steps, aim = next(looks, (0, 0.0))
            is_descent = steps > 0
            steps = min(steps or int(look), max_iter - n_iter)
            lift = None  # memory for the steps
            lift = lanes.step(state, move, penalty, ratio, _RELAXATION, steps)
            n_iter += steps
            lanes.pool(state, penalty * ratio * problem.weight, move)
            may_try = penalty <= lowest * _PROMISING or not is_descent
            if is_descent:
                mean = _mixed(mean, lift, lanes.shift)
                if may_try:
                    certifier.take_bound(*mean)
            gap = certifier.look(n_iter, move, order, lift, lanes.shift, may_try=may_try)
            if certifier.is_done():
                break
            was = penalty * ratio * problem.weight
            if certifier.is_overwritten:
                lanes.pool(state, was, move)
            if n_iter >= max_iter:
                break
            pace = 1.0
            if is_descent:
                penalty = aim
            else:
                mean = None
                sign = 1 if gap < 0.0 else -1
                turns += last * sign < 0
                last = sign
                n_looks += 1
                pace = min(1.0, (_LIVELY / n_looks) ** _FADING)
                penalty *= math.exp(sign * pace * _TURN / (1.0 + 0.5 * turns))
                look = min(look * _GROWTH, _LONGEST_LOOK)
            if by_row:
                ratio **= 1.0 - 0.5 * pace
                ratio *= _row_ratio(lift) ** (0.5 * pace)
            was /= penalty * ratio * problem.weight
            for j in range(n_columns):  # the multipliers stay, in units of the new penalty
                state[j] = move[j] + (state[j] - move[j]) * was[order[j]]
            was = None
    del lanes, was, ratio, lift, mean  # memory for what follows
    if not certifier.is_done():
        certifier.finish(move, order, state)
    return n_iter


def _mixed(
    mean: tuple[FloatArray, FloatArray] | None, lift: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of multipliers with those of one more look."""
    if mean is None:
        return lift.copy(), shift.copy()
    return (1.0 - _RECENT) * mean[0] + _RECENT * lift, (1.0 - _RECENT) * mean[1] + _RECENT * shift


def _descent(n_iter: int, lowest: float) -> Iterator[tuple[int, float]]:
    """Yield the iterations up to each look of a descent, and the penalty after it."""
    n_looks = min(_DESCENT_LOOKS, n_iter)
    steps = min(_DESCENT, n_iter) // max(n_looks, 1)
    for look in range(1, n_looks + 1):
        yield steps, _HIGHEST * (lowest / _HIGHEST) ** min(look / max(n_looks - 1, 1), 1.0)


def _set_out(problem: Problem, start: Start, penalty: FloatArray, state: FloatArray) -> None:
    """Write the state whose pooled columns are those of the start, and whose multipliers are its own."""
    for j, (p, order) in enumerate(zip(problem.p, problem.order, strict=True)):
        q = np.maximum(start.constant[j] + start.slope * p, 0.0)
        state[j] = q + (p - q - start.lift[order] - start.shift[j]) / penalty[order]


def _row_ratio(lift: FloatArray) -> FloatArray:
    """Return how large each row's penalty should be, from the size of its multiplier."""
    size = np.abs(lift)
    middle = float(np.median(size))
    if middle == 0.0:
        return np.ones_like(size)
    size /= middle
    np.clip(size, _LEAST_RATIO, _LARGEST_RATIO, out=size)
    size **= _POWER
    return size
