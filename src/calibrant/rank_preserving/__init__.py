"""Rank-preserving calibration of a probability matrix: the nearest one with given margins."""

from calibrant.rank_preserving.calibrator import KIND as KIND
from calibrant.rank_preserving.calibrator import MapKind as MapKind
from calibrant.rank_preserving.calibrator import RankPreservingCalibrator as RankPreservingCalibrator
from calibrant.rank_preserving.comparison import ComparedMatrix as ComparedMatrix
from calibrant.rank_preserving.comparison import MatrixComparison as MatrixComparison
from calibrant.rank_preserving.comparison import compare as compare
from calibrant.rank_preserving.diagnostics import ColumnChange as ColumnChange
from calibrant.rank_preserving.diagnostics import Diagnostics as Diagnostics
from calibrant.rank_preserving.diagnostics import RowChange as RowChange
from calibrant.rank_preserving.diagnostics import diagnose as diagnose
from calibrant.rank_preserving.margins import Margins as Margins
from calibrant.rank_preserving.margins import margins_from_estimate as margins_from_estimate
from calibrant.rank_preserving.margins import margins_from_labels as margins_from_labels
from calibrant.rank_preserving.nearly import EpsilonSlack as EpsilonSlack
from calibrant.rank_preserving.nearly import LambdaPenalty as LambdaPenalty
from calibrant.rank_preserving.nearly import Nearly as Nearly
from calibrant.rank_preserving.nearly import Pairs as Pairs
from calibrant.rank_preserving.problem import MarginKind as MarginKind
from calibrant.rank_preserving.problem import Mismatch as Mismatch
from calibrant.rank_preserving.problem import Ties as Ties
from calibrant.rank_preserving.raking import RakedResult as RakedResult
from calibrant.rank_preserving.raking import rake as rake
from calibrant.rank_preserving.result import Progress as Progress
from calibrant.rank_preserving.result import RankPreservingResult as RankPreservingResult
from calibrant.rank_preserving.solving import Method as Method
from calibrant.rank_preserving.solving import solve as solve
