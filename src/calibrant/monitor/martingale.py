"""A test martingale of calibration: bets on each window by what was known before it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError
from calibrant.monitor.bets import MEMORIES, remember, unit_gains, window_gains
from calibrant.monitor.streams import Streams
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.rows import Rows
from calibrant.summary import DistinctScores, ScoreSummary

#: What a state holds of each memory.
_COLUMNS = ("scores", "weight", "weight_squared", "positives")
#: What a state holds of each row whose label is not known yet.
_WAITING = ("scores", "weight", "positive", "known_at")
#: Streams of single rows; where more labels are open, rows that follow each other are bet on together.
_MOST_STREAMS = 32


@dataclass(slots=True)
class Waiting:
    """Rows whose labels are not known yet, with when they are; of no further use than to be learned from."""

    scores: FloatArray = field(default_factory=lambda: np.empty(0))
    weight: FloatArray = field(default_factory=lambda: np.empty(0))
    positive: FloatArray = field(default_factory=lambda: np.empty(0))
    known_at: FloatArray = field(default_factory=lambda: np.empty(0))

    def take(self, at: BoolArray) -> Waiting:
        """Return some of the rows."""
        return Waiting(*(getattr(self, name)[at] for name in _WAITING))

    def distinct(self) -> DistinctScores:
        """Return the rows as distinct scores."""
        return ScoreSummary.from_rows(self.scores, self.positive > 0.0, self.weight).distinct


@dataclass(slots=True)
class CalibrationMartingale:
    """What one unit of money has become by bets against the probabilities, window by window.

    Attributes
    ----------
    n_windows : int
    streams : Streams
        What each bettor has won so far: one stream, but for rows whose labels overlap.
    memories : list of DistinctScores or None
        The past, as each memory of it has it.
    waiting : Waiting
        Rows whose labels will be known later.
    clock : float
        The last time up to which rows were bet on.
    depth : int
        The most labels, or windows of clusters, that were open at a time.
    open_until : ndarray of shape (n_open,)
        When those that were open at the clock are known.

    Notes
    -----
    Before a window is seen, its rows are bet on by probabilities q that were fitted to labels known before it: the
    stake on each row grows by the factor 1 - s + s q(y) / p(y), where p(y) and q(y) are the probabilities of what
    happened. If each label has its probability given all that was known when it was predicted, each factor has
    expectation 1: the product is a martingale. There is a bettor for each share s of the stake, each memory of the past
    (all of it, or the last few windows) and each way to turn it into q (isotonic regression, or one shift of all
    logits). Each bettor spreads its money over the windows at which it might start, 1 / (t (t + 1)) on window t, for a
    change that comes late is not to be paid for by what was lost before it. The mean of all bettors is a martingale
    that starts at 1 and is never negative, so the chance that it ever reaches 1 / a is at most a (Ville's inequality),
    however often one looks. Windows of any size may come; only their order counts.

    Rows that depend on each other, which `add_rows` takes:

    * Rows of one cluster may depend on each other within a window in any way, if clusters are independent given the
      windows before: each cluster is one bet on the mean of its rows. Labels of earlier windows, of the same cluster
      too, are a part of what is known.
    * Labels that overlap in time may depend on each other in any way. Their rows are dealt to streams in which no two
      labels overlap, and a bet counts at its worst until its label is known: see `calibrant.monitor.streams`. Where
      more than 32 labels are open at a time, rows that follow each other are one bet on their mean.
    * With both, labels of different clusters are independent given what was known when the window began, and the
      windows are dealt to streams.

    When a label is known may depend on the label; how many rows there are, and when, may not.

    References
    ----------
    Ville (1939), *Étude critique de la notion de collectif*. Shafer (2021), *Testing by betting*, JRSS A 184.
    Dimitriadis, Henzi, Puke and Ziegel (2022), *A safe Hosmer-Lemeshow test*, arXiv:2203.00426, for the factor.
    Henzi and Ziegel (2022), *Valid sequential inference on probability forecast performance*, Biometrika 109, and
    Arnold, Henzi and Ziegel (2023), *Sequentially valid tests for forecast calibration*, Annals of Applied Statistics
    17, for the mean over streams of lagged forecasts.

    Examples
    --------
    >>> import calibrant as cb
    >>> martingale = CalibrationMartingale()
    >>> day = cb.ScoreSummary.from_arrays([0.5] * 80, [0, 1, 1, 1] * 20)
    >>> [round(martingale.add(day), 1) for _ in range(3)]
    [0.0, 8.8, 19.0]
    """

    n_windows: int = 0
    streams: Streams = field(default_factory=Streams)
    memories: list[DistinctScores | None] = field(default_factory=lambda: [None] * len(MEMORIES))
    waiting: Waiting = field(default_factory=Waiting)
    clock: float = -math.inf
    depth: int = 0
    open_until: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def log_e_value(self) -> float:
        """The logarithm of the e-value: what one unit has become, open bets at the least they can gain."""
        return self.streams.log_value

    def add(self, window: ScoreSummary) -> float:
        """Bet on the independent rows of a window, then learn from them; return the logarithm of the e-value.

        Scores of the window are probabilities, and weights are stakes: none may be above 1.
        """
        t = self.n_windows + 1
        gains = np.concatenate([window_gains(memory, window) for memory in self.memories])[None, :]
        self.streams.bet_at_once(t, gains)
        self._learn(window.distinct, MEMORIES)
        self.n_windows = t
        return self.log_e_value

    def add_rows(self, rows: Rows) -> float:
        """Bet on the rows of a window that depend on each other, and learn what is known; return the log e-value.

        Rows have one score, a probability, and a cluster, times, or both; weights are stakes, at most 1. The e-value is
        that of when the last row is predicted; with clusters and times, where all bets of the window are open then,
        that of when the first one is.

        Raises
        ------
        InvalidInputError
            If a row was predicted before the last row of the windows before.
        """
        t = self.n_windows + 1
        if rows.time is None or rows.label_end is None:
            start = end = np.full(rows.n_rows, float(t))
            clock = t + 0.5
        else:
            start, end = _numbers(rows.time), _numbers(rows.label_end)
            clock = float(start.max())
        first = float(start.min())
        if first < self.clock:
            n_early = int(np.count_nonzero(start < self.clock))
            raise InvalidInputError(
                f"{n_early:,} of {start.size:,} rows were predicted before the last row of the windows before. Pass "
                "windows in the order of time, of which each begins when the one before has ended."
            )
        self.streams.settle(first)
        self._learn_known(first, (1.0,) * len(MEMORIES))
        log_e_first = self.log_e_value
        order = np.argsort(start, kind="stable")
        rows, start, end = rows.take(order), start[order], end[order]
        is_row_wise = rows.cluster is None
        together = max(1, min(math.ceil(self.depth / _MOST_STREAMS), rows.n_rows)) if is_row_wise else 1
        spans = (start, end) if is_row_wise else (start[:1], np.array([end.max()]))
        self.streams.settle(clock)
        if self.memories[0] is not None:
            needed = max(1, math.ceil(self.depth / together) + (together > 1))
            self.streams.release(t, min(needed, max(_MOST_STREAMS + 1, t)))  # rows without one are not bet on
            self._bet(rows, start, end, together, clock)
        self._note_open(*spans, clock)
        new = (rows.scores, rows.weights, rows.positive.astype(np.float64), end)
        old = (getattr(self.waiting, name) for name in _WAITING)
        self.waiting = Waiting(*(np.concatenate(pair) for pair in zip(old, new, strict=True)))
        self._learn_known(clock, MEMORIES)
        self.clock, self.n_windows = clock, t
        return self.log_e_value if is_row_wise or rows.time is None else log_e_first

    def _bet(self, rows: Rows, start: FloatArray, end: FloatArray, together: int, clock: float) -> None:
        """Bet on rows in the order of time: on `together` at a time, or on all clusters of the window as one bet."""
        if rows.cluster is None:
            unit = np.arange(rows.n_rows) // together
            edges = np.arange(0, rows.n_rows, together)
            begins, ends = start[edges], np.maximum.reduceat(end, edges)
        else:
            unit = np.unique(rows.cluster, return_inverse=True)[1]
            begins, ends = start[:1], np.array([end.max()])
        stream = self.streams.assign(begins, ends)
        if (stream < 0).all():
            return
        found = [unit_gains(m, rows.scores, rows.positive, rows.weights, unit) for m in self.memories if m is not None]
        gain, least = (np.concatenate(part).T for part in zip(*found, strict=True))
        if rows.cluster is not None:
            gain, least = gain.sum(axis=0, keepdims=True), least.sum(axis=0, keepdims=True)
        kept = stream >= 0
        self.streams.bet(stream[kept], ends[kept], gain[kept], least[kept], clock)

    def _note_open(self, start: FloatArray, end: FloatArray, clock: float) -> None:
        """Count how many spans were open at a time, and note those that are open at the clock."""
        ends = np.sort(np.concatenate((self.open_until, end)))
        begun = self.open_until.size + np.searchsorted(start, start, side="right")
        self.depth = max(self.depth, int((begun - np.searchsorted(ends, start, side="left")).max()))
        self.open_until = ends[ends >= clock]

    def _learn_known(self, before: float, kept: tuple[float, ...]) -> None:
        known = self.waiting.known_at < before
        if known.any():
            self._learn(self.waiting.take(known).distinct(), kept)
            self.waiting = self.waiting.take(~known)

    def _learn(self, new: DistinctScores, kept: tuple[float, ...]) -> None:
        self.memories = [remember(memory, new, share) for memory, share in zip(self.memories, kept, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return {
            "n_windows": self.n_windows,
            "streams": self.streams.to_dict(),
            "memories": [None if m is None else {k: getattr(m, k).tolist() for k in _COLUMNS} for m in self.memories],
            "waiting": {name: getattr(self.waiting, name).tolist() for name in _WAITING},
            "clock": None if math.isinf(self.clock) else self.clock,
            "depth": self.depth,
            "open_until": self.open_until.tolist(),
        }

    @classmethod
    def from_field(cls, field: DocumentField) -> CalibrationMartingale:
        """Return the martingale of a state; refuses one whose parts are broken, or don't fit together."""
        of = field.members(("n_windows", "streams", "memories", "waiting", "clock", "depth", "open_until"))
        n_windows, streams = of["n_windows"].integer(minimum=0), Streams.from_field(of["streams"])
        memories = [None if item.value is None else _memory(item) for item in of["memories"].items()]
        if len(memories) != len(MEMORIES):
            of["memories"].refuse(f"needs {len(MEMORIES)} memories")
        if streams.n_released > n_windows:
            of["streams"].member("n_released").refuse(f"is above n_windows = {n_windows:,}")
        clock = of["clock"].number(null=-math.inf)
        depth, open_until = of["depth"].integer(minimum=0), of["open_until"].numbers(minimum=0)
        return cls(n_windows, streams, memories, _waiting(of["waiting"]), clock, depth, open_until)


def _memory(field: DocumentField) -> DistinctScores:
    """Return the past as a state has it."""
    of = field.members(_COLUMNS)
    scores = of["scores"].rising()
    columns = [of[name].numbers() for name in _COLUMNS[1:]]
    for name, column in zip(_COLUMNS[1:], columns, strict=True):
        is_bad = column < 0.0 if name == "positives" else column <= 0.0
        if column.size != scores.size or is_bad.any():
            of[name].refuse(f"does not hold {scores.size:,} weights")
    if scores[0] < 0.0 or scores[-1] > 1.0 or (columns[2] > columns[0]).any():
        field.refuse("holds scores outside [0, 1], or more positives than rows")
    return DistinctScores(scores, *columns)


def _waiting(field: DocumentField) -> Waiting:
    """Return the rows whose labels are not known yet, as a state has them."""
    of = field.members(_WAITING)
    waiting = Waiting(**{name: of[name].numbers(minimum=0) for name in _WAITING})
    if len({getattr(waiting, name).size for name in _WAITING}) != 1:
        field.refuse("holds columns of different lengths")
    for name in ("scores", "weight", "positive"):
        column = getattr(waiting, name)
        if ((column < 0.0) | (column > 1.0)).any() or (name == "positive" and (column % 1.0).any()):
            of[name].refuse("holds a number outside [0, 1], or a label that is neither 0 nor 1")
    return waiting


def _numbers(times: IntArray | FloatArray | Any) -> FloatArray:
    """Return times as numbers in the same order, datetimes in microseconds."""
    if times.dtype.kind == "M":
        times = times.astype("datetime64[us]").astype(np.int64)
    return np.asarray(times, dtype=np.float64)
