"""What commands share: examples in their help, options, tables, JSON, and progress on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli.completing import complete_params
from calibrant.errors import InvalidInputError
from calibrant.files import open_target
from calibrant.phrases import figure, for_terminal

if TYPE_CHECKING:
    from calibrant.report import pages
    from calibrant.results import Score

#: Letters of a line of prose on a terminal, at least.
_LEAST_WIDTH = 40

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")

trust_option = click.option(
    "--trust",
    default="",
    show_default=False,
    metavar="NAMES",
    help="Classes of your own that the model is made of, as mymodels.MyModel: their module is imported, and so runs.",
)


class ExamplesMixin:
    """Shows examples at the end of the help, each on a line of its own."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class Command(ExamplesMixin, click.Command):
    """A command with examples, whose files and columns the shell completes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        complete_params(self.params)


class Group(ExamplesMixin, click.Group):
    """A group of commands with examples."""

    command_class = Command


def new_command(name: str, *examples: str, **more: Any) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a function a command, with examples at the end of its help."""
    return click.command(name, cls=Command, examples=examples, **more)


def level_option(what: str = "the intervals") -> Callable[..., Any]:
    """Return the option --level."""
    return click.option("--level", default=0.95, metavar="SHARE", help=f"Coverage of {what}.")


def seed_option(what: str) -> Callable[..., Any]:
    """Return the option --seed."""
    return click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help=f"Seed of {what}.")


def with_options(options: Sequence[Callable[..., Any]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command several options, in this order in its help."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):  # the last decorator that is applied stands first in the help
            command = option(command)
        return command

    return decorate


def take_params(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Take out of the options those that set a parameter of a method, and return what was given."""
    return {name: value for name in names if (value := options.pop(name)) is not None}


def check_taken(method: str, given: Iterable[str], taken: Sequence[str]) -> None:
    """Refuse options of parameters that a method doesn't take."""
    for name in given:
        if name not in taken:
            takes = f"It takes {' and '.join(map(_option, taken))}." if taken else "It takes no such option."
            raise InvalidInputError(f"method {method!r} does not take {_option(name)}. {takes}")


def _option(parameter: str) -> str:
    return "--bins" if parameter == "n_bins" else f"--{parameter.replace('_', '-')}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Return aligned columns: the first `left` to the left, the others to the right."""
    columns = []
    for j, raw in enumerate(zip(header, *rows, strict=True)):
        cells = [for_terminal(cell).replace("\n", "\\n") for cell in raw]
        width = max(map(len, cells))
        columns.append([cell.ljust(width) if j < left else cell.rjust(width) for cell in cells])
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return "\n".join([click.style(lines[0], bold=True), *lines[1:]])


def echo(text: str, *, err: bool = False) -> None:
    """Print text, of whatever names of files, columns and classes it is made."""
    click.echo(for_terminal(text), err=err)


def prose(text: str) -> str:
    """Break lines at the width of the terminal, at spaces; in files and pipes a sentence stays one line."""
    if not sys.stdout.isatty():
        return text
    from shutil import get_terminal_size

    from calibrant.readable import wrapped

    return wrapped(text, max(get_terminal_size().columns, _LEAST_WIDTH))


def write_json(document: dict[str, Any]) -> None:
    """Print one JSON document; what is not a finite number, which JSON lacks, becomes null."""
    from calibrant.results import plain

    echo(json.dumps(plain(document), indent=2, allow_nan=False))


def write_page(report: pages.PageReport, target: str) -> None:
    """Write a report to a file: as JSON or Markdown if the suffix says so, else as a page."""
    suffix = Path(target).suffix.lower()
    text = {".json": report.json, ".md": report.markdown, ".markdown": report.markdown}.get(suffix, report.html)()
    with open_target(target) as file:
        file.write(text.encode(errors="backslashreplace"))


def loss_text(value: float | None) -> str:
    """Write a loss; documents hold none where it is infinite."""
    return "infinite" if value is None else figure(value)


def source_name(file: str) -> str:
    """Return what a document says that rows come from."""
    return "standard input" if file == "-" else file


def notes(scores: Mapping[str, Score]) -> list[str]:
    """Return what a reader must know of the scores, a line each."""
    return [f"{score.name}: {score.note}" for score in scores.values() if score.note]


def is_terminal() -> bool:
    """Say whether standard error is a terminal that a person looks at."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def progress(what: str, noun: str = "rows") -> Iterator[Callable[[int], None] | None]:
    """Show how many rows, or what else is counted, are done, on standard error if that is a terminal."""
    if not is_terminal():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ...") as status:
        yield lambda n: status.update(done_so_far(what, n, noun))


def done_so_far(what: str, n: int, noun: str) -> str:
    """Say how many are done: "Checking 1 file", "Reading 2,000 rows", "Fitting without fold 3 of 5"."""
    return f"{what} {n:,} {noun.removesuffix('s') if n == 1 else noun}"
