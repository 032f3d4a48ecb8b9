"""The gate: any container to float64 arrays and back, with every refusal said once and precisely.

Each public function passes its arguments through here; everything below trusts what it is given.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from calibrant.errors import (
    InvalidInputError,
    InvalidLabelError,
    InvalidProbabilityError,
    InvalidScoreError,
    InvalidTypeError,
    InvalidWeightError,
    ShapeError,
    unknown_name,
)
from calibrant.numerics import ROW_SUM_TOLERANCE, BoolArray, FloatArray

InputKind: TypeAlias = Literal["probability", "logit", "score"]
INPUT_KINDS: tuple[str, ...] = get_args(InputKind)
#: Containers reach us as objects of libraries that may not be installed; narwhals knows them by name.
ArrayLike: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Container:
    """What an argument came in, so that a result can go out as the same kind."""

    native: Any = None
    columns: tuple[str, ...] | None = None

    def wrap(self, values: FloatArray, *, name: str | None = None) -> Any:
        """Return `values` as the kind that came in: NumPy, or a series or frame with the same index.

        A frame keeps its column names; a series is called `name`, or keeps its own name.
        """
        if self.native is None:
            return values
        import narwhals as nw

        if _is_arrow_array(self.native):
            import pyarrow as pa

            return pa.array(values)
        source = nw.from_native(self.native, allow_series=True)
        result: Any
        if isinstance(source, nw.Series):
            result = nw.new_series(name or source.name, values, backend=source.implementation)
        else:
            names = source.columns
            result = nw.from_dict(
                {column: values[:, j] for j, column in enumerate(names)}, backend=source.implementation
            )
        native = result.to_native()
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


@dataclass(frozen=True, slots=True)
class Labels:
    """Checked labels: `codes` index into the sorted `classes`."""

    codes: npt.NDArray[np.integer[Any]]
    classes: npt.NDArray[Any]

    @property
    def positive(self) -> BoolArray:
        """Whether each row is of the last of two classes, shape (n,)."""
        if self.codes.dtype == np.uint8:
            return self.codes.view(np.bool_)
        return self.codes == 1

    def counts(self) -> npt.NDArray[np.int64]:
        """Count the rows of each class, shape (K,)."""
        return np.bincount(self.codes, minlength=len(self.classes)).astype(np.int64)


def as_scores(scores: ArrayLike, *, name: str = "scores", input: InputKind = "score") -> Scores:
    """Check scores of any container: finite, of one or two dimensions, and in [0, 1] if probabilities.

    Parameters
    ----------
    scores : array-like of shape (n,) or (n, K)
    name : str
        What the caller calls them, for the messages.
    input : {"probability", "logit", "score"}
        What the numbers are. The rows of K >= 2 columns of probabilities must sum to one.

    Raises
    ------
    InvalidTypeError
        If the numbers are not real numbers.
    InvalidScoreError
        If one is missing, NaN or infinite.
    InvalidProbabilityError
        If `input` is "probability" and a value lies outside [0, 1] or a row doesn't sum to one.
    ShapeError
        If there is nothing in them, or they have not one or two dimensions.
    """
    check_choice("input", input, INPUT_KINDS)
    checked = _as_float(scores, name)
    if input == "probability":
        _check_unit_range(checked, name)
        if checked.values.ndim == 2:
            _check_row_sums(checked, name)
    else:
        _check_finite(checked, name)
    return checked


def as_probabilities(y_prob: ArrayLike, *, name: str = "y_prob", sum_to_one: bool = True) -> Scores:
    """Check probabilities; with `sum_to_one` false, the rows of a matrix may have any sum."""
    if sum_to_one:
        return as_scores(y_prob, name=name, input="probability")
    checked = _as_float(y_prob, name)
    _check_unit_range(checked, name)
    return checked


def as_labels(
    y: ArrayLike,
    *,
    name: str = "y_true",
    classes: ArrayLike | None = None,
    pos_label: object = None,
    n_columns: int = 1,
) -> Labels:
    """Check labels of any kind and encode them against their sorted classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        Booleans, integers (also as floats), strings, or a categorical of these.
    name : str
        What the caller calls them, for the messages.
    classes : array-like of shape (K,), optional
        All classes, in sorted order, where the rows may lack some.
    pos_label : scalar, optional
        For two classes: the one that counts as positive. The larger one by default.
    n_columns : int
        Number of columns K of the scores beside them. With K >= 2, integer labels from 0 to K - 1 may lack some:
        they then number the columns.

    Raises
    ------
    InvalidLabelError
        If a label is missing, unknown, of another kind than the others, or not a label at all.
    """
    values = _label_values(y, name)
    if classes is not None:
        labels = _encode_against(values, _known_classes(classes), name)
    else:
        labels = _encode(values, name, n_columns)
    if n_columns > 1 and len(labels.classes) != n_columns:
        raise InvalidLabelError(
            f"{name} holds {len(labels.classes)} classes, {labels.classes.tolist()[:20]!r}, for {n_columns} columns "
            "of scores. Pass one column per class in sorted order, or name all classes with classes=[...]."
        )
    if pos_label is None:
        return labels
    if len(labels.classes) != 2:
        raise InvalidLabelError(
            f"pos_label={pos_label!r} needs two classes, but {name} has {len(labels.classes)}. "
            "Leave pos_label out, or pass one column of scores and binary labels."
        )
    found = [_scalar(c) for c in labels.classes]
    if pos_label not in found:
        raise InvalidLabelError(f"pos_label={pos_label!r} is none of the labels {found!r} of {name}. Pass one of them.")
    if found.index(pos_label) == 1:
        return labels
    return Labels((1 - labels.codes).astype(np.uint8), labels.classes[::-1])


def as_weight(sample_weight: ArrayLike | None, n: int, *, name: str = "sample_weight") -> FloatArray | None:
    """Check sample weights: one per row, finite, not negative, not all zero; None where all are one."""
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
    check_same_length(n, weight.size, "the scores", name)
    bad = weight < 0.0
    if bad.any():
        _refuse(InvalidWeightError, name, weight, bad, "is negative", "Drop these rows or set the weight to 0.")
    if not weight.any():
        raise InvalidWeightError(f"{name} is zero in all {n:,} rows. Give at least one row a positive weight.")
    return None if bool((weight == 1.0).all()) else weight


def check_same_length(n_first: int, n_second: int, first: str, second: str) -> None:
    """Raise ShapeError unless two arguments have one row each for the same rows."""
    if n_first != n_second:
        raise ShapeError(
            f"{first} has {n_first:,} rows and {second} has {n_second:,}. Pass one row of each per observation."
        )


def check_both_classes(labels: Labels, name: str, weight: FloatArray | None = None) -> None:
    """Raise InvalidLabelError unless rows with positive weight show at least two classes."""
    counted = labels.codes if weight is None else labels.codes[weight > 0.0]
    first = counted[0]
    if bool((counted == first).all()):
        raise InvalidLabelError(
            f"{name} holds one class only: {_scalar(labels.classes[first])!r} in all {counted.size:,} rows. "
            "Pass rows of at least two classes."
        )


def check_choice(name: str, value: object, options: Sequence[str]) -> None:
    """Raise UnknownNameError unless `value` is one of `options`."""
    if value not in options:
        raise unknown_name(f"value of {name}:", value, options)


def check_integer(name: str, value: object, *, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`, or raise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidTypeError(f"{name}={value!r} is not a whole number. Pass an integer of at least {minimum}.")
    if value < minimum:
        raise InvalidInputError(f"{name}={value!r} is too small. Pass an integer of at least {minimum}.")
    return int(value)


def check_fraction(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1, or raise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name}={value!r} is not a number. Pass a number between 0 and 1, such as 0.95.")
    if not 0.0 < value < 1.0:
        raise InvalidInputError(f"{name}={value!r} is outside (0, 1). Pass a number such as 0.95.")
    return float(value)


# --- numbers -------------------------------------------------------------------------------------------------


def _as_float(values: ArrayLike, name: str) -> Scores:
    if isinstance(values, np.ndarray) and values.dtype == np.float64 and type(values) is np.ndarray:
        checked = Scores(values, NUMPY)
    elif _is_arrow_array(values):
        _refuse_nulls(np.asarray(values.is_null()), name)
        checked = Scores(_numeric_array(values.to_numpy(zero_copy_only=False), name), Container(values))
    else:
        checked = _from_table(values, name)
    array = checked.values
    if array.ndim not in (1, 2):
        raise ShapeError(f"{name} has {array.ndim} dimensions, shape {array.shape}. Pass shape (n,) or (n, K).")
    if array.shape[0] == 0:
        raise ShapeError(f"{name} is empty. Pass at least one row.")
    if array.ndim == 2 and array.shape[1] < 2:
        raise ShapeError(
            f"{name} has shape {array.shape}. Pass the single column as shape ({array.shape[0]},), "
            "or one column per class."
        )
    if not array.flags.c_contiguous:
        checked = Scores(np.ascontiguousarray(array), checked.container)
    return checked


def _from_table(values: ArrayLike, name: str) -> Scores:
    """Bring anything but a plain float64 array into one, through narwhals where it is a series or frame."""
    if isinstance(values, (np.ndarray, list, tuple)):
        return Scores(_numeric_array(values, name), NUMPY)
    import narwhals as nw

    table = nw.from_native(values, allow_series=True, pass_through=True)
    if isinstance(table, nw.LazyFrame):
        raise InvalidTypeError(f"{name} is a lazy {type(values).__name__}. Call .collect() on it first.")
    if isinstance(table, nw.Series):
        return Scores(_series_values(table, name), Container(values))
    if isinstance(table, nw.DataFrame):
        if not table.columns:
            raise ShapeError(f"{name} is a frame without columns. Pass one column per class.")
        columns = tuple(table.columns)
        parts = [_series_values(table[c], name, column=c) for c in columns]
        return Scores(np.column_stack(parts), Container(values, columns))
    return Scores(_numeric_array(values, name), NUMPY)


def _series_values(series: Any, name: str, *, column: str | None = None) -> FloatArray:
    _refuse_nulls(series.is_null().to_numpy(), name, column)
    return _numeric_array(series.to_numpy(), name, column)


def _refuse_nulls(missing: BoolArray, name: str, column: str | None = None) -> None:
    if missing.any():
        where = _place(name, int(missing.argmax()), column)
        raise InvalidScoreError(
            f"{where}: missing value ({missing.sum():,} of {missing.size:,} rows). Drop or fill these rows first."
        )


def _numeric_array(values: ArrayLike, name: str, column: str | None = None) -> FloatArray:
    """Return real numbers of any dtype as float64, or say which value is not a number."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        mask = np.ma.getmaskarray(values).reshape(values.shape[0], -1).any(axis=1)
        _refuse_nulls(mask, name, column)
    if type(values).__module__.startswith("scipy.sparse"):
        raise InvalidTypeError(f"{name} is a sparse matrix. Pass a dense array: {name}.toarray().")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"{name} is not a rectangular array ({error}). Give all rows the same length.") from None
    if array.ndim == 0:
        raise ShapeError(f"{name} is a single {type(values).__name__}, {values!r:.60}. Pass an array of shape (n,).")
    if array.dtype.kind in "fiub":
        with np.errstate(over="ignore"):
            return array.astype(np.float64, copy=False)
    if array.dtype.kind == "O":
        return _from_objects(array, name, column)
    first = array.reshape(-1)[0].item() if array.size else ""
    raise InvalidTypeError(
        f"{name} holds {array.dtype.name} values such as {first!r}, not real numbers. Convert them to floats first."
    )


def _from_objects(array: npt.NDArray[Any], name: str, column: str | None) -> FloatArray:
    out = np.empty(array.shape, dtype=np.float64)
    width = int(np.prod(array.shape[1:], dtype=np.int64))
    for i, value in enumerate(array.reshape(-1)):
        if value is None or type(value).__name__ == "NAType":
            _refuse_nulls(np.array([v is None or v is value for v in array.reshape(-1)]), name, column)
        if isinstance(value, (str, bytes, complex)) or not hasattr(value, "__float__"):
            raise InvalidTypeError(
                f"{_place(name, i // max(width, 1), column)}: {value!r} is not a number. "
                "Convert the column to floats first."
            )
        out.reshape(-1)[i] = float(value)
    return out


def _check_finite(scores: Scores, name: str) -> None:
    values = scores.values
    if np.isfinite(values.min()) and np.isfinite(values.max()):
        return
    bad = ~np.isfinite(values)
    _refuse(InvalidScoreError, name, values, bad, "is not finite", "Drop or fill these rows.", scores)


def _check_unit_range(scores: Scores, name: str) -> None:
    values = scores.values
    if values.min() >= 0.0 and values.max() <= 1.0:
        return
    if not np.isfinite(values).all():
        _check_finite(scores, name)
    bad = (values < 0.0) | (values > 1.0)
    fix = 'If these are logits, pass input="logit"; for other scores, input="score".'
    _refuse(InvalidProbabilityError, name, values, bad, "is outside [0, 1]", fix, scores)


def _check_row_sums(scores: Scores, name: str) -> None:
    total = scores.values.sum(axis=1)
    bad = np.abs(total - 1.0) > ROW_SUM_TOLERANCE
    if bad.any():
        row = int(bad.argmax())
        raise InvalidProbabilityError(
            f"{name} row {row}: the {scores.values.shape[1]} probabilities sum to {total[row].item():.6g}, not 1 "
            f"({bad.sum():,} of {total.size:,} rows). Divide each row by its sum first."
        )


def _refuse(
    kind: type[InvalidInputError],
    name: str,
    values: FloatArray,
    bad: BoolArray,
    what: str,
    fix: str,
    scores: Scores | None = None,
) -> None:
    rows = bad if bad.ndim == 1 else bad.any(axis=1)
    row = int(rows.argmax())
    column: object = None
    value = values[row]
    if bad.ndim == 2:
        j = int(bad[row].argmax())
        names = scores.container.columns if scores is not None else None
        column = names[j] if names is not None else j
        value = values[row, j]
    raise kind(f"{_place(name, row, column)}: {value.item()!r} {what} ({rows.sum():,} of {rows.size:,} rows). {fix}")


def _place(name: str, row: int, column: object = None) -> str:
    return f"{name} row {row}" if column is None else f"{name} row {row}, column {column!r}"


def _is_arrow_array(values: object) -> bool:
    kind = type(values)
    return kind.__module__.startswith("pyarrow") and kind.__name__.endswith("Array") and kind.__name__ != "ChunkedArray"


# --- labels --------------------------------------------------------------------------------------------------


def _label_values(y: ArrayLike, name: str) -> npt.NDArray[Any]:
    if isinstance(y, (np.ndarray, list, tuple)):
        array = _label_array(y, name)
    elif _is_arrow_array(y):
        _refuse_missing_labels(np.asarray(y.is_null()), name)
        array = np.asarray(y.to_pylist() if y.null_count else y.to_numpy(zero_copy_only=False))
    else:
        import narwhals as nw

        table = nw.from_native(y, allow_series=True, pass_through=True)
        if isinstance(table, (nw.DataFrame, nw.LazyFrame)):
            raise ShapeError(f"{name} is a frame. Pass one column of labels, shape (n,).")
        if isinstance(table, nw.Series):
            _refuse_missing_labels(table.is_null().to_numpy(), name)
            if table.dtype in (nw.Categorical, nw.Enum):
                array = np.asarray(table.to_list())
            else:
                array = table.to_numpy()
        else:
            array = _label_array(y, name)
    if array.ndim != 1:
        raise ShapeError(f"{name} has shape {array.shape}. Pass one label per row, shape (n,).")
    if array.size == 0:
        raise ShapeError(f"{name} is empty. Pass at least one row.")
    return array


def _label_array(y: ArrayLike, name: str) -> npt.NDArray[Any]:
    if isinstance(y, np.ma.MaskedArray) and np.ma.getmaskarray(y).any():
        _refuse_missing_labels(np.ma.getmaskarray(y), name)
    if isinstance(y, (list, tuple)) and {type(v) for v in y} - {bool, int, float}:
        y = np.fromiter(y, dtype=object, count=len(y))  # keep ["a", 1] from becoming ["a", "1"]
    try:
        return np.asarray(y)
    except ValueError as error:
        raise ShapeError(f"{name} is not a list of labels ({error}). Pass shape (n,).") from None


def _refuse_missing_labels(missing: BoolArray, name: str) -> None:
    if missing.any():
        raise InvalidLabelError(
            f"{name} row {int(missing.argmax())}: missing label ({missing.sum():,} of {missing.size:,} rows). "
            "Drop these rows first."
        )


def _normalise_labels(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Bring labels to booleans, integers or Python strings."""
    kind = values.dtype.kind
    if kind in "bi":
        return values
    if kind == "u":
        return values.astype(np.int64) if values.max() <= np.iinfo(np.int64).max else values
    if kind == "f":
        _refuse_missing_labels(np.isnan(values), name)
        odd = ~np.isfinite(values) | (values != np.floor(values))
        if odd.any():
            row = int(odd.argmax())
            raise InvalidLabelError(
                f"{name} row {row}: {values[row].item()!r} is not a class label ({odd.sum():,} of {odd.size:,} rows). "
                "Are labels and scores swapped? Pass labels first in metrics and second in fit."
            )
        return values.astype(np.int64)
    if kind in "UT":
        return values.astype(object)
    if kind == "O":
        return _label_objects(values, name)
    raise InvalidLabelError(
        f"{name} holds {values.dtype.name} values such as {values[0]!r}. Pass booleans, integers or strings."
    )


def _label_objects(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    missing = np.array([v is None or v != v or type(v).__name__ == "NAType" for v in values], dtype=bool)
    _refuse_missing_labels(missing, name)
    kinds = {_label_kind(value): i for i, value in reversed(list(enumerate(values)))}
    if len(kinds) > 1:
        (_, first), (_, second) = sorted(kinds.items(), key=lambda item: item[1])[:2]
        raise InvalidLabelError(
            f"{name} mixes kinds of labels: row {first} is {values[first]!r} and row {second} is {values[second]!r}. "
            "Convert them all to strings or all to integers."
        )
    kind = next(iter(kinds))
    if kind is str:
        return np.fromiter((str(v) for v in values), dtype=object, count=values.size)
    if kind is bool:
        return values.astype(bool)
    if kind is int:
        return _normalise_labels(np.array([float(v) if isinstance(v, float) else v for v in values]), name)
    raise InvalidLabelError(
        f"{name} row 0: {values[0]!r} of type {type(values[0]).__name__} is not a label. "
        "Pass booleans, integers or strings."
    )


def _label_kind(value: object) -> type:
    if isinstance(value, str):
        return str
    if isinstance(value, (bool, np.bool_)):
        return bool
    if isinstance(value, numbers.Real):
        return int
    return type(value)


def _known_classes(classes: ArrayLike) -> npt.NDArray[Any]:
    known = _normalise_labels(_label_values(classes, "classes"), "classes")
    ordered = sorted(set(known.tolist()))
    if ordered != known.tolist():
        raise InvalidLabelError(
            f"classes={known.tolist()!r} is not sorted and distinct. Pass {ordered!r}, "
            "with the columns of scores in the same order."
        )
    if len(ordered) < 2:
        raise InvalidLabelError(f"classes={known.tolist()!r} names one class. Pass at least two.")
    return _class_array(ordered)


def _class_array(classes: list[Any]) -> npt.NDArray[Any]:
    return np.array(classes, dtype=object if isinstance(classes[0], str) else None)


def _encode(values: npt.NDArray[Any], name: str, n_columns: int) -> Labels:
    values = _normalise_labels(values, name)
    if n_columns > 1 and values.dtype.kind in "bi" and 0 <= values.min() and values.max() < n_columns:
        dtype = np.uint8 if n_columns == 2 else np.intp
        return Labels(values.astype(dtype), np.arange(n_columns))
    if values.dtype.kind == "O":
        found = sorted(set(values.tolist()))
    else:
        low, high = values.min(), values.max()
        is_high = values == high
        if low != high and bool((is_high | (values == low)).all()):
            return Labels(is_high.view(np.uint8), np.array([low, high]))
        found = np.unique(values).tolist()
    if len(found) == 1:
        return _encode_single(values, found[0], name)
    return _encode_against(values, _class_array(found), name)


def _encode_single(values: npt.NDArray[Any], only: Any, name: str) -> Labels:
    """Encode labels of one class, where the other class of the pair is known by convention."""
    if only in (0, 1):
        pair: list[Any] = [False, True] if isinstance(only, bool) else [0, 1]
    elif only == -1:
        pair = [-1, 1]
    else:
        raise InvalidLabelError(
            f"{name} holds one class only: {only!r} in all {values.size:,} rows. "
            "Pass rows of at least two classes, or name all of them with classes=[...]."
        )
    codes = np.full(values.size, pair.index(only), dtype=np.uint8)
    return Labels(codes, np.array(pair))


def _encode_against(values: npt.NDArray[Any], classes: npt.NDArray[Any], name: str) -> Labels:
    values = _normalise_labels(values, name)
    dtype = np.uint8 if len(classes) == 2 else np.intp
    if values.dtype.kind == "O" or classes.dtype.kind == "O":
        codes_of = {c: i for i, c in enumerate(classes.tolist())}
        codes = np.fromiter((codes_of.get(v, -1) for v in values.tolist()), dtype=np.intp, count=values.size)
    else:
        codes = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
        codes = np.where(classes[codes] == values, codes, -1)
    unknown = codes < 0
    if unknown.any():
        row = int(unknown.argmax())
        listed = ", ".join(repr(c) for c in classes.tolist()[:20])
        raise InvalidLabelError(
            f"{name} row {row}: unknown label {_scalar(values[row])!r} ({unknown.sum():,} of {unknown.size:,} rows). "
            f"The classes are {listed}; add the label to them or drop these rows."
        )
    return Labels(codes.astype(dtype), classes)


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
