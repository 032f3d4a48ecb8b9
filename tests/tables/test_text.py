"""Text tables cut into records: exact for any size of chunks, and equal to Python's csv module."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, strategies as st

from calibrant.errors import InvalidInputError
from calibrant.tables import formats
from calibrant.tables.formats import FileBytes
from calibrant.tables.text import text_chunks


class InParts(io.BytesIO):
    """A stream that gives few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self.size = size

    def read(self, _: int | None = -1) -> bytes:
        return super().read(self.size)


def cut(data: bytes, size: int, *, format: str = "csv") -> list[tuple[bytes, bytes]]:
    """Return each record and its line ending, of data that come in chunks of `size` bytes."""
    file = FileBytes("x", format, None, data[:1], InParts(data[1:], size))  # type: ignore[arg-type]
    chunks = text_chunks(file, None if format == "jsonl" else ",")
    records = [record for chunk in chunks for record in chunk.records()]
    texts = [record.rstrip(b"\r\n") for record in records]
    return [(text, record[len(text) :]) for text, record in zip(texts, records, strict=True)]


FIELD = st.text(st.sampled_from('a1 ,;"\n\r\té'), max_size=6)
ENDING = st.sampled_from(["\n", "\r\n", "\r"])


@given(rows=st.lists(st.lists(FIELD, min_size=2, max_size=4), max_size=6), ending=ENDING, size=st.integers(1, 40))
def test_records_of_a_written_table_are_its_rows(rows: list[list[str]], ending: str, size: int) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator=ending, quoting=csv.QUOTE_ALL).writerows(rows)
    data = text.getvalue().encode()
    found = cut(data, size)
    assert b"".join(record + end for record, end in found) == data
    assert [next(csv.reader(io.StringIO(record.decode(), newline=""))) for record, _ in found] == rows


@given(text=st.text(st.sampled_from('a,"\n\r'), max_size=30), size=st.integers(1, 12))
def test_any_bytes_are_cut_as_csv_cuts_them_whatever_the_chunks(text: str, size: int) -> None:
    data = text.encode()
    try:
        whole = cut(data, 1000)
    except InvalidInputError:
        with pytest.raises(InvalidInputError, match="never ends"):
            cut(data, size)
        return
    assert cut(data, size) == whole
    assert b"".join(record + end for record, end in whole) == data
    by_python = list(csv.reader(io.StringIO(text, newline="")))
    assert [len(row) > 0 for row in by_python] == [len(record) > 0 for record, _ in whole]


def test_quotes_inside_unquoted_fields_are_plain_characters() -> None:
    assert [record for record, _ in cut(b'5" pipe,1\n6" pipe,2\n', 3)] == [b'5" pipe,1', b'6" pipe,2']


@pytest.mark.parametrize("size", range(1, 8))
def test_line_endings_may_mix(size: int) -> None:
    assert cut(b"a\r\nb\n\rc\r\r\nd", size) == [
        (b"a", b"\r\n"),
        (b"b", b"\n"),
        (b"", b"\r"),
        (b"c", b"\r"),
        (b"", b"\r\n"),
        (b"d", b""),
    ]


def test_json_lines_end_at_line_feeds_only() -> None:
    assert cut(b'{"a": "x\\ry"}\r\n{}', 3, format="jsonl") == [(b'{"a": "x\\ry"}', b"\r\n"), (b"{}", b"")]


def test_quote_that_never_ends_is_found_before_all_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.tables.text.LONGEST_RECORD", 1000)
    monkeypatch.setattr(formats, "CHUNK_BYTES", 300)
    stream = io.BytesIO(b'1,2\n3,"4\n' + b"5,6\n" * 10_000)
    source = FileBytes("x", "csv", None, b"a,b\n", stream)
    with pytest.raises(InvalidInputError, match=r"x: record 3, which begins '3,\"4.*never ends"):
        list(text_chunks(source, ","))
    assert stream.tell() < 2000


def test_long_unclosed_field_is_refused_in_linear_time() -> None:
    source = FileBytes("x", "csv", None, b'a,"' + b"x" * 5_000_000)
    with pytest.raises(InvalidInputError, match="never ends"):
        list(text_chunks(source, ","))


def test_a_field_may_be_longer_than_the_csv_module_lets_others_have_it() -> None:
    limit = csv.field_size_limit()
    record = b'1,"' + b"x\n" * limit + b'"'
    assert cut(record + b"\n2,3\n", 1 << 16) == [(record, b"\n"), (b"2,3", b"\n")]
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize("ending", [b"\n", b"\r", b"\r\n"])
def test_record_that_never_ends_is_numbered_whatever_the_line_endings(ending: bytes) -> None:
    with pytest.raises(InvalidInputError, match=r"record 3, which begins '\"c', never ends"):
        cut(b"a" + ending + b"b" + ending + b'"c', 2)
