"""A long apply in parts: a manifest says what is to be done, and a part is there when it is whole."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from calibrant.engines.additions import Addition, Compute, Progress
from calibrant.engines.appending import append_row_groups, append_to
from calibrant.engines.batches import folder_files
from calibrant.engines.formats import Source, open_source
from calibrant.engines.reading import explained, table_file
from calibrant.engines.targets import open_target
from calibrant.errors import CalibrantError, InvalidInputError

MANIFEST = "_calibrant.json"
#: Rows of a part of a Parquet file at least: one that ends within a row group would need other row groups.
PART_ROWS = 1 << 22
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Applied:
    """What an apply did.

    Attributes
    ----------
    n_rows : int
        Rows that were written this time.
    n_parts : int
        Parts of the result: files.
    n_kept : int
        Parts that an earlier run had finished.
    """

    n_rows: int
    n_parts: int = 1
    n_kept: int = 0


@dataclass(frozen=True, slots=True)
class _Part:
    """A file of the result, and the row groups of a source that it holds; None for all of it."""

    name: str
    source: Source
    groups: range | None


def apply_parts(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    compute: Compute,
    fingerprint: str,
    format: str | None = None,
    part_rows: int = PART_ROWS,
    progress: Progress | None = None,
) -> Applied:
    """Copy a file or a folder of files into a folder, with new columns, in parts that a later run need not redo.

    Parameters
    ----------
    source : path-like
        A file, or a folder of files of one format.
    target : path-like
        A folder, which is made if need be. It may hold an unfinished apply of the same source by the same calibrator.
    inputs, outputs, compute, format, progress
        As in `append_columns`.
    fingerprint : str
        Tells calibrators apart: parts of another one are not kept.
    part_rows : int
        Rows of a part of a Parquet file at least; a text file is one part.

    Returns
    -------
    Applied

    Raises
    ------
    InvalidInputError
        If the target holds something else, or the source has changed since its first parts were done.
    CalibrantError
        If a file can't be read, lacks an input, or has an output already. Parts that are done stay.

    Notes
    -----
    A part is written under another name and renamed when it is whole, so a run may be killed at any time. A run that
    was killed and started again ends with the same bytes as one that was not.
    """
    root, folder = Path(source), Path(target)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{os.fspath(target)} is a file. Pass a folder for the parts of the result.")
    if root.is_dir() and folder.resolve().is_relative_to(root.resolve()):
        raise InvalidInputError(
            f"the target {os.fspath(target)} lies in the source {os.fspath(source)}. Write somewhere else."
        )
    files = folder_files(root, format) if root.is_dir() else [open_source(root, format)]
    base = root if root.is_dir() else root.parent
    addition = Addition(inputs, outputs, compute)
    for file in files:  # before the first part is written
        if file.format != "jsonl":  # whose columns only reading all of it tells
            addition.select(table_file(file).names, file.name)
    parts = [part for file in files for part in _parts_of(file, base, part_rows)]
    folder.mkdir(parents=True, exist_ok=True)
    manifest = _manifest(files, base, parts, inputs, outputs, fingerprint)
    _check_manifest(folder, manifest)
    for left in folder.rglob(".calibrant-*.part"):
        left.unlink()
    n_rows = n_kept = 0
    for part in parts:
        path = folder / part.name
        if path.exists():
            n_kept += 1
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        n_rows += _write_part(part, path, addition, n_rows, progress)
    return Applied(n_rows, len(parts), n_kept)


def _write_part(part: _Part, path: Path, addition: Addition, n_before: int, progress: Progress | None) -> int:
    def advance(n_rows: int) -> None:
        if progress is not None:
            progress(n_before + n_rows)

    try:
        with open_target(path) as out, explained(part.source.name):
            if part.groups is not None:
                return append_row_groups(part.source, out, addition, advance, part.groups)
            return append_to(part.source, out, part.source.format, addition, advance)
    except CalibrantError as error:
        name = part.source.name
        raise error if name in str(error) else type(error)(f"{name}: {error}") from None


def _parts_of(file: Source, base: Path, part_rows: int) -> list[_Part]:
    assert file.path is not None  # noqa: S101
    relative = file.path.relative_to(base)
    if file.format != "parquet":
        return [_Part(relative.as_posix(), file, None)]
    import pyarrow.parquet as pq

    with explained(file.name), pq.ParquetFile(file.open_arrow()) as opened:
        sizes = [opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)]
    cuts, held = [0], 0
    for i, size in enumerate(sizes, start=1):
        held += size
        if held >= part_rows:
            cuts.append(i)
            held = 0
    if cuts[-1] != len(sizes):
        cuts.append(len(sizes))
    if len(cuts) <= 2:
        return [_Part(relative.as_posix(), file, None)]
    names = [relative.with_name(f"{relative.stem}-{i:05d}{relative.suffix}").as_posix() for i in range(len(cuts) - 1)]
    return [_Part(name, file, range(*ends)) for name, ends in zip(names, pairwise(cuts), strict=True)]


def _manifest(
    files: Sequence[Source],
    base: Path,
    parts: Sequence[_Part],
    inputs: Sequence[str],
    outputs: Sequence[str],
    fingerprint: str,
) -> dict[str, Any]:
    described = []
    for file in files:
        assert file.path is not None  # noqa: S101
        known = file.path.stat()
        name = file.path.relative_to(base).as_posix()
        described.append({"file": name, "bytes": known.st_size, "modified_ns": known.st_mtime_ns})
    return {
        "version": _VERSION,
        "calibrator": fingerprint,
        "inputs": list(inputs),
        "outputs": list(outputs),
        "files": described,
        "parts": [
            {
                "part": part.name,
                "file": described[files.index(part.source)]["file"],
                "row_groups": None if part.groups is None else [part.groups.start, part.groups.stop],
            }
            for part in parts
        ],
    }


def _check_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest, or check that the folder's own is the same."""
    path = folder / MANIFEST
    if not path.exists():
        held = next((file for file in folder.iterdir() if not file.name.startswith(".calibrant-")), None)
        if held is not None:
            raise InvalidInputError(f"the folder {folder} is not empty: it holds {held.name}. Pass a new folder.")
        with open_target(path) as out:
            out.write((json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
        return
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise InvalidInputError(f"{path} is broken. Remove the folder, or pass a new one.") from None
    for name, what in (
        ("calibrator", "another calibrator"),
        ("inputs", "other score columns"),
        ("outputs", "other new columns"),
        ("files", "another source, or one that has changed since"),
        ("parts", "another size of parts"),
    ):
        if not isinstance(known, dict) or known.get(name) != manifest[name]:
            raise InvalidInputError(f"the folder {folder} holds an apply of {what}. Remove it, or pass a new one.")
