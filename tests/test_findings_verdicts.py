"""Findings on verdicts, intervals and labels: each as the case that showed it."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import calibrant as cb
from calibrant.cli import main
from calibrant.errors import DataWarning
from calibrant.metrics import evaluate_groups


def three_classes(n: int, seed: int) -> tuple[Any, Any]:
    """Return calibrated rows of three classes, whose largest probability is never below a third."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), n)
    return (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), p


def rare_events(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    p = 0.01 * rng.random(n)
    return rng.random(n) < p, p


@pytest.mark.parametrize("draw", [three_classes, rare_events])
def test_interval_of_the_smooth_error_narrows_with_more_rows_where_an_end_has_no_scores(draw: Any) -> None:
    """It was [0, 1] in 20 of 20 sets: rounding of the transform made shares of rows negative."""

    def width(n: int, seed: int) -> float:
        y, p = draw(n, seed)
        found = cb.evaluate(y, p, classes=[0, 1, 2] if p.ndim == 2 else [0, 1])["smooth_ece"]
        return found.high - found.low

    few, many = (np.median([width(n, seed) for seed in range(5)]) for n in (500, 5_000))
    assert few < 0.2
    assert many < 0.6 * few


@pytest.mark.slow
@pytest.mark.parametrize("draw", [three_classes, rare_events])
def test_interval_of_the_smooth_error_covers_zero_for_calibrated_rows(draw: Any) -> None:
    lows = []
    for seed in range(30):
        y, p = draw(1_000, seed)
        lows.append(cb.evaluate(y, p, classes=[0, 1, 2] if p.ndim == 2 else [0, 1])["smooth_ece"].low)
    assert np.mean(np.array(lows) == 0.0) >= 0.9


def test_beta_ab_keeps_one_half_as_in_the_paper() -> None:
    """Kull, Silva Filho and Flach (2017): m = 1/2 is fixed, so c = (a - b) log 2; it was c = 0."""
    rng = np.random.default_rng(0)
    p = rng.random(4_000)
    y = rng.random(4_000) < p**1.5 / (p**1.5 + (1.0 - p) ** 0.7)
    fitted = cb.BetaCalibrator(form="ab").fit(p, y)
    assert abs(fitted.map_.a - fitted.map_.b) > 0.1
    assert fitted.map_.c == pytest.approx((fitted.map_.a - fitted.map_.b) * np.log(2.0))
    assert fitted.predict_proba([0.5]) == pytest.approx([0.5], abs=1e-12)


def churn(n: int = 2_000) -> tuple[Any, Any]:
    """Return scores of "Churned", which is the smaller one of two labels, and the labels."""
    rng = np.random.default_rng(3)
    p = rng.random(n)
    return p, np.where(rng.random(n) < p, "Churned", "Retained")


@pytest.mark.parametrize(
    "fit",
    [
        lambda p, y: cb.IsotonicCalibrator().fit(p, y),
        lambda p, y: cb.SigmoidCalibrator().fit(np.column_stack([1.0 - p, p]), y),
        lambda p, y: cb.AutoCalibrator().fit(p, y),
        lambda p, y: cb.GroupedCalibrator("beta").fit(p, y, groups=np.arange(len(p)) % 2),
        lambda p, y: cb.ProbabilityCalibrator().fit(y, p),
    ],
)
def test_scores_that_run_against_the_labels_are_said_to(fit: Any) -> None:
    p, y = churn()
    with pytest.warns(DataWarning, match=r"'Retained' is taken as the positive class\. .* pass y == 'Churned'"):
        fit(p, y)


def test_scores_that_run_against_the_labels_are_said_to_before_a_file_is_saved(tmp_path: Any) -> None:
    p, y = churn()
    file, saved = tmp_path / "rows.csv", tmp_path / "c.json"
    file.write_text("p,y\n" + "".join(f"{a},{b}\n" for a, b in zip(p.tolist(), y, strict=True)))
    command = ["fit", str(file), "--score", "p", "--label", "y", "-o", str(saved)]
    said = CliRunner().invoke(main, command).output
    assert "the scores run against the labels" in said
    assert "calibrant fit --allow-inversion" in said
    assert "--positive" not in said
    turned = CliRunner().invoke(main, [*command, "--allow-inversion"])
    assert turned.exit_code == 0
    assert "They are turned round" in turned.output
    taught = cb.load(saved).predict_proba(p)
    assert taught[y == "Retained"].mean() > taught[y == "Churned"].mean()


def test_scores_that_say_nothing_are_seldom_said_to_run_against_the_labels() -> None:
    """By chance it is once in 740 sets; 4 or more of 400 have a chance of 0.2%."""
    n_said = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        n = int(rng.choice([10, 100, 1_000]))
        p, y = rng.random(n).round(1 + seed % 3), rng.permutation(np.arange(n) % 5 == 0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cb.HistogramCalibrator().fit(p, y, sample_weight=rng.random(n) if seed % 2 else None)
        n_said += any("run against" in str(each.message) for each in caught)
    assert n_said < 4


def test_a_forest_with_an_impossible_event_and_a_slope_is_not_said_to_be_calibrated() -> None:
    """12,000 rows: "No miscalibration found" stood over an infinite log loss and a slope of .907 [.864, .950]."""
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 2.0, 12_000)
    p = np.round(1.0 / (1.0 + np.exp(-z)), 2)
    y = rng.random(12_000) < 1.0 / (1.0 + np.exp(-0.9 * z))
    y[np.flatnonzero(p == 0.0)[0]] = True
    found = cb.evaluate(y, p)
    assert found["log_loss"].value == np.inf
    assert found.verdict.startswith("Not calibrated")
    assert "over-confident" in found.verdict
    assert "log loss is infinite" in found.verdict


def test_a_group_that_is_off_in_places_is_found() -> None:
    """A group with a debiased error of .074 [.064, .086] wasn't flagged: only mean gaps counted."""
    rng = np.random.default_rng(0)
    p, group = rng.random(8_000), rng.choice(["a", "b"], 8_000)
    y = rng.random(8_000) < np.where(group == "a", p, 0.5 + 0.7 * (p - 0.5))
    found = evaluate_groups(y, p, groups=group)
    assert abs(found.groups["b"]["mean_gap"].value) < 0.02
    assert found.off == ("b",)


def test_evaluate_and_report_say_the_same_of_clusters() -> None:
    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(60), 20)
    p = rng.random(1_200)
    y = rng.random(1_200) < np.clip(p + 0.15 * rng.normal(size=60)[cluster], 0.0, 1.0)
    page = json.loads(cb.Report(y, p, cluster=cluster).json())
    found = cb.evaluate(y, p, cluster=cluster)
    assert page["verdict"]["in_short"] == found.verdict
    assert page["scores"]["mean_gap"]["high"] == pytest.approx(found["mean_gap"].high)
    assert found["mean_gap"].n_eff < 600 < found["mean_gap"].n


def test_which_label_is_the_positive_one_is_said() -> None:
    y, p = np.array(["Churned", "Retained"])[np.arange(200) % 2], np.linspace(0.1, 0.9, 200)
    assert cb.evaluate(y, p).notes[0].startswith("'Retained' is taken as the positive class")
    assert cb.evaluate(np.arange(200) % 2 + 1, p).notes[0].startswith("2 is taken as the positive class")
    assert cb.evaluate(y, p, pos_label="Retained").notes == []
    assert cb.evaluate(np.arange(200) % 2, p).notes == []
