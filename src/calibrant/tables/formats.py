"""The bytes of a table in a file or a stream, and its format, told by its name or its first bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias, get_args

from calibrant.errors import InvalidInputError, did_you_mean, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

Format: TypeAlias = Literal["parquet", "arrow", "csv", "tsv", "jsonl"]
FORMATS: tuple[Format, ...] = get_args(Format)
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
DELIMITERS = {"csv": ",", "tsv": "\t"}
BOM = b"\xef\xbb\xbf"
CHUNK_BYTES = 1 << 22
#: First bytes of the formats that have their own.
_MAGIC: dict[Format, bytes] = {"parquet": b"PAR1", "arrow": b"ARROW1"}
#: First bytes of what is often taken for a table of text, and what to do about it.
_FOREIGN = {
    b"\x1f\x8b": "is compressed by gzip. Unpack it first: gunzip -c FILE.csv.gz | calibrant ... -",
    b"\x28\xb5\x2f\xfd": "is compressed by Zstandard. Unpack it first: zstd -dc FILE.csv.zst | calibrant ... -",
    b"PK\x03\x04": "is a ZIP archive or an Excel workbook. Save the sheet as CSV first.",
    b"\xff\xfe": "is UTF-16 text. Save it as UTF-8 first.",
    b"\xfe\xff": "is UTF-16 text. Save it as UTF-8 first.",
    b"[": "holds one JSON array. Write one object per line: jq -c '.[]' FILE.json",
}


@dataclass(frozen=True, slots=True)
class FileBytes:
    """Bytes of a table: of the file `path`, or `head` and what comes behind it from a `stream` that is read once."""

    name: str
    format: Format
    path: Path | None = None
    head: bytes = b""
    stream: BinaryIO | None = None

    @property
    def bom(self) -> bytes:
        """The byte-order mark that the text begins with, or nothing."""
        return BOM if self.head.startswith(BOM) else b""

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes, a few megabytes at a time."""
        if self.path is not None:
            with self.path.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
            return
        for start in range(0, len(self.head), CHUNK_BYTES):
            yield self.head[start : start + CHUNK_BYTES]
        if self.stream is not None:
            while chunk := self.stream.read(CHUNK_BYTES):
                yield chunk
            if self.stream is not sys.stdin.buffer:
                self.stream.close()

    def materialised(self) -> FileBytes:
        """Return the same bytes so that they can be read more than once: a stream is read into memory."""
        return self if self.stream is None else replace(self, head=b"".join(self.chunks()), stream=None)

    def open_arrow(self) -> pa.NativeFile:
        """Open the bytes for Arrow, with seeking."""
        import pyarrow as pa

        if self.path is not None:
            return pa.OSFile(os.fsencode(self.path))
        return pa.BufferReader(self.materialised().head)


def open_bytes(path: str | os.PathLike[str], format: str | None = None) -> FileBytes:
    """Find out what a file is, from its name and first bytes; `-` is standard input."""
    if format is not None and format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    name = os.fspath(path)
    if name == "-":
        return _from_stream("standard input", sys.stdin.buffer, format)
    file = Path(path)
    if file.is_dir():
        raise InvalidInputError(f"{name} is a folder. Pass one file of it.")
    if not file.exists():
        beside = [other.name for other in file.parent.iterdir()] if file.parent.is_dir() else []
        raise InvalidInputError(f"there is no file {name}.{did_you_mean(file.name, beside)}")
    if file.is_block_device() or file.is_char_device():
        raise InvalidInputError(f"{name} is a device. Pass a file, or - for standard input.")
    if not file.is_file():
        return _from_stream(name, file.open("rb"), format)
    with file.open("rb") as opened:
        head = opened.read(64)
    known = _known_format(name, head, format or SUFFIXES.get(file.suffix.lower()))
    if known is None:
        raise InvalidInputError(
            f"the name of {name} doesn't say what it holds. Name it {named_suffixes()}, or say its format "
            f"with --format (format= in Python): {', '.join(FORMATS)}."
        )
    return FileBytes(name, known, file, head)


def named_suffixes() -> str:
    """Return the list of all suffixes that say a format, for messages."""
    return ", ".join(sorted(SUFFIXES))


def _from_stream(name: str, stream: BinaryIO, format: str | None) -> FileBytes:
    head = b""
    while not head.removeprefix(BOM).lstrip() or len(head) < max(map(len, _MAGIC.values())):
        read = stream.read(1 << 12)
        if not read:
            break
        head += read
    known = _known_format(name, head, format)
    if known is None:
        known = "jsonl" if head.removeprefix(BOM).lstrip().startswith(b"{") else "csv"
    return FileBytes(name, known, None, head, stream)


def _known_format(name: str, head: bytes, stated: str | None) -> Format | None:
    """Return the format that the first bytes say, or the stated one; refuse what no format here can be."""
    if not head:
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
    found = next((known for known in FORMATS if known == stated), None)
    if found in _MAGIC:
        raise InvalidInputError(f"{name} is not {found.capitalize()}: it doesn't start with {_MAGIC[found]!r}.")
    return found
