"""What commands print: tables, JSON, and progress on a terminal."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from calibrant.results import Scores, plain

_SHOW_EVERY_ROWS = 1 << 16


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Return aligned columns: the first `left` to the left, the others to the right."""
    columns = []
    for j, cells in enumerate(zip(header, *rows, strict=True)):
        width = max(map(len, cells))
        columns.append([cell.ljust(width) if j < left else cell.rjust(width) for cell in cells])
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return "\n".join([click.style(lines[0], bold=True), *lines[1:]])


def number(value: float) -> str:
    """Return a figure with four decimals, or "n/a" where it is not defined."""
    return "n/a" if math.isnan(value) else f"{value:.4f}"


def interval(low: float, high: float) -> str:
    """Return an interval of figures, or nothing where it is not defined."""
    return f"[{low:.4f}, {high:.4f}]" if math.isfinite(low) and math.isfinite(high) else ""


def shorten(text: str, most: int = 24) -> str:
    """Cut a long name, and say so by an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def write_json(document: dict[str, Any]) -> None:
    """Print one JSON document; what is not a finite number, which JSON lacks, becomes null."""
    click.echo(json.dumps(plain(document), indent=2, allow_nan=False))


def notes(scores: Scores) -> list[str]:
    """Return what a reader must know of the scores, a line each."""
    return [f"{score.name}: {score.note}" for score in scores.values() if score.note]


def listed(items: Sequence[object], *, most: int = 20) -> str:
    """Return items in one line, separated by commas."""
    more = f", and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(str(item) for item in items[:most]) + more


def count(n: int, noun: str) -> str:
    """Return a number of things: "1 row", "2,000 rows"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


@contextmanager
def progress(what: str, noun: str = "rows") -> Iterator[Callable[[int], None] | None]:
    """Show how many rows, or what else is counted, are done, on standard error if that is a terminal."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ...") as status:
        yield lambda n: status.update(f"{what} {n:,} {noun}")
