"""Calibrators: fit(scores, y) gives a map, predict_proba(scores) applies it."""

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
from calibrant.calibrators.registry import ALIASES, BINARY_CALIBRATORS, CALIBRATORS, make_calibrator, takes_input
from calibrant.calibrators.scaling_binning import ScalingBinningCalibrator
from calibrant.calibrators.sigmoid import SigmoidCalibrator
from calibrant.calibrators.spline import SplineCalibrator
from calibrant.calibrators.temperature import TemperatureCalibrator
from calibrant.calibrators.top_label import TopLabelCalibrator
from calibrant.calibrators.vector_scaling import VectorScalingCalibrator
from calibrant.calibrators.venn_abers import VennAbersCalibrator

__all__ = [
    "ALIASES",
    "BINARY_CALIBRATORS",
    "CALIBRATORS",
    "AutoCalibrator",
    "BaggedCalibrator",
    "BetaCalibrator",
    "BinaryCalibrator",
    "Calibrator",
    "CenteredIsotonicCalibrator",
    "DirichletCalibrator",
    "EnsembleTemperatureCalibrator",
    "HistogramCalibrator",
    "IsotonicCalibrator",
    "MatrixScalingCalibrator",
    "MimicCalibrator",
    "NearIsotonicCalibrator",
    "OneVsRestCalibrator",
    "QuadraticCalibrator",
    "ScalingBinningCalibrator",
    "SigmoidCalibrator",
    "SplineCalibrator",
    "TemperatureCalibrator",
    "TopLabelCalibrator",
    "VectorScalingCalibrator",
    "VennAbersCalibrator",
    "make_calibrator",
    "takes_input",
]

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.calibrators.mimic import BinTable as BinTable
