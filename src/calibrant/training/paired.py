"""Paired differences of losses on rows in time, with intervals that know that labels overlap."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibrant.errors import InvalidInputError, ShapeError
from calibrant.numerics import FloatArray, normal_quantile
from calibrant.splits.times import TimeArray, as_times
from calibrant.validation import (
    ArrayLike,
    as_generator,
    as_scores,
    check_fraction,
    check_integer,
    check_same_length,
)

#: A block is this many times as long as a label: blocks cut through 1 / 12 of the variance that overlap makes.
LABELS_PER_BLOCK = 4
_LEAST_BLOCKS = 10
#: Draws are made in parts of about so many numbers.
_PART = 1 << 22


@dataclass(frozen=True, slots=True)
class PairedMean:
    """The mean of a loss, or of a difference of two on the same rows, with a block-bootstrap interval.

    Attributes
    ----------
    value, low, high : float
        The mean, and the ends of its interval.
    error : float
        Standard error.
    level : float
        Nominal coverage.
    n_rows, block : int
        Number of rows, and how many of them make a block.
    """

    value: float
    low: float
    high: float
    error: float
    level: float
    n_rows: int
    block: int

    def __str__(self) -> str:
        return f"{self.value:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"


def block_length(time: ArrayLike, label_end: ArrayLike) -> int:
    """Return how many rows in the order of time make a block: four times the rows that start while a label is open.

    Parameters
    ----------
    time, label_end : array-like of shape (n,)
        When the label of each row starts and is known.

    Notes
    -----
    A label overlaps those of h rows after it, and blocks of b rows lose a share h / (3 b) of the variance that this
    adds. No more than a tenth of the rows make a block, so that there are ten of them at least.

    References
    ----------
    Künsch (1989), *The jackknife and the bootstrap for general stationary observations*, Annals of Statistics 17.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.training.paired import block_length
    >>> block_length(np.arange(1000), np.arange(1000) + 5)
    20
    """
    start, end = _spans(time, label_end)
    overlapped = np.searchsorted(np.sort(start), end, side="right") - np.searchsorted(np.sort(start), start, "right")
    wanted = LABELS_PER_BLOCK * float(overlapped.mean())
    return max(1, min(math.ceil(wanted), start.size // _LEAST_BLOCKS))


def effective_rows(time: ArrayLike, label_end: ArrayLike) -> float:
    """Return the number of independent labels that rows are worth: the sum of their average uniqueness.

    Parameters
    ----------
    time, label_end : array-like of shape (n,)
        When the label of each row starts and is known. Labels of all symbols count as overlapping.

    Notes
    -----
    A label's uniqueness is the mean, over the starts of labels while it is open, of one over the number of labels
    open then.

    References
    ----------
    López de Prado (2018), *Advances in financial machine learning*, sections 4.3 and 4.4.

    Examples
    --------
    >>> from calibrant.training.paired import effective_rows
    >>> effective_rows([0, 1, 2, 3], [1, 2, 3, 4])  # each label but the first shares a start
    2.25
    """
    start, end = _spans(time, label_end)
    moments = np.unique(start)
    first = np.searchsorted(moments, start)
    after = np.searchsorted(moments, end, side="right")
    steps = np.zeros(moments.size + 1)
    np.add.at(steps, first, 1.0)
    np.add.at(steps, after, -1.0)
    shared = np.concatenate(([0.0], np.cumsum(1.0 / np.cumsum(steps)[:-1])))
    return math.fsum((shared[after] - shared[first]) / (after - first))


def paired_means(
    losses: Mapping[str, ArrayLike],
    *,
    baseline: str | None = None,
    block: int = 1,
    level: float = 0.95,
    n_draws: int = 2000,
    rng: int | np.random.Generator | None = 0,
) -> dict[str, PairedMean]:
    """Return the mean of each loss, or of its difference to a baseline, all with the same bootstrap draws.

    Parameters
    ----------
    losses : mapping of str to array-like of shape (n,)
        Losses of the same rows, in the order of time.
    baseline : str, optional
        The name of the one that is taken from all others.
    block : int
        Rows of a block; see `block_length`.
    level : float
        Nominal coverage of the intervals.
    n_draws : int
        Number of bootstrap draws.
    rng : int or Generator, optional

    Returns
    -------
    dict of str to PairedMean
        The baseline is not among them.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The circular block bootstrap: blocks of neighbouring rows, the first following the last, are drawn with
    replacement. What all losses find hard cancels in the differences. Ends are the value plus and minus the normal
    quantile times the standard deviation of the draws. An interval is for one comparison: the best of many looks
    better than it is.

    References
    ----------
    Politis and Romano (1992), *A circular block-resampling procedure for stationary data*.

    Examples
    --------
    >>> from calibrant.training.paired import paired_means
    >>> paired_means({"a": [1.0, 2.0, 4.0], "b": [0.0, 1.0, 3.0]}, baseline="b")["a"]
    PairedMean(value=1.0, low=1.0, high=1.0, error=0.0, level=0.95, n_rows=3, block=1)
    """
    columns = _columns(losses)
    if baseline is not None:
        if baseline not in columns:
            raise InvalidInputError(f"baseline={baseline!r} is none of {list(columns)!r}. Pass one of these names.")
        base = columns.pop(baseline)
        columns = {name: values - base for name, values in columns.items()}
    block = check_integer("block", block, minimum=1)
    z = normal_quantile(check_fraction("level", level))
    n_draws = check_integer("n_draws", n_draws, minimum=2)
    if not columns:
        return {}
    table = np.column_stack(list(columns.values()))
    error = block_draws(table, block, n_draws, as_generator(rng)).std(axis=0, ddof=1)
    means = table.mean(axis=0)
    return {
        name: PairedMean(float(m), float(m - z * e), float(m + z * e), float(e), level, len(table), block)
        for name, m, e in zip(columns, means, error, strict=True)
    }


def block_draws(table: FloatArray, block: int, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Return the column means of `n_draws` circular block-bootstrap samples of checked rows, shape (n_draws, m)."""
    n, m = table.shape
    block = min(block, n)
    n_blocks = -(-n // block)
    last = n - (n_blocks - 1) * block  # the last block is cut, so that a sample has n rows
    sums = np.vstack((np.zeros(m), np.cumsum(np.vstack((table, table[: block - 1])), axis=0)))
    whole, cut = sums[block:] - sums[:n], sums[last : last + n] - sums[:n]
    out = np.empty((n_draws, m))
    step = max(1, _PART // max(n_blocks * m, 1))
    for first in range(0, n_draws, step):
        size = min(step, n_draws - first)
        starts = rng.integers(0, n, (size, n_blocks))
        out[first : first + size] = (whole[starts[:, 1:]].sum(axis=1) + cut[starts[:, 0]]) / n
    return out


def _spans(time: ArrayLike, label_end: ArrayLike) -> tuple[TimeArray, TimeArray]:
    start, end = as_times(time, name="time"), as_times(label_end, name="label_end")
    check_same_length(start.size, end.size, "time", "label_end")
    early = end < start
    if early.any():
        row = int(early.argmax())
        raise InvalidInputError(
            f"label_end row {row}: {end[row]!s} is before the row's time {start[row]!s} ({early.sum():,} of "
            f"{start.size:,} rows). Pass the time at which the label is known."
        )
    return start, end


def _columns(losses: Mapping[str, ArrayLike]) -> dict[str, FloatArray]:
    columns = {}
    n = None
    for name, values in losses.items():
        column = as_scores(values, name=f"losses[{name!r}]").values
        if column.ndim != 1:
            raise ShapeError(f"losses[{name!r}] has shape {column.shape}. Pass one loss per row, shape (n,).")
        check_same_length(column.size if n is None else n, column.size, "the first loss", f"losses[{name!r}]")
        n, columns[name] = column.size, column
    if not columns:
        raise InvalidInputError("losses is empty. Pass at least one array of losses.")
    return columns
