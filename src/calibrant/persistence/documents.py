"""Documents: a header, and what the class of the object writes and reads by its `encode` and `decode`.

A change to what a class keeps touches three places: `VERSION` in `calibrant.document_field`; the class, whose `decode`
tells bodies of both versions apart by `body.version`; and tests/formats, which gets documents of the new version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypeVar, cast

from calibrant._version import __version__
from calibrant.document_field import OLDEST_VERSION, VERSION, DocumentField, show
from calibrant.errors import DocumentError, InvalidTypeError, UnsupportedVersionError
from calibrant.persistence import json_text
from calibrant.persistence.limits import Unreadable, as_plain, check_plain
from calibrant.provenance import Provenance
from calibrant.storable import Storable, decode_fitted, encode_fitted

FORMAT = "calibrant"
_HEADER = ("format", "version", "calibrant", "metadata", "provenance")

_Storable = TypeVar("_Storable", bound=Storable)


def to_document(
    fitted: Storable, *, metadata: Mapping[str, Any] | None = None, provenance: Provenance | None = None
) -> dict[str, Any]:
    """Return a fitted object as a document: a dict of plain data that `from_document` reads.

    Parameters
    ----------
    fitted : calibrator
        Or anything else that is fitted and can be saved.
    metadata : mapping of plain data, optional
        Kept beside the object; by default, what the object was loaded with.
    provenance : Provenance, optional
        When it was fitted and to which rows; by default, what the object was loaded with.

    Raises
    ------
    NotFittedError
        If the object has not been fitted.
    InvalidTypeError
        If it is nothing that documents hold, or the metadata is not plain data.
    DocumentError
        If what it holds could not be read back.
    """
    body = _plain_body(check_fitted(fitted, Storable, "save"))
    document = {"format": FORMAT, "version": VERSION, "calibrant": __version__, **body}
    kept = fitted.metadata_ if metadata is None else metadata
    if kept != {}:
        document["metadata"] = as_plain(kept, "metadata")
    said = fitted.provenance_ if provenance is None else provenance
    if said is not None:
        if not isinstance(said, Provenance):
            raise InvalidTypeError(f"provenance={show(said)} is no Provenance. Make one by Provenance.of(scores, y).")
        document["provenance"] = said.to_dict()
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
    version = root.member("version").integer(minimum=1)
    if version > VERSION:
        raise UnsupportedVersionError(
            f"version: {version} was written by a newer calibrant; this one, {__version__}, reads up to {VERSION}. "
            "Upgrade it: pip install --upgrade calibrant."
        )
    if version < OLDEST_VERSION:
        raise UnsupportedVersionError(
            f"version: {version} was written before the first release of calibrant. Fit the calibrator again."
        )
    root.member("calibrant").text()
    metadata = root.member("metadata").object() if "metadata" in document else {}
    body = {key: value for key, value in document.items() if key not in _HEADER}
    made = decode_fitted(DocumentField(body, version=version))
    if metadata:
        made.metadata_ = deepcopy(metadata)
    if "provenance" in document:
        made.keep_provenance(Provenance.decode(root.member("provenance")))
    return made


def fingerprint(fitted: Storable) -> str:
    """Return a hash of all that a fitted object knows: of its document without the header and metadata."""
    fitted.check_fitted()
    return hashlib.sha256(json_text.dump(_plain_body(fitted))).hexdigest()


def check_fitted(given: object, of: type[_Storable], verb: str) -> _Storable:
    """Return an object if it is of a class and has been fitted."""
    if not isinstance(given, of):
        if isinstance(given, Storable):
            raise InvalidTypeError(f"can't {verb} a {type(given).__name__}, which makes no probabilities of scores.")
        fix = "Pass one of its calibrators_." if hasattr(type(given), "calibrators_") else "Pass a fitted calibrator."
        fix = "It goes on learning: keep its to_dict()." if hasattr(type(given), "from_dict") else fix
        raise InvalidTypeError(f"can't {verb} {show(given)} of type {type(given).__name__}. {fix}")
    given.check_fitted()
    return given


def _plain_body(fitted: Storable) -> dict[str, Any]:
    return cast("dict[str, Any]", as_plain(encode_fitted(fitted), ""))


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
