"""JSON lines whose objects have different names, in as many chunks as there are lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from calibrant.errors import InvalidInputError, UnknownNameError
from calibrant.tables import formats, open_rows, read_columns

Make = Callable[[str, bytes], str]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(formats, "CHUNK_BYTES", 4)
    file = tmp_path / "t.jsonl"
    file.write_text('{"p": 1}\n\n{"p": 2, "late": "a"}\n{"late": "b"}\n')
    return file


def test_a_column_that_only_later_objects_have_is_found(path: Path) -> None:
    source = open_rows(path)
    assert source.names == ("p",)
    assert source.select(["la*"]) == ["late"]
    assert open_rows(path).read(["late", "p"]).to_pydict() == {"late": [None, "a", "b"], "p": [1, 2, None]}
    assert open_rows(path).read().column_names == ["p", "late"]


def test_a_column_that_no_object_has_is_refused_with_all_names(path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"has no column 'laet'\. Did you mean 'late'\? .* 'p', 'late'\."):
        open_rows(path).select(["laet"])


def test_batches_hold_a_missing_value_where_a_name_is_lacking(path: Path) -> None:
    found = [(batch.first_row, batch.table["p"].to_pylist()) for batch in open_rows(path).scan(["p"])]
    assert found == [(0, [1]), (1, [2]), (2, [None])]


def test_json_lines_may_lack_names_and_hold_blank_lines(make: Make) -> None:
    path = make("t.jsonl", b'{"p": 1}\r\n\r\n{"y": "a", "p": 0.5}\n \n{"y": null, "p": NaN}')
    read = read_columns(path, ["y"])
    assert read.to_pydict() == {"y": [None, "a", None]}


def test_other_columns_of_json_lines_may_mix_kinds(make: Make) -> None:
    path = make("t.jsonl", b'{"p": 1, "x": 1}\n{"p": 2, "x": {"a": []}}\n')
    assert read_columns(path, ["p"]).to_pydict() == {"p": [1, 2]}


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**60])
@pytest.mark.parametrize("other", ["1", "0.5", "null"])
def test_whole_numbers_beyond_64_bits_are_named(make: Make, number: int, other: str) -> None:
    path = make("t.jsonl", f'{{"p": {other}}}\n{{"p": {number}}}\n{{"p": {number}}}\n'.encode())
    said = rf"column 'p' of .* holds {str(number)[:40]}, beyond .* \(2 values of 3 read\)\. Write it as text"
    with pytest.raises(InvalidInputError, match=said):
        read_columns(path, ["p"])


def test_the_widest_whole_numbers_of_64_bits_are_read(make: Make) -> None:
    path = make("t.jsonl", f'{{"p": {2**63 - 1}}}\n{{"p": {-(2**63)}}}\n'.encode())
    assert read_columns(path, ["p"]).to_pydict() == {"p": [2**63 - 1, -(2**63)]}
