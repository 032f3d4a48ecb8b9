"""Money that is bet in streams, in each of which one label is open at a time.

Labels that overlap depend on each other given the past, so that a product of bets on them has no bounded expectation.
They are dealt to streams: a stream takes the next row once the label of its last row is known. Let N be a stream's
money once all bets are settled that were begun by some time. Whatever rule stops the betting, the expectation of N is
at most what the stream began with: whether a row is bet on is decided before anything of its label is known. The mean
over streams inherits this (lagged forecasts in Henzi and Ziegel 2022, and in Arnold, Henzi and Ziegel 2023).

The money that is settled already does not: who has seen half of a label may stop where open bets are about to lose
(Choe and Ramdas 2024, Combining evidence across filtrations, arXiv:2402.09698). So `log_value` counts each open bet at
the least that it can gain. That is at most N, and by Markov's inequality the chance that it ever reaches 1 / a is at
most a.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.monitor.bets import N_BETTORS
from calibrant.numerics import FloatArray, IntArray

_ROUNDING = 1e-9


def _no_streams() -> FloatArray:
    return np.empty((0, N_BETTORS))


@dataclass(slots=True)
class Streams:
    """The money of each stream.

    `log_wealth` is what each bettor of a stream has won by settled bets, `cash` what joins all of them at the stream's
    next bet. `until` is when the label of its last bet is known; `gain` and `least` are what an open bet gains, and the
    least it could. Money comes in by windows: 1 / (t (t + 1)) on window t, up to `n_released`.
    """

    log_wealth: FloatArray = field(default_factory=_no_streams)
    gain: FloatArray = field(default_factory=_no_streams)
    least: FloatArray = field(default_factory=_no_streams)
    cash: FloatArray = field(default_factory=lambda: np.empty(0))
    until: FloatArray = field(default_factory=lambda: np.empty(0))
    n_released: int = 0

    @property
    def log_value(self) -> float:
        """The logarithm of all money, open bets at the least they can gain."""
        wealth = self.log_wealth + self.least
        bet = float(np.logaddexp.reduce(wealth, axis=None)) - math.log(N_BETTORS) if wealth.size else -math.inf
        return float(np.logaddexp(bet, math.log(float(self.cash.sum()) + 1.0 / (self.n_released + 1.0))))

    def settle(self, before: float) -> None:
        """Settle the bets on labels that are known before a time."""
        known = self.until < before
        self.log_wealth[known] = _added(self.log_wealth[known], self.gain[known])
        self.gain[known] = self.least[known] = 0.0

    def release(self, window: int, n_streams: int) -> None:
        """Make streams up to a number, and divide among all the money that is due up to a window."""
        new = max(n_streams - self.cash.size, 0)
        nothing = np.zeros((new, N_BETTORS))
        self.log_wealth = np.vstack((self.log_wealth, nothing - np.inf))
        self.gain, self.least = np.vstack((self.gain, nothing)), np.vstack((self.least, nothing))
        self.cash = np.append(self.cash, np.zeros(new))
        self.until = np.append(self.until, np.full(new, -np.inf))
        due = 1.0 / (self.n_released + 1.0) - 1.0 / (window + 1.0)
        self.cash += due / self.cash.size
        self.n_released = window

    def assign(self, start: FloatArray, end: FloatArray) -> IntArray:
        """Return a stream for each of some spans of time in order, the one that is free longest; -1 where none is."""
        free = [(until, stream) for stream, until in enumerate(self.until.tolist())]
        heapq.heapify(free)
        found = np.full(start.size, -1, dtype=np.int64)
        for i, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
            if free[0][0] < first:
                found[i] = free[0][1]
                heapq.heapreplace(free, (last, free[0][1]))
        return found

    def bet(self, stream: IntArray, end: FloatArray, gain: FloatArray, least: FloatArray, clock: float) -> None:
        """Bet on spans in the order of time; `gain` and `least` have shape (n_spans, n_bettors).

        Those whose labels are known before `clock` are settled.
        """
        used = np.unique(stream)
        with np.errstate(divide="ignore"):
            self.log_wealth[used] = np.logaddexp(self.log_wealth[used], np.log(self.cash[used])[:, None])
        self.cash[used] = 0.0
        known = end < clock
        won = np.zeros_like(self.log_wealth)
        np.add.at(won, stream[known], gain[known])
        self.log_wealth = _added(self.log_wealth, won)
        self.gain[stream[~known]], self.least[stream[~known]] = gain[~known], least[~known]
        np.maximum.at(self.until, stream, end)

    def bet_at_once(self, window: int, gain: FloatArray) -> None:
        """Bet on what is known as soon as it is bet on, in one stream, for `gain` of shape (1, n_bettors)."""
        self.release(window, 1)
        self.bet(np.zeros(1, dtype=np.int64), np.array([float(window)]), gain, gain, window + 0.5)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values."""
        arrays = {name: _plain(getattr(self, name)) for name in ("log_wealth", "gain", "least", "cash", "until")}
        return {**arrays, "n_released": self.n_released}

    @classmethod
    def from_field(cls, field: DocumentField) -> Streams:
        """Return the streams of a state; refuses what is no money, or doesn't fit together."""
        of = field.members(("log_wealth", "gain", "least", "cash", "until", "n_released"))
        wide = {name: _table(of[name]) for name in ("log_wealth", "gain", "least")}
        cash, until = of["cash"].numbers(minimum=0), _or_nothing(of["until"].items(minimum=0))
        for name, part in (*wide.items(), ("until", until)):
            if len(part) != cash.size:
                of[name].refuse(f"does not go with {cash.size:,} streams")
        for name, is_bad in (
            ("cash", cash < 0.0),
            ("least", wide["least"] > 0.0),
            ("gain", wide["gain"] < wide["least"] - _ROUNDING),
        ):
            if is_bad.any():
                of[name].refuse("holds what is no money that was bet")
        n_released = of["n_released"].integer(minimum=0)
        streams = cls(**wide, cash=cash, until=until, n_released=n_released)
        if not math.isfinite(streams.log_value):
            field.refuse("holds no finite sum of money")
        return streams


def _added(wealth: FloatArray, gain: FloatArray) -> FloatArray:
    """Add logarithms; nothing stays nothing, whatever it would have gained."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(wealth), -np.inf, wealth + gain)


def _plain(values: FloatArray) -> Any:
    """Return an array as lists, with None for minus infinity and the largest numbers cut."""
    flat = [None if math.isinf(v) and v < 0.0 else min(v, 1e300) for v in values.ravel().tolist()]
    return flat if values.ndim == 1 else [flat[i : i + N_BETTORS] for i in range(0, len(flat), N_BETTORS)]


def _table(field: DocumentField) -> FloatArray:
    rows = [_or_nothing(row.items(minimum=0)) for row in field.items(minimum=0)]
    if any(row.size != N_BETTORS for row in rows):
        field.refuse(f"needs {N_BETTORS} numbers for each stream")
    return np.array(rows).reshape(-1, N_BETTORS)


def _or_nothing(items: list[DocumentField]) -> FloatArray:
    """Return numbers, of which null is minus infinity: the logarithm of no money, a time before all others."""
    return np.array([item.number(null=-math.inf) for item in items], dtype=np.float64)
