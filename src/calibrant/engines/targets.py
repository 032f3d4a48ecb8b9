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
        with final.open("wb") as device:
            yield device
        return
    part = final.with_name(f".calibrant-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            if final.exists():
                part.chmod(final.stat().st_mode & 0o7777)
            yield file
        part.replace(final)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
