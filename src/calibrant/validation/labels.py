"""Labels of any kind, encoded against their sorted classes; groups of rows, which are labels of any number."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidLabelError, InvalidScoreError, ShapeError
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.phrases import quoted
from calibrant.validation.arguments import at_first, values_such_as
from calibrant.validation.frames import narwhals_for, read_native
from calibrant.validation.levels import FLOAT_FIX, beyond_64_bits, level_text, match_levels
from calibrant.validation.scores import (
    ArrayLike,
    arrow_numbers,
    as_columns,
    is_arrow_array,
    is_null,
    is_plain,
)


@dataclass(frozen=True, slots=True)
class Labels:
    """Checked labels: `codes` index into the sorted `classes`."""

    codes: npt.NDArray[np.integer[Any]]
    classes: npt.NDArray[Any]

    @property
    def positive(self) -> BoolArray:
        """Whether each row is of the last of two classes, shape (n,)."""
        return self.codes.view(np.bool_) if self.codes.dtype == np.uint8 else np.equal(self.codes, 1)

    @property
    def values(self) -> npt.NDArray[Any]:
        """The label of each row, shape (n,)."""
        return np.asarray(self.classes[self.codes])

    def take(self, at: npt.NDArray[Any]) -> Labels:
        """Return the labels of some rows, by number or by a mask, with all classes."""
        return Labels(self.codes[at], self.classes)

    def present(self) -> Labels:
        """Return the same labels with those classes only that they show."""
        present, codes = np.unique(self.codes, return_inverse=True)
        return Labels(codes, self.classes[present])

    def flipped(self) -> Labels:
        """Return the same labels of two classes, the other one positive."""
        return Labels((1 - self.codes).astype(np.uint8), self.classes[::-1])

    def counts(self) -> npt.NDArray[np.int64]:
        """Count the rows of each class, shape (K,)."""
        return np.bincount(self.codes, minlength=len(self.classes)).astype(np.int64)


def as_labels(
    y: ArrayLike,
    *,
    name: str = "y_true",
    classes: ArrayLike | None = None,
    pos_label: object = None,
    n_columns: int = 1,
) -> Labels:
    """Check labels of any kind and encode them against their sorted classes.

    Labels are booleans, integers (also as floats or decimals), strings, or a categorical of these. `classes` names all
    classes, sorted, where the rows may lack some; `pos_label` the positive one of two, by default the larger. Beside
    scores of K = `n_columns` columns, K >= 2, integer labels from 0 to K - 1 number the columns, and may lack some.
    """
    values = label_values(y, name)
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
    found = labels.classes.tolist()
    if pos_label not in found:
        raise InvalidLabelError(f"pos_label={pos_label!r} is none of the labels {found!r} of {name}. Pass one of them.")
    return labels if found.index(pos_label) == 1 else labels.flipped()


def as_indicators(y: ArrayLike, *, name: str = "y_true") -> tuple[BoolArray, tuple[str, ...] | None]:
    """Check a matrix of 0 and 1 or booleans, a column per label, and return it with the names of its columns."""
    try:
        checked = as_columns(y, name=name)
    except InvalidScoreError as error:
        raise InvalidLabelError(str(error)) from None
    values, columns = checked.values, checked.container.columns
    bad = (values != 0.0) & (values != 1.0)
    if bad.any():
        row, j = (int(i) for i in np.argwhere(bad)[0])
        problem, fix = f"{values[row, j].item()!r} is neither 0 nor 1", "Pass 1 where a row has the label, else 0."
        rows: BoolArray = bad.any(axis=1)
        raise InvalidLabelError(at_first(rows, name, problem, fix, column=columns[j] if columns else j))
    return values == 1.0, columns


def as_groups(groups: ArrayLike, *, name: str = "groups") -> Labels:
    """Check the group of each row, of any kind that labels can be, and encode it against the sorted groups."""
    values = label_values(groups, name)
    if values.dtype.kind == "f":
        odd = np.isfinite(values) & (values != np.floor(values))
        if odd.any():
            problem = f"{values[odd.argmax()].item()!r} names no group"
            fix = "Cut numbers into ranges first, and pass the name of each row's range."
            raise InvalidLabelError(at_first(odd, name, problem, fix))
    if values.dtype.kind == "M":  # days, by their names
        missing = np.isnat(values)
        if missing.any():
            raise InvalidLabelError(at_first(missing, name, "a missing time names no group", "Drop these rows first."))
        values = np.datetime_as_string(values)
    values = normalise_labels(values, name)
    if values.dtype.kind == "O":
        found = sorted(set(values.tolist()))
        place = {label: i for i, label in enumerate(found)}
        codes = np.fromiter((place[v] for v in values.tolist()), dtype=np.intp, count=values.size)
        return Labels(codes, np.array(found, dtype=object))
    distinct, codes = np.unique(values, return_inverse=True)
    return Labels(codes.reshape(-1), distinct)


def match_groups(groups: ArrayLike, known: npt.NDArray[Any], *, name: str = "groups") -> tuple[IntArray, list[Any]]:
    """Return the place of each row's group among the `known` ones, -1 for any other, and the others, sorted.

    Groups of another kind than the known ones are compared as levels of features are, but that true is not the group 1.
    """
    labels = as_groups(groups, name=name)
    found, of_fit = labels.classes.tolist(), known.tolist()
    if isinstance(found[0], bool) != isinstance(of_fit[0], bool):
        places = match_levels(list(map(level_text, found)), list(map(level_text, of_fit)))
    else:
        places = match_levels(found, of_fit)
    at = np.nan_to_num(places, nan=-1.0).astype(np.int64)
    return at[labels.codes], [label for label, i in zip(found, at.tolist(), strict=True) if i < 0]


def check_one_column(labels: Labels, n_columns: int, name: str, scores: str = "") -> None:
    """Raise ShapeError where one column of scores comes with labels of other than two classes.

    `name` and `scores` are what the caller calls labels and scores, for the message. Scores are named only where they
    are an argument of a function, and not a column of a file.
    """
    if n_columns == 1 and len(labels.classes) != 2:
        where = f" in {scores}" if scores.isidentifier() else ""
        raise ShapeError(
            f"{name} holds {len(labels.classes)} classes, {labels.classes.tolist()[:20]!r}, for one column of scores"
            f"{where}. Pass one column per class, shape (n, K)."
        )


def check_both_classes(labels: Labels, name: str, weight: FloatArray | None = None) -> None:
    """Raise InvalidLabelError unless rows with positive weight show at least two classes."""
    counted = labels.codes if weight is None else labels.codes[weight > 0.0]
    first = counted[0]
    if bool((counted == first).all()):
        raise InvalidLabelError(
            f"{name} holds one class only: {labels.classes.tolist()[first]!r} in all {counted.size:,} rows. "
            "Pass rows of at least two classes."
        )


def label_values(y: ArrayLike, name: str) -> npt.NDArray[Any]:
    """Return labels of any container as an array of shape (n,), or say that they are none."""
    if y is None:  # in scikit-learn's words, which its tools look for
        raise InvalidLabelError(
            f"{name}: Expected array-like (array or non-string sequence), got None. Pass one label per row."
        )
    if is_plain(y):
        array = _label_array(y, name)
    elif (numbers := arrow_numbers(y)) is not None:
        array = numbers
    elif is_arrow_array(y):
        _refuse_missing_labels(np.asarray(y.is_null()), name)
        array = np.asarray(y.to_pylist() if y.null_count else y.to_numpy(zero_copy_only=False))
    else:
        nw, table = narwhals_for(y, name), read_native(y, name)
        if isinstance(table, (nw.DataFrame, nw.LazyFrame)):
            raise ShapeError(f"{name} is a frame. Pass one column of labels, shape (n,).")
        if isinstance(table, nw.Series):
            _refuse_missing_labels(table.is_null().to_numpy(), name)
            is_categorical = table.dtype in (nw.Categorical, nw.Enum)
            array = np.asarray(table.to_list()) if is_categorical else table.to_numpy()
        else:
            array = _label_array(y, name)
    if array.ndim != 1:
        raise ShapeError(f"{name} has shape {array.shape}. Pass one label per row, shape (n,).")
    if array.size == 0:
        raise ShapeError(f"{name} is empty. Pass at least one row.")
    return array


def _label_array(y: ArrayLike, name: str) -> npt.NDArray[Any]:
    if isinstance(y, np.ma.MaskedArray):
        _refuse_missing_labels(np.ma.getmaskarray(y), name)
    if isinstance(y, (list, tuple)) and {type(v) for v in y} - {bool, int, float}:
        y = np.fromiter(y, dtype=object, count=len(y))  # keep ["a", 1] from becoming ["a", "1"]
    try:
        array = np.asarray(y)
        if array.dtype.kind == "f" and isinstance(y, (list, tuple)) and all(type(v) is int for v in y):
            return np.array(y, dtype=np.uint64)  # NumPy makes floats of integers on both sides of 2**63
        return array
    except OverflowError:
        raise InvalidLabelError(f"{name} holds integers that no 64 bits can hold. Pass them as strings.") from None
    except ValueError as error:
        raise ShapeError(f"{name} is not a list of labels ({error}). Pass shape (n,).") from None


def _refuse_missing_labels(missing: BoolArray, name: str) -> None:
    if missing.any():
        raise InvalidLabelError(at_first(missing, name, "missing label", "Drop these rows first."))


def normalise_labels(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
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
            problem = f"{values[odd.argmax()].item()!r} is not a class label"
            order = "labels first, scores second" if name == "y_true" else "scores first, labels second"
            fix = f"Labels can't be continuous. Are labels and scores swapped? Pass {order}."
            raise InvalidLabelError(at_first(odd, name, problem, fix))
        large = beyond_64_bits(values)
        if large.any():
            problem = f"{values[large.argmax()].item()!r} is beyond the integers of 64 bits"
            raise InvalidLabelError(at_first(large, name, problem, FLOAT_FIX))
        return values.astype(np.int64)
    if kind in "UT":
        return values.astype(object)
    if kind == "O":
        return _label_objects(values, name)
    raise InvalidLabelError(f"{name} holds {values_such_as(values)}. Pass booleans, integers or strings.")


def _label_objects(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    _refuse_missing_labels(np.array([is_missing(v) for v in values], dtype=bool), name)
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
        array = _label_array([_as_number(v) for v in values], name)
        if array.dtype.kind == "O":
            raise InvalidLabelError(f"{name} holds integers that no 64 bits can hold. Pass them as strings.")
        return normalise_labels(array, name)
    raise InvalidLabelError(
        f"{name} row 0: {values[0]!r} of type {type(values[0]).__name__} is not a label. "
        "Pass booleans, integers or strings."
    )


def is_missing(value: object) -> bool:
    """Say whether this is a missing value of a column of objects: what stands for one, or a NaN of any type."""
    if is_null(value):
        return True
    try:
        return bool(value != value)  # NaN of any type
    except (ArithmeticError, TypeError, ValueError):  # of a kind that can't even be compared
        return False


def _label_kind(value: object) -> type:
    if isinstance(value, str):
        return str
    if isinstance(value, (bool, np.bool_)):
        return bool
    if isinstance(value, numbers.Real) or (isinstance(value, Decimal) and value.is_finite()):
        return int
    return type(value)


def _as_number(value: Any) -> int | float:
    """Return a number as an integer where its type says that it is one, or where it is a whole decimal."""
    is_whole = value == value.to_integral_value() if isinstance(value, Decimal) else isinstance(value, numbers.Integral)
    return int(value) if is_whole else float(value)


def _known_classes(classes: ArrayLike) -> npt.NDArray[Any]:
    known = normalise_labels(label_values(classes, "classes"), "classes")
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
    if isinstance(classes[0], str):
        return np.array(classes, dtype=object)
    return np.array(classes, dtype=np.uint64 if classes[-1] > np.iinfo(np.int64).max else None)


def _encode(values: npt.NDArray[Any], name: str, n_columns: int) -> Labels:
    values = normalise_labels(values, name)
    if n_columns > 1 and values.dtype.kind in "bi" and 0 <= values.min() and values.max() < n_columns:
        dtype = np.uint8 if n_columns == 2 else np.intp
        is_truth = values.dtype.kind == "b" and n_columns == 2
        return Labels(values.astype(dtype), np.array([False, True]) if is_truth else np.arange(n_columns))
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
    """Encode labels of one class, where convention says what the other class is: 0 and 1, or -1 and 1."""
    pairs: tuple[list[Any], ...] = ([False, True], [0, 1], [-1, 1])
    pair = next((pair for pair in pairs if only in pair and type(only) is type(pair[0])), None)
    if pair is None:
        raise InvalidLabelError(
            f"{name} holds one class only: {only!r} in all {values.size:,} rows. "
            "Pass rows of at least two classes, or name all of them with classes=[...]."
        )
    return Labels(np.full(values.size, pair.index(only), dtype=np.uint8), np.array(pair))


def _encode_against(values: npt.NDArray[Any], classes: npt.NDArray[Any], name: str) -> Labels:
    values = normalise_labels(values, name)
    dtype = np.uint8 if len(classes) == 2 else np.intp
    if values.dtype.kind == "O" or classes.dtype.kind == "O":
        codes_of = {c: i for i, c in enumerate(classes.tolist())}
        codes = np.fromiter((codes_of.get(v, -1) for v in values.tolist()), dtype=np.intp, count=values.size)
    else:
        codes = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
        codes = np.where(classes[codes] == values, codes, -1)
    unknown = codes < 0
    if unknown.any():
        fix = f"The classes are {quoted(classes.tolist())}; add the label to them or drop these rows."
        problem = f"unknown label {values[unknown].tolist()[0]!r}"
        raise InvalidLabelError(at_first(unknown, name, problem, fix))
    return Labels(codes.astype(dtype), classes)
