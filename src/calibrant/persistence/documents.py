"""Documents: a header that says what they are, and a body that each kind of object reads and writes."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from calibrant._version import __version__
from calibrant.calibrators import Calibrator
from calibrant.errors import DocumentError, InvalidInputError, InvalidTypeError, UnsupportedVersionError
from calibrant.persistence.calibrator_codec import decode_calibrator, encode_calibrator
from calibrant.persistence.fields import Field, show
from calibrant.persistence.plain import Unreadable, as_plain, check_plain

FORMAT = "calibrant"
VERSION = 1
_HEADER = ("format", "version", "kind", "calibrant")


@dataclass(frozen=True, slots=True)
class _Kind:
    """How objects of one kind are told apart, written and read."""

    cls: type
    encode: Callable[[Any], dict[str, Any]]
    decode: Callable[[dict[str, Any]], Any]


_KINDS = {"calibrator": _Kind(Calibrator, encode_calibrator, decode_calibrator)}
#: Kinds whose modules lie above this one: imported when a document of theirs is met, they register themselves.
_HOMES = {
    "forecast_recalibrator": "calibrant.forecasts",
    "grouped_calibrator": "calibrant.grouped",
    "multilabel_calibrator": "calibrant.multilabel",
    "prior_shift": "calibrant.prior",
    "rank_preserving_calibrator": "calibrant.rank_preserving",
    "probability_calibrator": "calibrant.probability",
}


def register_kind(
    kind: str, cls: type, encode: Callable[[Any], dict[str, Any]], decode: Callable[[dict[str, Any]], Any]
) -> None:
    """Make objects of a class of a higher layer part of what documents hold.

    Parameters
    ----------
    kind : str
        What the document calls it.
    cls : type
        Instances of it are written by `encode`.
    encode : callable
        Returns the body of the document: a dict of plain data, without the keys of the header and "metadata".
    decode : callable
        Checks such a body, of which nothing is known but that it is plain data, and returns the object, or raises
        DocumentError. `calibrant.persistence.Field` helps to check.

    Raises
    ------
    InvalidInputError
        If another class has taken the name.
    """
    taken = _KINDS.get(kind)
    if taken is not None and taken.cls.__qualname__ != cls.__qualname__:
        raise InvalidInputError(f"the kind {kind!r} is taken by {taken.cls.__name__}. Choose another name.")
    _KINDS[kind] = _Kind(cls, encode, decode)


def kind_of_object(obj: Any) -> str | None:
    """Return what documents call objects of this kind, or None if they hold none."""
    return next((name for name, known in _KINDS.items() if isinstance(obj, known.cls)), None)


def to_document(obj: Any, *, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a fitted object as a document: a dict of plain data that `from_document` reads.

    Parameters
    ----------
    obj : Calibrator or object of a registered kind
    metadata : mapping of plain data, optional
        Kept beside the object; by default, what the object was loaded with.

    Raises
    ------
    NotFittedError
        If the object has not been fitted.
    InvalidTypeError
        If it is of no kind that documents hold, or the metadata is not plain data.
    DocumentError
        If what it holds could not be read back.
    """
    kind = kind_of_object(obj)
    if kind is None:
        fix = "Pass one of its calibrators_." if hasattr(type(obj), "calibrators_") else "Pass a fitted calibrator."
        raise InvalidTypeError(f"can't save {show(obj)} of type {type(obj).__name__}. {fix}")
    document = {"format": FORMAT, "version": VERSION, "kind": kind, "calibrant": __version__}
    document |= _KINDS[kind].encode(obj)
    if metadata is None:
        metadata = getattr(obj, "metadata_", None)
    if metadata is not None:
        document["metadata"] = as_plain(metadata, "metadata")
    from_document(document)
    return document


def from_document(document: dict[str, Any]) -> Any:
    """Return the object that a document holds, after checking all of it.

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
    _check_version(Field(document).member("version"))
    root = Field(document)
    kind = root.member("kind").choice(sorted({*_KINDS, *_HOMES}))
    root.member("calibrant").text()
    metadata = document.get("metadata")
    if "metadata" in document and not isinstance(metadata, dict):
        root.member("metadata").refuse("is not an object with named fields")
    if kind not in _KINDS:
        pkgutil.resolve_name(_HOMES[kind])
    body = {key: value for key, value in document.items() if key not in (*_HEADER, "metadata")}
    made = _KINDS[kind].decode(body)
    if metadata is not None:
        made.metadata_ = as_plain(metadata, "metadata")
    return made


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


def _check_version(field: Field) -> None:
    version = field.integer(minimum=1)
    if version > VERSION:
        raise UnsupportedVersionError(
            f"version: {version} was written by a newer calibrant; this one, {__version__}, reads up to {VERSION}. "
            "Upgrade it: pip install --upgrade calibrant."
        )
