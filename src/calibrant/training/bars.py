"""Bars: open, high, low, close and volume of one symbol or of many, checked."""

from __future__ import annotations

import gzip
import hashlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant.dependence import TimeArray, as_times, has_zone
from calibrant.errors import DataWarning, InvalidInputError, InvalidTypeError, UnknownNameError, did_you_mean
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.phrases import quoted
from calibrant.validation import as_groups, as_scores

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

PRICES = ("open", "high", "low", "close")
#: Other names that files have for a column.
_ALIASES = {
    "time": ("time", "datetime", "date", "timestamp", "index"),
    "symbol": ("symbol", "ticker", "instrument"),
    "volume": ("volume", "vol", "tick_volume"),
    "adj_close": ("adj_close", "adj close", "adjusted_close", "adjclose"),
    **{name: (name,) for name in PRICES},
}
#: A step this many times the usual one is a gap, unless the market is closed at that time of the week: unless the same
#: stretch of the week before or after has at most so many bars, as clocks that change move one in or out.
_GAP, _MOVED = 5, 1
_WEEK = np.timedelta64(7, "D")
#: The package that holds the default bars.
_PACKAGE = "bokeh_sampledata"


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch without bars of a symbol, between the times of two bars."""

    symbol: str
    after: np.datetime64
    before: np.datetime64

    def __str__(self) -> str:
        after, before = (when.astype("datetime64[m]") for when in (self.after, self.before))
        return f"{self.symbol}: no bar between {after} and {before}"


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Checked bars, sorted by symbol and then by time.

    Attributes
    ----------
    symbols : tuple of str
        The symbols, sorted.
    starts : ndarray of shape (S + 1,)
        The rows of symbol number s are those from ``starts[s]`` up to ``starts[s + 1]``.
    time : ndarray of shape (n,)
        When each bar closes: no feature uses what comes later. UTC, of times with a zone.
    open, high, low, close : ndarray of shape (n,)
        Prices, adjusted for splits and dividends where the data say how.
    volume : ndarray of shape (n,) or None
        None where the data have none.
    gaps : tuple of Gap
        Steps of more than five times the usual one, but nights and weekends that have no bars in other weeks either.
    source : str
        Where the bars come from.
    is_adjusted : bool
        Whether a column `adj_close` said how prices are adjusted.
    has_zone : bool
        Whether times had a zone.
    """

    symbols: tuple[str, ...]
    starts: IntArray
    time: TimeArray
    open: FloatArray
    high: FloatArray
    low: FloatArray
    close: FloatArray
    volume: FloatArray | None
    gaps: tuple[Gap, ...]
    source: str
    is_adjusted: bool = False
    has_zone: bool = False

    @property
    def n_rows(self) -> int:
        """Number of bars."""
        return int(self.close.size)

    @property
    def step(self) -> np.timedelta64:
        """The usual time from a bar to the next: the median."""
        steps = [np.diff(self.time[rows]) for _, rows in self.parts()]
        return np.timedelta64(np.median(np.concatenate(steps).astype(np.int64)).astype(np.int64), "us")

    @property
    def seconds(self) -> float:
        """The usual time from a bar to the next, in seconds."""
        return float(self.step / np.timedelta64(1, "s"))

    def parts(self) -> Iterator[tuple[str, slice]]:
        """Return an iterator over the symbols and their rows."""
        for s, symbol in enumerate(self.symbols):
            yield symbol, slice(int(self.starts[s]), int(self.starts[s + 1]))

    def sha256(self) -> str:
        """Return a hash of all that the bars hold, whatever file they came from."""
        digest = hashlib.sha256("\0".join(self.symbols).encode())
        columns = (self.open, self.high, self.low, self.close, *(() if self.volume is None else (self.volume,)))
        for values in (self.starts, self.time, *columns):
            digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()


def read_bars(path: str | os.PathLike[str], *, symbol: str | None = None) -> Bars:
    """Read bars from a file of any format that tables have, a folder or pattern of such, or DuckDB.

    Parameters
    ----------
    path : path-like
    symbol : str, optional
        Name of what was traded, where the file has no column `symbol`; the file's name by default.

    Raises
    ------
    CalibrantError
        If the file can't be read, or as `as_bars` does.
    """
    from calibrant.tables import read_columns

    name = os.path.basename(os.fspath(path))  # noqa: PTH119 - a name, of a path that may be "-"
    return as_bars(read_columns(path), source=name, symbol=os.path.splitext(name)[0] if symbol is None else symbol)  # noqa: PTH122


def as_bars(table: IntoDataFrame, *, source: str = "bars", symbol: str = "") -> Bars:
    """Check a table of bars.

    Parameters
    ----------
    table : data frame or Arrow table
        Columns `time`, `open`, `high`, `low` and `close`; `volume`, `symbol` and `adj_close` where they exist. Case
        doesn't count. With `adj_close` all prices are multiplied by adj_close / close.
    source : str
        What messages call the table.
    symbol : str
        What was traded, for a table without that column.

    Raises
    ------
    CalibrantError
        If a column is missing, a time is missing, out of order or there twice, or a price or volume can't be.

    Notes
    -----
    A bar whose close or open lies outside its range gets a DataWarning with the number of such bars; they stay.
    """
    columns = _columns(table, source)
    time = as_times(columns["time"], name=f"column 'time' of {source}")
    if time.dtype.kind != "M":
        raise InvalidTypeError(f"column 'time' of {source} holds {time.dtype} values, not times. Convert it first.")
    named: npt.NDArray[Any] = np.full(time.size, symbol)
    if "symbol" in columns:
        named = as_groups(columns["symbol"], name=f"column 'symbol' of {source}").values
    symbols, codes = np.unique(named.astype(str), return_inverse=True)
    _check_order(time, codes, symbols, source)
    order = np.argsort(codes, kind="stable")
    prices = {name: _positive(columns[name], name, source)[order] for name in PRICES}
    if "adj_close" in columns:
        factor = _positive(columns["adj_close"], "adj_close", source)[order] / prices["close"]
        prices = {name: values * factor for name, values in prices.items()}
    _check_range(prices, source)
    volume = _positive(columns["volume"], "volume", source, zero=True)[order] if "volume" in columns else None
    starts = np.concatenate(([0], np.cumsum(np.bincount(codes)))).astype(np.int64)
    time, names = time[order], tuple(symbols.tolist())
    known: dict[str, Any] = {"is_adjusted": "adj_close" in columns, "has_zone": bool(has_zone(columns["time"]))}
    known |= {**prices, "volume": volume, "gaps": _gaps(time, starts, names), "source": source}
    return Bars(names, starts, time, **known)


def default_bars() -> Bars:
    """Return daily bars of AAPL, FB, GOOG, IBM and MSFT from 2000 to 2013, adjusted for splits and dividends.

    File stocks.csv.gz of the package bokeh-sampledata: public domain, collected by Quandl's users (WIKI prices).
    """
    import pyarrow as pa
    import pyarrow.csv as pc

    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise InvalidInputError(
            "no --data is given, and the package with the default bars, bokeh-sampledata, is not installed. Install "
            "calibrant[training], or name a file of bars."
        )
    path = Path(found.origin).parent / "_data" / "stocks.csv.gz"
    with gzip.open(path) as file:
        return as_bars(pc.read_csv(pa.BufferReader(file.read())), source=f"{_PACKAGE}/{path.name}")


def _columns(table: IntoDataFrame, source: str) -> dict[str, Any]:
    import narwhals as nw

    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        raise InvalidTypeError(
            f"{source} is a {type(table).__name__}. Pass a data frame or an Arrow table with a column per price."
        ) from None
    if len(frame) == 0:
        raise InvalidInputError(f"{source} has no rows. Pass bars: 61 of a symbol to predict, a few hundred to train.")
    by_name = {name.lower(): name for name in frame.columns}
    found = {}
    for name, aliases in _ALIASES.items():
        there = next((by_name[alias] for alias in aliases if alias in by_name), None)
        if there is not None:
            found[name] = frame[there].to_native()
        elif name in ("time", *PRICES):
            near = did_you_mean(name, frame.columns)
            raise UnknownNameError(f"{source} has no column {name!r}.{near} Its columns are: {quoted(frame.columns)}.")
    return found


def _check_order(time: TimeArray, codes: npt.NDArray[np.intp], symbols: npt.NDArray[np.str_], source: str) -> None:
    order = np.argsort(codes, kind="stable")
    step = np.diff(time[order]).astype(np.int64)
    same = np.diff(codes[order]) == 0
    for bad, what, fix in (
        (same & (step < 0), "is before the bar above it", "Sort the rows by time."),
        (same & (step == 0), "is there twice", "Keep one bar per time and symbol."),
    ):
        if bad.any():
            row = int(order[int(bad.argmax()) + 1])
            of = f" of {str(symbols[codes[row]])!r}" if symbols.size > 1 else ""
            raise InvalidInputError(
                f"column 'time' of {source}, row {row}: {time[row]!s}{of} {what} "
                f"({int(bad.sum()):,} of {time.size:,} rows). {fix}"
            )


def _positive(column: Any, name: str, source: str, *, zero: bool = False) -> FloatArray:
    where = f"column {name!r} of {source}"
    values = as_scores(column, name=where).values
    bad: BoolArray = values < 0.0 if zero else values <= 0.0
    if bad.any():
        row = int(bad.argmax())
        kind = "negative" if zero else "not above 0"
        raise InvalidInputError(
            f"{where}, row {row}: {values[row].item()!r} is {kind} ({int(bad.sum()):,} of {values.size:,} rows). "
            "Correct or drop these bars first."
        )
    return values


def _check_range(prices: dict[str, FloatArray], source: str) -> None:
    outer = np.maximum(prices["open"], prices["close"]), np.minimum(prices["open"], prices["close"])
    slack = 1.0 + 1e-6  # of prices that were stored in single precision
    odd = (prices["high"] * slack < outer[0]) | (prices["low"] > outer[1] * slack)
    if odd.any():
        warnings.warn(
            f"{source}: the open or close of {int(odd.sum()):,} of {odd.size:,} bars lies outside their range from "
            "low to high",
            DataWarning,
            stacklevel=4,
        )


def _gaps(time: TimeArray, starts: IntArray, symbols: tuple[str, ...]) -> tuple[Gap, ...]:
    found: list[Gap] = []
    for symbol, first, last in zip(symbols, starts[:-1], starts[1:], strict=True):
        own = time[first:last]
        step = np.diff(own).astype(np.int64)
        if step.size:
            far = np.flatnonzero(step > _GAP * np.median(step))
            found += [Gap(symbol, own[at], own[at + 1]) for at in far[~_is_closed(own, far)]]
    return tuple(found)


def _is_closed(time: TimeArray, steps: IntArray) -> BoolArray:
    """Return whether the time between a bar and the next is one at which weeks have no bars: nights and weekends."""
    closed = np.zeros(steps.size, dtype=bool)
    for shift in (-_WEEK, _WEEK):
        after, before = time[steps] + shift, time[steps + 1] + shift
        n_inside = np.searchsorted(time, before) - np.searchsorted(time, after, side="right")
        closed |= (n_inside <= _MOVED) & (after >= time[0]) & (before <= time[-1])
    return closed
