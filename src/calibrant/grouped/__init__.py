"""One calibrator per group of rows, each blended with that of all rows."""

from calibrant.grouped.calibrator import GroupedCalibrator as GroupedCalibrator
from calibrant.grouped.fitting import STRENGTHS as STRENGTHS
