"""Bundle: what a run deploys as one object, from features or bars to calibrated probabilities.

Features are checked and put into the order of the training; each model says its probabilities, the weights that classes
had in training are undone, the calibrator is applied as the run uses it, and several models are averaged. The rows of
the run's test part get the bits that they have in its predictions.parquet.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.chain import Chain
from calibrant.dependence import TimeArray, as_times, has_zone
from calibrant.errors import (
    ColumnOrderError,
    DataWarning,
    InvalidInputError,
    InvalidTypeError,
    ShapeError,
    unknown_name,
)
from calibrant.fitted import Fitted
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.phrases import count, listed, quoted
from calibrant.prior import PriorShift
from calibrant.readable import Readable
from calibrant.rows import Rows
from calibrant.training.bars import PRICES, Bars
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import FeatureRows
from calibrant.training.features import WARM_UP_BARS
from calibrant.training.models import Model, check_features
from calibrant.training.sources import BarSource, TableSource, open_source
from calibrant.validation import ArrayLike, as_columns, as_groups, as_scores, match_columns

#: Symbols or columns that a message names before it counts the others.
_MOST_NAMED = 5
#: What the names of columns begin with that Arrow makes of the index of a pandas frame.
_INDEX = "__index_level_"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Prediction(Readable):
    """Probabilities of the classes of some rows, by a run's bundle.

    Attributes
    ----------
    run_id : str
        The run whose bundle predicted them.
    classes : ndarray of shape (K,)
        The labels, sorted.
    prob : ndarray of shape (n, K)
        Calibrated probabilities, as the run is judged by.
    raw : ndarray of shape (n, K) or None
        Those of the model, or the plain average of those of several, before class weights are undone and before
        calibration; None where nobody asked for them.
    time : ndarray of shape (n,) or None
        When each row was known: when its bar closed; None for features without times. UTC, of times with a zone.
    symbol : ndarray of shape (n,) or None
        What was traded; None for features without symbols.
    n_left_out : int
        Bars of symbols with enough history that have no features, as nothing moved in it, and so no probability; the
        first bars of a symbol, which have too little history, are not counted.
    has_zone : bool
        Whether the times that were given have a zone.
    """

    run_id: str
    classes: npt.NDArray[Any]
    prob: FloatArray
    raw: FloatArray | None = None
    time: TimeArray | None = None
    symbol: npt.NDArray[Any] | None = None
    n_left_out: int = 0
    has_zone: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.prob)

    def arrays(self) -> dict[str, Any]:
        """Return the columns as arrays, under the names that they have in the run's predictions.parquet."""
        known = {"time": self.time, "symbol": self.symbol}
        several = {"raw": self.raw, "p": self.prob}
        return {
            **{name: values for name, values in known.items() if values is not None},
            **{
                f"{name}_{label}": values[:, k]
                for name, values in several.items()
                if values is not None
                for k, label in enumerate(self.classes.tolist())
            },
        }

    def _columns(self) -> dict[str, Sequence[Any]]:
        # of other units NumPy gives whole numbers or days, and not datetimes
        arrays = {n: v.astype("datetime64[us]") if v.dtype.kind == "M" else v for n, v in self.arrays().items()}
        columns = {name: values.tolist() for name, values in arrays.items()}
        if self.has_zone:
            columns["time"] = [when.replace(tzinfo=UTC) for when in columns["time"]]
        return columns

    def _before(self) -> list[str]:
        return [f"{count(self.n_rows, 'row')} predicted by {self.run_id}"]

    def _after(self) -> list[str]:
        return [f"{count(self.n_left_out, 'bar')} left out: nothing moved before"] if self.n_left_out else []


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A fitted model, what turns its output into calibrated probabilities, and why its calibrator is used or not."""

    name: str
    model: Model
    #: What undoes class weights, if there were any, and the calibrator: a Chain; else the calibrator alone.
    calibrator: Fitted
    decision: str

    def predict_proba(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities of checked features, before and after calibration."""
        raw = self.model.predict_proba(X)
        return raw, self.calibrator.apply(Rows(raw))

    def describe(self) -> str:
        """Return what it does, in a sentence."""
        rounds = f", {count(self.model.n_rounds_, 'round')}" if self.model.n_rounds_ else ""
        steps = self.calibrator.steps if isinstance(self.calibrator, Chain) else (self.calibrator,)
        undone = "class weights undone, " if isinstance(steps[0], PriorShift) else ""
        return f"{self.name}{rounds}; {undone}{self.decision}"


@dataclass(frozen=True, eq=False, repr=False)
class Bundle:
    """What a run deploys: from features or bars to calibrated probabilities.

    Attributes
    ----------
    run_id : str
        The run that made it.
    config : TrainConfig
        Its settings, which name the columns of a table.
    features : tuple of str
        Names of the features, in the order of the training.
    classes : ndarray of shape (K,)
        The labels, sorted; columns of probabilities follow this order.
    members : tuple of Member
        The models, whose plain average is what the run is judged by.
    found : mapping
        What the run's config.toml says of the rows that it was trained on: rows of another kind are not predicted.
    """

    run_id: str
    config: TrainConfig
    features: tuple[str, ...]
    classes: npt.NDArray[Any]
    members: tuple[Member, ...]
    found: Mapping[str, Any]

    def predict_proba(self, X: ArrayLike, *, calibrated: bool = True, model: str | None = None) -> FloatArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The features: columns with names in any order, else in the order of `features`.
        calibrated : bool
            Whether to undo class weights and calibrate what the models say.
        model : str, optional
            One of the models; by default the plain average of all of them, which is what a run of several is judged by.

        Returns
        -------
        probabilities : ndarray of shape (n, K)

        Raises
        ------
        ColumnOrderError
            If named columns are missing, or there are others.
        CalibrantError
            If the features can't be used, or there is no such model.
        """
        values = self._features(X)
        names = [member.name for member in self.members]
        if model is not None and model not in names:
            raise unknown_name(f"model in {self.run_id}:", model, names)
        chosen = [member for member in self.members if model in (None, member.name)]
        if not calibrated:
            return _average([member.model.predict_proba(values) for member in chosen])
        return _average([member.predict_proba(values)[1] for member in chosen])

    def predict(self, data: Any, *, raw: bool = False, last: bool = False) -> Prediction:
        """Return the probabilities of bars, or of rows of a table or of features, with their times and symbols.

        Parameters
        ----------
        data : path-like, data frame, Arrow table or Bars
            Of a run of bars: bars, as `calibrant.training.as_bars` takes them, with at least 61 of each symbol; or a
            frame of their features, by name and in any order, with `time` and `symbol` beside them if they are known.
            Of a run of a table: one with the same columns; its labels needn't be there.
        raw : bool
            Whether to return what the models say before calibration too.
        last : bool
            Whether to predict the last row of each symbol alone.

        Returns
        -------
        Prediction
            Rows in the order of time, whether their labels are finished or not. Of bars, those with enough history.

        Raises
        ------
        CalibrantError
            If a column is missing or there are others, a symbol has too little history, bars are twice as long as those
            of the training or half as long, times are numbers where those were dates, or the data can't be used.

        Notes
        -----
        A bar is predicted from the 61 bars up to it and from nothing else: it gets the same bits whatever bars come
        before or after these, and however many are predicted with it.
        """
        if not self.config.table and _is_frame(data) and not _has_prices(data):
            return self._of_features(data, raw=raw, last=last)
        source = open_source(self.config, data)
        if isinstance(source, BarSource):
            _check_history(source.bars)
        if isinstance(source, TableSource) and source.is_empty(self.features):
            return self._nothing(raw=raw)
        source.check_like(self.found, self.run_id)
        if isinstance(source, BarSource):
            made = self._of_bars(source.bars, source.features(), raw=raw, last=last)
            return replace(made, has_zone=source.has_zone)
        rows = source.features(self.features)
        extra = self._unknown(source.rows.names) if isinstance(source, TableSource) else []
        if extra:
            warnings.warn(
                f"{source.source} has {count(len(extra), 'column')} that {self.run_id} was not trained on, and that is "
                f"not used: {_some([repr(name) for name in extra])}",
                DataWarning,
                stacklevel=3,
            )
        return replace(self._predicted(rows.X, rows.time, rows.symbol, raw=raw, last=last), has_zone=source.has_zone)

    def to_onnx(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Return the whole bundle as one ONNX model, and write it; see `calibrant.training.bundle_onnx`."""
        from calibrant.training.bundle_onnx import bundle_to_onnx

        return bundle_to_onnx(self, path)

    def describe(self) -> list[str]:
        """Return what becomes of a row, a line for each step."""
        lines = [f"{count(len(self.features), 'feature')}: {listed(self.features)}"]
        lines += [member.describe() for member in self.members]
        if len(self.members) > 1:
            lines.append(f"plain average of the {len(self.members)} models")
        return [*lines, f"probabilities of {listed(self.classes.tolist())}"]

    def __repr__(self) -> str:
        return "\n".join([f"Bundle of {self.run_id}", *(f"  {line}" for line in self.describe())])

    def _of_bars(self, bars: Bars, rows: FeatureRows, *, raw: bool, last: bool) -> Prediction:
        lacking = [name for name in self.features if name not in rows.names]
        if lacking:
            fix = "Pass bars with a column 'volume'" if lacking == ["volume"] else "Pass a frame of the features"
            raise ColumnOrderError(
                f"{bars.source}: {self.run_id} was trained on {quoted(lacking)}, which these bars don't give. {fix}."
            )
        X = rows.X[:, [rows.names.index(name) for name in self.features]]
        n_unmoved = rows.n_left_out - len(bars.symbols) * (WARM_UP_BARS - 1)
        if not last:
            return self._predicted(X, rows.time, rows.symbol, raw=raw, last=False, n_left_out=n_unmoved)
        newest = dict(zip(bars.symbols, bars.time[bars.starts[1:] - 1], strict=True))
        kept = np.array(
            [newest[symbol] == when for symbol, when in zip(rows.symbol, rows.time, strict=True)], dtype=bool
        )
        unmoved = [symbol for symbol in bars.symbols if symbol not in rows.symbol[kept]]
        if unmoved:
            warnings.warn(
                f"{bars.source}: the last bar of {_some(unmoved)} has no features, as nothing moved before it, and is "
                "left out",
                DataWarning,
                stacklevel=4,
            )
        return self._predicted(
            X[kept], rows.time[kept], rows.symbol[kept], raw=raw, last=False, n_left_out=len(unmoved)
        )

    def _of_features(self, frame: Any, *, raw: bool, last: bool) -> Prediction:
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        beside = {
            name: table[name].to_native()
            for name in ("time", "symbol")
            if name in table.columns and name not in self.features
        }
        X = self._features(table.drop(list(beside)).to_native())
        time = as_times(beside["time"], name="column 'time'") if "time" in beside else None
        if time is not None and time.dtype.kind != "M":
            raise InvalidTypeError(f"column 'time' holds {time.dtype} values, not times of bars. Convert or drop it.")
        symbol = None
        if "symbol" in beside:
            symbol = as_groups(beside["symbol"], name="column 'symbol'").values.astype(object)
        if time is not None:
            order = np.argsort(time, kind="stable")
            X, time, symbol = X[order], time[order], None if symbol is None else symbol[order]
        made = self._predicted(X, time, symbol, raw=raw, last=last)
        return replace(made, has_zone=time is not None and bool(has_zone(beside["time"])))

    def _predicted(
        self,
        X: FloatArray,
        time: TimeArray | None,
        symbol: npt.NDArray[Any] | None,
        *,
        raw: bool,
        last: bool,
        n_left_out: int = 0,
    ) -> Prediction:
        """Predict rows in the order of time, or the last one of each symbol."""
        if last:
            rows = _last_rows(len(X), symbol)
            X, time = X[rows], None if time is None else time[rows]
            symbol = None if symbol is None else symbol[rows]
        if not len(X):
            raise InvalidInputError(
                f"{self.run_id} has no row to predict: nothing moved before any of the bars, so that none has "
                "features. Pass bars of a market that trades."
            )
        if time is not None:
            for member in self.members:
                check_features(member.model, X, self.features, time)
        before, after = zip(*(member.predict_proba(X) for member in self.members), strict=True)
        named = symbol if symbol is not None and any(symbol) else None
        return Prediction(
            self.run_id, self.classes, _average(after), _average(before) if raw else None, time, named, n_left_out
        )

    def _nothing(self, *, raw: bool) -> Prediction:
        """Return the columns of a prediction of a table without rows."""
        none = np.empty((0, self.classes.size))
        time = np.empty(0, "datetime64[us]" if "T" in str(self.found["rows_from"]) else np.float64)
        symbol = np.empty(0, np.str_) if self.config.symbol else None
        has_zone = bool(self.found.get("has_zone"))
        return Prediction(self.run_id, self.classes, none, none if raw else None, time, symbol, has_zone=has_zone)

    def _unknown(self, names: Sequence[str]) -> list[str]:
        """Return the columns of a table that the run neither was told of nor was told to leave out."""
        of = self.config
        known = {*self.features, of.label, of.time, of.label_end, of.symbol, of.price_return}
        found = [name for name in names if name not in known and not name.startswith(_INDEX)]
        return [] if of.features or of.score else found

    def _features(self, X: ArrayLike) -> FloatArray:
        """Check features, and put columns with names into the order of the training."""
        filled, is_missing = _without_missing(X)
        known, is_one = self.features, len(self.features) == 1
        checked = as_scores(filled, name="X", takes_one_column=True) if is_one else as_columns(filled, name="X")
        columns = checked.container.columns
        if columns is not None:
            missing, extra = [n for n in known if n not in columns], [n for n in columns if n not in known]
            if missing or extra:
                faults = [f"lacks {quoted(missing)}"] * bool(missing) + [f"has {quoted(extra)} besides"] * bool(extra)
                raise ColumnOrderError(
                    f"X {' and '.join(faults)}. The features of {self.run_id} are {listed(known)}: pass columns of "
                    "these names, in any order."
                )
            checked = checked.ordered(match_columns(columns, known, name="X", fitted=self.run_id))
        if checked.n_columns != len(known):
            raise ShapeError(
                f"X has shape {checked.values.shape}, and this model has {len(known)} features. Pass them all."
            )
        values = checked.values.reshape(-1, len(known))
        if is_missing is None:
            return values
        if not all(member.model.takes_missing for member in self.members):
            as_scores(X, name="X", sum_to_one=False, takes_one_column=is_one)  # refuses the first missing value
        if columns is not None:
            is_missing = is_missing[:, [columns.index(name) for name in known]]
        return np.where(is_missing.reshape(values.shape), np.nan, values)


def _without_missing(X: ArrayLike) -> tuple[ArrayLike, BoolArray | None]:
    """Return numbers with 0 in place of those that are missing, and which are; as they are where none is."""
    import narwhals as nw
    import pyarrow as pa

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        if not all(kind.is_numeric() or kind == nw.Boolean for kind in frame.schema.values()):
            return X, None
        columns = {name: np.asarray(frame[name].to_numpy(), dtype=np.float64) for name in frame.columns}
        missing = np.column_stack([np.isnan(values) for values in columns.values()]) if columns else None
        if missing is None or not missing.any():
            return X, None
        return pa.table({name: np.nan_to_num(v, posinf=np.inf, neginf=-np.inf) for name, v in columns.items()}), missing
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind != "f" or not np.isnan(X).any():
        return X, None
    return np.where(np.isnan(X), 0.0, X), np.isnan(X)


def _average(several: Sequence[FloatArray]) -> FloatArray:
    """Return the plain average of probabilities of the same rows; of one model these themselves."""
    return several[0] if len(several) == 1 else np.asarray(np.mean(several, axis=0))


def _check_history(bars: Bars) -> None:
    """Refuse bars of a symbol whose features would look back further than there are bars."""
    n_bars = np.diff(bars.starts)
    short = np.flatnonzero(n_bars < WARM_UP_BARS)
    if short.size:
        named = _some([f"{bars.symbols[s]!r} ({n_bars[s]:,})" for s in short])
        raise InvalidInputError(
            f"{bars.source} has too few bars of {named}: features look back over {WARM_UP_BARS} bars. Pass at least "
            f"{WARM_UP_BARS} bars up to the one to predict, or leave {'it' if short.size == 1 else 'them'} out."
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return listed(names) if more <= 0 else f"{', '.join(names[:_MOST_NAMED])} and {more:,} more"


def _is_frame(data: Any) -> bool:
    import narwhals as nw

    return isinstance(nw.from_native(data, pass_through=True), nw.DataFrame)


def _has_prices(frame: Any) -> bool:
    import narwhals as nw

    return {name.lower() for name in nw.from_native(frame, eager_only=True).columns}.issuperset(PRICES)


def _last_rows(n: int, symbol: npt.NDArray[Any] | None) -> IntArray:
    """Return the last row of each symbol, in the order of the rows."""
    if symbol is None:
        return np.arange(n)[-1:]
    _, from_end = np.unique(symbol[::-1].astype(str), return_index=True)
    return np.sort(n - 1 - from_end)
