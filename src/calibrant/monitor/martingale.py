"""A test martingale of calibration: bets on each window by what the windows before it have shown."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.metrics import STAKES, log_gains, recalibrated
from calibrant.numerics import FloatArray, clip_open, dot, expit, logit
from calibrant.quantised import LEAST_BITS, CellTable
from calibrant.summary import DistinctScores, ScoreSummary

#: Weight that what was known keeps when a window is added, for each memory of the past.
MEMORIES = (1.0, 0.7)
#: How the past is turned into other probabilities.
METHODS = ("isotonic", "shift")
#: What a state holds of each memory.
_COLUMNS = ("scores", "weight", "weight_squared", "positives")
#: Cells of the past that are kept apart; beyond that, neighbours are gathered.
_MOST_CELLS = 4096
_CLIP = 1e-9
_NEWTON_STEPS = 50
_LARGEST_STEP = 4.0
_SETTLED = 1e-10
#: Weight of a row that is drawn towards no shift.
_PRIOR_ROWS = 4.0


@dataclass(slots=True)
class CalibrationMartingale:
    """What one unit of money has become by bets against the probabilities, window by window.

    Attributes
    ----------
    log_wealth : ndarray of shape (n_bettors,)
        Logarithm of what each bettor has won on all starts so far.
    n_windows : int
    memories : list of DistinctScores or None
        The past, as each memory of it has it.

    Notes
    -----
    Before a window is seen, its rows are bet on by probabilities q that were fitted to earlier windows: the stake on
    each row grows by the factor 1 - s + s q(y) / p(y), where p(y) and q(y) are the probabilities of what happened. If
    each label has its probability given all that was seen before, each factor has expectation 1: the product is a
    martingale. There is a bettor for each share s of the stake, each memory of the past (all of it, or the last few
    windows) and each way to turn it into q (isotonic regression, or one shift of all logits).

    Each bettor spreads its money over the windows at which it might start, 1 / (t (t + 1)) on window t, for a change
    that comes late is not to be paid for by what was lost before it. The mean of all bettors is a martingale that
    starts at 1 and is never negative, so the chance that it ever reaches 1 / a is at most a (Ville's inequality),
    however often one looks. Windows of any size may come; only their order counts.

    References
    ----------
    Ville (1939), *Étude critique de la notion de collectif*. Shafer (2021), *Testing by betting*, JRSS A 184.
    Dimitriadis, Henzi, Puke and Ziegel (2022), *A safe Hosmer-Lemeshow test*, arXiv:2203.00426, for the factor.

    Examples
    --------
    >>> import calibrant as cb
    >>> martingale = CalibrationMartingale()
    >>> day = cb.ScoreSummary.from_arrays([0.5] * 80, [0, 1, 1, 1] * 20)
    >>> [round(martingale.add(day), 1) for _ in range(3)]
    [0.0, 8.8, 19.0]
    """

    log_wealth: FloatArray = field(default_factory=lambda: np.full(len(MEMORIES) * len(METHODS) * len(STAKES), -np.inf))
    n_windows: int = 0
    memories: list[DistinctScores | None] = field(default_factory=lambda: [None] * len(MEMORIES))

    @property
    def log_e_value(self) -> float:
        """The logarithm of the e-value: what one unit has become."""
        unspent = -math.log1p(self.n_windows)
        return float(np.logaddexp(_log_mean(self.log_wealth), unspent))

    def add(self, window: ScoreSummary) -> float:
        """Bet on the rows of a window, then learn from them; return the logarithm of the e-value.

        Scores of the window are probabilities, and weights are stakes: none may be above 1.
        """
        t = self.n_windows + 1
        gains = np.concatenate([_gains(memory, window) for memory in self.memories])
        with np.errstate(invalid="ignore"):
            wealth = np.logaddexp(self.log_wealth, -math.log(t) - math.log1p(t)) + gains
        self.log_wealth = np.where(np.isnan(wealth), -np.inf, wealth)
        self.n_windows = t
        for i, kept in enumerate(MEMORIES):
            self.memories[i] = _remember(self.memories[i], window.distinct, kept)
        return self.log_e_value

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values."""
        wealth = [None if math.isinf(w) and w < 0.0 else min(w, 1e300) for w in self.log_wealth.tolist()]
        memories = [None if m is None else {k: getattr(m, k).tolist() for k in _COLUMNS} for m in self.memories]
        return {"log_wealth": wealth, "n_windows": self.n_windows, "memories": memories}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> CalibrationMartingale:
        """Return the martingale of a state."""
        wealth = np.array([-np.inf if w is None else w for w in state["log_wealth"]], dtype=np.float64)
        memories = [
            None if m is None else DistinctScores(*(np.array(m[k], dtype=np.float64) for k in _COLUMNS))
            for m in state["memories"]
        ]
        return cls(wealth, int(state["n_windows"]), memories)


def _log_mean(values: FloatArray) -> float:
    largest = float(values.max())
    if math.isinf(largest):
        return largest
    return largest + math.log(float(np.exp(values - largest).sum()) / values.size)


def _gains(memory: DistinctScores | None, window: ScoreSummary) -> FloatArray:
    """Return the logarithm of what each method and stake gains on a window; nothing is bet without a past."""
    if memory is None:
        return np.zeros(len(METHODS) * len(STAKES))
    p, wins = window.scores, window.positives
    losses = np.maximum(window.weight - wins, 0.0)
    return np.concatenate([log_gains(p, q, wins, losses) for q in (recalibrated(memory, p), _shifted(memory, p))])


def _shifted(memory: DistinctScores, p: FloatArray) -> FloatArray:
    """Shift the logits of `p` by what brings the past's mean probability to its rate, drawn towards nothing."""
    z = logit(clip_open(memory.scores, _CLIP))
    shift = 0.0
    for _ in range(_NEWTON_STEPS):
        q = expit(z + shift)
        slope = dot(memory.weight, q) - float(memory.positives.sum()) + _PRIOR_ROWS * 0.25 * shift
        bend = dot(memory.weight, q * (1.0 - q)) + _PRIOR_ROWS * 0.25
        step = max(-_LARGEST_STEP, min(_LARGEST_STEP, slope / bend))
        shift -= step
        if abs(step) < _SETTLED:
            break
    moved = expit(logit(clip_open(p, _CLIP)) + shift)
    return np.where((p > 0.0) & (p < 1.0), moved, p)


def _remember(memory: DistinctScores | None, window: DistinctScores, kept: float) -> DistinctScores:
    cells = window
    if memory is not None:
        parts = zip(DistinctScores(memory[0], *(kept * column for column in memory[1:])), window, strict=True)
        scores, weight, squared, positives = (np.concatenate(pair) for pair in parts)
        cells = ScoreSummary.from_cells(scores, weight, np.minimum(positives, weight), weight_squared=squared).distinct
    if cells.scores.size <= _MOST_CELLS:
        return cells
    table = CellTable.empty(LEAST_BITS, is_probability=True)
    table.add_distinct(cells)
    return table.summary().distinct
