"""The gate of the forecasts: points on the number line, levels, parameters and outcomes, checked against the rows."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant.errors import InvalidInputError, InvalidProbabilityError, InvalidScoreError, InvalidTypeError, ShapeError
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike, as_scores, as_weight, check_same_length

if TYPE_CHECKING:
    from calibrant.forecasts.base import Forecast


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


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Forecasts with what came of them: rows of weight zero are gone, and `weight` is None where all are one."""

    forecast: Forecast
    y: FloatArray
    weight: FloatArray | None

    def __len__(self) -> int:
        return self.y.size

    @property
    def weights(self) -> FloatArray:
        """The weight of each row, shape (n,)."""
        return np.ones(self.y.size) if self.weight is None else self.weight

    @property
    def effective_size(self) -> float:
        """Kish's effective number of rows, (sum w)^2 / sum w^2."""
        if self.weight is None:
            return float(self.y.size)
        return float(self.weight.sum() ** 2 / np.square(self.weight).sum())


def read_outcomes(forecast: Forecast, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Outcomes:
    """Check a forecast and its outcomes, and drop rows of weight zero.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.
    """
    forecast = as_forecast(forecast)
    values = as_numbers(y, name="y")
    check_same_length(len(forecast), values.size, "forecast", "y")
    weight = as_weight(sample_weight, values.size, rows="the forecast")
    if weight is None or weight.all():
        return Outcomes(forecast, values, weight)
    kept = np.flatnonzero(weight > 0.0)
    return Outcomes(forecast[kept], values[kept], as_weight(weight[kept], kept.size))


def as_forecast(forecast: object, *, name: str = "forecast") -> Forecast:
    """Return one of the forecasts, a frozen distribution of SciPy being made one; raise InvalidTypeError of others."""
    from calibrant.forecasts.base import Forecast
    from calibrant.forecasts.scipy_adapter import ScipyForecast

    if isinstance(forecast, Forecast):
        return forecast
    if hasattr(forecast, "kwds") and hasattr(getattr(forecast, "dist", None), "_parse_args"):
        return ScipyForecast(forecast)
    raise InvalidTypeError(
        f"{name} is a {type(forecast).__name__}, not a forecast. Wrap it first, such as in "
        "calibrant.forecasts.GaussianForecast(mean, std) or SampleForecast(samples)."
    )


def as_numbers(values: ArrayLike, *, name: str) -> FloatArray:
    """Check one finite number per row, of any container, shape (n,)."""
    checked = as_scores(values, name=name)
    if checked.values.ndim != 1:
        raise ShapeError(f"{name} has shape {checked.values.shape}. Pass one number per row, shape (n,).")
    return in_reach(checked.values, name)


def as_matrix(values: ArrayLike, *, name: str) -> FloatArray:
    """Check finite numbers of shape (n, m) with m of at least 2."""
    checked = as_scores(values, name=name)
    if checked.values.ndim != 2:
        raise ShapeError(f"{name} has shape {checked.values.shape}. Pass several numbers per row, shape (n, m).")
    return in_reach(checked.values, name)


def in_reach(values: FloatArray, name: str) -> FloatArray:
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


def as_points(values: ArrayLike, n: int, *, name: str) -> Points:
    """Check points to evaluate at: a number, shape (n,), (n, m), or (1, m) for the same m in every row.

    They may be infinite, but not NaN.
    """
    if _is_number(values):
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


def _as_array(values: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values) if isinstance(values, (np.ndarray, list, tuple)) and _is_plain(values) else None
    if array is None or array.dtype.kind not in "fiu" or array.ndim not in (1, 2) or array.size == 0:
        return as_scores(values, name=name).values  # says what is wrong, or reads a series or frame
    return np.ascontiguousarray(array, dtype=np.float64)


def _is_plain(values: ArrayLike) -> bool:
    if isinstance(values, np.ndarray):
        return not isinstance(values, np.ma.MaskedArray)
    if any(isinstance(row, (list, tuple)) for row in values):
        lengths = {len(row) if isinstance(row, (list, tuple)) else -1 for row in values}
        return len(lengths) == 1 and all(isinstance(v, numbers.Real) for row in values for v in row)
    return all(isinstance(v, numbers.Real) for v in values)


def _is_number(value: object) -> bool:
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


def frozen(values: FloatArray) -> FloatArray:
    """Return a copy that nobody can change."""
    own: FloatArray = np.array(values, dtype=np.float64, order="C")
    own.flags.writeable = False
    return own


def as_row_numbers(values: ArrayLike, n: int, *, name: str, rows: str) -> FloatArray:
    """Check a finite number for all rows, or one for each of the n rows of `rows`; shape (n,)."""
    if _is_number(values):
        return np.full(n, as_number(values, name=name))
    checked = as_numbers(values, name=name)
    check_same_length(n, checked.size, rows, name)
    return checked


def as_number(value: object, *, name: str) -> float:
    """Check one finite number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name}={value!r} is not a number. Pass a number.")
    if not math.isfinite(value):
        raise InvalidInputError(f"{name}={value!r} is not finite. Pass a finite number.")
    return float(value)
