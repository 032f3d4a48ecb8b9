"""The calibration report: summarise (data -> dict), render (dict -> HTML, JSON, Markdown)."""

from calibrant.report.forecast import ForecastReport
from calibrant.report.rank_preserving import RankPreservingReport
from calibrant.report.report import Report

__all__ = ["ForecastReport", "RankPreservingReport", "Report"]
