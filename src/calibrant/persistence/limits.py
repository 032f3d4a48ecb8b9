"""Plain data: what a document may be made of, and how much of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from calibrant.document_field import LARGEST_INTEGER, LARGEST_UNSIGNED, join, show
from calibrant.errors import DocumentError, InvalidTypeError, UnsafeDocumentError
from calibrant.phrases import has_half_pair

#: Largest file, in bytes: a map of several million knots.
MAX_BYTES = 256 * 2**20
#: Most values, most lists and objects among them, and how deep these may lie in each other.
MAX_VALUES = 2**23
MAX_CONTAINERS = 2**18
MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for something without a single meaning that a parser has read; `check_plain` refuses it by its path."""

    problem: str
    fix: str


def too_large(what: str) -> UnsafeDocumentError:
    """Build the error for a document that would exhaust memory, time or the stack."""
    return UnsafeDocumentError(f"the document {what}. Calibrators are smaller: get the file again from its source.")


def check_size(n_values: int = 0, n_containers: int = 0, depth: int = 0) -> None:
    """Refuse a document of too many values, of too many lists and objects, or of some that lie too deep."""
    if n_values > MAX_VALUES or n_containers > MAX_CONTAINERS:
        raise too_large(f"has more than {MAX_VALUES:,} values, or {MAX_CONTAINERS:,} lists and objects")
    if depth > MAX_DEPTH:
        raise too_large(f"is nested deeper than {MAX_DEPTH} levels")


def check_plain(document: object) -> None:
    """Refuse what is not plain data: other types, numbers that aren't finite or need over 64 bits, and sheer size.

    A list that is referred to many times counts many times, so the work is bounded whatever refers to what.
    """
    pending: list[tuple[object, str, int]] = [([document], "", 0)]
    n_values = n_containers = 0
    while pending:
        container, path, depth = pending.pop()
        elements = _elements(container, path)
        n_containers += 1
        n_values += len(elements)
        check_size(n_values, n_containers, depth)
        if _are_numbers(elements):
            continue
        keys = container if isinstance(container, dict) else range(len(elements))
        for key, value in zip(keys, elements, strict=True):
            if type(value) is dict or type(value) is list:
                pending.append((value, join(path, key) if depth else "", depth + 1))
            elif fault := _fault(value):
                raise DocumentError(f"{join(path, key) if depth else 'the document'}: {fault}")


def _are_numbers(elements: Sequence[Any]) -> bool:
    """Say whether all are of one kind of number and none has a fault, faster than one by one."""
    kinds = set(map(type, elements))
    if kinds == {float}:
        return all(map(math.isfinite, elements))
    return kinds == {int} and min(elements) >= -LARGEST_INTEGER - 1 and max(elements) <= LARGEST_UNSIGNED


def _elements(container: object, path: str) -> Sequence[Any]:
    if not isinstance(container, dict):
        return cast(list[Any], container)
    for key in container:
        place = path or "the document"
        if type(key) is not str:
            raise DocumentError(f"{place}: the key {show(key)} is not text. Name all fields by text.")
        if fault := _fault(key):
            raise DocumentError(f"{place}: the key {fault}")
    return list(container.values())


def _fault(value: Any) -> str:
    """Say what is wrong with a single value and how to mend it, or nothing."""
    kind, problem = type(value), ""
    if isinstance(value, Unreadable):
        return f"{value.problem}. {value.fix}"
    if kind is float and not math.isfinite(value):
        problem = "is not a finite number. Write one within the range of float64."
    elif kind is int and not -LARGEST_INTEGER - 1 <= value <= LARGEST_UNSIGNED:
        problem = "needs more than 64 bits. Write it as text."
    elif kind is str and not value.isascii() and has_half_pair(value):
        problem = "holds half a surrogate pair, which UTF-8 can't express. Replace that character."
    elif value is not None and kind not in (float, int, str, bool):
        problem = f"of type {kind.__name__} is not plain data. Write it as text."
    return problem and f"{show(value)} {problem}"


def as_plain(value: object, path: str, *, depth: int = 1) -> object:
    """Return a copy as plain data: NumPy values, tuples and mappings become what JSON has."""
    check_size(depth=depth)
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, bool):
        return value
    for kind, plain in ((str, str.__str__), (int, int), (float, float)):
        if isinstance(value, kind):
            return plain(value)
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else _not_plain(key, path): as_plain(v, join(path, key), depth=depth + 1)
            for key, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [as_plain(v, join(path, i), depth=depth + 1) for i, v in enumerate(value)]
    return _not_plain(value, path)


def _not_plain(value: object, path: str) -> object:
    raise InvalidTypeError(
        f"{path}: {show(value)} of type {type(value).__name__} can't be stored. "
        "Pass text, numbers, booleans, None, and lists and dicts of these, with keys of text."
    )
