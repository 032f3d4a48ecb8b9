"""Checked rows of any source: what the gate makes of each batch, with the place of what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.errors import (
    CalibrantError,
    InvalidInputError,
    InvalidLabelError,
    InvalidScoreError,
    InvalidWeightError,
    ShapeError,
)
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.tables import Batch, RowSource
from calibrant.validation import InputKind, as_groups, as_labels, as_scores, as_weight

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_MISSING = (InvalidScoreError, InvalidWeightError, InvalidLabelError)


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Rows that the gate has checked, those of weight zero left out.

    Attributes
    ----------
    scores : ndarray of shape (n,) or (n, K)
    codes : ndarray of shape (n,)
        Which of the sorted classes each row is of.
    weight : ndarray of shape (n,) or None
        Positive; None where all are one.
    groups : ndarray of shape (n,) or None
        Which of the groups, in the order in which they were met, each row is of.
    where : str
        What messages call the file, or the source.
    kept : pyarrow.Array or None
        The column that the reader was told to keep.
    """

    scores: FloatArray
    codes: npt.NDArray[np.integer[Any]]
    weight: FloatArray | None
    groups: IntArray | None
    where: str = ""
    kept: pa.Array | None = None


class RowReader:
    """Reads checked rows of a source, as often as the source can be read.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The sorted classes.
    score : list of str
        The score columns.
    groups : list
        The groups that have been met.
    """

    def __init__(
        self,
        source: RowSource,
        *,
        score: str | Sequence[str],
        label: str,
        weight: str | None = None,
        group: str | None = None,
        input: InputKind = "probability",
        classes: Sequence[Any] | None = None,
        keep: str | None = None,
    ) -> None:
        self.source = source
        self.score = source.select([score] if isinstance(score, str) else list(score))
        (self.label,) = source.select([label])
        self.weight = None if weight is None else source.select([weight])[0]
        self.group = None if group is None else source.select([group])[0]
        self.keep = None if keep is None else source.select([keep])[0]
        self.input = input
        self.groups: list[Any] = []
        self._group_codes: dict[tuple[type, Any], int] = {}
        extra = [name for name in (self.weight, self.group, self.keep) if name is not None]
        self.columns = list(dict.fromkeys([*self.score, self.label, *extra]))
        self._peeked: Iterator[Batch] | None = None
        self._refuse_missing()
        self.classes = self._find_classes(classes)
        if len(self.score) == 1 and len(self.classes) != 2:
            raise ShapeError(
                f"column {self.label!r} of {source.name} holds {len(self.classes)} classes, "
                f"{self.classes.tolist()[:20]!r}, for one score column. Name one score column per class."
            )

    @property
    def is_binary(self) -> bool:
        """Whether there is one column of scores."""
        return len(self.score) == 1

    def __iter__(self) -> Iterator[CheckedRows]:
        if self._peeked is not None:
            batches, self._peeked = self._peeked, None
        else:
            batches = self._scan()
        for batch in batches:
            try:
                rows = self._check(batch)
            except _MISSING as error:
                raise type(error)(f"{error}{self._placed(batch, batches)}") from None
            except CalibrantError as error:
                raise type(error)(f"{error}{_from_row(batch)}") from None
            if rows is not None:
                yield rows

    def reduce(self, partial: Callable[[RowReader], T], merge: Callable[[T, T], T], *, is_large: bool = False) -> T:
        """Return what `partial` makes of a reader, of one for each part of the source; see `RowSource.reduce`."""
        if not self.source.is_distributed:
            return partial(self)
        reader = copy(self)
        del reader.source  # which stays here, while the rest travels

        def of_part(source: RowSource) -> T:
            part = copy(reader)
            part.source = source
            return partial(part)

        return self.source.reduce(self.columns, of_part, merge, is_large=is_large)

    def total(self, part: Callable[[CheckedRows], T]) -> T:
        """Return the sum over all rows of what `part` finds of some: a number, an array, or a tuple of these."""
        found: T = self.reduce(lambda reader: summed(map(part, reader)), added)
        return found

    def _refuse_missing(self) -> None:
        counts = self.source.count_missing(self.columns)
        if not counts:
            return
        kinds: dict[str | None, type[CalibrantError]] = dict.fromkeys(self.score, InvalidScoreError)
        kinds |= {self.weight: InvalidWeightError, self.label: InvalidLabelError}
        raise kinds.get(next(iter(counts)), InvalidInputError)(said_missing(self.source, counts))

    def _scan(self) -> Iterator[Batch]:
        if not self.source.is_repeatable and hasattr(self, "classes"):
            raise InvalidInputError(
                f"{self.source.name} can be read once only, and this takes more than one pass. Write it to a Parquet "
                "file first, or pass a function that opens it anew."
            )
        return self.source.scan(self.columns)

    def _find_classes(self, known: Sequence[Any] | None) -> npt.NDArray[Any]:
        """Return the sorted classes: those given, or read as far as it takes to see as many as there can be."""
        import pyarrow.compute as compute

        name = f"column {self.label!r} of {self.source.name}"
        if known is not None:
            if not self.source.is_repeatable:
                self._peeked = self._scan()
            return as_labels(list(known), name="classes", classes=list(known), n_columns=len(self.score)).classes
        enough = max(2, len(self.score))
        batches = self.source.scan_distinct(self.label) if self.source.is_repeatable else self._scan()
        found: dict[Any, None] = {}
        held = []
        for batch in batches:
            held.append(batch)
            values = compute.unique(batch.table.column(self.label))
            if values.null_count:
                self._encode(batch, None)
            found.update(dict.fromkeys(values.to_pylist()))
            if self.source.is_repeatable:
                held.clear()
            if len(found) >= enough:
                break
        if not found:
            raise ShapeError(f"{self.source.name} has no rows. Pass at least one.")
        if not self.source.is_repeatable:
            self._peeked = chain(held, batches)
        return as_labels(list(found), name=name, n_columns=len(self.score)).classes

    def _check(self, batch: Batch) -> CheckedRows | None:
        table, where = batch.table, batch.where
        names = self.score
        if len(names) == 1:
            scores = as_scores(_array(table, names[0]), name=f"column {names[0]!r} of {where}", input=self.input).values
        else:
            columns = [as_scores(_array(table, n), name=f"column {n!r} of {where}").values for n in names]
            scores = as_scores(np.column_stack(columns), name=where, input=self.input).values
        codes = self._encode(batch, self.classes)
        groups = None if self.group is None else self._place_groups(_array(table, self.group), where)
        held = None if self.keep is None else _array(table, self.keep)
        if held is not None and held.null_count:
            row = int(np.asarray(held.is_null()).argmax())
            raise InvalidInputError(
                f"column {self.keep!r} of {where} row {row}: missing value ({held.null_count:,} of {len(held):,} "
                "rows). Drop these rows first."
            )
        if self.weight is None:
            return CheckedRows(scores, codes, None, groups, where, held)
        name = f"column {self.weight!r} of {where}"
        column = _array(table, self.weight)
        try:
            values = as_scores(column, name=name).values
        except InvalidScoreError as error:
            raise InvalidWeightError(str(error)) from None
        if not values.any():
            return None
        weight = as_weight(values, values.size, name=name)
        if weight is None or weight.all():
            return CheckedRows(scores, codes, weight, groups, where, held)
        at = np.flatnonzero(weight)
        groups = None if groups is None else groups[at]
        held = None if held is None else held.take(at)
        return CheckedRows(scores[at], codes[at], weight[at], groups, where, held)

    def _encode(self, batch: Batch, classes: npt.NDArray[Any] | None) -> npt.NDArray[np.integer[Any]]:
        column = _array(batch.table, self.label)
        name = f"column {self.label!r} of {batch.where}"
        if classes is not None and column.null_count == 0:
            fast = _encode_fast(column, classes)
            if fast is not None:
                return fast
        return as_labels(column, name=name, classes=classes, n_columns=len(self.score)).codes

    def _place_groups(self, column: pa.Array, where: str) -> IntArray:
        labels = as_groups(_dictionary(column), name=f"column {self.group!r} of {where}") if _is_text(column) else None
        if labels is None:
            labels = as_groups(column, name=f"column {self.group!r} of {where}")
            codes = labels.codes
        else:
            codes = np.asarray(labels.codes)[np.asarray(column.dictionary_encode().indices)]
        places = np.empty(len(labels.classes), np.int64)
        for i, value in enumerate(labels.classes.tolist()):
            key = (type(value), value)
            if key not in self._group_codes:
                other = next((known for kind, known in self._group_codes if kind is not type(value)), None)
                if other is not None:
                    raise InvalidLabelError(
                        f"column {self.group!r} of {where} mixes kinds of groups: {value!r} here, {other!r} before. "
                        "Write one kind in all files."
                    )
                self._group_codes[key] = len(self.groups)
                self.groups.append(value)
            places[i] = self._group_codes[key]
        at: IntArray = places[codes]
        return at

    def _placed(self, batch: Batch, rest: Iterator[Batch]) -> str:
        """Count what is missing from this batch on, that is, in all of the source."""
        import pyarrow.compute as compute

        n_rows, missing = 0, dict.fromkeys(self.columns, 0)
        for found in chain([batch], rest):
            n_rows += found.table.num_rows
            for name in self.columns:
                column = found.table.column(name)
                missing[name] += column.null_count
                if column.type in _floats():
                    missing[name] += compute.sum(compute.is_nan(column)).as_py() or 0
        listed = [f"{count:,} in column {name!r}" for name, count in missing.items() if count]
        if not listed:
            return _from_row(batch)
        return f"{_from_row(batch)} (Missing or NaN from there to the end of {self.source.name}: {', '.join(listed)}.)"


def said_missing(source: RowSource, counts: dict[str, int]) -> str:
    """Say which columns of a source have how many missing values."""
    listed = [f"{count:,} in column {name!r}" for name, count in counts.items() if count]
    return (
        f"missing or NaN values in {source.name}, of {source.n_rows:,} rows: {', '.join(listed)}. Drop or fill these "
        "rows first."
    )


def added(a: Any, b: Any) -> Any:
    """Return the sum of two numbers, arrays or tuples of these; None is nothing."""
    if a is None or b is None:
        return b if a is None else a
    return tuple(map(added, a, b)) if isinstance(a, tuple) else a + b


def summed(parts: Iterable[T]) -> T:
    """Return the sum of numbers, arrays or tuples of these; of none it is None, which adds nothing to others."""
    total: Any = reduce(added, parts, None)
    return total  # type: ignore[no-any-return]


def _floats() -> tuple[pa.DataType, ...]:
    import pyarrow as pa

    return (pa.float16(), pa.float32(), pa.float64())


def _from_row(batch: Batch) -> str:
    return f" (Rows are counted from row {batch.first_row:,} of {batch.where}.)" if batch.first_row else ""


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_text(column: pa.Array) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) and column.null_count == 0


def _dictionary(column: pa.Array) -> pa.Array:
    return column.dictionary_encode().dictionary


def _encode_fast(column: pa.Array, classes: npt.NDArray[Any]) -> npt.NDArray[np.integer[Any]] | None:
    """Encode labels of an ordinary kind that are all known; None for any other, which the gate then looks at."""
    import pyarrow as pa

    if _is_text(column) and classes.dtype.kind == "O":
        encoded = column.dictionary_encode()
        place = {label: i for i, label in enumerate(classes.tolist())}
        at = [place.get(label, -1) for label in encoded.dictionary.to_pylist()]
        if -1 in at:
            return None
        dtype = np.uint8 if len(classes) == 2 else np.intp
        return np.take(np.array(at, dtype), np.asarray(encoded.indices))
    is_bool = pa.types.is_boolean(column.type)
    if not (
        (pa.types.is_integer(column.type) and classes.dtype.kind in "iu") or (is_bool and classes.dtype.kind == "b")
    ):
        return None
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if len(classes) == 2:
        is_high: BoolArray = values == classes[1]
        if not (is_high | (values == classes[0])).all():
            return None
        return is_high.view(np.uint8)
    if classes[0] == 0 and classes[-1] == len(classes) - 1 and values.min() >= 0 and values.max() < len(classes):
        return values.astype(np.intp)
    return None
