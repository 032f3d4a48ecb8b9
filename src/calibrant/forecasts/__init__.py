"""Forecasts of a number: predictive distributions, what they are worth, and decisions taken on them."""

from calibrant.forecasts.adapters import from_ngboost, from_quantile_forest, from_quantile_regressors
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.calibration import (
    ThresholdErrors,
    average_calibration_error,
    distribution_calibration_error,
    threshold_calibration_error,
    threshold_calibration_errors,
)
from calibrant.forecasts.decisions import (
    DecisionLoss,
    ReliabilityGaps,
    ThresholdRule,
    decision_loss,
    reliability_gap,
    reliability_gaps,
)
from calibrant.forecasts.evaluation import evaluate
from calibrant.forecasts.gaussian import GaussianForecast
from calibrant.forecasts.grid import GridForecast
from calibrant.forecasts.level_curve import LevelCurve, level_curve, threshold_curves
from calibrant.forecasts.losses import ThresholdLoss
from calibrant.forecasts.noise import NoiseFloor, noise_floor
from calibrant.forecasts.pit import PitHistogram, UniformityTest, pit, pit_histogram, pit_test
from calibrant.forecasts.policy import CostPolicy, PolicyScores, ThresholdPolicy
from calibrant.forecasts.quantile import QuantileForecast
from calibrant.forecasts.recalibrated import RecalibratedForecast
from calibrant.forecasts.recalibrators import (
    AverageRecalibrator,
    ConformalRecalibrator,
    DistributionRecalibrator,
    Recalibrator,
    ThresholdRecalibrator,
    ThresholdRound,
    VarianceScalingRecalibrator,
)
from calibrant.forecasts.rule_evaluation import evaluate_rule
from calibrant.forecasts.sample import SampleForecast
from calibrant.forecasts.scipy_adapter import ScipyForecast
from calibrant.forecasts.scores import coverage, crps, interval_score, log_score, pinball_loss, sharpness

__all__ = [
    "AverageRecalibrator",
    "ConformalRecalibrator",
    "CostPolicy",
    "DecisionLoss",
    "DistributionRecalibrator",
    "Forecast",
    "GaussianForecast",
    "GridForecast",
    "LevelCurve",
    "NoiseFloor",
    "PitHistogram",
    "PolicyScores",
    "QuantileForecast",
    "RecalibratedForecast",
    "Recalibrator",
    "ReliabilityGaps",
    "SampleForecast",
    "ScipyForecast",
    "ThresholdErrors",
    "ThresholdLoss",
    "ThresholdPolicy",
    "ThresholdRecalibrator",
    "ThresholdRound",
    "ThresholdRule",
    "UniformityTest",
    "VarianceScalingRecalibrator",
    "average_calibration_error",
    "coverage",
    "crps",
    "decision_loss",
    "distribution_calibration_error",
    "evaluate",
    "evaluate_rule",
    "from_ngboost",
    "from_quantile_forest",
    "from_quantile_regressors",
    "interval_score",
    "level_curve",
    "log_score",
    "noise_floor",
    "pinball_loss",
    "pit",
    "pit_histogram",
    "pit_test",
    "reliability_gap",
    "reliability_gaps",
    "sharpness",
    "threshold_calibration_error",
    "threshold_calibration_errors",
    "threshold_curves",
]
