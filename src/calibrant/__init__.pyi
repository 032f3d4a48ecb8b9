"""What the package offers: the one place where its names are written."""

from calibrant import (
    decisions as decisions,
    engines as engines,
    errors as errors,
    forecasts as forecasts,
    metrics as metrics,
    monitor as monitor,
    persistence as persistence,
    prior as prior,
    rank_preserving as rank_preserving,
    splits as splits,
)
from calibrant._version import __version__ as __version__
from calibrant.calibrators import (
    AutoCalibrator as AutoCalibrator,
    BetaCalibrator as BetaCalibrator,
    CenteredIsotonicCalibrator as CenteredIsotonicCalibrator,
    DirichletCalibrator as DirichletCalibrator,
    EnsembleTemperatureCalibrator as EnsembleTemperatureCalibrator,
    HistogramCalibrator as HistogramCalibrator,
    IsotonicCalibrator as IsotonicCalibrator,
    MatrixScalingCalibrator as MatrixScalingCalibrator,
    MimicCalibrator as MimicCalibrator,
    OneVsRestCalibrator as OneVsRestCalibrator,
    QuadraticCalibrator as QuadraticCalibrator,
    SigmoidCalibrator as SigmoidCalibrator,
    SplineCalibrator as SplineCalibrator,
    TemperatureCalibrator as TemperatureCalibrator,
    TopLabelCalibrator as TopLabelCalibrator,
    VectorScalingCalibrator as VectorScalingCalibrator,
    VennAbersCalibrator as VennAbersCalibrator,
)
from calibrant.chain import Chain as Chain
from calibrant.classifier import CalibratedClassifierCV as CalibratedClassifierCV
from calibrant.comparison import Comparison as Comparison, compare as compare
from calibrant.displays import (
    CalibrationDisplay as CalibrationDisplay,
    ComparisonDisplay as ComparisonDisplay,
    ConvergenceDisplay as ConvergenceDisplay,
    DecisionCurveDisplay as DecisionCurveDisplay,
    DecisionExperimentDisplay as DecisionExperimentDisplay,
    DecompositionDisplay as DecompositionDisplay,
    ForecastReliabilityDisplay as ForecastReliabilityDisplay,
    MimicDisplay as MimicDisplay,
    MulticlassReliabilityDisplay as MulticlassReliabilityDisplay,
    PitDisplay as PitDisplay,
    PromiseDisplay as PromiseDisplay,
    RankPreservingDisplay as RankPreservingDisplay,
    ReliabilityDisplay as ReliabilityDisplay,
    ReliabilityGapDisplay as ReliabilityGapDisplay,
    RiskCoverageDisplay as RiskCoverageDisplay,
    SegmentDisplay as SegmentDisplay,
)
from calibrant.grouped import GroupedCalibrator as GroupedCalibrator
from calibrant.metrics import (
    calibration_curve as calibration_curve,
    compare_models as compare_models,
    evaluate as evaluate,
    reliability_curve as reliability_curve,
)
from calibrant.multilabel import MultilabelCalibrator as MultilabelCalibrator
from calibrant.online import OnlinePlattCalibrator as OnlinePlattCalibrator
from calibrant.persistence import load as load, save as save
from calibrant.probability import CalibrationConfig as CalibrationConfig, ProbabilityCalibrator as ProbabilityCalibrator
from calibrant.rank_preserving import RankPreservingCalibrator as RankPreservingCalibrator
from calibrant.report import (
    ForecastReport as ForecastReport,
    ModelComparisonReport as ModelComparisonReport,
    RankPreservingReport as RankPreservingReport,
    Report as Report,
)
from calibrant.results import (
    CalibrationMetrics as CalibrationMetrics,
    Curve as Curve,
    Score as Score,
    Scores as Scores,
)
from calibrant.segments import (
    SegmentCalibrator as SegmentCalibrator,
    SegmentMeanCalibrator as SegmentMeanCalibrator,
)
from calibrant.summary import ScoreSummary as ScoreSummary
