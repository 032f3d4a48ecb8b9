"""Checks of single arguments: lengths, choices, whole numbers, other numbers, flags, seeds; where an array is wrong."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError, unknown_name
from calibrant.numerics import BoolArray


def at_first(bad: BoolArray, name: str, problem: str, fix: str, *, column: object = None) -> str:
    """Return the message about the first of the bad rows: where it is, its problem, how many there are, and the fix."""
    where = "" if column is None else f", column {column!r}"
    return f"{name} row {int(bad.argmax())}{where}: {problem} ({bad.sum():,} of {bad.size:,} rows). {fix}"


def check_same_length(n_first: int, n_second: int, first: str, second: str) -> None:
    """Raise ShapeError unless two arguments have one row each for the same rows."""
    if n_first != n_second:
        raise ShapeError(
            f"{first} has {n_first:,} rows and {second} has {n_second:,}. Pass one row of each per observation."
        )


def values_such_as(array: npt.NDArray[Any]) -> str:
    """Return what kind of values an array holds, and the first: NumPy calls text by its width in bits, as "str32"."""
    kind = {"U": "text", "T": "text", "S": "bytes"}.get(array.dtype.kind, f"{array.dtype.name} values")
    return f"{kind} such as {array.reshape(-1)[:1].tolist()[0]!r:.60}" if array.size else kind


def check_choice(name: str, value: object, options: Sequence[str]) -> None:
    """Raise UnknownNameError unless `value` is one of `options`."""
    if value not in options:
        raise unknown_name(f"value of {name}:", value, options)


def check_integer(name: str, value: object, *, minimum: int, maximum: int | None = None) -> int:
    """Return `value` as an int of at least `minimum`, and at most `maximum`, or raise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidTypeError(f"{name}={value!r} is not a whole number. Pass an integer of at least {minimum}.")
    if value < minimum:
        raise InvalidInputError(f"{name}={value!r} is too small. Pass an integer of at least {minimum}.")
    if maximum is not None and int(value) > maximum:
        raise InvalidInputError(f"{name}={value!r} is too large. Pass an integer of at most {maximum}.")
    return int(value)


def check_fraction(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1, or raise."""
    return check_number(name, value, minimum=0.0, maximum=1.0, is_open=True, example="0.95")


def check_number(
    name: str,
    value: object,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    is_open: bool = False,
    example: str = "",
) -> float:
    """Return `value` as a finite float within bounds, or raise; with `is_open` the bounds themselves are refused.

    `example` is a value to advise, or what else the argument can be, such as "2.0, or 'evidence'".
    """
    low, high = -math.inf if minimum is None else minimum, math.inf if maximum is None else maximum
    left, right = ("(" if is_open or math.isinf(low) else "["), (")" if is_open or math.isinf(high) else "]")
    wanted = f"number in {left}{low:g}, {high:g}{right}" + (f", such as {example}" if example else "")
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name}={value!r} is not a number. Pass a {wanted}.")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond float64
        number = math.inf
    is_inside = low < number < high if is_open else low <= number <= high
    if not (is_inside and math.isfinite(number)):
        raise InvalidInputError(f"{name}={value!r} is outside {left}{low:g}, {high:g}{right}. Pass a {wanted}.")
    return number


def check_flag(name: str, value: object) -> bool:
    """Return `value` as True or False, or raise: a number or a text is neither."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(f"{name}={value!r} is not True or False. Pass one of them.")
    return bool(value)


def as_generator(rng: int | np.random.Generator | None) -> np.random.Generator:
    """Return a generator: the one given, or a new one from a seed, or from the system's entropy for None."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    return np.random.default_rng(check_integer("rng", rng, minimum=0))
