"""The page of champion and challengers: its figures are those of the comparison, and it is whole whatever the names."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from parsed_page import ParsedPage, without_own_script
from report_cases import HOSTILE, RIGHT_TO_LEFT

import calibrant as cb
from calibrant.cli import main
from calibrant.errors import CalibrantError

KEYS = ("log_loss", "brier", "ece_debiased", "auc")


def draw(n: int = 800, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    truth = rng.random(n)
    return rng.random(n) < truth, truth


@pytest.fixture(scope="module")
def report() -> cb.ModelComparisonReport:
    y, p = draw()
    return cb.ModelComparisonReport(y, {"old": p**2, "new": p})


@pytest.fixture(scope="module")
def page(report: cb.ModelComparisonReport) -> ParsedPage:
    return ParsedPage(report.html())


def test_figures_are_those_of_the_comparison(report: cb.ModelComparisonReport, page: ParsedPage) -> None:
    y, p = draw()
    compared = cb.compare_models(y, {"old": p**2, "new": p})
    summary = json.loads(report.json())
    shown = page.one("table", class_="scores parts").text
    for key in KEYS:
        difference = compared.differences["new"][f"{key}_difference"]
        written = summary["differences"]["new"][f"{key}_difference"]
        assert (written["value"], written["low"], written["high"]) == pytest.approx(
            (difference.value, difference.low, difference.high)
        )
        for value in (compared.models["old"][key].value, compared.models["new"][key].value):
            assert f"{value:.4f}" in shown
        assert f"{abs(difference.value):.4f}" in shown
    assert summary["verdict"]["which"] == compared.verdict
    assert " ".join(compared.verdict.split()) in page.one("body").text
    assert page.one("p", class_="headline").text == "'new' predicts better than 'old'"
    assert page.one("body").attributes["class"] == "calibrated"


def test_all_models_are_in_one_diagram_with_keys_and_words(page: ParsedPage) -> None:
    (figure,) = page.all("svg")
    assert figure.attributes["role"] == "img"
    words = page.within(figure, "desc")[0].text
    assert words.count("mean prediction and observed frequency of 10 bins") == 2
    keys = [each.attributes["class"] for each in page.all("span") if "key" in each.attributes.get("class", "")]
    assert keys == ["key dot", "key second"]
    inside = [each for each in page.elements if "style" in each.attributes]
    styles = " ".join(each.attributes["style"] for each in inside)
    assert "var(--curve)" in styles
    assert "var(--second)" in styles
    assert re.findall(r"#[0-9a-fA-F]{3,6}\b", styles) == []


def test_curves_of_the_diagram_are_those_of_each_model(report: cb.ModelComparisonReport) -> None:
    y, p = draw()
    for curve, prob in zip(report.summary()["curves"], (p**2, p), strict=True):
        expected = cb.reliability_curve(y, prob, n_bins=10)
        assert [b["observed"] for b in curve["bins"]] == expected.y.tolist()
        assert [b["predicted"] for b in curve["bins"]] == pytest.approx(expected.x.tolist())
        assert sum(curve["histogram"]["n"]) == 800


def test_of_rare_events_all_curves_and_histograms_end_where_the_longest_does() -> None:
    rng = np.random.default_rng(0)
    low, high = 0.01 * rng.random(2000), 0.09 * rng.random(2000)
    summary = cb.ModelComparisonReport(rng.random(2000) < low, {"a": low, "b": high}).summary()
    assert len({curve["upper"] for curve in summary["curves"]}) == 1
    assert {curve["histogram"]["edges"][-1] for curve in summary["curves"]} == {summary["curves"][0]["upper"]}


@pytest.mark.parametrize(
    ("powers", "headline", "state"),
    [
        ({"old": 1.0, "new": 2.0}, "'new' predicts worse than 'old'", "miscalibrated"),
        ({"old": 2.0, "a": 1.0, "b": 1.5}, "2 of 2 challengers predict better than 'old'", "calibrated"),
        ({"old": 2.0, "a": 1.0, "b": 9.0}, "'a' predicts better than 'old'", "calibrated"),
        ({"old": 1.0, "a": 4.0, "b": 2.0}, "All challengers predict worse than 'old'", "miscalibrated"),
        ({"old": 1.0, "a": 1.001, "b": 9.0}, "No challenger is shown to predict better than 'old'", "unclear"),
        ({"old": 1.0, "a": 1.001}, "No difference that these rows show", "unclear"),
    ],
)
def test_headline_and_colour_follow_the_differences(powers: dict[str, float], headline: str, state: str) -> None:
    y, p = draw()
    report = cb.ModelComparisonReport(y, {name: p**power for name, power in powers.items()})
    assert report.page().headline == headline
    assert report.page().state == state
    best = "'a'" if state == "calibrated" else "'old'"
    wanted = f"Prefer {best}" if state == "calibrated" else f"Keep {best}"
    assert report.summary()["verdict"]["what_to_do"].startswith(wanted)


def test_several_challengers_are_sorted_by_what_is_shown_of_them() -> None:
    y, p = draw(2000)
    models = {"old": p**1.5, "better": p, "alike": np.clip(p**1.5 + 1e-3 * (-1) ** np.arange(2000), 1e-6, 1 - 1e-6)}
    report = cb.ModelComparisonReport(y, models | {"worse": p**4})
    found = report.summary()["verdict"]
    assert found["which"] == "Better than 'old': 'better'; worse than 'old': 'worse'; no difference shown: 'alike'."
    assert found["calibrated"].endswith("ot calibrated: 'old', 'alike', 'worse'.")
    compared = cb.compare_models(y, models | {"worse": p**4})
    text = ParsedPage(report.html()).one("body").text
    for scores in compared.differences.values():
        assert scores.verdict in text


def test_pages_of_every_kind_of_rows_are_whole() -> None:
    y, p = draw(300)
    rng = np.random.default_rng(1)
    q = rng.dirichlet(np.ones(3), 300)
    labels = np.array(["x", "y", "z"])[(q.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)]
    zero = p.copy()
    zero[np.flatnonzero(y)[0]] = 0.0
    reports = {
        "weighted": cb.ModelComparisonReport(y, {"a": p, "b": p**2}, sample_weight=rng.random(300)),
        "clusters": cb.ModelComparisonReport(y, {"a": p, "b": p**2}, cluster=np.arange(300) // 3),
        "classes": cb.ModelComparisonReport(labels, {"a": q, "b": q**2 / (q**2).sum(axis=1, keepdims=True)}),
        "infinite": cb.ModelComparisonReport(y, {"a": p, "b": zero}),
        "finite again": cb.ModelComparisonReport(y, {"a": zero, "b": p}),
        "one class": cb.ModelComparisonReport(np.zeros(50, int), {"a": p[:50], "b": p[:50] ** 2}, classes=[0, 1]),
        "six models": cb.ModelComparisonReport(y, {f"m{k}": p**k for k in range(1, 7)}),
    }
    for name, report in reports.items():
        html = report.html()
        parsed = ParsedPage(html)
        assert len(parsed.all("svg")) == 1, name
        assert json.loads(report.json())["kind"] == "models"
        assert "nan" not in re.sub(r"<[^>]*>", " ", html).lower().split(), name
        assert report.markdown().startswith("# Champion against challenger\n")
    assert "infinite" in reports["infinite"].html()
    row = reports["finite again"].html().split(">Log loss</th>")[1].split("</tr>")[0]
    assert row.count(">infinite</td>") == 2  # of the champion, and what a challenger takes away
    assert "ranked above a row of another" in reports["classes"].html()
    assert "The mean gap" not in reports["classes"].markdown()
    assert "2 more are in the tables" in reports["six models"].html()
    assert "not independent" in reports["clusters"].html()


def test_the_same_data_give_the_same_bytes(report: cb.ModelComparisonReport) -> None:
    y, p = draw()
    assert cb.ModelComparisonReport(y, {"old": p**2, "new": p}).html() == report.html()


def test_hostile_names_are_text() -> None:
    y, p = draw(200)
    report = cb.ModelComparisonReport(y, {HOSTILE: p, RIGHT_TO_LEFT: p**2, "W" * 3000: p**3}, title=HOSTILE)
    parsed = ParsedPage(report.html())
    assert "img" not in {each.tag for each in parsed.elements}
    without_own_script(report.html())
    assert "<script>alert(1)" in parsed.one("body").text
    assert "W" * 200 not in report.html()
    assert re.search(r"(?<!\\)<script", report.markdown()) is None


def test_what_the_page_advises_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    y, p = draw(400)
    pq.write_table(pa.table({"the label": y, "old model": p**2, "new": p}), "my scores.parquet")
    options = ["my scores.parquet", "--label", "the label", "--score", "old model", "--versus", "new"]
    for suffix in ("html", "json", "md"):
        done = CliRunner().invoke(main, ["report", *options, "-o", f"page.{suffix}"])
        assert done.exit_code == 0, done.output
    summary = json.loads(Path("page.json").read_text("utf-8"))
    expected = cb.compare_models(y, {"old model": p**2, "new": p})
    assert summary["verdict"]["which"] == expected.verdict
    assert summary["data"]["source"] == "my scores.parquet"
    command = shlex.split(summary["verdict"]["command"])
    assert command[:2] == ["calibrant", "compare"]
    done = CliRunner().invoke(main, [*command[1:], "--methods", "beta"])
    assert done.exit_code == 0, done.output
    assert "old model: beta" in done.output
    assert "page.html" in CliRunner().invoke(main, ["report", *options, "--title", "T", "-o", "page.html"]).output
    assert "<title>T</title>" in Path("page.html").read_text("utf-8")


def test_columns_that_can_not_be_classes_make_the_page_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    y, p = draw(400)
    pq.write_table(pa.table({"y": y, "old": p**2, "new": p}), "s.parquet")
    for scores in (["--score", "old,new"], ["--score", "old", "--versus", "new"]):
        assert CliRunner().invoke(main, ["report", "s.parquet", *scores, "-o", "a.html"]).exit_code == 0
        assert "Champion against challenger" in Path("a.html").read_text("utf-8")
    assert CliRunner().invoke(main, ["report", "s.parquet", "--score", "old", "-o", "a.html"]).exit_code == 0
    assert "<title>Calibration report</title>" in Path("a.html").read_text("utf-8")


def test_what_can_not_be_reported_is_refused() -> None:
    y, p = draw(100)
    with pytest.raises(CalibrantError, match="models has 1 model"):
        cb.ModelComparisonReport(y, {"a": p})
    with pytest.raises(CalibrantError, match="n_bins"):
        cb.ModelComparisonReport(y, {"a": p, "b": p}, n_bins=0)
