"""One calibrator per group of rows, each drawn towards that of all rows."""

from calibrant.grouped.calibrator import GroupedCalibrator as GroupedCalibrator
from calibrant.grouped.fitting import STRENGTHS as STRENGTHS, GroupMap as GroupMap
