"""One matplotlib display per file; matplotlib is imported when something is drawn."""

from calibrant.displays.calibration import CalibrationDisplay
from calibrant.displays.comparison import ComparisonDisplay
from calibrant.displays.convergence import ConvergenceDisplay
from calibrant.displays.decomposition import DecompositionDisplay
from calibrant.displays.histogram import ScoreHistogram
from calibrant.displays.mimic import MimicDisplay
from calibrant.displays.multiclass import MulticlassReliabilityDisplay
from calibrant.displays.reliability import ReliabilityDisplay

__all__ = [
    "CalibrationDisplay",
    "ComparisonDisplay",
    "ConvergenceDisplay",
    "DecompositionDisplay",
    "MimicDisplay",
    "MulticlassReliabilityDisplay",
    "ReliabilityDisplay",
    "ScoreHistogram",
]
