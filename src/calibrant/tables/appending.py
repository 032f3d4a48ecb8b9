"""New columns beside those of a source: same rows, same order, every other column as it was.

A file appears whole or not at all. Of a folder of files, or of a large file, the result is a folder of parts, so that a
run that was killed can go on: a manifest says what is to be done, and a part is written under another name and renamed
when it is whole, so a part that is there is done. A run that was killed and started again ends with the same bytes as
one that was not.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.files import held, open_target, refuse_remote, whole_file
from calibrant.readable import Readable
from calibrant.tables.columnar import TableFile
from calibrant.tables.finding import is_many, is_pattern, root_of
from calibrant.tables.formats import SUFFIXES, FileBytes, named_suffixes, open_bytes
from calibrant.tables.opening import FolderSource, is_database, many_files, one_file, open_rows, table_file
from calibrant.tables.recoding import in_encoding, packed_for, without_packing
from calibrant.tables.remote import is_remote
from calibrant.tables.sources import explained
from calibrant.tables.table_format import Format, FormatLike, TableFormat
from calibrant.tables.writing import NewColumns, Progress, Written, table_writer, write_tables

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "_calibrant.json"
#: What a run holds as long as it writes into a folder.
_HELD = "_calibrant"
#: Rows of a part of a Parquet file at least: one that ends within a row group would need other row groups.
PART_ROWS = 1 << 22


@dataclass(frozen=True, slots=True, repr=False)
class Applied(Readable):
    """What was written: rows of this time, files of the result in all, and those that an earlier run had finished.

    `n_missing` counts the rows of this time that lacked a score: written without a probability, or left out.
    """

    n_rows: int
    n_parts: int = 1
    n_kept: int = 0
    n_missing: int = 0


def append_columns(
    source: Any,
    target: str | os.PathLike[str],
    *,
    columns: NewColumns,
    fingerprint: str | None = None,
    format: FormatLike = None,
    table: str | None = None,
    part_rows: int = PART_ROWS,
    progress: Progress | None = None,
) -> Applied:
    """Copy a source that `open_rows` takes, with new columns, to a file, or from files to a folder of parts.

    The target's suffix says the format to write, which is that of a source file where they share a suffix; `-` is
    standard output. A file appears whole or not at all, and may be the source too. Where the target is a folder, or its
    name ends like one, or the source is a folder of files, a folder of parts is written; what computes the columns
    must then have a fingerprint. `progress` is told the number of rows done so far.

    Where source and target share a format, the rest of a text table keeps its bytes (quotes, line endings, `007`, blank
    lines, a missing last line ending), and a Parquet file keeps its types, metadata, row groups (up to 2^20 rows) and
    codec; memory is bounded by a few megabytes of text, or by one row group. Where they don't, values are converted by
    their Arrow types, and a text source is read into memory: inputs that are read as text stay text, and so do whole
    numbers that would lose zeros (`007`) or digits. Numbers are written in the shortest form that reads back as the
    same float64.
    """
    refuse_remote(target)
    is_path = isinstance(source, (str, os.PathLike)) and not is_database(source)
    advance = progress or (lambda _: None)
    if is_path and fingerprint is not None and (is_many(source) or _is_folder(target)):
        return _append_in_parts(source, target, columns, fingerprint, format, part_rows, advance)
    file = one_file(source, format) if is_path and table is None else None
    to = _target_format(target, file)
    if file is not None and to == file.format:
        with open_target(target) as out, explained(file.name):
            done = _append(table_file(file).with_text(columns.as_text), out, target, columns, advance)
            return Applied(done.n_rows, n_missing=done.n_missing)
    rows = open_rows(source, format=format, table=table) if file is None else table_file(file.materialised())
    rows = rows.with_text(columns.as_text)
    rows = rows.with_codes(but=rows.select(columns.inputs))
    with open_target(target) as out, explained(rows.name), packed_for(target, out) as packed:
        tables = map(_without_dictionaries, rows.tables()) if to == "arrow" else rows.tables()
        done = write_tables(tables, packed, to, columns, rows.name, advance)
        return Applied(done.n_rows, n_missing=done.n_missing)


def write_table(table: pa.Table, target: str | os.PathLike[str]) -> None:
    """Write an Arrow table to a file whose name says its format, whole or not at all; `-` is CSV on standard output."""
    refuse_remote(target)
    to = "csv" if os.fspath(target) == "-" else _target_format(target, None)
    where = f"what goes to {os.fspath(target)}"
    with (
        open_target(target) as out,
        packed_for(target, out) as packed,
        table_writer(packed, to, table.schema, where) as write,
    ):
        write(table)


def _append(
    table: TableFile, out: BinaryIO, target: str | os.PathLike[str], columns: NewColumns, progress: Progress
) -> Written:
    """Write a table of a file with new columns in its own format and encoding, packed as the target's name says."""
    with packed_for(target, out) as packed:
        return table.append(in_encoding(packed, table.file.encoding, table.name), columns, progress)


def _is_folder(target: str | os.PathLike[str]) -> bool:
    separators = tuple(filter(None, (os.sep, os.altsep)))
    return Path(target).is_dir() or os.fspath(target).endswith(separators)


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Return the values themselves: an Arrow file has one dictionary of a column, a Parquet file one per row group."""
    import pyarrow as pa

    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def _target_format(target: str | os.PathLike[str], file: FileBytes | None) -> Format:
    """Return the format that the target's name says, or that of the source file where the name says none of its own."""
    path = without_packing(target)
    if file is not None:
        is_stream = os.fspath(target) == "-" or (Path(target).exists() and not Path(target).is_file())
        if is_stream or (file.place is not None and path.suffix == without_packing(file.place).suffix):
            return file.format
    known = SUFFIXES.get(path.suffix.lower())
    if known in ("parquet", "arrow") and path != Path(target):
        raise InvalidInputError(
            f"{os.fspath(target)} would be {known} packed once more, which nobody reads in parts. Name it {path.name}."
        )
    if known is None:
        or_so = "" if file is None else ", or as the source is"
        raise InvalidInputError(
            f"the name of {os.fspath(target)} doesn't say what to write. Name it {named_suffixes()}{or_so}."
        )
    return known


# --- parts --------------------------------------------------------------------------------------------------


def _append_in_parts(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    new: NewColumns,
    fingerprint: str,
    format: FormatLike,
    part_rows: int,
    progress: Progress,
) -> Applied:
    """Copy a file, or a folder of files of one format, into a folder, with new columns.

    The folder is made if need be. It may hold parts of an unfinished run that did the same with a source that has not
    changed since; `fingerprint` says what computes the new columns. A part of a Parquet file has at least `part_rows`
    rows; a text file is one part. Where a file can't be used, the parts that are done stay.
    """
    root, folder = root_of(source), Path(target)
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{os.fspath(target)} is a file. Pass a folder for the parts of the result.")
    if not _is_folder(target) and without_packing(target).suffix.lower() in SUFFIXES:
        raise InvalidInputError(
            f"{os.fspath(source)} is a folder or pattern of files, whose result is a folder of parts, and "
            f"{os.fspath(target)} is the name of a file. Pass a folder, such as "
            f"{os.fspath(folder.parent / folder.name.split('.')[0])}."
        )
    is_deep = Path(source).is_dir() or (is_pattern(source) and "**" in os.fspath(source))
    if not is_remote(source) and is_deep and folder.resolve().is_relative_to(Path(root).resolve()):
        raise InvalidInputError(
            f"the target {os.fspath(target)} lies in the source {os.fspath(source)}. Write somewhere else."
        )
    found = many_files(source, format) if is_many(source) else [table_file(one_file(source, format))]
    paths = [_path_below(file, root) for file in found]
    whole = FolderSource(os.fspath(source), found, root).with_text(new.as_text)
    files, told = whole.files, whole.told()
    by_path = dict(zip(paths, files, strict=True))
    for file in files:  # before the first part is written
        if file.file.format != "jsonl":  # whose columns only reading all of it tells
            replace(new, told=told[file.file.place]).of(file.names, file.name)
    parts = _named_parts(by_path, part_rows)
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder / _HELD):  # by one run at a time
        _check_manifest(folder, _manifest(by_path, parts, root, new, fingerprint, TableFormat.of(format)))
        missing = {name: part for name, part in parts.items() if not (folder / name).exists()}
        n_rows = n_missing = 0
        for name, part in missing.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            of_part = replace(new, told=told[part.file.place])
            done = _write_part(part, folder / name, of_part, n_rows, progress)
            n_rows, n_missing = n_rows + done.n_rows, n_missing + done.n_missing
        if new.missing != "skip":
            _check_counts(parts, folder)
    return Applied(n_rows, len(parts), len(parts) - len(missing), n_missing)


def _check_counts(parts: dict[str, TableFile], folder: Path) -> None:
    """Check that each part has the rows that it is made of, where files say how many they have."""
    for name, part in parts.items():
        if part.n_rows is None:
            continue
        written = table_file(open_bytes(folder / name, part.file.format)).n_rows
        if part.n_rows != written:
            raise RuntimeError(f"{folder / name} has {written:,} rows of {part.n_rows:,}. Remove it, and start again.")


def _write_part(part: TableFile, path: Path, new: NewColumns, n_before: int, progress: Progress) -> Written:
    try:
        with whole_file(path) as out, explained(part.name):
            return _append(part, out, path, new, lambda n_rows: progress(n_before + n_rows))
    except CalibrantError as error:
        raise error if part.name in str(error) else type(error)(f"{part.name}: {error}") from None


def _path_below(file: TableFile, base: PurePath) -> str:
    if file.file.place is None:
        raise InvalidInputError(f"{file.name} is a stream, which can't be written in parts. Pass a file or a folder.")
    return file.file.place.relative_to(base).as_posix()


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
    files: dict[str, TableFile],
    parts: dict[str, TableFile],
    base: PurePath,
    new: NewColumns,
    fingerprint: str,
    format: TableFormat,
) -> dict[str, Any]:
    return {
        "fingerprint": fingerprint,
        "inputs": list(new.inputs),
        "outputs": list(new.outputs),
        "missing": new.missing,
        "text": format.of_text or None,
        "files": [{"file": path, **file.file.state()} for path, file in files.items()],
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
    except (ValueError, RecursionError):
        raise InvalidInputError(f"{path} is broken. Remove the folder, or pass a new one.") from None
    for name, what in (
        ("fingerprint", f"by something else than {manifest['fingerprint']}"),
        ("inputs", "from other input columns"),
        ("outputs", "with other new columns"),
        ("missing", "with another choice for missing values"),
        ("text", "of text read in another way"),
        ("files", "of another source, or one that has changed since"),
        ("parts", "of another size"),
    ):
        if not isinstance(known, dict) or known.get(name) != manifest[name]:
            raise InvalidInputError(f"the folder {folder} holds parts made {what}. Remove it, or pass a new one.")
