"""calibrant: predicted probabilities that mean what they say.

Importing the package imports none of its parts: each is loaded when its name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibrant._version import __version__

if TYPE_CHECKING:
    from calibrant import engines, errors, metrics, persistence
    from calibrant.calibrators import (
        BetaCalibrator,
        HistogramCalibrator,
        IsotonicCalibrator,
        OneVsRestCalibrator,
        SigmoidCalibrator,
        TemperatureCalibrator,
    )
    from calibrant.displays import ReliabilityDisplay
    from calibrant.metrics import evaluate, reliability_curve
    from calibrant.persistence import load, save
    from calibrant.probability import CalibrationConfig, ProbabilityCalibrator
    from calibrant.report import Report
    from calibrant.results import CalibrationMetrics, Curve, Score
    from calibrant.summary import ScoreSummary

_MODULES = frozenset({"engines", "errors", "metrics", "persistence"})
_HOME = {
    "BetaCalibrator": "calibrators",
    "CalibrationConfig": "probability",
    "CalibrationMetrics": "results",
    "Curve": "results",
    "HistogramCalibrator": "calibrators",
    "IsotonicCalibrator": "calibrators",
    "OneVsRestCalibrator": "calibrators",
    "ProbabilityCalibrator": "probability",
    "ReliabilityDisplay": "displays",
    "Report": "report",
    "Score": "results",
    "ScoreSummary": "summary",
    "SigmoidCalibrator": "calibrators",
    "TemperatureCalibrator": "calibrators",
    "evaluate": "metrics",
    "load": "persistence",
    "reliability_curve": "metrics",
    "save": "persistence",
}

__all__ = [
    "BetaCalibrator",
    "CalibrationConfig",
    "CalibrationMetrics",
    "Curve",
    "HistogramCalibrator",
    "IsotonicCalibrator",
    "OneVsRestCalibrator",
    "ProbabilityCalibrator",
    "ReliabilityDisplay",
    "Report",
    "Score",
    "ScoreSummary",
    "SigmoidCalibrator",
    "TemperatureCalibrator",
    "__version__",
    "engines",
    "errors",
    "evaluate",
    "load",
    "metrics",
    "persistence",
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
