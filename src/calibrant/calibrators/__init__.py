"""Calibrators: fit(scores, y) gives a map, predict_proba(scores) applies it."""

from calibrant.calibrators.base import BinaryCalibrator, Calibrator
from calibrant.calibrators.beta import BetaCalibrator
from calibrant.calibrators.histogram import HistogramCalibrator
from calibrant.calibrators.isotonic import IsotonicCalibrator
from calibrant.calibrators.one_vs_rest import OneVsRestCalibrator
from calibrant.calibrators.registry import ALIASES, BINARY_CALIBRATORS, CALIBRATORS, make_calibrator
from calibrant.calibrators.sigmoid import SigmoidCalibrator
from calibrant.calibrators.temperature import TemperatureCalibrator

__all__ = [
    "ALIASES",
    "BINARY_CALIBRATORS",
    "CALIBRATORS",
    "BetaCalibrator",
    "BinaryCalibrator",
    "Calibrator",
    "HistogramCalibrator",
    "IsotonicCalibrator",
    "OneVsRestCalibrator",
    "SigmoidCalibrator",
    "TemperatureCalibrator",
    "make_calibrator",
]
