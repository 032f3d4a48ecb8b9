"""Files that appear whole or not at all: the one way in which calibrant writes a file."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from calibrant.errors import InvalidInputError

if sys.platform != "win32":
    import fcntl

_PARTS = ".calibrant-*.part"
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}
_BINARY = getattr(os, "O_BINARY", 0)
#: Seconds in which another process may be about to take or give back a new file, and between two looks.
_MOMENT, _LOOK = 0.2, 0.02


def remote_scheme(path: str | os.PathLike[str]) -> str | None:
    """Return the scheme of the address of a file on another computer, such as s3; None of a path on this one."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", os.fspath(path))
    return None if found is None else found[1].lower()


def refuse_remote(path: str | os.PathLike[str]) -> None:
    """Refuse to write to another computer.

    Raises
    ------
    InvalidInputError
        If the path is an address.
    """
    if scheme := remote_scheme(path):
        copy = "aws s3 cp FILE s3://..." if scheme == "s3" else "by what your server offers"
        raise InvalidInputError(
            f"can't write {os.fspath(path).partition('?')[0]}: files are written to this computer only. Write to one, "
            f"and copy it: {copy}."
        )


def special_kind(mode: int) -> str:
    """Return what something that is no ordinary file is, by the mode that `stat` gives; "" of an ordinary file."""
    return "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "something else")


@contextmanager
def whole_file(path: Path, *, private: bool = False, wait: float = 0.0) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` when all went well; if not, what was there stays.

    The bytes go to a new file beside it, which is flushed to the disk and then renamed: at every moment the old file
    or the new one is there, whole. Through a symbolic link the file is replaced that it leads to. The new file has the
    permissions and the owner of the old one; a file that is `private` and was not there before, those of its owner
    alone. One process at a time may write a path: another one waits for so many seconds, and is then refused. What a
    process that was killed left behind goes when the next one writes in the same folder.

    Raises
    ------
    InvalidInputError
        If there is something else than a file, such as a device or a folder, or another process writes the path.
    OSError
        If it can't be written, as on a full disk; the error names the path.
    """
    given, path = path, Path(os.path.realpath(path))
    old = given.stat() if given.exists() else None  # of a pipe, `path` is no place
    if old is not None and (kind := special_kind(old.st_mode)):
        raise InvalidInputError(f"{given} is {kind}. Pass the name of a file to write.")
    with _new_file(path, 0o600 if private or old is not None else 0o666, wait) as (part, file):
        yield file
        file.flush()
        if old is not None:
            _pass_on(file.fileno(), old)
        os.fsync(file.fileno())
        if sys.platform == "win32":  # where an open file can't be renamed
            file.close()
        part.replace(path)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other processes from writing a path, or holding it, whether anything is there or not."""
    with _new_file(path, 0o600, 0.0):
        yield


@contextmanager
def open_target(path: str | os.PathLike[str], *, private: bool = False, wait: float = 0.0) -> Iterator[BinaryIO]:
    """Open a target for writing, as a command is given one: a file, by `whole_file`, or `-` for standard output.

    Raises
    ------
    InvalidInputError
        As `whole_file`, and if the path lies in a folder that doesn't exist.
    OSError
        If it can't be written; the error names the path.
    """
    refuse_remote(path)
    if os.fspath(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise InvalidInputError(f"can't write {os.fspath(path)}: there is no folder {folder}. Make it first.")
    with whole_file(Path(path), private=private, wait=wait) as file:
        yield file


@contextmanager
def _new_file(path: Path, mode: int, wait: float) -> Iterator[tuple[Path, BinaryIO]]:
    """Make a new file for a path, locked; at the end it goes, unless it was renamed."""
    digest = hashlib.sha256(path.name.encode(errors="surrogateescape")).hexdigest()[:16]
    part = path.with_name(f".calibrant-{digest}.part")
    try:
        locked = _open_locked(part, mode, path, wait)
        if locked is None:  # the system has no locks: a name that nobody else has
            part = path.with_name(f".calibrant-{secrets.token_hex(8)}.part")
        with locked or part.open("xb") as file:
            try:
                for other in path.parent.glob(_PARTS):  # which processes that were killed left behind
                    if other != part:
                        with suppress(OSError, InvalidInputError):
                            _remove_dead(other)
                yield part, file
            finally:
                with suppress(OSError):
                    if file.closed or _is_at(file, part):
                        part.unlink(missing_ok=True)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(part)):
            error.filename = str(path)  # of a full disk an error says none, and of the new file its passing name
        raise


def _open_locked(part: Path, mode: int, path: Path, wait: float) -> BinaryIO | None:
    """Make the new file of a path and lock it, or wait for who holds it; None where the system has no locks.

    Its name tells the path, so that another process finds it, and its lock whether that process is alive.
    """
    end = time.monotonic() + max(wait, _MOMENT)
    while True:
        with suppress(FileExistsError):
            file = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode), "wb")
            is_ours = _lock(file)
            if is_ours and _is_at(file, part):
                return file
            file.close()
            if is_ours is None:
                part.unlink()
                return None
        holder = _remove_dead(part)
        if holder is None:
            return None
        if holder and time.monotonic() > end:
            raise InvalidInputError(f"{holder} is writing {path}. Wait until it is done, or write somewhere else.")
        if holder:
            time.sleep(_LOOK)


def _lock(file: BinaryIO) -> bool | None:
    """Lock a file if nobody holds it; None where the system has no locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _remove_dead(part: Path) -> str | None:
    """Remove the new file of a process that is gone; of one that is alive, return who it is.

    Return None where the system has no locks; raise InvalidInputError where something else stands there.
    """
    try:
        found = part.lstat()
        if kind := special_kind(found.st_mode):
            raise InvalidInputError(f"{part} is {kind}, and stands in the way of what is to be written. Remove it.")
        with part.open("rb") as file:
            is_dead = _lock(file)
            if is_dead is None:
                return None
            if not is_dead:
                return _holder(found.st_ino)
            if _is_at(file, part):
                part.unlink()
            return ""
    except FileNotFoundError:
        return ""
    except PermissionError:
        raise InvalidInputError(
            f"{part} is another user's, who writes the same file, or was cut off. Wait, or have it removed."
        ) from None


def _holder(inode: int) -> str:
    """Return the process that has locked a file, where the system tells."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text(encoding="utf-8").splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode) and int(words[4]) > 0:
                return f"process {words[4]}"
    return "another process"


def _pass_on(file: int, old: os.stat_result) -> None:
    """Give a file the owner and the permissions of the old one; a group that it can't have gets those of all others."""
    mode, new = old.st_mode & 0o7777, os.fstat(file)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.fchown(file, old.st_uid, old.st_gid)
        except PermissionError:
            mode &= 0o777
            if old.st_gid != new.st_gid:
                mode = mode & 0o707 | (mode & 0o007) << 3
    os.fchmod(file, mode)
