"""What documents hold: anything fitted that has a body of plain data, found by the kind that it enters under.

A class enters by `register`, under the kind that documents name it by; the modules of those of higher layers are named
in `calibrant/__init__.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from inspect import isabstract
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

from calibrant._lazy import document_kinds, load_document_home
from calibrant.document_field import DocumentField
from calibrant.errors import InvalidTypeError, not_fitted
from calibrant.maps import Examples
from calibrant.provenance import Provenance, digest
from calibrant.readable import as_html, html_block

#: The classes by the kind of document that they are kept in. They enter by `register`.
_CLASSES: dict[str, type[Storable]] = {}

_Class = TypeVar("_Class", bound="type[Storable]")


def register(kind: str) -> Callable[[_Class], _Class]:
    """Return a class decorator: documents of this kind hold objects of the class and of its subclasses."""

    def enter(cls: _Class) -> _Class:
        cls.document_kind = kind
        _CLASSES[kind] = cls
        return cls

    return enter


class Storable(ABC):
    """Something fitted that a document can hold.

    Attributes
    ----------
    metadata_ : mapping
        What was saved beside it; empty where nothing was.
    """

    #: The kind of document that holds it.
    document_kind: ClassVar[str]
    #: What messages call it.
    called: ClassVar[str] = "a calibrator"
    #: How it is fitted, for the message of what is not fitted yet.
    fit_call: ClassVar[str] = "fit(scores, y)"
    #: The command line that one enters next, with {} for the file.
    next_command: ClassVar[str] = "calibrant apply {} new.csv -o out.csv"
    metadata_: Mapping[str, Any] = MappingProxyType({})
    #: Its provenance as set, and the hash that it had then: where the hash is another now, it was fitted again.
    _provenance: tuple[Provenance, bytes] | None = None

    @property
    def provenance_(self) -> Provenance | None:
        """When it was fitted and to what, as its document says; None where nobody said it, or it was fitted again."""
        if self._provenance is None or digest(self.encode()) != self._provenance[1]:
            return None
        return self._provenance[0]

    def keep_provenance(self, provenance: Provenance) -> None:
        """Say where it comes from, until it is fitted again."""
        self._provenance = (provenance, digest(self.encode()))

    @property
    @abstractmethod
    def is_fitted(self) -> bool:
        """Whether there is something to apply."""

    @abstractmethod
    def encode(self) -> dict[str, Any]:
        """Return all of it as plain data, arrays and tuples: the body of a document.

        A field has the name of the attribute, without its underscore, or is `settings`: the constructor's arguments.
        """

    @classmethod
    @abstractmethod
    def decode(cls, body: DocumentField) -> Self:
        """Return the object that the body of a document of the version `body.version` holds, or raise DocumentError."""

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Return what it is and was fitted to, by what it is called."""

    @abstractmethod
    def describe(self) -> list[str]:
        """Return lines that say in formulas and figures what it does."""

    def examples(self) -> Examples | None:
        """Return what becomes of some scores; None where that takes a row of several scores, or more than scores."""
        return None

    def _repr_html_(self) -> str:
        """Show it in a notebook: scikit-learn's display of its settings if that is installed, what it is, its curve."""
        shown = _settings_as_html(self)
        if not self.is_fitted:
            return shown
        facts = {name: [value] for name, value in self.facts().items()}
        return shown + html_block([None], as_html(facts) + self.curve_picture())

    def curve_picture(self) -> str:
        """Return a picture of what becomes of a score, as inline SVG; empty where that takes more than one score."""
        return ""

    def check_fitted(self) -> None:
        """Raise NotFittedError unless there is something to apply."""
        if not self.is_fitted:
            raise not_fitted(f"this {type(self).__name__} is not fitted. Call {self.fit_call} first.")

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted


def encode_fitted(fitted: Storable) -> dict[str, Any]:
    """Return a fitted object with its kind as plain data: a document without its header, or a part of another body.

    A subclass of someone's own is refused, as the document would give its base class back. Where many classes share a
    kind, which is that of an abstract one, these say so themselves.
    """
    own, known = type(fitted), _CLASSES[fitted.document_kind]
    if own is not known and not isabstract(known):
        raise InvalidTypeError(
            f"a {own.__name__} can't be saved: documents hold calibrant's own classes only, and this one would come "
            f"back as a {known.__name__}. Fit and save one of these, or keep it by the means of its own project."
        )
    return {"kind": fitted.document_kind, **fitted.encode()}


def decode_fitted(field: DocumentField) -> Storable:
    """Return the fitted object that such plain data are of."""
    kind = field.member("kind").choice(fitted_kinds())
    if kind not in _CLASSES:
        load_document_home(kind)
    return _CLASSES[kind].decode(field.without("kind"))


def fitted_kinds() -> list[str]:
    """Return all kinds of document, whether their classes have been imported or not."""
    return sorted({*_CLASSES, *document_kinds()})


def _settings_as_html(fitted: Storable) -> str:
    """Return scikit-learn's display of a calibrator, or its text where that has none or is not installed."""
    from html import escape
    from importlib.util import find_spec

    if not hasattr(fitted, "get_params") or find_spec("sklearn") is None:
        return f"<pre>{escape(repr(fitted))}</pre>"
    from sklearn.utils import estimator_html_repr

    return str(estimator_html_repr(fitted))
