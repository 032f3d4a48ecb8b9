"""Frames and series of any library, read through narwhals."""

from __future__ import annotations

from typing import Any

from calibrant.errors import InvalidInputError, MissingPackageError


def read_native(given: Any, name: str) -> Any:
    """Return a frame or series as one of narwhals, and anything else as it is; refuse a frame with a name twice.

    `name` is what the caller calls it, for the message.
    """
    nw = narwhals_for(given, name)
    try:
        return nw.from_native(given, allow_series=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        names = list(getattr(given, "column_names", None) or given.columns)
        twice = next(column for column in names if names.count(column) > 1)
        raise InvalidInputError(
            f"{name} has {names.count(twice)} columns {twice!r}. Rename them, or pass the values without names."
        ) from None


def narwhals_for(values: object, name: str) -> Any:
    """Return the module that reads series and frames, or say of these that it is missing."""
    try:
        import narwhals
    except ImportError:
        raise MissingPackageError(
            f"{name} is a {type(values).__name__}, and series and data frames are read by narwhals, which is not "
            "installed: pip install narwhals. Or pass an array or a list."
        ) from None
    return narwhals
