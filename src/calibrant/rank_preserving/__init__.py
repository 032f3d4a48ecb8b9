"""Rank-preserving calibration of a probability matrix: the nearest one with given margins."""

from calibrant.rank_preserving.problem import MarginKind, Mismatch, Ties
from calibrant.rank_preserving.result import Progress, RankPreservingResult
from calibrant.rank_preserving.solving import Method, solve

__all__ = ["MarginKind", "Method", "Mismatch", "Progress", "RankPreservingResult", "Ties", "solve"]
