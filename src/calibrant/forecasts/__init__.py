"""Forecasts of a number: predictive distributions, what they are worth, and the rules of threshold calibration.

Decisions of several actions, what they will cost and what they did are `calibrant.decisions`, which takes forecasts.

All functions and classes raise a CalibrantError where an argument can't be used, which says where and why.
"""

from calibrant.forecasts.adapters import (
    ScipyForecast as ScipyForecast,
    from_ngboost as from_ngboost,
    from_quantile_forest as from_quantile_forest,
    from_quantile_regressors as from_quantile_regressors,
)
from calibrant.forecasts.base import Forecast as Forecast
from calibrant.forecasts.calibration import (
    ThresholdErrors as ThresholdErrors,
    average_calibration_error as average_calibration_error,
    distribution_calibration_error as distribution_calibration_error,
    threshold_calibration_error as threshold_calibration_error,
    threshold_calibration_errors as threshold_calibration_errors,
)
from calibrant.forecasts.columns import ForecastColumns as ForecastColumns
from calibrant.forecasts.coverage import (
    CoverageByLevel as CoverageByLevel,
    coverage_by_level as coverage_by_level,
)
from calibrant.forecasts.decisions import (
    DecisionLoss as DecisionLoss,
    ReliabilityGaps as ReliabilityGaps,
    ThresholdLoss as ThresholdLoss,
    ThresholdRule as ThresholdRule,
    decision_loss as decision_loss,
    reliability_gap as reliability_gap,
    reliability_gaps as reliability_gaps,
)
from calibrant.forecasts.evaluation import evaluate as evaluate
from calibrant.forecasts.experiment import (
    DecisionExperiment as DecisionExperiment,
    decision_experiment as decision_experiment,
)
from calibrant.forecasts.horizons import HorizonScores as HorizonScores, evaluate_horizons as evaluate_horizons
from calibrant.forecasts.kinds import (
    GaussianForecast as GaussianForecast,
    GridForecast as GridForecast,
    QuantileForecast as QuantileForecast,
    SampleForecast as SampleForecast,
)
from calibrant.forecasts.noise import NoiseFloor as NoiseFloor, noise_floor as noise_floor
from calibrant.forecasts.ordered import (
    evaluate_ordered as evaluate_ordered,
    ranked_probability_score as ranked_probability_score,
)
from calibrant.forecasts.pit import (
    LevelCurve as LevelCurve,
    PitHistogram as PitHistogram,
    UniformityTest as UniformityTest,
    level_curve as level_curve,
    pit as pit,
    pit_histogram as pit_histogram,
    pit_test as pit_test,
    threshold_curves as threshold_curves,
)
from calibrant.forecasts.policy import CostPolicy as CostPolicy, ThresholdPolicy as ThresholdPolicy
from calibrant.forecasts.recalibrated import RecalibratedForecast as RecalibratedForecast
from calibrant.forecasts.recalibrators.base import Recalibrator as Recalibrator
from calibrant.forecasts.recalibrators.conformal import ConformalRecalibrator as ConformalRecalibrator
from calibrant.forecasts.recalibrators.maps import (
    AverageRecalibrator as AverageRecalibrator,
    DistributionRecalibrator as DistributionRecalibrator,
    VarianceScalingRecalibrator as VarianceScalingRecalibrator,
)
from calibrant.forecasts.recalibrators.rounds import ThresholdRound as ThresholdRound
from calibrant.forecasts.recalibrators.rounds_result import RoundsResult as RoundsResult
from calibrant.forecasts.recalibrators.threshold import ThresholdRecalibrator as ThresholdRecalibrator
from calibrant.forecasts.reference import (
    ClimatologyForecast as ClimatologyForecast,
    climatology as climatology,
    persistence as persistence,
)
from calibrant.forecasts.regions import threshold_weighted_crps as threshold_weighted_crps
from calibrant.forecasts.rule_scores import evaluate_rule as evaluate_rule
from calibrant.forecasts.scores import (
    coverage as coverage,
    crps as crps,
    interval_score as interval_score,
    log_score as log_score,
    pinball_loss as pinball_loss,
    sharpness as sharpness,
)
from calibrant.forecasts.skill import skill as skill
from calibrant.forecasts.weighted_intervals import weighted_interval_score as weighted_interval_score

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.forecasts.coverage import coverage_of as coverage_of
from calibrant.forecasts.decisions import table_of_gaps as table_of_gaps
from calibrant.forecasts.evaluation import crps_change as crps_change, scores_and_judgement as scores_and_judgement
from calibrant.forecasts.given_levels import as_interval_level as as_interval_level
from calibrant.forecasts.pit import curve_of as curve_of, histogram_of as histogram_of
from calibrant.forecasts.recalibrators.base import RECALIBRATORS as RECALIBRATORS
from calibrant.forecasts.scores import Outcomes as Outcomes, read_outcomes as read_outcomes
from calibrant.forecasts.verdict import (
    first_advice as first_advice,
    recalibration_advice as recalibration_advice,
)
