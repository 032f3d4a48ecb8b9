"""Files that appear whole or not at all: the one way in which calibrant writes a file."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from calibrant.errors import InvalidInputError


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` when all went well; if not, what was there stays.

    The bytes go to a new file beside it, which is flushed to the disk and then renamed: at every moment the old file
    or the new one is there, whole. The new file has the permissions of the old one.

    Raises
    ------
    OSError
        If it can't be written, as on a full disk; the error names the path.
    """
    part = path.with_name(f".calibrant-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            if path.exists():
                part.chmod(path.stat().st_mode & 0o7777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        _add_path(error, path, part)
        raise


@contextmanager
def open_target(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a target for writing, as a command is given one: a file, a device, or `-` for standard output.

    A file is written by `whole_file`, through symbolic links.

    Raises
    ------
    InvalidInputError
        If the path is a folder, or lies in one that doesn't exist.
    OSError
        If it can't be written; the error names the path.
    """
    if os.fspath(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    final = Path(path).resolve()
    if final.is_dir():
        raise InvalidInputError(f"{os.fspath(path)} is a folder. Pass the name of a file to write.")
    if not final.parent.is_dir():
        raise InvalidInputError(f"can't write {os.fspath(path)}: there is no folder {final.parent}. Make it first.")
    if final.exists() and not final.is_file():
        try:
            with final.open("wb") as device:
                yield device
        except OSError as error:
            _add_path(error, final)
            raise
        return
    with whole_file(final) as file:
        yield file


def _add_path(error: BaseException, path: Path, temporary: Path | None = None) -> None:
    """Let an error of the system say the path: one of a full disk says none, one of the new file its passing name."""
    if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(temporary)):
        error.filename = str(path)
