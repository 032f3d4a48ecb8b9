"""Checked rows of any source, read batch by batch; errors say where what they refuse stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

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
from calibrant.numerics import BoolArray
from calibrant.rows import Rows
from calibrant.tables import Batch, RowSource
from calibrant.validation import InputKind, Labels, as_groups, as_labels, as_scores, as_weight, match_classes

if TYPE_CHECKING:
    import pyarrow as pa

_MISSING = (InvalidScoreError, InvalidWeightError, InvalidLabelError)


class CheckedBatch(NamedTuple):
    """Checked rows, what messages call the file or source that they are from, and the column that was to be kept."""

    rows: Rows
    where: str
    kept: pa.Array | None


class RowReader:
    """Reads the rows of a source as checked batches, as often as the source can be read.

    Batches are `Rows` with labels of all classes, weights and groups; rows of weight zero are left out. `score` names
    the columns of scores in the order of the sorted `classes`; `n_rows` is None until a fit has counted them.
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
        self.source, self.input = source, input
        self.score = source.select([score] if isinstance(score, str) else list(score))
        (self.label,) = source.select([label])
        extra = (weight, group, keep)
        self.weight, self.group, self.keep = (None if name is None else source.select([name])[0] for name in extra)
        named = (name for name in (self.weight, self.group, self.keep) if name is not None)
        self.columns = list(dict.fromkeys([*self.score, self.label, *named]))
        self.n_rows: int | None = None
        self._begun: Iterator[Batch] | None = None  # a pass that was begun to see the classes
        self._first_group: Any = None
        self._refuse_missing()
        self.classes = self._find_classes(classes)
        if len(self.score) == 1 and len(self.classes) != 2:
            raise ShapeError(
                f"{self.labels} holds {len(self.classes)} classes, {self.classes.tolist()[:20]!r}, for one score "
                "column. Name one score column per class."
            )
        if len(self.score) > 1:
            places = match_classes(self.score, self.classes.tolist(), name=source.name)
            self.score = self.score if places is None else [self.score[place] for place in places]

    @property
    def labels(self) -> str:
        """What messages call the labels."""
        return f"column {self.label!r} of {self.source.name}"

    def __iter__(self) -> Iterator[CheckedBatch]:
        batches, self._begun = self._begun or self._scan(), None
        for batch in batches:
            try:
                checked = self._check(batch)
            except _MISSING as error:
                raise type(error)(f"{error}{self._placed(batch, batches)}") from None
            except CalibrantError as error:
                raise type(error)(f"{error}{_from_row(batch)}") from None
            if checked is not None:
                yield checked

    def _refuse_missing(self) -> None:
        counts = self.source.count_missing(self.columns)
        if not counts:
            return
        kinds: dict[str | None, type[CalibrantError]] = dict.fromkeys(self.score, InvalidScoreError)
        kinds |= {self.weight: InvalidWeightError, self.label: InvalidLabelError}
        raise kinds.get(next(iter(counts)), InvalidInputError)(missing_message(self.source, counts))

    def _scan(self) -> Iterator[Batch]:
        if not self.source.is_repeatable:
            raise InvalidInputError(
                f"{self.source.name} can be read once only, and this takes more than one pass. Write it to a Parquet "
                "file first, or pass a function that opens it anew."
            )
        return self.source.scan(self.columns)

    def _find_classes(self, known: Sequence[Any] | None) -> npt.NDArray[Any]:
        """Return the sorted classes: those given, or read as far as it takes to see as many as there can be."""
        import pyarrow.compute as compute

        is_repeatable = self.source.is_repeatable
        if known is not None:
            if not is_repeatable:
                self._begun = self.source.scan(self.columns)
            return as_labels(list(known), name="classes", classes=list(known), n_columns=len(self.score)).classes
        enough = max(2, len(self.score))
        batches = self.source.scan_distinct(self.label) if is_repeatable else self.source.scan(self.columns)
        found: dict[Any, None] = {}
        seen = []
        for batch in batches:
            seen.append(batch)
            values = compute.unique(batch.table.column(self.label))
            if values.null_count:
                self._encode(batch, None)
            found.update(dict.fromkeys(values.to_pylist()))
            if is_repeatable:
                seen.clear()
            if len(found) >= enough:
                break
        if not found:
            raise ShapeError(f"{self.source.name} has no rows. Pass at least one.")
        if not is_repeatable:
            self._begun = chain(seen, batches)
        return as_labels(list(found), name=self.labels, n_columns=len(self.score)).classes

    def _check(self, batch: Batch) -> CheckedBatch | None:
        table, where = batch.table, batch.where
        if len(self.score) == 1:
            (name,) = self.score
            scores = as_scores(_array(table, name), name=f"column {name!r} of {where}", input=self.input).values
        else:
            columns = [as_scores(_array(table, n), name=f"column {n!r} of {where}").values for n in self.score]
            scores = as_scores(np.column_stack(columns), name=where, input=self.input).values
        labels = Labels(self._encode(batch, self.classes), self.classes)
        groups = {} if self.group is None else {self.group: self._check_groups(table, where)}
        rows = Rows(scores, labels, None, input=self.input, groups=groups)
        kept = None if self.keep is None else _array(table, self.keep)
        if kept is not None and kept.null_count:
            row = int(np.asarray(kept.is_null()).argmax())
            raise InvalidInputError(
                f"column {self.keep!r} of {where} row {row}: missing value ({kept.null_count:,} of {len(kept):,} "
                "rows). Drop these rows first."
            )
        if self.weight is None:
            return CheckedBatch(rows, where, kept)
        name = f"column {self.weight!r} of {where}"
        try:
            values = as_scores(_array(table, self.weight), name=name).values
        except InvalidScoreError as error:
            raise InvalidWeightError(str(error)) from None
        if not values.any():
            return None
        weight = as_weight(values, values.size, name=name)
        rows = replace(rows, weight=weight)
        if weight is None or weight.all():
            return CheckedBatch(rows, where, kept)
        at = np.flatnonzero(weight)
        return CheckedBatch(rows.take(at), where, None if kept is None else kept.take(at))

    def _encode(self, batch: Batch, classes: npt.NDArray[Any] | None) -> npt.NDArray[np.integer[Any]]:
        column = _array(batch.table, self.label)
        name = f"column {self.label!r} of {batch.where}"
        if classes is not None and column.null_count == 0:
            fast = _encode_fast(column, classes)
            if fast is not None:
                return fast
        return as_labels(column, name=name, classes=classes, n_columns=len(self.score)).codes

    def _check_groups(self, table: pa.Table, where: str) -> Labels:
        column, name = _array(table, str(self.group)), f"column {self.group!r} of {where}"
        if _is_text(column):
            encoded = column.dictionary_encode()
            known = as_groups(encoded.dictionary, name=name)
            labels = Labels(known.codes[np.asarray(encoded.indices)], known.classes)
        else:
            labels = as_groups(column, name=name)
        value = labels.classes.tolist()[0]
        if self._first_group is None:
            self._first_group = value
        elif type(value) is not type(self._first_group):
            raise InvalidLabelError(
                f"{name} mixes kinds of groups: {value!r} here, {self._first_group!r} before. Write one kind in all "
                "files."
            )
        return labels

    def _placed(self, batch: Batch, rest: Iterator[Batch]) -> str:
        """Count what is missing from this batch on, that is, in all of the source."""
        import pyarrow as pa
        import pyarrow.compute as compute

        n_rows, missing = 0, dict.fromkeys(self.columns, 0)
        for found in chain([batch], rest):
            n_rows += found.table.num_rows
            for name in self.columns:
                column = found.table.column(name)
                missing[name] += column.null_count
                if pa.types.is_floating(column.type):
                    missing[name] += compute.sum(compute.is_nan(column)).as_py() or 0
        listed = [f"{count:,} in column {name!r}" for name, count in missing.items() if count]
        if not listed:
            return _from_row(batch)
        return f"{_from_row(batch)} (Missing or NaN from there to the end of {self.source.name}: {', '.join(listed)}.)"


def missing_message(source: RowSource, counts: dict[str, int]) -> str:
    """Return the message of which columns of a source have how many missing values."""
    listed = [f"{count:,} in column {name!r}" for name, count in counts.items() if count]
    return (
        f"missing or NaN values in {source.name}, of {source.n_rows:,} rows: {', '.join(listed)}. Drop or fill these "
        "rows first."
    )


def _from_row(batch: Batch) -> str:
    return f" (Rows are counted from row {batch.first_row:,} of {batch.where}.)" if batch.first_row else ""


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_text(column: pa.Array) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) and column.null_count == 0


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
