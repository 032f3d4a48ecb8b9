"""One calibrator per group of rows, each drawn towards that of all rows."""

from calibrant.grouped.calibrator import GroupedCalibrator, say_unseen
from calibrant.grouped.codec import KIND  # which registers the kind of document
from calibrant.grouped.fitting import STRENGTHS, GroupMap

__all__ = ["KIND", "STRENGTHS", "GroupMap", "GroupedCalibrator", "say_unseen"]
