"""Rows of a file for the commands: columns found, matched to the classes, calibrated where asked, and checked once."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import choices
from calibrant.cli.common import with_options
from calibrant.cli.project import with_project_defaults
from calibrant.errors import (
    CalibrantError,
    InvalidInputError,
    InvalidLabelError,
    InvalidScoreError,
    InvalidWeightError,
    ShapeError,
    did_you_mean,
)
from calibrant.phrases import listed, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.engines import FittedColumns
    from calibrant.rows import Rows
    from calibrant.tables import FormatLike, Missing, RowSource
    from calibrant.validation import InputKind

#: Numbers of scores that commands hold in memory; of files that don't say how many rows they have, bytes of so many.
MANY = 1 << 24
_BYTES_PER_ROW = 50
#: Columns that a line names before it counts the others.
_MOST_NAMED = 6


def format_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say what FILE is, which it gets as one, `format`."""

    @wraps(command)
    def with_format(*args: Any, **options: Any) -> None:
        options["format"] = said_format(options)
        options = {name: value for name, value in options.items() if name not in _LAYOUT}
        read = [file for file in (options["file"], options.get("fitted_to")) if file is not None]
        try:
            command(*args, **options)
        except CalibrantError as error:
            raise type(error)(_in_lines(str(error), read, options["format"])) from None

    return with_options(_FORMAT_OPTIONS)(with_format)


#: The options that say how the text of FILE is written.
_LAYOUT = ("delimiter", "decimal", "encoding")
#: Delimiters that are hard to type.
_NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t"}
_FORMAT_OPTIONS = [
    click.option(
        "--format", metavar="FORMAT", help=f"What FILE is, whatever its name says: {', '.join(choices.FORMATS)}."
    ),
    click.option("--delimiter", metavar="C", help="What stands between fields of CSV: ';', '|', tab.  [default: ,]"),
    click.option("--decimal", metavar="C", help="Decimal point of CSV: , as in 0,25.  [default: .]"),
    click.option("--encoding", metavar="NAME", help="Encoding of text: latin-1, utf-16, ...  [default: utf-8]"),
]
_OPTIONS = {
    "positive": [
        click.option("--positive", metavar="LABEL", help="Positive one of two labels.  [default: the larger]")
    ],
    "calibrator": [
        click.option("--calibrator", metavar="CALIBRATOR", help="Measure what this saved calibrator makes of them.")
    ],
    "input": [
        click.option(
            "--input",
            metavar="KIND",
            help="What the scores are: probability, logit; score with --calibrator.  [default: probability, or what "
            "the calibrator takes]",
        )
    ],
    "dependence": [
        click.option("--cluster", metavar="COLUMN", help="What rows that are not independent share: a patient."),
        click.option("--time", metavar="COLUMN", help="When each row was predicted; needs --label-end."),
        click.option("--label-end", metavar="COLUMN", help="When its label was known; needs --time."),
    ],
    "missing": [
        click.option(
            "--missing", default="error", metavar="WHAT", help="Rows that lack a value: error; skip leaves them out."
        )
    ],
    "versus": [
        click.option(
            "--versus",
            multiple=True,
            metavar="COLUMNS",
            help="Scores of another model, compared to that of --score. May be repeated.",
        )
    ],
}


def said_format(options: Mapping[str, Any]) -> FormatLike:
    """Return what the options say of FILE."""
    from calibrant.tables import TableFormat

    said = {name: value for name in _LAYOUT if (value := options.get(name)) is not None}
    if "delimiter" in said:
        said["delimiter"] = _NAMED_DELIMITERS.get(said["delimiter"], said["delimiter"])
    return TableFormat(options.get("format"), **said) if said else options.get("format")


def _in_lines(message: str, files: Sequence[str], format: FormatLike) -> str:
    """Return a message with lines of text files in place of rows, as far as the files can be read."""
    from calibrant.tables import in_lines

    try:
        for file in files:
            message = in_lines(message, file, format)
    except (CalibrantError, OSError):  # the message is of what can't be read
        return message
    return message


def data_options(*more: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the argument FILE and the options of `Request`; `more` are keys of `_OPTIONS`."""
    options: list[Callable[..., Any]] = [
        click.argument("file"),
        click.option("--label", default="y", metavar="COLUMN", help="Column of the labels."),
        click.option(
            "--score",
            multiple=True,
            metavar="COLUMNS",
            help="Column of the scores, or one per class: p0,p1,p2 or a pattern, 'p*'. May be repeated.  [default: p"
            + (", or those of the calibrator]" if "calibrator" in more else "]"),
        ),
        click.option("--weight", metavar="COLUMN", help="Column of sample weights."),
        format_options,
        click.option(
            "--classes",
            metavar="LABELS",
            help="The class of each score column: a,b,c. Needed where names don't say it and labels lack a class.",
        ),
    ]
    options += [option for name in more for option in _OPTIONS[name]]
    return lambda command: with_options(options)(with_project_defaults(command))


@dataclass(frozen=True, slots=True)
class Request:
    """What the options of a command say of the rows to read."""

    file: str
    label: str = "y"
    score: tuple[str, ...] = ()
    weight: str | None = None
    format: FormatLike = None
    positive: str | None = None
    classes: str | None = None
    group: str | None = None
    groups: tuple[str, ...] = ()
    calibrator: str | None = None
    cluster: str | None = None
    time: str | None = None
    label_end: str | None = None
    missing: Missing = "error"
    versus: tuple[str, ...] = ()
    input: InputKind | None = None
    has_labels: bool = True

    def open(self) -> OpenedFile:
        """Open the file, and find the columns of scores and groups."""
        from calibrant.cli.calibrated_source import CalibratedSource
        from calibrant.cli.logit_source import LogitSource
        from calibrant.cli.models import check_versus, named_models
        from calibrant.tables import open_rows, opened_for

        check_versus(self)
        source = open_rows(self.file, format=self.format)
        n_rows = source.n_rows
        score = split_names(self.score, source.names)
        groups = source.select(split_names(self.groups or tuple(filter(None, [self.group])), source.names))
        fitted = None if self.calibrator is None else self._fitted_columns(source, score)
        inputs = source.select(score or ["p"]) if fitted is None else fitted.inputs
        models = named_models(self, source, inputs)
        read = [*inputs, *(name for columns in models.values() for name in columns), *source.select(self.beside)]
        source = opened_for(self.missing, source, list(dict.fromkeys([*read, *groups])))
        if fitted is not None:
            source = CalibratedSource(source, fitted)
        elif self._is_of_logits():
            for columns in models.values() or [inputs]:
                source = LogitSource(source, columns)
        found = source.outputs if isinstance(source, CalibratedSource) else inputs
        return OpenedFile(self, source, list(found), groups, n_rows, models)

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
        """The columns beside scores and groups that are named: labels, weights, and what rows share."""
        named = (self.label if self.has_labels else None, self.weight, self.cluster, self.time, self.label_end)
        return list(dict.fromkeys(name for name in named if name is not None))

    def _fitted_columns(self, source: RowSource, score: list[str]) -> FittedColumns:
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
        if not fitted.is_exclusive:
            raise InvalidInputError(
                f"{self.calibrator} holds a {type(fitted).__name__}: it calibrates several labels at once, but what is "
                "measured here is one label per row. Add its probabilities by calibrant apply, and measure the column "
                "of each label against that label."
            )
        own = fitted.group_name_
        given = self.group or next(iter(self.groups), None)
        group = (own if own in source.names else given) if fitted.needs_groups else None
        columns = FittedColumns.of(fitted, score=score, group=group, where=source.name)
        return replace(columns, score=tuple(source.select(columns.score)))


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
        return f"{self.source.name}: {n_rows:,} rows{skipped}, {what}{by}{weight}; {self.order}"


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
    """A request and the source of its rows; `score` and `groups` are columns of it, in the order given.

    `n_rows` is the number of rows in the file, where it says so; `models` are the columns of each model by its name,
    the champion's first, where --versus names others.
    """

    request: Request
    source: RowSource
    score: list[str]
    groups: list[str]
    n_rows: int | None
    models: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_large(self) -> bool:
        """Whether the rows are too many to be held."""
        if not self._is_stored:
            return False
        if self.n_rows is None:
            return self.source.n_bytes > MANY * _BYTES_PER_ROW
        return self.n_rows * len(self.score) > MANY

    @property
    def _is_stored(self) -> bool:
        from calibrant.tables import is_many, is_remote

        file = self.request.file
        return file != "-" and (is_remote(file) or is_many(file) or Path(file).is_file())

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
        from calibrant.tables import check_numbers, refuse_missing
        from calibrant.validation import NUMPY

        of, where = self.request, self.source.name
        beside = {"sample_weight": of.weight, "cluster": of.cluster, "time": of.time, "label_end": of.label_end}
        columns = list(dict.fromkeys([*self.score, *of.beside, *self.groups]))
        table = self.source.read(columns) if table is None else table
        if table.num_rows == 0:
            raise ShapeError(f"{where} is empty. Pass at least one row.")
        where = f"the complete rows of {where}" if self.source.n_skipped else where
        where = where if are_all else f"the counted rows of {where}"
        for name in [*self.score, *([] if of.weight is None else [of.weight])]:
            check_numbers(table.column(name), called(name, where))
        kinds: dict[str, type[CalibrantError]] = dict.fromkeys(self.score, InvalidScoreError)
        kinds |= {of.label: InvalidLabelError} | ({} if of.weight is None else {of.weight: InvalidWeightError})
        refuse_missing(table.select(columns), where, kinds)
        given: dict[str, Any] = {k: None if name is None else table.column(name) for k, name in beside.items()}
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
                **given,
            )
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
        from calibrant.cli.calibrated_source import CalibratedSource

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


def called(column: str, where: str) -> str:
    """Return what messages call a column."""
    return f"column {column!r} of {where}"


def positive_class(given: str | None, classes: list[Any]) -> object:
    """Return the positive one of two classes: the one that is given as text, or the larger one."""
    if given is None:
        return classes[1]
    for label in classes:
        if given == str(label) or (isinstance(label, bool) and given == str(label).lower()):
            return label
    near = did_you_mean(given, classes)
    raise InvalidLabelError(f"--positive {given!r} is none of the labels {classes!r}.{near}")


def split_names(given: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the column names that options list; a name that holds commas is taken whole if there is such a column."""
    return [name for text in given for name in ([text] if text in names else split_list(text))]


def split_list(text: str) -> list[str]:
    """Return what commas separate, with quotes as in CSV."""
    return [item.strip() for item in next(csv.reader([text], skipinitialspace=True), []) if item.strip()]


def check_output(output: str, *inputs: str | None) -> None:
    """Refuse to write over a file that the command reads as something else."""
    for name in inputs:
        if (
            name is not None
            and name != "-"
            and Path(name).exists()
            and Path(output).exists()
            and Path(name).samefile(output)
        ):
            raise InvalidInputError(f"-o {output} is the file that is read. Write to another one.")


def check_suffix(output: str, *suffixes: str) -> str:
    """Return the suffix of a file to write, or say which there are."""
    suffix = Path(output).suffix.lower()
    if suffix not in suffixes:
        named = [each for each in suffixes if each != ".htm"]
        raise InvalidInputError(
            f"-o {output} doesn't say what to write. End it in {', '.join(named[:-1])} or {named[-1]}."
        )
    return suffix


def labelled_classes(given: str, kind: pa.DataType) -> list[Any]:
    """Return classes given as text as values of the kind that the labels have, in the order given."""
    import pyarrow as pa

    texts = split_list(given)
    if pa.types.is_boolean(kind):
        truths = {"true": True, "false": False}
        if odd := next((text for text in texts if text.lower() not in truths), None):
            raise InvalidInputError(f"--classes: {odd!r} is not true or false, as the labels are.")
        return [truths[text.lower()] for text in texts]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            return [int(text) for text in texts]
        except ValueError:
            raise InvalidInputError(f"--classes {given}: the labels are whole numbers.") from None
    return list(texts)
