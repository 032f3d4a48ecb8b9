"""Where a result is written: a file that appears whole or not at all, a device, or standard output."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from calibrant.errors import InvalidInputError


@contextmanager
def open_target(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a target for writing; `-` is standard output.

    A file is written under another name beside it, which takes its place when all went well. If not, what was
    there stays as it was.

    Raises
    ------
    InvalidInputError
        If the path is a folder, or lies in one that doesn't exist.
    OSError
        If it can't be written, as on a full disk; the error names the path.
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
            if error.errno is None or error.filename is not None:
                raise
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        return
    part = final.with_name(f".calibrant-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            if final.exists():
                part.chmod(final.stat().st_mode & 0o7777)
            yield file
        part.replace(final)
    except OSError as error:
        part.unlink(missing_ok=True)
        if error.errno is None or error.filename is not None:
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None  # a full disk doesn't say of what
    except BaseException:
        part.unlink(missing_ok=True)
        raise
