"""Which maps a calibrator can have produced: a document whose parts don't go together has been changed."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators import (
    AutoCalibrator,
    BinaryCalibrator,
    Calibrator,
    OneVsRestCalibrator,
    TemperatureCalibrator,
)
from calibrant.calibrators.registry import make_binary_calibrator
from calibrant.errors import InvalidTypeError
from calibrant.maps import (
    IDENTITY,
    BinaryMap,
    BlendMap,
    InterpolatedMap,
    LogitInterpolatedMap,
    Map,
    OneVsRestMap,
    QuadraticMap,
    SoftmaxMap,
)
from calibrant.persistence.fields import Field
from calibrant.validation import InputKind


def check_origin(calibrator: Calibrator, fitted: Map, n_classes: int, field: Field) -> None:
    """Refuse a map, held by `field`, that `calibrator` can't have produced for `n_classes` classes.

    Raises
    ------
    DocumentError
        If the kind or number of maps, or the way that scores enter them, doesn't go with the rest.
    """
    single: Calibrator = calibrator
    if isinstance(calibrator, OneVsRestCalibrator):
        single = make_binary_calibrator(calibrator.calibrator)
    foreign = f"is a kind of map that {calibrator!r} doesn't produce for {n_classes} classes"
    match fitted:
        case OneVsRestMap():
            if not isinstance(single, BinaryCalibrator) or (n_classes == 2 and single is calibrator):
                field.member("kind").refuse(foreign)
            _check_columns(single, fitted, n_classes, field)
        case SoftmaxMap():
            if not isinstance(single, (TemperatureCalibrator, AutoCalibrator)) or n_classes == 2:
                field.member("kind").refuse(foreign)
            _check_temperature(single, fitted, n_classes, field)
        case _:
            if n_classes != 2 or type(fitted) not in _kinds(single):
                field.member("kind").refuse(foreign)
            _check_clip(fitted, single.input, field)


def _check_columns(single: BinaryCalibrator, fitted: OneVsRestMap, n_classes: int, field: Field) -> None:
    maps, is_logit = field.member("maps"), field.member("is_logit")
    if len(fitted.maps) != n_classes:
        maps.refuse(f"does not go with {n_classes} classes: one map per class is needed")
    if fitted.is_logit != (single.input == "logit"):
        is_logit.refuse(f"does not go with input {single.input!r}")
    column_input: InputKind = "probability" if fitted.is_logit else single.input
    kinds = single.map_kinds(column_input)
    for item, column in zip(maps.items(), fitted.maps, strict=True):
        keeps = column_input != "score" and _is_identity(column)  # a class without rows keeps its probabilities
        if type(column) not in kinds and not keeps:
            item.member("kind").refuse(f"is a kind of map that {single!r} doesn't produce for one class")
        _check_clip(column, column_input, item)


def _check_temperature(single: Calibrator, fitted: SoftmaxMap, n_classes: int, field: Field) -> None:
    if fitted.weight.ndim != 0:
        field.member("weight").refuse("is not one number, as an inverse temperature is")
    if fitted.bias.size != n_classes:
        field.member("bias").refuse(f"does not go with {n_classes} classes: one number per class is needed")
    if (fitted.clip is None) == (single.input == "probability"):
        field.member("clip").refuse(f"does not go with input {single.input!r}")


def _check_clip(fitted: BinaryMap, input: InputKind, field: Field) -> None:
    """Refuse a clip of scores that are no probabilities, and probabilities without one."""
    match fitted:
        case BlendMap():
            for item, part in zip(field.member("maps").items(), fitted.maps, strict=True):
                _check_clip(part, input, item)
        case LogitInterpolatedMap() | QuadraticMap():
            if (fitted.clip is None) == (input == "probability"):
                field.member("clip").refuse(f"does not go with input {input!r}")
        case _:
            pass


def _kinds(single: Calibrator) -> tuple[type[BinaryMap], ...]:
    if isinstance(single, (BinaryCalibrator, TemperatureCalibrator)):
        return single.map_kinds(single.input)
    raise InvalidTypeError(f"documents don't say yet which kind of map a {type(single).__name__} produces")


def _is_identity(column: BinaryMap) -> bool:
    return (
        isinstance(column, InterpolatedMap)
        and np.array_equal(column.x, IDENTITY.x)
        and np.array_equal(column.y, IDENTITY.y)
    )
