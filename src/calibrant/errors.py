"""Exceptions and warnings: every refusal names the argument, the place, the value, the count and one fix."""

from __future__ import annotations

import difflib
import inspect
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

#: The categories of warnings that are held at the moment, the innermost last, and where their messages are kept.
_HELD: ContextVar[tuple[tuple[type[CalibrantWarning], list[str]], ...]] = ContextVar("held", default=())
_PACKAGE = f"{Path(__file__).parent}{os.sep}"


class CalibrantError(Exception):
    """Base of every error that calibrant raises on purpose."""


class InvalidInputError(CalibrantError, ValueError):
    """A value that an argument can't take."""


class InvalidTypeError(CalibrantError, TypeError):
    """A kind of object that an argument can't be."""


class ShapeError(InvalidInputError):
    """Dimensions or lengths that don't fit together."""


class ColumnOrderError(InvalidInputError):
    """Names of columns that contradict the order in which they stand, or that nothing can be matched to."""


class InvalidScoreError(InvalidInputError):
    """A score that is missing or not a finite number."""


class InvalidProbabilityError(InvalidScoreError):
    """A probability outside [0, 1], or a row of them that doesn't sum to one."""


class InvalidLabelError(InvalidInputError):
    """Labels that are missing, unknown, of mixed kinds or all of one class."""


class InvalidWeightError(InvalidInputError):
    """A sample weight that is negative, missing, not finite, or all of them zero."""


class UnknownNameError(InvalidInputError):
    """A name (of a column, method or metric) that doesn't exist."""


class NotFittedError(CalibrantError, ValueError, AttributeError):
    """Something was asked of a calibrator before it was fitted.

    Where scikit-learn is imported, what is raised is its `sklearn.exceptions.NotFittedError` too.
    """


class DocumentError(InvalidInputError):
    """A file or document that is not a calibrant document that can be read."""


class UnsafeDocumentError(DocumentError):
    """A file that would have run code, or exhausted memory, had it been trusted."""


class UnsupportedVersionError(DocumentError):
    """A calibrant document of a format version that this release can't read."""


class MissingPackageError(CalibrantError, ImportError):
    """A package that calibrant needs for this alone, and that is not installed."""


class CalibrantWarning(UserWarning):
    """Base of every warning that calibrant issues."""


class ConvergenceWarning(CalibrantWarning):
    """An iteration stopped before it reached its tolerance."""


class DataWarning(CalibrantWarning):
    """The data forced a documented fallback, such as a class without rows."""


def not_fitted(message: str) -> NotFittedError:
    """Build the error of what is not fitted; code written for scikit-learn's estimators catches it as theirs."""
    theirs = sys.modules.get("sklearn.exceptions")
    return NotFittedError(message) if theirs is None else _not_fitted_of_both(theirs.NotFittedError)(message)


@cache
def _not_fitted_of_both(theirs: type[ValueError]) -> type[NotFittedError]:
    # no name leads to the class, so a pickle makes it again
    body = {"__module__": __name__, "__reduce__": lambda self: (not_fitted, (str(self),))}
    return type("NotFittedError", (NotFittedError, theirs), body)


def did_you_mean(name: object, options: Iterable[object]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest option, or an empty string."""
    close = difflib.get_close_matches(str(name), [str(option) for option in options])
    close.sort(key=lambda option: sorted(option) != sorted(str(name)))  # letters that changed places come first
    return f" Did you mean {close[0]!r}?" if close else ""


def unknown_name(what: str, name: object, options: Iterable[object]) -> UnknownNameError:
    """Build the error for a name that is none of `options`."""
    known = list(options)
    listed = ", ".join(repr(option) for option in known)
    return UnknownNameError(f"unknown {what} {name!r}.{did_you_mean(name, known)} Choose one of: {listed}.")


def warn(message: str, category: type[CalibrantWarning]) -> None:
    """Issue a warning at the line that called into the package, however many of its functions lie between."""
    for held, messages in reversed(_HELD.get()):
        if issubclass(category, held):
            messages.append(message)
            return
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def hold_warnings(category: type[CalibrantWarning] = CalibrantWarning) -> Iterator[list[str]]:
    """Yield a list that takes the messages of `warn` instead of the user, in this thread.

    `warnings.catch_warnings` changes the filters of all threads, and where two of them overlap, for good.
    """
    messages: list[str] = []
    token = _HELD.set((*_HELD.get(), (category, messages)))
    try:
        yield messages
    finally:
        _HELD.reset(token)
