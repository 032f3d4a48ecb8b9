"""Documents that were broken, changed or made up: each is refused by the field, the value and a fix."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hostile_cases import CASES
from hostile_nested_cases import NESTED_CASES
from hostile_tree_cases import MILLION, TREE_CASES
from valid_documents import VALID, changed

import calibrant as cb
from calibrant.errors import DocumentError
from calibrant.persistence import from_document, load, read_document, to_document


@pytest.mark.parametrize("document", VALID.values(), ids=VALID)
def test_documents_that_the_attacks_change_are_valid(document: dict[str, Any]) -> None:
    assert to_document(from_document(document)) == document | {"calibrant": cb.__version__}


ALL = CASES | NESTED_CASES | TREE_CASES
assert len(ALL) == len(CASES) + len(NESTED_CASES) + len(TREE_CASES)


@pytest.mark.parametrize(("document", "path", "value", "message"), ALL.values(), ids=ALL)
def test_changed_document_is_refused_by_field_value_and_fix(
    tmp_path: Path, document: dict[str, Any], path: str, value: Any, message: str
) -> None:
    attack = changed(document, path, value)
    file = tmp_path / "c.json"
    file.write_text(json.dumps(attack), "utf-8")
    for read in (load, read_document):
        with pytest.raises(DocumentError, match=message) as caught:
            read(file)
        assert str(caught.value).startswith(f"{file}: ")
        assert str(caught.value).endswith((".", "?"))
    with pytest.raises(DocumentError, match=message):
        from_document(attack)


def test_a_million_nodes_are_refused_before_they_are_looked_at() -> None:
    start = time.process_time()
    with pytest.raises(DocumentError, match=r"trees.values.* holds more than 500,000 nodes"):
        from_document(MILLION)
    assert time.process_time() - start < 5.0
