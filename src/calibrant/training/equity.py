"""What stakes on overlapping labels make of one capital: positions that share it, its path, and that of holding.

A position opens at its row's time with a share of the capital of that moment, and earns the row's realised return when
its label ends: each return counts once, and all of it compounds. Positions that are open together never take more than
a limit of the capital, so a new one gets what is free. Costs are paid on all that is moved, at both ends. Nothing here
looks ahead: what is opened depends on what has ended by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.dependence import TimeArray, as_label_times, block_draws, block_length
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.kernels import share_capital
from calibrant.numerics import FloatArray, IntArray
from calibrant.readable import Readable
from calibrant.training.block_bootstrap import PairedMean, paired_means
from calibrant.validation import ArrayLike, as_generator, as_scores, at_first, check_number, check_same_length

#: A basis point: costs are given in these.
BASIS_POINT = 1e-4
_YEAR = np.timedelta64(31_557_600, "s")
_N_DRAWS, _N_PATHS = 1000, 500


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Equity(Readable):
    """The path of a capital of 1, and what each row had in it.

    Attributes
    ----------
    time : ndarray of shape (m,)
        Moments at which a row starts or a label ends, sorted.
    capital : ndarray of shape (m,)
        After what had ended by then was paid out: open positions count as what they were opened at.
    exposure : ndarray of shape (m,)
        What is open, longs and shorts added up, over the capital.
    turnover : ndarray of shape (m,)
        What was opened and closed, over the capital.
    share : ndarray of shape (n,)
        Of each row: the share of the capital that its position opened with, below zero to gain by a fall.
    earned : ndarray of shape (n,)
        Of each row: what its position added to the capital, over the capital at its opening, after costs.
    n_trades : int
        Positions that were opened.
    per : {"year", "bar"}
        What growth and turnover are given for: a year of 365.25 days, or a moment where times are no dates.
    length : float
        How many of these the path takes.
    block : int
        Moments of a block, for intervals.
    """

    time: TimeArray
    capital: FloatArray
    exposure: FloatArray
    turnover: FloatArray
    share: FloatArray
    earned: FloatArray
    n_trades: int
    per: str
    length: float
    block: int

    @property
    def final(self) -> float:
        """The capital at the end."""
        return float(self.capital[-1])

    @property
    def max_drawdown(self) -> float:
        """The largest fall of the capital below an earlier value, as a share of it."""
        return _drawdown(self.capital)

    @property
    def growth(self) -> float:
        """The logarithm of what the capital grew by, a year or bar; minus infinity where it was lost."""
        return float(self.steps().sum()) / self.length

    def steps(self) -> FloatArray:
        """Return the logarithm of what the capital grew by at each moment."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.capital)
        lost = np.isneginf(logs)
        steps = np.diff(np.where(lost, 0.0, logs), prepend=0.0)
        steps[lost] = -np.inf
        return steps

    def resampled_drawdowns(self, rng: int | np.random.Generator | None = 0) -> FloatArray:
        """Return the largest falls of paths made of blocks of this one, drawn with replacement."""
        steps, generator = self.steps(), as_generator(rng)
        n, block = steps.size, min(self.block, steps.size)
        found = np.empty(_N_PATHS)
        for draw in range(_N_PATHS):
            first = generator.integers(0, n, -(-n // block))
            rows = (first[:, None] + np.arange(block)).ravel()[:n] % n
            found[draw] = _drawdown(np.exp(np.cumsum(steps[rows])))
        return found

    def _columns(self) -> dict[str, Sequence[Any]]:
        names = ("capital", "exposure", "turnover")
        return {"time": self.time.astype(str).tolist()} | {name: getattr(self, name).tolist() for name in names}

    def _before(self) -> list[str]:
        became = f"Capital {self.final:.4f} after {self.length:,.1f} {self.per}s from 1"
        fall = f"largest fall {100.0 * self.max_drawdown:.1f}%"
        return [f"{became}, growth {self.growth:+z.4f} a {self.per}, {fall}, positions {self.n_trades:,}"]


def trade(
    stakes: ArrayLike,
    label_return: ArrayLike,
    *,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    cost_bp: float = 0.0,
    gross: float = 1.0,
) -> Equity:
    """Stake shares of one capital on rows, and return what it becomes.

    Parameters
    ----------
    stakes : array-like of shape (n,)
        The share of the capital that each row's position asks for when it opens; below zero to gain by a fall.
    label_return : array-like of shape (n,)
        Simple return from a row's time to the end of its label: 0.02 where the price rose by 2%.
    time, label_end : array-like of shape (n,), optional
        When positions open and end; without `label_end` at once, without both one after another.
    cost_bp : float
        Of opening and of closing, in basis points (hundredths of a percent) of the capital moved.
    gross : float
        The most that all open positions take together, longs and shorts added up, as a share of the capital: 1 is all
        of it, more is borrowed.

    Returns
    -------
    Equity

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    At a moment, labels that end are paid out before positions open. Those that open together and ask for more than is
    free get it in proportion. A position counts as what it was opened at until its label ends: what it is worth
    meanwhile isn't known from labels, so falls between are not seen. With `gross` of at most 1 and losses of at most
    what was staked the limit holds at every moment; with more a loss may leave too much open, and nothing is opened
    until it has ended. A capital that is lost stays at 0.

    Examples
    --------
    >>> from calibrant.training import trade
    >>> found = trade([0.5, -0.5], [0.1, -0.1], cost_bp=10)
    >>> round(found.final, 6)
    1.100401
    """
    wanted = _column(stakes, "stakes")
    moments = Moments.of(label_return, time, label_end, n_rows=wanted.size, what="stakes")
    limit = check_number("gross", gross, minimum=0.0, is_open=True)
    return moments.trade(wanted, check_cost(cost_bp), limit)


def buy_and_hold(
    label_return: ArrayLike,
    *,
    time: ArrayLike,
    label_end: ArrayLike,
    symbol: ArrayLike | None = None,
    cost_bp: float = 0.0,
) -> Equity:
    """Buy equal parts of all symbols with all of a capital, hold them to the end, and return what it becomes.

    Parameters
    ----------
    label_return, time, label_end, cost_bp
        As for `trade`.
    symbol : array-like of shape (n,), optional
        What each row's return is of; one thing by default.

    Returns
    -------
    Equity
        A symbol is bought at its first row. Its price is followed from label to label: from the end of one to the end
        of the one that starts there, up to the last that no row follows. `share` and `earned` are of the rows on this
        way, over the capital at the start.

    Raises
    ------
    CalibrantError
        If an argument can't be used, if a symbol has two rows of one time, or if labels end when they start.

    Examples
    --------
    >>> from calibrant.training import buy_and_hold
    >>> found = buy_and_hold([0.1, 0.2, -0.5], time=[0, 1, 2], label_end=[2, 3, 4])  # a price of 1, then 1.1, then 0.55
    >>> round(found.final, 6)
    0.55
    """
    moments = Moments.of(label_return, time, label_end)
    symbols = np.zeros(moments.start.size, dtype=np.int64)
    if symbol is not None:
        symbols = np.unique(np.asarray(symbol).astype(str), return_inverse=True)[1]
        check_same_length(symbols.size, moments.start.size, "symbol", "label_return")
    fault = moments.why_not_held(symbols)
    if fault:
        raise InvalidInputError(fault)
    return moments.hold(symbols, check_cost(cost_bp))


def check_cost(cost_bp: object) -> float:
    """Check a cost in basis points."""
    return check_number("cost_bp", cost_bp, minimum=0.0, maximum=1.0 / BASIS_POINT, example="5")


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Rows with realised returns: when their labels start and end, as numbers of sorted moments."""

    returns: FloatArray
    start: IntArray
    end: IntArray
    time: TimeArray
    block: int

    @classmethod
    def of(
        cls,
        label_return: ArrayLike,
        time: ArrayLike | None,
        label_end: ArrayLike | None,
        *,
        n_rows: int | None = None,
        what: str = "time",
    ) -> Moments:
        """Check rows of which there are `n_rows` in the argument `what`."""
        returns = as_returns(label_return, "label_return")
        if time is None and label_end is not None:
            raise InvalidInputError("label_end comes without time. Pass the time of each row too.")
        given = returns.size
        if time is None:
            first, last = np.arange(given), np.arange(given) + 1
        else:
            first, last = as_label_times(time, time if label_end is None else label_end)
            check_same_length(first.size, given, "time", "label_return")
        if n_rows is not None:
            check_same_length(given, n_rows, "label_return", what)
        moments, place = np.unique(np.concatenate((first, last)), return_inverse=True)
        start, end = place[:given].astype(np.int64), place[given:].astype(np.int64)
        until = np.arange(moments.size)
        np.maximum.at(until, start, end)
        return cls(returns, start, end, moments, block_length(np.arange(moments.size), until))

    def overlap(self) -> float:
        """Return how many labels are open at once, on average over the moments; at least 1."""
        return max(1.0, float((self.end - self.start).sum()) / max(self.time.size - 1, 1))

    def trade(self, stakes: FloatArray, cost_bp: float, gross: float) -> Equity:
        """Do as the function `trade`, of checked values."""
        cost, side = cost_bp * BASIS_POINT, np.sign(stakes)
        gain = side * self.returns - cost * (2.0 + self.returns)
        # rows that nothing here tells apart may come in any order: sums then have the same bits in all
        order = np.lexsort((stakes, self.returns, self.end, self.start))
        start, end = self.start[order], self.end[order]
        closing = np.lexsort((start == end, end))
        taken = np.zeros((2, start.size))
        capital, exposure = np.ones(self.time.size), np.zeros(self.time.size)
        wanted = np.abs(stakes[order])
        arrays = (start, end, closing, wanted, gain[order])
        n_trades = share_capital(*arrays, gross, taken, capital, exposure)
        share, amount = taken
        moved = np.bincount(start, amount, self.time.size)
        moved += np.bincount(end, amount * (1.0 + self.returns[order]), self.time.size)
        turnover = np.divide(moved, capital, out=np.zeros_like(moved), where=capital > 0.0)
        of_row = np.empty_like(share)
        of_row[order] = share
        return self._equity(capital, exposure, turnover, side * of_row, of_row * gain, n_trades)

    def why_not_held(self, symbols: IntArray) -> str:
        """Say why these rows don't tell what holding their symbols earns; empty where they do."""
        if (self.start == self.end).any():
            return "labels end when they start, so nothing can be held. Pass when each label is known as label_end."
        order = np.lexsort((self.start, symbols))
        twice = (np.diff(symbols[order]) == 0) & (np.diff(self.start[order]) == 0)
        if twice.any():
            when = self.time[self.start[order][int(twice.argmax())]]
            return (
                f"a symbol has two rows of the time {when} ({int(twice.sum()):,} such pairs), so its price isn't "
                "known. Pass the symbol of each row."
            )
        return ""

    def hold(self, symbols: IntArray, cost_bp: float) -> Equity:
        """Do as the function `buy_and_hold`, of checked values."""
        cost, n = cost_bp * BASIS_POINT, self.time.size
        names = np.unique(symbols)
        part = 1.0 / names.size
        capital, held, moved = np.zeros(n), np.zeros(n), np.zeros(n)
        share, earned = np.zeros(symbols.size), np.zeros(symbols.size)
        for name in names:
            rows = self._chain(np.flatnonzero(symbols == name))
            value = part * np.cumprod(1.0 + self.returns[rows])
            first, last = self.start[rows[0]], self.end[rows[-1]]
            # the value that stands at each moment: that of the last label that has ended
            n_ended = np.searchsorted(self.end[rows], np.arange(n), side="right")
            path = np.concatenate(([part], value))[n_ended]
            is_open = (np.arange(n) >= first) & (np.arange(n) < last)
            paid = part * cost * (np.arange(n) >= first) + value[-1] * cost * (np.arange(n) >= last)
            capital += path - paid
            held += np.where(is_open, path, 0.0)
            moved[first] += part
            moved[last] += value[-1]
            share[rows] = np.concatenate(([part], value[:-1]))
            earned[rows] = share[rows] * self.returns[rows]
        capital = np.maximum(capital, 0.0)
        alive = capital > 0.0
        exposure, turnover = (np.divide(what, capital, out=np.zeros(n), where=alive) for what in (held, moved))
        return self._equity(capital, exposure, turnover, share, earned, names.size)

    def held_share(self, symbols: IntArray) -> float:
        """Return the share of the time from the first row to the last end of a label in which symbols are held."""
        places = (self.time - self.time[0]).astype(np.float64)
        chains = [self._chain(np.flatnonzero(symbols == name)) for name in np.unique(symbols)]
        covered = [(places[self.end[rows]] - places[self.start[rows]]).sum() for rows in chains]
        return float(np.sum(covered) / (len(chains) * places[-1]))

    def sum_at_start(self, values: FloatArray) -> FloatArray:
        """Return the sum of values of rows at each moment, by the rows' start."""
        return np.bincount(self.start, values, self.time.size).astype(np.float64)

    def _chain(self, rows: IntArray) -> IntArray:
        """Return rows of a symbol of which each starts where the one before it ends, or after a gap."""
        rows = rows[np.argsort(self.start[rows], kind="stable")]
        following = np.searchsorted(self.start[rows], self.end[rows]).tolist()
        found, place = [], 0
        while place < rows.size:
            found.append(place)
            place = following[place]
        return rows[found]

    def _equity(
        self,
        capital: FloatArray,
        exposure: FloatArray,
        turnover: FloatArray,
        share: FloatArray,
        earned: FloatArray,
        n_trades: int,
    ) -> Equity:
        per, length = "bar", float(max(self.time.size - 1, 1))
        if self.time.dtype.kind == "M" and self.time[-1] > self.time[0]:
            per, length = "year", float((self.time[-1] - self.time[0]) / _YEAR)
        return Equity(self.time, capital, exposure, turnover, share, earned, n_trades, per, length, self.block)


def compare_growth(
    paths: Mapping[str, Equity], *, over: str | None = None, level: float = 0.95, rng: int = 0
) -> dict[str, PairedMean]:
    """Return the growth of each path of the same rows, a year or bar, or that over the path named `over`.

    Intervals are by the block bootstrap over moments, with the same draws for all. A path that loses all has a growth
    of minus infinity, and no interval; over such a path nothing is known.
    """
    steps = {name: path.steps() * (path.time.size / path.length) for name, path in paths.items()}
    first = next(iter(paths.values()))
    finite = {name: values for name, values in steps.items() if np.isfinite(values).all()}
    means: dict[str, PairedMean] = {}
    if finite and (over is None or over in finite):
        means = paired_means(finite, baseline=over, block=first.block, level=level, n_draws=_N_DRAWS, rng=rng)
    lost = PairedMean(-np.inf, -np.inf, -np.inf, np.nan, level, first.time.size, first.block)
    nothing = replace(lost, value=np.nan, low=np.nan, high=np.nan)
    return {
        name: means.get(name, lost if over is None or over in finite else nothing) for name in paths if name != over
    }


def growth_draws(paths: Sequence[Equity], rng: int) -> FloatArray:
    """Return block-bootstrap draws of the growth of paths of the same rows, none of which is lost, shape (draws, m)."""
    first = paths[0]
    table = np.column_stack([path.steps() for path in paths]) * (first.time.size / first.length)
    return block_draws(table, first.block, _N_DRAWS, as_generator(rng))


def as_returns(values: ArrayLike, name: str) -> FloatArray:
    """Return simple returns of prices, one per row; refuse those below -1, which would lose more than all."""
    returns = _column(values, name)
    bad = returns < -1.0
    if bad.any():
        problem = f"{returns[int(bad.argmax())].item()!r} is below -1, as if more than the whole price was lost"
        raise InvalidInputError(at_first(bad, name, problem, "Pass simple returns, such as -0.02."))
    return returns


def _column(values: ArrayLike, name: str) -> FloatArray:
    checked = as_scores(values, name=name).values
    if checked.ndim != 1:
        raise ShapeError(f"{name} has shape {checked.shape}. Pass one number per row, shape (n,).")
    return checked


def _drawdown(path: FloatArray) -> float:
    """Return the largest fall of a path below an earlier value, or below 1 at the start."""
    peak = np.maximum(np.maximum.accumulate(path), 1.0)
    return float((1.0 - path / peak).max())
