"""The gate of the forecasts' numbers: points on the number line, levels, and one or several numbers per row."""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import numpy as np

from calibrant.errors import InvalidInputError, InvalidProbabilityError, InvalidScoreError, InvalidTypeError, ShapeError
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike, as_scores, check_integer, check_same_length

#: Outcomes and parameters are at most this, so that sums of their squares are ordinary numbers.
LARGEST = 1e100


@dataclass(frozen=True, slots=True)
class Points:
    """Checked points: `values` of shape (n, m), or (1, m) where all rows share them; `is_flat` where m was not said."""

    values: FloatArray
    is_flat: bool

    def shaped(self, answers: FloatArray) -> FloatArray:
        """Bring answers of shape (n, m) to the shape that was asked for."""
        return answers[:, 0] if self.is_flat else answers


def as_points(values: ArrayLike, n: int, *, name: str) -> Points:
    """Check points to evaluate at: a number, shape (n,), (n, m), or (1, m) for the same m in every row.

    They may be infinite, but not NaN.
    """
    if is_number(values):
        array = np.array([[float(values)]])
        is_flat = True
    else:
        array = _as_array(values, name)
        is_flat = array.ndim == 1
        if array.ndim == 1:
            check_same_length(n, array.size, "the forecast", name)
            array = array[:, None]
        elif array.shape[0] not in (1, n):
            raise ShapeError(
                f"{name} has shape {array.shape} for a forecast of {n:,} rows. Pass shape ({n},) for a value per row, "
                f"({n}, m) for m values per row, or (1, m) for the same m values in every row."
            )
    missing = np.isnan(array)
    if missing.any():
        row = int(missing.any(axis=1).argmax())
        raise InvalidScoreError(
            f"{name} row {row}: nan is not a number ({missing.any(axis=1).sum():,} of {len(array):,} rows). "
            "Drop or fill these rows."
        )
    return Points(array, is_flat)


def as_levels(values: ArrayLike, n: int, *, name: str) -> Points:
    """Check levels in [0, 1], of the shapes that `as_points` takes."""
    points = as_points(values, n, name=name)
    bad = (points.values < 0.0) | (points.values > 1.0)
    if bad.any():
        row, j = (int(i) for i in np.argwhere(bad)[0])
        raise InvalidProbabilityError(
            f"{name} row {row}: {points.values[row, j].item()!r} is outside [0, 1] "
            f"({bad.any(axis=1).sum():,} of {len(bad):,} rows). Pass levels such as 0.9."
        )
    return points


def as_rising_levels(values: ArrayLike, *, name: str, more: str = "") -> FloatArray:
    """Check distinct levels in [0, 1] in rising order; `more` ends the advice of the message."""
    levels = as_numbers(values, name=name)
    bad = (levels < 0.0) | (levels > 1.0) | (np.diff(levels, prepend=-1.0) <= 0.0)
    if bad.any():
        k = int(bad.argmax())
        raise InvalidProbabilityError(
            f"{name} row {k}: {levels[k].item()!r} doesn't rise within [0, 1] ({bad.sum():,} of {bad.size:,}). "
            f"Pass distinct levels in rising order, such as [0.1, 0.5, 0.9]{more}."
        )
    return levels


def as_numbers(values: ArrayLike, *, name: str) -> FloatArray:
    """Check one finite number per row, of any container, shape (n,)."""
    checked = as_scores(values, name=name).values
    if checked.ndim != 1:
        raise ShapeError(f"{name} has shape {checked.shape}. Pass one number per row, shape (n,).")
    return within_reach(checked, name)


def as_matrix(values: ArrayLike, *, name: str) -> FloatArray:
    """Check finite numbers of shape (n, m) with m of at least 2."""
    checked = as_scores(values, name=name).values
    if checked.ndim != 2:
        raise ShapeError(f"{name} has shape {checked.shape}. Pass several numbers per row, shape (n, m).")
    return within_reach(checked, name)


def within_reach(values: FloatArray, name: str) -> FloatArray:
    """Refuse numbers whose squares no float can hold or sum."""
    if -LARGEST <= values.min() and values.max() <= LARGEST:
        return values
    bad = np.abs(values) > LARGEST
    rows = bad if bad.ndim == 1 else bad.any(axis=1)
    first = values[bad][0].item()
    raise InvalidInputError(
        f"{name} row {int(rows.argmax())}: {first!r} is beyond {LARGEST:g} ({rows.sum():,} of {rows.size:,} rows). "
        "Measure in a larger unit."
    )


def is_number(value: object) -> bool:
    """Say whether this is a single real number, of Python or NumPy."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def check_rising(values: FloatArray, *, name: str, fix: str) -> None:
    """Raise InvalidInputError unless every row of `values`, shape (n, m), rises or stays."""
    falls = np.diff(values, axis=1) < 0.0
    if falls.any():
        row, j = (int(i) for i in np.argwhere(falls)[0])
        raise InvalidInputError(
            f"{name} row {row}: {values[row, j + 1].item()!r} comes after {values[row, j].item()!r} "
            f"({falls.any(axis=1).sum():,} of {len(values):,} rows fall). {fix}"
        )


def check_bins(name: str, value: object) -> tuple[int, int]:
    """Check a pair of numbers of bins: of the forecasts' medians, and within each, of their widths."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InvalidTypeError(
            f"{name}={value!r} is no pair. Pass the bins of the median and of the width, such as (5, 3)."
        )
    return check_integer(f"{name}[0]", value[0], minimum=1), check_integer(f"{name}[1]", value[1], minimum=1)


def frozen(values: FloatArray) -> FloatArray:
    """Return a copy that nobody can change."""
    own: FloatArray = np.array(values, dtype=np.float64, order="C")
    own.flags.writeable = False
    return own


def _as_array(values: ArrayLike, name: str) -> FloatArray:
    """Return numbers of one or two dimensions as float64; they may be infinite only where no container hides them."""
    array = None
    if isinstance(values, (list, tuple)) or type(values) is np.ndarray:
        try:
            array = np.asarray(values)
        except ValueError:  # a ragged list
            array = None
    if array is None or array.dtype.kind not in "fiu" or array.ndim not in (1, 2) or array.size == 0:
        return as_scores(values, name=name).values  # says what is wrong, or reads a series or frame
    return np.ascontiguousarray(array, dtype=np.float64)
