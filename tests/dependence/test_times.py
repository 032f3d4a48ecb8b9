"""Times and spans of any container: datetimes, numbers, and what is neither."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from calibrant.dependence import as_label_times, as_times
from calibrant.dependence.times import as_span
from calibrant.errors import CalibrantError, InvalidInputError, InvalidTypeError, ShapeError

DAYS = [dt.date(2024, 1, day) for day in (1, 2, 3)]
STAMPS = np.array(DAYS, dtype="datetime64[D]")


@pytest.mark.parametrize(
    "times",
    [
        DAYS,
        STAMPS,
        pd.Series(pd.to_datetime(DAYS)),
        pd.DatetimeIndex(DAYS),
        pl.Series(DAYS).cast(pl.Datetime),
        pd.Series(pd.to_datetime(DAYS)).dt.tz_localize("Asia/Tokyo").dt.tz_convert("UTC") + pd.Timedelta(hours=9),
        [dt.datetime(2024, 1, day, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))) for day in (1, 2, 3)],
    ],
)
def test_datetimes_of_any_container_are_those_of_utc(times: Any) -> None:
    found = as_times(times, name="times")
    assert found.dtype.kind == "M"
    np.testing.assert_array_equal(found.astype("datetime64[s]"), STAMPS.astype("datetime64[s]"))


@pytest.mark.parametrize(("times", "kind"), [([1, 2], "i"), (np.array([1, 2], np.uint8), "i"), ([0.5, 1.5], "f")])
def test_numbers_are_times_in_their_own_unit(times: Any, kind: str) -> None:
    assert as_times(times, name="times").dtype.kind == kind


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "missing": (
        [STAMPS[0], np.datetime64("NaT", "s")],
        InvalidInputError,
        r"times row 1: missing time \(1 of 2 rows\)",
    ),
    "missing in pandas": ([dt.date(2024, 1, 1), pd.NaT], InvalidTypeError, "times row 1: NaT is no date"),
    "mixed": ([dt.date(2024, 1, 1), "soon"], InvalidTypeError, "times row 1: 'soon' is no date"),
    "some with a zone": (
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 2)],
        InvalidInputError,
        r"times row 1: a time without a zone beside others with one \(1 of 2 rows\)",
    ),
    "text": (["a", "b"], InvalidTypeError, "times row 0: 'a' is text, not a time"),
    "truth values": ([True, False], InvalidTypeError, "times holds truth values, not times"),
    "infinite": ([1.0, np.inf], CalibrantError, "times row 1: inf is not finite"),
    "a table": (np.zeros((2, 2)), ShapeError, r"times has shape \(2, 2\)"),
    "nothing": (np.array([]), ShapeError, "times is empty"),
}


@pytest.mark.parametrize(("times", "kind", "text"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_time_is_refused(times: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        as_times(
            np.array(times) if isinstance(times, list) and isinstance(times[0], np.datetime64) else times, name="times"
        )


@pytest.mark.parametrize("unit", ["s", "ms", "us", "D", "Y"])
def test_dates_that_nanoseconds_do_not_reach_stand_beside_nanoseconds(unit: str) -> None:
    start = STAMPS.astype("datetime64[ns]")
    end = np.array(["9999-12-31", "2600-01-01", "2024-01-03"], dtype=f"datetime64[{unit}]")
    if unit == "Y":
        end[2] += 1
    found, until = as_label_times(start, end)
    assert found.dtype == until.dtype
    assert (until >= found).all()
    assert until[0].item().year == 9999
    with pytest.raises(InvalidInputError, match="label_end row 1: 2024-01-01 00:00:00 is before the row's time 2024"):
        as_label_times(start, STAMPS[[0, 0, 2]])


def test_a_year_beyond_microseconds_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"times row 1: a year beyond 290,000 \(1 of 2 rows\)"):
        as_times(np.array([2024, 300_000]).astype("datetime64[Y]") - 1970, name="times")


def test_a_label_is_known_after_its_row_and_in_the_same_kind_of_time() -> None:
    start, end = as_label_times([1, 2], [1, 5])
    assert (start.tolist(), end.tolist()) == ([1, 2], [1, 5])
    with pytest.raises(InvalidInputError, match=r"label_end row 1: 1 is before the row's time 2 \(1 of 2 rows\)"):
        as_label_times([1, 2], [1, 1])
    with pytest.raises(InvalidInputError, match="time and label_end are numbers and datetimes"):
        as_label_times([1, 2, 3], STAMPS)
    with pytest.raises(ShapeError, match="time has 2 rows and label_end has 3"):
        as_label_times([1, 2], [1, 2, 3])


@pytest.mark.parametrize(
    ("span", "times", "wanted"),
    [
        (3, np.arange(3), 3),
        (0.5, np.arange(3), 0.5),
        (dt.timedelta(days=2), STAMPS, np.timedelta64(2, "D")),
        (np.timedelta64(5, "h"), STAMPS, np.timedelta64(5, "h")),
        (0, STAMPS, np.timedelta64(0, "s")),
        (pd.Timedelta(1_500, "ns"), STAMPS, np.timedelta64(2, "us")),
        (np.timedelta64(1, "ns"), STAMPS, np.timedelta64(1, "us")),
        (np.timedelta64(1, "W"), STAMPS, np.timedelta64(7, "D")),
    ],
)
def test_spans_are_of_the_kind_of_the_times(span: Any, times: Any, wanted: Any) -> None:
    found = as_span(span, name="purge", times=times)
    assert found == wanted
    assert isinstance(found, int) == isinstance(wanted, int)


@pytest.mark.parametrize(
    ("span", "times", "text"),
    [
        (-1, np.arange(3), r"purge=-1 is outside \[0, inf\)"),
        (np.inf, np.arange(3), "purge=inf is outside"),
        (True, np.arange(3), "purge=True is not a number"),
        (dt.timedelta(1), np.arange(3), "is not a number"),
        (np.timedelta64(1, "D"), np.arange(3), "is not a number. Pass one in the unit of times"),
        (3, STAMPS, "purge=3 is no span of time. Pass a timedelta"),
        (dt.timedelta(-1), STAMPS, "is missing or negative"),
        (np.timedelta64("NaT", "s"), STAMPS, "is missing or negative"),
        (np.timedelta64(1, "M"), STAMPS, "months and years last differently. Pass a span such as timedelta"),
        (np.timedelta64(1, "Y"), STAMPS, "months and years last differently"),
        (np.timedelta64(2), STAMPS, "of no unit from nanoseconds to weeks"),
        (dt.timedelta.max, STAMPS, "ends after the last time there can be"),
        (2**63, np.arange(3), "ends after the last time there can be"),
        (2**62, np.arange(3) + 2**62, "ends after the last time there can be"),
    ],
)
def test_what_can_not_be_added_to_the_times_is_refused(span: Any, times: Any, text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        as_span(span, name="purge", times=times)


ROWS = pd.Series(pd.date_range("2020-01-01", periods=3, freq="h"))
KNOWN = ROWS + pd.Timedelta(hours=2)


@pytest.mark.parametrize("container", [lambda s: s, list, pl.Series, lambda s: s.astype(object).to_numpy()])
def test_a_time_zone_beside_none_is_refused(container: Any) -> None:
    zoned = KNOWN.dt.tz_localize("America/New_York")
    with pytest.raises(InvalidInputError, match="label_end has a time zone and time has none"):
        as_label_times(container(ROWS), container(zoned))
    with pytest.raises(InvalidInputError, match="time has a time zone and label_end has none"):
        as_label_times(container(ROWS.dt.tz_localize("UTC")), container(KNOWN))


def test_two_time_zones_and_arrays_of_numpy_go_together() -> None:
    zoned = KNOWN.dt.tz_localize("UTC")
    for time in (ROWS.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"), ROWS.to_numpy()):
        start, end = as_label_times(time, zoned)
        assert (start == ROWS.to_numpy()).all()
        assert (end == KNOWN.to_numpy()).all()
