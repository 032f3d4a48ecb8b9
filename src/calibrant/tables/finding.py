"""The files that a folder or a pattern names, on this computer or in a bucket."""

from __future__ import annotations

import glob
import os
from pathlib import Path, PurePath

from calibrant.errors import InvalidInputError
from calibrant.tables.formats import SUFFIXES, named_suffixes
from calibrant.tables.recoding import without_packing
from calibrant.tables.remote import RemoteFile, is_many_remote, is_remote, many_remote, plain_parts, root_of_remote


def is_many(path: str | os.PathLike[str]) -> bool:
    """Say whether a path names a folder of files, or is a pattern of their names such as `part-*.csv`."""
    if is_remote(path):
        return is_many_remote(os.fspath(path))
    return Path(path).is_dir() or is_pattern(path)


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Say whether a path is a pattern of names, and not the name of a file that looks like one."""
    return glob.has_magic(os.fspath(path)) and not Path(path).exists()


def root_of(path: str | os.PathLike[str]) -> PurePath:
    """Return the folder below which the files lie that a path names: a folder, a pattern, or one file."""
    if is_remote(path):
        return root_of_remote(os.fspath(path))
    if Path(path).is_dir():
        return Path(path)
    return Path(*plain_parts(Path(path).parent))


def find_files(path: str | os.PathLike[str], *, any_suffix: bool = False) -> list[Path | RemoteFile]:
    """Return the files that a folder or a pattern names, in the order of their paths.

    Those of a folder are all in it and in the folders in it. Names that begin with a dot or an underscore, which
    writers use for their own notes, are passed over; so are files of no known suffix, unless any will do.
    """
    name, root = os.fspath(path), root_of(path)
    files: list[Path | RemoteFile]
    if is_remote(path):
        files = [*many_remote(name)]
    else:
        below = os.path.relpath(name, root) if is_pattern(path) else "**/*"
        files = [file for file in sorted(Path(root).glob(below)) if file.is_file()]
    found = []
    for file in files:
        place = file.place if isinstance(file, RemoteFile) else file
        is_hidden = any(part[0] in "._" for part in place.relative_to(root).parts)
        if not is_hidden and (any_suffix or without_packing(place).suffix.lower() in SUFFIXES):
            found.append(file)
    if not found:
        what = f"no file matches {name}" if is_pattern(path) else f"the folder {name} holds no table"
        raise InvalidInputError(f"{what}. Tables must be named {named_suffixes()}; text may be packed, .gz or .zst.")
    return found
