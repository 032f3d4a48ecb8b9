"""Monitoring: the reliability of probabilities in windows of time, and a test of it that may be looked at any time."""

from calibrant.monitor.martingale import CalibrationMartingale
from calibrant.monitor.monitor import CalibrationMonitor, Window
from calibrant.monitor.page import MonitorReport

__all__ = ["CalibrationMartingale", "CalibrationMonitor", "MonitorReport", "Window"]
