"""Fitted calibrators in files: written whole or not at all, read without running anything."""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from calibrant.document_field import SAVE_AGAIN, within
from calibrant.errors import DocumentError, InvalidInputError, InvalidTypeError
from calibrant.files import special_kind, whole_file
from calibrant.persistence import json_text, plain_pickle
from calibrant.persistence.documents import from_document, to_document
from calibrant.persistence.limits import MAX_BYTES, check_plain, too_large
from calibrant.provenance import Provenance
from calibrant.storable import Storable

AnyPath = str | os.PathLike[str]
_Class = TypeVar("_Class", bound=Storable)

_WRITERS: dict[str, Callable[[dict[str, Any]], bytes]] = {".json": json_text.dump, ".pkl": plain_pickle.dump}
#: How files of other kinds begin that users are likely to pass.
_MAGIC = {
    b"\x1f\x8b": "a gzip archive",
    **dict.fromkeys((b"x\x01", b"x^", b"x\x9c", b"x\xda"), "zlib-compressed data, such as joblib writes"),
    b"PK\x03\x04": "a zip archive, such as .npz or .skops",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF": "an HDF5 file",
}
#: Opens a file of the system that may never have anything to read so that reading it is an error.
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
#: Seconds that `save` waits for another process, or thread, that saves to the same path.
_WAIT = 10.0


def save(
    calibrator: Any,
    path: AnyPath,
    *,
    metadata: Mapping[str, Any] | None = None,
    provenance: Provenance | None = None,
) -> None:
    """Write a fitted calibrator to a file, whole or not at all.

    Parameters
    ----------
    calibrator : calibrator
        Or anything else that is fitted: a chain of calibrators, a recalibrator of forecasts.
    path : str or path-like
        Ends in ``.json``, for one JSON document, or in ``.pkl``, for the same document as a pickle of plain data.
        Either reads back bit for bit, and the same calibrator gives the same bytes.
    metadata : mapping of plain data, optional
        Kept beside the calibrator, as `metadata_` after loading; by default, what it was loaded with.
    provenance : Provenance, optional
        When it was fitted and to which rows, as `provenance_` after loading; by default, what it was loaded with. A fit
        doesn't read the clock, so this is said here, by `Provenance.of`.

    Raises
    ------
    NotFittedError
        If the calibrator has not been fitted.
    CalibrantError
        If the path has another suffix or is no ordinary file, or the calibrator or its metadata can't be stored.
    OSError
        If the file can't be written; a file of that name is then as it was.

    Examples
    --------
    >>> import tempfile, pathlib, calibrant as cb
    >>> calibrator = cb.IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "calibrator.json")
    ...     cb.save(calibrator, path)
    ...     cb.load(path).predict_proba([0.25])
    array([0.25])
    """
    target = _as_path(path)
    write = _WRITERS.get(target.suffix.lower())
    if write is None:
        raise InvalidInputError(
            f"path {str(target)!r} ends in {target.suffix!r}. End it in .json (readable text) or .pkl (plain data)."
        )
    data = write(to_document(calibrator, metadata=metadata, provenance=provenance))
    if len(data) > MAX_BYTES:
        raise too_large(f"takes {len(data):,} bytes, more than the {MAX_BYTES:,} that can be read back")
    if target.exists():
        with within(str(target)):
            _check_regular(target)
    write_whole(target, data)


def load(path: AnyPath) -> Any:
    """Read a calibrator that `save` wrote; all of the file is checked first, and nothing in it can run.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    calibrator
        The object that was saved; `metadata_` is what was kept beside it, `provenance_` when it was fitted and to what.

    Raises
    ------
    DocumentError
        If the file is not a calibrant document, or is broken; the message names the field, its value and a fix.
    UnsafeDocumentError
        If it is a pickle of more than plain data, or too large or too deeply nested.
    UnsupportedVersionError
        If a newer calibrant wrote it, or one from before the first release.
    OSError
        If there is no such file, or it can't be read.
    """
    return _load(path)[1]


def load_as(cls: type[_Class], path: AnyPath) -> _Class:
    """Read a fitted object of one class, or say what the file holds instead."""
    loaded = load(path)
    if not isinstance(loaded, cls):
        raise DocumentError(
            f"{os.fspath(path)} holds {loaded.called} ({type(loaded).__name__}), not {cls.called}. Use it so: "
            f"{loaded.next_command.format(shlex.quote(os.fspath(path)))}"
        )
    return loaded


def read_document(path: AnyPath) -> dict[str, Any]:
    """Return the document in a file as it is, after all checks that `load` makes.

    Raises
    ------
    DocumentError, OSError
        As `load` does.
    """
    return _load(path)[0]


def read_plain(path: AnyPath, *, fix: str = "Copy it again.") -> object:
    """Return plain data that a file holds, of any meaning, within the bounds of all documents.

    `fix` is what mends a file that can't be read, for the message: how to write one by hand, say.

    Raises
    ------
    DocumentError, OSError
        As `load` does of what is no document.
    """
    source = _as_path(path)
    with within(str(source)):
        data = _parse(_read(source), fix)
        check_plain(data)
        return data


def read_toml(path: AnyPath) -> dict[str, Any]:
    """Return the tables of a TOML file, within the bounds of all documents; raises as `read_plain` does."""
    source = _as_path(path)
    with within(str(source)):
        content = _read(source)
        try:
            return tomllib.loads(content.decode())
        except (ValueError, RecursionError) as error:  # of its syntax, its UTF-8, or a number of many digits
            raise DocumentError(f"no TOML file: {error}. Correct it.") from None


def _load(path: AnyPath) -> tuple[dict[str, Any], Any]:
    source = _as_path(path)
    with within(str(source)):
        document = _parse(_read(source))
        return document, from_document(document)


def _as_path(path: AnyPath) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidTypeError(f"path={path!r:.60} is a {type(path).__name__}. Pass the name of a file.")
    name = os.fsdecode(path)
    if "\0" in name:
        raise InvalidInputError(f"path={name!r:.60} holds a null character. Pass the name of a file.")
    return Path(name)


def _check_regular(path: Path) -> None:
    """Refuse all but ordinary files before opening: a pipe would wait for ever, a device never end."""
    if kind := special_kind(path.stat().st_mode):
        raise DocumentError(f"this is {kind}, not a file. Pass the path of an ordinary file.")


def _read(path: Path) -> bytes:
    _check_regular(path)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE)) as file:
        data: bytes | None = file.read(MAX_BYTES + 1)
    if data is None:
        raise DocumentError("there is nothing to read in it. Pass the path of an ordinary file.")
    if len(data) > MAX_BYTES:
        raise too_large(f"has more than {MAX_BYTES:,} bytes")
    return data


def _parse(data: bytes, fix: str = "") -> Any:
    """Return what the bytes hold as plain data, or say what they are if that can be told.

    `fix` is that of a file that is no calibrant document.
    """
    if not data:
        raise DocumentError(f"the file is empty. {fix or f'Copy it again. {SAVE_AGAIN}'}")
    if data.startswith(plain_pickle.MARK):
        return plain_pickle.parse(data)
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            raise DocumentError(
                f"this is {what}. {fix}"
                if fix
                else f"this is not a calibrant document but {what}. Pass the file that calibrant.save wrote."
            )
    if plain_pickle.is_old(data):
        return plain_pickle.parse(data)
    return json_text.parse(data, fix)


def write_whole(target: Path, data: bytes) -> None:
    """Write a file as `whole_file` does."""
    try:
        with whole_file(target, wait=_WAIT) as file:
            file.write(data)
    except OSError as error:
        reason = f"can't write the file: {error.strerror}. Choose a folder that exists and that you may write to"
        raise OSError(error.errno, reason, str(target)) from error
