"""Checks of single arguments: lengths, choices, flags, numbers, whole numbers, fractions."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError, unknown_name


def check_same_length(n_first: int, n_second: int, first: str, second: str) -> None:
    """Raise ShapeError unless two arguments have one row each for the same rows."""
    if n_first != n_second:
        raise ShapeError(
            f"{first} has {n_first:,} rows and {second} has {n_second:,}. Pass one row of each per observation."
        )


def check_choice(name: str, value: object, options: Sequence[str]) -> None:
    """Raise UnknownNameError unless `value` is one of `options`."""
    if value not in options:
        raise unknown_name(f"value of {name}:", value, options)


def check_integer(name: str, value: object, *, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`, or raise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidTypeError(f"{name}={value!r} is not a whole number. Pass an integer of at least {minimum}.")
    if value < minimum:
        raise InvalidInputError(f"{name}={value!r} is too small. Pass an integer of at least {minimum}.")
    return int(value)


def check_number(
    name: str,
    value: object,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    is_open: bool = False,
) -> float:
    """Return `value` as a finite float between `minimum` and `maximum`, or raise; `is_open` refuses the ends too."""
    if minimum is not None and maximum is not None:
        place = f"({minimum:g}, {maximum:g})" if is_open else f"[{minimum:g}, {maximum:g}]"
        problem, wanted = f"outside {place}", f"a number in {place}"
    elif minimum is not None:
        wanted = f"a number above {minimum:g}" if is_open else f"a number of at least {minimum:g}"
        problem = f"not above {minimum:g}" if is_open else f"below {minimum:g}"
    elif maximum is not None:
        wanted = f"a number below {maximum:g}" if is_open else f"a number of at most {maximum:g}"
        problem = f"not below {maximum:g}" if is_open else f"above {maximum:g}"
    else:
        problem, wanted = "", "a finite number"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name}={value!r} is not a number. Pass {wanted}.")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond float64
        number = math.inf
    if not math.isfinite(number):
        raise InvalidInputError(f"{name}={value!r} is not finite. Pass {wanted}.")
    low, high = -math.inf if minimum is None else minimum, math.inf if maximum is None else maximum
    if not (low < number < high if is_open else low <= number <= high):
        raise InvalidInputError(f"{name}={value!r} is {problem}. Pass {wanted}.")
    return number


def check_flag(name: str, value: object) -> bool:
    """Return `value` if it is True or False, or raise."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(f"{name}={value!r} is neither True nor False. Pass one of them.")
    return bool(value)


def check_fraction(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1, or raise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name}={value!r} is not a number. Pass a number between 0 and 1, such as 0.95.")
    if not 0.0 < float(value) < 1.0:
        raise InvalidInputError(f"{name}={value!r} is outside (0, 1). Pass a number such as 0.95.")
    return float(value)


def as_generator(rng: int | np.random.Generator | None) -> np.random.Generator:
    """Return a generator: the one given, or a new one from a seed, or from the system's entropy for None."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    return np.random.default_rng(check_integer("rng", rng, minimum=0))
