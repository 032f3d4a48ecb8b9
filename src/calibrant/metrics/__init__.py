"""Metrics of predicted probabilities: proper scores, calibration errors, decompositions, curves and intervals."""

from calibrant.metrics.audit import Audit as Audit, Finding as Finding, audit as audit
from calibrant.metrics.binned_curve import calibration_curve as calibration_curve
from calibrant.metrics.calibration_error import (
    calibration_in_the_large as calibration_in_the_large,
    classwise_ece as classwise_ece,
    ece as ece,
    ece_debiased as ece_debiased,
    marginal_calibration_error as marginal_calibration_error,
    max_calibration_error as max_calibration_error,
    top_label_ece as top_label_ece,
)
from calibrant.metrics.calibration_index import (
    CalibrationIndex as CalibrationIndex,
    calibration_index as calibration_index,
    integrated_calibration_index as integrated_calibration_index,
)
from calibrant.metrics.classes import ClassScores as ClassScores, evaluate_classes as evaluate_classes
from calibrant.metrics.cumulative import (
    CumulativeTest as CumulativeTest,
    kolmogorov_smirnov as kolmogorov_smirnov,
    kuiper as kuiper,
)
from calibrant.metrics.decomposition import Decomposition as Decomposition, decompose as decompose
from calibrant.metrics.e_value import EValueTest as EValueTest, calibration_e_value as calibration_e_value
from calibrant.metrics.evaluation import evaluate as evaluate
from calibrant.metrics.groups import GroupScores as GroupScores, evaluate_groups as evaluate_groups
from calibrant.metrics.hosmer_lemeshow import (
    HosmerLemeshowTest as HosmerLemeshowTest,
    hosmer_lemeshow as hosmer_lemeshow,
)
from calibrant.metrics.proper_scores import brier_score as brier_score, log_loss as log_loss
from calibrant.metrics.ranking import roc_auc as roc_auc
from calibrant.metrics.reliability import reliability_curve as reliability_curve
from calibrant.metrics.slope_intercept import (
    SlopeIntercept as SlopeIntercept,
    calibration_intercept as calibration_intercept,
    calibration_slope_intercept as calibration_slope_intercept,
)
from calibrant.metrics.smooth_ece import smooth_ece as smooth_ece
from calibrant.metrics.spiegelhalter import SpiegelhalterTest as SpiegelhalterTest, spiegelhalter_z as spiegelhalter_z

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.metrics.binned_curve import (
    CurveBins as CurveBins,
    curve_bins as curve_bins,
    read_curve_rows as read_curve_rows,
)
from calibrant.metrics.bins import (
    Bins as Bins,
    CurveStrategy as CurveStrategy,
    bin_rows as bin_rows,
    make_bins as make_bins,
)
from calibrant.metrics.calibration_error import binned_error as binned_error
from calibrant.metrics.consistency import consistency_band as consistency_band
from calibrant.metrics.decomposition import ScoreName as ScoreName
from calibrant.metrics.e_value import STAKES as STAKES
from calibrant.metrics.estimates import (
    Estimate as Estimate,
    mean_of as mean_of,
    normal_estimate as normal_estimate,
    rate_estimate as rate_estimate,
    wilson as wilson,
)
from calibrant.metrics.evaluation import (
    RowValues as RowValues,
    Settings as Settings,
    check_settings as check_settings,
    evaluate_multiclass as evaluate_multiclass,
    evaluate_summary as evaluate_summary,
)
from calibrant.metrics.gate import measured_rows as measured_rows
from calibrant.metrics.groups import evaluate_group_summaries as evaluate_group_summaries
from calibrant.metrics.proper_scores import (
    brier_losses as brier_losses,
    brier_of as brier_of,
    log_losses as log_losses,
    row_brier as row_brier,
    row_log_loss as row_log_loss,
)
from calibrant.metrics.ranking import rank as rank
from calibrant.metrics.reliability import (
    Band as Band,
    CurveSettings as CurveSettings,
    curve_of_event as curve_of_event,
    curve_settings as curve_settings,
    event_rows as event_rows,
)
