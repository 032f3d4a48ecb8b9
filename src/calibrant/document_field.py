"""A field of a document: its value, its path, and checks whose refusals name both.

Fitted objects are kept in documents of plain data. The classes read their own bodies from fields, which know the format
version of the document that they are of: a decoder reads bodies of older versions by asking for `field.version`.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.errors import DocumentError, did_you_mean
from calibrant.numerics import FloatArray

#: The format version that this release writes, and the oldest one that it reads.
VERSION = 2
OLDEST_VERSION = 2
#: The fix that is always right: nobody has to write documents by hand.
SAVE_AGAIN = "Save the calibrator again."
#: Whole numbers up to here are floats without rounding.
_EXACT = 2**53
#: The largest whole numbers of 64 bits, with a sign and without.
LARGEST_INTEGER, LARGEST_UNSIGNED = 2**63 - 1, 2**64 - 1

_Option = TypeVar("_Option", bound=str)
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 80


@dataclass(frozen=True, slots=True)
class DocumentField:
    """A value in a document of some format version, the path to it, and what mends all that may be wrong with it.

    A path is such as ``map.maps[2].x``; it is empty for the document itself.
    """

    value: object
    path: str = ""
    version: int = VERSION
    fix: str = SAVE_AGAIN

    def refuse(self, problem: str, fix: str = "") -> NoReturn:
        """Raise DocumentError: path, value, what is wrong with it, and what to do."""
        raise DocumentError(f"{self.path or 'the document'}: {show(self.value)} {problem}. {fix or self.fix}")

    def members(self, names: Collection[str]) -> dict[str, DocumentField]:
        """Return the fields of an object that has all of `names`, and no other."""
        found = {key: self.member(key) for key in names}
        for key in self.object():
            if key not in names:
                place = self.path or "the document"
                raise DocumentError(f"{place}: unknown field {show(key)}.{did_you_mean(key, [*names])} Remove it.")
        return found

    def member(self, key: str) -> DocumentField:
        """Return one field of an object, whatever others there are."""
        members = self.object()
        if key not in members:
            raise DocumentError(f"{self.path or 'the document'}: the field {key!r} is missing. {self.fix}")
        return self._inner(members[key], key)

    def without(self, key: str) -> DocumentField:
        """Return the same object without one field."""
        return replace(self, value={name: value for name, value in self.object().items() if name != key})

    def items(self, *, minimum: int = 1) -> list[DocumentField]:
        """Return the elements of a list of at least `minimum`."""
        if not isinstance(self.value, list):
            self.refuse("is not a list")
        if len(self.value) < minimum:
            self.refuse(f"is too short: it needs at least {minimum}")
        return [self._inner(value, i) for i, value in enumerate(self.value)]

    def single(self) -> object:
        """Return a single value: text, a number, true, false or null."""
        if isinstance(self.value, (dict, list)):
            self.refuse("is not a single value")
        return self.value

    def text(self) -> str:
        """Return a string."""
        if not isinstance(self.value, str):
            self.refuse("is not text")
        return self.value

    def choice(self, options: Iterable[_Option]) -> _Option:
        """Return a string that is one of `options`."""
        text, known = self.text(), list(options)
        if text not in known:
            self.refuse(f"is none of {', '.join(map(repr, known))}", did_you_mean(text, known).strip())
        return text

    def boolean(self) -> bool:
        """Return true or false; 0 and 1 are neither."""
        if not isinstance(self.value, bool):
            self.refuse("is not true or false")
        return self.value

    def integer(self, *, minimum: int, maximum: int = LARGEST_INTEGER) -> int:
        """Return a whole number in a range; a boolean is none."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.refuse("is not a whole number")
        if not minimum <= self.value <= maximum:
            self.refuse(f"is outside [{minimum}, {maximum}]")
        return self.value

    def number(self, *, null: float | None = None) -> float:
        """Return a finite number as a float; a boolean is none. Null is `null`, where that is given."""
        if self.value is None and null is not None:
            return null
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            self.refuse("is not a number")
        if isinstance(self.value, int):
            if abs(self.value) > _EXACT:
                self.refuse("is a whole number that float64 can't hold exactly", "Write it with a decimal point.")
        elif not math.isfinite(self.value):
            self.refuse("is not a finite number")
        return float(self.value)

    def share(self) -> float:
        """Return a number in [0, 1]."""
        value = self.number()
        if not 0.0 <= value <= 1.0:
            self.refuse("is outside [0, 1]")
        return value

    def fraction(self) -> float:
        """Return a number in (0, 1)."""
        value = self.number()
        if not 0.0 < value < 1.0:
            self.refuse("is outside (0, 1)")
        return value

    def numbers(self, *, minimum: int = 1) -> FloatArray:
        """Return a list of at least `minimum` finite numbers as an array."""
        if isinstance(self.value, list) and len(self.value) >= minimum and set(map(type, self.value)) <= {float}:
            array = np.array(self.value, dtype=np.float64)
            if np.isfinite(array).all():
                return array
        return np.array([item.number() for item in self.items(minimum=minimum)], dtype=np.float64)

    def integers(self, *, minimum: int, maximum: int, shortest: int = 1) -> npt.NDArray[np.int64]:
        """Return a list of at least `shortest` whole numbers in a range as an array."""
        if isinstance(self.value, list) and len(self.value) >= shortest and set(map(type, self.value)) <= {int}:
            try:
                array = np.array(self.value, dtype=np.int64)
            except OverflowError:
                array = np.array([minimum - 1])
            if ((array >= minimum) & (array <= maximum)).all():
                return array
        found = [item.integer(minimum=minimum, maximum=maximum) for item in self.items(minimum=shortest)]
        return np.array(found, dtype=np.int64)

    def probabilities(self) -> FloatArray:
        """Return a list of numbers in [0, 1] as an array."""
        array = self.numbers()
        bad = (array < 0.0) | (array > 1.0)
        if bad.any():
            self.items()[int(bad.argmax())].refuse("is outside [0, 1]")
        return array

    def rising(self, *, minimum: int = 1) -> FloatArray:
        """Return a list of strictly rising numbers as an array."""
        array = self.numbers(minimum=minimum)
        bad = array[1:] <= array[:-1]
        if bad.any():
            i = int(bad.argmax()) + 1
            before = f"{join(self.path, i - 1)} = {array[i - 1].item()!r}"
            self.items()[i].refuse(f"is not above {before}, but these must rise strictly")
        return array

    def labels(self, *, minimum: int = 1) -> npt.NDArray[Any]:
        """Return at least `minimum` labels of one kind, booleans, integers or text, that rise strictly."""
        items = self.items(minimum=minimum)
        kind = type(items[0].value)
        names = {bool: "true and false", int: "whole numbers", str: "text"}
        if kind not in names:
            items[0].refuse("is not a class label: these are true and false, whole numbers, or text")
        for before, item in pairwise(items):
            if type(item.value) is not kind:
                item.refuse(f"is of another kind than {items[0].path}: all must be {names[kind]}")
            if not before.value < item.value:  # type: ignore[operator]
                item.refuse("is not above the class before it: classes are distinct and sorted")
        labels = [item.value for item in items]
        if kind is str:
            return np.array(labels, dtype=object)
        if kind is int and items[-1].value > LARGEST_INTEGER:  # type: ignore[operator]
            items[0].integer(minimum=0, maximum=LARGEST_UNSIGNED)
            return np.array(labels, dtype=np.uint64)
        return np.array(labels)

    def names(self, *, minimum: int = 1) -> tuple[str, ...]:
        """Return at least `minimum` names, which are text and distinct."""
        seen: dict[str, None] = {}
        for item in self.items(minimum=minimum):
            if item.text() in seen:
                item.refuse("is there twice, but names are distinct")
            seen[item.text()] = None
        return tuple(seen)

    def score_names(self, n_columns: int, *, or_one: bool = False) -> tuple[str, ...] | None:
        """Return the names of the columns of scores, or None where these had no names.

        There is one for each of `n_columns` classes or labels, or a single one where `or_one` says so.
        """
        if self.value is None:
            return None
        names = self.names()
        if len(names) != n_columns and not (or_one and len(names) == 1):
            self.refuse(f"does not go with {n_columns} columns of scores: one name each is needed")
        return names

    def object(self) -> dict[str, Any]:
        """Return the fields by name, or refuse."""
        if not isinstance(self.value, dict):
            self.refuse("is not an object with named fields")
        return self.value

    def _inner(self, value: Any, key: int | str) -> DocumentField:
        """Return an element of a list or a member of an object."""
        return DocumentField(value, join(self.path, key), self.version, self.fix)


def join(path: str, key: object) -> str:
    """Return the path of an element or member, kept short however long its key is."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if isinstance(key, str) and key.isidentifier() and key.isascii() and len(key) <= 40:
        return f"{path}.{key}" if path else key
    return f"{path}[{show(key)}]"


def show(value: object) -> str:
    """Return a short text of a value of any size, without control characters."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"a whole number of {value.bit_length():,} bits"
    if isinstance(value, (dict, list, tuple)):
        kind = "an object" if isinstance(value, dict) else "a list"
        return f"{kind} of {len(value):,}" if value else f"an empty {kind.split()[1]}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _REPR.repr(value)


@contextmanager
def within(place: str) -> Iterator[None]:
    """Put `place`, a file or a field, in front of what a refusal inside says."""
    try:
        yield
    except DocumentError as error:
        raise type(error)(f"{place}: {error}") from None
