"""Monitoring: the reliability of probabilities in windows of time, and a test of it that may be looked at any time."""

from calibrant.monitor.drift import DriftMonitor as DriftMonitor, DriftWindow as DriftWindow
from calibrant.monitor.martingale import CalibrationMartingale as CalibrationMartingale
from calibrant.monitor.monitor import CalibrationMonitor as CalibrationMonitor, Window as Window
from calibrant.monitor.page import MonitorReport as MonitorReport
from calibrant.monitor.unlabelled import UnlabelledReport as UnlabelledReport, UnlabelledWindow as UnlabelledWindow

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.monitor.windows import (
    PERIODS as PERIODS,
    HeldBatches as HeldBatches,
    Period as Period,
    WindowRows as WindowRows,
    date_windows as date_windows,
    file_windows as file_windows,
    period_codes as period_codes,
    row_windows as row_windows,
)
