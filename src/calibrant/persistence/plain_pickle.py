"""Documents as pickles of plain data: scanned before anything is loaded, and loaded by an unpickler without globals."""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Iterator
from itertools import islice
from typing import Any, NoReturn

from calibrant.document_field import show
from calibrant.errors import DocumentError, UnsafeDocumentError
from calibrant.persistence import limits
from calibrant.persistence.limits import check_size

#: The first byte of every pickle since protocol 2.
MARK = b"\x80"
_PROTOCOL = 4
_CONTAINERS = frozenset({"EMPTY_DICT", "EMPTY_LIST"})
_STRINGS = frozenset({"SHORT_BINUNICODE", "BINUNICODE"})
#: All that plain data needs in protocol 4: no opcode here finds, calls or builds an object.
_ALLOWED = (
    frozenset({"PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINGET", "LONG_BINGET"})
    | frozenset({"APPEND", "APPENDS", "SETITEM", "SETITEMS"})
    | frozenset({"NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"})
    | _CONTAINERS
    | _STRINGS
)
_NAMING = frozenset({"GLOBAL", "INST"})


def dump(document: dict[str, Any]) -> bytes:
    """Return a document as a pickle of plain data, protocol 4."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out, protocol=_PROTOCOL)
    pickler.fast = True  # no memo: which strings happen to be one object then leaves no trace in the bytes
    pickler.dump(document)
    return out.getvalue()


def parse(data: bytes) -> object:
    """Return what a pickle of plain data holds; any other pickle is refused before a byte of it is loaded."""
    scan(data)
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except UnsafeDocumentError:
        raise
    except Exception as error:  # an unpickler raises nearly anything on bytes that make no sense
        raise _malformed(error) from None


def is_old(data: bytes) -> bool:
    """Say whether bytes that begin without `MARK` are a pickle, of protocol 0 or 1."""
    try:
        return data.endswith(b".") and len(list(islice(_opcodes(data), 3))) > 0
    except DocumentError:
        return False


def scan(data: bytes) -> None:
    """Read the opcodes, without running any, and refuse all but those of plain data."""
    n_containers = end = 0
    texts: list[object] = []
    for n, (opcode, argument, position) in enumerate(_opcodes(data)):
        name, end = opcode.name, position
        if name not in _ALLOWED:
            _refuse(name, argument, texts)
        n_containers += name in _CONTAINERS
        check_size(n - 4 * limits.MAX_CONTAINERS, n_containers)  # up to 4 instructions build a container, one a value
        if name in _STRINGS:
            texts = [*texts[-1:], argument]
    n_left = len(data) - end - 1
    if n_left:
        raise UnsafeDocumentError(
            f"{n_left:,} bytes follow the end of the pickle. Pass the file that calibrant.save wrote, unchanged."
        )


def _opcodes(data: bytes) -> Iterator[tuple[pickletools.OpcodeInfo, object, int]]:
    try:
        for opcode, argument, position in pickletools.genops(data):
            yield opcode, argument, position or 0
    except (ValueError, TypeError, IndexError, OverflowError, Warning) as error:  # a warning of a text's escapes, too
        raise _malformed(error) from None


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler that finds no object, should a pickle ever get past the scan."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafeDocumentError(f"the pickle asks for {module}.{name}, which plain data never does.")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise UnsafeDocumentError(f"the pickle asks for the outside object {show(pid)}, which plain data never does.")


def _refuse(opcode: str, argument: object, texts: list[object]) -> NoReturn:
    if opcode in _NAMING:
        asked = str(argument).replace(" ", ".", 1)
    elif opcode == "STACK_GLOBAL" and len(texts) == 2:
        asked = f"{texts[0]}.{texts[1]}"
    else:
        raise UnsafeDocumentError(
            f"this pickle holds the instruction {opcode}, which plain data never needs and which could build objects "
            "or run code. Nothing of it was loaded; calibrant reads the pickles that calibrant.save writes."
        )
    root = asked.partition(".")[0]
    known = {"sklearn": "a scikit-learn object", "joblib": "a joblib file", "numpy": "a NumPy object"}
    kind = f" ({known[root]})" if root in known else ""
    raise UnsafeDocumentError(
        f"this is a pickle of Python objects{kind}, not a calibrant document: it asks for {show(asked)}, and loading "
        "that could run any code. Nothing of it was loaded; calibrant reads the pickles that calibrant.save writes."
    )


def _malformed(error: Exception) -> DocumentError:
    return DocumentError(f"the pickle is broken or cut short ({error!s:.200}). Copy the file again.")
