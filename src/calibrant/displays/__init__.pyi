"""What draws pictures, by name; each is loaded when it is first used."""

from calibrant.displays.calibration import CalibrationDisplay as CalibrationDisplay
from calibrant.displays.comparison import (
    ComparisonDisplay as ComparisonDisplay,
    DecompositionDisplay as DecompositionDisplay,
)
from calibrant.displays.decision_experiment import DecisionExperimentDisplay as DecisionExperimentDisplay
from calibrant.displays.decisions import (
    DecisionCurveDisplay as DecisionCurveDisplay,
    PromiseDisplay as PromiseDisplay,
    RiskCoverageDisplay as RiskCoverageDisplay,
)
from calibrant.displays.diagram import ScoreHistogram as ScoreHistogram
from calibrant.displays.forecasts import (
    ForecastReliabilityDisplay as ForecastReliabilityDisplay,
    PitDisplay as PitDisplay,
    ReliabilityGapDisplay as ReliabilityGapDisplay,
)
from calibrant.displays.mimic import MimicDisplay as MimicDisplay
from calibrant.displays.multiclass import MulticlassReliabilityDisplay as MulticlassReliabilityDisplay
from calibrant.displays.rank_preserving import (
    ConvergenceDisplay as ConvergenceDisplay,
    RankPreservingDisplay as RankPreservingDisplay,
)
from calibrant.displays.reliability import ReliabilityDisplay as ReliabilityDisplay
from calibrant.displays.segments import SegmentDisplay as SegmentDisplay, SegmentPoints as SegmentPoints

# For other folders of calibrant; no part of the public API.
# isort: split
from calibrant.displays.diagram import PANEL_HEIGHT as PANEL_HEIGHT, axis_end as axis_end
from calibrant.displays.rank_preserving import draw_column as draw_column
from calibrant.displays.style import COLOURS as COLOURS, MUTED as MUTED
