"""Documents that were broken, changed or made up: each is refused by the field, the value and a fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hostile_cases import CASES
from hostile_nested_cases import NESTED_CASES
from valid_documents import VALID, changed

import calibrant as cb
from calibrant.errors import DocumentError
from calibrant.persistence import from_document, load, read_document, to_document


@pytest.mark.parametrize("document", VALID.values(), ids=VALID)
def test_documents_that_the_attacks_change_are_valid(document: dict[str, Any]) -> None:
    assert to_document(from_document(document)) == document | {"calibrant": cb.__version__}


assert not CASES.keys() & NESTED_CASES.keys()
ALL = CASES | NESTED_CASES


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
