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
#: Units of spans in nanoseconds. Months and years, which last differently, are none of them.
_NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_NANOSECONDS |= {"h": 3_600 * 10**9, "D": 86_400 * 10**9, "W": 604_800 * 10**9}
#: Years from 1970 that microseconds reach.
_YEARS = 290_000
_LAST = np.iinfo(np.int64).max


def as_times(times: ArrayLike, *, name: str) -> TimeArray:
    """Check one time per row: datetimes as datetime64[us], whole numbers as int64, others as float64.

    One unit for all, as NumPy compares a year that nanoseconds don't reach, such as 9999, with nanoseconds wrongly.
    Nanoseconds are cut, by which no label gets to end before it starts, or loses what it overlaps.
    """
    values = _values(times, name)
    if values.ndim != 1:
        raise ShapeError(f"{name} has shape {values.shape}. Pass one time per row, shape (n,).")
    if values.size == 0:
        raise ShapeError(f"{name} is empty. Pass at least one time.")
    if values.dtype.kind == "M":
        missing = np.isnat(values)
        if missing.any():
            raise InvalidInputError(at_first(missing, name, "missing time", "Drop these rows first."))
        return _in_microseconds(values, name)
    _refuse_text(values, name)
    if values.dtype.kind == "b":
        raise InvalidTypeError(f"{name} holds truth values, not times. Pass datetimes, or numbers that rise with time.")
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
    zones = {name: has_zone(time), end_name: has_zone(label_end)}
    if set(zones.values()) == {True, False}:
        zoned, naive = sorted(zones, key=lambda each: not zones[each])
        raise InvalidInputError(
            f"{zoned} has a time zone and {naive} has none: which moments its times are is not known. Give both one."
        )
    early = end < start
    if early.any():
        row = int(early.argmax())
        problem = f"{end[row].item()!s} is before the row's time {start[row].item()!s}"
        fix = "Pass the time at which the label is known."
        raise InvalidInputError(at_first(early, end_name, problem, fix))
    return start, end


def as_span(span: object, *, name: str, times: TimeArray) -> Any:
    """Check a span of time that can be added to `times`, which `as_times` gave: not negative, and of their kind."""
    if times.dtype.kind == "M":
        if isinstance(span, (dt.timedelta, np.timedelta64)):
            return _check_reach(_microseconds(span, name), span, name, times).astype("timedelta64[us]")
        if isinstance(span, numbers.Real) and span == 0:
            return np.timedelta64(0, "us")
        raise InvalidTypeError(f"{name}={span!r} is no span of time. Pass a timedelta, as times are datetimes.")
    if isinstance(span, np.timedelta64):
        raise InvalidTypeError(f"{name}={span!r} is not a number. Pass one in the unit of times.")
    number = check_number(name, span, minimum=0.0)
    if not isinstance(span, numbers.Integral):
        return number
    return int(_check_reach(int(span), span, name, times)) if times.dtype.kind == "i" else int(span)


def _microseconds(span: dt.timedelta | np.timedelta64, name: str) -> int:
    """Return the microseconds of a span that is neither missing nor negative, rounded up."""
    if isinstance(span, dt.timedelta):
        whole, rest = divmod(span, dt.timedelta(microseconds=1))
        count = whole + bool(rest)
    else:
        unit, step = np.datetime_data(span.dtype)
        if unit not in _NANOSECONDS:
            raise InvalidInputError(
                f"{name}={span!r} is of no unit from nanoseconds to weeks: months and years last differently. Pass a "
                "span such as timedelta(days=30)."
            )
        count = -(-int(span.astype(np.int64)) * step * _NANOSECONDS[unit] // 1_000)  # rounded up
    if span != span or count < 0:  # a missing span differs from itself
        raise InvalidInputError(f"{name}={span!r} is missing or negative. Pass a span such as timedelta(days=1).")
    return count


def _check_reach(span: int, given: object, name: str, times: TimeArray) -> np.int64:
    """Return a span in the unit of whole numbers or datetimes, or refuse what ends where they don't reach."""
    if int(times.max().astype(np.int64)) + span > _LAST:
        raise InvalidInputError(f"{name}={given!r} ends after the last time there can be. Pass a shorter span.")
    return np.int64(span)


def _in_microseconds(values: TimeArray, name: str) -> TimeArray:
    exact: TimeArray = values.astype("datetime64[us]")
    outside = np.abs(values.astype("datetime64[Y]").astype(np.int64)) > _YEARS
    if outside.any():
        raise InvalidInputError(at_first(outside, name, f"a year beyond {_YEARS:,}", "Leave out these rows."))
    return exact


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


def has_zone(times: ArrayLike) -> bool | None:
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
    out, zoned = np.empty(values.size, dtype="datetime64[us]"), np.zeros(values.size, dtype=np.bool_)
    for row, value in enumerate(values.tolist()):
        if not isinstance(value, dt.date) or value != value:  # a missing pandas time differs from itself
            raise InvalidTypeError(f"{name} row {row}: {value!r:.80} is no date. Drop this row, or pass dates only.")
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            zoned[row], value = True, value.astimezone(dt.UTC).replace(tzinfo=None)
        out[row] = np.datetime64(value, "us")
    if zoned.any() and not zoned.all():
        fix = "Which moment that is is not known: give all a time zone, or none."
        raise InvalidInputError(at_first(~zoned, name, "a time without a zone beside others with one", fix))
    return out
