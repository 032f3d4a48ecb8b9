"""What the texts of options mean: names of columns, classes, files to write, and how the text of a table is written."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import InvalidInputError, InvalidLabelError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.tables import FormatLike

#: The options that say how the text of FILE is written.
LAYOUT = ("delimiter", "decimal", "encoding")
#: What is said besides where a command doesn't have the option that an error names.
_NO_LAYOUT = "This command has no --{}: write the table as Parquet, or as CSV in UTF-8 with commas between fields."
#: Delimiters that are hard to type.
_NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t"}
#: What is said of a number with a decimal comma.
_WITH_COMMA = re.compile(r"('-?\d*,\d+(?:[eE][-+]?\d+)?' is not a number\.) Convert the column to floats first\.")
#: What is said of labels that are scores, of arguments in Python.
_SWAPPED = re.compile(r"Are labels and scores swapped\? Pass (?:scores|labels) first, (?:scores|labels) second\.")
#: What is said of a file without a column that is taken where none is named, and the options that name it.
_NOT_NAMED = re.compile(r".* has no column '([py])'\. Its .*[^)]\.$")
_BY_DEFAULT = {"p": "the scores by --score", "y": "the labels by --label"}
#: Arguments whose names begin a message, by the options that set them.
_ARGUMENTS = {
    "n_bins": "--bins",
    "n_draws": "--draws",
    "n_folds": "--folds",
    **{name: f"--{name}" for name in ("level", "alpha", "table")},
}
#: What is said of a database that is not FILE, whose table no option names.
_SEVERAL_TABLES = "Name one with table=."
#: An option in a message, with the value that mends what it is about, where that is the same for every file.
_AN_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)(?: (skip|logit|,)(?= |,|\.|$))?")


def said_format(options: Mapping[str, Any]) -> FormatLike:
    """Return what the options say of FILE."""
    from calibrant.tables import TableFormat

    said = {name: value for name in LAYOUT if (value := options.get(name)) is not None}
    if "delimiter" in said:
        said["delimiter"] = _NAMED_DELIMITERS.get(said["delimiter"], said["delimiter"])
    return TableFormat(options.get("format"), **said) if said else options.get("format")


def without_foreign_layout(settings: Mapping[str, Any], file: str | None) -> dict[str, Any]:
    """Return settings of a project for one file, without keys of a text's layout that the file's format doesn't have.

    A Parquet file has no delimiter, say.
    """
    from calibrant.tables import text_options

    has = LAYOUT if file is None else text_options(file, settings.get("format"))
    return {name: value for name, value in settings.items() if name not in LAYOUT or name in has}


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
        if name is None or name == "-":
            continue
        is_same = os.path.realpath(name) == os.path.realpath(output)
        if is_same or (Path(name).exists() and Path(output).exists() and Path(name).samefile(output)):
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


def with_label_end(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which a time alone says that each label was known at once, as folds in time take it."""
    return {**options, "label_end": options["label_end"] or options["time"]}


def in_options(message: str, options: Collection[str]) -> str:
    """Say in options of commands what errors say in Python; `options` are those of the command."""
    from calibrant.validation import LOGIT_ADVICE

    fix = "pass --input logit" if "input" in options else "fit a calibrator to them by calibrant fit --input logit"
    message = message.replace(LOGIT_ADVICE, fix)
    message = message.replace(_SEVERAL_TABLES, "Write the one that is meant to a file, such as Parquet.")
    message = _SWAPPED.sub("Are the columns of --label and --score swapped?", message)
    for argument, option in _ARGUMENTS.items():
        message = re.sub(rf"^{argument}=", f"{option} ", message)
    message = _NOT_NAMED.sub(lambda found: f"{found[0]} Name {_BY_DEFAULT[found[1]]}.", message)
    message = _WITH_COMMA.sub(r"\1 If the comma is its decimal point: --decimal , .", message)
    lacking = next((name for name in (*LAYOUT, "format") if f"--{name}" in message and name not in options), None)
    return message if lacking is None else f"{message} {_NO_LAYOUT.format(lacking)}"


def in_keys(message: str) -> str:
    """Say what `in_options` does, and that the project file has keys in place of options."""
    message = in_options(message.replace("with table=", "with --table"), {"input", *LAYOUT, "format"})
    option = _AN_OPTION.search(message)
    if option is None:
        return message
    key, value = option[1].replace("-", "_"), option[2] or "..."
    return f'{message} In the project file options are keys: {key} = "{value}".'
