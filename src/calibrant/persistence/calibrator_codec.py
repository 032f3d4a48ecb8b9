"""Fitted calibrators as plain data and back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.calibrators import (
    ALIASES,
    BINARY_CALIBRATORS,
    CALIBRATORS,
    BinaryCalibrator,
    Calibrator,
    OneVsRestCalibrator,
)
from calibrant.errors import CalibrantError, DocumentError, InvalidTypeError
from calibrant.persistence.fields import LARGEST_INTEGER, Field
from calibrant.persistence.map_codec import decode_map, encode_map
from calibrant.persistence.origins import check_origin
from calibrant.persistence.plain import as_plain
from calibrant.validation import INPUT_KINDS

_Kind = TypeVar("_Kind", bound=Calibrator)
#: Parameters that came after documents of their calibrator: absent, they mean this, and only other values are written.
_ADDED: dict[str, dict[str, object]] = {OneVsRestCalibrator.name: {"coupling": "normalise"}}


def encode_calibrator(calibrator: Calibrator) -> dict[str, Any]:
    """Return a fitted calibrator as plain data.

    Raises
    ------
    NotFittedError
        If it has not been fitted.
    InvalidTypeError
        If its class is not one of calibrant's own.
    """
    fitted = calibrator._fitted_map()
    names = calibrator.score_names_
    return {
        **_encode_settings(calibrator),
        "classes": calibrator.classes_.tolist(),
        "n_rows": calibrator.n_rows_,
        "score_names": None if names is None else [str(name) for name in names],
        "map": encode_map(fitted),
    }


def decode_calibrator(body: dict[str, Any]) -> Calibrator:
    """Return the fitted calibrator that plain data describe.

    Raises
    ------
    DocumentError
        If a field is missing, unknown, wrong in itself or does not go with the others.
    """
    fields = Field(body).members(("name", "params", "classes", "n_rows", "score_names", "map"))
    calibrator = _decode_settings(fields["name"], fields["params"], CALIBRATORS)
    classes = decode_classes(fields["classes"])
    n_rows = fields["n_rows"].integer(minimum=0)
    names = decode_names(fields["score_names"], len(classes))
    fitted = decode_map(fields["map"])
    check_origin(calibrator, fitted, len(classes), fields["map"])
    calibrator.classes_ = classes
    calibrator.n_rows_ = n_rows
    calibrator.score_names_ = names
    calibrator.map_ = fitted
    return calibrator


def decode_classes(field: Field) -> npt.NDArray[Any]:
    """Return at least two labels of one kind, booleans, integers or text, that rise strictly."""
    return decode_labels(field, minimum=2)


def decode_labels(field: Field, *, minimum: int = 1) -> npt.NDArray[Any]:
    """Return at least `minimum` labels of one kind, booleans, integers or text, that rise strictly."""
    items = field.items(minimum=minimum)
    kind = type(items[0].value)
    names = {bool: "true and false", int: "whole numbers", str: "text"}
    if kind not in names:
        items[0].refuse("is not a class label: these are true and false, whole numbers, or text")
    for before, item in pairwise(items):
        if type(item.value) is not kind:
            item.refuse(f"is of another kind than {items[0].path}: all must be {names[kind]}")
        if not before.value < item.value:  # type: ignore[operator]
            item.refuse("is not above the class before it: classes are distinct and sorted")
    labels = [item.value for item in items]
    if kind is str:
        return np.array(labels, dtype=object)
    if kind is int and items[-1].value > LARGEST_INTEGER:  # type: ignore[operator]
        items[0].integer(minimum=0)
        return np.array(labels, dtype=np.uint64)
    return np.array(labels)


def decode_names(field: Field, n_classes: int) -> tuple[str, ...] | None:
    """Return the names of the columns of scores, one column or one per class, or None."""
    if field.value is None:
        return None
    names = tuple(item.text() for item in field.items())
    if len(names) != n_classes and not (len(names) == 1 and n_classes == 2):
        field.refuse(f"does not go with {n_classes} classes: one name per class is needed")
    return names


def _encode_settings(calibrator: Calibrator) -> dict[str, Any]:
    name = getattr(calibrator, "name", None)
    if CALIBRATORS.get(str(name)) is not type(calibrator):
        raise InvalidTypeError(
            f"a {type(calibrator).__name__} can't be saved: documents hold calibrant's own calibrators only. "
            "Keep it by the means of the project that it comes from."
        )
    added = _ADDED.get(str(name), {})
    params = {key: v for key, v in calibrator.get_params(deep=False).items() if key not in added or v != added[key]}
    return {"name": name, "params": {key: _encode_param(value, f"params.{key}") for key, value in params.items()}}


def encode_nested(calibrator: str | Calibrator) -> object:
    """Return the calibrator inside another one as plain data: its name, or an object with name and params."""
    return _encode_param(calibrator, "calibrator")


def _encode_param(value: object, path: str) -> object:
    return _encode_settings(value) if isinstance(value, Calibrator) else as_plain(value, path)


def _decode_settings(name: Field, params: Field, known: Mapping[str, type[_Kind]]) -> _Kind:
    """Return an unfitted calibrator, made from settings that its constructor and its own checks accept."""
    cls = known[name.choice(known)]
    defaults = {key: parameter.default for key, parameter in inspect.signature(cls).parameters.items()}
    added = _ADDED.get(cls.name, {})
    fields = params.members([key for key in defaults if key not in added], added)
    made = cls(**{**added, **{key: _decode_param(field, defaults[key]) for key, field in fields.items()}})
    try:
        made._check_params()
    except CalibrantError as error:
        raise DocumentError(f"{params.path}: {error}") from None
    return made


def _decode_param(field: Field, default: object) -> object:
    """Return a parameter, which is of the kind of its default."""
    key = field.path.rpartition(".")[2]
    if key == "calibrator":
        return decode_nested(field)
    if key == "input":
        return field.choice(INPUT_KINDS)
    if key in ("lam", "penalty") and not isinstance(field.value, str):
        return field.number()
    if isinstance(default, bool):
        return field.boolean()
    if isinstance(default, int):
        return field.integer(minimum=-LARGEST_INTEGER)
    if isinstance(default, float):
        return field.number()
    return field.text()


def decode_nested(field: Field) -> str | BinaryCalibrator:
    """Return the calibrator of the columns: a name, or an object with name and params."""
    if isinstance(field.value, str):
        return field.choice((*BINARY_CALIBRATORS, *ALIASES))
    fields = field.members(("name", "params"))
    return _decode_settings(fields["name"], fields["params"], BINARY_CALIBRATORS)
