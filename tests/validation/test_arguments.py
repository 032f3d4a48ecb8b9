"""Single arguments: numbers, flags, choices and seeds are what they say, and refused by name, value and fix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError, UnknownNameError
from calibrant.validation import (
    as_generator,
    at_first,
    check_choice,
    check_flag,
    check_fraction,
    check_integer,
    check_number,
    check_same_length,
)


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), np.int64(3)])
def test_any_number_becomes_a_float(value: Any) -> None:
    found = check_number("x", value, minimum=0.0, maximum=3.0)
    assert (found, type(found)) == (3.0, float)


@pytest.mark.parametrize(
    ("value", "bounds", "kind", "text"),
    [
        ("3", {}, InvalidTypeError, r"x='3' is not a number\. Pass a number in \(-inf, inf\)\."),
        (True, {}, InvalidTypeError, "x=True is not a number"),
        (None, {"minimum": 0.0}, InvalidTypeError, r"Pass a number in \[0, inf\)"),
        (np.nan, {}, InvalidInputError, "x=nan is outside"),
        (10**400, {}, InvalidInputError, r"is outside \(-inf, inf\)"),
        (np.inf, {"minimum": 0.0}, InvalidInputError, r"x=inf is outside \[0, inf\)"),
        (-0.1, {"minimum": 0.0, "maximum": 1.0}, InvalidInputError, r"x=-0\.1 is outside \[0, 1\]"),
        (0.0, {"minimum": 0.0, "is_open": True}, InvalidInputError, r"x=0\.0 is outside \(0, inf\)"),
        (2, {"maximum": 1.0, "example": "0.5"}, InvalidInputError, r"Pass a number in \(-inf, 1\], such as 0\.5\."),
    ],
)
def test_what_is_no_number_within_bounds_is_refused(value: Any, bounds: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        check_number("x", value, **bounds)


def test_fractions_whole_numbers_and_flags() -> None:
    assert check_fraction("level", 0.9) == 0.9
    assert check_integer("cv", np.int32(5), minimum=2) == 5
    assert check_flag("bounded", np.bool_(True)) is True
    with pytest.raises(InvalidInputError, match=r"level=1 is outside \(0, 1\).*such as 0\.95"):
        check_fraction("level", 1)
    with pytest.raises(InvalidInputError, match=r"cv=1 is too small\. Pass an integer of at least 2"):
        check_integer("cv", 1, minimum=2)
    with pytest.raises(InvalidTypeError, match=r"cv=2\.0 is not a whole number"):
        check_integer("cv", 2.0, minimum=2)
    with pytest.raises(InvalidTypeError, match="bounded=1 is not True or False"):
        check_flag("bounded", 1)


def test_choices_and_lengths() -> None:
    check_choice("input", "logit", ("logit", "score"))
    check_same_length(3, 3, "a", "b")
    with pytest.raises(UnknownNameError, match=r"unknown value of input: 'logits'\. Did you mean 'logit'\?"):
        check_choice("input", "logits", ("logit", "score"))
    with pytest.raises(ShapeError, match="a has 2,000 rows and b has 3"):
        check_same_length(2000, 3, "a", "b")


def test_a_seed_a_generator_or_none_makes_a_generator() -> None:
    assert as_generator(3).random() == np.random.default_rng(3).random()
    given = np.random.default_rng(1)
    assert as_generator(given) is given
    assert isinstance(as_generator(None), np.random.Generator)
    for wrong in (-1, 1.5, "seed"):
        with pytest.raises((InvalidInputError, InvalidTypeError), match="rng="):
            as_generator(wrong)  # type: ignore[arg-type]


def test_the_message_about_bad_rows_names_the_first_and_counts_them() -> None:
    bad = np.array([False, True, True])
    assert at_first(bad, "y", "is odd", "Drop it.") == "y row 1: is odd (2 of 3 rows). Drop it."
    assert at_first(bad, "y", "is odd", "Drop it.", column="p").startswith("y row 1, column 'p': is odd")
