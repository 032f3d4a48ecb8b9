"""Metrics of predicted probabilities: proper scores, calibration errors, decompositions, curves and intervals."""

from calibrant.metrics.audit import Audit, Finding, audit
from calibrant.metrics.binned_curve import calibration_curve
from calibrant.metrics.calibration_error import (
    calibration_in_the_large,
    classwise_ece,
    ece,
    ece_debiased,
    marginal_calibration_error,
    max_calibration_error,
    top_label_ece,
)
from calibrant.metrics.calibration_index import CalibrationIndex, calibration_index, integrated_calibration_index
from calibrant.metrics.classes import ClassScores, evaluate_classes
from calibrant.metrics.cumulative import CumulativeTest, kolmogorov_smirnov, kuiper
from calibrant.metrics.decomposition import Decomposition, decompose
from calibrant.metrics.e_value import EValueTest, calibration_e_value
from calibrant.metrics.evaluation import evaluate
from calibrant.metrics.groups import GroupScores, evaluate_groups
from calibrant.metrics.hosmer_lemeshow import HosmerLemeshowTest, hosmer_lemeshow
from calibrant.metrics.proper_scores import brier_score, log_loss
from calibrant.metrics.ranking import roc_auc
from calibrant.metrics.reliability import reliability_curve
from calibrant.metrics.slope_intercept import SlopeIntercept, calibration_intercept, calibration_slope_intercept
from calibrant.metrics.smooth_ece import smooth_ece
from calibrant.metrics.spiegelhalter import SpiegelhalterTest, spiegelhalter_z

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.metrics.estimates import Estimate as Estimate
from calibrant.metrics.estimates import mean_of as mean_of
from calibrant.metrics.estimates import normal_estimate as normal_estimate
from calibrant.metrics.estimates import rate_estimate as rate_estimate

__all__ = [
    "Audit",
    "CalibrationIndex",
    "ClassScores",
    "CumulativeTest",
    "Decomposition",
    "EValueTest",
    "Finding",
    "GroupScores",
    "HosmerLemeshowTest",
    "SlopeIntercept",
    "SpiegelhalterTest",
    "audit",
    "brier_score",
    "calibration_curve",
    "calibration_e_value",
    "calibration_in_the_large",
    "calibration_index",
    "calibration_intercept",
    "calibration_slope_intercept",
    "classwise_ece",
    "decompose",
    "ece",
    "ece_debiased",
    "evaluate",
    "evaluate_classes",
    "evaluate_groups",
    "hosmer_lemeshow",
    "integrated_calibration_index",
    "kolmogorov_smirnov",
    "kuiper",
    "log_loss",
    "marginal_calibration_error",
    "max_calibration_error",
    "reliability_curve",
    "roc_auc",
    "smooth_ece",
    "spiegelhalter_z",
    "top_label_ece",
]
