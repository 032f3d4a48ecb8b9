"""The pages of the command line: one for each command, with each of its options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from sphinx.application import Sphinx
from sphinx.config import Config

from calibrant.cli import main

#: What commands inherit, such as -h; without it Click keeps a help option that lacks it.
ROOT = click.Context(main, info_name="calibrant", **main.context_settings)


def commands(command: click.Command = main, path: tuple[str, ...] = ("calibrant",)) -> Iterator[tuple[str, Any]]:
    """Yield every command with the words that call it, groups before what is in them."""
    context = click.Context(command, parent=ROOT, info_name=path[-1])
    yield " ".join(path), command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from commands(found, (*path, name))


def options(command: click.Command) -> Iterator[tuple[str, str]]:
    """Yield each option, as it is written, with what it does."""
    context = click.Context(command, parent=ROOT)
    for param in command.get_params(context):
        record = param.get_help_record(context) if isinstance(param, click.Option) else None
        if record:
            yield record


def page(words: str, command: click.Command) -> str:
    """Return the page of a command."""
    context = click.Context(command, parent=ROOT, info_name=words)
    usage = " ".join([words, *command.collect_usage_pieces(context)])
    parts = [f"{words}\n{'=' * len(words)}\n", *paragraphs(command.help or ""), f"::\n\n   {usage}\n"]
    parts.append(f".. program:: {words}\n")
    for written, text in options(command):
        names = ", ".join(part.strip() for part in written.split(","))
        parts.append(f".. option:: {names}\n\n   {escaped(text)}\n")
    examples = [line.strip() for line in getattr(command, "examples", ())]
    if examples:
        shown = "".join(f"   $ {line}\n" for line in examples)
        parts.append(f".. rubric:: Examples\n\n.. code-block:: console\n\n{shown}")
    return "\n".join(parts)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a help text, those that are not to be wrapped line by line."""
    found = []
    for part in re.split(r"\n\s*\n", text.strip()):
        kept = part.startswith("\b")
        lines = [escaped(line.strip()) for line in part.removeprefix("\b").strip().splitlines()]
        found.append("".join(f"| {line}\n" for line in lines) if kept else " ".join(lines) + "\n")
    return found


def escaped(text: str) -> str:
    """Return text in which no character means anything to reStructuredText."""
    return re.sub(r"([\\*`|_<>])", r"\\\1", text)


def write_pages(app: Sphinx, config: Config) -> None:  # noqa: ARG001
    """Write commands/*.rst before the build looks for its sources."""
    folder = Path(app.srcdir) / "commands"
    folder.mkdir(exist_ok=True)
    for words, command in commands():
        path, text = folder / f"{words.replace(' ', '-')}.rst", page(words, command)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx looks for sources."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
