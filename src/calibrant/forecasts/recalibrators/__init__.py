"""Recalibrators of forecasts of a number: one file per method."""

from calibrant.forecasts.recalibrators.average import AverageRecalibrator
from calibrant.forecasts.recalibrators.base import Recalibrator
from calibrant.forecasts.recalibrators.codec import KIND
from calibrant.forecasts.recalibrators.conformal import ConformalRecalibrator
from calibrant.forecasts.recalibrators.distribution import DistributionRecalibrator
from calibrant.forecasts.recalibrators.rounds import ThresholdRound
from calibrant.forecasts.recalibrators.threshold import ThresholdRecalibrator
from calibrant.forecasts.recalibrators.variance_scaling import VarianceScalingRecalibrator

__all__ = [
    "KIND",
    "AverageRecalibrator",
    "ConformalRecalibrator",
    "DistributionRecalibrator",
    "Recalibrator",
    "ThresholdRecalibrator",
    "ThresholdRound",
    "VarianceScalingRecalibrator",
]
