"""Labels, scores and weights of a file, with the column of each class found by name or by order."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from calibrant.cli.output import listed
from calibrant.errors import InvalidInputError, InvalidLabelError, InvalidTypeError, ShapeError, did_you_mean
from calibrant.numerics import FloatArray
from calibrant.tables import FORMATS, open_rows
from calibrant.validation import InputKind, Labels, as_groups, as_labels, as_probabilities, as_scores, as_weight

if TYPE_CHECKING:
    import pyarrow as pa

format_option = click.option(
    "--format", metavar="FORMAT", help=f"What FILE is, whatever its name says: {', '.join(FORMATS)}."
)
#: Columns that a line names before it counts the others.
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Checked rows of a file.

    Attributes
    ----------
    file : str
        What messages call the file.
    label : str
        Name of the column of labels.
    score : list of str
        Names of the columns of scores, in the order of `classes` where there are several.
    weight_name : str or None
        Name of the column of weights.
    labels : Labels
        The codes of the rows, and the sorted classes.
    scores : ndarray of shape (n,) or (n, K)
    weight : ndarray of shape (n,) or None
    positive : object
        The class of the one column of scores; None where there are several.
    order : str
        How columns and classes were matched, for the reader.
    groups : dict of columns
        The columns that name groups of rows, as they were read.
    """

    file: str
    label: str
    score: list[str]
    weight_name: str | None
    labels: Labels
    scores: FloatArray
    weight: FloatArray | None
    positive: object
    order: str
    groups: dict[str, pa.ChunkedArray] = field(default_factory=dict)

    @property
    def y(self) -> npt.NDArray[Any]:
        """The labels as they were, shape (n,)."""
        values: npt.NDArray[Any] = self.labels.classes[self.labels.codes]
        return values

    @property
    def classes(self) -> list[Any]:
        """The sorted classes."""
        return list(self.labels.classes.tolist())

    def describe(self) -> str:
        """Return a line that says what was read."""
        what = f"label {self.label!r}, score {listed(list(map(repr, self.score)), most=_MOST_NAMED)}"
        weight = f", weight {self.weight_name!r}" if self.weight_name is not None else ""
        return f"{self.file}: {self.labels.codes.size:,} rows, {what}{weight}; {self.order}"


@dataclass(frozen=True, slots=True)
class Request:
    """What the options of a command say of the rows to read."""

    file: str
    label: str = "y"
    score: tuple[str, ...] = ("p",)
    weight: str | None = None
    format: str | None = None
    positive: str | None = None
    classes: str | None = None
    groups: tuple[str, ...] = ()

    def read(self, *, input: InputKind = "probability") -> ScoredRows:
        """Read and check the rows.

        Raises
        ------
        CalibrantError
            If the file can't be read, lacks a column, or holds what can't be used.
        """
        opened = open_rows(self.file, format=self.format)
        where = opened.name
        score = opened.select(split_names(self.score, opened.names))
        groups = split_names(self.groups, opened.names)
        others = [*([] if self.weight is None else [self.weight]), *groups]
        found = opened.read(list(dict.fromkeys([self.label, *score, *others])))
        known = None if self.classes is None else labelled_classes(self.classes, found.column(self.label).type)
        labels = self._labels(found.column(self.label), f"column {self.label!r} of {where}", len(score), known)
        classes = labels.classes.tolist()
        if len(score) == 1:
            positive = positive_class(self.positive, classes)
            order = f"{positive!r} is the positive class"
        else:
            positive = None
            score, order = order_classes(score, classes, known)
        weight = None
        if self.weight is not None:
            name = f"column {self.weight!r} of {where}"
            check_numbers(found.column(self.weight), name)
            weight = as_weight(found.column(self.weight), found.num_rows, name=name)
        scores = read_scores(found, score, where, input=input)
        named = {name: group_column(found.column(name), f"column {name!r} of {where}") for name in groups}
        return ScoredRows(where, self.label, score, self.weight, labels, scores, weight, positive, order, named)

    def _labels(self, column: pa.ChunkedArray, name: str, n_columns: int, known: list[Any] | None) -> Labels:
        if self.positive is not None and n_columns > 1:
            raise InvalidInputError("--positive needs one score column; with several, each class has its own.")
        if known is not None and n_columns > 1 and len(known) != n_columns:
            raise InvalidInputError(f"--classes names {len(known)} classes for {n_columns} score columns.")
        try:
            labels = as_labels(column, name=name, classes=None if known is None else sorted(known), n_columns=n_columns)
        except InvalidLabelError as error:
            if n_columns == 1 or known is not None:
                raise
            raise InvalidLabelError(f"{error} (Here: --classes, in the order of the score columns.)") from None
        if n_columns == 1 and len(labels.classes) != 2:
            raise ShapeError(
                f"{name} holds {len(labels.classes)} classes, {labels.classes.tolist()[:20]!r}, for one score column. "
                "Name one score column per class: --score p0,p1,p2 or --score 'p*'."
            )
        return labels


def positive_class(given: str | None, classes: list[Any]) -> object:
    """Return the positive one of two classes: the one that is given as text, or the larger one."""
    if given is None:
        return classes[1]
    for label in classes:
        if given == str(label) or (isinstance(label, bool) and given == str(label).lower()):
            return label
    near = did_you_mean(given, classes)
    raise InvalidLabelError(f"--positive {given!r} is none of the labels {classes!r}.{near}")


def data_options(*, positive: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the argument FILE and the options that name its columns."""
    options = [
        click.argument("file"),
        click.option("--label", default="y", metavar="COLUMN", show_default=True, help="Column of the labels."),
        click.option(
            "--score",
            multiple=True,
            default=("p",),
            metavar="COLUMNS",
            help="Column of the scores, or one per class: p0,p1,p2 or a pattern, 'p*'. May be repeated.  [default: p]",
        ),
        click.option("--weight", metavar="COLUMN", help="Column of sample weights."),
        format_option,
        click.option(
            "--classes",
            metavar="LABELS",
            help="The class of each score column: a,b,c. Needed where names don't say it and labels lack a class.",
        ),
    ]
    if positive:
        options.append(
            click.option("--positive", metavar="LABEL", help="Positive one of two labels.  [default: the larger]")
        )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def read_scores(
    found: pa.Table, names: Sequence[str], where: str, *, input: InputKind, sum_to_one: bool = True
) -> FloatArray:
    """Return the named columns as checked scores, shape (n,) for one and (n, K) for several."""
    for name in names:
        check_numbers(found.column(name), f"column {name!r} of {where}")
    is_one = len(names) == 1
    values = found.column(names[0]) if is_one else found.select(list(names))
    called = f"column {names[0]!r} of {where}" if is_one else where
    if not sum_to_one:
        return as_probabilities(values, name=called, sum_to_one=False).values
    return as_scores(values, name=called, input=input).values


def group_column(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Refuse a column that can't name groups, before its rows are given to anything that says less of where it is."""
    as_groups(column, name=name)
    return column


def check_numbers(column: pa.ChunkedArray, name: str) -> None:
    """Refuse a column of lists or records, and the first value that made text of what should be numbers."""
    import pyarrow as pa

    if pa.types.is_nested(column.type):
        raise InvalidTypeError(f"{name} holds {column.type} values, not numbers. Name a column of numbers.")
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return
    values = column.to_pylist()
    mixed = np.array([value if value is None or not _is_number(value) else float(value) for value in values], object)
    if any(isinstance(value, str) for value in mixed):
        as_scores(mixed, name=name)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def match_by_name(names: Sequence[str], labels: Sequence[str]) -> list[str] | None:
    """Return the names in the order of the labels, where each is a label between one prefix and one suffix."""
    longest = max(labels, key=len)
    for name in names:
        at = name.find(longest)
        while at >= 0:
            prefix, suffix = name[:at], name[at + len(longest) :]
            expected = [f"{prefix}{label}{suffix}" for label in labels]
            if sorted(expected) == sorted(names):
                return expected
            at = name.find(longest, at + 1)
    return None


def split_names(given: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the column names that options list; a name that holds commas is taken whole if there is such a column."""
    return [name for text in given for name in ([text] if text in names else split_list(text))]


def split_list(text: str) -> list[str]:
    """Return what commas separate, with quotes as in CSV."""
    return [item.strip() for item in next(csv.reader([text], skipinitialspace=True), []) if item.strip()]


def check_output(output: str, *inputs: str) -> None:
    """Refuse to write over a file that the command reads as something else."""
    for name in inputs:
        if name != "-" and Path(name).exists() and Path(output).exists() and Path(name).samefile(output):
            raise InvalidInputError(f"-o {output} is the file that is read. Write to another one.")


def order_classes(score: list[str], classes: list[Any], known: list[Any] | None) -> tuple[list[str], str]:
    """Return the names of the score columns in the order of the sorted classes, and how they were matched."""
    if known is not None:
        column_of = dict(zip(known, score, strict=True))
        score, how = [column_of[label] for label in classes], "as --classes says"
    else:
        matched = match_by_name(score, [str(label) for label in classes])
        score, how = (matched, "by name") if matched is not None else (score, "in the order given")
    pairs = listed([f"{name} = {label!r}" for name, label in zip(score, classes, strict=True)], most=_MOST_NAMED)
    return score, f"classes {how}: {pairs}"


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
