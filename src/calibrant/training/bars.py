"""Bars: open, high, low, close and volume of one symbol or of many, checked."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant.dependence import TimeArray, as_times
from calibrant.errors import DataWarning, InvalidInputError, InvalidTypeError, UnknownNameError, did_you_mean
from calibrant.numerics import BoolArray, FloatArray, IntArray

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
#: A step this many times the usual one is a gap; a weekend of daily bars is three.
_GAP = 5


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch without bars.

    Attributes
    ----------
    symbol : str
    after, before : numpy.datetime64
        The bars on both sides.
    """

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
        When each bar closes: no feature uses what comes later.
    open, high, low, close : ndarray of shape (n,)
        Prices, adjusted for splits and dividends where the data say how.
    volume : ndarray of shape (n,) or None
        None where the data have none.
    gaps : tuple of Gap
        Steps of more than five times the usual one.
    source : str
        Where the bars come from.
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

    @property
    def n_rows(self) -> int:
        """Number of bars."""
        return int(self.close.size)

    @property
    def step(self) -> np.timedelta64:
        """The usual time from a bar to the next: the median."""
        steps = [np.diff(self.time[rows]) for _, rows in self.parts()]
        return np.timedelta64(np.median(np.concatenate(steps).astype(np.int64)).astype(np.int64), "us")

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
    """Read bars from a Parquet, CSV or JSON-lines file.

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
    time = time.astype("datetime64[us]")
    named = _symbols(columns["symbol"], source) if "symbol" in columns else np.full(time.size, symbol, dtype=object)
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
    return Bars(names, starts, time, **prices, volume=volume, gaps=_gaps(time, starts, names), source=source)


def _columns(table: IntoDataFrame, source: str) -> dict[str, Any]:
    """Return the columns that are used, under their own names."""
    import narwhals as nw

    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        raise InvalidTypeError(
            f"{source} is a {type(table).__name__}. Pass a data frame or an Arrow table with a column per price."
        ) from None
    if len(frame) == 0:
        raise InvalidInputError(f"{source} has no rows. Pass at least a few hundred bars.")
    by_name = {name.lower(): name for name in frame.columns}
    found = {}
    for name, aliases in _ALIASES.items():
        there = next((by_name[alias] for alias in aliases if alias in by_name), None)
        if there is not None:
            found[name] = frame[there].to_native()
        elif name in ("time", *PRICES):
            near = did_you_mean(name, frame.columns)
            listed = ", ".join(map(repr, frame.columns[:20]))
            raise UnknownNameError(f"{source} has no column {name!r}.{near} Its columns are: {listed}.")
    return found


def _symbols(column: Any, source: str) -> npt.NDArray[Any]:
    from calibrant.validation import as_groups

    groups = as_groups(column, name=f"column 'symbol' of {source}")
    found: npt.NDArray[Any] = np.asarray(groups.classes, dtype=object)[groups.codes]
    return found


def _check_order(time: TimeArray, codes: npt.NDArray[np.intp], symbols: npt.NDArray[np.str_], source: str) -> None:
    """Refuse times of one symbol that fall, or stand still."""
    order = np.argsort(codes, kind="stable")
    step = np.diff(time[order])
    same = np.diff(codes[order]) == 0
    for bad, what, fix in (
        (same & (step < np.timedelta64(0)), "is before the bar above it", "Sort the rows by time."),
        (same & (step == np.timedelta64(0)), "is there twice", "Keep one bar per time and symbol."),
    ):
        if bad.any():
            row = int(order[int(bad.argmax()) + 1])
            of = f" of {str(symbols[codes[row]])!r}" if symbols.size > 1 else ""
            raise InvalidInputError(
                f"column 'time' of {source}, row {row}: {time[row]!s}{of} {what} "
                f"({int(bad.sum()):,} of {time.size:,} rows). {fix}"
            )


def _positive(column: Any, name: str, source: str, *, zero: bool = False) -> FloatArray:
    from calibrant.validation import as_scores

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
    for s, symbol in enumerate(symbols):
        own = time[starts[s] : starts[s + 1]]
        step = np.diff(own).astype(np.int64)
        if step.size:
            places = np.flatnonzero(step > _GAP * np.median(step))
            found += [Gap(symbol, own[at], own[at + 1]) for at in places]
    return tuple(found)
