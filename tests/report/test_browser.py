"""The page in a real browser: it shows, fits a phone, and asks the network for nothing."""

from __future__ import annotations

import itertools
import json
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
from parsed_page import without_own_script
from report_cases import CASES, binary, hostile_report, multiclass

import calibrant as cb
from chromium import HEADLESS, needs_chromium

pytestmark = [needs_chromium, pytest.mark.slow]

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
      scripts: page.scripts.length, spots: page.querySelectorAll(".spot").length,
      told: page.querySelectorAll("[data-tell]").length, buttons: page.querySelectorAll("th button").length,
      sortable: page.querySelectorAll("[data-sort] thead th").length,
      resources: frame.contentWindow.performance.getEntriesByType("resource").length,
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

    def run(self, page: str, *options: str, is_refused: bool = False) -> tuple[str, Path]:
        """Open a page with options; return what was printed and the folder of the run.

        `is_refused` says whether its policy must refuse something.
        """
        self.n_runs += 1
        folder = self.folder / str(self.n_runs)
        folder.mkdir()
        (folder / "page.html").write_text(page, "utf-8")
        command = [
            *(*HEADLESS, "--disable-quic", "--disable-background-networking", "--disable-component-update"),
            *("--disable-sync", "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", *options),
            (folder / "page.html").as_uri(),
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        assert ("Content Security Policy" in done.stderr) == is_refused, done.stderr[-2000:]
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


def model_pages() -> dict[str, str]:
    """Make pages of champion and challenger: two models, four of rare events, several classes, hostile names."""
    rng = np.random.default_rng(0)
    truth = rng.random(900)
    y = rng.random(900) < truth
    rare = rng.random(900) < 0.02
    names = ["logistic_2024", "boosting_2025", "a rather long name of a model", "d"]
    p = rng.dirichlet(np.ones(3), 300)
    labels = np.array([rng.choice(3, p=row) for row in p])
    hostile = [f"<script>alert({k})</script>" + "x" * 200 for k in range(3)]
    reports = {
        "two models": cb.ModelComparisonReport(y, dict(zip(names, (truth**2, truth), strict=False))),
        "four models": cb.ModelComparisonReport(
            rare, {name: 0.02 * rng.random(900) ** (0.5 + k / 4) for k, name in enumerate(names)}
        ),
        "models of classes": cb.ModelComparisonReport(labels, {"a": p, "b": p**2 / (p**2).sum(axis=1, keepdims=True)}),
        "hostile names, models": cb.ModelComparisonReport(
            y, dict(zip(hostile, (truth, truth**2, truth**3), strict=True)), title=hostile[0], source=hostile[1]
        ),
    }
    return {name: report.html() for name, report in reports.items()}


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


def asked_for_pages() -> dict[str, str]:
    """Make pages before and after a calibrator, and on decisions: of two actions and of many classes."""
    y, p = multiclass(1_000, 12, sharpness=2.0)
    losses = cb.decisions.Problem(1_000.0 * (1.0 - np.eye(12)), do_nothing="leave it to a person who looks at it")
    fitted = cb.TemperatureCalibrator().fit(p[:500], y[:500])
    several = cb.Report(y[500:], p[500:], calibrator=fitted, problem=losses)
    return {"calibrator and decisions": full_page(), "twelve classes, calibrator and decisions": several.html()}


@pytest.fixture(scope="module")
def measures(browser: Browser) -> list[dict[str, Any]]:
    """Every case at both widths, measured in one run."""
    pages = {name: make().html() for name, make in CASES.items()} | forecast_pages() | rank_preserving_pages()
    pages |= asked_for_pages() | model_pages()
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
        elif measure["case"] not in ("hostile names", "hostile names, models"):
            assert measure["headline"] <= 250.0, measure


def test_figures_have_a_height_nothing_was_loaded_and_the_page_has_one_script(measures: list[dict[str, Any]]) -> None:
    for measure in measures:
        assert min(measure["svgs"]) > 90.0, measure
        assert (measure["scripts"], measure["resources"]) == (1, 0), measure
        assert (measure["spots"], measure["buttons"]) == (measure["told"], measure["sortable"]), measure


#: Uses a page as a reader does, and writes down what it shows; a page whose scripts are blocked has no buttons.
USE = """<!DOCTYPE html><body style="margin: 0">{frame}<script>
addEventListener("load", () => {{
  const page = document.querySelector("iframe").contentDocument, found = {{}};
  for (const each of page.querySelectorAll("details")) each.open = true;
  found.wide = page.documentElement.scrollWidth - page.documentElement.clientWidth;
  found.text = page.querySelector("main").textContent;
  found.tables = [...page.querySelectorAll("table[data-sort]")].map(table => {{
    const textsOf = row => [row.className, ...[...row.cells].map(cell => cell.textContent)];
    const rows = () => [...table.tBodies[0].rows].map(textsOf);
    const columns = [...table.tHead.rows[0].cells].map(head => {{
      const button = head.querySelector("button"), orders = [rows()], marks = [];
      for (let i = 0; button && i < 3; i++) {{
        button.click();
        orders.push(rows());
        marks.push(head.getAttribute("aria-sort"));
      }}
      return {{ orders, marks }};
    }});
    return {{ label: table.parentNode.getAttribute("aria-label"), columns }};
  }});
  const tip = page.querySelector(".tip"), box = each => each.getBoundingClientRect();
  found.spots = [...page.querySelectorAll(".spot")].map(spot => {{
    const tells = {{ label: spot.getAttribute("aria-label"), tab: spot.tabIndex, shown: [] }};
    for (const [on, off] of [["pointerenter", "pointerleave"], ["focus", "blur"]]) {{
      spot.dispatchEvent(new PointerEvent(on));
      tells.shown.push(tip.hidden ? null : tip.textContent, box(tip).left >= 0 && box(tip).right <= {width});
      spot.dispatchEvent(new PointerEvent(off));
      tells.shown.push(tip.hidden);
    }}
    spot.dispatchEvent(new PointerEvent("pointerenter"));
    page.dispatchEvent(new KeyboardEvent("keydown", {{ key: "Escape", bubbles: true }}));
    tells.escaped = tip.hidden;
    return tells;
  }});
  document.body.innerHTML = "";
  document.body.append(Object.assign(document.createElement("pre"), {{ textContent: JSON.stringify(found) }}));
}});
</script></body>"""


def used(browser: Browser, page: str, *, width: int = DESKTOP, is_blocked: bool = False) -> dict[str, Any]:
    """Return what a reader of a page found, whose scripts may be blocked as mail and notebooks do."""
    framed = frame(page, width, 900)
    if is_blocked:
        framed = framed.replace("<iframe ", '<iframe sandbox="allow-same-origin" ', 1)
    dom, _ = browser.run(USE.format(frame=framed, width=width), "--dump-dom", f"--window-size={DESKTOP},950")
    found: dict[str, Any] = json.loads(unescape(dom.split("<pre>")[1].split("</pre>")[0]))
    return found


def full_page() -> str:
    """Make a page with all sections that one may ask for."""
    y, p = binary(2_000, sharpness=2.0)
    fitted = cb.BetaCalibrator().fit(*binary(1_000, sharpness=2.0, seed=1)[::-1])
    problem = cb.decisions.Problem.two_actions(false_positive=1.0, false_negative=4.0)
    groups = np.array(["Oslo", "Rome", "Bonn", "Bern"])[np.arange(2_000) % 4]
    return cb.Report(y, p, calibrator=fitted, problem=problem, groups=groups, group_name="city").html()


@pytest.mark.parametrize("width", [DESKTOP, 390])
def test_tables_sort_by_a_click_and_come_back_and_points_tell(browser: Browser, width: int) -> None:
    found = used(browser, full_page(), width=width)
    assert found["wide"] <= 0
    bins = next(table for table in found["tables"] if table["label"] == "Bins")
    for i, column in enumerate(bins["columns"]):
        assert column["marks"] == ["ascending", "descending", None]
        first, rising, falling, back = column["orders"]
        assert first == back
        assert sorted(rising) == sorted(falling) == sorted(first)
        numbers = [float(row[1 + i].replace("\N{MINUS SIGN}", "-").split("\N{EN DASH}")[0]) for row in rising]
        assert numbers == sorted(numbers)
        numbers = [float(row[1 + i].replace("\N{MINUS SIGN}", "-").split("\N{EN DASH}")[0]) for row in falling]
        assert numbers == sorted(numbers, reverse=True)
    cities = next(table for table in found["tables"] if table["label"] == "Groups")
    assert [row[1] for row in cities["columns"][0]["orders"][1]] == ["Bern", "Bonn", "Oslo", "Rome"]
    assert len(found["spots"]) >= 20 + 4
    for spot in found["spots"]:
        assert spot["shown"] == [spot["label"], True, True] * 2
        assert spot["escaped"]
    assert [spot["tab"] for spot in found["spots"][:20]] == [0] * 20  # of the main diagram; others by pointer alone
    assert {spot["tab"] for spot in found["spots"][20:]} == {-1}


def test_rows_move_with_their_notes(browser: Browser) -> None:
    found = used(browser, CASES["15 classes"]().html())
    classes = next(table for table in found["tables"] if table["label"] == "Classes")
    for column in classes["columns"]:
        together = [[(a[1], b[1]) for a, b in itertools.pairwise(o) if b[0] == "meaning"] for o in column["orders"]]
        assert len(together[0]) == 12
        assert all(sorted(pairs) == sorted(together[0]) for pairs in together)


def test_without_script_the_page_is_whole(browser: Browser) -> None:
    page = full_page()
    with_script, without = used(browser, page), used(browser, page, is_blocked=True)
    assert without["text"] == with_script["text"]
    assert without["spots"] == []
    assert all(column["marks"] == [] for table in without["tables"] for column in table["columns"])


def test_another_script_is_not_run(browser: Browser) -> None:
    """The policy names the page's script by its hash: what somebody adds does nothing."""
    page = full_page().replace("</main>", "<script>document.title = 'added'</script></main>")
    dom, _ = browser.run(page, "--dump-dom", is_refused=True)
    assert "<title>added</title>" not in dom
    assert "<title>Calibration report</title>" in dom


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
    without_own_script(dom)
    assert "<img" not in dom
    assert dom.count("<svg") == 4
    assert "Data and method" in dom


def test_page_asks_the_network_for_nothing(browser: Browser) -> None:
    asked = browser.requested_urls(hostile_report().html())
    assert [url for url in asked if not url.startswith("file:")] == []


def test_a_request_would_have_been_seen(browser: Browser) -> None:
    asked = browser.requested_urls('<p>page</p><img src="http://127.0.0.1:9/pixel.png">')
    assert "http://127.0.0.1:9/pixel.png" in asked
