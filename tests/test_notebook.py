"""Results in a notebook, executed and rendered by nbconvert: what a reader sees."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from chromium import HEADLESS, needs_chromium

nbformat = pytest.importorskip("nbformat", reason="nbconvert of the test group is not installed")
pytest.importorskip("nbconvert", reason="nbconvert of the test group is not installed")
pytest.importorskip("ipykernel", reason="ipykernel of the test group is not installed")

ROWS = """
import numpy as np
import calibrant as cb

rng = np.random.default_rng(0)
p = rng.beta(0.8, 1.2, 1_000)
y = (rng.random(1_000) < p**1.5).astype(int)
"""
CELLS = (
    "cb.SplineCalibrator().fit(p, y)",
    'cb.compare(p, y, methods=["none", "ensemble_temperature", "isotonic"])',
    "cb.evaluate(y, p)",
    'cb.evaluate(y, p)["log_loss"]',
)
#: Writes down how wide each result is, and how wide what it shows is, in a window of 1,280 pixels.
MEASURE = """<script>addEventListener("load", () => {
  const wide = [...document.querySelectorAll(".calibrant-result")].map(e => [e.clientWidth, e.scrollWidth]);
  document.body.innerHTML = "<pre>" + JSON.stringify(wide) + "</pre>";
});</script>"""


@pytest.fixture(scope="module")
def notebook() -> Any:
    from nbclient import NotebookClient

    code = [ROWS, *CELLS]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in code])
    return NotebookClient(made, timeout=600, kernel_name="python3").execute()


@pytest.fixture(scope="module")
def page(notebook: Any) -> str:
    from nbconvert import HTMLExporter

    return str(HTMLExporter().from_notebook_node(notebook)[0])


def shown_rows(page: str) -> list[list[str]]:
    """Return the cells of every row of every table of the page, as text."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    cells = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows)
    return [[html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in cells]


def made() -> tuple[Any, Any]:
    names: dict[str, Any] = {}
    exec(ROWS, names)
    return names["y"], names["p"]


@pytest.mark.slow
def test_every_result_is_a_table_in_the_rendered_notebook(notebook: Any, page: str) -> None:
    outputs = [cell.outputs for cell in notebook.cells[1:]]
    assert [[each.output_type for each in part] for part in outputs] == [["execute_result"]] * len(CELLS)
    assert all("text/html" in part[0].data and "text/plain" in part[0].data for part in outputs)
    assert page.count('class="calibrant-result"') == len(CELLS)
    y, p = made()
    rows = shown_rows(page)
    scores = cb.evaluate(y, p)
    assert ["fitted to", "1,000 rows"] in rows
    for score in scores.values():
        assert [score.name, f"{score.value:.4f}", f"[{score.low:.4f}, {score.high:.4f}]"] in rows
    methods = [row[0] for row in rows if row and row[0] in {"none", "ensemble_temperature", "isotonic"}]
    assert methods == ["ensemble_temperature", "none", "isotonic"], "by log loss, with an infinite one last"
    assert html.escape(scores.verdict.split(":")[0]) in page
    (calibrator,) = outputs[0]
    curve = re.search(r"<svg.*?</svg>", calibrator.data["text/html"], re.DOTALL)
    assert curve is not None
    lines = re.findall(r'<polyline points="([^"]+)"', curve[0])
    assert lines
    assert all(line in page for line in lines)


@pytest.mark.slow
def test_nothing_that_goes_wrong_is_shown(notebook: Any) -> None:
    said = [each for cell in notebook.cells for each in cell.outputs if each.output_type in ("stream", "error")]
    assert said == []


@pytest.mark.slow
@needs_chromium
def test_no_table_is_cut_in_a_window_of_common_width(page: str, tmp_path: Path) -> None:
    start, end, rest = page.rpartition("</body>")
    (tmp_path / "page.html").write_text(start + MEASURE + end + rest, "utf-8")
    command = [*HEADLESS, "--window-size=1280,2000", "--dump-dom", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    found = re.search(r"<pre>(\[\[.*?\]\])</pre>", done.stdout)
    assert found is not None, done.stdout[-500:]
    widths = np.array(json.loads(found[1]))
    assert len(widths) == len(CELLS)
    assert (widths[:, 1] <= widths[:, 0]).all(), widths
