"""Times of rows and spans of time: numbers or datetimes, of any container."""

from __future__ import annotations

import datetime as dt
import numbers
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.validation import ArrayLike, as_scores, at_first, check_number, check_same_length

TimeArray = npt.NDArray[Any]


def as_times(times: ArrayLike, *, name: str) -> TimeArray:
    """Check one time per row: datetimes as datetime64, whole numbers as int64, others as float64."""
    values = _values(times, name)
    if values.ndim != 1:
        raise ShapeError(f"{name} has shape {values.shape}. Pass one time per row, shape (n,).")
    if values.size == 0:
        raise ShapeError(f"{name} is empty. Pass at least one time.")
    if values.dtype.kind == "M":
        missing = np.isnat(values)
        if missing.any():
            raise InvalidInputError(at_first(missing, name, "missing time", "Drop these rows first."))
        return values
    _refuse_text(values, name)
    if values.dtype.kind in "iu" and (values.dtype.kind == "i" or values.max() <= np.iinfo(np.int64).max):
        return values.astype(np.int64)
    return as_scores(values, name=name).values


def check_both_times(time: object, label_end: object) -> None:
    """Check that both are given, or neither."""
    if (time is None) == (label_end is None):
        return
    missing = "time is missing: pass when each row was predicted"
    if label_end is None:
        missing = "label_end is missing: pass when each row's label was known"
    given = "time" if label_end is None else "label_end"
    raise InvalidInputError(f"time and label_end go together, and {missing}, or leave out {given}.")


def as_label_times(
    time: ArrayLike, label_end: ArrayLike, *, name: str = "time", end_name: str = "label_end"
) -> tuple[TimeArray, TimeArray]:
    """Check when each row was predicted and when its label was known, which must not come before."""
    start, end = as_times(time, name=name), as_times(label_end, name=end_name)
    check_same_length(start.size, end.size, name, end_name)
    if (start.dtype.kind == "M") != (end.dtype.kind == "M"):
        raise InvalidInputError(f"{name} and {end_name} are numbers and datetimes. Pass both of one kind.")
    zones = {name: _has_zone(time), end_name: _has_zone(label_end)}
    if set(zones.values()) == {True, False}:
        zoned, naive = sorted(zones, key=lambda each: not zones[each])
        raise InvalidInputError(
            f"{zoned} has a time zone and {naive} has none: which moments its times are is not known. Give both one."
        )
    early = end < start
    if early.any():
        row = int(early.argmax())
        problem = f"{end[row]!s} is before the row's time {start[row]!s}"
        fix = "Pass the time at which the label is known."
        raise InvalidInputError(at_first(early, end_name, problem, fix))
    return start, end


def as_span(span: object, *, name: str, times: TimeArray) -> Any:
    """Check a span of time that can be added to `times`: not negative, and of their kind."""
    if times.dtype.kind == "M":
        if isinstance(span, (dt.timedelta, np.timedelta64)):
            found = np.timedelta64(span)
            if np.isnat(found) or found.astype(np.int64) < 0:
                raise InvalidInputError(
                    f"{name}={span!r} is missing or negative. Pass a span such as timedelta(days=1)."
                )
            return found
        if isinstance(span, numbers.Real) and span == 0:
            return times[0] - times[0]  # in their unit
        raise InvalidTypeError(f"{name}={span!r} is no span of time. Pass a timedelta, as times are datetimes.")
    if isinstance(span, np.timedelta64):
        raise InvalidTypeError(f"{name}={span!r} is not a number. Pass one in the unit of times.")
    number = check_number(name, span, minimum=0.0)
    return int(span) if isinstance(span, numbers.Integral) else number


def _values(times: ArrayLike, name: str) -> TimeArray:
    """Return what is in the container: an array of datetimes, or of whatever else there is."""
    if not isinstance(times, (np.ndarray, list, tuple)):
        import narwhals as nw

        series = nw.from_native(times, allow_series=True, pass_through=True)
        if isinstance(series, nw.Series):
            if series.dtype == nw.Datetime:
                if getattr(series.dtype, "time_zone", None) is not None:
                    series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
                return series.to_numpy()
            times = series.to_numpy()
    array = np.asarray(times)
    if array.dtype.kind == "O" and array.ndim == 1 and any(isinstance(v, dt.date) for v in array):
        return _from_dates(array, name)
    return array


def _has_zone(times: ArrayLike) -> bool | None:
    """Say whether datetimes have a time zone; None of those of NumPy, which can't have one, and of other values."""
    if isinstance(times, np.ndarray) and times.dtype.kind == "M":
        return None
    if not isinstance(times, (np.ndarray, list, tuple)):
        import narwhals as nw

        series = nw.from_native(times, allow_series=True, pass_through=True)
        if isinstance(series, nw.Series) and series.dtype == nw.Datetime:
            return getattr(series.dtype, "time_zone", None) is not None
    first = next((each for each in np.asarray(times).ravel()[:1].tolist() if isinstance(each, dt.datetime)), None)
    return None if first is None else first.tzinfo is not None


def _refuse_text(values: TimeArray, name: str) -> None:
    is_text = np.array([isinstance(value, str) for value in values.tolist()] if values.dtype.kind in "OUT" else [])
    if is_text.any():
        problem = f"{str(values[int(is_text.argmax())])!r:.80} is text, not a time"
        fix = "Pass datetimes, in Parquet a column of dates; in CSV write 1999-04-01, as 01/04/1999 may be two days."
        raise InvalidTypeError(at_first(is_text, name, problem, fix))


def _from_dates(values: TimeArray, name: str) -> TimeArray:
    out = np.empty(values.size, dtype="datetime64[us]")
    for row, value in enumerate(values.tolist()):
        if not isinstance(value, dt.date) or value != value:  # a missing pandas time differs from itself
            raise InvalidTypeError(f"{name} row {row}: {value!r:.80} is no date. Drop this row, or pass dates only.")
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        out[row] = np.datetime64(value, "us")
    return out
