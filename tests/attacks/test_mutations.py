"""Every field of every document, replaced, taken away and added to: refused, or loaded to something that works."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from answers import check_answers
from valid_documents import GONE, ONE_VS_REST, STEP, VALID, changed

from calibrant.errors import DocumentError
from calibrant.persistence import from_document

_MOST = sys.float_info.max
#: What each value is replaced by. NaN and infinity are in no file, but may be in a document that was built.
REPLACEMENTS: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "text": "x",
    "empty text": "",
    "text of a number": "1",
    "empty list": [],
    "list of lists": [[[]]],
    "list of a number": [0.5],
    "list of two": [0.25, 0.75],
    "falling list": [0.75, 0.5, 0.25],
    "list of huge numbers": [-_MOST, _MOST, _MOST],
    "list of many": [0.5] * 1000,
    "empty object": {},
    "object": {"kind": "step", "method": "isotonic"},
    "map of one score": STEP["map"],
    "map of three": ONE_VS_REST,
    "unknown kind": {"kind": "nothing"},
    "zero": 0,
    "minus zero": -0.0,
    "one": 1,
    "minus one": -1,
    "half": 0.5,
    "smallest": 5e-324,
    "largest": _MOST,
    "least": -_MOST,
    "whole number of 64 bits": 2**63,
    "whole number of 65 bits": 2**64,
    "huge whole number": 10**400,
    "nan": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
}
#: In a header or beside the object, where no class reads them.
FREE = ("metadata", "calibrant")
#: What older documents lack: without it they are as they were.
LATER = ("settings.allow_inversion", "settings.exportable", "report", "provenance")


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every value in a document; of a long list, of its first and last elements."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, inner in items if len(items) < 4 or isinstance(value, dict) else (items[0], items[-1]):
        here = f"{path}.{key}" if path else str(key)
        yield here
        yield from paths(inner, here)


def at(document: Any, path: str) -> Any:
    for step in path.split("."):
        document = document[int(step) if isinstance(document, list) else step]
    return document


def replaced(document: Any, path: str, value: Any) -> Any:
    """Return a copy with one value replaced, perhaps by one that JSON lacks."""
    document = copy.deepcopy(document)
    before, _, last = path.rpartition(".")
    place = at(document, before) if before else document
    place[int(last) if isinstance(place, list) else last] = value
    return document


@pytest.mark.parametrize("name", VALID)
def test_replaced_value_is_refused_by_its_path_or_loads_to_what_works(name: str) -> None:
    document = VALID[name]
    for path in paths(document):
        for what, value in REPLACEMENTS.items():
            try:
                fitted = from_document(replaced(document, path, value))
            except DocumentError as error:
                refusal = str(error)
            else:
                refusal = ""
            assert len(refusal) < 1000, (path, what)
            if refusal:
                continue
            try:
                check_answers(fitted)
            except Exception as error:
                raise AssertionError(f"{path} as {what} loads, but: {error!r}") from error


@pytest.mark.parametrize("name", VALID)
def test_every_missing_and_every_further_field_is_refused(name: str) -> None:
    document = VALID[name]
    for path in paths(document):
        if path.startswith(FREE):
            continue
        is_member = not path.rpartition(".")[2].isdigit()
        if is_member and not path.endswith(LATER):
            with pytest.raises(DocumentError):
                from_document(changed(document, path, GONE))
        if isinstance(at(document, path), dict):
            with pytest.raises(DocumentError, match="unknown field 'further'"):
                from_document(changed(document, f"{path}.further", 1))
    with pytest.raises(DocumentError, match="unknown field 'further'"):
        from_document(document | {"further": 1})


@pytest.mark.parametrize("name", VALID)
def test_list_that_lost_or_repeats_an_element_is_refused_or_loads_to_what_works(name: str) -> None:
    document = VALID[name]
    for path in paths(document):
        values = at(document, path)
        if not isinstance(values, list):
            continue
        for other in (values[:-1], values[1:], [*values, *values[-1:]], values[::-1], values * 2):
            try:
                fitted = from_document(changed(document, path, other))
            except DocumentError:
                continue
            check_answers(fitted)
