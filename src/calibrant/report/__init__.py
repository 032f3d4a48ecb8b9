"""Reports: what is measured, as one self-contained page, a JSON document or Markdown.

What they can't use raises a CalibrantError that says where and why.
"""

from calibrant.report.checks import CheckedFile as CheckedFile, CheckReport as CheckReport, headline as headline
from calibrant.report.forecast import ForecastReport as ForecastReport
from calibrant.report.models import ModelComparisonReport as ModelComparisonReport
from calibrant.report.rank_preserving import RankPreservingReport as RankPreservingReport
from calibrant.report.report import Report as Report

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.report import pages as pages
from calibrant.report.before_after import Calibrated as Calibrated
from calibrant.report.decisions import Decisions as Decisions
from calibrant.report.figures import inline_figure as inline_figure
from calibrant.report.measured import About as About
