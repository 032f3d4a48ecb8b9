"""Rank-preserving calibration of a probability matrix: the nearest one with given margins."""

from calibrant.rank_preserving.calibrator import (
    MapKind as MapKind,
    RankPreservingCalibrator as RankPreservingCalibrator,
)
from calibrant.rank_preserving.comparison import (
    ComparedMatrix as ComparedMatrix,
    MatrixComparison as MatrixComparison,
    compare as compare,
)
from calibrant.rank_preserving.diagnostics import (
    ColumnChange as ColumnChange,
    Diagnostics as Diagnostics,
    RowChange as RowChange,
    diagnose as diagnose,
)
from calibrant.rank_preserving.margins import (
    EstimatedMargins as EstimatedMargins,
    Margins as Margins,
    margins_from_estimate as margins_from_estimate,
    margins_from_labels as margins_from_labels,
)
from calibrant.rank_preserving.nearest import Method as Method
from calibrant.rank_preserving.nearly import (
    EpsilonSlack as EpsilonSlack,
    LambdaPenalty as LambdaPenalty,
    Nearly as Nearly,
    Pairs as Pairs,
)
from calibrant.rank_preserving.problem import (
    MarginKind as MarginKind,
    Mismatch as Mismatch,
    Ties as Ties,
)
from calibrant.rank_preserving.raking import RakedResult as RakedResult, rake as rake
from calibrant.rank_preserving.result import (
    GroupTotals as GroupTotals,
    Progress as Progress,
    RankPreservingResult as RankPreservingResult,
)
from calibrant.rank_preserving.solving import solve as solve

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.rank_preserving.problem import check_rows as check_rows
