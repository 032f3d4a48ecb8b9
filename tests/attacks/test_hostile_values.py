"""Documents of what no file holds: other versions, other types, cycles, bombs and control characters."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from valid_documents import BINARY, COLUMNS, GROUPED, PRIOR_SHIFT, changed

import calibrant as cb
from calibrant.errors import DocumentError, UnsafeDocumentError, UnsupportedVersionError
from calibrant.persistence import from_document, load, to_document


def test_newer_version_is_refused_whatever_else_it_holds(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"format": "calibrant", "version": 3, "anything": {"new": [1]}}), "utf-8")
    message = r"version: 3 was written by a newer calibrant; this one, .*, reads up to 2\. Upgrade it: pip install"
    with pytest.raises(UnsupportedVersionError, match=message):
        load(file)


def test_version_of_before_the_first_release_is_refused_whatever_else_it_holds(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"format": "calibrant", "version": 1, "kind": "calibrator", "params": {}}), "utf-8")
    message = r"version: 1 was written before the first release of calibrant\. Fit the calibrator again\."
    with pytest.raises(UnsupportedVersionError, match=message):
        load(file)


@pytest.mark.parametrize("labels", [[2**63, 2**64 - 1], [0, 2**63], [-(2**63), 2**63 - 1]])
def test_labels_of_any_64_bits_come_back(labels: list[int]) -> None:
    for document, field in ((BINARY, "classes"), (GROUPED, "groups"), (PRIOR_SHIFT, "classes")):
        loaded = from_document(changed(document, field, labels))
        assert getattr(loaded, f"{field}_").tolist() == labels
        assert to_document(loaded)[field] == labels


def test_whole_numbers_stand_for_floats_where_nothing_is_lost() -> None:
    loaded = from_document(changed(BINARY, "map.y", [0, 0.5, 0.5, 1]))
    assert loaded.map_.y.tolist() == [0.0, 0.5, 0.5, 1.0]
    assert loaded.map_.y.dtype == np.float64


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, object(), (0.1, 0.2), np.float64(0.1), b"x", {1}])
def test_document_of_other_than_plain_values_is_refused(value: Any) -> None:
    with pytest.raises(DocumentError, match=r"map.x\[0\]: .* is not (plain data|a finite number)"):
        from_document(changed(BINARY, "map.x.0", value))
    with pytest.raises(DocumentError, match=r"metadata.deep: .* is not (plain data|a finite number)"):
        from_document(changed(COLUMNS, "metadata.deep", value))


def test_keys_that_are_not_text_are_refused() -> None:
    with pytest.raises(DocumentError, match="metadata: the key 1 is not text"):
        from_document(BINARY | {"metadata": {1: "a"}})
    with pytest.raises(DocumentError, match="not a calibrant document: it has no field 'format'"):
        from_document({1: "a"})


@pytest.mark.parametrize(
    ("value", "what"), [([], "a list"), ("calibrant", "the single value 'calibrant'"), (None, "the single value null")]
)
def test_what_is_not_an_object_is_no_document(value: Any, what: str) -> None:
    with pytest.raises(DocumentError, match=f"this is not a calibrant document but {what}"):
        from_document(value)


def test_document_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    with pytest.raises(UnsafeDocumentError, match="nested deeper than 32 levels"):
        from_document(BINARY | {"metadata": loop})


@pytest.mark.slow
def test_references_that_multiply_are_refused_in_bounded_time() -> None:
    laughs: list[Any] = ["ha"] * 10
    for _ in range(20):
        laughs = [laughs] * 10
    start = time.perf_counter()
    with pytest.raises(UnsafeDocumentError, match=r"has more than 8,388,608 values, or 262,144 lists and objects"):
        from_document(BINARY | {"metadata": {"laughs": laughs}})
    assert time.perf_counter() - start < 10.0


@pytest.mark.slow
def test_long_values_and_keys_make_short_messages() -> None:
    attacks: list[Callable[[], Any]] = [
        lambda: from_document(BINARY | {"k" * 10**6: 1}),
        lambda: from_document(BINARY | {"method": "n" * 10**6}),
        lambda: from_document(BINARY | {"metadata": {"k" * 10**6: {"a": math.nan}}}),
        lambda: from_document(BINARY | {"n_rows": 10**5000}),
        lambda: from_document(BINARY | {"map": {"kind": "interpolated", "x": [0.1] * 10**5, "y": [2.0] * 10**5}}),
    ]
    for attack in attacks:
        with pytest.raises(DocumentError) as caught:
            attack()
        assert len(str(caught.value)) < 500


def test_control_characters_do_not_reach_the_terminal() -> None:
    for attack in (
        BINARY | {"method": "\x1b[2J"},
        BINARY | {"\x1b[2J": 1},
        BINARY | {"metadata": {"\x1b[2J": math.nan}},
    ):
        with pytest.raises(DocumentError) as caught:
            from_document(attack)
        assert str(caught.value).isprintable()


def test_refusal_leaves_nothing_half_built() -> None:
    fitted = from_document(BINARY)
    with pytest.raises(DocumentError):
        from_document(changed(BINARY, "map.y.3", 2.0))
    assert fitted.predict_proba([0.25]).tolist() == cb.persistence.from_document(BINARY).predict_proba([0.25]).tolist()
