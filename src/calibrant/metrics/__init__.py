"""Metrics of predicted probabilities: proper scores, calibration errors, decompositions, curves and intervals."""

from calibrant.metrics.calibration_error import (
    calibration_in_the_large,
    classwise_ece,
    ece,
    ece_debiased,
    max_calibration_error,
    top_label_ece,
)
from calibrant.metrics.decomposition import Decomposition, decompose
from calibrant.metrics.evaluation import evaluate
from calibrant.metrics.proper_scores import brier_score, log_loss
from calibrant.metrics.ranking import roc_auc
from calibrant.metrics.reliability import reliability_curve

__all__ = [
    "Decomposition",
    "brier_score",
    "calibration_in_the_large",
    "classwise_ece",
    "decompose",
    "ece",
    "ece_debiased",
    "evaluate",
    "log_loss",
    "max_calibration_error",
    "reliability_curve",
    "roc_auc",
    "top_label_ece",
]
