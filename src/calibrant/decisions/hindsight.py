"""The best policy of the same kind in hindsight, by outcomes: what the policy could have saved with other charges.

A policy takes the action of least expected loss. Its kind are the policies that do so with a fixed charge on each
action: of two actions and one score these are all thresholds on it. Of two actions the best charge is found exactly,
from sums along the rows in the order of the difference. Of more it is found action by action, until none gains, from
the policy itself and from each action for all rows: the result is no worse than any of these.

Where actions are limited, charges move rows between them as far as there is room. Of two actions the rows that may have
the limited one are known. Of more, charges are searched for among quantiles of what rows would lose by other actions.
"""

from __future__ import annotations

import numpy as np

from calibrant.decisions.outcomes import Decided, of_taken
from calibrant.numerics import BoolArray, FloatArray, IntArray

_MOST_SWEEPS = 20
#: A charge that keeps an action from every row, in units of the range of expected losses.
_FORBIDDING = 4.0
#: Charges on an action that are tried where actions are limited, and rounds over the actions: sizes of a search, which
#: time sets and not data.
_N_CHARGES, _MOST_ROUNDS = 15, 3


def best_charges(decided: Decided) -> FloatArray:
    """Return the charge on each action, shape (A,), with which these rows would have lost least."""
    expected, realised, weight = ordering(decided), decided.realised, decided.weight
    n_actions = expected.shape[1]
    far = _FORBIDDING * (float(np.ptp(expected)) + 1.0)
    starts = [np.zeros(n_actions)]
    if n_actions > 2:
        starts += [np.where(np.arange(n_actions) == a, 0.0, far) for a in range(n_actions)]
    found = [_descend(start, expected, realised, weight, far) for start in starts]
    return min(found, key=lambda each: each[0])[1]


def ordering(decided: Decided) -> FloatArray:
    """Return what charges are added to: expected losses, or of a threshold how far below and above it rows are."""
    threshold = decided.policy.threshold
    if threshold is None:
        return decided.expected
    score = decided.positive_scores
    return np.column_stack((np.zeros(score.size), threshold - score))


def chosen(expected: FloatArray, charges: FloatArray) -> IntArray:
    """Return the actions of least expected loss with these charges: of equal ones the first."""
    return np.asarray((expected + charges).argmin(axis=1).astype(np.int64))


def allowed(decided: Decided) -> BoolArray | None:
    """Return which rows the limited one of two actions may have had, those that gain most; None where it is free.

    With more actions it is not known which rows would have been pushed to which.
    """
    if not decided.policy.problem.capacity or not decided.is_policy:
        return None
    ((a, most),) = decided.policy.capacity_by_number.items()
    gain = decided.expected[:, 1 - a] - decided.expected[:, a]
    per = np.zeros(gain.size, dtype=np.int64) if decided.per is None else decided.per
    order = np.lexsort((np.arange(gain.size), -gain, per))
    firsts = np.searchsorted(per[order], np.arange(per.max() + 1))
    rank = np.empty(gain.size, dtype=np.int64)
    rank[order] = np.arange(gain.size) - firsts[per[order]]
    return np.asarray(rank < most)


def least_within_capacity(decided: Decided) -> FloatArray:
    """Return what each row would have lost with the charges, of those tried, with which all would have lost least.

    Decisions keep their capacities. To charge nothing is tried too, so that the loss is at most the policy's own.
    """
    expected, realised, weight = decided.expected, decided.realised, decided.weight
    policy, n_actions = decided.policy, decided.expected.shape[1]
    far = _FORBIDDING * (float(np.ptp(expected)) + 1.0)
    charges = np.zeros(n_actions)

    def losses(tried: FloatArray) -> FloatArray:
        return of_taken(realised, policy.codes_of(expected + tried, decided.per))

    best = losses(charges)
    for _ in range(_MOST_ROUNDS):
        before = float(weight @ best)
        for a in range(n_actions):
            others = np.delete(expected + charges, a, axis=1).min(axis=1)
            levels = np.linspace(0.0, 1.0, _N_CHARGES)
            for charge in (-far, *np.quantile(others - expected[:, a], levels).tolist(), far):
                tried = charges.copy()
                tried[a] = charge
                found = losses(tried)
                if weight @ found < weight @ best:
                    best, charges = found, tried
        if float(weight @ best) >= before:
            break
    return best


def _descend(
    charges: FloatArray, expected: FloatArray, realised: FloatArray, weight: FloatArray, far: float
) -> tuple[float, FloatArray]:
    """Return the total loss and the charges when no single one can be changed for the better."""
    rows = np.arange(len(expected))
    charges = charges.copy()
    best = float(weight @ realised[rows, chosen(expected, charges)])
    for _ in range(_MOST_SWEEPS):
        before = best
        for a in range(1 if len(charges) == 2 else 0, len(charges)):
            trial = charges.copy()
            trial[a] = _best_charge(a, charges, expected, realised, weight, far)
            total = float(weight @ realised[rows, chosen(expected, trial)])
            if total < best:
                best, charges = total, trial
        if best >= before:
            break
    return best, charges


def _best_charge(
    a: int, charges: FloatArray, expected: FloatArray, realised: FloatArray, weight: FloatArray, far: float
) -> float:
    """Return the charge on one action with which rows would have lost least, the others staying."""
    rows = np.arange(len(expected))
    others = expected + charges
    others[:, a] = np.inf
    second = others.argmin(axis=1)
    most = others[rows, second] - expected[:, a]  # the charge up to which a row takes the action
    order = np.argsort(-most, kind="stable")
    sums = np.append(0.0, np.cumsum((weight * (realised[:, a] - realised[rows, second]))[order]))
    ends = np.append(most[order], -far)
    is_cut = np.append(True, ends[1:] < ends[:-1])  # equal rows are taken together: cut k takes the first k
    k = int(np.flatnonzero(is_cut)[sums[is_cut].argmin()])
    if k == 0:
        return float(ends[0] + far)
    return float(0.5 * (ends[k - 1] + ends[k])) if k < most.size else float(ends[k - 1] - far)
