"""Checks of the names, costs and capacities of a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.decisions.losses import numbers_of_rows
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError, unknown_name
from calibrant.validation import check_integer, check_number


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
