"""Names of columns: matched to classes or to the columns of a fit, and never ignored.

A column names a class where its name is the class's label between a prefix and a suffix that all columns share:
`p_buy`, `p_hold`, `p_sell`. Where all columns name a class, they are matched by name, whatever their order. Where
only some do, those must stand where their classes stand: names that contradict the order are refused.

Numbers with names, such as margins or base rates, are a mapping, or a pandas Series whose index is more than a range.
They go by their names wherever the other side has names too, and else by position, in the order of the sorted classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from calibrant.errors import ColumnOrderError, did_you_mean
from calibrant.validation.frames import read_native
from calibrant.validation.labels import as_labels
from calibrant.validation.scores import ArrayLike

_MOST_NAMED = 20
#: Text and the number after it, of a name such as p10.
_NUMBERED = re.compile(r"(\D*)(\d*)")


def match_classes(columns: Sequence[str], classes: Sequence[Any], *, name: str) -> list[int] | None:
    """Return the place of the column of each class; None where columns stand in order, or don't name the classes.

    Raises ColumnOrderError where some columns name classes of text but stand elsewhere, and the others name none.
    `name` is what the caller calls the columns, for the message.
    """
    places = column_places(columns, classes)
    if places is not None:
        return None if places == list(range(len(classes))) else places
    if len(columns) != len(classes):
        return None
    # numbers in names may count something else, as in p1, p2, p3 of classes 0, 1, 2
    is_text = isinstance(classes[0], str) and not all(label.isdecimal() for label in classes)
    if is_text and any(place != k for k, place in _some_places(columns, classes).items()):
        raise ColumnOrderError(
            f"{name} has the columns {list(columns[:_MOST_NAMED])!r}, in an order that contradicts that of the "
            f"classes, {list(classes[:_MOST_NAMED])!r}. Name each column after its class, put them into the order "
            "of the classes, or pass an array without names."
        )
    return None


def check_sorted(columns: Sequence[str], *, name: str) -> None:
    """Refuse columns that don't stand in sorted order, as text or by the numbers in it; for where no classes are named.

    `name` is what the caller calls the columns, for the message.
    """
    by_number = sorted(columns, key=lambda column: [(text, int(n or -1)) for text, n in _NUMBERED.findall(column)])
    if list(columns) not in (by_number, sorted(columns)):
        raise ColumnOrderError(
            f"{name} has the columns {list(columns[:_MOST_NAMED])!r}, and no classes are named: they then stand in "
            f"sorted order, {by_number[:_MOST_NAMED]!r}. Name the classes, put the columns into this order, or pass an "
            "array without names."
        )


def column_places(columns: Sequence[str], classes: Sequence[Any]) -> list[int] | None:
    """Return the place of the column of each class, where all columns are named after one; else None."""
    if not len(columns) == len(classes) == len(set(columns)) == len(set(map(str, classes))):
        return None
    return next((places for labels in _spellings(classes) if (places := _all_places(columns, labels))), None)


def match_columns(columns: Sequence[str], known: Sequence[str], *, name: str, fitted: str) -> list[int] | None:
    """Return the place of each known column among `columns`; None where they stand in order.

    Raises ColumnOrderError where the names are not the same. `name` and `fitted` are what has the new columns and what
    has the known ones, for the message.
    """
    if list(columns) == list(known):
        return None
    if sorted(columns) != sorted(known) or len(set(known)) < len(known):
        raise ColumnOrderError(
            f"{name} has the columns {list(columns[:_MOST_NAMED])!r}, but {fitted} has "
            f"{list(known[:_MOST_NAMED])!r}. Give columns of these names, in any order, or an array without names."
        )
    return [list(columns).index(column) for column in known]


def read_names(given: ArrayLike, *, name: str = "margins") -> tuple[ArrayLike, list[Any] | None]:
    """Return numbers, and the names that they have; `name` is what the caller calls them."""
    if isinstance(given, Mapping):
        return list(given.values()), list(given)
    import narwhals as nw

    series = read_native(given, name)
    index = nw.maybe_get_index(series) if isinstance(series, nw.Series) else None
    is_range = type(index).__name__ == "RangeIndex" and index.step > 0  # type: ignore[union-attr]
    return given, None if index is None or is_range else index.tolist()


def match_names(names: Sequence[Any] | None, known: Sequence[Any] | None, *, name: str, of: str) -> list[int] | None:
    """Return the places that put the numbers of the argument `name` in the order of the known names that `of` has.

    None stands for the order in which they are. Where nothing is known, names that are 0 to K - 1 go by number, and
    others have to be sorted, as classes are. Names that are not the same or contradict the order are refused.
    """
    if names is None:
        return None
    listed = list(names)
    if known is not None:
        places = places_either_way(known, listed)
        if places is None:
            missing = [label for label in map(str, known) if label not in set(map(str, listed))]
            extra = [label for label in map(str, listed) if label not in set(map(str, known))]
            meant = did_you_mean(extra[0], missing) if extra else ""
            raise ColumnOrderError(
                f"{name} has the names {listed!r:.200}, and {of} {list(known)!r:.200}.{meant} Give both the same "
                "names, or leave out those of one side: it then goes by position."
            )
        return places
    ordered = as_labels(listed, name=f"the index of {name}").classes.tolist()
    if ordered == list(range(len(listed))):
        return [listed.index(k) for k in ordered]
    if ordered != listed:
        raise ColumnOrderError(
            f"{name} has the names {listed!r:.200}, whose sorted order is {ordered!r:.200}, and {of} has no names to "
            "go by. Give it these names, such as columns of a frame, or pass an array in the order that it has."
        )
    return None


def places_either_way(wanted: Sequence[Any], found: Sequence[Any]) -> list[int] | None:
    """Return the place in `found` of each of `wanted`, where all of one side are those of the other between affixes."""
    places = column_places(list(map(str, found)), wanted)
    if places is None:
        back = column_places(list(map(str, wanted)), found)
        places = None if back is None else sorted(range(len(back)), key=back.__getitem__)
    return places


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
