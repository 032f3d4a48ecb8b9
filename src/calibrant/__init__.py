"""calibrant: predicted probabilities that mean what they say.

Importing the package imports none of its parts: each is loaded when its name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibrant._version import __version__

if TYPE_CHECKING:
    from calibrant import engines, errors, metrics, persistence, prior
    from calibrant.calibrators import (
        AutoCalibrator,
        BaggedCalibrator,
        BetaCalibrator,
        CenteredIsotonicCalibrator,
        HistogramCalibrator,
        IsotonicCalibrator,
        MimicCalibrator,
        NearIsotonicCalibrator,
        OneVsRestCalibrator,
        QuadraticCalibrator,
        ScalingBinningCalibrator,
        SigmoidCalibrator,
        SplineCalibrator,
        TemperatureCalibrator,
        VennAbersCalibrator,
    )
    from calibrant.comparison import compare
    from calibrant.displays import (
        ComparisonDisplay,
        DecompositionDisplay,
        MimicDisplay,
        MulticlassReliabilityDisplay,
        ReliabilityDisplay,
    )
    from calibrant.grouped import GroupedCalibrator
    from calibrant.metrics import evaluate, reliability_curve
    from calibrant.persistence import load, save
    from calibrant.probability import CalibrationConfig, ProbabilityCalibrator
    from calibrant.report import Report
    from calibrant.results import CalibrationMetrics, Curve, Score
    from calibrant.summary import ScoreSummary

_MODULES = frozenset({"engines", "errors", "metrics", "persistence", "prior"})
_HOME = {
    "AutoCalibrator": "calibrators",
    "BaggedCalibrator": "calibrators",
    "CenteredIsotonicCalibrator": "calibrators",
    "NearIsotonicCalibrator": "calibrators",
    "ScalingBinningCalibrator": "calibrators",
    "compare": "comparison",
    "BetaCalibrator": "calibrators",
    "CalibrationConfig": "probability",
    "CalibrationMetrics": "results",
    "ComparisonDisplay": "displays",
    "Curve": "results",
    "DecompositionDisplay": "displays",
    "GroupedCalibrator": "grouped",
    "HistogramCalibrator": "calibrators",
    "IsotonicCalibrator": "calibrators",
    "MimicCalibrator": "calibrators",
    "MimicDisplay": "displays",
    "MulticlassReliabilityDisplay": "displays",
    "OneVsRestCalibrator": "calibrators",
    "ProbabilityCalibrator": "probability",
    "QuadraticCalibrator": "calibrators",
    "ReliabilityDisplay": "displays",
    "Report": "report",
    "Score": "results",
    "ScoreSummary": "summary",
    "SigmoidCalibrator": "calibrators",
    "SplineCalibrator": "calibrators",
    "TemperatureCalibrator": "calibrators",
    "VennAbersCalibrator": "calibrators",
    "evaluate": "metrics",
    "load": "persistence",
    "reliability_curve": "metrics",
    "save": "persistence",
}

__all__ = [
    "AutoCalibrator",
    "BaggedCalibrator",
    "BetaCalibrator",
    "CalibrationConfig",
    "CalibrationMetrics",
    "CenteredIsotonicCalibrator",
    "ComparisonDisplay",
    "Curve",
    "DecompositionDisplay",
    "GroupedCalibrator",
    "HistogramCalibrator",
    "IsotonicCalibrator",
    "MimicCalibrator",
    "MimicDisplay",
    "MulticlassReliabilityDisplay",
    "NearIsotonicCalibrator",
    "OneVsRestCalibrator",
    "ProbabilityCalibrator",
    "QuadraticCalibrator",
    "ReliabilityDisplay",
    "Report",
    "ScalingBinningCalibrator",
    "Score",
    "ScoreSummary",
    "SigmoidCalibrator",
    "SplineCalibrator",
    "TemperatureCalibrator",
    "VennAbersCalibrator",
    "__version__",
    "compare",
    "engines",
    "errors",
    "evaluate",
    "load",
    "metrics",
    "persistence",
    "prior",
    "reliability_curve",
    "save",
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
