"""Sentences and figures that were once untrue, each as the case that showed it."""

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
from calibrant.monitor import CalibrationMartingale
from calibrant.rows import read_rows
from calibrant.splits import PurgedKFold


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
    assert "the scores run against the labels" in CliRunner().invoke(main, command).output
    assert "against" not in CliRunner().invoke(main, [*command, "--positive", "Churned"]).output


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


def test_the_facade_gives_no_zeros_and_ones_unless_asked_to_and_then_says_so() -> None:
    """Isotonic zeros made the log loss of a run infinite where 4 of 1,831 rows were of the class ruled out."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 1.0, 2.0], 2_000)
    y = (p.cumsum(axis=1) < rng.random((2_000, 1))).sum(axis=1)
    chosen = cb.ProbabilityCalibrator()
    assert chosen.fit(y, p).method == "isotonic"
    new = np.vstack([np.eye(3), p])
    assert 0.0 < chosen.predict_proba(new).min()
    assert chosen.predict_proba(new).max() < 1.0
    asked = cb.ProbabilityCalibrator(cb.CalibrationConfig(method="isotonic"))
    with pytest.warns(DataWarning, match=r"0 or 1 to [\d,]+ of 2,000 rows: .* method='auto' keeps them between"):
        asked.fit(y, p)
    assert asked.predict_proba(new).min() == 0.0


def moves(n: int, h: int, seed: int) -> tuple[Any, Any]:
    """Return probabilities of .5 +- .02 that a random walk is higher h steps later, and whether it is."""
    rng = np.random.default_rng(seed)
    walk = np.concatenate(([0.0], rng.normal(size=n + h).cumsum()))
    return rng.uniform(0.48, 0.52, n), walk[h : h + n] > walk[:n]


@pytest.mark.slow
def test_the_monitor_raises_few_false_alarms_where_labels_overlap() -> None:
    """It raised one in 78% of 60 streams of 2,000 rows, and promised 1%; at most 1% of 2,000: `benchmarks monitor`."""
    n_alarms = {"declared": 0, "not declared": 0}
    for seed in range(60):
        p, y = moves(2_000, 20, seed)
        martingales = {name: CalibrationMartingale() for name in n_alarms}
        highest = dict.fromkeys(n_alarms, 0.0)
        for start in range(0, 2_000, 100):
            at = np.arange(start, start + 100)
            rows = read_rows(p[at], y[at], time=at, label_end=at + 19)
            highest["declared"] = max(highest["declared"], martingales["declared"].add_rows(rows))
            highest["not declared"] = max(highest["not declared"], martingales["not declared"].add(rows.summary()))
        for name, log_e in highest.items():
            n_alarms[name] += log_e >= np.log(100.0)
    print(f"false alarms at 1% in 60 streams of labels over 20 rows: {n_alarms}")
    assert n_alarms["declared"] <= 1
    assert n_alarms["not declared"] >= 30


def test_the_monitor_waits_for_labels_that_come_late(tmp_path: Any) -> None:
    """They aborted the run; now the window waits, and counts as if they had been there."""
    p, y = moves(300, 1, 0)
    file, state = tmp_path / "rows.csv", tmp_path / "s.json"
    command = ["monitor", str(file), "--rows", "100", "--state", str(state), "--missing", "wait", "--json"]

    def watch(n_known: int) -> Any:
        labels = ["" if i >= n_known else str(int(label)) for i, label in enumerate(y)]
        file.write_text("p,y\n" + "".join(f"{a},{b}\n" for a, b in zip(p.tolist(), labels, strict=True)))
        return json.loads(CliRunner().invoke(main, command).output)

    late = watch(250)
    assert (late["n_windows"], late["notes"]) == (
        2,
        ["100 rows wait until their window has all of its rows and labels."],
    )
    assert watch(300)["n_windows"] == 3
    in_parts = watch(300)["rows"]
    state.unlink()
    assert watch(300)["rows"] == in_parts


def test_a_calibrated_forecast_with_serial_errors_is_seldom_said_to_break_its_promise() -> None:
    """AR(.9), n = 500: of 60 intervals of the gap 30 excluded 0; at 95%, 8 or more have a chance of 2%."""
    excluded = {"unknown": 0, "known": 0}
    for seed in range(60):
        error = np.zeros(800)
        noise = np.random.default_rng(seed).normal(size=800) * (1.0 - 0.9**2) ** 0.5
        for k in range(1, 800):
            error[k] = 0.9 * error[k - 1] + noise[k]
        forecast = cb.forecasts.GaussianForecast(np.zeros(500), 1.0)
        for name, known in (("unknown", {}), ("known", {"time": np.arange(500)})):
            found = cb.forecasts.evaluate_rule(forecast, error[300:], (-0.5, 0.5), ((0.0, 4.0), (1.0, 0.0)), **known)
            excluded[name] += found["reliability_gap"].low > 0.0
            assert 0.0 < found["reliability_gap"].high < 2.0
    assert excluded["unknown"] >= 25
    assert excluded["known"] < 8


def test_intervals_of_quantiles_are_called_what_they_are() -> None:
    """Those between quantiles of .1 and .9 were called intervals of 90%."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=400)
    forecast = cb.forecasts.QuantileForecast([0.1, 0.5, 0.9], mean[:, None] + [-0.5, 0.0, 0.5])
    found = cb.forecasts.evaluate(forecast, mean + rng.normal(size=400))
    assert "Intervals are too narrow: those of 80% hold " in found.verdict


def test_recalibrated_forecasts_that_are_to_be_used_are_said_to_be_better() -> None:
    """ "After recalibration: not calibrated" stood above "Use the recalibrated forecasts"."""
    rng = np.random.default_rng(1)
    mean = rng.normal(size=3_000)
    y = mean + np.where(mean > 0.0, 2.0, 0.3) * rng.normal(size=3_000)
    forecast = cb.forecasts.GaussianForecast(mean, 0.3)
    fitted = cb.forecasts.VarianceScalingRecalibrator().fit(forecast[:1_500], y[:1_500])
    found = cb.ForecastReport(forecast[1_500:], y[1_500:], recalibrator=fitted)._summary
    assert found["headline"].startswith("After recalibration: better, but not calibrated")
    assert found["advice"].startswith("Use the recalibrated forecasts, which are better though not calibrated yet.")


def walk_scores(n: int, h: int, seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """Return scores that drift slowly and say nothing of labels over h rows, and what declares these."""
    rng = np.random.default_rng(seed)
    _, y = moves(n, h, seed)
    p = 1.0 / (1.0 + np.exp(-rng.normal(size=n).cumsum() / 30.0))
    return p, y, {"time": np.arange(n), "label_end": np.arange(n) + h - 1}


@pytest.mark.parametrize("how", ["declared", "splitter"])
def test_out_of_fold_error_is_honest_where_labels_overlap(how: str) -> None:
    """Shuffled folds reported .020 on random walks, against .045 on later rows; `cv=PurgedKFold(...)` was refused."""
    shuffled, honest = [], []
    for seed in range(5):
        p, y, dependence = walk_scores(3_000, 20, seed)
        splitter = PurgedKFold(5, times=dependence["time"], label_end=dependence["label_end"])
        config = cb.CalibrationConfig(cv=splitter) if how == "splitter" else cb.CalibrationConfig()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            shuffled.append(cb.ProbabilityCalibrator().fit(y, p).ece_after)
            found = cb.ProbabilityCalibrator(config).fit(y, p, **(dependence if how == "declared" else {}))
        honest.append(found.ece_after)
    assert np.mean(shuffled) < 0.02
    assert np.mean(honest) > 0.04


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


def test_what_looks_like_dependence_is_said_where_none_was_declared() -> None:
    p, y = moves(2_000, 20, 0)
    (note,) = [note for note in cb.evaluate(y, p).notes if "not independent" in note]
    assert "cluster" in note
    known = {"time": np.arange(2_000), "label_end": np.arange(2_000) + 19}
    assert not [note for note in cb.evaluate(y, p, **known).notes if "not independent" in note]
    assert not cb.evaluate(np.random.default_rng(0).random(2_000) < p, p).notes


def test_which_label_is_the_positive_one_is_said() -> None:
    y, p = np.array(["Churned", "Retained"])[np.arange(200) % 2], np.linspace(0.1, 0.9, 200)
    assert cb.evaluate(y, p).notes[0].startswith("'Retained' is taken as the positive class")
    assert cb.evaluate(np.arange(200) % 2 + 1, p).notes[0].startswith("2 is taken as the positive class")
    assert cb.evaluate(y, p, pos_label="Retained").notes == []
    assert cb.evaluate(np.arange(200) % 2, p).notes == []
