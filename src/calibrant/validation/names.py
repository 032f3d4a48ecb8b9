"""Names of columns: matched to classes or to the columns of a fit, and never ignored.

A column names a class where its name is the class's label between a prefix and a suffix that all columns share:
`p_buy`, `p_hold`, `p_sell`. Where all columns name a class, they are matched by name, whatever their order. Where
only some do, those must stand where their classes stand: names that contradict the order are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from calibrant.errors import ColumnOrderError

_MOST_NAMED = 20


def match_classes(columns: Sequence[str], classes: Sequence[Any], *, name: str) -> list[int] | None:
    """Return the place of the column of each class; None where columns stand in order, or don't name the classes.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns, one for each class.
    classes : sequence of K labels
        In the order in which the columns stand where names don't say otherwise.
    name : str
        What the caller calls the columns, for the message.

    Raises
    ------
    ColumnOrderError
        If some columns name classes of text and stand elsewhere, and the others name none.
    """
    places = column_places(columns, classes)
    if places is not None:
        return None if places == list(range(len(classes))) else places
    if len(columns) != len(classes):
        return None
    # a few numbers in names may count something else: p1, p2, p3 of classes 0, 1, 2
    if isinstance(classes[0], str) and any(place != k for k, place in _some_places(columns, classes).items()):
        raise ColumnOrderError(
            f"{name} has the columns {list(columns[:_MOST_NAMED])!r}, in an order that contradicts that of the "
            f"classes, {list(classes[:_MOST_NAMED])!r}. Name each column after its class, put them into the order "
            "of the classes, or pass an array without names."
        )
    return None


def column_places(columns: Sequence[str], classes: Sequence[Any]) -> list[int] | None:
    """Return the place of the column of each class, where all columns are named after one; else None."""
    if len(columns) != len(classes) or len(set(columns)) < len(columns):
        return None
    return next((places for labels in _spellings(classes) if (places := _all_places(columns, labels))), None)


def match_columns(columns: Sequence[str], known: Sequence[str], *, name: str, fitted: str) -> list[int] | None:
    """Return the place of each known column among `columns`; None where they stand in order.

    Parameters
    ----------
    columns, known : sequence of str
        Names of new columns, and of those that they are to be matched to.
    name, fitted : str
        What the caller calls the new columns, and what has the known ones, for the message.

    Raises
    ------
    ColumnOrderError
        If the names are not the same.
    """
    if list(columns) == list(known):
        return None
    if sorted(columns) != sorted(known) or len(set(known)) < len(known):
        raise ColumnOrderError(
            f"{name} has the columns {list(columns[:_MOST_NAMED])!r}, but {fitted} has "
            f"{list(known[:_MOST_NAMED])!r}. Give columns of these names, in any order, or an array without names."
        )
    return [list(columns).index(column) for column in known]


def _spellings(classes: Sequence[Any]) -> list[list[str]]:
    """Return the ways in which names of columns may write the labels."""
    written = [str(label) for label in classes]
    if not isinstance(classes[0], bool):
        return [written]
    return [written, [label.lower() for label in written], [str(int(label)) for label in classes]]


def _affixes(columns: Sequence[str], label: str) -> Iterator[tuple[str, str]]:
    """Yield what stands before and after a label wherever a column's name holds it."""
    for column in columns:
        at = column.find(label)
        while at >= 0:
            yield column[:at], column[at + len(label) :]
            at = column.find(label, at + 1)


def _all_places(columns: Sequence[str], labels: Sequence[str]) -> list[int] | None:
    """Return the place of the column of each label, where all are named after one."""
    place_of = {column: place for place, column in enumerate(columns)}
    for prefix, suffix in _affixes(columns, max(labels, key=len)):
        places = [place_of.get(f"{prefix}{label}{suffix}", -1) for label in labels]
        if min(places) >= 0:
            return places
    return None


def _some_places(columns: Sequence[str], labels: Sequence[str]) -> dict[int, int]:
    """Return the place of the column of each label that one is named after, by the affixes that most columns share.

    A single column counts only where it is the label itself: many names hold a short label by chance.
    """
    place_of = {column: place for place, column in enumerate(columns)}
    affixes = {("", "")}.union(*(_affixes(columns[:_MOST_NAMED], label) for label in labels[:_MOST_NAMED]))
    best: dict[int, int] = {}
    for prefix, suffix in sorted(affixes):
        found = {k: place_of[n] for k, label in enumerate(labels) if (n := f"{prefix}{label}{suffix}") in place_of}
        if len(found) > max(len(best), 1 if (prefix, suffix) != ("", "") else 0):
            best = found
    return best
