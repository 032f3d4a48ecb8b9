"""Calibration by segments: subgroups of rows that trees find in features."""

from calibrant.segments.calibrator import SegmentCalibrator as SegmentCalibrator
from calibrant.segments.choice import TriedSize as TriedSize
from calibrant.segments.columns import FeatureColumn as FeatureColumn
from calibrant.segments.mean import SegmentMeanCalibrator as SegmentMeanCalibrator
from calibrant.segments.report import SegmentReport as SegmentReport

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.segments.number_scores import NumberComparison as NumberComparison, compare_numbers as compare_numbers
