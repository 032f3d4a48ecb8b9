"""Checks of the recalibrators' settings."""

from __future__ import annotations

import math
import numbers

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError


def check_not_negative(name: str, value: object) -> float:
    """Return a finite number of at least zero, or raise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name}={value!r} is not a number. Pass a number of at least 0.")
    if not math.isfinite(value) or value < 0.0:
        raise InvalidInputError(f"{name}={value!r} is not a finite number of at least 0. Pass 0 or more.")
    return float(value)


def check_boolean(name: str, value: object) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(f"{name}={value!r} is neither True nor False. Pass one of them.")
