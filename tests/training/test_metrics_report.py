"""Figures of a run: those of the metrics module, with intervals and gates that know chance from harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import ndtr

from calibrant.dependence import Units, t_quantile
from calibrant.metrics import brier_score, log_loss, top_label_ece
from calibrant.numerics import FloatArray, softmax
from calibrant.results import plain
from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import (
    Forecasts,
    calibration_figures,
    figures,
    gates,
    leak_warnings,
    overhead_verdict,
    targets,
)


def rows(truth: FloatArray, seed: int = 0, per_time: int = 1, span: int = 0) -> Dataset:
    """Return rows whose labels follow the probabilities; neighbours in time share one draw of chance."""
    rng, n = np.random.default_rng(seed), len(truth)
    time = np.arange(n) // per_time
    chance = rng.random(time.max() // (span + 1) + 1)[time // (span + 1)]
    y = np.minimum((truth.cumsum(axis=1) < chance[:, None]).sum(axis=1), truth.shape[1] - 1) - 1
    start = np.datetime64("2020-01-01") + time
    return Dataset(
        X=np.zeros((n, 1)),
        names=("nothing",),
        y=y,
        classes=np.arange(truth.shape[1]) - 1,
        time=start,
        label_end=start + np.timedelta64(span, "D"),
        symbol=np.full(n, "A", dtype=object),
        weight=np.full(n, 1.0 / (span + 1)),
        label_return=np.zeros(n),
        horizon_time=np.timedelta64(span, "D"),
    )


@pytest.fixture(scope="module")
def truth() -> FloatArray:
    return softmax(np.random.default_rng(3).normal(size=(3000, 3)))


def constant(n: int) -> FloatArray:
    return np.tile([0.3, 0.3, 0.4], (n, 1))


@pytest.fixture(scope="module")
def found(truth: FloatArray) -> dict[str, Any]:
    return figures(rows(truth), Forecasts(softmax(2.5 * np.log(truth)), truth, constant(3000)))


def test_values_are_those_of_the_metrics(truth: FloatArray, found: dict[str, Any]) -> None:
    data, raw = rows(truth), softmax(2.5 * np.log(truth))
    for name, prob in (("raw", raw), ("calibrated", truth), ("class_frequencies", constant(3000))):
        one = found["forecasts"][name]
        assert one["log_loss"]["value"] == pytest.approx(log_loss(data.y, prob), rel=1e-12)
        assert one["brier"]["value"] == pytest.approx(brier_score(data.y, prob), rel=1e-12)
        assert one["ece"]["value"] == pytest.approx(top_label_ece(data.y, prob, n_bins=10), rel=1e-12)
        assert one["accuracy"]["value"] == pytest.approx((data.classes[prob.argmax(axis=1)] == data.y).mean())
        for score in one.values():
            assert score["low"] <= score["value"] <= score["high"]
    base = found["forecasts"]["class_frequencies"]
    assert base["brier"]["skill"] == base["log_loss"]["skill"] == 0.0
    after = found["forecasts"]["calibrated"]["brier"]
    assert after["skill"] == pytest.approx(1.0 - after["value"] / base["brier"]["value"])


def test_intervals_of_few_rows_end_where_scores_do(truth: FloatArray) -> None:
    """Of six rows an accuracy of 0.83 had the interval [-0.26, 1.31], and a log loss began below 0."""
    for n in (4, 6, 12):
        for seed in range(40):
            one = figures(rows(truth[:n], seed, span=1), Forecasts(truth[:n], truth[:n], constant(n)))["forecasts"][
                "raw"
            ]
            for name, most in (("log_loss", np.inf), ("brier", 2.0), ("accuracy", 1.0)):
                assert 0.0 <= one[name]["low"] <= one[name]["value"] <= one[name]["high"] <= most


def test_the_specified_block_holds_the_four_figures_and_what_they_compare_to(found: dict[str, Any]) -> None:
    block = calibration_figures(found)
    assert block["brier_before"] == found["forecasts"]["raw"]["brier"]["value"] > block["brier_after"]
    assert block["ece_before"] == found["forecasts"]["raw"]["ece"]["value"] > block["ece_after"]
    assert overhead_verdict(0.049)["within_limit"]
    assert not overhead_verdict(0.05)["within_limit"]
    base = found["forecasts"]["class_frequencies"]["log_loss"]["value"]
    after = found["forecasts"]["calibrated"]["log_loss"]["value"]
    assert block["log_loss_skill_after"] == pytest.approx(1.0 - after / base)
    assert block["ece_noise_band_after"] == found["ece_noise_band"]["calibrated"]


def test_rounding_fails_no_gate(truth: FloatArray) -> None:
    again = softmax(np.log(truth))
    assert (again != truth).any()
    passed = gates(figures(rows(truth), Forecasts(truth, again, constant(3000))))
    assert passed["log_loss_at_most_raw_plus_1_se"]["passed"]


@pytest.mark.slow
def test_calibrated_probabilities_pass_every_gate_and_overconfident_ones_fail(truth: FloatArray) -> None:
    data, sharp = rows(truth), softmax(6.0 * np.log(truth))
    good = gates(figures(data, Forecasts(sharp, truth, constant(3000))))
    bad = gates(figures(data, Forecasts(truth, sharp, constant(3000))))
    assert all(gate["passed"] for gate in good.values())
    assert not any(gate["passed"] for gate in bad.values())
    same = gates(figures(data, Forecasts(truth, truth, constant(3000))))
    assert same["log_loss_at_most_raw_plus_1_se"]["value"] == 0.0
    assert same["log_loss_at_most_raw_plus_1_se"]["passed"]


def forecast_moves(n: int, seed: int, horizon: int = 20) -> tuple[FloatArray, Dataset]:
    """Return rows of a market whose drift wanders, and the true probabilities that it is higher `horizon` bars later.

    Given the drift m now, the sum of the next returns a m_k + noise is normal: m_k is an AR(1) process of variance 1.
    """
    phi, a = 0.98, 0.1
    rng, steps = np.random.default_rng(seed), np.arange(horizon)
    drift = lfilter([np.sqrt(1.0 - phi**2)], [1.0, -phi], rng.normal(size=n + horizon + 300))[300:]
    price = np.concatenate(([0.0], np.cumsum(a * drift + rng.normal(size=n + horizon))))
    moved = price[horizon : horizon + n] - price[:n]
    between = phi ** np.abs(steps[:, None] - steps) - phi ** (steps[:, None] + steps)
    p = ndtr(a * drift[:n] * (phi**steps).sum() / np.sqrt(horizon + a**2 * between.sum()))
    start = np.datetime64("2020-01-01") + np.arange(n)
    data = replace(
        rows(np.column_stack((1.0 - p, p))),
        y=(moved > 0.0).astype(np.int64),
        classes=np.arange(2),
        label_end=start + horizon,
        weight=np.full(n, 1.0 / horizon),
    )
    return np.column_stack((1.0 - p, p)), data


@pytest.mark.slow
@pytest.mark.parametrize("n", [500, 1500])
def test_true_probabilities_of_overlapping_labels_fail_the_gate_of_the_ece_one_time_in_twenty(n: int) -> None:
    """With ten blocks of time a plain bootstrap of blocks made it one in eight."""
    outside = []
    for seed in range(200):
        truth, data = forecast_moves(n, seed)
        found = figures(data, Forecasts(truth, truth, np.full((n, 2), 0.5)))
        outside.append(not gates(found)["ece_within_noise_band"]["passed"])
    assert 0.005 <= np.mean(outside) <= 0.08


def test_chance_has_the_covariance_of_the_units(truth: FloatArray) -> None:
    rng = np.random.default_rng(0)
    units, table = Units(np.repeat(np.arange(60), 5), 60), rng.normal(size=(300, 2)) + np.array([3.0, -1.0])
    drawn = units.chance(table, 100_000, rng)
    sums = (table - table.mean(axis=0)).reshape(60, 5, 2).sum(axis=1) / 300
    expected = sums.T @ sums * 60 / 59 * 59 / 57  # Student's t has so much more than its scale
    np.testing.assert_allclose(np.cov(drawn.T), expected, rtol=0.03, atol=2e-5)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=1e-3)
    error = units.error_of_mean(table[:, 0], np.ones(300)).error
    assert np.quantile(np.abs(drawn[:, 0]), 0.95) == pytest.approx(t_quantile(59, 0.95) * error, rel=0.02)
    assert np.isinf(Units(np.zeros(9, dtype=np.int64), 1).chance(np.ones((9, 2)), 3, rng)).all()


def test_intervals_are_wider_where_labels_move_together(truth: FloatArray) -> None:
    widths = []
    for span, prob in ((0, truth), (9, np.repeat(truth[:300], 10, axis=0))):
        one = figures(rows(prob, span=span), Forecasts(prob, prob, constant(3000)))["forecasts"]["raw"]["brier"]
        widths.append(one["high"] - one["low"])
    assert 2.2 < widths[1] / widths[0] < 4.5  # each row tenfold: the root of ten


@pytest.mark.slow
def test_intervals_cover_the_expected_loss(truth: FloatArray) -> None:
    prob = truth[:1200]
    expected = float((1.0 - (prob**2).sum(axis=1)).mean())
    covered = []
    for seed in range(40):
        one = figures(rows(prob, seed, per_time=3), Forecasts(prob, prob, constant(1200)))["forecasts"]["raw"]
        covered.append(one["brier"]["low"] <= expected <= one["brier"]["high"])
    assert np.mean(covered) >= 0.85


def test_probability_zero_of_what_happened_is_infinite_and_fails(truth: FloatArray) -> None:
    data = rows(truth)
    certain = np.eye(3)[(data.y + 2) % 3]
    certain[0] = [1.0, 0.0, 0.0] if data.y[0] != -1 else [0.0, 1.0, 0.0]
    found = figures(data, Forecasts(truth, certain, constant(3000)))
    assert found["forecasts"]["calibrated"]["log_loss"]["value"] == np.inf
    assert plain(found)["forecasts"]["calibrated"]["log_loss"] == {
        "value": None,
        "low": None,
        "high": None,
        "skill": None,
    }
    assert not any(gate["passed"] for gate in gates(found).values())


def test_what_mends_an_infinite_log_loss_does_no_harm(truth: FloatArray) -> None:
    """A forest's votes of 0 are infinitely wrong where the class happened: to calibrate them is infinitely better."""
    data = rows(truth)
    voted = truth.copy()
    voted[0] = np.where(np.arange(3) == data.y[0] + 1, 0.0, 0.5)
    mended, harmed = (
        gates(figures(data, Forecasts(*pair, constant(3000)))) for pair in ((voted, truth), (truth, voted))
    )
    assert mended["log_loss_at_most_raw_plus_1_se"]["passed"]
    assert not harmed["log_loss_at_most_raw_plus_1_se"]["passed"]
    assert not gates(figures(data, Forecasts(voted, voted, constant(3000))))["log_loss_at_most_raw_plus_1_se"]["passed"]


def test_what_says_the_same_of_all_rows_has_no_skill() -> None:
    """Class frequencies that change make a constant look skilled, as where a temperature is infinite."""
    data, even = rows(constant(3000)), constant(3000)
    stale = np.tile([0.8, 0.1, 0.1], (3000, 1))
    found = figures(data, Forecasts(stale, even, stale))
    gap = found["differences"]["log_loss_calibrated_minus_class_frequencies"]
    assert gap["high"] < 0.0
    assert found["is_constant"] == {"raw": True, "calibrated": True, "class_frequencies": True}
    assert not gates(found)["skill_over_class_frequencies"]["passed"]


def test_targets_say_what_the_accuracy_allows(truth: FloatArray, found: dict[str, Any]) -> None:
    said = targets(found)
    assert not said["brier"]["met"]
    assert said["brier"]["least_at_this_accuracy"] == 1.0 - found["forecasts"]["calibrated"]["accuracy"]["value"]
    assert said["brier"]["value"] > said["brier"]["least_at_this_accuracy"]
    sure = np.where(np.eye(3)[np.arange(3000) % 3] == 1.0, 0.98, 0.01)
    easy = targets(figures(rows(sure), Forecasts(sure, sure, constant(3000))))
    assert easy["brier"]["met"]
    assert easy["ece"]["met"]


@pytest.mark.slow
def test_what_was_told_the_labels_is_called_a_leak(truth: FloatArray, found: dict[str, Any]) -> None:
    assert leak_warnings(found, found) == []
    data = rows(truth)
    right = np.eye(3)[data.y + 1]
    told = np.where(
        np.random.default_rng(0).random((3000, 1)) < 0.6,
        right,
        np.roll(0.51 * right + 0.49 * np.roll(right, 1, 1), 0, 1),
    )
    wrong = told.argmax(axis=1) == right.argmax(axis=1)
    swapped = np.where(((np.arange(3000) % 3 == 0) & wrong)[:, None], np.roll(0.51 * right, 1, 1) + 0.49 * right, told)
    leaky = figures(data, Forecasts(truth, swapped, constant(3000)))
    (first, *_) = leak_warnings(leaky, leaky)
    assert "is below what its accuracy of" in first
    assert leak_warnings(figures(data, Forecasts(truth, truth, constant(3000))), found) == []
    good = figures(data, Forecasts(truth, 0.9 * right + 0.1 / 3, constant(3000)))
    assert any("features that see the future would explain it" in text for text in leak_warnings(good, good))
    assert any("Labels leaked, or times have changed" in text for text in leak_warnings(found, good))


def test_figures_repeat_bit_for_bit(truth: FloatArray, found: dict[str, Any]) -> None:
    again = figures(rows(truth), Forecasts(softmax(2.5 * np.log(truth)), truth, constant(3000)))
    assert again == found
    other = figures(rows(truth), Forecasts(softmax(2.5 * np.log(truth)), truth, constant(3000)), rng=1)
    assert other != found
