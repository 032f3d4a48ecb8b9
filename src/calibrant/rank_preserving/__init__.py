"""Rank-preserving calibration of a probability matrix: the nearest one with given margins."""

from calibrant.rank_preserving.calibrator import KIND, MapKind, RankPreservingCalibrator
from calibrant.rank_preserving.comparison import ComparedMatrix, MatrixComparison, compare
from calibrant.rank_preserving.diagnostics import ColumnChange, Diagnostics, RowChange, diagnose
from calibrant.rank_preserving.margins import Margins, margins_from_estimate, margins_from_labels
from calibrant.rank_preserving.nearly import EpsilonSlack, LambdaPenalty, Nearly, Pairs
from calibrant.rank_preserving.problem import MarginKind, Mismatch, Ties
from calibrant.rank_preserving.raking import RakedResult, rake
from calibrant.rank_preserving.result import Progress, RankPreservingResult
from calibrant.rank_preserving.solving import Method, solve

__all__ = [
    "KIND",
    "ColumnChange",
    "ComparedMatrix",
    "Diagnostics",
    "EpsilonSlack",
    "LambdaPenalty",
    "MapKind",
    "MarginKind",
    "Margins",
    "MatrixComparison",
    "Method",
    "Mismatch",
    "Nearly",
    "Pairs",
    "Progress",
    "RakedResult",
    "RankPreservingCalibrator",
    "RankPreservingResult",
    "RowChange",
    "Ties",
    "compare",
    "diagnose",
    "margins_from_estimate",
    "margins_from_labels",
    "rake",
    "solve",
]
