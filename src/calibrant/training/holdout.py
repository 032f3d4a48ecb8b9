"""Parts of the rows in the order of time: to fit, to stop, to calibrate and to test on, purged of what overlaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.dependence import PurgedTimeSeriesSplit
from calibrant.errors import InvalidInputError
from calibrant.numerics import IntArray
from calibrant.training.dataset import Dataset

_FEWEST_ROWS = 30


@dataclass(frozen=True, slots=True, eq=False)
class Holdout:
    """Row numbers of each part.

    Attributes
    ----------
    fit, stop, validation, test : ndarray
        To fit the model on, to tell boosting when to stop, to fit the calibrator on, and to measure on: each part
        comes after the one before it, and no label of a part reaches into a later one.
    n_purged : int
        Rows that are in no part, as their labels do.
    """

    fit: IntArray
    stop: IntArray
    validation: IntArray
    test: IntArray
    n_purged: int


def hold_out(
    data: Dataset,
    *,
    validation: float = 0.2,
    test: float = 0.2,
    stop: float = 0.15,
    embargo: np.timedelta64 | None = None,
) -> Holdout:
    """Cut the rows in time.

    Parameters
    ----------
    data : Dataset
    validation, test : float
        Shares of all rows.
    stop : float
        Share of the rows before the validation part.
    embargo : timedelta64, optional
        Time that has to lie between the end of a label and the start of the part that follows.

    Raises
    ------
    InvalidInputError
        If a part is left with hardly any row, or with rows of one class only.
    """
    rows = np.arange(data.n_rows)
    past, test_rows = _last(data, rows, round(test * rows.size), embargo)
    past, validation_rows = _last(data, past, round(validation * rows.size), embargo)
    fit_rows, stop_rows = _last(data, past, round(stop * past.size), embargo)
    parts = {"fit": fit_rows, "stop": stop_rows, "validation": validation_rows, "test": test_rows}
    for name, part in parts.items():
        if part.size < _FEWEST_ROWS or np.unique(data.y[part]).size < 2:
            raise InvalidInputError(
                f"the {name} part has {part.size:,} rows of the classes {np.unique(data.y[part]).tolist()!r}: "
                f"at least {_FEWEST_ROWS} rows of two classes are needed. Pass more bars, or a shorter horizon."
            )
    return Holdout(**parts, n_purged=rows.size - sum(part.size for part in parts.values()))


def _last(data: Dataset, rows: IntArray, n_last: int, embargo: np.timedelta64 | None) -> tuple[IntArray, IntArray]:
    """Return the rows whose labels end before the last rows start, and these."""
    split = PurgedTimeSeriesSplit(
        1,
        test_size=max(n_last, 1),
        times=data.time[rows],
        label_end=data.label_end[rows],
        purge=np.timedelta64(0, "us") if embargo is None else embargo,
    )
    past, last = next(split.split(rows))
    return rows[past], rows[last]
