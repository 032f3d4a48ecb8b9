"""The action of least expected loss in each row, and what becomes of it where actions have a capacity.

Without capacities each row is decided by itself. With them, the actions are those of least total expected loss that
keep all capacities. Of one action with a capacity these are the rows that gain most from it, which a sort finds. Of
several, rows are let in one by one along the cheapest chain of moves, say from "none" to "visit" by pushing another row
from "visit" to "call": successive shortest paths, which stay optimal for every number of rows (Ahuja, Magnanti and
Orlin 1993, *Network flows*, section 9.7). They stop where the next one gains nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from heapq import heapify, heappop, heappush

import numpy as np

from calibrant.numerics import FloatArray, IntArray


def least_loss(expected: FloatArray) -> IntArray:
    """Return the number of the action of least expected loss in each row, shape (n,): of equal ones the first."""
    best = expected[:, 0].copy()
    found = np.zeros(len(expected), dtype=np.int64)
    for a in range(1, expected.shape[1]):
        column = expected[:, a]
        np.copyto(found, a, where=column < best)
        np.minimum(best, column, out=best)
    return found


def choose(expected: FloatArray, capacity: Mapping[int, int], per: IntArray | None = None) -> IntArray:
    """Return the number of the action of each row; `capacity` is that of actions by number, in each group of `per`."""
    if not capacity:
        return least_loss(expected)
    if per is None:
        return _within(expected, capacity)
    found = np.empty(len(expected), dtype=np.int64)
    order = np.argsort(per, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(per[order])) + 1):
        found[rows] = _within(expected[rows], capacity)
    return found


def _within(expected: FloatArray, capacity: Mapping[int, int]) -> IntArray:
    """Return the actions of rows that share the capacities."""
    n, n_actions = expected.shape
    found = least_loss(expected)
    counts = np.bincount(found, minlength=n_actions)
    if all(counts[a] <= room for a, room in capacity.items()):
        return found
    free = [a for a in range(n_actions) if a not in capacity]
    found = np.array(free)[least_loss(expected[:, free])]
    without = expected[np.arange(n), found]
    limited = sorted(capacity)
    if len(limited) == 1:
        (a,) = limited
        found[_most_gained(without - expected[:, a], capacity[a])] = a
        return found
    chosen = _Chains(np.column_stack((without, expected[:, limited])), [capacity[a] for a in limited]).solved()
    return np.where(chosen == 0, found, np.array([0, *limited])[chosen])


def charges_of(expected: FloatArray, taken: IntArray, capacity: Mapping[int, int]) -> FloatArray:
    """Return a charge on each action, shape (A,), with which no row would rather have another than it got.

    It is the price of a place: between what one place more would save and what one place less would cost, both found
    along the cheapest chain of moves; infinite where there is no place at all.
    """
    n_actions = expected.shape[1]
    counts = np.bincount(taken, minlength=n_actions)
    is_full = np.array([counts[a] >= capacity.get(a, math.inf) for a in range(n_actions)])
    steps = np.full((n_actions, n_actions), np.inf)  # what the cheapest move of a row from one to another costs
    for a in np.unique(taken).tolist():
        rows = expected[taken == a]
        steps[a] = (rows - rows[:, [a]]).min(axis=0)
    less, more = np.where(is_full, np.inf, 0.0), np.zeros(n_actions)  # to add a place nobody wants costs nothing
    for _ in range(n_actions):
        less = np.where(is_full, np.minimum(less, (steps + less).min(axis=1)), 0.0)
        more = np.where(is_full, np.minimum(more, (steps + more[:, None]).min(axis=0)), 0.0)
    return np.where(is_full, 0.5 * (less - more), 0.0)


def _most_gained(gain: FloatArray, room: int) -> IntArray:
    """Return the rows that gain most, at most `room`, and only those that gain; of equal ones the first."""
    rows = np.flatnonzero(gain > 0.0)
    if rows.size > room:
        rows = rows[np.argsort(-gain[rows], kind="stable")[:room]]
    return rows


class _Chains:
    """Rows at places 0 (no limited action) to C, moved one by one along the cheapest chain of places."""

    def __init__(self, losses: FloatArray, room: list[int]) -> None:
        self.losses = losses
        self.room = [len(losses), *room]
        self.place = np.zeros(len(losses), dtype=np.int64)
        n_places, most = losses.shape[1], sum(min(each, len(losses)) for each in room)
        self.places = range(n_places)
        #: For each pair of places, the rows of the first by what moving each to the second costs; some have gone since.
        self.moves: dict[tuple[int, int], list[tuple[float, int]]] = {
            (u, v): [] for u in self.places for v in self.places if v not in (0, u)
        }
        for v in self.places[1:]:
            cost = losses[:, v] - losses[:, 0]
            # no more rows than there is room for ever leave place 0, and they leave in the order of their cost
            first = np.argsort(cost, kind="stable")[: most + 1]
            self.moves[0, v] = list(zip(cost[first].tolist(), first.tolist(), strict=True))
            heapify(self.moves[0, v])

    def solved(self) -> IntArray:
        """Return the place of each row when no chain gains any more."""
        while (chain := self._cheapest()) is not None:
            rows = [self.moves[u, v][0][1] for u, v in chain]
            for (_, v), row in zip(chain, rows, strict=True):
                self._put(row, v)
            self.room[chain[-1][1]] -= 1
        return self.place

    def _put(self, row: int, v: int) -> None:
        self.place[row] = v
        for w in self.places[1:]:
            if w != v:
                heappush(self.moves[v, w], (float(self.losses[row, w] - self.losses[row, v]), row))

    def _step(self, u: int, v: int) -> float:
        """Return what the cheapest move of a row from u to v costs."""
        heap = self.moves[u, v]
        while heap and self.place[heap[0][1]] != u:
            heappop(heap)
        return heap[0][0] if heap else math.inf

    def _cheapest(self) -> list[tuple[int, int]] | None:
        """Return the chain from place 0 to one with room that gains most; None where none gains."""
        steps = {pair: self._step(*pair) for pair in self.moves}
        cost = [0.0] + [math.inf] * (len(self.places) - 1)
        before = [0] * len(self.places)
        for _ in self.places[1:]:  # Bellman and Ford's rounds: an optimal state has no negative cycle
            for (u, v), step in steps.items():
                if cost[u] + step < cost[v] and not self._passes(before, u, v):
                    cost[v], before[v] = cost[u] + step, u
        ends = [v for v in self.places[1:] if self.room[v] > 0 and cost[v] < 0.0]
        if not ends:
            return None
        v = min(ends, key=cost.__getitem__)
        chain = []
        while v != 0:
            chain.append((before[v], v))
            v = before[v]
        return chain[::-1]

    def _passes(self, before: list[int], u: int, v: int) -> bool:
        """Say whether the chain to u passes v: rounding may make a cycle of nothing look like a gain."""
        while u != 0:
            if u == v:
                return True
            u = before[u]
        return False
