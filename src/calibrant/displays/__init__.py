"""One matplotlib display per file; matplotlib is imported when something is drawn."""

from calibrant.displays.calibration import CalibrationDisplay
from calibrant.displays.comparison import ComparisonDisplay
from calibrant.displays.convergence import ConvergenceDisplay
from calibrant.displays.decomposition import DecompositionDisplay
from calibrant.displays.forecast_reliability import ForecastReliabilityDisplay
from calibrant.displays.histogram import ScoreHistogram
from calibrant.displays.mimic import MimicDisplay
from calibrant.displays.multiclass import MulticlassReliabilityDisplay
from calibrant.displays.pit import PitDisplay
from calibrant.displays.rank_preserving import RankPreservingDisplay
from calibrant.displays.reliability import ReliabilityDisplay
from calibrant.displays.reliability_gap import ReliabilityGapDisplay

__all__ = [
    "CalibrationDisplay",
    "ComparisonDisplay",
    "ConvergenceDisplay",
    "DecompositionDisplay",
    "ForecastReliabilityDisplay",
    "MimicDisplay",
    "MulticlassReliabilityDisplay",
    "PitDisplay",
    "RankPreservingDisplay",
    "ReliabilityDisplay",
    "ReliabilityGapDisplay",
    "ScoreHistogram",
]

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.displays.curves import axis_end as axis_end
from calibrant.displays.panels import PANEL_HEIGHT as PANEL_HEIGHT
from calibrant.displays.rank_preserving import draw_column as draw_column
from calibrant.displays.style import COLOURS as COLOURS, MUTED as MUTED
