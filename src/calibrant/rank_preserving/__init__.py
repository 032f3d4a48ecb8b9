"""Rank-preserving calibration of a probability matrix: the nearest one with given margins."""

from calibrant.rank_preserving.nearly import EpsilonSlack, LambdaPenalty, Nearly
from calibrant.rank_preserving.problem import MarginKind, Mismatch, Ties
from calibrant.rank_preserving.result import Progress, RankPreservingResult
from calibrant.rank_preserving.solving import Method, solve

__all__ = [
    "EpsilonSlack",
    "LambdaPenalty",
    "MarginKind",
    "Method",
    "Mismatch",
    "Nearly",
    "Progress",
    "RankPreservingResult",
    "Ties",
    "solve",
]
