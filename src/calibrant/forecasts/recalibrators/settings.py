"""Checks of the recalibrators' settings."""

from __future__ import annotations

import math
import numbers

from calibrant.errors import InvalidInputError, InvalidTypeError


def check_not_negative(name: str, value: object) -> float:
    """Return a finite number of at least zero, or raise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name}={value!r} is not a number. Pass a number of at least 0.")
    if not math.isfinite(value) or value < 0.0:
        raise InvalidInputError(f"{name}={value!r} is not a finite number of at least 0. Pass 0 or more.")
    return float(value)
