"""Before and after a calibrator: both are measured as evaluate does, the change is paired, the verdict is of after."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from parsed_page import ParsedPage
from report_cases import binary, multiclass
from scipy import stats
from sklearn.metrics import brier_score_loss, log_loss

import calibrant as cb
from calibrant import forecasts
from calibrant.errors import InvalidInputError, InvalidTypeError, NotFittedError

pytestmark = pytest.mark.usefixtures("unrendered")


def calibrated(n: int = 2_000, **options: Any) -> tuple[cb.Report, Any, Any, Any]:
    """Return a report of over-confident scores and a calibrator fitted to others; labels, scores before and after."""
    y, p = binary(n, sharpness=2.0)
    fitted = cb.BetaCalibrator().fit(*binary(1_000, sharpness=2.0, seed=1)[::-1])
    return cb.Report(y, p, calibrator=fitted, **options), y, p, fitted.predict_proba(p)


def test_both_are_measured_as_evaluate_does_and_the_verdict_is_of_after() -> None:
    report, y, p, q = calibrated(level=0.9, rng=3)
    found = report.summary()
    before, after = (cb.evaluate(y, each, level=0.9, rng=3) for each in (p, q))
    for scores, expected in ((found["calibrator"]["before"]["scores"], before), (found["scores"], after)):
        assert scores == {name: {**score.to_dict(), "is_infinite": False} for name, score in expected.items()}
    assert found["verdict"]["in_short"] == after.verdict
    assert found["calibrator"]["before"]["headline"] == "Not calibrated: predictions are over-confident"
    assert found["calibrator"]["verdict"].startswith("Yes. Before: not calibrated: predictions are over-confident.")


def test_change_is_that_of_scikit_learn_with_the_interval_of_paired_differences() -> None:
    report, y, p, q = calibrated(5_000)
    change = report.summary()["calibrator"]["change"]
    rows = {"log_loss": [-np.log(np.where(y, each, 1.0 - each)) for each in (q, p)]}
    rows["brier"] = [(each - y) ** 2 for each in (q, p)]
    for name, measure in (("log_loss", log_loss), ("brier", brier_score_loss)):
        assert change[name]["value"] == pytest.approx(measure(y, q) - measure(y, p), rel=1e-9)
        after, before = rows[name]
        found = stats.bootstrap(
            (after - before,), np.mean, n_resamples=2_000, method="BCa", random_state=0
        ).confidence_interval
        width = found.high - found.low
        assert change[name]["low"] == pytest.approx(found.low, abs=0.06 * width)
        assert change[name]["high"] == pytest.approx(found.high, abs=0.06 * width)
    alone = report.summary()["scores"]["brier"]
    assert change["brier"]["high"] - change["brier"]["low"] < alone["high"] - alone["low"]


def test_clusters_widen_the_change() -> None:
    y, p = (np.repeat(each, 4) for each in binary(500, sharpness=2.0))
    fitted = cb.BetaCalibrator().fit(*binary(1_000, sharpness=2.0, seed=1)[::-1])
    alone, hung = (
        cb.Report(y, p, calibrator=fitted, cluster=each).summary()["calibrator"]["change"]["brier"]
        for each in (None, np.repeat(np.arange(500), 4))
    )
    assert hung["high"] - hung["low"] == pytest.approx(2.0 * (alone["high"] - alone["low"]), rel=0.05)


def test_weight_zero_is_left_out_before_and_after() -> None:
    y, p = binary(400, sharpness=2.0)
    fitted = cb.BetaCalibrator().fit(p, y)
    weight = (np.arange(400) % 4 > 0).astype(float)
    kept = weight > 0.0
    found = cb.Report(y, p, calibrator=fitted, sample_weight=weight).summary()["calibrator"]
    expected = cb.Report(y[kept], p[kept], calibrator=fitted).summary()["calibrator"]
    assert found["change"]["brier"]["value"] == pytest.approx(expected["change"]["brier"]["value"])
    assert found["before"]["scores"]["brier"]["n"] == 300


@pytest.mark.rendered
def test_page_shows_both_in_one_table_and_one_diagram() -> None:
    report, *_ = calibrated()
    page = ParsedPage(report.html())
    first = page.all("table", class_="scores parts")[0]
    heads = [th.text for th in page.within(first, "th") if th.attributes["scope"] == "col"]
    assert heads == ["Score", "Before", "95% interval", "After", "95% interval"]
    svg = page.all("svg")[0]
    told = [each.attributes["data-tell"] for each in page.within(svg, "use") if "data-tell" in each.attributes]
    assert [text.split(":")[0] for text in told] == ["After"] * 10 + ["Before"] * 10
    assert page.within(svg, "desc")[0].text.startswith("After the calibrator. Mean prediction")
    text = page.one("body").text
    assert "Did the calibrator help?" in text
    assert "BetaCalibrator, fitted to 1,000 rows. Which rows these were is not known here: rows that it was" in text
    assert "| After less before | Change | 95% interval |" in report.markdown()
    assert json.loads(report.json()) == report.summary()
    assert report.html() == calibrated()[0].html()


def test_both_curves_have_axes_that_hold_them() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random(4_000) * 0.02
    y = rng.random(4_000) < truth
    fitted = cb.BetaCalibrator().fit(np.minimum(truth * 20.0, 1.0), y)
    for scores in (np.minimum(truth * 20.0, 1.0), truth):
        found = cb.Report(y, scores, calibrator=fitted).summary()
        curves = [found["curve"], found["calibrator"]["before"]["curve"]]
        assert curves[0]["upper"] == curves[1]["upper"]
        assert curves[0]["histogram"]["edges"] == curves[1]["histogram"]["edges"]
        assert all(b["predicted"] <= curve["upper"] for curve in curves for b in curve["bins"])


def test_bins_of_both_can_be_downloaded() -> None:
    report, *_ = calibrated()
    (link,) = [each for each in ParsedPage(report.html()).all("a") if "download" in each.attributes]
    head, body = link.attributes["href"].split(",", 1)
    assert head == "data:text/csv;charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(unquote(body))))
    summary = report.summary()
    expected = [("after", b) for b in summary["curve"]["bins"]]
    expected += [("before", b) for b in summary["calibrator"]["before"]["curve"]["bins"]]
    assert len(rows) == len(expected) == 20
    for row, (name, b) in zip(rows, expected, strict=True):
        assert row.pop("scores") == name
        assert {key: float(value) for key, value in row.items()} == {key: b[key] for key in row}


def test_a_calibrator_that_harms_is_advised_against() -> None:
    y, p = binary(4_000)
    wrong = cb.BetaCalibrator().fit(*binary(1_000, sharpness=0.3, seed=1)[::-1])
    report = cb.Report(y, p, calibrator=wrong)
    found = report.summary()["calibrator"]
    assert found["verdict"].startswith("No, it did harm. Before: ")
    assert found["what_to_do"].startswith("Leave the calibrator out: without it rows are predicted better (")
    assert "<code>" not in report.html()  # no command to fit another


def test_what_changes_nothing_is_said_and_advice_is_that_of_the_verdict() -> None:
    y, p = binary(300)
    same = cb.BetaCalibrator().fit(*binary(50_000, seed=1)[::-1])
    found = cb.Report(y, p, calibrator=same).summary()
    assert found["calibrator"]["verdict"].startswith("Not that these rows could show.")
    assert found["calibrator"]["what_to_do"] == found["verdict"]["what_to_do"]


def test_logits_are_compared_as_probabilities_and_other_scores_are_not() -> None:
    y, p = binary(1_000, sharpness=2.0)
    logit = np.log(p / (1.0 - p))
    of_logits = cb.SigmoidCalibrator(input="logit").fit(logit, y)
    found = cb.Report(y, logit, calibrator=of_logits).summary()["calibrator"]
    brier = found["before"]["scores"]["brier"]["value"]
    assert brier == pytest.approx(brier_score_loss(y, p))
    of_scores = cb.SigmoidCalibrator(input="score").fit(logit, y)
    report = cb.Report(y, logit, calibrator=of_scores)
    found = report.summary()["calibrator"]
    assert (found["before"], found["change"]) == (None, None)
    assert "Not known: the scores before it are no probabilities" in report.html()
    assert "BetaCalibrator" not in report.html()
    assert [th for th in ParsedPage(report.html()).all("th") if th.text == "Before"] == []


def test_an_infinite_loss_before_is_said_and_after_is_better() -> None:
    y = np.tile([0, 1, 0, 1, 1, 0, 0, 1], 50)
    p = np.tile([0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.2, 0.9], 50)
    fitted = cb.BetaCalibrator().fit(p, y)
    report = cb.Report(y, p, calibrator=fitted)
    change = report.summary()["calibrator"]["change"]
    assert change["log_loss"]["value"] is None
    said = report.summary()["calibrator"]["verdict"]
    assert said.startswith("Yes. Before: not calibrated")
    assert "The change of log loss is infinite: something happened that had probability 0; the Brier score" in said
    assert '<td class="undefined-value">infinite</td>' in report.html()


def test_several_classes_and_groups() -> None:
    y, p = multiclass(1_200, 3, sharpness=2.0)
    fitted = cb.TemperatureCalibrator().fit(p[:600], y[:600])
    found = cb.Report(y[600:], p[600:], calibrator=fitted).summary()
    q = fitted.predict_proba(p[600:])
    assert found["calibrator"]["change"]["log_loss"]["value"] == pytest.approx(
        log_loss(y[600:], q) - log_loss(y[600:], p[600:])
    )
    y, p = binary(2_000, sharpness=2.0)
    groups = np.arange(2_000) % 2
    by_group = cb.GroupedCalibrator(cb.BetaCalibrator()).fit(p, y, groups=groups)
    report = cb.Report(y, p, calibrator=by_group, groups=groups, group_name="site")
    expected = cb.evaluate(y, by_group.predict_proba(p, groups=groups))
    assert report.summary()["scores"]["brier"]["value"] == expected["brier"].value
    assert report.summary()["groups"]["by"] == "site"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"calibrator": 3}, InvalidTypeError, "can't report 3 of type int"),
        ({"calibrator": "fitted", "pos_label": 1}, InvalidInputError, "pos_label and classes are what the calibrator"),
        ({"calibrator": "grouped"}, InvalidInputError, "Pass the group of each row as groups"),
        ({"calibrator": cb.BetaCalibrator()}, NotFittedError, "is not fitted"),
    ],
)
def test_refusals_say_what_is_wrong(options: dict[str, Any], error: type[Exception], message: str) -> None:
    y, p = binary(200)
    if options["calibrator"] == "fitted":
        options["calibrator"] = cb.BetaCalibrator().fit(p, y)
    elif options["calibrator"] == "grouped":
        options["calibrator"] = cb.GroupedCalibrator(cb.BetaCalibrator()).fit(p, y, groups=np.arange(200) % 2)
    with pytest.raises(error, match=message):
        cb.Report(y, p, **options)


def test_rows_that_it_was_fitted_to_are_known_by_their_hash(tmp_path: Path) -> None:
    y, p = binary(500, sharpness=2.0)
    for kind, scores in (("probability", p), ("logit", np.log(p / (1.0 - p)))):
        weight = np.arange(500) % 3
        fitted = cb.SigmoidCalibrator(input=kind).fit(scores, y, sample_weight=weight)
        said = cb.persistence.Provenance.of(scores, y, sample_weight=weight, input=kind, source="spring <b>.csv")
        cb.save(fitted, tmp_path / "c.json", provenance=said)
        known = cb.load(tmp_path / "c.json")
        same = cb.Report(y, scores, calibrator=known, sample_weight=weight)
        assert same.summary()["calibrator"]["is_of_these_rows"]
        text = ParsedPage(same.html()).one("body").text
        assert "Not to be told from these rows, which it was fitted to: all figures after it flatter it." in text
        assert "Judge the calibrator on rows that it was not fitted to." in text
        assert ", on rows that the calibrator was fitted to" in text
        assert "fitted to 333 rows: these, by their hash." in text
        other = cb.Report(y[:400], scores[:400], calibrator=known)
        assert not other.summary()["calibrator"]["is_of_these_rows"]
        text = ParsedPage(other.html()).one("body").text
        assert f"fitted to 333 rows of spring <b>.csv , at {said.fitted_at}. Those of them that are among" in text


@pytest.mark.rendered
def test_after_has_the_first_colour_and_before_the_second_on_pages_of_forecasts_too() -> None:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=600)
    y = mean + 2.0 * rng.normal(size=600)
    forecast = forecasts.GaussianForecast(mean, 1.0)
    fitted = forecasts.VarianceScalingRecalibrator().fit(forecast[:300], y[:300])
    page = cb.ForecastReport(forecast[300:], y[300:], recalibrator=fitted).html()
    levels = page[page.index('id="levels-title') :].split("</svg>")[0]
    assert re.findall(r">(after|before): error", levels) == ["after", "before"]
    assert re.findall(r"var\(--(curve|second)\)", levels) == ["curve", "second"] * 2, "lines, then the legend"
    for k, (one, other) in enumerate([("second", "curve"), ("curve", "second")]):  # the page shows before first
        bars = page[page.index(f'id="pit{k}-title') :].split("</svg>")[0]
        assert f"var(--{one})" in bars
        assert f"var(--{other})" not in bars
