"""calibrant: predicted probabilities that mean what they say.

Importing the package imports none of its parts: each is loaded when its name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibrant._version import __version__

if TYPE_CHECKING:
    from calibrant import engines, errors, forecasts, metrics, monitor, persistence, prior, rank_preserving, splits
    from calibrant.calibrators import (
        AutoCalibrator,
        BaggedCalibrator,
        BetaCalibrator,
        CenteredIsotonicCalibrator,
        DirichletCalibrator,
        EnsembleTemperatureCalibrator,
        HistogramCalibrator,
        IsotonicCalibrator,
        MatrixScalingCalibrator,
        MimicCalibrator,
        NearIsotonicCalibrator,
        OneVsRestCalibrator,
        QuadraticCalibrator,
        ScalingBinningCalibrator,
        SigmoidCalibrator,
        SplineCalibrator,
        TemperatureCalibrator,
        TopLabelCalibrator,
        VectorScalingCalibrator,
        VennAbersCalibrator,
    )
    from calibrant.classifier import CalibratedClassifierCV
    from calibrant.comparison import compare
    from calibrant.displays import (
        CalibrationDisplay,
        ComparisonDisplay,
        ConvergenceDisplay,
        DecompositionDisplay,
        ForecastReliabilityDisplay,
        MimicDisplay,
        MulticlassReliabilityDisplay,
        PitDisplay,
        RankPreservingDisplay,
        ReliabilityDisplay,
        ReliabilityGapDisplay,
    )
    from calibrant.grouped import GroupedCalibrator
    from calibrant.metrics import calibration_curve, evaluate, reliability_curve
    from calibrant.multilabel import MultilabelCalibrator
    from calibrant.persistence import load, save
    from calibrant.probability import CalibrationConfig, ProbabilityCalibrator
    from calibrant.rank_preserving import RankPreservingCalibrator
    from calibrant.report import ForecastReport, RankPreservingReport, Report
    from calibrant.results import CalibrationMetrics, Curve, Score
    from calibrant.summary import ScoreSummary

_MODULES = frozenset(
    {"engines", "errors", "forecasts", "metrics", "monitor", "persistence", "prior", "rank_preserving", "splits"}
)
_HOME = {
    "AutoCalibrator": "calibrators",
    "BaggedCalibrator": "calibrators",
    "CenteredIsotonicCalibrator": "calibrators",
    "NearIsotonicCalibrator": "calibrators",
    "ScalingBinningCalibrator": "calibrators",
    "compare": "comparison",
    "BetaCalibrator": "calibrators",
    "DirichletCalibrator": "calibrators",
    "EnsembleTemperatureCalibrator": "calibrators",
    "MatrixScalingCalibrator": "calibrators",
    "VectorScalingCalibrator": "calibrators",
    "CalibratedClassifierCV": "classifier",
    "CalibrationConfig": "probability",
    "CalibrationDisplay": "displays",
    "CalibrationMetrics": "results",
    "ComparisonDisplay": "displays",
    "ConvergenceDisplay": "displays",
    "Curve": "results",
    "DecompositionDisplay": "displays",
    "ForecastReliabilityDisplay": "displays",
    "ForecastReport": "report",
    "GroupedCalibrator": "grouped",
    "HistogramCalibrator": "calibrators",
    "IsotonicCalibrator": "calibrators",
    "MimicCalibrator": "calibrators",
    "MimicDisplay": "displays",
    "MulticlassReliabilityDisplay": "displays",
    "MultilabelCalibrator": "multilabel",
    "OneVsRestCalibrator": "calibrators",
    "PitDisplay": "displays",
    "ProbabilityCalibrator": "probability",
    "QuadraticCalibrator": "calibrators",
    "RankPreservingCalibrator": "rank_preserving",
    "RankPreservingDisplay": "displays",
    "RankPreservingReport": "report",
    "ReliabilityDisplay": "displays",
    "ReliabilityGapDisplay": "displays",
    "Report": "report",
    "Score": "results",
    "ScoreSummary": "summary",
    "SigmoidCalibrator": "calibrators",
    "SplineCalibrator": "calibrators",
    "TemperatureCalibrator": "calibrators",
    "TopLabelCalibrator": "calibrators",
    "VennAbersCalibrator": "calibrators",
    "calibration_curve": "metrics",
    "evaluate": "metrics",
    "load": "persistence",
    "reliability_curve": "metrics",
    "save": "persistence",
}

__all__ = [
    "AutoCalibrator",
    "BaggedCalibrator",
    "BetaCalibrator",
    "CalibratedClassifierCV",
    "CalibrationConfig",
    "CalibrationDisplay",
    "CalibrationMetrics",
    "CenteredIsotonicCalibrator",
    "ComparisonDisplay",
    "ConvergenceDisplay",
    "Curve",
    "DecompositionDisplay",
    "DirichletCalibrator",
    "EnsembleTemperatureCalibrator",
    "ForecastReliabilityDisplay",
    "ForecastReport",
    "GroupedCalibrator",
    "HistogramCalibrator",
    "IsotonicCalibrator",
    "MatrixScalingCalibrator",
    "MimicCalibrator",
    "MimicDisplay",
    "MulticlassReliabilityDisplay",
    "MultilabelCalibrator",
    "NearIsotonicCalibrator",
    "OneVsRestCalibrator",
    "PitDisplay",
    "ProbabilityCalibrator",
    "QuadraticCalibrator",
    "RankPreservingCalibrator",
    "RankPreservingDisplay",
    "RankPreservingReport",
    "ReliabilityDisplay",
    "ReliabilityGapDisplay",
    "Report",
    "ScalingBinningCalibrator",
    "Score",
    "ScoreSummary",
    "SigmoidCalibrator",
    "SplineCalibrator",
    "TemperatureCalibrator",
    "TopLabelCalibrator",
    "VectorScalingCalibrator",
    "VennAbersCalibrator",
    "__version__",
    "calibration_curve",
    "compare",
    "engines",
    "errors",
    "evaluate",
    "forecasts",
    "load",
    "metrics",
    "monitor",
    "persistence",
    "prior",
    "rank_preserving",
    "reliability_curve",
    "save",
    "splits",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"calibrant.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"calibrant.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
