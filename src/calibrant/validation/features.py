"""Features: columns of any container by which segments of rows are found, as numbers or as codes of levels."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError, InvalidTypeError, did_you_mean, unknown_name
from calibrant.numerics import FloatArray
from calibrant.phrases import quoted
from calibrant.validation.arguments import at_first, check_same_length
from calibrant.validation.frames import narwhals_for
from calibrant.validation.levels import FLOAT_FIX, beyond_64_bits
from calibrant.validation.scores import is_arrow_array, is_null, is_plain, one_array

#: A number is compared with thresholds, a category with sets of levels.
FeatureKind: TypeAlias = Literal["number", "category"]
_FIX = "Pass a dict or a data frame, one column per feature."


@dataclass(frozen=True, slots=True)
class Feature:
    """A column of numbers, or of codes of the sorted `levels` of a category; NaN where a row lacks a value."""

    values: FloatArray
    levels: npt.NDArray[Any] | None = None

    @property
    def kind(self) -> FeatureKind:
        """Whether it holds numbers or categories."""
        return "number" if self.levels is None else "category"

    def take(self, at: npt.NDArray[Any]) -> Feature:
        """Return some of the rows, by number or by a mask, with all levels."""
        return Feature(self.values[at], self.levels)


Features: TypeAlias = Mapping[str, Feature]


def read_features(
    features: object,
    n: int,
    rows: str,
    *,
    names: Collection[str] | None = None,
    kinds: Mapping[str, FeatureKind] | None = None,
    where: str = "",
) -> dict[str, Feature]:
    """Check columns of features: those of `names`, by default all, of the kinds that are given, by default inferred.

    Truth values and text are categories, numbers are numbers. Columns are matched by name; others are not looked at.
    Where all are wanted, those whose kind is given must be there. `n` is the number of rows of what messages call
    `rows`; `where` the table that the columns are of.
    """
    columns = feature_columns(features)
    wanted = list(columns) if names is None else list(names)
    for name in wanted:
        if name not in columns:
            place = where or "features"
            raise InvalidInputError(
                f"{place} has no column {name!r}, which this was fitted to.{did_you_mean(name, [*columns])} "
                f"Its columns are {quoted(list(columns), most=10)}."
            )
    known = kinds or {}
    for name in known if names is None else ():
        if name not in columns:
            raise unknown_name(f"column of {where or 'features'}", name, list(columns))
    found = {}
    for name in wanted:
        called = f"column {name!r} of {where or 'features'}"
        found[name] = as_feature(columns[name], called, known.get(name))
        check_same_length(n, found[name].values.size, rows, called)
    return found


def feature_columns(features: object) -> dict[str, Any]:
    """Return the columns of a dict or a data frame by name."""
    if isinstance(features, Mapping):
        _check_distinct(features)
        named = {str(name): column for name, column in features.items()}
    else:
        if is_plain(features):
            raise InvalidTypeError(f"features is a {type(features).__name__}, whose columns have no names. {_FIX}")
        nw = narwhals_for(features, "features")
        try:
            table = nw.from_native(features, allow_series=True, pass_through=True)
        except nw.exceptions.DuplicateError:
            _check_distinct(getattr(features, "column_names", None) or features.columns)  # type: ignore[attr-defined]
            raise
        if isinstance(table, nw.LazyFrame):
            raise InvalidTypeError(f"features is a lazy {type(features).__name__}. Call .collect() on it first.")
        if not isinstance(table, nw.DataFrame):
            raise InvalidTypeError(f"features is a {type(features).__name__}. {_FIX}")
        _check_distinct(table.columns)
        named = {str(name): table.get_column(name) for name in table.columns}
    if not named:
        raise InvalidInputError(f"features has no columns. {_FIX}")
    return named


def _check_distinct(names: Iterable[object]) -> None:
    """Refuse names that are one as text."""
    seen: set[str] = set()
    for name in map(str, names):
        if name in seen:
            raise InvalidInputError(f"features has two columns named {name!r}. Rename one of them.")
        seen.add(name)


def as_feature(column: object, name: str, kind: FeatureKind | None = None) -> Feature:
    """Check one column, and read it as a kind, by default that of its values; `name` is for messages."""
    if isinstance(column, (list, tuple)):
        column = _array_of(column, name, kind)
    if isinstance(column, np.ndarray):
        found = _of_numpy(column, name, kind)
    else:
        found = _of_arrow(_to_arrow(column, name), name, kind)
    if kind is None or kind == found.kind:
        return found
    return _as_category(found, name) if kind == "category" else _as_number(found, name)


def _array_of(column: list[Any] | tuple[Any, ...], name: str, kind: FeatureKind | None) -> npt.NDArray[Any]:
    kinds = {type(value) for value in column}
    if kinds <= {bool} or (kinds <= {int, float} and kind != "category"):  # where a float may not hold a level
        return np.array(column)
    array = np.empty(len(column), dtype=object)
    for i, value in enumerate(column):
        if isinstance(value, (list, tuple, dict, np.ndarray)):
            raise InvalidTypeError(f"{name} row {i}: {value!r:.60} is no single value. Pass one value per row.")
        array[i] = value
    return array


def _of_numpy(values: npt.NDArray[Any], name: str, kind: FeatureKind | None) -> Feature:
    if values.ndim != 1:
        raise InvalidTypeError(f"{name} has shape {values.shape}. Pass one value per row, shape (n,).")
    if isinstance(values, np.ma.MaskedArray):
        is_masked, values = np.ma.getmaskarray(values), values.data.astype(object)
        values[is_masked] = None
    match values.dtype.kind:
        case "i" | "u" if kind == "category":
            levels, codes = np.unique(values, return_inverse=True)
            return Feature(codes.astype(np.float64), _level_array(levels.tolist(), name))
        case "f" | "i" | "u":
            return _numbers(values.astype(np.float64), name)
        case "b":
            return Feature(values.astype(np.float64), np.array([False, True]))
        case "U":
            levels, codes = np.unique(values, return_inverse=True)
            return Feature(codes.reshape(-1).astype(np.float64), levels.astype(object))
        case "O":
            return _of_objects(values, name, kind)
        case _:
            raise _no_feature(name, values.dtype.name)


def _of_objects(values: npt.NDArray[Any], name: str, kind: FeatureKind | None) -> Feature:
    """Read Python objects of one kind, of which some may be missing."""
    missing = np.fromiter((is_null(v) or v != v for v in values.tolist()), np.bool_, values.size)
    given = values[~missing].tolist()
    kinds = {bool if isinstance(v, np.bool_) else str if isinstance(v, str) else type(v) for v in given}
    out = np.full(values.size, np.nan)
    if kinds <= {bool} and kinds:
        out[~missing] = given
        return Feature(out, np.array([False, True]))
    is_whole = bool not in kinds and all(issubclass(k, numbers.Integral) for k in kinds)
    if kinds == {str} or (kind == "category" and is_whole):
        levels = sorted(set(given) if kinds == {str} else set(map(int, given)))
        place = {level: float(i) for i, level in enumerate(levels)}
        out[~missing] = [place[v] for v in given]
        return Feature(out, _level_array(levels, name))
    for i, value in zip(np.flatnonzero(~missing).tolist(), given, strict=True):
        try:
            if isinstance(value, (str, bool, np.bool_)) or not hasattr(value, "__float__"):
                raise TypeError
            out[i] = float(value)
        except (TypeError, ValueError):
            raise InvalidTypeError(
                f"{name} mixes kinds or holds what is no feature: row {i} is {value!r:.60}. Pass numbers, text or "
                "truth values, one kind per column."
            ) from None
        except OverflowError:  # of a number that may be too long to be shown
            raise InvalidInputError(
                f"{name} row {i}: a number (of type {type(value).__name__}) that is larger than any float64. "
                "Pass codes as text."
            ) from None
    return _numbers(out, name)


def _to_arrow(column: object, name: str) -> Any:
    """Return a column of any library as pyarrow's."""
    if is_arrow_array(column):
        return column
    if is_plain(column):
        raise InvalidTypeError(f"{name} is a {type(column).__name__}. Pass an array, a list or a series.")
    nw = narwhals_for(column, name)
    series = column if isinstance(column, nw.Series) else nw.from_native(column, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series):
        raise InvalidTypeError(f"{name} is a {type(column).__name__}. Pass an array, a list or a series.")
    return series.to_arrow()


def _of_arrow(column: Any, name: str, of: FeatureKind | None) -> Feature:
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = one_array(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        if pa.types.is_nested(kind.value_type):
            raise _no_feature(name, str(kind))
        distinct = column.dictionary.dictionary_encode()  # whose values may be null, or there twice
        indices, levels = distinct.indices.take(column.indices), distinct.dictionary.to_pylist()
        used = np.flatnonzero(np.bincount(indices.drop_null().to_numpy(), minlength=len(levels)))
        order = sorted(used.tolist(), key=lambda i: levels[i])
        place = np.full(max(len(levels), 1), np.nan)
        place[order] = np.arange(len(order))
        codes = indices.fill_null(0).to_numpy()
        return Feature(
            np.where(indices.is_null().to_numpy(zero_copy_only=False), np.nan, place[codes]),
            _level_array([levels[i] for i in order], name),
        )
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return _of_arrow(column.cast(pa.large_string()).dictionary_encode(), name, of)
    if pa.types.is_integer(kind) and of == "category":
        return _of_arrow(column.dictionary_encode(), name, of)
    if pa.types.is_boolean(kind):
        return Feature(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.array([False, True]))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return _numbers(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), name)
    raise _no_feature(name, str(kind))


def _level_array(levels: list[Any], name: str) -> npt.NDArray[Any]:
    """Return sorted levels of one kind: text, whole numbers or truth values."""
    kinds = {type(level) for level in levels}
    if kinds <= {str}:
        return np.array(levels, dtype=object)
    if kinds == {bool}:
        return np.array(levels)
    if kinds == {float} and all(level.is_integer() for level in levels):  # as pandas has it of integers and NaN
        return _level_array([int(level) for level in levels], name)
    if kinds == {int}:
        try:
            return np.array(levels, dtype=np.int64 if levels[-1] <= np.iinfo(np.int64).max else np.uint64)
        except OverflowError:
            raise InvalidInputError(f"{name} holds integers that no 64 bits can hold. Pass them as strings.") from None
    raise InvalidTypeError(f"{name} has the levels {quoted(levels, most=5)}. Levels are text or whole numbers.")


def _numbers(values: FloatArray, name: str) -> Feature:
    infinite = np.isinf(values)
    if infinite.any():
        problem = f"{values[infinite.argmax()].item()!r} is not finite"
        raise InvalidInputError(at_first(infinite, name, problem, "Pass NaN where a value is missing."))
    return Feature(np.ascontiguousarray(values))


def _as_category(feature: Feature, name: str) -> Feature:
    """Read whole numbers as the levels of a category."""
    values = feature.values
    is_given = ~np.isnan(values)
    odd = is_given & (values != np.floor(values))
    if odd.any():
        problem = f"{values[odd.argmax()].item()!r} is no level of a category"
        raise InvalidInputError(at_first(odd, name, problem, "Leave it out of categorical: numbers are cut by value."))
    large = beyond_64_bits(values)
    if large.any():
        problem = f"{values[large.argmax()].item()!r} is beyond the integers of 64 bits"
        raise InvalidInputError(at_first(large, name, problem, FLOAT_FIX))
    levels, codes = np.unique(values[is_given], return_inverse=True)
    out = np.full(values.size, np.nan)
    out[is_given] = codes
    return Feature(out, levels.astype(np.int64))


def _as_number(feature: Feature, name: str) -> Feature:
    """Read truth values as 0 and 1; text is refused."""
    levels = feature.levels
    if levels is None or levels.dtype.kind == "O":
        shown = [] if levels is None else levels.tolist()
        raise InvalidTypeError(f"{name} holds text, {quoted(shown, most=3)}, where numbers are needed. Convert it.")
    out = np.full(feature.values.size, np.nan)
    is_given = ~np.isnan(feature.values)
    out[is_given] = levels.astype(np.float64)[feature.values[is_given].astype(np.int64)]
    return Feature(out)


def _no_feature(name: str, kind: str) -> InvalidTypeError:
    return InvalidTypeError(
        f"{name} holds values of type {kind}. Pass numbers, text or truth values: of a date, such as its year, or the "
        "days since another one."
    )
