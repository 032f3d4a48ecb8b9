"""The bytes of a table in a file or a stream, and its format, told by its name or its first bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO

from calibrant.errors import InvalidInputError, did_you_mean
from calibrant.tables.delimiters import found_delimiter
from calibrant.tables.recoding import (
    PACKED,
    as_stream,
    as_utf8,
    beginning_as_utf8,
    encoding_of,
    packed_as,
    unpacked,
    without_packing,
)
from calibrant.tables.remote import RemoteFile, is_remote, remote_file
from calibrant.tables.table_format import DELIMITERS, FORMATS, UTF8, Format, FormatLike, TableFormat

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
BOM = b"\xef\xbb\xbf"
CHUNK_BYTES = 1 << 22
#: Bytes of a file's beginning that are looked at, and of them those that are kept.
_HEAD_BYTES, _KEPT_BYTES = 1 << 16, 64
#: Bytes that text takes once it is unpacked, for each that it has on the disk: what floats in CSV come to.
_UNPACKED_BYTES = 3
#: First bytes of the formats that have their own.
_MAGIC: dict[Format, bytes] = {"parquet": b"PAR1", "arrow": b"ARROW1"}
#: First bytes of what is often taken for a table of text, and what to do about it.
_FOREIGN = {
    b"PK\x03\x04": "is a ZIP archive or an Excel workbook. Unpack it, or save the sheet as CSV, first.",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook. Save the sheet as CSV first.",
    b"BZh91AY&SY": "is packed by bzip2. Unpack it first, or pack it by gzip or zstd.",
    b"\xfd7zXZ": "is packed by xz. Unpack it first, or pack it by gzip or zstd.",
    b"\x80\x04": "is a pickle, which may run code. Save the frame as Parquet first.",
    b"\x80\x05": "is a pickle, which may run code. Save the frame as Parquet first.",
    b"\x93NUMPY": "is a NumPy array without names. Save it as the column of a CSV first.",
    b"SQLite format 3": "is a SQLite database. Write the table to CSV first.",
    b"FEA1": "is Feather of version 1. Read it by pyarrow.feather, and write Parquet.",
    b"\xff\xff\xff\xff": "is a stream of Arrow. Write a file: pyarrow.ipc.new_file in place of new_stream.",
    b"[": "holds one JSON array. Write one object per line: jq -c '.[]' FILE.json",
}


@dataclass(frozen=True, slots=True)
class FileBytes:
    """Bytes of a table: of a `file`, here or elsewhere, or `head` and what follows it in a `stream`, read once.

    Those of a stream are unpacked and UTF-8 already; `packing` and `encoding` say how those of a file become so.
    `delimiter_hint` is how to state the delimiter that was found in the text; it is empty where a caller stated it.
    """

    name: str
    format: Format
    file: Path | RemoteFile | None = None
    head: bytes = b""
    stream: BinaryIO | None = None
    packing: str | None = None
    encoding: str = UTF8
    delimiter: str = ","
    decimal: str = "."
    delimiter_hint: str = ""

    @property
    def bom(self) -> bytes:
        """The byte-order mark that the text begins with, in UTF-8, or nothing."""
        return BOM if self.head.startswith(BOM) else b""

    @property
    def place(self) -> PurePath | None:
        """The path of the file, here or elsewhere."""
        return self.file.place if isinstance(self.file, RemoteFile) else self.file

    @property
    def n_bytes(self) -> int:
        """About how many bytes of a file there are to read; none of a stream."""
        if isinstance(self.file, RemoteFile):
            n_stored = self.file.n_bytes
        else:
            n_stored = 0 if self.file is None else self.file.stat().st_size
        return n_stored if self.packing is None else n_stored * _UNPACKED_BYTES

    def state(self) -> dict[str, Any]:
        """Return what says whether a file has changed since."""
        if isinstance(self.file, RemoteFile):
            return {"bytes": self.file.n_bytes, "modified": self.file.stamp}
        found = None if self.file is None else self.file.stat()
        return {} if found is None else {"bytes": found.st_size, "modified_ns": found.st_mtime_ns}

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes, a few megabytes at a time: unpacked, and text as UTF-8."""
        if self.file is not None:
            with _open(self.file) as file:
                yield from _decoded(file, self.packing, self.encoding, self.name)
            return
        for start in range(0, len(self.head), CHUNK_BYTES):
            yield self.head[start : start + CHUNK_BYTES]
        if self.stream is not None:
            yield from _read_chunks(self.stream)

    def materialised(self) -> FileBytes:
        """Return the same bytes so that they can be read more than once: a stream is read into memory."""
        return self if self.stream is None else replace(self, head=b"".join(self.chunks()), stream=None)

    def open_arrow(self) -> pa.NativeFile:
        """Open the bytes for Arrow, with seeking where they are those of a file; or the text, as UTF-8."""
        import pyarrow as pa

        if self.file is None:
            return pa.BufferReader(self.materialised().head)
        if isinstance(self.file, RemoteFile) and self.format in _MAGIC:
            return self.file.open_arrow()
        if isinstance(self.file, Path) and self.packing is None and self.encoding == UTF8:
            return pa.OSFile(os.fsencode(self.file))
        return pa.PythonFile(as_stream(self.chunks()), "r")


def open_bytes(path: str | os.PathLike[str], format: FormatLike = None) -> FileBytes:
    """Find out what a file is, from its name and first bytes; `-` is standard input."""
    asked = TableFormat.of(format)
    if is_remote(path):
        return open_remote(remote_file(os.fspath(path)), asked)
    name = os.fspath(path)
    if name == "-":
        return _from_pipe("standard input", sys.stdin.buffer, asked)
    file = Path(path)
    if file.is_dir():
        raise InvalidInputError(f"{name} is a folder. Pass one file of it.")
    if not file.exists():
        beside = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        raise InvalidInputError(f"there is no file {name}.{did_you_mean(file.name, beside)}")
    if file.is_block_device() or file.is_char_device():
        raise InvalidInputError(f"{name} is a device. Pass a file, or - for standard input.")
    if not file.is_file():
        return _from_pipe(name, file.open("rb"), asked)
    return _of_file(file, name, asked)


def open_remote(file: RemoteFile, format: FormatLike = None) -> FileBytes:
    """Find out what a file on another computer is, from its name and first bytes."""
    return _of_file(file, file.name, TableFormat.of(format))


def _of_file(file: Path | RemoteFile, name: str, asked: TableFormat) -> FileBytes:
    """Find out what a file is."""
    place = file.place if isinstance(file, RemoteFile) else file
    stated = asked.name or SUFFIXES.get(without_packing(place).suffix.lower())
    with _open(file) as opened:
        head = raw = opened.read(_HEAD_BYTES)
    packing = packed_as(raw)
    if place.suffix.lower() in PACKED and packing is None and raw:
        raise InvalidInputError(f"{name} is not packed as its suffix says. Take {place.suffix} off its name.")
    if packing is not None:
        with _open(file) as opened, _unpacking(name):
            head = unpacked(opened, packing).read(_HEAD_BYTES)
    encoding = encoding_of(head, asked.encoding)
    is_whole = len(head) < _HEAD_BYTES
    head = head if encoding == UTF8 else beginning_as_utf8(head, encoding, name)
    known = _known_format(name, head, stated or (None if asked.delimiter is None else "csv"))
    if known is None:
        raise InvalidInputError(
            f"the name of {name} doesn't say what it holds. Name it {named_suffixes()}, or say its format "
            f"with --format (format= in Python): {', '.join(FORMATS)}."
        )
    if packing is not None and known in _MAGIC:
        raise InvalidInputError(
            f"{name} is {known.capitalize()} packed by {packing}, which is not read in parts. Unpack it first."
        )
    found = FileBytes(name, known, file, head[:_KEPT_BYTES], None, packing, encoding)
    return _laid_out(found, asked, head, is_whole=is_whole)


def _open(file: Path | RemoteFile) -> BinaryIO:
    return file.open() if isinstance(file, RemoteFile) else file.open("rb")


def _laid_out(file: FileBytes, asked: TableFormat, head: bytes, *, is_whole: bool) -> FileBytes:
    """Return a file with its delimiter and decimal point; refuse options of text where the file is of another kind."""
    is_binary = file.format in _MAGIC
    refused = [name for name in asked.of_text if is_binary or (file.format == "jsonl" and name != "encoding")]
    if refused:
        raise InvalidInputError(
            f"--{refused[0]} ({refused[0]}= in Python) is for {'text' if is_binary else 'CSV'}, and {file.name} is "
            f"{file.format}. Leave it out."
        )
    if file.format not in DELIMITERS:
        return file
    if asked.delimiter is not None:
        return replace(file, delimiter=asked.delimiter, decimal=asked.decimal)
    found = found_delimiter(head, is_whole=is_whole) if file.format == "csv" else None
    shown = "tab" if found == "\t" else repr(found)
    hint = "" if found is None else f"--delimiter {shown} (TableFormat(delimiter={found!r}) in Python)"
    return replace(file, delimiter=found or DELIMITERS[file.format], decimal=asked.decimal, delimiter_hint=hint)


def _decoded(file: BinaryIO, packing: str | None, encoding: str, name: str) -> Iterator[bytes]:
    plain = file if packing is None else unpacked(file, packing)
    chunks = _read_chunks(plain)
    return chunks if encoding == UTF8 else as_utf8(chunks, encoding, name)


def _read_chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
    file.close()


def _pieces(pipe: Any) -> Iterator[bytes]:
    """Yield what is in a pipe as it comes.

    One read of several pieces waits for the last of them, and meanwhile Python hears of no interruption.
    """
    while piece := pipe.read1(CHUNK_BYTES):
        yield piece
    if pipe is not sys.stdin.buffer:
        pipe.close()


@contextmanager
def _unpacking(name: str) -> Iterator[None]:
    """Turn what Arrow says of broken packed bytes into an error that names the file."""
    try:
        yield
    except OSError as error:
        raise InvalidInputError(f"{name} can't be unpacked: {error!s:.200}") from None


def text_options(path: str | os.PathLike[str], name: str | None = None) -> tuple[str, ...]:
    """Return the options on the layout of text that a file can have, by the name of its format, or else its suffix."""
    known = name or SUFFIXES.get(without_packing(path).suffix.lower())
    match known:
        case "csv":
            return ("delimiter", "decimal", "encoding")
        case "tsv":
            return ("decimal", "encoding")
        case "jsonl":
            return ("encoding",)
        case None if not is_remote(path) and not Path(path).is_dir():
            return ("delimiter", "decimal", "encoding")
        case _:
            return ()


def format_of_other(path: str | os.PathLike[str], format: FormatLike) -> TableFormat | None:
    """Return the layout that was given for one file as that of another; None where the other's suffix is not CSV's."""
    known = SUFFIXES.get(without_packing(path).suffix.lower(), "csv")
    return replace(TableFormat.of(format), name=None) if known in DELIMITERS else None


def named_suffixes() -> str:
    """Return the list of all suffixes that say a format, for messages."""
    return ", ".join(sorted(SUFFIXES))


def _from_pipe(name: str, pipe: Any, asked: TableFormat) -> FileBytes:
    stream = as_stream(_pieces(pipe))
    head, is_whole = _read_head(stream)
    if packing := packed_as(head):
        stream = unpacked(as_stream(chain([head], _read_chunks(stream))), packing)
        with _unpacking(name):
            head, is_whole = _read_head(stream)
    encoding = encoding_of(head, asked.encoding)
    if encoding != UTF8:
        stream = as_stream(as_utf8(chain([head], _read_chunks(stream)), encoding, name))
        head, is_whole = _read_head(stream)
    known = _known_format(name, head, asked.name or (None if asked.delimiter is None else "csv"))
    if known is None:
        known = "jsonl" if head.removeprefix(BOM).lstrip().startswith(b"{") else "csv"
    found = FileBytes(name, known, None, head, stream, encoding=encoding)
    return _laid_out(found, asked, head, is_whole=is_whole)


def _read_head(stream: BinaryIO) -> tuple[bytes, bool]:
    """Return the first bytes of a stream that are not all blank, and whether they are all of it."""
    head = b""
    while not head.removeprefix(BOM).lstrip() or len(head) < max(map(len, _MAGIC.values())):
        read = stream.read(1 << 12)
        if not read:
            return head, True
        head += read
    return head, False


def _known_format(name: str, head: bytes, stated: str | None) -> Format | None:
    """Return the format that the first bytes say, or the stated one; refuse what no format here can be."""
    if not head and stated != "jsonl":  # where it means no rows
        raise InvalidInputError(f"{name} is empty: it has not even a header.")
    for known, magic in _MAGIC.items():
        if head.startswith(magic) and stated in (None, known):
            return known
        if head.startswith(magic):
            raise InvalidInputError(
                f"{name} is {known.capitalize()}, not {stated}. Give it the suffix .{known}, or no other format."
            )
    for magic, what in _FOREIGN.items():
        if head.startswith(magic) and (magic != b"[" or stated in (None, "jsonl")):
            raise InvalidInputError(f"{name} {what}")
    if b"\0" in head.partition(b"\n")[0] and stated not in _MAGIC:
        raise InvalidInputError(
            f"{name} holds zero bytes, which text in UTF-8 doesn't. Name its encoding with --encoding, such as utf-16 "
            "(TableFormat(encoding=) in Python)."
        )
    found = next((known for known in FORMATS if known == stated), None)
    if found in _MAGIC:
        raise InvalidInputError(f"{name} is not {found.capitalize()}: it doesn't start with {_MAGIC[found]!r}.")
    return found
