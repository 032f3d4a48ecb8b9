"""Scores, probabilities and weights: any container to float64 arrays and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from calibrant.errors import (
    InvalidInputError,
    InvalidProbabilityError,
    InvalidScoreError,
    InvalidTypeError,
    InvalidWeightError,
    ShapeError,
)
from calibrant.numerics import LARGEST, ROW_SUM_TOLERANCE, BoolArray, FloatArray, row_sum
from calibrant.validation.arguments import at_first, check_choice, check_same_length, values_such_as
from calibrant.validation.frames import narwhals_for, read_native

InputKind: TypeAlias = Literal["probability", "logit", "score"]
INPUT_KINDS: tuple[str, ...] = get_args(InputKind)
#: What to do with logits, which the command line says in its own words.
LOGIT_ADVICE = 'pass input="logit" to a calibrator'
#: Beyond 0 or 1 by less than the first, a probability may have been rounded; up to the second it may be a percentage.
_ROUNDING, _PERCENT = 1e-6, 100.0
#: Containers reach us as objects of libraries that may not be installed; narwhals knows them by name.
ArrayLike: TypeAlias = Any
#: Positive weights lie between this and its inverse, so that sums of their squares are ordinary numbers.
_LEAST_WEIGHT = 1e-100
#: Up to so many values, such as one row in a server, are checked one by one.
_FEW = 8


@dataclass(frozen=True, slots=True)
class Container:
    """What an argument came in, so that a result can go out as the same kind.

    `columns` names the columns in the order of the values, which may be another one than that of the frame.
    """

    native: Any = None
    columns: tuple[str, ...] | None = None

    def wrap(self, values: FloatArray, *, name: str | None = None) -> Any:
        """Return `values` as the kind that came in: NumPy, or a series or frame with the same index.

        A frame keeps its column names and their order; a series is called `name`, or keeps its own name.
        """
        if self.native is None:
            return values
        import narwhals as nw

        if is_arrow_array(self.native):
            import pyarrow as pa

            return pa.array(values)
        source = nw.from_native(self.native, allow_series=True)
        result: Any
        if isinstance(source, nw.Series):
            result = nw.new_series(name or source.name, values, backend=source.implementation)
        else:
            names = [str(column) for column in source.columns]
            order = list(self.columns or names)
            places = range(len(names)) if order == names else [order.index(name) for name in names]
            parts = {column: values[:, j] for column, j in zip(source.columns, places, strict=True)}
            result = nw.from_dict(parts, backend=source.implementation)
        native = result.to_native()
        index = nw.maybe_get_index(source)
        if index is not None:
            native.index = index
        return native

    def wrap_text(self, texts: npt.NDArray[np.str_], *, name: str) -> Any:
        """Return a text for each row as the kind that came in: of a series or frame, a series with the same index."""
        if self.native is None:
            return texts
        if is_arrow_array(self.native):
            import pyarrow as pa

            return pa.array(texts.tolist())
        import narwhals as nw

        source = nw.from_native(self.native, allow_series=True)
        native: Any = nw.new_series(name, texts.tolist(), nw.String(), backend=source.implementation).to_native()
        index = nw.maybe_get_index(source)
        if index is not None:
            native.index = index
        return native


NUMPY = Container()


@dataclass(frozen=True, slots=True)
class Scores:
    """Checked scores: `values` is float64 of shape (n,) or (n, K), and `container` brings results back."""

    values: FloatArray
    container: Container

    @property
    def n_columns(self) -> int:
        """Number of columns; 1 for a single array of scores."""
        return 1 if self.values.ndim == 1 else self.values.shape[1]

    def ordered(self, places: Sequence[int] | None) -> Scores:
        """Return the columns at these places, in this order; None leaves them as they are."""
        names = self.container.columns
        if places is None or names is None:
            return self
        columns = tuple(names[j] for j in places)
        return Scores(np.take(self.values, places, axis=1), replace(self.container, columns=columns))


def as_scores(
    scores: ArrayLike,
    *,
    name: str = "scores",
    input: InputKind = "score",
    sum_to_one: bool = True,
    takes_one_column: bool = False,
) -> Scores:
    """Check scores of any container, of shape (n,) or (n, K): real numbers, finite, and in [0, 1] if probabilities.

    `name` is what the caller calls them, for the messages. With `sum_to_one` each row of K probabilities must sum to
    one. With `takes_one_column`, shape (n, 1) is read as (n,), and a frame of one column as the series that it holds.
    """
    check_choice("input", input, INPUT_KINDS)
    checked = _as_float(scores, name)
    if checked.values.ndim == 2 and checked.values.shape[1] == 1:
        if not takes_one_column:
            fix = f"Pass the single column as shape ({checked.values.shape[0]},), or one column per class."
            raise ShapeError(f"{name} has shape {checked.values.shape}. {fix}")
        checked = _of_one_column(checked)
    if input == "probability":
        _check_unit_range(checked, name)
        if sum_to_one and checked.values.ndim == 2:
            _check_row_sums(checked, name)
    else:
        _check_finite(checked, name)
    return checked


def as_probabilities(
    y_prob: ArrayLike, *, name: str = "y_prob", sum_to_one: bool = True, takes_one_column: bool = False
) -> Scores:
    """Check probabilities; with `sum_to_one` false, the rows of a matrix may have any sum."""
    return as_scores(y_prob, name=name, input="probability", sum_to_one=sum_to_one, takes_one_column=takes_one_column)


def as_columns(scores: ArrayLike, *, name: str = "scores", input: InputKind = "score") -> Scores:
    """Check a matrix of scores, shape (n, L), each column of which stands by itself: rows may have any sum."""
    checked = as_scores(scores, name=name, input=input, sum_to_one=False)
    if checked.values.ndim == 1:
        fix = "Pass one column per label, shape (n, L) with L of at least 2."
        raise ShapeError(f"{name} has one column, shape {checked.values.shape}. {fix}")
    return checked


def as_weight(
    sample_weight: ArrayLike | None,
    n: int,
    *,
    name: str = "sample_weight",
    rows: str = "the scores",
    may_all_be_zero: bool = False,
) -> FloatArray | None:
    """Check sample weights: one per row, finite, not negative, not all zero unless they may; None where all are one.

    Weights whose squares would overflow or vanish are refused. `rows` is what the caller calls the argument with `n`
    rows, for the messages.
    """
    if sample_weight is None:
        return None
    try:
        checked = _as_float(sample_weight, name)
        _check_finite(checked, name)
    except InvalidScoreError as error:
        raise InvalidWeightError(str(error)) from None
    weight = checked.values
    if weight.ndim != 1:
        raise ShapeError(f"{name} has shape {weight.shape}. Pass one weight per row, shape ({n},).")
    check_same_length(n, weight.size, rows, name)
    bad = weight < 0.0
    if bad.any():
        _refuse(InvalidWeightError, name, checked, bad, "is negative", "Drop these rows or set the weight to 0.")
    if not (may_all_be_zero or weight.any()):
        raise InvalidWeightError(f"{name} is zero in all {n:,} rows. Give at least one row a positive weight.")
    bad = (weight > 0.0) & ((weight < _LEAST_WEIGHT) | (weight > 1.0 / _LEAST_WEIGHT))
    if bad.any():
        limits = f"is neither 0 nor within [{_LEAST_WEIGHT:g}, {1.0 / _LEAST_WEIGHT:g}]"
        _refuse(InvalidWeightError, name, checked, bad, limits, "Divide all weights by their mean first.")
    return None if bool((weight == 1.0).all()) else weight


def _as_float(values: ArrayLike, name: str) -> Scores:
    if isinstance(values, np.ndarray) and values.dtype == np.float64 and type(values) is np.ndarray and values.ndim:
        checked = Scores(values, NUMPY)
    elif (numbers := arrow_numbers(values)) is not None:
        checked = Scores(_numeric_array(numbers, name), Container(values))
    elif is_arrow_array(values):
        _refuse_nulls(np.asarray(values.is_null()), name)
        checked = Scores(_numeric_array(values.to_numpy(zero_copy_only=False), name), Container(values))
    else:
        checked = _from_table(values, name)
    array = checked.values
    if array.ndim not in (1, 2):
        raise ShapeError(f"{name} has {array.ndim} dimensions, shape {array.shape}. Pass shape (n,) or (n, K).")
    if array.shape[0] == 0:
        raise ShapeError(f"{name} is empty. Pass at least one row.")
    if array.ndim == 2 and array.shape[1] == 0:
        raise ShapeError(f"{name} has shape {array.shape}, without columns. Pass one column, or one per class.")
    if not array.flags.c_contiguous:
        checked = Scores(np.ascontiguousarray(array), checked.container)
    return checked


def _of_one_column(checked: Scores) -> Scores:
    """Return the one column of scores as shape (n,); a frame's as the series that it is in the frame."""
    container = checked.container
    if container.columns is not None:
        import narwhals as nw

        frame = nw.from_native(container.native)
        container = Container(frame[:, 0].to_native(), container.columns)
    return Scores(np.ascontiguousarray(checked.values[:, 0]), container)


def _from_table(values: ArrayLike, name: str) -> Scores:
    """Bring anything but a plain float64 array into one, through narwhals where it is a series or frame."""
    if is_plain(values):
        return Scores(_numeric_array(values, name), NUMPY)
    nw, table = narwhals_for(values, name), read_native(values, name)
    if isinstance(table, nw.LazyFrame):
        raise InvalidTypeError(f"{name} is a lazy {type(values).__name__}. Call .collect() on it first.")
    if isinstance(table, nw.Series):
        return Scores(_series_values(table, name), Container(values))
    if isinstance(table, nw.DataFrame):
        if not table.columns:
            raise ShapeError(f"{name} is a frame without columns. Pass one column per class.")
        columns = tuple(map(str, table.columns))
        parts = [_series_values(table[:, j], name, column=column) for j, column in enumerate(columns)]
        return Scores(np.column_stack(parts), Container(values, columns))
    return Scores(_numeric_array(values, name), NUMPY)


def _series_values(series: Any, name: str, *, column: str | None = None) -> FloatArray:
    _refuse_nulls(series.is_null().to_numpy(), name, column)
    return _numeric_array(series.to_numpy(), name, column)


def _refuse_nulls(missing: BoolArray, name: str, column: str | None = None) -> None:
    if missing.any():
        problem = at_first(missing, name, "missing value", "Drop these rows first.", column=column)
        raise InvalidScoreError(problem)


def _numeric_array(values: ArrayLike, name: str, column: str | None = None) -> FloatArray:
    """Return real numbers of any dtype as float64, or say which value is not a number."""
    if isinstance(values, np.ma.MaskedArray):
        _refuse_nulls(_any_of_row(np.ma.getmaskarray(values)), name, column)
    if type(values).__module__.startswith("scipy.sparse"):
        raise InvalidTypeError(f"{name} is a sparse matrix. Pass a dense array: {name}.toarray().")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"{name} is not a rectangular array ({error}). Give all rows the same length.") from None
    if array.ndim == 0:
        example = f", such as [{array.item():g}]" if array.dtype.kind in "fiu" else ""
        raise ShapeError(
            f"{name} is a single {type(values).__name__}, {values!r:.60}. Pass an array of shape (n,){example}."
        )
    if array.dtype.kind in "fiub":
        with np.errstate(over="ignore"):
            return array.astype(np.float64, copy=False)
    if array.dtype.kind == "O":
        return _from_objects(array, name, column)
    raise InvalidTypeError(f"{name} holds {values_such_as(array)}, not real numbers. Convert them to floats first.")


def _from_objects(array: npt.NDArray[Any], name: str, column: str | None) -> FloatArray:
    out = np.empty(array.shape)
    flat, width = array.reshape(-1), max(int(np.prod(array.shape[1:])), 1)
    for i, value in enumerate(flat):
        if is_null(value):
            _refuse_nulls(_any_of_row(np.array([is_null(v) for v in flat]).reshape(array.shape)), name, column)
        try:
            out.reshape(-1)[i] = _real(value)
        except (TypeError, ValueError, ArithmeticError) as error:
            where = f"{name} row {i // width}" + ("" if column is None else f", column {column!r}")
            if isinstance(error, OverflowError):
                problem = f"{where}: a whole number too large for float64. Drop these rows."
                raise InvalidScoreError(problem) from None
            problem = f"{where}: {value!r:.80} is not a number. Convert the column to floats first."
            raise InvalidTypeError(problem) from None
    return out


def _real(value: Any) -> float:
    """Return a real number of any type as a float; text that holds a number is none."""
    if isinstance(value, (str, bytes, complex, np.complexfloating, np.ndarray)) or not hasattr(value, "__float__"):
        raise TypeError
    return float(value)


def _check_finite(scores: Scores, name: str) -> None:
    values = scores.values
    if _are_few_within(values, -LARGEST, LARGEST):
        return
    if not (np.isfinite(values.min()) and np.isfinite(values.max())):
        fix = "Drop rows with NaN or inf first."
        _refuse(InvalidScoreError, name, scores, ~np.isfinite(values), "is not finite", fix)


def _check_unit_range(scores: Scores, name: str) -> None:
    values = scores.values
    if _are_few_within(values, 0.0, 1.0):
        return
    if not (values.min() >= 0.0 and values.max() <= 1.0):  # also where one is NaN
        _check_finite(scores, name)
        bad = (values < 0.0) | (values > 1.0)
        fix = f"If these are logits, {LOGIT_ADVICE}, or turn them into probabilities first."
        if values.min() > -_ROUNDING and values.max() < 1.0 + _ROUNDING:
            fix = "If these are rounding errors, clip them to [0, 1] first."
        elif values.min() >= 0.0 and values.max() <= _PERCENT:
            fix += " If they are percentages, divide them by 100."
        _refuse(InvalidProbabilityError, name, scores, bad, "is outside [0, 1]", fix)


def _are_few_within(values: FloatArray, low: float, high: float) -> bool:
    """Say whether values are so few that a loop over them takes less than calls of NumPy, and all within bounds."""
    return values.size <= _FEW and all(low <= value <= high for value in values.ravel().tolist())


def _check_row_sums(scores: Scores, name: str) -> None:
    total = row_sum(scores.values)
    if total.size == 1 and abs(total.item() - 1.0) <= ROW_SUM_TOLERANCE:  # one row, as in a server
        return
    bad = np.abs(total - 1.0) > ROW_SUM_TOLERANCE
    if bad.any():
        problem = f"the {scores.n_columns} probabilities sum to {total[bad.argmax()].item():.6g}, not 1"
        raise InvalidProbabilityError(at_first(bad, name, problem, "Divide each row by its sum first."))


def _refuse(kind: type[InvalidInputError], name: str, scores: Scores, bad: BoolArray, what: str, fix: str) -> None:
    rows = _any_of_row(bad)
    value, column = scores.values[rows.argmax()], None
    if bad.ndim == 2:
        j = int(bad[rows.argmax()].argmax())
        names = scores.container.columns
        value, column = value[j], j if names is None else names[j]
    raise kind(at_first(rows, name, f"{value.item()!r} {what}", fix, column=column))


def _any_of_row(bad: BoolArray) -> BoolArray:
    return np.asarray(bad.any(axis=tuple(range(1, bad.ndim))))


def is_null(value: object) -> bool:
    """Say whether this is what stands for a missing value in a column of objects; NaN is a number."""
    return value is None or type(value).__name__ == "NAType"


def series_name(values: ArrayLike) -> str | None:
    """Return the name of a series that has one."""
    name = getattr(values, "name", None)
    return name if isinstance(name, str) and name else None


def one_array(column: Any) -> Any:
    """Return a chunked array of pyarrow as one array, which is a copy only where there are several chunks."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def arrow_numbers(values: Any) -> npt.NDArray[Any] | None:
    """Return numbers or truth values of pyarrow, none of them null, as an array; None for anything else.

    pyarrow's own `to_numpy` imports pandas where it is installed, which takes longer than to read a small file.
    """
    kind = type(values)
    if not kind.__module__.startswith("pyarrow") or not kind.__name__.endswith("Array") or values.null_count:
        return None
    import pyarrow as pa

    array = one_array(values) if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_boolean(array.type):
        return np.from_dlpack(array.cast(pa.uint8())).view(np.bool_)
    if not pa.types.is_integer(array.type) and not pa.types.is_floating(array.type):
        return None
    found = np.from_dlpack(array)
    found.flags.writeable = False  # as it may be memory of the table
    return found


def is_plain(values: object) -> bool:
    """Say whether this is of Python or NumPy, and no series or frame of a library that narwhals knows."""
    return isinstance(values, (np.ndarray, list, tuple)) or type(values).__module__ in {"builtins", "numpy"}


def is_arrow_array(values: object) -> bool:
    """Say whether this is a contiguous pyarrow array, which narwhals doesn't know."""
    kind = type(values)
    return kind.__module__.startswith("pyarrow") and kind.__name__.endswith("Array") and kind.__name__ != "ChunkedArray"
