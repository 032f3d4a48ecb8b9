"""Checks of single numbers and flags: what is refused, and in which words."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.validation import check_flag, check_number


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int64(1), Fraction(1, 2)])
def test_real_numbers_of_any_type_become_floats(value: object) -> None:
    found = check_number("x", value, minimum=0.0, maximum=1.0)
    assert type(found) is float
    assert found == float(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [True, np.True_, "1", None, 1j, [1.0], np.array(1.0)])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidTypeError, match=r"^x=.* is not a number\. Pass a number of at least 0\.$"):
        check_number("x", value, minimum=0.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400])
def test_numbers_that_are_not_finite_are_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^x=.* is not finite\."):
        check_number("x", value)


@pytest.mark.parametrize(
    ("value", "limits", "text"),
    [
        (-1.0, {"minimum": 0.0}, r"x=-1\.0 is below 0\. Pass a number of at least 0\."),
        (0, {"minimum": 0.0, "is_open": True}, r"x=0 is not above 0\. Pass a number above 0\."),
        (2.0, {"maximum": 1.0}, r"x=2\.0 is above 1\. Pass a number of at most 1\."),
        (1.0, {"maximum": 1.0, "is_open": True}, r"x=1\.0 is not below 1\. Pass a number below 1\."),
        (1.5, {"minimum": 0.0, "maximum": 1.0}, r"x=1\.5 is outside \[0, 1\]\. Pass a number in \[0, 1\]\."),
        (1.0, {"minimum": 0.0, "maximum": 1.0, "is_open": True}, r"x=1\.0 is outside \(0, 1\)\."),
    ],
)
def test_limits_are_said(value: float, limits: dict[str, float], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        check_number("x", value, **limits)  # type: ignore[arg-type]


def test_flags_are_true_or_false() -> None:
    assert check_flag("x", True) is True
    assert check_flag("x", np.False_) is False
    with pytest.raises(InvalidTypeError, match=r"x=1 is neither True nor False\. Pass one of them\."):
        check_flag("x", 1)
