"""Numbers of things, and lists of them, as messages and pages write them."""

from __future__ import annotations

from collections.abc import Sequence


def count(n: int, noun: str) -> str:
    """Return a number of things: "1 row", "2,000 rows"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def listed(items: Sequence[object], *, most: int = 20) -> str:
    """Return items in one line, separated by commas, and how many more there are than `most`."""
    more = f", and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(str(item) for item in items[:most]) + more


def quoted(values: Sequence[object], *, most: int = 20) -> str:
    """Return labels or names as Python writes them, in one line: 'a', 'b', and 7 more."""
    return listed([repr(value) for value in values[:most]] + [""] * max(len(values) - most, 0), most=most)
