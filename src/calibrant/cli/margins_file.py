"""The margins of `rank-preserve`: read from JSON or CSV, by class or by group and class, or counted from labels."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from calibrant.errors import InvalidInputError
from calibrant.phrases import listed

if TYPE_CHECKING:
    from calibrant.numerics import FloatArray
    from calibrant.rank_preserving import Margins
    from calibrant.validation import Labels

#: A total, or the ends of the interval that it has to lie in.
Total: TypeAlias = float | tuple[float, float]
Totals: TypeAlias = dict[str, Total]
#: Headings of a CSV that has a line per class.
_CLASS, _TOTAL, _LOW, _HIGH = "class", "total", "low", "high"
_AS_CSV = "a CSV has the columns class and total, or class, low and high; with --group the group's too"


def read_margins(paths: Sequence[str], groups: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the total of each class, by group where there are groups, and by set of groups where several; and classes.

    Raises
    ------
    InvalidInputError
        If a file holds no totals by name, or two have other classes; the message says how to write them.
    """
    found = [_read_one(path, group) for path, group in zip(paths, groups or (None,), strict=True)]
    classes = [list(next(iter(each.values())) if groups else each) for each in found]
    for path, own in zip(paths, classes, strict=True):
        if set(own) != set(classes[0]):
            raise InvalidInputError(
                f"{path} has margins of {listed(own)}, and {paths[0]} of {listed(classes[0])}. Name the same classes."
            )
    wanted = found[0] if len(found) == 1 else dict(zip(groups, found, strict=True))
    return wanted, classes[0]


def _read_one(path: str, group: str | None) -> dict[str, Any]:
    """Return the total of each class, or that of each class by group, from one file."""
    from calibrant import persistence

    if Path(path).suffix.lower() == ".csv":
        return _read_csv(path, group)
    is_grouped = group is not None
    found: Any = persistence.read_plain(path, fix='Write margins so: {"cat": 120, "dog": 80}, or as CSV.')
    values = found.values() if isinstance(found, dict) and is_grouped else [found]
    if not isinstance(found, dict) or not found or not all(isinstance(each, dict) and each for each in values):
        what = '{"north": {"cat": 20, "dog": 30}} with --group' if is_grouped else '{"cat": 120, "dog": 80}'
        raise InvalidInputError(f"{path} holds no margins by name. Write it so: {what}.")
    if not is_grouped:
        return _numbers(found, path)
    return {label: _numbers(each, path) for label, each in found.items()}


def _numbers(totals: dict[str, Any], path: str) -> Totals:
    """Return totals of one matrix, each a number or a pair of them."""
    checked: Totals = {}
    for name, value in totals.items():
        ends = value if isinstance(value, list) and len(value) == 2 else [value]
        if any(isinstance(end, bool) or not isinstance(end, (int, float)) for end in ends):
            fix = "Name the column of groups with --group." if isinstance(value, dict) else "Write one, or [low, high]."
            raise InvalidInputError(f"{path}: the margin of {name!r} is {value!r:.60}, no number. {fix}")
        checked[name] = (ends[0], ends[1]) if len(ends) == 2 else value
    return checked


def _read_csv(path: str, group: str | None) -> dict[str, Any]:
    """Return the totals of a CSV, with a line per class, or per group with a column per class."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, delimiter=_delimiter(file))
            lines, header = list(reader), list(reader.fieldnames or [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"{path} can't be read as CSV: {error}. Write it as UTF-8 text.") from None
    again = [name for name in header if header.count(name) > 1]
    if again:
        raise InvalidInputError(f"{path} has {header.count(again[0])} columns {again[0]!r}. Name each once.")
    names = [] if not lines else header
    if group is not None and group not in names:
        raise InvalidInputError(f"{path} has the columns {listed(names)}, and none is {group!r}, the --group.")
    has_ends = {_CLASS, _LOW, _HIGH} <= set(names)
    if not has_ends and not {_CLASS, _TOTAL} <= set(names):
        if group is None:
            raise InvalidInputError(f"{path} has the columns {listed(names)}: {_AS_CSV}.")
        by_group: dict[str, Any] = {}
        for k, line in enumerate(lines, 2):
            if line[group] in by_group:
                raise InvalidInputError(f"{path} line {k}: {line[group]!r} has a line already. Write one per group.")
            by_group[line[group]] = {name: _number(line, name, path, k) for name in names if name != group}
        return by_group
    found: dict[str, Any] = {}
    for k, line in enumerate(lines, 2):
        own: dict[str, Any] = found if group is None else found.setdefault(line[group], {})
        if line[_CLASS] in own:
            raise InvalidInputError(f"{path} line {k}: {line[_CLASS]!r} has a line already. Write one per class.")
        ends = [_number(line, name, path, k) for name in ((_LOW, _HIGH) if has_ends else (_TOTAL,))]
        own[line[_CLASS]] = (ends[0], ends[1]) if has_ends else ends[0]
    return found


def _delimiter(file: TextIO) -> str:
    """Return what stands between the fields of the header: a comma, or where it has none a semicolon or tab."""
    header = file.readline()
    file.seek(0)
    return next((mark for mark in ",;\t" if mark in header), ",")


def _number(line: dict[str, Any], name: str, path: str, k: int) -> float:
    try:
        return float(line[name])
    except (TypeError, ValueError):
        raise InvalidInputError(f"{path} line {k}, column {name!r}: {line[name]!r} is no number.") from None


def count_labels(
    labels: Labels, classes: list[str], by: Mapping[str, Labels], weight: FloatArray | None
) -> dict[str, Any]:
    """Return how often each class occurs among labels, by group and set of groups as `read_margins` does."""
    import numpy as np

    names = list(map(str, labels.classes.tolist()))
    missing = sorted(set(names) - set(classes))
    if missing:
        raise InvalidInputError(f"--label has {missing[0]!r}, and the columns are those of {listed(classes)}.")

    def count(rows: Any) -> Totals:
        w = None if weight is None else weight[rows]
        totals = np.bincount(labels.codes[rows], weights=w, minlength=len(names)).tolist()
        counts: Totals = dict.fromkeys(classes, 0.0)
        return counts | dict(zip(names, map(float, totals), strict=True))

    if not by:
        return count(slice(None))
    found = {}
    for name, groups in by.items():
        found[name] = {group: count(groups.codes == code) for code, group in enumerate(groups.classes.tolist())}
    return found if len(found) > 1 else next(iter(found.values()))


def as_targets(totals: dict[str, Any], tolerance: str | None, *, depth: int) -> dict[str, Any] | Margins:
    """Return what `solve` takes for totals that may lie within a tolerance, a number or a percentage of each.

    `depth` is 0 for totals of the classes, 1 for those by group, and 2 by set and group.
    """
    from calibrant.rank_preserving import Margins

    if depth:
        return {name: as_targets(own, tolerance, depth=depth - 1) for name, own in totals.items()}
    has_ends = any(isinstance(value, tuple) for value in totals.values())
    if tolerance is None and not has_ends:
        return totals
    if has_ends:
        if tolerance is not None:
            raise InvalidInputError("--tolerance goes with totals, and the margins are intervals. Leave it out.")
        ends = {name: value if isinstance(value, tuple) else (value, value) for name, value in totals.items()}
        return Margins(low={k: v[0] for k, v in ends.items()}, high={k: v[1] for k, v in ends.items()})
    text = str(tolerance)
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        raise InvalidInputError(f"--tolerance {text!r} is no number. Write one, or a percentage such as 2%.") from None
    if not 0.0 <= number < float("inf"):
        raise InvalidInputError(f"--tolerance {text} is not at least 0. Write a number, or a percentage such as 2%.")
    if text.endswith("%"):
        return Margins(totals, tolerance={name: 0.01 * number * value for name, value in totals.items()})
    return Margins(totals, tolerance=number)


def has_room(targets: Any) -> bool:
    """Say whether any of the totals, by group or not, has a tolerance."""
    from calibrant.rank_preserving import Margins

    return isinstance(targets, Margins) or (isinstance(targets, dict) and any(map(has_room, targets.values())))
