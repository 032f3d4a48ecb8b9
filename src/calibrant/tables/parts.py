"""New columns beside those of a folder of files, in a folder of parts, so that a run that was killed can go on.

A manifest says what is to be done. A part is written under another name and renamed when it is whole, so a part that is
there is done, and a run may be killed at any time. A run that was killed and started again ends with the same bytes as
one that was not.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.files import whole_file
from calibrant.tables.columnar import TableFile
from calibrant.tables.formats import open_bytes
from calibrant.tables.opening import folder_files, table_file
from calibrant.tables.sources import explained
from calibrant.tables.writing import NewColumns, Progress

MANIFEST = "_calibrant.json"
#: Rows of a part of a Parquet file at least: one that ends within a row group would need other row groups.
PART_ROWS = 1 << 22


@dataclass(frozen=True, slots=True)
class Applied:
    """What was written: rows of this time, files of the result in all, and those that an earlier run had finished."""

    n_rows: int
    n_parts: int = 1
    n_kept: int = 0


def append_in_parts(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    new: NewColumns,
    fingerprint: str,
    format: str | None,
    part_rows: int,
    progress: Progress,
) -> Applied:
    """Copy a file, or a folder of files of one format, into a folder, with new columns.

    The folder is made if need be. It may hold parts of an unfinished run that did the same with a source that has not
    changed since; `fingerprint` says what computes the new columns. A part of a Parquet file has at least `part_rows`
    rows; a text file is one part. Where a file can't be used, the parts that are done stay.
    """
    root, folder = Path(source), Path(target)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{os.fspath(target)} is a file. Pass a folder for the parts of the result.")
    if root.is_dir() and folder.resolve().is_relative_to(root.resolve()):
        raise InvalidInputError(
            f"the target {os.fspath(target)} lies in the source {os.fspath(source)}. Write somewhere else."
        )
    files = folder_files(root, format) if root.is_dir() else [table_file(open_bytes(root, format))]
    base = root if root.is_dir() else root.parent
    by_path = {_path_below(file, base): file for file in files}
    for file in files:  # before the first part is written
        if file.file.format != "jsonl":  # whose columns only reading all of it tells
            new.of(file.names, file.name)
    parts = _named_parts(by_path, part_rows)
    folder.mkdir(parents=True, exist_ok=True)
    _check_manifest(folder, _manifest(by_path, parts, base, new, fingerprint))
    for left in folder.rglob(".calibrant-*.part"):
        left.unlink()
    missing = {name: part for name, part in parts.items() if not (folder / name).exists()}
    n_rows = 0
    for name, part in missing.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        n_rows += _write_part(part, folder / name, new, n_rows, progress)
    return Applied(n_rows, len(parts), len(parts) - len(missing))


def _write_part(part: TableFile, path: Path, new: NewColumns, n_before: int, progress: Progress) -> int:
    try:
        with whole_file(path) as out, explained(part.name):
            return part.append(out, new, lambda n_rows: progress(n_before + n_rows))
    except CalibrantError as error:
        raise error if part.name in str(error) else type(error)(f"{part.name}: {error}") from None


def _path_below(file: TableFile, base: Path) -> str:
    if file.file.path is None:
        raise InvalidInputError(f"{file.name} is a stream, which can't be written in parts. Pass a file or a folder.")
    return file.file.path.relative_to(base).as_posix()


def _named_parts(files: dict[str, TableFile], part_rows: int) -> dict[str, TableFile]:
    """Name each part as its file, or by a number behind that, with as many hyphens as no other file or folder has."""
    split = {path: file.split(part_rows) for path, file in files.items()}
    named = {path: parts[0] for path, parts in split.items() if len(parts) == 1}
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    if MANIFEST in named:
        raise InvalidInputError(f"{named[MANIFEST].name} has the name of the list of parts. Give it another one.")
    for path, parts in split.items():
        if len(parts) > 1:
            stem, suffix = os.path.splitext(path)  # noqa: PTH122 - of a path below the source
            hyphens = "-"
            while {*named, *folders} & set(names := [f"{stem}{hyphens}{i:05d}{suffix}" for i in range(len(parts))]):
                hyphens += "-"
            named.update(zip(names, parts, strict=True))
    return dict(sorted(named.items()))


def _manifest(
    files: dict[str, TableFile], parts: dict[str, TableFile], base: Path, new: NewColumns, fingerprint: str
) -> dict[str, Any]:
    stats = {path: (base / path).stat() for path in files}
    return {
        "fingerprint": fingerprint,
        "inputs": list(new.inputs),
        "outputs": list(new.outputs),
        "files": [{"file": path, "bytes": at.st_size, "modified_ns": at.st_mtime_ns} for path, at in stats.items()],
        "parts": [
            {
                "part": name,
                "file": _path_below(part, base),
                "row_groups": None if part.row_groups is None else [part.row_groups.start, part.row_groups.stop],
            }
            for name, part in parts.items()
        ],
    }


def _check_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest, or check that the folder's own is the same."""
    path = folder / MANIFEST
    if not path.exists():
        other = next((file for file in folder.iterdir() if not file.name.startswith(".calibrant-")), None)
        if other is not None:
            raise InvalidInputError(f"the folder {folder} is not empty: it holds {other.name}. Pass a new folder.")
        with whole_file(path) as out:
            out.write((json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
        return
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise InvalidInputError(f"{path} is broken. Remove the folder, or pass a new one.") from None
    for name, what in (
        ("fingerprint", f"by something else than {manifest['fingerprint']}"),
        ("inputs", "from other input columns"),
        ("outputs", "with other new columns"),
        ("files", "of another source, or one that has changed since"),
        ("parts", "of another size"),
    ):
        if not isinstance(known, dict) or known.get(name) != manifest[name]:
            raise InvalidInputError(f"the folder {folder} holds parts made {what}. Remove it, or pass a new one.")
