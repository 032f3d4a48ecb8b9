"""Bytes of files unpacked and read as UTF-8, and written packed and in other encodings, without holding them."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, BinaryIO, cast

from calibrant.errors import InvalidInputError
from calibrant.tables.table_format import UTF8

#: Suffixes of packed files, and what Arrow calls how they were packed.
PACKED = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
#: First bytes of packed files.
_PACKED_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
#: The marks with which text in other encodings than UTF-8 begins; that of UTF-32 begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def packed_as(head: bytes) -> str | None:
    """Return how a file that begins with some bytes was packed, or None."""
    return next((codec for magic, codec in _PACKED_MAGIC.items() if head.startswith(magic)), None)


def without_packing(path: str | os.PathLike[str]) -> PurePath:
    """Return a path without the suffix that says that the file is packed."""
    path = PurePath(path)
    return path.with_suffix("") if path.suffix.lower() in PACKED else path


def unpacked(raw: BinaryIO, codec: str) -> BinaryIO:
    """Return a stream of the bytes that were packed in another one."""
    import pyarrow as pa

    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec))


def encoding_of(head: bytes, stated: str | None) -> str:
    """Return the encoding of text that begins with some bytes: the stated one, that of its mark, or UTF-8."""
    marked = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if stated is None or (marked is not None and marked.startswith(stated)):
        return marked or UTF8
    return stated


def as_utf8(chunks: Iterable[bytes], encoding: str, name: str) -> Iterator[bytes]:
    """Yield text that comes in another encoding as UTF-8.

    Raises
    ------
    InvalidInputError
        If some bytes are no text in that encoding.
    """
    decoder, n_before = codecs.getincrementaldecoder(encoding)(), 0
    for chunk, is_last in _with_end(chunks):
        try:
            text = decoder.decode(chunk, is_last)
        except UnicodeDecodeError as error:
            raise not_text(name, encoding, f"{error.reason} near byte {n_before + error.start:,}") from None
        n_before += len(chunk)
        if text:
            yield text.encode()


def beginning_as_utf8(head: bytes, encoding: str, name: str) -> bytes:
    """Return the beginning of a text in another encoding as UTF-8, as far as its characters are whole."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head).encode()
    except UnicodeDecodeError as error:
        raise not_text(name, encoding, f"{error.reason} near byte {error.start:,}") from None


def not_text(name: str, encoding: str, why: str) -> InvalidInputError:
    """Return the error for bytes that are no text in an encoding."""
    return InvalidInputError(
        f"{name} is not {encoding.upper()} text ({why}). Name its encoding with --encoding, such as latin-1 "
        "(TableFormat(encoding=) in Python)."
    )


def _with_end(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    for chunk in chunks:
        yield chunk, False
    yield b"", True


class _ChunkStream(io.RawIOBase):
    """A stream of the bytes that an iterator yields."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            found = next(self._chunks, None)
            if found is None:
                return 0
            self._rest = memoryview(found)
        n = min(len(buffer), len(self._rest))
        buffer[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n


def as_stream(chunks: Iterator[bytes]) -> BinaryIO:
    """Return a stream of the bytes that an iterator yields."""
    return cast(BinaryIO, io.BufferedReader(_ChunkStream(chunks), 1 << 20))


class _WriteStream(io.RawIOBase):
    """A stream that hands what is written to a function; closing it closes nothing else."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._write(bytes(data))
        return len(data)


@contextmanager
def packed_for(path: str | os.PathLike[str], out: BinaryIO) -> Iterator[BinaryIO]:
    """Return where to write the bytes of a file of some name: they are packed if the name says so."""
    codec = PACKED.get(Path(path).suffix.lower())
    if codec is None:
        yield out
        return
    import pyarrow as pa

    with pa.CompressedOutputStream(pa.PythonFile(_WriteStream(out.write), "w"), codec) as packed:
        yield cast(BinaryIO, packed)


def in_encoding(out: BinaryIO, encoding: str, name: str) -> BinaryIO:
    """Return where to write UTF-8 that is to come out in another encoding.

    Raises
    ------
    InvalidInputError
        From `write`, if the encoding lacks a character.
    """
    if encoding == UTF8:
        return out
    decoder, encoder = codecs.getincrementaldecoder(UTF8)(), codecs.getincrementalencoder(encoding)()

    def write(data: bytes) -> None:
        try:
            out.write(encoder.encode(decoder.decode(data)))
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"{name} is {encoding} text, which lacks {error.object[error.start : error.end]!r:.40}. Give new "
                "columns names that it has, or save the file as UTF-8."
            ) from None

    return cast(BinaryIO, _WriteStream(write))
