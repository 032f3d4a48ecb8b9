"""Checks of the losses, names, costs and capacities of a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.decisions.losses import Losses, as_list, numbers_of_rows, read_losses
from calibrant.decisions.numbers import Ranges
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError, unknown_name
from calibrant.phrases import count, quoted
from calibrant.validation import as_labels, check_integer, check_number, check_sorted, match_classes


def as_name(action: object, argument: str) -> str:
    """Return the name of an action."""
    if not isinstance(action, str) or not action:
        raise InvalidTypeError(f"{argument} holds {action!r}, which is no name. Name actions by text.")
    return action


def as_pair(given: Sequence[Any], argument: str) -> tuple[Any, Any]:
    """Return two names, of no and yes."""
    if isinstance(given, str) or len(list(given)) != 2:
        raise ShapeError(
            f"{argument}={given!r} is no pair. Name two: what is said of a row that is refused, and taken."
        )
    first, second = given
    return first, second


def check_not_negative(name: str, value: Any) -> None:
    """Refuse a negative cost, or one of a row."""
    if np.ndim(value) == 0:
        check_number(name, value, minimum=0.0)
        return
    found = numbers_of_rows(value, name, len(value))
    bad = found < 0.0
    if bad.any():
        i = int(bad.argmax())
        raise InvalidInputError(
            f"{name} row {i}: {float(found[i])!r} is negative ({bad.sum():,} of {bad.size:,} rows). Give costs and "
            "benefits by their size; a Problem of a table takes losses of any sign."
        )


def as_capacity(given: Mapping[str, int] | None, actions: tuple[str, ...]) -> dict[str, int]:
    """Check how many rows actions may have at most."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidTypeError(f"capacity={given!r} is no mapping. Pass {{action: most rows}}.")
    for name, most in given.items():
        if name not in actions:
            raise unknown_name("action in capacity:", name, actions)
        check_integer(f"capacity[{name!r}]", most, minimum=0)
    if len(given) == len(actions):
        raise InvalidInputError(
            "every action has a capacity, so that rows may be left without one. Leave one of them unbounded, or add "
            "one by do_nothing=."
        )
    return {name: int(most) for name, most in given.items()}


def as_text(label: object) -> str:
    """Return a label as text, by which files and rows may name it: True is 1."""
    return str(int(label)) if isinstance(label, bool) else str(label).lower() if isinstance(label, str) else str(label)


def as_kind_of(label: object, other: object) -> object:
    """Return a label as one of the kind of another, where it can be."""
    if isinstance(label, str) and isinstance(other, (int, float)) and not isinstance(other, bool):
        try:
            return int(label)
        except ValueError:
            return label
    return str(label) if isinstance(other, str) else label


def places_of_classes(columns: Sequence[str], classes: Sequence[Any] | None, *, name: str) -> list[int] | None:
    """Return the place of the column of each class; where no classes are named, columns have to stand sorted."""
    if classes is None:
        check_sorted(columns, name=name)
        return None
    return match_classes(columns, list(classes), name=name)


def read_named_losses(
    given: Any, actions: Sequence[str] | None, classes: Sequence[Any] | None, ranges: Ranges | None
) -> tuple[Losses, list[str], tuple[Any, ...] | None]:
    """Check losses of classes, or of ranges, whose order is that of the thresholds, and their names."""
    if callable(given) and ranges is not None:
        raise InvalidInputError("losses is a function, which needs no thresholds. Leave thresholds= out.")
    actions, classes = as_list(actions, "actions"), as_list(classes, "classes")
    own, named, labels = read_losses(given, actions, classes)
    for what, told, found in (("actions", actions, named), ("classes", classes, labels)):
        if told is not None and found is not None:
            raise InvalidInputError(f"losses names its {what}. Leave {what}= out.")
    labels = labels if labels is not None or classes is None else list(classes)
    n_actions, n_classes = own.shape
    names = as_names(named or actions, n_actions)
    if ranges is not None:
        labels = ranges.names if labels is None else labels
        n_thresholds = len(ranges.thresholds)
        if not n_classes == len(labels) == n_thresholds + 1:
            raise ShapeError(
                f"losses are of {n_classes} ranges, and {count(n_thresholds, 'threshold')} "
                f"{'makes' if n_thresholds == 1 else 'make'} {n_thresholds + 1}. Give each range its losses."
            )
        return own, names, tuple(labels)
    if labels is None:
        return own, names, None
    return _by_sorted_class(own, names, labels)


def as_names(actions: Sequence[Any] | None, n_actions: int) -> list[str]:
    """Check the names of actions, or number them."""
    names = [str(a) for a in range(n_actions)] if actions is None else [as_name(each, "actions") for each in actions]
    again = [name for name in names if names.count(name) > 1]
    if again:
        raise InvalidInputError(f"actions has {again[0]!r} twice. Give each action a name of its own.")
    if len(names) != n_actions:
        raise ShapeError(f"actions names {count(len(names), 'action')} for losses of {n_actions}. Name each one.")
    return names


def _by_sorted_class(own: Losses, names: list[str], labels: list[Any]) -> tuple[Losses, list[str], tuple[Any, ...]]:
    """Check the names of the classes, and put them into their sorted order."""
    if len(labels) != own.shape[1]:
        raise ShapeError(f"classes names {len(labels)} classes for losses of {own.shape[1]}. Name each one.")
    if any(labels.count(label) > 1 for label in labels):
        raise InvalidInputError(f"classes names a class twice: {quoted(labels)}. Name each once.")
    if len(labels) < 2:
        raise InvalidInputError(f"losses are of one class, {labels[0]!r}. Give each action a loss with two at least.")
    ordered = as_labels(labels, name="classes").classes.tolist()
    return own.by_class([labels.index(label) for label in ordered]), names, tuple(ordered)
