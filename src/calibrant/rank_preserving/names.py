"""Names that two sides have for the same columns: matched, or an error that shows both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.errors import ShapeError, did_you_mean
from calibrant.numerics import IntArray
from calibrant.validation import Container


def column_names(container: Container) -> list[str] | None:
    """Return the names of a frame's columns; a frame whose columns are merely numbered has none."""
    names = container.columns
    return None if names is None or list(names) == [str(j) for j in range(len(names))] else list(names)


def match_names(names: Sequence[object], given: Sequence[object], *, what: str, whose: str) -> IntArray:
    """Return the place in `given` of each of `names`.

    Both hold the same names, or `names` are those of `given` between one prefix and one suffix, such as p_cat and
    p_dog for cat and dog. `what` and `whose` are what the error says before the lists `given` and `names`.
    """
    wanted, found = [str(name) for name in names], [str(name) for name in given]
    for prefix, suffix in [("", ""), *_affixes(wanted, found)]:
        place = {f"{prefix}{name}{suffix}": i for i, name in enumerate(found)}
        if len(found) == len(wanted) == len(place) and place.keys() == set(wanted):
            return np.array([place[name] for name in wanted])
    missing = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted]
    if missing:
        why = f"{missing[0]!r} is missing.{did_you_mean(missing[0], extra)}"
    else:
        why = f"{extra[0]!r} is one too many." if extra else "a name is there twice."
    raise ShapeError(f"{what} {list(given)!r:.200}, and {whose} {list(names)!r:.200}: {why} Give both the same names.")


def class_places(classes: Sequence[object], names: Sequence[str] | None) -> IntArray | None:
    """Return the place among the sorted classes of each column, where all columns are named after a class.

    None stands for columns that follow the sorted classes. So do columns of other names, and then those that are
    named after a class must stand where it stands.
    """
    if names is None:
        return None
    found = [str(label) for label in classes]
    is_elsewhere = any(name in found and found.index(name) != j for j, name in enumerate(names))
    if not is_elsewhere and not _affixes(names, found):
        return None
    return match_names(names, classes, what="the classes are", whose="P has the columns")


def places_without_names(labels: Sequence[Any], n_columns: int) -> IntArray:
    """Return the place among the labels of margins of each column of a matrix whose columns have no names.

    Labels that are the numbers of the columns are those of the columns. Others have to be sorted, as columns follow
    the sorted classes.
    """
    numbers = [str(j) for j in range(n_columns)]
    found = [str(label) for label in labels]
    if set(found) == set(numbers) and len(found) == n_columns:
        return np.array([found.index(number) for number in numbers])
    if len(found) != n_columns:
        raise ShapeError(f"margins are for {list(labels)!r:.200}, and P has {n_columns} columns. Pass one for each.")
    try:
        ordered = sorted(labels)
    except TypeError:  # labels of several kinds
        ordered = sorted(labels, key=str)
    if ordered != list(labels) or len(set(found)) < n_columns:
        raise ShapeError(
            f"margins are for {list(labels)!r:.200}, whose sorted order is {ordered!r:.200}, and the columns of P have "
            "no names to go by. Pass P as a frame with these column names, or an array in the order of P's columns."
        )
    return np.arange(n_columns)


def _affixes(names: Sequence[str], labels: Sequence[str]) -> list[tuple[str, str]]:
    """Return each prefix and suffix between which the names are the labels."""
    longest = re.escape(max(labels, key=len, default=""))
    cuts = [(name[: at.start(1)], name[at.end(1) :]) for name in names for at in re.finditer(f"(?=({longest}))", name)]
    return [(a, z) for a, z in cuts if (a or z) and sorted(f"{a}{label}{z}" for label in labels) == sorted(names)]
