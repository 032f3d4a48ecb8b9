"""Pickles that would run code, or exhaust who loads them: refused before anything in them is loaded."""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.errors import DocumentError, UnsafeDocumentError
from calibrant.persistence import limits, load, plain_pickle, read_document, to_document

EXTENSION_CODE = 0xF7


class MakesFolder:
    """Pickles into a call of os.mkdir."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


class BuildsFolder:
    """Pickles into a new object whose state makes a folder when it is set."""

    def __init__(self, path: str = "") -> None:
        self.path = path

    def __setstate__(self, state: dict[str, str]) -> None:
        Path(state["path"]).mkdir()


def document() -> dict[str, Any]:
    fitted = cb.IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    return to_document(fitted, metadata={"label": "y"})


def short(text: str) -> bytes:
    """Return the opcode that pushes a short text."""
    data = text.encode()
    return b"\x8c" + bytes([len(data)]) + data


def old(text: str) -> bytes:
    """Return the opcode of protocol 0 that pushes a text."""
    return b"V" + text.encode() + b"\n"


def within_a_document(path: str, protocol: int) -> bytes:
    return pickle.dumps(document() | {"metadata": {"label": MakesFolder(path)}}, protocol)


def as_a_key(path: str) -> bytes:
    return b"\x80\x04}\x8c\x02os\x8c\x05mkdir\x93" + short(path) + b"\x85RNs."


def through_the_memo(path: str) -> bytes:
    names = short("os") + b"\x940" + short("mkdir") + b"\x940h\x00h\x01\x93"
    return b"\x80\x04" + names + short(path) + b"\x85R."


#: Forms of one attack: each makes the folder `path` when an ordinary unpickler loads it.
RUNNING: dict[str, Callable[[str], bytes]] = {
    "reduce_protocol_0": lambda path: pickle.dumps(MakesFolder(path), 0),
    "reduce_protocol_1": lambda path: pickle.dumps(MakesFolder(path), 1),
    "reduce_protocol_2": lambda path: pickle.dumps(MakesFolder(path), 2),
    "reduce_protocol_3": lambda path: pickle.dumps(MakesFolder(path), 3),
    "reduce_protocol_4": lambda path: pickle.dumps(MakesFolder(path), 4),
    "reduce_protocol_5": lambda path: pickle.dumps(MakesFolder(path), 5),
    "global": lambda path: b"\x80\x04cos\nmkdir\n" + short(path) + b"\x85R.",
    "global_without_mark": lambda path: b"cos\nmkdir\n(" + old(path) + b"tR.",
    "stack_global": lambda path: b"\x80\x04" + short("os") + short("mkdir") + b"\x93" + short(path) + b"\x85R.",
    "stack_global_through_the_memo": through_the_memo,
    "inst": lambda path: b"\x80\x04(" + short(path) + b"ios\nmkdir\n.",
    "obj": lambda path: b"\x80\x04(cos\nmkdir\n" + short(path) + b"o.",
    "build": lambda path: pickle.dumps(BuildsFolder(path), 4),
    "build_protocol_0": lambda path: pickle.dumps(BuildsFolder(path), 0),
    "extension_code": lambda path: b"\x80\x04\x82" + bytes([EXTENSION_CODE]) + short(path) + b"\x85R.",
    "extension_code_2": lambda path: b"\x80\x04\x83" + struct.pack("<H", EXTENSION_CODE) + short(path) + b"\x85R.",
    "extension_code_4": lambda path: b"\x80\x04\x84" + struct.pack("<i", EXTENSION_CODE) + short(path) + b"\x85R.",
    "within_a_document": lambda path: within_a_document(path, 4),
    "within_a_document_protocol_2": lambda path: within_a_document(path, 2),
    "as_a_key": as_a_key,
    "after_other_data": lambda path: pickle.dumps([1.0, 2.0], 4)[:-1] + b"0" + pickle.dumps(MakesFolder(path), 4)[2:],
    "eval": lambda path: b"\x80\x04cbuiltins\neval\n" + short(f"__import__('os').mkdir({path!r})") + b"\x85R.",
}


@pytest.fixture
def _extension() -> Iterator[None]:
    copyreg.add_extension("os", "mkdir", EXTENSION_CODE)
    yield
    copyreg.remove_extension("os", "mkdir", EXTENSION_CODE)


@pytest.mark.usefixtures("_extension")
@pytest.mark.parametrize("name", ["c.pkl", "c.json"])
@pytest.mark.parametrize("attack", RUNNING.values(), ids=RUNNING)
def test_hostile_pickle_does_not_run(tmp_path: Path, attack: Callable[[str], bytes], name: str) -> None:
    sentinel = tmp_path / "sentinel"
    data = attack(str(sentinel))
    path = tmp_path / name
    path.write_bytes(data)
    for read in (load, read_document):
        with pytest.raises(UnsafeDocumentError, match=r"Nothing of it was loaded") as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: ")
    assert not sentinel.exists()
    pickle.loads(data)  # the attack is a real one
    assert sentinel.is_dir()


@pytest.mark.usefixtures("_extension")
@pytest.mark.parametrize("attack", RUNNING.values(), ids=RUNNING)
def test_unpickler_finds_nothing_even_past_the_scan(tmp_path: Path, attack: Callable[[str], bytes]) -> None:
    sentinel = tmp_path / "sentinel"
    with pytest.raises(UnsafeDocumentError, match=r"the pickle asks for .*, which plain data never does"):
        plain_pickle._PlainUnpickler(io.BytesIO(attack(str(sentinel)))).load()
    assert not sentinel.exists()


def test_unpickler_finds_no_outside_object_even_past_the_scan() -> None:
    for data in (b"\x80\x04\x8c\x01xQ.", b"Pname\n."):
        with pytest.raises(UnsafeDocumentError, match=r"the pickle asks for the outside object '(x|name)'"):
            plain_pickle._PlainUnpickler(io.BytesIO(data)).load()


@pytest.mark.parametrize(
    ("data", "asked"),
    [
        (b"\x80\x04cposix\nsystem\n\x8c\x04true\x85R.", "posix.system"),
        (b"\x80\x04" + short("builtins") + short("exec") + b"\x93.", "builtins.exec"),
        (b"\x80\x04(ios\nsystem\n.", "os.system"),
        (b"\x80\x04c" + b"x" * 10**6 + b"\nsystem\n.", r"xxx.*\.\.\..*system"),
        (b"\x80\x04cos\x1b[2J\nsystem\n.", r"os\\x1b\[2J.system"),
    ],
    ids=["global", "stack_global", "inst", "long", "control_characters"],
)
def test_refusal_says_what_the_pickle_asks_for(tmp_path: Path, data: bytes, asked: str) -> None:
    path = tmp_path / "c.pkl"
    path.write_bytes(data)
    message = f"this is a pickle of Python objects, not a calibrant document: it asks for '{asked}', and loading that"
    with pytest.raises(UnsafeDocumentError, match=message) as caught:
        load(path)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()


#: Plain pickles hold none of these, harmless or not.
INSTRUCTIONS: dict[str, tuple[bytes, str]] = {
    "persistent_id": (b"\x80\x04" + short("x") + b"Q.", "BINPERSID"),
    "persistent_id_protocol_0": (b"Pname\n.", "PERSID"),
    "persistent_id_behind_the_mark": (b"\x80\x04Pname\n.", "PERSID"),
    "tuple": (pickle.dumps((1, 2, 3, 4), 4), "TUPLE"),
    "set": (pickle.dumps({1}, 4), "EMPTY_SET"),
    "frozenset": (pickle.dumps(frozenset({1}), 4), "FROZENSET"),
    "bytes": (pickle.dumps(b"abc", 4), "SHORT_BINBYTES"),
    "bytearray": (pickle.dumps(bytearray(b"abc"), 5), "BYTEARRAY8"),
    "next_buffer": (b"\x80\x05\x97.", "NEXT_BUFFER"),
    "readonly_buffer": (b"\x80\x05\x8c\x01x\x98.", "READONLY_BUFFER"),
    "reduce": (b"\x80\x04}}R.", "REDUCE"),
    "newobj": (b"\x80\x04}}\x81.", "NEWOBJ"),
    "newobj_ex": (b"\x80\x04}}}\x92.", "NEWOBJ_EX"),
    "build": (b"\x80\x04}}b.", "BUILD"),
    "pop": (b"\x80\x04N0N.", "POP"),
    "dup": (b"\x80\x04]2a.", "DUP"),
    "memo_slot_of_four_billion": (b"\x80\x04]r\xff\xff\xff\xff.", "LONG_BINPUT"),
    "integer_of_two_gigabytes": (b"\x80\x04\x8b" + struct.pack("<i", 4) + b"\0\0\0\x01.", "LONG4"),
    "document_of_protocol_2": (pickle.dumps(document(), 2), "BINPUT"),
}


@pytest.mark.parametrize(("data", "instruction"), INSTRUCTIONS.values(), ids=INSTRUCTIONS)
def test_every_instruction_but_those_of_plain_data_is_refused(tmp_path: Path, data: bytes, instruction: str) -> None:
    path = tmp_path / "c.pkl"
    path.write_bytes(data)
    with pytest.raises(UnsafeDocumentError, match=f"this pickle holds the instruction {instruction}, which plain data"):
        load(path)


def fitted_sklearn() -> object:
    from sklearn.isotonic import IsotonicRegression

    return IsotonicRegression().fit([0.1, 0.9], [0, 1])


def test_pickles_of_other_libraries_are_named(tmp_path: Path) -> None:
    import joblib

    path = tmp_path / "c.pkl"
    path.write_bytes(pickle.dumps(fitted_sklearn()))
    with pytest.raises(UnsafeDocumentError, match=r"\(a scikit-learn object\).*'sklearn.isotonic.IsotonicRegression'"):
        load(path)
    joblib.dump(fitted_sklearn(), path)
    with pytest.raises(UnsafeDocumentError, match=r"\(a scikit-learn object\).*'sklearn.isotonic.IsotonicRegression'"):
        load(path)
    joblib.dump(np.arange(3), path)
    with pytest.raises(UnsafeDocumentError, match=r"\(a joblib file\).*'joblib.numpy_pickle.NumpyArrayWrapper'"):
        load(path)
    joblib.dump(fitted_sklearn(), path, compress=3)
    with pytest.raises(DocumentError, match="but zlib-compressed data, such as joblib writes"):
        load(path)
    path.write_bytes(pickle.dumps(np.arange(3)))
    with pytest.raises(UnsafeDocumentError, match=r"\(a NumPy object\).*'numpy"):
        load(path)
    path.write_bytes(pickle.dumps(cb.IsotonicCalibrator()))
    with pytest.raises(UnsafeDocumentError, match=r"'calibrant.calibrators.isotonic.IsotonicCalibrator'"):
        load(path)


# --- plain, but wrong ----------------------------------------------------------------------------------------


def test_document_that_another_program_pickled_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.pkl"
    for protocol in (4, 5):
        path.write_bytes(pickle.dumps(document(), protocol))
        assert read_document(path) == document()


WRONG: dict[str, tuple[Any, str]] = {
    "not_a_document": ({"a": 1}, "this is not a calibrant document: it has no field 'format'"),
    "list": ([1.0], "this is not a calibrant document but a list"),
    "nothing": (None, "this is not a calibrant document but the single value null"),
    "keys_of_numbers": (document() | {"metadata": {1: 2}}, "metadata: the key 1 is not text"),
    "nan": (document() | {"metadata": {"a": float("nan")}}, "metadata.a: nan is not a finite number"),
    "whole_number_of_2000_bits": (document() | {"n_rows": 2**2000}, "n_rows: a whole number of 2,001 bits needs more"),
    "surrogate": (document() | {"method": "\ud800"}, r"method: '\\ud800' holds half a surrogate pair"),
    "newer": (document() | {"version": 99}, "version: 99 was written by a newer calibrant"),
    "map": (
        document() | {"map": {"kind": "interpolated", "x": [0.1], "y": [7.0]}},
        r"map.y\[0\]: 7.0 is outside \[0, 1\]",
    ),
}


@pytest.mark.parametrize(("value", "message"), WRONG.values(), ids=WRONG)
def test_plain_pickle_is_checked_as_json_is(tmp_path: Path, value: Any, message: str) -> None:
    path = tmp_path / "c.pkl"
    path.write_bytes(pickle.dumps(value, 4))
    with pytest.raises(DocumentError, match=message):
        load(path)


def laughs() -> bytes:
    """Return a pickle of lists within lists by reference: 10**20 elements in some hundred bytes."""
    lists = b"](" + b"K\x01" * 10 + b"e\x94"
    for level in range(20):
        lists += b"](" + (b"h" + bytes([level])) * 10 + b"e\x94"
    return b"\x80\x04}\x8c\x06format\x8c\x09calibrants\x8c\x01a](" + lists + b"es."


BROKEN: dict[str, tuple[bytes, str]] = {
    "mark_only": (b"\x80", "the pickle is broken or cut short"),
    "protocol_only": (b"\x80\x04", "the pickle is broken or cut short"),
    "protocol_99": (b"\x80\x63N.", "the pickle is broken or cut short .*unsupported pickle protocol: 99"),
    "cut": (pickle.dumps(document(), 4)[:-20], "the pickle is broken or cut short"),
    "no_stop": (pickle.dumps(document(), 4)[:-1], "the pickle is broken or cut short"),
    "empty_stack": (b"\x80\x04.", "the pickle is broken or cut short"),
    "no_mark": (b"\x80\x04}u.", "the pickle is broken or cut short"),
    "append_to_a_dict": (b"\x80\x04}Na.", "the pickle is broken or cut short"),
    "append_to_a_number": (b"\x80\x04K\x01Na.", "the pickle is broken or cut short"),
    "item_of_a_list": (b"\x80\x04]NNs.", "the pickle is broken or cut short"),
    "list_as_a_key": (b"\x80\x04}]Ns.", "the pickle is broken or cut short"),
    "absent_memo": (b"\x80\x04h\x07.", "the pickle is broken or cut short"),
    "frame_of_eighteen_exabytes": (b"\x80\x04\x95" + b"\xff" * 8 + b"N.", "the pickle is broken or cut short"),
    "text_of_four_gigabytes": (b"\x80\x04X\xff\xff\xff\xffabc.", "the pickle is broken or cut short"),
    "text_not_utf_8": (b"\x80\x04\x8c\x02\xff\xfe.", "the pickle is broken or cut short"),
    "unknown_instruction": (b"\x80\x04\xff.", "the pickle is broken or cut short"),
    "bytes_after_the_end": (pickle.dumps(document(), 4) + b"\0" * 7, "7 bytes follow the end of the pickle"),
    "two_pickles": (pickle.dumps(document(), 4) * 2, r"[\d,]+ bytes follow the end of the pickle"),
    "holds_itself": (b"\x80\x04}\x94\x8c\x06format\x8c\x09calibrants\x8c\x01ah\x00s.", "nested deeper than 32 levels"),
    "laughs": (laughs(), "has more than 8,388,608 values, or 262,144 lists and objects"),
    "many_lists": (b"\x80\x04" + b"]" * 10**6 + b".", "has more than 8,388,608 values, or 262,144 lists and objects"),
    "deep": (
        b"\x80\x04}\x8c\x06format\x8c\x09calibrants\x8c\x01a" + b"]" * 10**5 + b"a" * (10**5 - 1) + b"s.",
        "nested",
    ),
}


@pytest.mark.parametrize(("data", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_or_exhausting_pickle_is_refused_in_bounded_time(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "c.pkl"
    path.write_bytes(data)
    start = time.perf_counter()
    with pytest.raises(DocumentError, match=message):
        load(path)
    assert time.perf_counter() - start < 10.0


def test_more_instructions_than_any_calibrator_needs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_VALUES", 1000)
    monkeypatch.setattr(limits, "MAX_CONTAINERS", 100)
    path = tmp_path / "c.pkl"
    path.write_bytes(b"\x80\x04" + b"N" * 3000 + b".")
    with pytest.raises(UnsafeDocumentError, match="has more than 1,000 values"):
        load(path)
