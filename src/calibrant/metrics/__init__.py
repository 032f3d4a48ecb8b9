"""Metrics of predicted probabilities: proper scores, calibration errors, decompositions, curves and intervals.

All take labels of any kind, `y_true` of shape (n,), and `y_prob`: the probability of the positive class, of shape (n,),
or one column for each of the sorted classes, of shape (n, K), where named columns are matched to the classes. What they
can't use raises a CalibrantError that says where and why.
"""

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
from calibrant.metrics.calibration_tests import (
    CumulativeTest as CumulativeTest,
    HosmerLemeshowTest as HosmerLemeshowTest,
    SpiegelhalterTest as SpiegelhalterTest,
    hosmer_lemeshow as hosmer_lemeshow,
    kolmogorov_smirnov as kolmogorov_smirnov,
    kuiper as kuiper,
    spiegelhalter_z as spiegelhalter_z,
)
from calibrant.metrics.decomposition import Decomposition as Decomposition, decompose as decompose
from calibrant.metrics.e_value import EValueTest as EValueTest, calibration_e_value as calibration_e_value
from calibrant.metrics.evaluation import evaluate as evaluate
from calibrant.metrics.joint_test import joint_test as joint_test
from calibrant.metrics.model_comparison import ModelComparison as ModelComparison, compare_models as compare_models
from calibrant.metrics.multicalibration import (
    MulticalibrationError as MulticalibrationError,
    multicalibration_error as multicalibration_error,
)
from calibrant.metrics.parts import (
    ClassScores as ClassScores,
    GroupScores as GroupScores,
    evaluate_classes as evaluate_classes,
    evaluate_groups as evaluate_groups,
)
from calibrant.metrics.proper_scores import brier_score as brier_score, log_loss as log_loss
from calibrant.metrics.ranking import roc_auc as roc_auc
from calibrant.metrics.reliability import reliability_curve as reliability_curve
from calibrant.metrics.scorers import scorer as scorer
from calibrant.metrics.slope_intercept import (
    SlopeIntercept as SlopeIntercept,
    calibration_intercept as calibration_intercept,
    calibration_slope_intercept as calibration_slope_intercept,
)
from calibrant.metrics.smooth_ece import smooth_ece as smooth_ece
from calibrant.metrics.without_labels import expected_scores as expected_scores
from calibrant.results import JointTest as JointTest

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.dependent_rows import (
    DesignEffects as DesignEffects,
    as_independent as as_independent,
    design_effect as design_effect,
)
from calibrant.metrics.audit import (
    audit_rows as audit_rows,
    change_in_words as change_in_words,
    segment_rows as segment_rows,
)
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
from calibrant.metrics.decomposition import ScoreName as ScoreName
from calibrant.metrics.e_value import STAKES as STAKES, log_gains as log_gains, recalibrated as recalibrated
from calibrant.metrics.estimates import (
    NO_ERROR as NO_ERROR,
    Estimate as Estimate,
    Settings as Settings,
    UnitError as UnitError,
    check_settings as check_settings,
    error_over_units as error_over_units,
    joined_errors as joined_errors,
    mean_of as mean_of,
    mean_over_units as mean_over_units,
    measured_rows as measured_rows,
    named_scores as named_scores,
    rate_estimate as rate_estimate,
    wilson as wilson,
)
from calibrant.metrics.evaluation import (
    SCORE_BINS as SCORE_BINS,
    TO_JUDGE as TO_JUDGE,
    evaluate_multiclass as evaluate_multiclass,
    evaluate_rows as evaluate_rows,
    evaluate_summary as evaluate_summary,
    label_notes as label_notes,
)
from calibrant.metrics.model_comparison import (
    check_widths as check_widths,
    compare_model_rows as compare_model_rows,
    read_models as read_models,
)
from calibrant.metrics.multiclass import RowValues as RowValues
from calibrant.metrics.out_of_fold_ece import ece_of_new_rows as ece_of_new_rows
from calibrant.metrics.paired_differences import COMPARED as COMPARED
from calibrant.metrics.parts import (
    classes_of_rows as classes_of_rows,
    evaluate_group_summaries as evaluate_group_summaries,
    groups_of_rows as groups_of_rows,
)
from calibrant.metrics.proper_scores import (
    brier_of as brier_of,
    loss_less as loss_less,
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
from calibrant.metrics.row_figures import RowFigures as RowFigures
from calibrant.metrics.segments import SegmentSettings as SegmentSettings
from calibrant.metrics.verdict import State as State, Verdict as Verdict, excludes as excludes, verdict as verdict
from calibrant.metrics.without_labels import ASSUMPTION as ASSUMPTION, expected_of as expected_of
