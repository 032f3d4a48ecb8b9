"""Fields of documents: what they hold is checked, and refused by path, value and fix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from calibrant.document_field import VERSION, DocumentField, join, show, within
from calibrant.errors import DocumentError, UnsafeDocumentError


def field(value: Any, path: str = "f") -> DocumentField:
    return DocumentField(value, path)


def test_every_field_knows_the_version_of_its_document() -> None:
    root = DocumentField({"a": [{"b": [1.0, 2.0]}], "c": 1}, version=7)
    (item,) = root.member("a").items()
    assert [inner.version for inner in item.member("b").items()] == [7, 7]
    assert root.without("c").members(("a",))["a"].version == 7
    assert field(1).version == VERSION


def test_path_leads_to_the_value() -> None:
    root = DocumentField({"map": {"maps": [{}, {"x": [0.5, "text"]}]}})
    with pytest.raises(
        DocumentError, match=r"^map.maps\[1\].x\[1\]: 'text' is not a number\. Save the calibrator again\.$"
    ):
        root.member("map").member("maps").items()[1].member("x").numbers()
    assert join("", "a") == "a"
    assert join("a", "b c") == "a['b c']"
    assert len(join("a", "k" * 1000)) < 100


@pytest.mark.parametrize(
    ("read", "value", "problem"),
    [
        (lambda f: f.text(), 1, "1 is not text"),
        (lambda f: f.boolean(), 1, "1 is not true or false"),
        (lambda f: f.integer(minimum=0), True, "true is not a whole number"),
        (lambda f: f.integer(minimum=0), -1, r"-1 is outside \[0, 9223372036854775807\]"),
        (lambda f: f.number(), True, "true is not a number"),
        (lambda f: f.number(), float("inf"), "inf is not a finite number"),
        (lambda f: f.number(), 2**53 + 1, "9007199254740993 is a whole number that float64 can't hold exactly"),
        (lambda f: f.number(), None, "null is not a number"),
        (lambda f: f.fraction(), 1.0, r"1\.0 is outside \(0, 1\)"),
        (lambda f: f.numbers(minimum=3), [1.0, 2.0], "a list of 2 is too short: it needs at least 3"),
        (lambda f: f.probabilities(), [0.5, 1.5], r"\[1\]: 1.5 is outside \[0, 1\]"),
        (lambda f: f.rising(), [0.5, 0.5], r"\[1\]: 0.5 is not above f\[0\] = 0.5, but these must rise strictly"),
        (lambda f: f.labels(), [True, 2], r"\[1\]: 2 is of another kind than f\[0\]: all must be true and false"),
        (lambda f: f.names(), ["a", "a"], r"\[1\]: 'a' is there twice"),
        (lambda f: f.names(minimum=2), ["a"], "a list of 1 is too short"),
        (lambda f: f.score_names(2), ["a"], "a list of 1 does not go with 2 columns of scores: one name each"),
        (lambda f: f.choice(("one", "two")), "tow", r"'tow' is none of 'one', 'two'\. Did you mean 'two'\?"),
        (lambda f: f.single(), {}, "an empty object is not a single value"),
        (lambda f: f.object(), [], "an empty list is not an object with named fields"),
    ],
)
def test_wrong_value_is_refused(read: Any, value: Any, problem: str) -> None:
    with pytest.raises(DocumentError, match=rf"^f(: )?{problem}"):
        read(field(value))


def test_right_values_are_returned() -> None:
    assert field(3).number() == field(3).number(null=0.0) == 3.0
    assert field(None).number(null=-math.inf) == -math.inf
    assert field([0.5, 1]).numbers().tolist() == [0.5, 1.0]
    assert field(["b", "a"]).names() == ("b", "a")
    assert field(None).score_names(3) is None
    assert field(["p"]).score_names(2, or_one=True) == ("p",)
    assert field([False, True]).labels().dtype == np.bool_
    assert field([2**63, 2**64 - 1]).labels().tolist() == [2**63, 2**64 - 1]


def test_unknown_field_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(DocumentError, match=r"^f: unknown field 'alpa'\. Did you mean 'alpha'\? Remove it\.$"):
        field({"alpha": 1, "alpa": 2}).members(("alpha",))


def test_long_values_are_shown_short_and_without_control_characters() -> None:
    for value in ("x" * 10**6, 10**5000, [0] * 10**5, "\x1b[2J", {"a": 1}):
        assert len(show(value)) < 100
        assert show(value).isprintable()


def test_place_stands_before_a_refusal_of_its_own_kind() -> None:
    with pytest.raises(UnsafeDocumentError, match=r"^c\.json: too large$"), within("c.json"):
        raise UnsafeDocumentError("too large")
