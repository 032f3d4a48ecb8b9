"""The reports, by name; each is loaded when it is first used."""

from calibrant.report.checks import (
    CheckedFile as CheckedFile,
    CheckReport as CheckReport,
    headline as headline,
    short_names as short_names,
)
from calibrant.report.forecast import ForecastReport as ForecastReport
from calibrant.report.models import ModelComparisonReport as ModelComparisonReport
from calibrant.report.rank_preserving import RankPreservingReport as RankPreservingReport
from calibrant.report.report import Report as Report

# For other folders of calibrant; no part of the public API.
# isort: split
from calibrant.report import pages as pages
from calibrant.report.before_after import Calibrated as Calibrated
from calibrant.report.decisions import Decisions as Decisions
from calibrant.report.figures import inline_figure as inline_figure
from calibrant.report.measured import About as About
