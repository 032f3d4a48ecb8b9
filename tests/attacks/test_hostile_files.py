"""Files that are no documents, or want to exhaust who reads them: refused in bounded time, with what they are."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.errors import DocumentError, UnsafeDocumentError
from calibrant.persistence import load, read_document

#: What no refusal may take, in seconds: a read that waits for ever is stopped.
LIMIT_S = 20


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"not refused within {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def document(**changes: object) -> str:
    """Return a valid document as JSON text, with top-level fields replaced."""
    fitted = cb.IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    return json.dumps(cb.persistence.to_document(fitted, metadata={"label": "y"}) | changes)


def with_x(text: str) -> bytes:
    """Return a document whose list x is written as `text`, which `json.dumps` could not write."""
    return document().replace("[0.1, 0.4, 0.6, 0.9]", text).encode()


def refuse(path: Path, kind: type[Exception], message: str) -> None:
    for read in (load, read_document):
        with pytest.raises(kind, match=message) as caught:
            read(path)
        assert type(caught.value) is kind
        assert str(caught.value).startswith(f"{path}: ")
        assert len(str(caught.value)) < 1000


TEXTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \n\t ", "the JSON ends too early, at line 2, column"),
    "not_utf_8": (document().encode().replace(b"isotonic", b"isot\xffnic"), r"byte \d+ is 0xff, which is not UTF-8"),
    "latin_1": ('{"format": "größe"}'.encode("latin-1"), "byte 14 is 0xf6, which is not UTF-8"),
    "overlong_utf_8": (b'{"format": "\xc0\xaf"}', "byte 12 is 0xc0, which is not UTF-8"),
    "utf_8_surrogate": (b'{"format": "\xed\xa0\x80"}', "byte 12 is 0xed, which is not UTF-8"),
    "utf_16": (document().encode("utf-16"), "byte 0 is 0xff, which is not UTF-8"),
    "byte_order_mark": (b"\xef\xbb\xbf" + document().encode(), "line 1, column 1: Unexpected UTF-8 BOM"),
    "cut_in_an_array": (
        document().encode()[:200],
        "the JSON ends too early, at line 1, column .* The file is cut short",
    ),
    "cut_in_a_string": (
        document().encode()[:30],
        "the JSON ends too early, at line 1, column .* The file is cut short",
    ),
    "cut_at_the_end": (document().encode()[:-1], "the JSON ends too early"),
    "text_after_the_end": (document().encode() + b"}", "not JSON, at line 1, column .*: Extra data"),
    "two_documents": ((document() + "\n" + document()).encode(), "not JSON, at line 2, column 1: Extra data"),
    "single_quotes": (document().replace('"', "'").encode(), "not JSON, at line 1, column 2"),
    "comment": (b"// ours\n" + document().encode(), "not JSON, at line 1, column 1"),
    "trailing_comma": (with_x("[0.1, 0.4, 0.6, 0.9,]"), "not JSON, at line 1, column"),
    "control_character": (
        document().encode().replace(b"isotonic", b"iso\x00tonic"),
        "not JSON, .*Invalid control char",
    ),
    "csv": (b"y,p\n1,0.5\n", "not JSON, at line 1, column 1"),
    "python": (b"import os; os.system('true')\n", "not JSON, at line 1, column 1"),
    "sentence": (b"This is a calibrator.", "not JSON, at line 1, column 1"),
    "number": (b"1", "this is not a calibrant document but the single value 1"),
    "list": (b"[1, 2]", "this is not a calibrant document but a list"),
    "other_object": (b'{"learner": {}}', "this is not a calibrant document: it has no field 'format'"),
    # what JSON readers differ about
    "key_twice": (b'{"format": "calibrant", "format": "calibrant"}', "the document: the key 'format' is there twice"),
    "key_twice_inside": (
        document().replace('"kind": "interpolated"', '"kind": "step", "kind": "interpolated"').encode(),
        "map: the key 'kind' is there twice. Remove one of the two",
    ),
    "key_twice_by_escapes": (
        document(metadata={}).replace('"metadata": {}', r'"metadata": {"a": 1, "\u0061": 2}').encode(),
        "metadata: the key 'a' is there twice",
    ),
    "key_twice_in_metadata_list": (
        document(metadata={}).replace('"metadata": {}', '"metadata": {"rows": [0, {"a": 1, "a": 2}]}').encode(),
        r"metadata.rows\[1\]: the key 'a' is there twice",
    ),
    "nan": (with_x("[NaN, 0.4, 0.6, 0.9]"), r"map.x\[0\]: nan is not a finite number"),
    "infinity": (with_x("[0.1, 0.4, 0.6, Infinity]"), r"map.x\[3\]: inf is not a finite number"),
    "minus_infinity": (with_x("[-Infinity, 0.4, 0.6, 0.9]"), r"map.x\[0\]: -inf is not a finite number"),
    "overflow": (with_x("[0.1, 0.4, 0.6, 1e999]"), r"map.x\[3\]: inf is not a finite number"),
    "overflow_in_metadata": (
        document().replace('"label": "y"', '"label": -1e999').encode(),
        "metadata.label: -inf is not a finite",
    ),
    "huge_integer": (with_x(f"[0, 1, 2, {'9' * 100_000}]"), r"map.x\[3\]: a whole number of 100,000 digits needs more"),
    "huge_version": (
        document().replace('"version": 2', f'"version": {"1" * 21}').encode(),
        "version: a whole number of 21",
    ),
    "lone_surrogate": (
        document().replace('"label": "y"', r'"label": "\udc00"').encode(),
        r"metadata.label: '\\udc00' holds half a surrogate pair",
    ),
}


@pytest.mark.parametrize("name", ["c.json", "c.pkl"])
@pytest.mark.parametrize(("data", "message"), TEXTS.values(), ids=TEXTS)
def test_broken_text_is_refused_with_the_place(tmp_path: Path, data: bytes, message: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    refuse(path, DocumentError, message)


def test_many_digits_are_read_to_the_nearest_float(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(with_x(f"[0.1, 0.4, 0.6, 0.9{'0' * 10**6}1]"))
    assert load(path).map_.x[3] == np.nextafter(0.9, 0.9)


# --- too much ------------------------------------------------------------------------------------------------

SIZES: dict[str, Callable[[], bytes]] = {
    "deep_lists": lambda: with_x("[" * 10**6 + "]" * 10**6),
    "deep_lists_without_end": lambda: b"[" * 5 * 10**7,
    "deep_objects": lambda: b'{"a":' * 10**5 + b"1" + b"}" * 10**5,
    "deep_enough_to_end_the_stack_of_c": lambda: b'{"metadata": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "just_too_deep": lambda: document(metadata={}).replace("{}", '{"a": ' + "[" * 31 + "]" * 31 + "}").encode(),
    "many_lists": lambda: with_x("[" + "[]," * 300_000 + "[]]"),
    "many_numbers": lambda: with_x("[" + "0," * (9 * 2**20) + "0]"),
    "many_strings": lambda: b"[" + b'"",' * (20 * 2**20) + b'""]',
    "closing_brackets": lambda: b"]" * 10**7,
}


@pytest.mark.parametrize("make", SIZES.values(), ids=SIZES)
def test_exhausting_text_is_refused_before_it_is_parsed(tmp_path: Path, make: Callable[[], bytes]) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(make())
    start = time.perf_counter()
    with pytest.raises(UnsafeDocumentError, match=r"c\.json: the document (is nested deeper than 32|has more than)"):
        load(path)
    assert time.perf_counter() - start < 10.0
    path.unlink()  # a hundred megabytes


@pytest.mark.parametrize(
    "data",
    [b'{"a": "' + rb"\"" * 3 * 10**6, b'"' * (3 * 10**6 + 1), b'{"' + b"\\" * (3 * 10**6 + 1), b"{" + b" " * 10**7],
    ids=["escaped_quotes_without_end", "quotes", "backslashes", "blanks"],
)
def test_text_that_invites_backtracking_is_refused_in_linear_time(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(data)
    start = time.perf_counter()
    with pytest.raises(DocumentError):
        load(path)
    assert time.perf_counter() - start < 10.0


def test_brackets_inside_strings_are_no_nesting(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(document(metadata={"label": '[{"\\' * 1000, "a]": "\\"}), "utf-8")
    assert load(path).metadata_ == {"label": '[{"\\' * 1000, "a]": "\\"}


def test_deepest_metadata_that_can_be_saved_can_be_loaded(tmp_path: Path) -> None:
    fitted = cb.IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    deep: Any = []
    for _ in range(29):
        deep = [deep]
    for suffix in (".json", ".pkl"):
        cb.save(fitted, tmp_path / f"c{suffix}", metadata={"deep": deep})
        assert cb.load(tmp_path / f"c{suffix}").metadata_ == {"deep": deep}
        with pytest.raises(DocumentError, match="nested deeper than 32 levels"):
            cb.save(fitted, tmp_path / f"c{suffix}", metadata={"deep": [deep]})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["c.json", "c.pkl"])
def test_file_beyond_the_size_limit_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(2**40)  # a terabyte of zeros that takes no room
    refuse(path, UnsafeDocumentError, "the document has more than 268,435,456 bytes")


# --- no ordinary files ---------------------------------------------------------------------------------------


def test_folder_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, DocumentError, "this is a folder, not a file")


def test_named_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.json")
    refuse(tmp_path / "c.json", DocumentError, "this is a named pipe, not a file")


def test_link_to_a_named_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "c.json").symlink_to("pipe")
    refuse(tmp_path / "c.json", DocumentError, "this is a named pipe, not a file")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_device_is_refused(tmp_path: Path, device: str) -> None:
    (tmp_path / "c.json").symlink_to(device)
    refuse(tmp_path / "c.json", DocumentError, "this is a device, not a file")


def test_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("c.json")
        refuse(Path("c.json"), DocumentError, "this is a socket, not a file")


def test_link_to_itself_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "c.json").symlink_to("c.json")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        load(tmp_path / "c.json")


# --- files of others -----------------------------------------------------------------------------------------


def parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"p": [0.5]}), path)


def zipped(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, x=np.arange(3))


def array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.arange(3))


OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "gzip": (lambda path: path.write_bytes(gzip.compress(document().encode())), "a gzip archive"),
    "zlib": (lambda path: path.write_bytes(zlib.compress(document().encode())), "zlib-compressed data, such as joblib"),
    "zip": (zipped, r"a zip archive, such as .npz or .skops"),
    "npy": (array, "a NumPy array"),
    "parquet": (parquet, "a Parquet file"),
}


@pytest.mark.parametrize(("write", "what"), OTHERS.values(), ids=OTHERS)
def test_files_of_other_kinds_are_named(tmp_path: Path, write: Callable[[Path], object], what: str) -> None:
    path = tmp_path / "c.json"
    write(path)
    refuse(path, DocumentError, f"this is not a calibrant document but {what}")
