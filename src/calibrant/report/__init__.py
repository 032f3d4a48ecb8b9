"""The calibration report: summarise (data -> dict), render (dict -> HTML, JSON, Markdown)."""

from calibrant.report.report import Report

__all__ = ["Report"]
