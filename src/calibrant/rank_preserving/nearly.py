"""Orders that may be broken, by a little or at a price."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant import kernels
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.numerics import FloatArray
from calibrant.rank_preserving.closed_form import closed_form
from calibrant.rank_preserving.problem import Problem
from calibrant.rank_preserving.result import Ending, Progress
from calibrant.rank_preserving.watch import Watch
from calibrant.validation import check_choice

Pairs: TypeAlias = Literal["neighbours", "all"]
_RELAXATION = 1.85
_FIRST_PENALTY, _TURN = 3.0, 0.5
_FIRST_LOOK, _GROWTH, _LONGEST_LOOK = 20, 1.15, 200
#: Share of the closed form's slope that leaves all its entries above 0.
_INSIDE = 0.5
#: Up to so many entries the search goes on to the smaller gap, which takes many more iterations here.
_SMALL = 600


@dataclass(frozen=True, slots=True)
class EpsilonSlack:
    """Let Q_aj exceed Q_bj by at most `eps` where P_aj <= P_bj.

    Parameters
    ----------
    eps : float
        At least 0, which keeps the order; from 1 on nothing of it is asked.
    """

    eps: float

    def __post_init__(self) -> None:
        _check("eps", self.eps)


@dataclass(frozen=True, slots=True)
class LambdaPenalty:
    """Let the order of a column of P be broken, and add `lam` times the falls of Q along it to the objective.

    Parameters
    ----------
    lam : float
        Price of a fall by one, at least 0, where the order is free; `math.inf` keeps it.
    pairs : {"neighbours", "all"}
        Which falls count. "neighbours": those from each probability to the next one above it. "all": the sum of
        w_a w_b max(Q_aj - Q_bj, 0) over all pairs with P_aj <= P_bj, where w are the sample weights. Its prices are
        smaller, as there are more pairs; it costs about as much time.

    Notes
    -----
    Rows of equal probability should be equal both ways, so their distance is a fall: of neighbours that of the highest
    from the lowest, of all pairs that of each two. From one such group to the next, neighbours fall from the highest
    of the former to the lowest of the latter.

    References
    ----------
    Tibshirani, Hoefling and Tibshirani (2011), *Nearly-isotonic regression*, Technometrics 53(1), equations 1 and 2.
    """

    lam: float
    pairs: Pairs = "neighbours"

    def __post_init__(self) -> None:
        _check("lam", self.lam, may_be_infinite=True)
        check_choice("pairs", self.pairs, get_args(Pairs))


Nearly: TypeAlias = EpsilonSlack | LambdaPenalty


def _check(name: str, value: object, *, may_be_infinite: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name}={value!r} is not a number. Pass one of at least 0, such as 0.01.")
    if not 0.0 <= float(value) or (math.isinf(float(value)) and not may_be_infinite):
        raise InvalidInputError(f"{name}={value!r} is not a number of at least 0. Pass one such as 0.01.")


def is_strict(nearly: Nearly | None) -> bool:
    """Say whether the order is kept exactly."""
    if isinstance(nearly, LambdaPenalty):
        return math.isinf(nearly.lam)
    return nearly is None or nearly.eps == 0.0


def split_nearly(problem: Problem, nearly: Nearly, watch: Watch, *, max_iter: int) -> Ending:
    """Iterate as `splitting.split` does with one penalty; a feasible matrix is at hand at every look.

    Notes
    -----
    Where the order may be broken, room is left around every iterate: its sums are corrected in closed form, and as
    much of the feasible point a + c P is mixed in as the signs and the slack ask for.
    """
    n_columns, n = problem.p.shape
    order, weight, p = problem.order, problem.weight, problem.p
    sorted_weight = np.stack([weight[o] for o in order])
    inside = closed_form(problem, share=_INSIDE)
    best_q, best = inside, _objective(problem, nearly, inside, sorted_weight)
    bound, penalty, turns, last, n_iter, look = 0.0, _FIRST_PENALTY, 0, 0, 0, float(_FIRST_LOOK)
    floor = problem.total * n_columns * watch.tol**2
    state, q = p.copy(), np.empty_like(p)
    lift, shift = np.zeros(n), np.zeros(n_columns)
    history: list[Progress] = []
    next_look = _FIRST_LOOK
    aim = watch.aim if p.size <= _SMALL else watch.gap_tol
    while best - bound > aim * max(best, floor) and n_iter < max_iter:
        _rise(problem, nearly, state, sorted_weight, penalty, q)
        share = 1.0 / (1.0 + penalty)
        x = share * p + (1.0 - share) * (2.0 * q - state)
        row, total = _sums(problem, x)
        row = (row - 1.0) / n_columns
        move = (total - problem.margins - float(np.sum(weight * row))) / problem.total
        for j in range(n_columns):
            state[j] += _RELAXATION * (x[j] - row[order[j]] - move[j] - q[j])
        lift, shift = row / share, move / share
        n_iter += 1
        if n_iter < min(next_look, max_iter):
            continue
        _rise(problem, nearly, state, sorted_weight, penalty, q)
        found = _repair(problem, nearly, q, inside)
        value = _objective(problem, nearly, found, sorted_weight)
        if value < best and fall_beyond(problem, nearly, found) <= watch.tol:
            best_q, best = found, value
        lower = _bound(problem, nearly, lift, shift, sorted_weight)
        bound = max(bound, lower)
        here = _objective(problem, nearly, q, sorted_weight)
        row, total = _sums(problem, q)
        residual = max(float(np.abs(row - 1.0).max()), float(np.abs(total - problem.margins).max()) / problem.total)
        history.append(watch.tell(n_iter, residual, here, bound))
        sign = 1 if here < lower else -1
        turns += last * sign < 0
        last = sign
        was = penalty
        penalty *= math.exp(sign * _TURN / (1.0 + 0.5 * turns))
        state = q + (state - q) * (was / penalty)
        look = min(look * _GROWTH, _LONGEST_LOOK)
        next_look = n_iter + int(look)
    return Ending(best_q, order, best, bound, n_iter, tuple(history))


def fall_beyond(problem: Problem, nearly: Nearly, q: FloatArray) -> float:
    """Return by how much an order is broken more than is allowed: at a price, all is."""
    return 0.0 if isinstance(nearly, LambdaPenalty) else max(0.0, _largest_fall(problem, q) - nearly.eps)


def _rise(
    problem: Problem, nearly: Nearly, value: FloatArray, sorted_weight: FloatArray, penalty: float, out: FloatArray
) -> None:
    """Write the columns of least penalty / 2 x squared distance from `value` + 1/2 lam x falls, or within the slack."""
    for j, count in enumerate(problem.n_units):
        unit, weight = problem.edges(j), sorted_weight[j]
        if isinstance(nearly, EpsilonSlack):
            kernels.rise_with_slack(value[j], weight, unit, count, nearly.eps, out[j])
        elif nearly.pairs == "all":
            kernels.rise_at_a_price_of_all_pairs(value[j], weight, unit, count, 0.5 * nearly.lam / penalty, out[j])
        else:
            kernels.rise_at_a_price(value[j], weight, unit, count, 0.5 * nearly.lam / penalty, out[j])


def _objective(problem: Problem, nearly: Nearly, q: FloatArray, sorted_weight: FloatArray) -> float:
    distance = float(np.sum(sorted_weight * (q - problem.p) ** 2))
    if isinstance(nearly, EpsilonSlack):
        return distance
    falls = 0.0
    for j, column in enumerate(q):
        unit = problem.edges(j)
        if nearly.pairs == "all":
            falls += kernels.falls_of_all_pairs(column, sorted_weight[j], unit, unit.size - 1)
        else:
            highest, lowest = np.maximum.reduceat(column, unit[:-1]), np.minimum.reduceat(column, unit[:-1])
            falls += float((highest - lowest).sum() + np.maximum(highest[:-1] - lowest[1:], 0.0).sum())
    return distance + nearly.lam * falls


def _bound(problem: Problem, nearly: Nearly, lift: FloatArray, shift: FloatArray, sorted_weight: FloatArray) -> float:
    """Return the least value of the Lagrangian at these multipliers."""
    target = np.stack([p - lift[o] - s for p, o, s in zip(problem.p, problem.order, shift, strict=True)])
    least = np.empty_like(target)
    _rise(problem, nearly, target, sorted_weight, 1.0, least)
    row, total = _sums(problem, least)
    terms = float(np.sum(problem.weight * lift * (row - 1.0))) + float(np.sum(shift * (total - problem.margins)))
    return _objective(problem, nearly, least, sorted_weight) + 2.0 * terms


def _sums(problem: Problem, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    row, total = np.zeros(problem.weight.size), np.empty(len(q))
    for j, o in enumerate(problem.order):
        row[o] += q[j]
        total[j] = np.sum(problem.weight[o] * q[j])
    return row, total


def _repair(problem: Problem, nearly: Nearly, q: FloatArray, inside: FloatArray) -> FloatArray:
    """Return a feasible matrix near `q`: its sums put right, then mixed with one that has room to spare."""
    used = problem.margins > 0.0
    fixed = np.where(used[:, None], q, 0.0)
    row, _ = _sums(problem, fixed)
    row = (row - 1.0) / int(used.sum())
    for j in np.flatnonzero(used):
        fixed[j] -= row[problem.order[j]]
    _, total = _sums(problem, fixed)
    fixed -= ((total - problem.margins) / problem.total * used)[:, None]
    below = fixed < 0.0
    share = float((-fixed[below] / (inside[below] - fixed[below])).max(initial=0.0))
    if isinstance(nearly, EpsilonSlack):
        fall = _largest_fall(problem, fixed)
        share = max(share, 1.0 - nearly.eps / fall) if fall > nearly.eps else share
    mixed: FloatArray = np.maximum((1.0 - share) * fixed + share * inside, 0.0)
    return mixed


def _largest_fall(problem: Problem, q: FloatArray) -> float:
    """Return the largest excess of an entry over one that the order puts at or above it."""
    fall = 0.0
    for j in range(len(q)):
        first = problem.edges(j)[:-1]
        high = np.maximum.accumulate(np.maximum.reduceat(q[j], first))
        low = np.minimum.reduceat(q[j], first)
        fall = max(fall, float((high - low).max()))
    return fall
