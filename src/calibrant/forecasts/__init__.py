"""Forecasts of a number: predictive distributions, what they are worth, and decisions taken on them."""

from calibrant.forecasts.adapters import from_ngboost as from_ngboost
from calibrant.forecasts.adapters import from_quantile_forest as from_quantile_forest
from calibrant.forecasts.adapters import from_quantile_regressors as from_quantile_regressors
from calibrant.forecasts.base import Forecast as Forecast
from calibrant.forecasts.calibration import ThresholdErrors as ThresholdErrors
from calibrant.forecasts.calibration import average_calibration_error as average_calibration_error
from calibrant.forecasts.calibration import distribution_calibration_error as distribution_calibration_error
from calibrant.forecasts.calibration import threshold_calibration_error as threshold_calibration_error
from calibrant.forecasts.calibration import threshold_calibration_errors as threshold_calibration_errors
from calibrant.forecasts.decisions import DecisionLoss as DecisionLoss
from calibrant.forecasts.decisions import ReliabilityGaps as ReliabilityGaps
from calibrant.forecasts.decisions import ThresholdLoss as ThresholdLoss
from calibrant.forecasts.decisions import ThresholdRule as ThresholdRule
from calibrant.forecasts.decisions import decision_loss as decision_loss
from calibrant.forecasts.decisions import reliability_gap as reliability_gap
from calibrant.forecasts.decisions import reliability_gaps as reliability_gaps
from calibrant.forecasts.evaluation import evaluate as evaluate
from calibrant.forecasts.evaluation import evaluate_rule as evaluate_rule
from calibrant.forecasts.gaussian import GaussianForecast as GaussianForecast
from calibrant.forecasts.noise import NoiseFloor as NoiseFloor
from calibrant.forecasts.noise import noise_floor as noise_floor
from calibrant.forecasts.piecewise import GridForecast as GridForecast
from calibrant.forecasts.piecewise import QuantileForecast as QuantileForecast
from calibrant.forecasts.pit import LevelCurve as LevelCurve
from calibrant.forecasts.pit import PitHistogram as PitHistogram
from calibrant.forecasts.pit import UniformityTest as UniformityTest
from calibrant.forecasts.pit import level_curve as level_curve
from calibrant.forecasts.pit import pit as pit
from calibrant.forecasts.pit import pit_histogram as pit_histogram
from calibrant.forecasts.pit import pit_test as pit_test
from calibrant.forecasts.pit import threshold_curves as threshold_curves
from calibrant.forecasts.policy import CostPolicy as CostPolicy
from calibrant.forecasts.policy import PolicyScores as PolicyScores
from calibrant.forecasts.policy import ThresholdPolicy as ThresholdPolicy
from calibrant.forecasts.recalibrated import RecalibratedForecast as RecalibratedForecast
from calibrant.forecasts.recalibrators.average import AverageRecalibrator as AverageRecalibrator
from calibrant.forecasts.recalibrators.base import Recalibrator as Recalibrator
from calibrant.forecasts.recalibrators.conformal import ConformalRecalibrator as ConformalRecalibrator
from calibrant.forecasts.recalibrators.distribution import DistributionRecalibrator as DistributionRecalibrator
from calibrant.forecasts.recalibrators.rounds import ThresholdRound as ThresholdRound
from calibrant.forecasts.recalibrators.threshold import ThresholdRecalibrator as ThresholdRecalibrator
from calibrant.forecasts.recalibrators.variance_scaling import (
    VarianceScalingRecalibrator as VarianceScalingRecalibrator,
)
from calibrant.forecasts.sample import SampleForecast as SampleForecast
from calibrant.forecasts.scipy_adapter import ScipyForecast as ScipyForecast
from calibrant.forecasts.scores import coverage as coverage
from calibrant.forecasts.scores import crps as crps
from calibrant.forecasts.scores import interval_score as interval_score
from calibrant.forecasts.scores import log_score as log_score
from calibrant.forecasts.scores import pinball_loss as pinball_loss
from calibrant.forecasts.scores import sharpness as sharpness

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.forecasts.evaluation import crps_change as crps_change
from calibrant.forecasts.evaluation import scores_and_floors as scores_and_floors
from calibrant.forecasts.outcomes import Outcomes as Outcomes
from calibrant.forecasts.outcomes import read_outcomes as read_outcomes
