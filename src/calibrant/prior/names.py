"""Names of classes: numbers that have names go by these, and never by the order in which they happen to stand.

Names are the keys of a mapping, the index of a pandas Series that is more than a range, or the columns of a frame.
Where both sides have names, these are matched. Where one side has none, it goes by position, in the order of the
sorted classes: names in any other order contradict it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.errors import ColumnOrderError, InvalidInputError, ShapeError, did_you_mean
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike, as_labels


def read_names(given: ArrayLike) -> tuple[ArrayLike, list[Any] | None]:
    """Return numbers, and the names that they have."""
    if isinstance(given, Mapping):
        return list(given.values()), list(given)
    import narwhals as nw

    series = nw.from_native(given, allow_series=True, pass_through=True)
    index = nw.maybe_get_index(series) if isinstance(series, nw.Series) else None
    is_range = type(index).__name__ == "RangeIndex" and index.step > 0  # type: ignore[union-attr]
    return given, None if index is None or is_range else index.tolist()


def read_columns(table: ArrayLike) -> list[str]:
    """Return the names of the columns of a frame; none of other containers, or where columns are merely numbered."""
    import narwhals as nw

    frame = nw.from_native(table, pass_through=True)
    columns = list(map(str, frame.columns)) if isinstance(frame, nw.DataFrame) else []
    return [] if columns == [str(k) for k in range(len(columns))] else columns


def places_of(wanted: Sequence[Any], found: Sequence[Any]) -> list[int] | None:
    """Return the place in `found` of each of `wanted`; None unless both hold the same names, each once.

    Names are the same where their texts are, or where all of one side are those of the other between one prefix and
    one suffix, as p_buy and p_sell are buy and sell.
    """
    one, other = [str(name) for name in wanted], [str(name) for name in found]
    if len(one) != len(other) or len(set(one)) < len(one) or len(set(other)) < len(other):
        return None
    for prefix, suffix in _affixes(one, other):
        if {f"{prefix}{name}{suffix}" for name in other} == set(one):
            return [other.index(name[len(prefix) : len(name) - len(suffix)]) for name in one]
    for prefix, suffix in _affixes(other, one):
        if {f"{prefix}{name}{suffix}" for name in one} == set(other):
            return [other.index(f"{prefix}{name}{suffix}") for name in one]
    return None


def in_class_order(values: FloatArray, columns: Sequence[str], classes: Sequence[Any] | None) -> FloatArray:
    """Return probabilities with their columns in the order of the classes, where all columns are named after these."""
    places = None if classes is None else places_of(classes, columns)
    return values if places is None or places == sorted(places) else np.ascontiguousarray(values[:, places])


def _affixes(long: Sequence[str], short: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what may stand before and after each of the short names in the long ones: nothing first."""
    yield "", ""
    longest = max(short, key=len, default="")
    for name in long:
        for at in range(len(name) - len(longest) + 1):
            if name.startswith(longest, at):
                yield name[:at], name[at + len(longest) :]


def match_names(names: Sequence[Any] | None, known: Sequence[Any] | None, *, name: str, of: str) -> list[int] | None:
    """Return the places that put the numbers of the argument `name` in the order of the known names that `of` has.

    None stands for the order in which they are. Where nothing is known, names that are 0 to K - 1 go by number, and
    others have to be sorted, as classes are. Names that are not the same or contradict the order are refused.
    """
    if names is None:
        return None
    listed = list(names)
    if known is not None:
        places = places_of(known, listed)
        if places is None:
            missing = [label for label in map(str, known) if label not in set(map(str, listed))]
            extra = [label for label in map(str, listed) if label not in set(map(str, known))]
            meant = did_you_mean(missing[0], extra) if missing else ""
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


def by_class(
    given: Mapping[str, ArrayLike],
    read: Callable[[ArrayLike, str], FloatArray],
    classes: Sequence[Any] | None,
    *,
    columns: Sequence[str] | None = None,
) -> tuple[list[FloatArray], list[Any] | None]:
    """Return arguments with a number for each class in the order of the sorted classes, and these if they are known.

    `read` checks the numbers of an argument. `classes` are the sorted classes, where the caller says them; `columns`
    the names of the columns of the probabilities that the numbers are for: empty where they have none, None where
    there are no probabilities yet.
    """
    parts = {name: read_names(value) for name, value in given.items()}
    values = {name: read(value, name) for name, (value, _) in parts.items()}
    (first, size), *others = ((name, numbers.size) for name, numbers in values.items())
    for name, other in others:
        if other != size:
            raise ShapeError(f"{first} has {size} base rates and {name} has {other}. Pass one per class in both.")
    named = {name: found for name, (_, found) in parts.items() if found is not None}
    for name, found in named.items():
        again = [each for each in found if found.count(each) > 1]
        if again:
            raise InvalidInputError(f"{name} has the name {again[0]!r} twice. Give each number a name of its own.")
    known: Sequence[Any] | None = classes
    of = "classes"
    if classes is None and named:
        of, labels = next(iter(named.items()))
        if columns:
            known = [labels[k] for k in match_names(labels, columns, name=of, of="probabilities") or ()]
        else:
            known = as_labels(labels, name=f"the index of {of}").classes.tolist()
            unnamed = [name for name in given if name not in named]
            unnamed += ["probabilities"] if columns is not None else ["classes"] if len(given) == 1 else []
            for name, found in named.items() if unnamed else ():
                match_names(found, None, name=name, of=unnamed[-1])
    if known is None:
        return list(values.values()), None
    if len(known) != size:
        raise ShapeError(f"{of} names {len(known)} classes for {size} numbers of {first}. Pass one for each.")
    places = {name: match_names(named.get(name), known, name=name, of=of) for name in given}
    arranged = [numbers if places[name] is None else numbers[places[name]] for name, numbers in values.items()]
    if classes is not None:
        return arranged, list(classes)
    ordered = as_labels(known, name=f"the index of {of}").classes.tolist()
    return [numbers[[known.index(label) for label in ordered]] for numbers in arranged], ordered
