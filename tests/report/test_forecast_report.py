"""The page of forecasts of a number: it says what the metrics say, before and after, in one safe file."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from parsed_page import without_own_script

import calibrant as cb
from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.forecasts import (
    GaussianForecast,
    SampleForecast,
    VarianceScalingRecalibrator,
    evaluate,
    level_curve,
    noise_floor,
    pit_histogram,
    reliability_gaps,
)

pytestmark = pytest.mark.usefixtures("unrendered")

RNG = np.random.default_rng(0)
MEAN = RNG.normal(size=300)
Y = MEAN + RNG.normal(size=300)
NARROW, RIGHT = GaussianForecast(MEAN, 0.5), GaussianForecast(MEAN, 1.0)
FITTED = VarianceScalingRecalibrator().fit(GaussianForecast(MEAN[:150], 0.5), Y[:150])


@cache
def plain() -> cb.ForecastReport:
    return cb.ForecastReport(NARROW, Y)


@cache
def both() -> cb.ForecastReport:
    return cb.ForecastReport(NARROW, Y, recalibrator=FITTED, title="<b>T</b>", source="a & b")


def part(report: cb.ForecastReport, k: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = report.summary()["parts"][k]
    return found


@pytest.mark.slow
def test_figures_are_those_of_the_metrics() -> None:
    found, scores = part(plain()), evaluate(NARROW, Y)
    assert found["verdict"] == scores.verdict
    assert list(found["scores"]) == list(scores)
    for name, score in scores.items():
        assert [found["scores"][name][key] for key in ("value", "low", "high")] == [score.value, score.low, score.high]
    histogram, curve, gaps = pit_histogram(NARROW, Y), level_curve(NARROW, Y), reliability_gaps(NARROW, Y)
    assert found["pit"]["density"] == histogram.density.tolist()
    assert found["levels"]["share"] == curve.share.tolist()
    assert np.array_equal(found["gaps"]["mean_gap"], gaps.values.mean(axis=2))
    worst = found["gaps"]["worst"]
    assert (worst["y0"], worst["alpha"], worst["cost"]) == gaps.worst
    assert abs(worst["promised"] - worst["realised"]) == gaps.max


def test_noise_floor_is_what_chance_gives() -> None:
    """The average error of 300 draws of the forecast itself, from another seed."""
    floor = noise_floor(NARROW, cb.forecasts.average_calibration_error, n_draws=200, rng=7)
    shown = part(plain())["scores"]["average_calibration_error"]
    assert shown["floor"] == pytest.approx(floor.mean, rel=0.25)
    assert shown["is_off"] is (shown["value"] > floor.high)
    assert part(plain())["scores"]["crps"]["floor"] is None


@pytest.mark.slow
def test_headline_says_how_intervals_err_and_what_to_do() -> None:
    summary = plain().summary()
    assert (summary["headline"], summary["state"]) == ("Not calibrated: intervals are too narrow", "miscalibrated")
    assert "calibrant forecast fit" in summary["advice"]
    wide = cb.ForecastReport(GaussianForecast(MEAN, 2.0), Y).summary()
    assert wide["headline"] == "Not calibrated: intervals are too wide"
    right = cb.ForecastReport(RIGHT, Y).summary()
    assert (right["headline"], right["state"]) == ("No gap is beyond chance", "calibrated")
    assert right["advice"].startswith("Leave the forecasts as they are")
    assert (right["crps_change"], right["method"]) == (None, None)


@pytest.mark.slow
def test_before_and_after_are_shown_with_the_paired_change() -> None:
    summary = both().summary()
    assert [each["label"] for each in summary["parts"]] == ["before", "after"]
    assert summary["headline"] == "Better after recalibration, and no gap is beyond chance"
    after = FITTED.transform(NARROW)
    change = after.crps(Y) - NARROW.crps(Y)
    assert summary["crps_change"]["value"] == pytest.approx(change.mean(), rel=1e-12)
    half = 1.959964 * change.std(ddof=1) / np.sqrt(300)
    assert summary["crps_change"]["high"] == pytest.approx(change.mean() + half, abs=0.05 * half)
    assert summary["advice"].startswith("Use the recalibrated forecasts. CRPS changes by")
    assert part(both(), 1)["scores"]["crps"]["value"] == pytest.approx(after.crps(Y).mean(), rel=1e-12)
    worse = VarianceScalingRecalibrator().fit(GaussianForecast(MEAN, 1.0), MEAN + 9.0 * (Y - MEAN))
    assert "if CRPS is what counts" in cb.ForecastReport(RIGHT, Y, recalibrator=worse).summary()["advice"]
    none = VarianceScalingRecalibrator().fit(RIGHT, Y)
    advice = cb.ForecastReport(RIGHT, Y, recalibrator=none).summary()["advice"]
    assert "they need no recalibration that these rows could show" in advice


@pytest.mark.slow
def test_page_is_safe_complete_and_the_same_for_the_same_data() -> None:
    text = both().html()
    assert text == cb.ForecastReport(NARROW, Y, recalibrator=FITTED, title="<b>T</b>", source="a & b").html()
    assert (text.count("<svg"), plain().html().count("<svg")) == (5, 3)
    assert "<bdi>&lt;b&gt;T&lt;/b&gt;</bdi>" in text
    assert "a &amp; b" in text
    assert not re.search(r"https?://(?!www\.w3\.org)", without_own_script(text))
    for heading in ("Scores", "Where outcomes fell in their forecasts", "Reliability of all levels"):
        assert f"<h2>{heading}</h2>" in text
    at = [text.index(f"<h2>{heading}</h2>") for heading in ("Where outcomes fell in their forecasts", "Scores")]
    assert at == sorted(at), "diagrams come first"
    before_fold = text[at[1] :].split("<details")[0]
    assert before_fold.count('<th scope="row"') == 6
    assert "more scores</summary>" in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert text.count("By chance") == 2, "once for both forecasts, in the first scores and in those that are folded"
    assert json.loads(both().json()) == both().summary()


@pytest.mark.slow
def test_samples_have_no_log_score_and_weights_count_as_rows() -> None:
    draws = SampleForecast(MEAN[:60, None] + RNG.normal(size=(60, 9)))
    weight = np.arange(60) % 3
    summary = cb.ForecastReport(draws, Y[:60], sample_weight=weight).summary()
    assert "log_score" not in summary["score_names"]
    assert (summary["data"]["is_weighted"], summary["data"]["n_rows"]) == (True, 40)
    rows = np.repeat(np.arange(60), weight)
    repeated = cb.ForecastReport(draws[rows], Y[rows]).summary()
    for name in ("crps", "coverage", "average_calibration_error"):
        assert summary["parts"][0]["scores"][name]["value"] == pytest.approx(
            repeated["parts"][0]["scores"][name]["value"], rel=1e-9
        )


def test_few_rows_leave_gaps_undefined_and_the_page_whole() -> None:
    report = cb.ForecastReport(NARROW[:5], Y[:5])
    assert part(report)["scores"]["threshold_calibration_error"]["value"] is None
    assert ">undefined</td>" in report.html()


@pytest.mark.slow
def test_it_is_written_whole_and_refuses_what_is_no_forecast(tmp_path: Path) -> None:
    plain().write_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == plain().html()
    assert repr(plain()) == "<ForecastReport: Not calibrated: intervals are too narrow, n = 300 rows>"
    assert 'sandbox title="Forecast report"' in plain()._repr_html_()
    with pytest.raises(ShapeError, match="y"):
        cb.ForecastReport(NARROW, Y[:5])
    with pytest.raises(InvalidTypeError, match=r"recalibrator is a str\. Pass a fitted one"):
        cb.ForecastReport(NARROW, Y, recalibrator="threshold")  # type: ignore[arg-type]
    with pytest.raises(cb.errors.NotFittedError, match="is not fitted"):
        cb.ForecastReport(NARROW, Y, recalibrator=VarianceScalingRecalibrator())
