"""Bars: the same from any container and file, and a refusal that names the place of what can't be."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from calibrant.errors import CalibrantError, DataWarning
from calibrant.training.bars import PRICES, Bars, as_bars, default_bars, read_bars
from calibrant.training.features import WARM_UP_BARS


@pytest.mark.parametrize("convert", [pa.Table.to_pandas, pl.from_arrow, lambda table: table])
def test_every_container_gives_the_same_bars(make_table: Callable[..., pa.Table], convert: Callable[..., Any]) -> None:
    table = make_table(50, ("B", "A"))
    bars = as_bars(convert(table))
    assert bars.symbols == ("A", "B")
    assert bars.starts.tolist() == [0, 50, 100]
    assert bars.sha256() == as_bars(table).sha256()
    assert bars.close[:50].tolist() == table.column("close").to_pylist()[50:]


def test_every_kind_of_file_gives_the_bars_of_the_table(make_table: Callable[..., pa.Table], tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = make_table(50)
    pq.write_table(table, tmp_path / "bars.parquet")
    pc.write_csv(table, tmp_path / "bars.csv")
    (tmp_path / "bars").mkdir()
    for number, start in enumerate((0, 20)):
        pq.write_table(table.slice(start, 20 + 10 * number), tmp_path / "bars" / f"{number}.parquet")
    with duckdb.connect(tmp_path / "bars.duckdb") as connection:
        connection.execute(f"CREATE TABLE bars AS SELECT * FROM '{tmp_path}/bars.parquet'")
    files = ("bars.parquet", "bars.csv", "bars.duckdb", "bars", "bars/*.parquet")
    assert {read_bars(tmp_path / name, symbol="A").sha256() for name in files} == {as_bars(table).sha256()}


def test_rows_of_two_symbols_may_be_interleaved(make_table: Callable[..., pa.Table]) -> None:
    table = make_table(30, ("A", "B"))
    mixed = table.take(np.arange(60).reshape(2, 30).T.ravel())
    assert as_bars(mixed).sha256() == as_bars(table).sha256()


def test_names_are_found_in_any_case_and_by_their_aliases(make_table: Callable[..., pa.Table]) -> None:
    table = make_table(20)
    renamed = table.rename_columns(["Ticker", "Date", "Open", "HIGH", "Low", "Close", "Vol"])
    assert as_bars(renamed).sha256() == as_bars(table).sha256()


def test_prices_are_multiplied_by_the_adjustment(make_table: Callable[..., pa.Table]) -> None:
    table = make_table(20)
    half = table.append_column("Adj Close", pa.array(0.5 * table.column("close").to_numpy()))
    plain, adjusted = as_bars(table), as_bars(half)
    for name in ("open", "high", "low", "close"):
        np.testing.assert_allclose(getattr(adjusted, name), 0.5 * getattr(plain, name), rtol=1e-15)


def changed(table: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    frame = table.to_pandas()
    frame[name] = frame[name].astype(object if value is None else frame[name].dtype)
    frame.loc[row, name] = value
    return frame


@pytest.mark.parametrize(
    ("name", "row", "value", "said"),
    [
        ("close", 7, -1.0, "column 'close' of bars, row 7: -1.0 is not above 0 (1 of 20 rows). Correct or drop"),
        ("open", 3, 0.0, "column 'open' of bars, row 3: 0.0 is not above 0 (1 of 20 rows)"),
        ("volume", 3, -5, "column 'volume' of bars, row 3: -5.0 is negative (1 of 20 rows)"),
        ("high", 2, np.nan, "column 'high' of bars row 2"),
        ("low", 2, np.inf, "column 'low' of bars row 2"),
        ("time", 5, pd.NaT, "column 'time' of bars row 5: NaT is no date"),
        (
            "time",
            5,
            pd.Timestamp("2020-01-05"),
            "column 'time' of bars, row 5: 2020-01-05T00:00:00.000000 is there twice",
        ),
        ("time", 5, pd.Timestamp("2019-01-05"), "is before the bar above it (1 of 20 rows). Sort the rows by time."),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(
    make_table: Callable[..., pa.Table], name: str, row: int, value: Any, said: str
) -> None:
    with pytest.raises(CalibrantError, match=re.escape(said)):
        as_bars(changed(make_table(20), name, row, value))


def test_wrong_tables_are_refused(make_table: Callable[..., pa.Table]) -> None:
    table = make_table(20)
    with pytest.raises(CalibrantError, match=r"has no column 'close'.* Its columns are: 'symbol', 'time'"):
        as_bars(table.drop_columns("close"))
    with pytest.raises(CalibrantError, match=f"bars has no rows. Pass bars: {WARM_UP_BARS} of a symbol to predict"):
        as_bars(table.slice(0, 0))
    with pytest.raises(CalibrantError, match=r"bars is a ndarray\. Pass a data frame"):
        as_bars(np.zeros((3, 3)))  # type: ignore[type-var]
    with pytest.raises(CalibrantError, match="holds int64 values, not times"):
        as_bars(table.set_column(1, "time", pa.array(range(20))))


def test_bars_outside_their_range_stay_with_a_warning(make_table: Callable[..., pa.Table]) -> None:
    with pytest.warns(DataWarning, match="the open or close of 1 of 20 bars lies outside their range"):
        bars = as_bars(changed(make_table(20), "high", 4, 1.0))
    assert bars.n_rows == 20


def test_nights_and_weekends_are_no_gaps_and_what_lacks_beside_them_is() -> None:
    """Bars of four hours from Sunday 20:00 to Friday 20:00, as currencies have, and of hours of a day's session."""
    hours = np.datetime64("2021-01-03T20", "h") + 4 * np.arange(31)
    weeks = (np.datetime64("2021-01-03T20", "h") - hours[0] + 7 * 24 * np.arange(60))[:, None] + hours
    session = np.datetime64("2021-01-04T14", "h") + np.arange(7)
    days = (24 * np.arange(400))[:, None] + session
    days = days[(days[:, 0].astype("datetime64[D]").astype(int) + 3) % 7 < 5]
    for times in (weeks.ravel().astype("datetime64[s]"), days.ravel().astype("datetime64[s]")):
        bars = pa.table({"time": times, **{name: np.full(times.size, 9.0) for name in PRICES}})
        assert as_bars(bars).gaps == ()
        lacking = np.arange(500, 512)
        (gap,) = as_bars(bars.take(np.setdiff1d(np.arange(times.size), lacking))).gaps
        assert (gap.after, gap.before) == (times[499], times[512])


def test_a_clock_that_changes_makes_no_gap() -> None:
    hours = np.datetime64("2021-01-04T00", "h") + np.arange(120)
    weeks = (7 * 24 * np.arange(20))[:, None] + hours
    weeks[10:] += np.timedelta64(1, "h")
    times = weeks.ravel().astype("datetime64[s]")
    assert as_bars(pa.table({"time": times, **{name: np.full(times.size, 9.0) for name in PRICES}})).gaps == ()


def test_gaps_are_reported(make_table: Callable[..., pa.Table]) -> None:
    table = make_table(40)
    assert as_bars(table).gaps == ()
    kept = [row for row in range(40) if not 10 <= row < 18]
    (gap,) = as_bars(table.take(kept)).gaps
    assert str(gap) == "A: no bar between 2020-01-10T00:00 and 2020-01-19T00:00"


def test_default_bars_are_real_and_adjusted() -> None:
    bars = default_bars()
    assert bars.symbols == ("AAPL", "FB", "GOOG", "IBM", "MSFT")
    assert bars.n_rows == 12_154
    assert bars.step == np.timedelta64(1, "D")
    apple = bars.close[slice(*bars.starts[:2])]
    assert np.abs(np.diff(np.log(apple))).max() < 0.75  # split of 2 to 1 twice, 7 to 1 once: would be -0.69 and -1.95
    assert apple[0] == pytest.approx(4.186662803811)


def test_usual_step_is_the_median(make_bars: Callable[..., Bars]) -> None:
    assert make_bars(20, ("A", "B")).step == np.timedelta64(1, "D")
