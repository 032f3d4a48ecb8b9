"""The calibrators by name, for the command line, documents and arguments that take a name."""

from __future__ import annotations

import inspect
from typing import Any

from calibrant.calibrators._wrapping import WrappingCalibrator
from calibrant.calibrators.auto import AutoCalibrator
from calibrant.calibrators.bagged import BaggedCalibrator
from calibrant.calibrators.base import BinaryCalibrator, Calibrator
from calibrant.calibrators.beta import BetaCalibrator
from calibrant.calibrators.centered_isotonic import CenteredIsotonicCalibrator
from calibrant.calibrators.dirichlet import DirichletCalibrator
from calibrant.calibrators.ensemble_temperature import EnsembleTemperatureCalibrator
from calibrant.calibrators.histogram import HistogramCalibrator
from calibrant.calibrators.isotonic import IsotonicCalibrator
from calibrant.calibrators.matrix_scaling import MatrixScalingCalibrator
from calibrant.calibrators.mimic import MimicCalibrator
from calibrant.calibrators.near_isotonic import NearIsotonicCalibrator
from calibrant.calibrators.one_vs_rest import OneVsRestCalibrator
from calibrant.calibrators.quadratic import QuadraticCalibrator
from calibrant.calibrators.scaling_binning import ScalingBinningCalibrator
from calibrant.calibrators.sigmoid import SigmoidCalibrator
from calibrant.calibrators.spline import SplineCalibrator
from calibrant.calibrators.temperature import TemperatureCalibrator
from calibrant.calibrators.top_label import TopLabelCalibrator
from calibrant.calibrators.vector_scaling import VectorScalingCalibrator
from calibrant.calibrators.venn_abers import VennAbersCalibrator
from calibrant.errors import InvalidTypeError, unknown_name

BINARY_CALIBRATORS: dict[str, type[BinaryCalibrator]] = {
    kind.name: kind
    for kind in (
        IsotonicCalibrator,
        SigmoidCalibrator,
        BetaCalibrator,
        HistogramCalibrator,
        MimicCalibrator,
        SplineCalibrator,
        QuadraticCalibrator,
        VennAbersCalibrator,
        AutoCalibrator,
        CenteredIsotonicCalibrator,
        NearIsotonicCalibrator,
        ScalingBinningCalibrator,
        BaggedCalibrator,
    )
}
CALIBRATORS: dict[str, type[Calibrator]] = {
    **BINARY_CALIBRATORS,
    TemperatureCalibrator.name: TemperatureCalibrator,
    VectorScalingCalibrator.name: VectorScalingCalibrator,
    MatrixScalingCalibrator.name: MatrixScalingCalibrator,
    DirichletCalibrator.name: DirichletCalibrator,
    EnsembleTemperatureCalibrator.name: EnsembleTemperatureCalibrator,
    OneVsRestCalibrator.name: OneVsRestCalibrator,
    TopLabelCalibrator.name: TopLabelCalibrator,
}
#: Other names that users know a method by.
ALIASES = {"platt": "sigmoid"}


def make_calibrator(calibrator: str | Calibrator, /, **params: Any) -> Calibrator:
    """Return a new, unfitted calibrator of the named kind, or like the given instance but for the parameters given.

    `input`, where a calibrator is made of another one, is what the inner one takes.
    """
    if isinstance(calibrator, Calibrator):
        kind, params = type(calibrator), {**calibrator.get_params(deep=False), **params}
    else:
        name = ALIASES.get(calibrator, calibrator)
        if name not in CALIBRATORS:
            raise unknown_name("calibrator", calibrator, CALIBRATORS)
        kind = CALIBRATORS[name]
    if issubclass(kind, WrappingCalibrator) and "input" in params:
        inner = params.pop("calibrator", inspect.signature(kind).parameters["calibrator"].default)
        params["calibrator"] = make_calibrator(inner, input=params.pop("input"))
    return kind(**params)


def takes_input(calibrator: str) -> bool:
    """Say whether the calibrator of this name can be told what its scores are."""
    kind = CALIBRATORS[ALIASES.get(calibrator, calibrator)]
    return issubclass(kind, WrappingCalibrator) or "input" in inspect.signature(kind).parameters


def make_binary_calibrator(calibrator: str | BinaryCalibrator) -> BinaryCalibrator:
    """Return a new, unfitted calibrator of one score, or say why the one asked for is none."""
    made = make_calibrator(calibrator)
    if not isinstance(made, BinaryCalibrator):
        raise InvalidTypeError(
            f"{calibrator!r} calibrates all columns at once, so it can't be used one-vs-rest. "
            f"Choose one of: {', '.join(map(repr, BINARY_CALIBRATORS))}."
        )
    return made
