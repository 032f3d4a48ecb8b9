"""Every case of the reports, made and rendered once."""

from __future__ import annotations

import pytest
from parsed_page import ParsedPage
from report_cases import CASES

import calibrant as cb


@pytest.fixture(scope="session", params=CASES)
def report(request: pytest.FixtureRequest) -> cb.Report:
    return CASES[request.param]()


@pytest.fixture(scope="session")
def html(report: cb.Report) -> str:
    return report.html()


@pytest.fixture(scope="session")
def page(html: str) -> ParsedPage:
    return ParsedPage(html)
