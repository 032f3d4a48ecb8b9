"""Calibrators: fit(scores, y) gives a map, predict_proba(scores) applies it."""

from calibrant.calibrators.auto import AutoCalibrator as AutoCalibrator

# For other folders of calibrant; no part of the public API.
from calibrant.calibrators.auto_multiclass import fit_classes as fit_classes
from calibrant.calibrators.auto_report import MOST_ROWS as MOST_ROWS
from calibrant.calibrators.base import (
    ALIASES as ALIASES,
    BINARY_CALIBRATORS as BINARY_CALIBRATORS,
    CALIBRATORS as CALIBRATORS,
    BinaryCalibrator as BinaryCalibrator,
    Calibrator as Calibrator,
    calibrator_kind as calibrator_kind,
    decode_calibrator_setting as decode_calibrator_setting,
    encode_calibrator_setting as encode_calibrator_setting,
    make_binary_calibrator as make_binary_calibrator,
    make_calibrator as make_calibrator,
    map_without_rows as map_without_rows,
)
from calibrant.calibrators.beta import BetaCalibrator as BetaCalibrator
from calibrant.calibrators.cross_fit import fits_by_fold as fits_by_fold, out_of_fold as out_of_fold
from calibrant.calibrators.dirichlet import DirichletCalibrator as DirichletCalibrator
from calibrant.calibrators.ensemble_temperature import (
    EnsembleTemperatureCalibrator as EnsembleTemperatureCalibrator,
    MixtureProblem as MixtureProblem,
    Parts as Parts,
    find_shares as find_shares,
    mixture_of as mixture_of,
    own_probabilities as own_probabilities,
    parts_of as parts_of,
)
from calibrant.calibrators.histogram import HistogramCalibrator as HistogramCalibrator
from calibrant.calibrators.isotonic import (
    CenteredIsotonicCalibrator as CenteredIsotonicCalibrator,
    IsotonicCalibrator as IsotonicCalibrator,
)
from calibrant.calibrators.matrix_scaling import MatrixScalingCalibrator as MatrixScalingCalibrator
from calibrant.calibrators.mimic import BinTable as BinTable, MimicCalibrator as MimicCalibrator
from calibrant.calibrators.one_vs_rest import OneVsRestCalibrator as OneVsRestCalibrator
from calibrant.calibrators.quadratic import QuadraticCalibrator as QuadraticCalibrator
from calibrant.calibrators.sigmoid import SigmoidCalibrator as SigmoidCalibrator
from calibrant.calibrators.softmax_family import SoftmaxCalibrator as SoftmaxCalibrator, line_of as line_of
from calibrant.calibrators.spline import SplineCalibrator as SplineCalibrator
from calibrant.calibrators.temperature import (
    TemperatureCalibrator as TemperatureCalibrator,
    TemperatureProblem as TemperatureProblem,
    find_slope as find_slope,
)
from calibrant.calibrators.top_label import TopLabelCalibrator as TopLabelCalibrator, top_label_map as top_label_map
from calibrant.calibrators.vector_scaling import VectorScalingCalibrator as VectorScalingCalibrator
from calibrant.calibrators.venn_abers import VennAbersCalibrator as VennAbersCalibrator
