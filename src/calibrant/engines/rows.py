"""Checked rows of any source, read batch by batch; errors say where what they refuse stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibrant.dependence import TimeArray, as_label_times, check_both_times
from calibrant.errors import (
    CalibrantError,
    DataWarning,
    InvalidInputError,
    InvalidLabelError,
    InvalidScoreError,
    InvalidWeightError,
    ShapeError,
    warn,
)
from calibrant.numerics import BoolArray
from calibrant.phrases import quoted
from calibrant.rows import Rows
from calibrant.tables import (
    SKIP_HINT,
    Batch,
    Missing,
    RowSource,
    count_missing,
    listed_counts,
    opened_for,
    refuse_missing,
)
from calibrant.validation import (
    Feature,
    FeatureKind,
    InputKind,
    Labels,
    arrow_numbers,
    as_feature,
    as_groups,
    as_labels,
    as_scores,
    as_weight,
    match_classes,
    one_array,
)

if TYPE_CHECKING:
    import pyarrow as pa


class CheckedBatch(NamedTuple):
    """Checked rows, what messages call the file or source that they are from, and the column that was to be kept."""

    rows: Rows
    where: str
    kept: pa.Array | None


class RowReader:
    """Reads the rows of a source as checked batches, as often as the source can be read.

    Batches are `Rows` with labels of all classes, weights and groups, and features, which may lack values; rows of
    weight zero are left out. `score` names the columns of scores in the order of the sorted `classes`; with
    `label_is_number` the labels are outcomes, and there are no classes. `n_rows` is None until a fit has counted them.
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
        cluster: str | None = None,
        time: str | None = None,
        label_end: str | None = None,
        missing: Missing = "error",
        features: Sequence[str] = (),
        feature_kinds: Mapping[str, FeatureKind] | None = None,
        label_is_number: bool = False,
    ) -> None:
        check_both_times(time, label_end)
        self.input, self.label_is_number = input, label_is_number
        self.score = source.select([score] if isinstance(score, str) else list(score))
        (self.label,) = source.select([label])
        extra = [
            None if name is None else source.select([name])[0]
            for name in (weight, group, keep, cluster, time, label_end)
        ]
        self.weight, self.group, self.keep, self.cluster, self.time, self.label_end = extra
        self.features, self.feature_kinds = source.select(features), dict(feature_kinds or {})
        if self.label in self.features:
            raise InvalidInputError(
                f"column {self.label!r} is the label, which new rows don't have. Leave it out of features."
            )
        self.required = list(dict.fromkeys([*self.score, self.label, *(name for name in extra if name is not None)]))
        self.columns = list(dict.fromkeys([*self.required, *self.features]))
        self._kinds: dict[str, type[CalibrantError]] = dict.fromkeys(self.score, InvalidScoreError)
        self._kinds |= {self.label: InvalidLabelError}
        if self.weight is not None:
            self._kinds |= {self.weight: InvalidWeightError}
        self.source = opened_for(missing, source, self.required)
        self.n_rows: int | None = None
        self._begun: Iterator[Batch] | None = None  # a pass that was begun to see the classes
        self._first_groups: dict[str, Any] = {}
        self._refuse_counted()
        self.classes = np.empty(0) if label_is_number else self._find_classes(classes)
        self._match_scores()

    def _match_scores(self) -> None:
        """Bring the columns of scores into the order of the classes; of predictions of a number there is one."""
        if self.label_is_number:
            if len(self.score) > 1:
                names = quoted(self.score)
                raise ShapeError(f"{self.source.name}: {names} are named as one prediction. Name one column.")
            return
        if len(self.score) == 1 and len(self.classes) != 2:
            raise ShapeError(
                f"{self.labels} holds {len(self.classes)} classes, {self.classes.tolist()[:20]!r}, for one score "
                "column. Name one score column per class."
            )
        if len(self.score) > 1:
            places = match_classes(self.score, self.classes.tolist(), name=self.source.name)
            self.score = self.score if places is None else [self.score[place] for place in places]

    @property
    def shared(self) -> tuple[str, ...]:
        """The columns that say which rows are not independent."""
        return tuple(name for name in (self.cluster, self.time, self.label_end) if name is not None)

    @property
    def labels(self) -> str:
        """What messages call the labels."""
        return f"column {self.label!r} of {self.source.name}"

    def __iter__(self) -> Iterator[CheckedBatch]:
        batches, self._begun = self._begun or self._scan(), None
        for batch in batches:
            self._refuse_missing(batch, batches)
            try:
                checked = self._check(batch)
            except CalibrantError as error:
                raise type(error)(f"{error}{_from_row(batch)}") from None
            if checked is not None:
                yield checked

    def warn_of_skipped(self) -> None:
        """Say how many rows were left out, where the result can't."""
        if said := self.source.skipped:
            warn(f"{self.source.name}: {said}", DataWarning)

    def _refuse_missing(self, batch: Batch, rest: Iterator[Batch]) -> None:
        """Raise where a row lacks a value, and count what is missing from there to the end of the source."""
        table = batch.table.select([name for name in batch.table.column_names if name in self.required])
        try:
            refuse_missing(table, batch.where, self._kinds)
        except CalibrantError as error:
            counts: Counter[str] = Counter()
            for found in chain([batch], rest):
                counts.update(count_missing(found.table.select(table.column_names)))
            what = f" (Missing or NaN from there to the end of {self.source.name}: {listed_counts(counts)}.)"
            raise type(error)(f"{error}{_from_row(batch)}{what}") from None

    def _refuse_counted(self) -> None:
        """Raise where an engine that counts missing values before it reads rows found some."""
        if counts := self.source.count_missing(self.required):
            raise self._kinds.get(next(iter(counts)), InvalidInputError)(missing_message(self.source, counts))

    def _scan(self) -> Iterator[Batch]:
        if not self.source.is_repeatable:
            raise InvalidInputError(
                f"{self.source.name} can be read once only, and this takes more than one pass. Write it to a Parquet "
                "file first, or pass a function that opens it anew."
            )
        return self.source.scan(self.columns)

    def _find_classes(self, known: Sequence[Any] | None) -> npt.NDArray[Any]:
        """Return the sorted classes: those given, or read as far as it takes to see as many as there can be."""
        import pyarrow as pa
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
            self._refuse_missing(replace(batch, table=batch.table.select([self.label])), batches)
            column = batch.table.column(self.label)
            if pa.types.is_nested(column.type):
                as_labels(column, name=self.labels)  # which refuses lists and records
            found.update(dict.fromkeys(compute.unique(column).to_pylist()))
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
        labels, outcomes = None, None
        if self.label_is_number:
            outcomes = as_scores(_array(table, self.label), name=f"column {self.label!r} of {where}").values
        else:
            labels = Labels(self._encode(batch, self.classes), self.classes)
        named = dict.fromkeys(name for name in (self.group, self.cluster) if name is not None)
        groups = {name: self._check_groups(table, name, where) for name in named}
        start, end = self._check_times(table, where)
        features = {name: self._check_feature(batch, name) for name in self.features} or None
        rows = Rows(
            scores,
            labels,
            input=self.input,
            groups=groups,
            features=features,
            time=start,
            label_end=end,
            outcomes=outcomes,
        )
        kept = None if self.keep is None else _array(table, self.keep)
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

    def _check_feature(self, batch: Batch, name: str) -> Feature:
        return as_feature(_array(batch.table, name), f"column {name!r} of {batch.where}", self.feature_kinds.get(name))

    def _encode(self, batch: Batch, classes: npt.NDArray[Any] | None) -> npt.NDArray[np.integer[Any]]:
        column = _array(batch.table, self.label)
        name = f"column {self.label!r} of {batch.where}"
        if classes is not None and column.null_count == 0:
            fast = _encode_fast(column, classes)
            if fast is not None:
                return fast
        return as_labels(column, name=name, classes=classes, n_columns=len(self.score)).codes

    def _check_times(self, table: pa.Table, where: str) -> tuple[TimeArray | None, TimeArray | None]:
        if self.time is None or self.label_end is None:
            return None, None
        start, end = table.column(self.time), table.column(self.label_end)
        return as_label_times(
            start, end, name=f"column {self.time!r} of {where}", end_name=f"column {self.label_end!r} of {where}"
        )

    def _check_groups(self, table: pa.Table, by: str, where: str) -> Labels:
        """Check a column of groups, or of clusters."""
        column, name = _array(table, by), f"column {by!r} of {where}"
        if _is_text(column):
            encoded = column.dictionary_encode()
            known = as_groups(encoded.dictionary, name=name)
            labels = Labels(known.codes[np.asarray(encoded.indices)], known.classes)
        else:
            labels = as_groups(column, name=name)
        value = labels.classes.tolist()[0]
        first = self._first_groups.setdefault(by, value)
        if type(value) is not type(first):
            raise InvalidLabelError(
                f"{name} mixes kinds of groups: {value!r} here, {first!r} before. Write one kind in all files."
            )
        return labels


def missing_message(source: RowSource, counts: dict[str, int], hint: str = SKIP_HINT) -> str:
    """Return the message of which columns of a source have how many missing values."""
    return f"missing or NaN values in {source.name}, of {source.n_rows:,} rows: {listed_counts(counts)}. {hint}"


def _from_row(batch: Batch) -> str:
    return f" (Rows are counted from row {batch.first_row:,} of {batch.where}.)" if batch.first_row else ""


def _array(table: pa.Table, name: str) -> pa.Array:
    return one_array(table.column(name))


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
    values = arrow_numbers(column)
    if values is None:  # some are null
        values = column.to_numpy(zero_copy_only=False)
    if len(classes) == 2:
        low, high = classes.tolist()  # which are compared with as they are, in the type of the values
        is_high: BoolArray = values == high
        if not (is_high | (values == low)).all():
            return None
        return is_high.view(np.uint8)
    if classes[0] == 0 and classes[-1] == len(classes) - 1 and values.min() >= 0 and values.max() < len(classes):
        return values.astype(np.intp)
    return None
