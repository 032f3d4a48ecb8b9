"""Windows of a walk-forward: the last part of the rows cut in time, and for each the rows before it that are fitted to.

When windows start follows from all rows. Everything else about one is decided by what came before it: rows that come
later move none of its parts. Rows whose labels reach into a window are purged, with the embargo in bars (`bar_clock`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from calibrant.dependence import TimeArray
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.numerics import IntArray
from calibrant.training.dataset import Dataset, Holdout, parts_before
from calibrant.validation import check_choice, check_integer

Calendar = Literal["month", "quarter", "year"]
CALENDARS: tuple[str, ...] = get_args(Calendar)
History = Literal["expanding", "rolling"]
HISTORIES: tuple[str, ...] = get_args(History)
#: What a walk-forward that is left out is set to.
NO_WINDOWS = ""
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def check_walk_forward(value: object) -> int | str:
    """Check how windows are cut: a number of them, one of `CALENDARS`, or "" for none."""
    if isinstance(value, str):
        if value != NO_WINDOWS:
            check_choice("walk_forward", value, CALENDARS)
        return value
    return check_integer("walk_forward", value, minimum=1)


def window_starts(data: Dataset, walk_forward: int | str, *, test: float) -> TimeArray:
    """Return when the windows start: so many parts of the last share of the rows, or the months and so on in it.

    Parts hold about as many rows each. Of a calendar the first window starts with the first month, quarter or year that
    starts in this share of the rows.
    """
    n = data.n_rows
    last = data.time[n - max(1, round(test * n)) :]
    if isinstance(walk_forward, int):
        starts = np.unique(last[np.arange(walk_forward) * last.size // walk_forward])
        if starts.size < walk_forward:
            raise InvalidInputError(
                f"walk_forward={walk_forward} windows don't fit into {np.unique(last).size:,} times of the last part, "
                f"of {last.size:,} rows. Ask for fewer windows, or a larger test."
            )
        return starts
    if data.time.dtype.kind != "M":
        raise InvalidTypeError(
            f"walk_forward={walk_forward!r} needs dates, and times are {data.time.dtype} values. Ask for a number of "
            "windows."
        )
    month = data.time.astype("datetime64[M]").astype(np.int64) // _MONTHS[walk_forward] * _MONTHS[walk_forward]
    begun = np.unique(month).astype("datetime64[M]").astype(data.time.dtype)
    inside: TimeArray = begun[(begun >= last[0]) & (begun <= last[-1])]
    if inside.size == 0:
        raise InvalidInputError(
            f"walk_forward={walk_forward!r}: no {walk_forward} starts in the last part of the rows, from {last[0]!s} "
            f"to {last[-1]!s}. Pass a larger test, or ask for a number of windows."
        )
    return inside


def cut_windows(
    data: Dataset, starts: TimeArray, *, history: History, validation: float, stop: float, embargo: int
) -> list[Holdout]:
    """Return the parts of each window: its own rows are the test part, the others come before it.

    `validation` is a share of the rows before a window, and `stop` one of those that are left. With a rolling history
    each window has as many rows before it as the first one, the latest; with an expanding one it has all.
    """
    ends: list[Any] = [*starts[1:], None]
    found: list[Holdout] = []
    n_first = int(np.searchsorted(data.time, starts[0]))
    for start, end in zip(starts, ends, strict=True):
        first = int(np.searchsorted(data.time, start))
        last = data.n_rows if end is None else int(np.searchsorted(data.time, end))
        earlier = np.arange(first - n_first if history == "rolling" else 0, first)
        past = data.ends_before(earlier, start, embargo)
        cut: dict[str, Any] = {"n_validation": round(validation * past.size), "stop": stop, "embargo": embargo}
        parts = parts_before(data, past, np.arange(first, last), **cut, of=f" of the window from {start!s}")
        found.append(replace(parts, n_purged=earlier.size - parts.before.size))
    return found


def last_parts(
    data: Dataset, n_first: int, *, history: History, validation: float, stop: float, embargo: int
) -> Holdout:
    """Return the parts of a refit to all rows, or the latest `n_first`: those before a window after the end."""
    past = np.arange(max(data.n_rows - n_first, 0) if history == "rolling" else 0, data.n_rows)
    cut: dict[str, Any] = {"n_validation": round(validation * past.size), "stop": stop, "embargo": embargo}
    nothing: IntArray = np.empty(0, dtype=np.int64)
    return parts_before(data, past, nothing, **cut, of=" of the last refit")
