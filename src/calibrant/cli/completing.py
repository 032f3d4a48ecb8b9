"""What a shell offers behind a half-typed command line: files, columns of the file that is given, and methods."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:  # which older versions of click can't be asked for by type
    ParamType = click.ParamType


class FileName(ParamType):
    """The name of a file, which the shell itself completes."""

    name = "text"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Leave it to the shell."""
        return [CompletionItem(incomplete, type="file")]


class ColumnNames(ParamType):
    """The name of a column of FILE, or several with commas between them."""

    name = "text"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the columns that begin as the last name does; none where the file can't be read yet."""
        return _last_completed(incomplete, _columns(ctx))


class Names(ParamType):
    """One of some names, or several with commas between them; others are refused where they are used."""

    name = "text"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the names that begin as the last one does."""
        return _last_completed(incomplete, self.names)


#: What is completed, by what help calls it.
_KINDS: dict[str, ParamType] = {
    **dict.fromkeys(("FILE", "CALIBRATOR", "RECALIBRATOR", "OUT", "PAGE", "CHART", "STATE"), FileName()),
    **dict.fromkeys(("COLUMN", "COLUMNS"), ColumnNames()),
}


def complete_params(params: Sequence[click.Parameter]) -> None:
    """Let the shell complete the arguments and options that help calls a file or a column."""
    for param in params:
        called = param.metavar or (param.name or "").upper()
        if type(param.type) is type(click.STRING) and called in _KINDS:
            param.type = _KINDS[called]


def _last_completed(incomplete: str, names: Sequence[str]) -> list[CompletionItem]:
    """Return the names that begin as the last of those with commas between them, each behind the others."""
    before, comma, last = incomplete.rpartition(",")
    return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(last)]


def _columns(ctx: click.Context) -> tuple[str, ...]:
    from calibrant.cli.option_texts import said_format
    from calibrant.errors import CalibrantError
    from calibrant.tables import open_rows

    arguments = [param.name for param in ctx.command.params if isinstance(param, click.Argument)]
    # behind an option whose value is still to come, click leaves the arguments unnamed
    file: Any = ctx.params.get("file") or dict(zip(arguments, ctx.args, strict=False)).get("file")
    if not file or file == "-":
        return ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return open_rows(file, format=said_format(ctx.params), table=ctx.params.get("table")).names
    except (CalibrantError, OSError):  # of a file that can't be read nothing is offered
        return ()
