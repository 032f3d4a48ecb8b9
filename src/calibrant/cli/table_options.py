"""The options of commands that read a table: its columns, how it is written, and what rows share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import choices
from calibrant.cli.common import with_options
from calibrant.cli.option_texts import LAYOUT, said_format
from calibrant.cli.project import with_project_defaults
from calibrant.errors import CalibrantError, InvalidInputError

if TYPE_CHECKING:
    from calibrant.tables import FormatLike

_FORMAT_OPTIONS = [
    click.option(
        "--format", metavar="FORMAT", help=f"What FILE is, whatever its name says: {', '.join(choices.FORMATS)}."
    ),
    click.option("--delimiter", metavar="C", help="What stands between fields of CSV: ';', '|', tab.  [default: ,]"),
    click.option("--decimal", metavar="C", help="Decimal point of CSV: , as in 0,25.  [default: .]"),
    click.option("--encoding", metavar="NAME", help="Encoding of text: latin-1, utf-16, ...  [default: utf-8]"),
    click.option("--table", metavar="NAME", help="Table or view of a DuckDB database.  [default: the only one]"),
]
_CLUSTER = click.option("--cluster", metavar="COLUMN", help="What rows that are not independent share: a patient.")
_LABEL_END = click.option("--label-end", metavar="COLUMN", help="When its label was known; needs --time.")
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
        _CLUSTER,
        click.option("--time", metavar="COLUMN", help="When each row was predicted; needs --label-end."),
        _LABEL_END,
    ],
    "dependent folds": [
        _CLUSTER,
        click.option(
            "--time", metavar="COLUMN", help="When each row was predicted; alone, each label was known at once."
        ),
        _LABEL_END,
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


NUMBERS = click.option("--numbers", is_flag=True, help="Labels are numbers, and scores are predictions of them.")


def check_of_numbers(options: Mapping[str, Any], *of_classes: str) -> None:
    """Refuse those options of classes that were given with --numbers."""
    if (name := next((name for name in of_classes if options[name] is not None), None)) is None:
        return
    fix = "Leave one out."
    if name == "calibrator":
        fix = "Measure what a calibrator makes of predictions by calibrant segments evaluate."
    raise InvalidInputError(f"--{name} is of classes, and labels that are numbers have none. {fix}")


def segment_options(*, required: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that say which segments of rows are looked at."""
    return with_options(
        [
            click.option(
                "--features",
                multiple=True,
                required=required,
                metavar="COLUMNS",
                help="Columns that segments are made of: a,b or a pattern.",
            ),
            click.option("--categorical", multiple=True, metavar="COLUMNS", help="Those of numbers that are names."),
            click.option("--depth", default=2, metavar="N", help="How many of them are crossed."),
            click.option("--min-rows", default=50, metavar="N", help="Rows that a segment must have."),
        ]
    )


def format_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say what FILE is, which it gets as `format` and `table`."""

    @wraps(command)
    def with_format(*args: Any, **options: Any) -> None:
        options["format"] = said_format(options)
        options = {name: value for name, value in options.items() if name not in LAYOUT}
        try:
            command(*args, **options)
        except CalibrantError as error:
            message = as_lines(str(error), options["file"], options["format"], options.get("fitted_to"))
            if message.startswith(f"{options['file']} holds "):
                message = message.replace("with table=", "with --table")
            raise type(error)(message) from None

    return with_options(_FORMAT_OPTIONS)(with_format)


def as_lines(message: str, file: str, format: FormatLike, fitted_to: str | None = None) -> str:
    """Return a message with lines of text files in place of rows, as far as the files can be read."""
    from calibrant.tables import format_of_other, in_lines

    try:
        message = in_lines(message, file, format)
        return message if fitted_to is None else in_lines(message, fitted_to, format_of_other(fitted_to, format))
    except (CalibrantError, OSError):  # the message is of what can't be read
        return message


def data_options(*more: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the argument FILE and the options of `Request`; `more` are keys of `_OPTIONS`."""
    options: list[Callable[..., Any]] = [
        with_project_defaults,  # outermost, as the project says how FILE is written too
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
    return with_options(options)
