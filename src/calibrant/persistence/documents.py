"""Documents: a header that says what they are, and the body that the class of the kind writes and reads.

A change to what a class keeps: raise `VERSION`, let the class's `decode` read bodies of both versions, which it is told
apart by its argument `version`, and commit documents of the new version to tests/formats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from calibrant._version import __version__
from calibrant.document_field import DocumentField, show
from calibrant.errors import DocumentError, InvalidTypeError, UnsupportedVersionError
from calibrant.fitted import Fitted, fitted_class, fitted_kinds
from calibrant.persistence import json_text
from calibrant.persistence.limits import Unreadable, as_plain, check_plain

FORMAT = "calibrant"
VERSION = 2
_OLDEST = 2
_HEADER = ("format", "version", "kind", "calibrant", "metadata")


def to_document(fitted: Fitted, *, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a fitted object as a document: a dict of plain data that `from_document` reads.

    Parameters
    ----------
    fitted : Fitted
        A calibrator, or anything else that obeys the contract.
    metadata : mapping of plain data, optional
        Kept beside the object; by default, what the object was loaded with.

    Raises
    ------
    NotFittedError
        If the object has not been fitted.
    InvalidTypeError
        If it is nothing that documents hold, or the metadata is not plain data.
    DocumentError
        If what it holds could not be read back.
    """
    given: object = fitted
    if not isinstance(given, Fitted):
        fix = "Pass one of its calibrators_." if hasattr(type(fitted), "calibrators_") else "Pass a fitted calibrator."
        raise InvalidTypeError(f"can't save {show(fitted)} of type {type(fitted).__name__}. {fix}")
    fitted.check_fitted()
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "kind": fitted.document_kind,
        "calibrant": __version__,
    }
    body = as_plain(fitted.encode(), "")
    assert isinstance(body, dict)  # noqa: S101 - for the type checker: what was a dict stays one
    document |= body
    if metadata is None:
        metadata = getattr(fitted, "metadata_", None)
    if metadata is not None:
        document["metadata"] = as_plain(metadata, "metadata")
    from_document(document)
    return document


def from_document(document: dict[str, Any]) -> Any:
    """Return the fitted object that a document holds, after checking all of it.

    Raises
    ------
    DocumentError
        If it is not a calibrant document, or a field is missing, unknown or wrong; the message names it.
    UnsupportedVersionError
        If it has a format version that this release can't read.
    UnsafeDocumentError
        If it is too large or too deeply nested.
    """
    _check_format(document)
    check_plain(document)
    root = DocumentField(document)
    version = _check_version(root.member("version"))
    kind = root.member("kind").choice(fitted_kinds())
    root.member("calibrant").text()
    metadata = document.get("metadata")
    if "metadata" in document and not isinstance(metadata, dict):
        root.member("metadata").refuse("is not an object with named fields")
    body = {key: value for key, value in document.items() if key not in _HEADER}
    made = fitted_class(kind).decode(DocumentField(body), version)
    if metadata is not None:
        made.metadata_ = dict(metadata)
    return made


def fingerprint(fitted: Fitted) -> str:
    """Return a hash of what a fitted object answers: of its document without metadata."""
    fitted.check_fitted()
    body = {"kind": fitted.document_kind, "body": as_plain(fitted.encode(), "")}
    return hashlib.sha256(json_text.dump(body)).hexdigest()


def _check_format(document: object) -> None:
    """Refuse what is no calibrant document at all, before anything is said of its fields."""
    if isinstance(document, Unreadable):
        check_plain(document)
    if not isinstance(document, dict):
        what = "a list" if isinstance(document, list) else f"the single value {show(document)}"
        raise DocumentError(f"this is not a calibrant document but {what}. Pass what calibrant.save wrote.")
    if document.get("format") != FORMAT:
        found = f"its format is {show(document['format'])}" if "format" in document else "it has no field 'format'"
        raise DocumentError(f"this is not a calibrant document: {found}. Pass what calibrant.save wrote.")


def _check_version(field: DocumentField) -> int:
    version = field.integer(minimum=1)
    if version > VERSION:
        raise UnsupportedVersionError(
            f"version: {version} was written by a newer calibrant; this one, {__version__}, reads up to {VERSION}. "
            "Upgrade it: pip install --upgrade calibrant."
        )
    if version < _OLDEST:
        raise UnsupportedVersionError(
            f"version: {version} was written before the first release of calibrant. Fit the calibrator again."
        )
    return version
