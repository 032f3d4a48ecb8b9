"""The gate of the forecasts' numbers: points on the number line, levels, and one or several numbers per row."""

from __future__ import annotations

import numbers
from typing import Literal

import numpy as np

from calibrant.errors import InvalidInputError, InvalidProbabilityError, InvalidScoreError, InvalidTypeError, ShapeError
from calibrant.numerics import BoolArray, FloatArray
from calibrant.validation import ArrayLike, as_scores, check_integer, check_same_length

#: Outcomes and parameters are at most this, so that sums of their squares are ordinary numbers.
LARGEST = 1e100
#: Levels that differ by less are one.
SAME_LEVEL = 1e-9
#: Decimals of levels that are computed: more is rounding.
_LEVEL_DIGITS = 15


def as_points(values: ArrayLike, n: int, *, name: str) -> FloatArray:
    """Check points to evaluate at: a number, shape (n,), (n, m), or (1, m) for the same m in every row.

    They may be infinite, but not NaN.
    """
    if is_number(values):
        points = np.array(float(values))
    else:
        points = _as_array(values, name)
        if points.ndim == 1:
            check_same_length(n, points.size, "the forecast", name)
        elif points.shape[0] not in (1, n):
            raise ShapeError(
                f"{name} has shape {points.shape} for a forecast of {n:,} rows. Pass shape ({n},) for a value per row, "
                f"({n}, m) for m values per row, or (1, m) for the same m values in every row."
            )
    refuse(np.isnan(points), points, name, "is not a number", "Drop or fill these rows.", InvalidScoreError)
    return points


def as_levels(values: ArrayLike, n: int, *, name: str) -> FloatArray:
    """Check levels in [0, 1], of the shapes that `as_points` takes."""
    levels = as_points(values, n, name=name)
    bad = (levels < 0.0) | (levels > 1.0)
    refuse(bad, levels, name, "is outside [0, 1]", "Pass levels such as 0.9.", InvalidProbabilityError)
    return levels


def as_rising_levels(values: ArrayLike, *, name: str, more: str = "") -> FloatArray:
    """Check distinct levels in [0, 1] in rising order; `more` ends the advice of the message."""
    levels = as_numbers(values, name=name)
    bad = (levels < 0.0) | (levels > 1.0) | (np.diff(levels, prepend=-1.0) <= 0.0)
    fix = f"Pass distinct levels in rising order, such as [0.1, 0.5, 0.9]{more}."
    refuse(bad, levels, name, "doesn't rise within [0, 1]", fix, InvalidProbabilityError)
    return levels


def as_numbers(values: ArrayLike, *, name: str, ndim: Literal[1, 2] = 1) -> FloatArray:
    """Check finite numbers of any container: one per row, shape (n,), or several, shape (n, m)."""
    checked = as_scores(values, name=name).values
    if checked.ndim != ndim:
        wanted = "one number per row, shape (n,)" if ndim == 1 else "several numbers per row, shape (n, m)"
        raise ShapeError(f"{name} has shape {checked.shape}. Pass {wanted}.")
    return within_reach(checked, name)


def within_reach(values: FloatArray, name: str) -> FloatArray:
    """Refuse numbers whose squares no float can hold or sum."""
    if values.min() < -LARGEST or values.max() > LARGEST:
        refuse(np.abs(values) > LARGEST, values, name, f"is beyond {LARGEST:g}", "Measure in a larger unit.")
    return values


def refuse(
    bad: BoolArray,
    values: FloatArray,
    name: str,
    problem: str,
    fix: str,
    kind: type[InvalidInputError] = InvalidInputError,
) -> None:
    """Raise an error about the first bad value, a number, shape (n,) or (n, m), with its row; nothing if none is."""
    if bad.any():
        rows = bad.any(axis=1) if bad.ndim == 2 else np.atleast_1d(bad)
        first = values[bad][0].item()
        row = int(rows.argmax())
        raise kind(f"{name} row {row}: {first!r} {problem} ({rows.sum():,} of {rows.size:,} rows). {fix}")


def central_ends(level: float) -> tuple[float, float]:
    """Return the levels of the ends of a central interval: 0.05 and 0.95 of 0.9, without the rounding of 1 - 0.9."""
    return round(0.5 - 0.5 * level, _LEVEL_DIGITS), round(0.5 + 0.5 * level, _LEVEL_DIGITS)


def central_levels(levels: FloatArray) -> list[float]:
    """Return the levels of the central intervals that two of some rising levels are the ends of, the widest first."""
    low, high = levels, 1.0 - levels[::-1]
    is_end = (
        np.isclose(low[:, None], high, rtol=0.0, atol=SAME_LEVEL).any(axis=1) & (low > 0.0) & (low < 0.5 - SAME_LEVEL)
    )
    return [round(1.0 - 2.0 * float(each), 9) for each in low[is_end]]


def is_number(value: object) -> bool:
    """Say whether this is a single real number, of Python or NumPy."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def check_rising(values: FloatArray, *, name: str, fix: str) -> None:
    """Raise InvalidInputError unless every row of `values`, shape (n, m), rises or stays."""
    falls = np.diff(values, axis=1) < 0.0
    if falls.any():
        before = values[:, :-1][falls][0].item()
        refuse(falls, values[:, 1:], name, f"comes after {before!r}, but values must rise", fix)


def check_bins(name: str, value: object) -> tuple[int, int]:
    """Check a pair of numbers of bins: of the forecasts' medians, and within each, of their widths."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InvalidTypeError(f"{name}={value!r} is no pair. Pass the bins of median and width, such as (5, 3).")
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
    if array is None or array.dtype.kind not in "fiu" or array.ndim not in (1, 2) or len(array) == 0:
        return as_scores(values, name=name).values  # says what is wrong, or reads a series or frame
    return np.ascontiguousarray(array, dtype=np.float64)
