"""Which maps a calibrator can have produced: a document whose parts don't go together has been changed."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators import (
    AutoCalibrator,
    BinaryCalibrator,
    Calibrator,
    DirichletCalibrator,
    EnsembleTemperatureCalibrator,
    MatrixScalingCalibrator,
    OneVsRestCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    TopLabelCalibrator,
    VectorScalingCalibrator,
    VennAbersCalibrator,
)
from calibrant.calibrators.registry import make_binary_calibrator
from calibrant.errors import InvalidTypeError
from calibrant.maps import (
    IDENTITY,
    BetaMap,
    BinaryMap,
    BlendMap,
    InterpolatedMap,
    LogisticMap,
    LogitInterpolatedMap,
    LogPoolMap,
    Map,
    MeanMap,
    MixtureMap,
    OneVsRestMap,
    QuadraticMap,
    SingleMap,
    SoftmaxMap,
    TopLabelMap,
    VennAbersMap,
)
from calibrant.maps.multiclass import PoolPart
from calibrant.persistence.fields import Field
from calibrant.validation import InputKind

_LINEAR = (VectorScalingCalibrator, MatrixScalingCalibrator, DirichletCalibrator)


def check_origin(calibrator: Calibrator, fitted: Map, n_classes: int, field: Field) -> None:
    """Refuse a map, held by `field`, that `calibrator` can't have produced for `n_classes` classes.

    Raises
    ------
    DocumentError
        If the kind or number of maps, or the way that scores enter them, doesn't go with the rest.
    """
    single: Calibrator = calibrator
    if isinstance(calibrator, (OneVsRestCalibrator, TopLabelCalibrator)):
        single = make_binary_calibrator(calibrator.calibrator)
    foreign = f"is a kind of map that {calibrator!r} doesn't produce for {n_classes} classes"
    if isinstance(calibrator, TopLabelCalibrator) and (n_classes > 2) != isinstance(fitted, TopLabelMap):
        field.member("kind").refuse(foreign)
    match fitted:
        case TopLabelMap():
            if not isinstance(calibrator, TopLabelCalibrator):
                field.member("kind").refuse(foreign)
            _check_top_label(calibrator, fitted, n_classes, field)
        case OneVsRestMap():
            if not isinstance(single, BinaryCalibrator) or (n_classes == 2 and single is calibrator):
                field.member("kind").refuse(foreign)
            _check_columns(single, fitted, n_classes, field)
            _check_coupling(calibrator, fitted, field)
        case LogPoolMap():
            if not isinstance(calibrator, AutoCalibrator) or n_classes == 2:
                field.member("kind").refuse(foreign)
            for item, part in zip(field.member("maps").items(), fitted.maps, strict=True):
                _check_pooled(calibrator, part, n_classes, item)
        case MixtureMap():
            if not isinstance(single, EnsembleTemperatureCalibrator) or n_classes == 2:
                field.member("kind").refuse(foreign)
            for item, part in zip(field.member("maps").items(), fitted.maps, strict=True):
                _check_softmax(single, part, n_classes, item)
        case SoftmaxMap():
            if not isinstance(single, (TemperatureCalibrator, AutoCalibrator, *_LINEAR)) or n_classes == 2:
                field.member("kind").refuse(foreign)
            _check_softmax(single, fitted, n_classes, field)
        case _:
            if n_classes != 2 or type(fitted) not in _kinds(single):
                field.member("kind").refuse(foreign)
            _check_clip(fitted, single.input, field)


def _check_columns(single: BinaryCalibrator, fitted: OneVsRestMap, n_classes: int, field: Field) -> None:
    if len(fitted.maps) != n_classes:
        field.member("maps").refuse(f"does not go with {n_classes} classes: one map per class is needed")
    _check_maps(single, fitted, field)


def _check_coupling(calibrator: Calibrator, fitted: OneVsRestMap, field: Field) -> None:
    wanted = calibrator.coupling if isinstance(calibrator, OneVsRestCalibrator) else "normalise"
    if fitted.coupling != wanted:
        place = field.member("coupling") if "coupling" in field.object() else field
        place.refuse(f"does not go with {calibrator!r}, which couples rows by {wanted!r}")


def _check_top_label(calibrator: TopLabelCalibrator, fitted: TopLabelMap, n_classes: int, field: Field) -> None:
    if fitted.n_classes != n_classes:
        field.member("n_classes").refuse(f"does not go with the {n_classes} classes of the document")
    if len(fitted.maps) > 1 and not calibrator.per_class:
        field.member("maps").refuse(f"does not go with {calibrator!r}, which fits one map")
    if calibrator.input == "score":
        field.refuse("takes probabilities or logits, not raw scores")
    _check_maps(make_binary_calibrator(calibrator.calibrator), fitted, field)


def _check_maps(single: BinaryCalibrator, fitted: OneVsRestMap | TopLabelMap, field: Field) -> None:
    maps, is_logit = field.member("maps"), field.member("is_logit")
    if fitted.is_logit != (single.input == "logit"):
        is_logit.refuse(f"does not go with input {single.input!r}")
    column_input: InputKind = "probability" if fitted.is_logit else single.input
    kinds = single.map_kinds(column_input)
    for item, column in zip(maps.items(), fitted.maps, strict=True):
        keeps = column_input != "score" and _is_identity(column)  # a class without rows keeps its probabilities
        if type(column) not in kinds and not keeps:
            item.member("kind").refuse(f"is a kind of map that {single!r} doesn't produce for one class")
        _check_clip(column, column_input, item)


def _check_pooled(calibrator: AutoCalibrator, part: PoolPart, n_classes: int, field: Field) -> None:
    if isinstance(part, SoftmaxMap):
        _check_softmax(calibrator, part, n_classes, field)
        return
    if part.coupling != "likelihood":
        field.refuse(f"couples rows by {part.coupling!r}, but {calibrator!r} couples them by 'likelihood'")
    is_steps = any(isinstance(m, VennAbersMap) for m in part.maps)
    columns = VennAbersCalibrator if is_steps else SplineCalibrator
    _check_columns(columns(input=calibrator.input), part, n_classes, field)


def _check_softmax(single: Calibrator, fitted: SoftmaxMap, n_classes: int, field: Field) -> None:
    if isinstance(single, _LINEAR) and fitted.weight.ndim != 2:
        field.member("weight").refuse("is not one row per class, as a matrix is")
    if not isinstance(single, (*_LINEAR, AutoCalibrator)) and fitted.weight.ndim != 0:
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
        case MeanMap():
            kind: type[SingleMap] = BetaMap if input == "probability" else LogisticMap
            for item, part in zip(field.member("maps").items(), fitted.maps, strict=True):
                if not isinstance(part, kind):
                    item.member("kind").refuse(f"does not go with input {input!r}")
        case LogitInterpolatedMap() | QuadraticMap():
            if (fitted.clip is None) == (input == "probability"):
                field.member("clip").refuse(f"does not go with input {input!r}")
        case _:
            pass


def _kinds(single: Calibrator) -> tuple[type[BinaryMap], ...]:
    if isinstance(single, (BinaryCalibrator, TemperatureCalibrator, EnsembleTemperatureCalibrator, *_LINEAR)):
        return single.map_kinds(single.input)
    raise InvalidTypeError(f"documents don't say yet which kind of map a {type(single).__name__} produces")


def _is_identity(column: BinaryMap) -> bool:
    return (
        isinstance(column, InterpolatedMap)
        and np.array_equal(column.x, IDENTITY.x)
        and np.array_equal(column.y, IDENTITY.y)
    )
