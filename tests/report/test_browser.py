"""The page in a real browser: it shows, fits a phone, and asks the network for nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from matplotlib.image import imread
from report_cases import CASES, hostile_report

import calibrant as cb

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# A browser can't come from the package index: CI installs one first, elsewhere a missing one is said with -ra.
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: chromium, chromium-browser, ..."),
    pytest.mark.slow,
]

DESKTOP, PHONE = 1280, 360
#: Chromium's settings number: 0 dark, 1 light.
LIGHT, DARK = "--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0"
#: Shows pages in frames of given widths, and writes down what each measures once all are loaded.
MEASURE = """<!DOCTYPE html><body style="margin: 0">{frames}<script>
addEventListener("load", () => {{
  const measures = [...document.querySelectorAll("iframe")].map(frame => {{
    const page = frame.contentDocument, root = page.documentElement;
    const edge = Math.max(...[...page.querySelectorAll("body *")]
      .filter(e => !e.closest(".scroll")).map(e => e.getBoundingClientRect().right));
    return {{
      case: frame.title, width: frame.clientWidth, scrollWidth: root.scrollWidth, edge,
      headline: page.querySelector(".headline").getBoundingClientRect().bottom,
      advice: page.querySelector("header").getBoundingClientRect().bottom,
      wideTables: [...page.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth).length,
      scripts: page.scripts.length, resources: frame.contentWindow.performance.getEntriesByType("resource").length,
      svgs: [...page.querySelectorAll("svg")].map(e => e.getBoundingClientRect().height),
    }};
  }});
  document.body.innerHTML = "";
  document.body.append(Object.assign(document.createElement("pre"), {{textContent: JSON.stringify(measures)}}));
}});
</script></body>"""


@dataclass
class Browser:
    """A headless Chromium with a new profile for each page."""

    folder: Path
    n_runs: int = field(default=0)

    def run(self, page: str, *options: str) -> tuple[str, Path]:
        """Open a page with options; return what was printed and the folder of the run."""
        self.n_runs += 1
        folder = self.folder / str(self.n_runs)
        folder.mkdir()
        (folder / "page.html").write_text(page, "utf-8")
        command = [
            str(CHROMIUM),
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
            *(
                "--host-resolver-rules=MAP * ~NOTFOUND",
                "--enable-logging=stderr",
                f"--user-data-dir={folder / 'profile'}",
                *options,
            ),
            (folder / "page.html").as_uri(),
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        assert "Content Security Policy" not in done.stderr, done.stderr[-2000:]
        return done.stdout, folder

    def screenshot(self, page: str, width: int, height: int, *options: str) -> npt.NDArray[Any]:
        """Return the picture of a page as red, green and blue in [0, 1], shape (height, width, 3)."""
        if width < 500:  # a window can't be narrower, a frame can
            page = f'<body style="margin: 0">{frame(page, width, height)}</body>'
        _, folder = self.run(page, f"--window-size={max(width, 500)},{height}", "--screenshot=shot.png", *options)
        return imread(folder / "shot.png")[:height, :width, :3]

    def requested_urls(self, page: str) -> list[str]:
        """Return the addresses that the page, and not the browser itself, asked for."""
        _, folder = self.run(page, "--log-net-log=net.json", "--dump-dom")
        log = json.loads((folder / "net.json").read_text("utf-8"))
        start = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
        requests = [
            event["params"] for event in log["events"] if event["type"] == start and "url" in event.get("params", {})
        ]
        return [request["url"] for request in requests if request.get("initiator") != "not an origin"]


def frame(page: str, width: int, height: int, title: str = "") -> str:
    style = f"border: 0; display: block; width: {width}px; height: {height}px"
    return f'<iframe title="{escape(title)}" style="{style}" srcdoc="{escape(page)}"></iframe>'


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    return Browser(tmp_path_factory.mktemp("chromium"))


def forecast_pages() -> dict[str, str]:
    """Make the pages of forecasts alone, and before and after a recalibration."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=300)
    forecast, y = cb.forecasts.GaussianForecast(mean - 0.1, 0.5), mean + rng.normal(size=300)
    fitted = cb.forecasts.VarianceScalingRecalibrator().fit(forecast, y)
    reports = {"forecasts": None, "forecasts, before and after": fitted}
    return {name: cb.ForecastReport(forecast, y, recalibrator=fit).html() for name, fit in reports.items()}


def rank_preserving_pages() -> dict[str, str]:
    """Make the pages of matrices that got margins: near ones with labels, far ones, by group, and out of order."""
    rng = np.random.default_rng(0)
    P = pd.DataFrame(rng.dirichlet(np.ones(3), 150), columns=["cat", "dog", "a rather long name of a class"])
    y = np.array([P.columns[rng.choice(3, p=row)] for row in P.to_numpy()])
    solve = cb.rank_preserving.solve
    reports = {
        "margins": cb.RankPreservingReport(P, solve(P, [60, 50, 40]), y=y),
        "margins, far": cb.RankPreservingReport(P, solve(P, [140, 5, 5])),
        "margins, by group": cb.RankPreservingReport(
            P, solve(P, {0: [25, 25, 25], 1: [35, 25, 15]}, groups=np.arange(150) % 2)
        ),
        "margins, out of order": cb.RankPreservingReport(P, cb.rank_preserving.rake(P, [60, 50, 40]).Q, y=y),
        "margins, twelve columns": cb.RankPreservingReport(
            many := rng.dirichlet(np.ones(12), 100), solve(many, many.sum(axis=0)[::-1].copy())
        ),
    }
    hostile = [f"<script>alert({k})</script>" + "x" * 200 for k in range(3)]
    named = pd.DataFrame(P.to_numpy(), columns=hostile)
    reports["hostile names, margins"] = cb.RankPreservingReport(named, solve(named, [60, 50, 40]), title=hostile[0])
    return {name: report.html() for name, report in reports.items()}


@pytest.fixture(scope="module")
def measures(browser: Browser) -> list[dict[str, Any]]:
    """Every case at both widths, measured in one run."""
    pages = {name: make().html() for name, make in CASES.items()} | forecast_pages() | rank_preserving_pages()
    frames = [frame(page, width, 800, name) for name, page in pages.items() for width in (DESKTOP, PHONE)]
    dom, _ = browser.run(MEASURE.format(frames="".join(frames)), "--dump-dom", f"--window-size={DESKTOP},900")
    found: list[dict[str, Any]] = json.loads(unescape(dom.split("<pre>")[1].split("</pre>")[0]))
    assert len(found) == 2 * len(pages)
    return found


def luminance(picture: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(picture @ np.array([0.2126, 0.7152, 0.0722]))


def test_no_page_is_wider_than_its_window(measures: list[dict[str, Any]]) -> None:
    for measure in measures:
        assert measure["scrollWidth"] <= measure["width"], measure
        assert measure["edge"] <= measure["width"] + 0.5, measure


def test_ordinary_tables_fit_a_phone_without_scrolling(measures: list[dict[str, Any]]) -> None:
    ordinary = [m for m in measures if not m["case"].startswith("hostile")]
    assert [m["case"] for m in ordinary if m["wideTables"]] == []


def test_verdict_and_advice_are_on_the_first_screen_of_a_desktop(measures: list[dict[str, Any]]) -> None:
    for measure in measures:
        if measure["width"] == DESKTOP:
            assert measure["advice"] <= 720.0, measure
        elif measure["case"] != "hostile names":
            assert measure["headline"] <= 250.0, measure


def test_figures_have_a_height_and_nothing_was_loaded_or_run(measures: list[dict[str, Any]]) -> None:
    for measure in measures:
        assert min(measure["svgs"]) > 90.0, measure
        assert (measure["scripts"], measure["resources"]) == (0, 0), measure


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize(("scheme", "is_dark"), [(LIGHT, False), (DARK, True)])
def test_page_is_legible_in_light_and_dark(browser: Browser, width: int, scheme: str, is_dark: bool) -> None:
    """Paper fills most of the picture; ink stands out from it; the diagram is drawn in the curve's blue."""
    picture = browser.screenshot(CASES["over-confident"]().html(), width, 3200, scheme)
    assert picture.shape == (3200, width, 3)
    grey = luminance(picture)
    paper = float(np.median(grey))
    assert (paper < 0.15) if is_dark else (paper > 0.95)
    contrast = (max(paper, 0.0) + 0.05) / (grey + 0.05)
    contrast = np.maximum(contrast, 1.0 / contrast)
    assert (contrast > 3.0).sum() > 10_000
    red, _, blue = np.moveaxis(picture, -1, 0)
    assert (blue - red > 0.35).sum() > 1_000


def test_ink_of_the_figure_follows_the_scheme(browser: Browser) -> None:
    """Nothing in the diagram is drawn black on black: both schemes draw the same shapes."""
    page = CASES["over-confident"]().html()
    shapes = []
    for scheme in (LIGHT, DARK):
        grey = luminance(browser.screenshot(page, DESKTOP, 3200, scheme))
        shapes.append(np.abs(grey - np.median(grey)) > 0.15)
    assert shapes[0].mean() == pytest.approx(shapes[1].mean(), rel=0.25)


def test_hostile_names_run_nothing_and_keep_the_page_whole(browser: Browser) -> None:
    dom, _ = browser.run(hostile_report().html(), "--dump-dom")
    assert "<script" not in dom
    assert "<img" not in dom
    assert dom.count("<svg") == 4
    assert "Data and method" in dom


def test_page_asks_the_network_for_nothing(browser: Browser) -> None:
    asked = browser.requested_urls(hostile_report().html())
    assert [url for url in asked if not url.startswith("file:")] == []


def test_a_request_would_have_been_seen(browser: Browser) -> None:
    asked = browser.requested_urls('<p>page</p><img src="http://127.0.0.1:9/pixel.png">')
    assert "http://127.0.0.1:9/pixel.png" in asked
