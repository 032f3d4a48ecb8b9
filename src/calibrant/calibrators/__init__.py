"""Calibrators: fit(scores, y) gives a map, predict_proba(scores) applies it."""

from calibrant.calibrators.auto import AutoCalibrator as AutoCalibrator
from calibrant.calibrators.base import make_calibrator as make_calibrator
from calibrant.calibrators.beta import BetaCalibrator as BetaCalibrator
from calibrant.calibrators.dirichlet import DirichletCalibrator as DirichletCalibrator
from calibrant.calibrators.ensemble_temperature import EnsembleTemperatureCalibrator as EnsembleTemperatureCalibrator
from calibrant.calibrators.histogram import HistogramCalibrator as HistogramCalibrator
from calibrant.calibrators.isotonic import (
    CenteredIsotonicCalibrator as CenteredIsotonicCalibrator,
    IsotonicCalibrator as IsotonicCalibrator,
)
from calibrant.calibrators.matrix_scaling import MatrixScalingCalibrator as MatrixScalingCalibrator
from calibrant.calibrators.mimic import MimicCalibrator as MimicCalibrator
from calibrant.calibrators.one_vs_rest import OneVsRestCalibrator as OneVsRestCalibrator
from calibrant.calibrators.quadratic import QuadraticCalibrator as QuadraticCalibrator
from calibrant.calibrators.sigmoid import SigmoidCalibrator as SigmoidCalibrator
from calibrant.calibrators.spline import SplineCalibrator as SplineCalibrator
from calibrant.calibrators.temperature import TemperatureCalibrator as TemperatureCalibrator
from calibrant.calibrators.top_label import TopLabelCalibrator as TopLabelCalibrator
from calibrant.calibrators.vector_scaling import VectorScalingCalibrator as VectorScalingCalibrator
from calibrant.calibrators.venn_abers import VennAbersCalibrator as VennAbersCalibrator

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.calibrators.auto_evidence import Evidence as Evidence
from calibrant.calibrators.auto_report import NONE as NONE, AutoReport as AutoReport
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
)
from calibrant.calibrators.certainty import warn_if_certain as warn_if_certain
from calibrant.calibrators.cross_fit import (
    Folding as Folding,
    Split as Split,
    check_folding as check_folding,
    fits_by_fold as fits_by_fold,
    held_out_mean as held_out_mean,
    held_out_rows as held_out_rows,
    out_of_fold as out_of_fold,
    plain_splits as plain_splits,
    probabilities_by_fit as probabilities_by_fit,
    refit_variance as refit_variance,
    row_splits as row_splits,
)
from calibrant.calibrators.mimic import BinTable as BinTable
from calibrant.calibrators.row_warnings import warn_of_rows as warn_of_rows
