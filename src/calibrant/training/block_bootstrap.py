"""Means on rows in time, and of paired differences: by the circular block bootstrap, or by Student's t over blocks.

Labels that overlap make the losses of neighbouring rows move together. Blocks of neighbouring rows are drawn with
replacement, so that what moves together stays together (`calibrant.dependence.block_draws`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibrant.dependence import Units, block_draws
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.metrics import error_over_units
from calibrant.numerics import FloatArray, normal_quantile
from calibrant.validation import ArrayLike, as_generator, as_scores, check_fraction, check_integer, check_same_length


@dataclass(frozen=True, slots=True)
class PairedMean:
    """The mean of a loss, or of a difference of two on the same rows, with an interval by blocks of rows."""

    value: float
    low: float
    high: float
    #: Standard error.
    error: float
    #: Nominal coverage of the interval.
    level: float
    #: Number of rows, and how many of them make a block.
    n_rows: int
    block: int


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

    Losses are those of the same rows, in the order of time. `baseline` names the one that is taken from all others, and
    is not among the results. `block` is the number of rows of a block, as `block_length` gives it.

    Blocks are circular: the first row follows the last. What all losses find hard cancels in the differences. Ends
    are the value plus and minus the normal quantile times the standard deviation of the draws. An interval is for one
    comparison: the best of many looks better than it is.

    References
    ----------
    Politis and Romano (1992), *A circular block-resampling procedure for stationary data*.
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


def mean_over_blocks(values: FloatArray, *, units: Units, level: float) -> PairedMean:
    """Return the mean of checked values with an interval by Student's t over blocks, as a run's figures have it."""
    found = error_over_units(values, np.ones(values.size), (units,)).error
    mean = float(values.mean())
    return PairedMean(mean, *found.ends(mean, level), found.error, level, values.size, values.size // units.n)


def _columns(losses: Mapping[str, ArrayLike]) -> dict[str, FloatArray]:
    columns: dict[str, FloatArray] = {}
    for name, values in losses.items():
        column = as_scores(values, name=f"losses[{name!r}]").values
        if column.ndim != 1:
            raise ShapeError(f"losses[{name!r}] has shape {column.shape}. Pass one loss per row, shape (n,).")
        columns[name] = column
        check_same_length(next(iter(columns.values())).size, column.size, "the first loss", f"losses[{name!r}]")
    if not columns:
        raise InvalidInputError("losses is empty. Pass at least one array of losses.")
    return columns
