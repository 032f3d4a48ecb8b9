"""Rows of a file for the commands: columns found, matched to the classes, calibrated where asked, and checked once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli.common import echo
from calibrant.cli.model_columns import check_versus, named_models
from calibrant.cli.option_texts import called, labelled_classes, positive_class, split_names
from calibrant.errors import (
    CalibrantError,
    InvalidInputError,
    InvalidLabelError,
    InvalidProbabilityError,
    InvalidScoreError,
    InvalidWeightError,
    ShapeError,
)
from calibrant.phrases import count, listed, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.engines import FittedColumns
    from calibrant.fitted import Fitted
    from calibrant.rows import Rows
    from calibrant.tables import FormatLike, Missing, RowSource
    from calibrant.validation import InputKind

#: Numbers of scores and features that commands hold in memory; of files that don't say how many rows they have, bytes
#: of so many.
MANY = 1 << 24
_BYTES_PER_ROW = 50
#: Columns that a line names before it counts the others.
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Request:
    """What the options of a command say of the rows to read."""

    file: str
    label: str = "y"
    score: tuple[str, ...] = ()
    weight: str | None = None
    format: FormatLike = None
    table: str | None = None
    positive: str | None = None
    classes: str | None = None
    group: str | None = None
    features: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    calibrator: str | None = None
    cluster: str | None = None
    time: str | None = None
    label_end: str | None = None
    missing: Missing = "error"
    versus: tuple[str, ...] = ()
    input: InputKind | None = None
    has_labels: bool = True
    #: The column of the groups of `calibrator`; by default the one of its fit, or `group` where that is not there.
    calibrator_group: str | None = None
    #: Other columns that no row may lack a value in, such as those of costs.
    needed: tuple[str, ...] = ()
    #: Columns that are text, whatever they look like.
    text: tuple[str, ...] = ()

    def open(self) -> OpenedFile:
        """Open the file, and find the columns of scores, groups and features."""
        from calibrant.cli.logit_source import LogitSource
        from calibrant.engines import CalibratedSource
        from calibrant.tables import open_rows, opened_for

        said = {"--calibrator": self.calibrator, "--group": self.group, "--features": next(iter(self.features), None)}
        check_versus(self.versus, said)
        source = open_rows(self.file, format=self.format, table=self.table)
        n_rows = source.n_rows
        score = split_names(self.score, source.names)
        groups = source.select(tuple(filter(None, [self.group])))
        features = source.select(split_names(self.features, source.names))
        if self.has_labels and self.label in features:
            raise InvalidInputError(
                f"--features names {self.label!r}, the column of the labels, which new rows don't have. Leave it out."
            )
        fitted = None if self.calibrator is None else self._fitted_columns(source, score)
        inputs = source.select(score or ["p"]) if fitted is None else fitted.required
        models = named_models(self.versus, self.score, source, inputs)
        read = [*inputs, *(name for columns in models.values() for name in columns), *source.select(self.beside)]
        source = source.with_text(self.text if fitted is None else fitted.as_text)
        source = opened_for(self.missing, source, list(dict.fromkeys([*read, *groups])))
        if fitted is not None:
            source = CalibratedSource(source, fitted)
        elif self._is_of_logits():
            for columns in models.values() or [inputs]:
                source = LogitSource(source, columns)
        found = source.outputs if isinstance(source, CalibratedSource) else inputs
        return OpenedFile(self, source, list(found), groups, n_rows, models, features)

    def _is_of_logits(self) -> bool:
        """Say whether scores are logits; refuse those that only a calibrator can make probabilities of."""
        from calibrant.validation import INPUT_KINDS, check_choice

        check_choice("--input", self.input or "probability", INPUT_KINDS)
        if self.input == "score":
            raise InvalidInputError(
                "--input score: decision values are no probabilities, which is what is measured. Fit a calibrator to "
                "them, by calibrant fit --input score -o calibrator.json, and pass it: --calibrator calibrator.json."
            )
        return self.input == "logit"

    @property
    def beside(self) -> list[str]:
        """The columns beside scores and groups that are named: labels, weights, what rows share, and costs."""
        label = self.label if self.has_labels else None
        named = (label, self.weight, self.cluster, self.time, self.label_end, *self.needed)
        return list(dict.fromkeys(name for name in named if name is not None))

    def _fitted_columns(self, source: RowSource, score: list[str]) -> FittedColumns[Fitted]:
        from calibrant import persistence
        from calibrant.engines import FittedColumns
        from calibrant.fitted import Fitted

        said = {"--classes": self.classes, "--positive": self.positive}
        if named := next((option for option, value in said.items() if value is not None), None):
            raise InvalidInputError(f"{named} is what the calibrator says. Leave it out.")
        fitted = persistence.load_as(Fitted, str(self.calibrator))
        if self.input not in (None, fitted.input):
            raise InvalidInputError(
                f"--input {self.input}, but {self.calibrator} was fitted to scores of input {fitted.input!r}. Leave "
                "--input out."
            )
        return FittedColumns.to_measure(fitted, source, score=score, group=self.group, own_group=self.calibrator_group)


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of a file that a request names, and how those of scores and the classes were matched.

    `score` is in the order of the sorted `classes`, where there are several; `positive` is the class of a single
    column, else None; `order` says in words how columns and classes were matched.
    """

    request: Request
    source: RowSource
    score: list[str]
    groups: list[str]
    classes: list[Any]
    positive: object
    order: str

    def names(self) -> dict[str, Any]:
        """Return the names of the columns and the classes, as engines take them."""
        of = self.request
        return {"score": self.score, "label": of.label, "weight": of.weight, "classes": self.classes}

    def dependence(self) -> dict[str, str]:
        """Return the columns that say which rows are not independent."""
        of = self.request
        named = {"cluster": of.cluster, "time": of.time, "label_end": of.label_end}
        return {key: name for key, name in named.items() if name is not None}

    def facts(self, n_rows: int) -> dict[str, Any]:
        """Return what was read, as the first members of a document."""
        of, calibrator = self.request, self.request.calibrator
        return {
            "file": self.source.name,
            **({} if calibrator is None else {"calibrator": calibrator}),
            **({} if of.input is None else {"input": of.input}),
            "n": n_rows,
            "n_skipped": self.source.n_skipped,
            "columns": {"label": of.label, "score": self.score, "weight": of.weight, **self.dependence()},
            "classes": self.classes,
            "positive": self.positive,
        }

    def describe(self, n_rows: int) -> str:
        """Return a line that says what was read."""
        logits = " (logits)" if self.request.input == "logit" and self.request.calibrator is None else ""
        what = f"label {self.request.label!r}, score {quoted(self.score, most=_MOST_NAMED)}{logits}"
        weight = "" if self.request.weight is None else f", weight {self.request.weight!r}"
        by = "" if self.request.calibrator is None else f" by {self.request.calibrator}"
        skipped = f" ({self.source.skipped})" if self.source.skipped else ""
        return f"{self.source.name}: {count(n_rows, 'row')}{skipped}, {what}{by}{weight}; {self.order}"


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a file in memory, those of weight zero left out; `n_read` counts these too."""

    columns: FileColumns
    rows: Rows
    n_read: int

    def describe(self) -> str:
        """Return a line that says what was read."""
        return self.columns.describe(self.n_read)


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A request and the source of its rows; `score`, `groups`, `features` are columns of it, in the order given.

    `n_rows` is the number of rows in the file, where it says so; `models` are the columns of each model by its name,
    the champion's first, where --versus names others.
    """

    request: Request
    source: RowSource
    score: list[str]
    groups: list[str]
    n_rows: int | None
    models: dict[str, list[str]] = field(default_factory=dict)
    features: list[str] = field(default_factory=list)

    @property
    def is_large(self) -> bool:
        """Whether the rows are too many to be held."""
        if not self._is_stored:
            return False
        if self.n_rows is None:
            return self.source.n_bytes > MANY * _BYTES_PER_ROW
        return self.n_rows * len([*self.score, *self.features]) > MANY

    @property
    def _is_stored(self) -> bool:
        from calibrant.tables import is_many, is_remote

        file = self.request.file
        return file != "-" and (is_remote(file) or is_many(file) or Path(file).is_file())

    def check_held(self, what: str, advice: str = "Pass a sample of them.") -> None:
        """Refuse rows that are too many for what takes all of them in memory."""
        if self.is_large:
            raise InvalidInputError(f"{what} in memory, and {self.request.file} has too many. {advice}")

    def tell_of_memory(self, what: str, bytes_per_row: int) -> None:
        """Say how much memory it takes to do something on all rows, which is not done in passes."""
        rows = "all rows" if self.n_rows is None else count(self.n_rows, "row")
        size = ""
        if self.n_rows is not None:
            n_bytes = bytes_per_row * self.n_rows
            size = f", about {n_bytes / 2**30:.1f} GB" if n_bytes >= 2**29 else f", about {n_bytes / 2**20:,.0f} MB"
        echo(f"{what} {rows} in memory{size}: take a sample of the rows if that is too much.", err=True)

    def read(
        self,
        *,
        input: InputKind = "probability",
        both_classes: bool = False,
        table: pa.Table | None = None,
        are_all: bool = True,
    ) -> FileRows:
        """Read the rows into memory, and check them; or check those of a table that was read from the file.

        `are_all` says whether the table holds all rows of the file, in their order.
        """
        import numpy as np

        from calibrant.rows import read_rows
        from calibrant.validation import NUMPY

        of = self.request
        table, where = self._checked(table, are_all=are_all)
        known = self._known_classes(table.column(of.label).type)
        is_one = len(self.score) == 1
        scores = table.column(self.score[0]) if is_one else table.select(self.score)
        scores_called = called(self.score[0], where) if is_one else where
        try:
            rows = read_rows(
                scores,
                table.column(of.label),
                names=(scores_called, called(of.label, where), called(of.weight or "", where)),
                where=where,
                input=input,
                match_names=False,
                classes=None if known is None else sorted(known),
                both_classes=both_classes,
                groups={name: table.column(name) for name in self.groups},
                **self._beside(table),
            )
        except InvalidProbabilityError as error:
            more = self._classes_without_column(table.column(of.label)) if "sum to" in str(error) else ""
            raise InvalidProbabilityError(f"{error}{more}") from None
        except (InvalidLabelError, ShapeError) as error:
            if known is not None or (is_one and isinstance(error, InvalidLabelError)):
                raise
            hint = "--score p0,p1,p2 or --score 'p*'" if is_one else "--classes, in the order of the score columns"
            raise type(error)(f"{error} (Here: {hint}.)") from None
        matched = self._matched(rows.classes.tolist(), known)
        labels = rows.checked_labels()
        if matched.positive is not None and matched.positive == matched.classes[0]:
            labels = labels.flipped()
        values = rows.scores
        if matched.score != self.score:
            values = np.take(values, [self.score.index(name) for name in matched.score], axis=1)
        rows = replace(rows, scores=values, labels=labels, columns=tuple(matched.score), container=NUMPY)
        return FileRows(matched, rows, table.num_rows)

    def read_numbers(self) -> FileRows:
        """Read predictions of a number, and what came, into memory, and check them."""
        from calibrant.rows import read_number_rows
        from calibrant.validation import NUMPY

        of, columns = self.request, self.number_columns()
        table, where = self._checked(None, numbers=(of.label,))
        (name,) = self.score
        names = called(name, where), called(of.label, where), called(of.weight or "", where)
        rows = read_number_rows(
            table.column(name), table.column(of.label), names=names, where=where, **self._beside(table)
        )
        return FileRows(columns, replace(rows, container=NUMPY), table.num_rows)

    def number_columns(self) -> FileColumns:
        """Return the columns of predictions of a number, which has no classes."""
        if len(self.score) > 1:
            raise ShapeError(f"--score names {quoted(self.score)} as one prediction. Name one column.")
        return FileColumns(self.request, self.source, self.score, self.groups, [], None, "predictions of a number")

    def _checked(
        self, table: pa.Table | None, *, are_all: bool = True, numbers: tuple[str, ...] = ()
    ) -> tuple[pa.Table, str]:
        """Read the columns, if there is no table of them, and check that there are numbers and no gaps.

        `numbers` are columns of numbers beside scores and weights. Returns the table and what messages call it.
        """
        from calibrant.tables import check_numbers, refuse_missing

        of, where = self.request, self.source.name
        columns = list(dict.fromkeys([*self.score, *of.beside, *self.groups]))
        table = self.source.read(list(dict.fromkeys([*columns, *self.features]))) if table is None else table
        if table.num_rows == 0:
            raise ShapeError(f"{where} is empty. Pass at least one row.")
        where = f"the complete rows of {where}" if self.source.n_skipped else where
        where = where if are_all else f"the counted rows of {where}"
        for name in [*self.score, *numbers, *([] if of.weight is None else [of.weight])]:
            check_numbers(table.column(name), called(name, where))
        kinds: dict[str, type[CalibrantError]] = dict.fromkeys(self.score, InvalidScoreError)
        kinds |= {of.label: InvalidLabelError} | ({} if of.weight is None else {of.weight: InvalidWeightError})
        refuse_missing(table.select(columns), where, kinds)
        return table, where

    def _beside(self, table: pa.Table) -> dict[str, Any]:
        """Return weights, features, and what rows share, as `read_rows` takes them."""
        of = self.request
        beside = {"sample_weight": of.weight, "cluster": of.cluster, "time": of.time, "label_end": of.label_end}
        return {
            "features": {name: table.column(name) for name in self.features} or None,
            "feature_kinds": dict.fromkeys(self._categorical(), "category"),
            **{key: None if name is None else table.column(name) for key, name in beside.items()},
        }

    def _classes_without_column(self, labels: pa.ChunkedArray) -> str:
        """Say that there are fewer columns of scores than classes, if there are."""
        known = sorted(labels.unique().to_pylist(), key=str)
        if len(self.score) >= len(known):
            return ""
        classes = f"{self.request.label!r} has {len(known):,} classes, {quoted(known, most=_MOST_NAMED)}"
        return f" Or name a column for each class: --score names {len(self.score)}, and {classes}."

    def _categorical(self) -> list[str]:
        """Return the features that are said to be categories."""
        from calibrant.errors import unknown_name

        names = split_names(self.request.categorical, self.features)
        for name in names:
            if name not in self.features:
                raise unknown_name("column of --features in --categorical:", name, self.features)
        return names

    def resolve(self, *, takes_dependence: bool = False) -> FileColumns:
        """Find the classes, and match the columns to them, without holding rows.

        `takes_dependence` says whether what follows can do so with rows that are not independent.
        """
        from calibrant.engines import RowReader

        of = self.request
        if not takes_dependence and (
            named := next((name for name in ("cluster", "time", "label_end") if getattr(of, name) is not None), None)
        ):
            raise InvalidInputError(
                f"--{named.replace('_', '-')} needs all rows in memory, and {of.file} has too many. Take a part of "
                "them that holds whole clusters, or a shorter time."
            )
        (label,) = self.source.select([of.label])
        first = next(iter(self.source.scan([label])), None)
        if first is None:
            raise ShapeError(f"{self.source.name} is empty. Pass at least one row.")
        known = self._known_classes(first.table.column(label).type)
        classes = None if known is None else sorted(known)
        reader = RowReader(self.source, score=self.score, label=label, classes=classes)
        return self._matched(reader.classes.tolist(), known)

    def _known_classes(self, kind: pa.DataType) -> list[Any] | None:
        """Return the class of each column of scores, where a calibrator or --classes says it."""
        from calibrant.engines import CalibratedSource

        if isinstance(self.source, CalibratedSource):
            return self.source.classes
        if self.request.classes is None:
            return None
        known = labelled_classes(self.request.classes, kind)
        if len(self.score) > 1 and len(known) != len(self.score):
            raise InvalidInputError(f"--classes names {len(known)} classes for {len(self.score)} score columns.")
        return known

    def _matched(self, classes: list[Any], known: list[Any] | None) -> FileColumns:
        from calibrant.validation import column_places, match_classes

        score = self.score
        if self.request.positive is not None and len(score) > 1:
            raise InvalidInputError("--positive needs one score column; with several, each class has its own.")
        if len(score) == 1:
            positive = positive_class(self.request.positive, classes)
            order = f"{positive!r} is the positive class"
            return FileColumns(self.request, self.source, score, self.groups, classes, positive, order)
        places = column_places(score, classes)
        if known is not None:
            how = "as --classes says" if self.request.classes else "as the calibrator has them"
            places = [known.index(label) for label in classes]
        elif places is not None:
            how = "by name"
        else:
            match_classes(score, classes, name=self.source.name)  # refuses names that contradict the order
            how, places = "in the order given", list(range(len(score)))
        score = [score[place] for place in places]
        pairs = listed([f"{name} = {label!r}" for name, label in zip(score, classes, strict=True)], most=_MOST_NAMED)
        return FileColumns(self.request, self.source, score, self.groups, classes, None, f"classes {how}: {pairs}")


def read_counted(source: RowSource, columns: list[str], weight: str | None) -> pa.Table:
    """Read columns of the rows whose weight is above zero."""
    import numpy as np

    if weight is None:
        return source.read(columns)
    table = source.read(list(dict.fromkeys([*columns, weight])))
    return table.filter(np.asarray(table.column(weight), dtype=np.float64) > 0.0).select(columns)
