"""Making calibrators by name, for the command line and arguments that take a name."""

from __future__ import annotations

from typing import Any, TypeVar

from calibrant.calibrators.base import (
    BINARY_CALIBRATORS,
    CALIBRATORS,
    BinaryCalibrator,
    Calibrator,
    decode_settings,
)
from calibrant.document_field import DocumentField
from calibrant.errors import InvalidTypeError, unknown_name
from calibrant.phrases import quoted

#: Other names that users know a method by.
ALIASES = {"platt": "sigmoid"}

_Kind = TypeVar("_Kind", bound=Calibrator)


def make_calibrator(calibrator: str | Calibrator, /, **params: Any) -> Calibrator:
    """Return a new, unfitted calibrator of the named kind, or like the given instance but for the parameters given.

    Raises
    ------
    UnknownNameError
        If no calibrator has that name.
    """
    if isinstance(calibrator, Calibrator):
        kind, params = type(calibrator), {**calibrator.get_params(deep=False), **params}
    else:
        kind = calibrator_kind(calibrator)
    return kind(**kind.adapted(params))


def calibrator_kind(name: str) -> type[Calibrator]:
    """Return the class of the calibrators of this name."""
    known = ALIASES.get(name, name)
    if known not in CALIBRATORS:
        raise unknown_name("calibrator", name, CALIBRATORS)
    return CALIBRATORS[known]


def make_binary_calibrator(calibrator: str | BinaryCalibrator) -> BinaryCalibrator:
    """Return a new, unfitted calibrator of one score, or say why the one asked for is none."""
    made = make_calibrator(calibrator)
    if not isinstance(made, BinaryCalibrator):
        raise InvalidTypeError(
            f"{calibrator!r} calibrates all columns at once, so it can't be used one-vs-rest. "
            f"Choose one of: {quoted(list(BINARY_CALIBRATORS))}."
        )
    return made


def decode_calibrator_setting(field: DocumentField, of: type[_Kind]) -> str | _Kind:
    """Return the calibrator of a class that a setting in a document names, or that it holds as its own settings."""
    if isinstance(field.value, dict):
        return decode_settings(field.members(("method", "settings")), of)
    names = [name for name, cls in CALIBRATORS.items() if issubclass(cls, of)]
    return field.choice([*names, *ALIASES])
