"""Sources of the rows of a run: bars, or a table with features of one's own.

A source gives rows with finished labels (`dataset`), rows that can be predicted, whether their labels are known or not
(`features`), and says where they come from (`provenance`). All that follows works on these and knows of no source.
`open_source` is the one place that chooses: a new kind of source is a class with these members and a line there.
"""

from __future__ import annotations

import hashlib
import logging
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from calibrant.dependence import TimeArray, as_label_times, as_times, has_zone, label_uniqueness_in_time
from calibrant.errors import ColumnOrderError, DataWarning, InvalidInputError, InvalidLabelError, InvalidTypeError
from calibrant.numerics import BoolArray, FloatArray, IntArray, rows_of_codes
from calibrant.phrases import count, listed, quoted
from calibrant.tables import RowSource, complete_rows, open_rows
from calibrant.training.bars import Bars, as_bars, default_bars, read_bars
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset, FeatureRows, make_dataset
from calibrant.training.equity import as_returns
from calibrant.training.features import bar_features
from calibrant.training.labels import label_bars
from calibrant.training.run_log import LOGGER
from calibrant.validation import as_groups, as_labels, at_first, check_both_classes

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(LOGGER)
_GAPS_SHOWN = 3
#: Rows of a class that there are on average at least: below that, labels are numbers and no classes.
_ROWS_PER_CLASS = 10
#: Share of the labels that take no longer than the horizon: a single long one would hold all rows off by an embargo.
_USUAL_LABELS = 0.99
#: Bars are of another kind than those of a run where they are so many times as long, or as short.
_OTHER_STEP = 2.0
#: What pandas calls the index of a frame in a file: the numbers of rows, and no feature.
_INDEX = re.compile(r"__index_level_\d+__")


class Source(Protocol):
    """Where the rows of a run come from."""

    @property
    def source(self) -> str:
        """What messages and pages call it."""
        ...

    @property
    def has_zone(self) -> bool:
        """Whether its times have a zone, so that they are given in UTC."""
        ...

    def dataset(self, config: TrainConfig) -> Dataset:
        """Return the rows whose labels are finished."""
        ...

    def features(self, names: Sequence[str] | None = None) -> FeatureRows:
        """Return all rows that can be predicted, with the features of these names, in this order; its own by default.

        Raises
        ------
        ColumnOrderError
            If it has no such features.
        """
        ...

    def check_like(self, found: Mapping[str, Any], run_id: str) -> None:
        """Refuse rows of another kind than those that a run was trained on; `found` is what its config.toml says.

        Raises
        ------
        CalibrantError
            If they are of another kind.
        """
        ...

    def provenance(self) -> dict[str, Any]:
        """Return what config.toml says of the rows, `source` and `data_sha256` among it."""
        ...


def open_source(config: TrainConfig, data: Any = None) -> Source:
    """Return the source that the settings name, or `data` read as they say.

    Parameters
    ----------
    config : TrainConfig
        Of a table, the names of its columns.
    data : path-like, frame, Bars or source, optional
        Instead of what ``config.table`` or ``config.data`` names: bars, or a table with the same columns.
    """
    if isinstance(data, Bars):
        return BarSource(data)
    if isinstance(data, (BarSource, TableSource)):
        return data
    if config.table:
        return TableSource(open_rows(config.table if data is None else data), config)
    if data is None:
        return BarSource(read_bars(config.data) if config.data else default_bars())
    return BarSource(read_bars(data) if isinstance(data, str) or hasattr(data, "__fspath__") else as_bars(data))


@dataclass(frozen=True, slots=True, eq=False)
class BarSource:
    """Bars, whose features and labels are made of prices."""

    bars: Bars

    @property
    def source(self) -> str:
        """What messages and pages call the bars."""
        return self.bars.source

    @property
    def has_zone(self) -> bool:
        """Whether times have a zone."""
        return self.bars.has_zone

    def dataset(self, config: TrainConfig) -> Dataset:
        """Return the bars that have features and a finished label."""
        if config.table:
            raise InvalidInputError(
                f"table={config.table!r} is named, and bars are given: {self.source}. Pass a table, or leave out the "
                "settings of one."
            )
        self._log()
        distances = {"profit": config.profit, "stop": config.stop, "band": config.band}
        labels = label_bars(self.bars, kind=config.label, horizon=config.horizon, **distances)  # type: ignore[arg-type]
        return make_dataset(self.bars, labels, horizon=config.horizon)

    def features(self, names: Sequence[str] | None = None) -> FeatureRows:
        """Return the bars with enough history for features."""
        X, own = bar_features(self.bars)
        if names is not None and tuple(names) != own:
            raise ColumnOrderError(
                f"the features of bars are {quoted(own)}, and those asked for are {quoted(names)}. Train the model "
                "again, or name the table that has them."
            )
        symbol = np.repeat(np.array(self.bars.symbols, dtype=object), np.diff(self.bars.starts))
        rows = np.flatnonzero(np.isfinite(X).all(axis=1))
        rows = rows[np.argsort(self.bars.time[rows], kind="stable")]
        return FeatureRows(X[rows], own, self.bars.time[rows], symbol[rows], self.bars.n_rows - rows.size)

    def check_like(self, found: Mapping[str, Any], run_id: str) -> None:
        """Refuse bars of another length than those of a run; warn where only one has a zone, or adjusts its prices."""
        _warn_of_zone(self, found, run_id)
        usual, is_adjusted = found.get("bar_seconds"), found.get("is_adjusted")  # not in runs of before
        has_steps = self.bars.n_rows > len(self.bars.symbols)
        if usual is not None and has_steps and not 1.0 / _OTHER_STEP < self.bars.seconds / usual < _OTHER_STEP:
            raise InvalidInputError(
                f"{self.source} has a bar every {_duration(self.bars.seconds)}, and {run_id} was trained on one every "
                f"{_duration(usual)}: its features look back over bars, and would mean something else. Pass bars of "
                "the length that the run was trained on."
            )
        if is_adjusted is not None and is_adjusted != self.bars.is_adjusted:
            which = "those of training are" if is_adjusted else "these are"
            others = "these aren't" if is_adjusted else "those of training weren't"
            warnings.warn(
                f"{self.source}: {which} adjusted for splits and dividends by 'adj_close', and {others}: in what "
                "isn't, a split or dividend in the last 61 bars looks like a move of the price",
                DataWarning,
                stacklevel=4,
            )

    def provenance(self) -> dict[str, Any]:
        """Return what config.toml says of the bars."""
        bars = self.bars
        return {
            "source": bars.source,
            "data_sha256": bars.sha256(),
            "n_bars": bars.n_rows,
            "symbols": list(bars.symbols),
            "bars_from": str(bars.time.min()),
            "bars_to": str(bars.time.max()),
            "n_gaps": len(bars.gaps),
            "bar_seconds": bars.seconds,
            "is_adjusted": bars.is_adjusted,
            "has_zone": self.has_zone,
        }

    def _log(self) -> None:
        bars = self.bars
        first, last = (_shown(when) for when in (bars.time.min(), bars.time.max()))
        symbols = ", ".join(bars.symbols[:10])
        _LOG.info("Bars: %s, %s of %s, %s to %s", bars.source, f"{bars.n_rows:,}", symbols, first, last)
        for gap in bars.gaps[:_GAPS_SHOWN]:
            _LOG.info("Gap: %s", gap)
        if len(bars.gaps) > _GAPS_SHOWN:
            _LOG.info("Gaps: %s more", f"{len(bars.gaps) - _GAPS_SHOWN:,}")


class TableSource:
    """A table with features of one's own: a row per prediction, with the time of it.

    Parameters
    ----------
    rows : RowSource
        What `calibrant.tables.open_rows` gives of a file, a folder, a database or a frame.
    config : TrainConfig
        Names the columns: `label`, `time`, `label_end`, `features`, `symbol`, `price_return`.
    """

    def __init__(self, rows: RowSource, config: TrainConfig) -> None:
        self.rows, self.config = rows, config
        self._kept: dict[str, pa.ChunkedArray] = {}

    @property
    def source(self) -> str:
        """What messages and pages call the table."""
        return self.rows.name

    @property
    def has_zone(self) -> bool:
        """Whether times have a zone."""
        return bool(has_zone(self._column(self.config.time)))

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that are told to a model: those that the settings name, or all others than theirs.

        Of a table of predictions these are the columns of all models.
        """
        of, names = self.config, self.rows.names
        if of.score:
            return tuple(self.rows.select([name for columns in of.score.values() for name in columns]))
        later = {"label": of.label, "label_end": of.label_end, "price_return": of.price_return}
        for kind, column in later.items():
            if column and column in of.features:
                raise InvalidInputError(
                    f"features name {column!r}, which is the {kind} of {self.source}: it is known only after the row "
                    "is predicted. Leave it out."
                )
        if of.features:
            return tuple(self.rows.select(of.features))
        known = {of.label, of.time, of.label_end, of.symbol, of.price_return}
        found = self.rows.select([name for name in names if name not in known and not _INDEX.fullmatch(name)])
        if not found:
            raise InvalidInputError(f"{self.source} has no column beside {quoted(sorted(known - {''}))}. Add features.")
        return tuple(found)

    def labelled(self) -> TableSource:
        """Return the rows that have a label, and the end of it, already; its `rows` count the others.

        They need no returns, where the table has no column of these.
        """
        of = self.config
        known = [name for name in (of.label, of.label_end) if name]
        gained = of.price_return if of.price_return in self.rows.names else ""
        return TableSource(complete_rows(self.rows, known), replace(of, price_return=gained))

    def dataset(self, config: TrainConfig) -> Dataset:  # noqa: ARG002 - the labels are there
        """Return all rows; each has a label."""
        of = self.config
        beside = (of.label, of.time, of.label_end, of.symbol, of.price_return)
        self._columns([*filter(None, beside), *self.feature_names])
        X = self._numbers(self.feature_names)
        labels = as_labels(self._column(of.label), name=self._where(of.label))
        check_both_classes(labels, self._where(of.label))
        n, k = labels.codes.size, len(labels.classes)
        if k > 2 and n < _ROWS_PER_CLASS * k:
            raise InvalidLabelError(
                f"{self._where(of.label)} holds {k:,} classes in {n:,} rows. Pass labels of few classes, with at least "
                f"{_ROWS_PER_CLASS} rows each on average; cut a number into ranges first."
            )
        time, end = self._spans()
        symbol = self._symbols(n)
        order = _sorted_rows(time, symbol)
        gained = self._column(of.price_return) if of.price_return else None
        returns = None if gained is None else as_returns(gained, self._where(of.price_return))[order]
        weight = _uniqueness(time, end, symbol)
        first, last = (_shown(when) for when in (time.min(), time.max()))
        _LOG.info("Table: %s, %s rows, %s to %s", self.source, f"{n:,}", first, last)
        return Dataset(
            X=X[order],
            names=self.feature_names,
            y=labels.values[order],
            classes=labels.classes,
            time=time[order],
            label_end=end[order],
            symbol=symbol[order],
            weight=weight[order],
            label_return=returns,
            horizon_time=np.sort(end - time)[int(_USUAL_LABELS * (n - 1))],
        )

    def features(self, names: Sequence[str] | None = None) -> FeatureRows:
        """Return all rows: a missing feature is NaN, which a model may take or refuse."""
        own = self.feature_names if names is None else tuple(self.rows.select(names))
        self._read_once([self.config.time, *filter(None, [self.config.symbol]), *own])
        X, time = self._numbers(own), self._times()
        symbol = self._symbols(time.size)
        order = _sorted_rows(time, symbol)
        return FeatureRows(X[order], own, time[order], symbol[order], 0)

    def is_empty(self, names: Sequence[str]) -> bool:
        """Say whether there is no row to predict; columns of these features must be there all the same."""
        return len(self._read_once([self.config.time, *filter(None, [self.config.symbol]), *names])[0]) == 0

    def check_like(self, found: Mapping[str, Any], run_id: str) -> None:
        """Refuse times that are numbers where those of a run are dates; warn where only one of both has a zone."""
        were_dates, are_dates = "T" in str(found["rows_from"]), self._times().dtype.kind == "M"  # as NumPy writes them
        if were_dates != are_dates:
            one, other = ("dates", "numbers") if are_dates else ("numbers", "dates")
            raise InvalidTypeError(
                f"{self._where(self.config.time)} has times that are {one}, and those of {run_id} are {other}. Pass "
                "times of the kind that the run was trained on."
            )
        _warn_of_zone(self, found, run_id)

    def provenance(self) -> dict[str, Any]:
        """Return what config.toml says of the table."""
        time = self._times()
        return {
            "source": self.source,
            "data_sha256": self.sha256(),
            "n_rows": int(time.size),
            "rows_from": str(time.min()),
            "rows_to": str(time.max()),
            "has_zone": self.has_zone,
        }

    def sha256(self) -> str:
        """Return a hash of the columns that are used, whatever file they came from."""
        of = self.config
        digest = hashlib.sha256("\0".join(self.feature_names).encode())
        digest.update(np.ascontiguousarray(self._numbers(self.feature_names)).tobytes())
        for times in self._spans():
            digest.update(str(times.dtype.kind).encode() + np.ascontiguousarray(times).tobytes())
        for name in filter(None, (of.label, of.symbol, of.price_return)):
            digest.update("\0".join(map(repr, self._column(name).to_pylist())).encode())
        return digest.hexdigest()

    def _where(self, name: str) -> str:
        return f"column {name!r} of {self.source}"

    def _column(self, name: str) -> pa.ChunkedArray:
        return self._columns([name])[0]

    def _columns(self, names: Sequence[str]) -> list[pa.ChunkedArray]:
        """Return the named columns, which hold rows."""
        found = self._read_once(names)
        if found[0].length() == 0:
            raise InvalidInputError(f"{self.source} has no rows. Pass at least a few hundred.")
        return found

    def _read_once(self, names: Sequence[str]) -> list[pa.ChunkedArray]:
        """Return the named columns; those that were not read before are read in one pass."""
        wanted = [name for name in dict.fromkeys(self.rows.select(names)) if name not in self._kept]
        if wanted:
            table = self.rows.read(wanted)
            self._kept |= {name: table.column(name) for name in wanted}
        return [self._kept[name] for name in names]

    def _times(self) -> TimeArray:
        return as_times(self._column(self.config.time), name=self._where(self.config.time))

    def _spans(self) -> tuple[TimeArray, TimeArray]:
        of = self.config
        ends = self._column(of.label_end or of.time)
        names = {"name": self._where(of.time), "end_name": self._where(of.label_end or of.time)}
        return as_label_times(self._column(of.time), ends, **names)

    def _symbols(self, n: int) -> npt.NDArray[Any]:
        if not self.config.symbol:
            return np.full(n, "", dtype=object)
        groups = as_groups(self._column(self.config.symbol), name=self._where(self.config.symbol))
        return groups.values.astype(object)

    def _numbers(self, names: Sequence[str]) -> FloatArray:
        """Return features as numbers; a missing one is NaN."""
        import pyarrow as pa

        columns = dict(zip(names, self._columns(names), strict=True))
        odd = [f"{name!r} ({column.type})" for name, column in columns.items() if not _is_numeric(column.type)]
        if odd:
            raise InvalidTypeError(
                f"{self.source} has {count(len(odd), 'column')} of no numbers: {listed(odd)}. Name the features that a "
                "model is told, or turn these into numbers first: categories into one column of 0 and 1 each."
            )
        X = np.column_stack([column.cast(pa.float64(), safe=False).to_numpy() for column in columns.values()])
        infinite: BoolArray = np.isinf(X)
        if infinite.any():
            row, j = (int(place) for place in np.argwhere(infinite)[0])
            problem, fix = f"{X[row, j].item()!r} is not finite", "Leave it empty, or drop these rows first."
            raise InvalidInputError(at_first(infinite[:, j], self._where(names[j]), problem, fix))
        return np.ascontiguousarray(X)


def _warn_of_zone(source: Source, found: Mapping[str, Any], run_id: str) -> None:
    had = found.get("has_zone", source.has_zone)  # not in runs of before
    if had != source.has_zone:
        here, there = ("no time zone", "one") if had else ("a time zone", "none")
        said = f"{source.source}: times have {here}, and those of {run_id} have {there}: what has none is taken for UTC"
        warnings.warn(said, DataWarning, stacklevel=5)


def _shown(when: Any) -> str:
    return str(when.astype("datetime64[m]") if isinstance(when, np.datetime64) else when)


def _duration(seconds: float) -> str:
    """Return a length of time in the largest unit of which it has one at least."""
    for unit, length in (("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}s" if seconds != length else unit
    return f"{seconds:.3g} seconds"


def _is_numeric(kind: pa.DataType) -> bool:
    import pyarrow as pa

    of = pa.types
    return bool(of.is_boolean(kind) or of.is_integer(kind) or of.is_floating(kind) or of.is_decimal(kind))


def _sorted_rows(time: TimeArray, symbol: npt.NDArray[Any]) -> IntArray:
    """Return the numbers of the rows in the order of time, and at a time in that of symbols."""
    return np.lexsort((np.unique(symbol.astype(str), return_inverse=True)[1], time))


def _uniqueness(time: TimeArray, end: TimeArray, symbol: npt.NDArray[Any]) -> FloatArray:
    """Return the uniqueness of each label among those of its symbol, over the moments of these."""
    out = np.ones(time.size)
    symbols, codes = np.unique(symbol.astype(str), return_inverse=True)
    for _, rows in rows_of_codes(codes, symbols.size):
        out[rows] = label_uniqueness_in_time(time[rows], end[rows])
    return out
