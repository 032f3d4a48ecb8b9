"""The words: they follow the evidence, and a correction is recommended only where there is some."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from report_cases import binary, multiclass

import calibrant as cb
from calibrant.report.formats import decimals, percent, percent_level, points, shorten, signed


def words(*arguments: Any, **options: Any) -> dict[str, Any]:
    verdict: dict[str, Any] = cb.Report(*arguments, **options).summary()["verdict"]
    return verdict


def shifted(change: float, *, n: int = 4_000) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    truth = 0.2 + 0.6 * rng.random(n)
    return rng.random(n) < truth, truth + change


def test_correction_is_recommended_only_on_evidence(report: cb.Report) -> None:
    summary = report.summary()
    evidence = summary["top_label_scores"] or summary["scores"]
    gap, error = evidence["mean_gap"], summary["scores"]["ece_debiased"]
    has_evidence = error["low"] > 0.0 or gap["low"] > 0.0 or gap["high"] < 0.0
    has_evidence |= summary["classes"] is not None and summary["classes"]["n_off"] > 0
    verdict = summary["verdict"]
    assert (verdict["state"] == "miscalibrated") == has_evidence
    assert ("Not calibrated" in verdict["headline"]) == has_evidence
    assert verdict["in_short"].startswith("Not calibrated") == has_evidence
    if not has_evidence:
        assert verdict["command"] is None
        assert "Fit a calibrator" not in verdict["what_to_do"]


@pytest.mark.parametrize("seed", range(5))
def test_pure_chance_is_seldom_called_miscalibrated(seed: int) -> None:
    """Two tests at 95% on 20 calibrated sets: 8 false alarms or more have a chance below 1 in 1,000."""
    alarms = sum(words(*binary(300, seed=20 * seed + i))["state"] == "miscalibrated" for i in range(20))
    assert alarms < 8


@pytest.mark.parametrize(
    ("data", "headline", "which_way"),
    [
        (binary(3_000, sharpness=2.0), "predictions are too extreme", "over-confident"),
        (binary(3_000, sharpness=0.5), "predictions are too timid", "under-confident"),
        (shifted(0.15), "predictions are too high", "Events happened less often than predicted."),
        (shifted(-0.15), "predictions are too low", "Events happened more often than predicted."),
        (multiclass(3_000, 3, sharpness=2.0), "the model is over-confident", "right less often"),
        (multiclass(3_000, 3, sharpness=0.5), "the model is under-confident", "right more often"),
    ],
)
def test_direction_is_named(data: tuple[Any, Any], headline: str, which_way: str) -> None:
    verdict = words(*data)
    assert verdict["headline"] == f"Not calibrated: {headline}"
    assert which_way in verdict["which_way"]
    assert verdict["is_it_calibrated"].startswith("No.")


def test_calibrated_rows_are_left_alone() -> None:
    verdict = words(*binary(20_000))
    assert verdict["state"] == "calibrated"
    assert verdict["is_it_calibrated"].startswith("Yes")
    assert verdict["what_to_do"].startswith("Leave it alone.")


def test_few_rows_tell_nothing_either_way() -> None:
    verdict = words(*binary(30))
    assert verdict["headline"] == "No error found, on too few rows to be sure"
    assert verdict["what_to_do"].startswith("Collect more labelled rows before deciding.")


def test_small_is_judged_against_the_rarer_outcome() -> None:
    """An error of 1 in 100 is small for a coin and as large as the rate itself for an event of 1 in 100."""
    rng = np.random.default_rng(5)
    truth = rng.uniform(0.0, 0.02, 2_000)
    assert words(rng.random(2_000) < truth, truth)["state"] == "unclear"
    assert words(*binary(2_000))["state"] == "calibrated"


def test_turned_round_labels_are_suspected_and_not_calibrated_away() -> None:
    y, p = binary(1_000)
    verdict = words(~y, p)
    assert verdict["headline"] == "Not calibrated: predictions run the wrong way"
    assert "Check first which class is the positive one" in verdict["what_to_do"]
    assert verdict["command"] is None


def test_one_class_alone_asks_for_the_other() -> None:
    verdict = words(np.zeros(200, dtype=int), np.linspace(0.0, 1.0, 200))
    assert verdict["what_to_do"] == "Collect rows of the other class too: a calibrator needs both."
    assert verdict["command"] is None


@pytest.mark.parametrize(
    ("data", "scores"),
    [
        (binary(2_000, sharpness=2.0), "SCORE"),
        (binary(20_000, sharpness=2.0), "SCORE"),
        (multiclass(2_000, 3, sharpness=2.0), "SCORES --method auto"),
    ],
)
def test_command_names_a_method_that_exists_and_helps(data: tuple[Any, Any], scores: str) -> None:
    from calibrant.calibrators import make_calibrator

    y, p = data
    assert words(y, p)["command"] == f"calibrant fit FILE --label LABEL --score {scores} -o calibrator.json"
    mended = make_calibrator("auto").fit(p[::2], y[::2]).predict_proba(p[1::2])
    assert cb.metrics.log_loss(y[1::2], mended) < cb.metrics.log_loss(y[1::2], p[1::2])


def off_by_class(n: int = 6_000) -> tuple[Any, Any]:
    """Return rows whose most probable class is right as often as it says, but whose other classes are exchanged."""
    y, p = multiclass(n, 4)
    order = p.argsort(axis=1)
    wrong = y != order[:, -1]
    takers = np.where(np.random.default_rng(0).random(n) < 0.7, 2, y)
    y = np.where(wrong & (order[:, -1] != 2), takers, y)
    return y, p


def test_classes_that_are_off_are_named_though_the_most_probable_one_is_right() -> None:
    verdict = words(*off_by_class())
    assert verdict["state"] == "miscalibrated"
    assert verdict["headline"] == "Not calibrated: some classes are off"
    assert verdict["is_it_calibrated"].startswith("No. 4 of 4 classes are off, worst first: 2, ")
    assert "Of the most probable class: yes: no error is shown" in verdict["is_it_calibrated"]
    assert verdict["where"].startswith("Most in class 2: predicted too low: 0.")
    assert "it needs a term for each class, which temperature scaling lacks" in verdict["what_to_do"]
    assert verdict["in_short"].startswith("Not calibrated. Off, worst first: 2, ")


def test_a_sharp_model_whose_shares_are_right_is_told_that_one_number_may_do() -> None:
    verdict = words(*multiclass(4_000, 3, sharpness=2.0))
    assert "3 of 3 classes are off, worst first: " in verdict["where"]
    assert verdict["what_to_do"].endswith("temperature scaling may be enough.")


def test_of_many_classes_five_are_named_and_the_others_counted() -> None:
    where = words(*multiclass(20_000, 15, sharpness=2.5))["where"]
    assert re.search(r"15 of 15 classes are off, worst first: (\d+, ){4}\d+ and 10 more\.$", where)


def test_where_names_the_bin_of_the_largest_gap() -> None:
    y, p = binary(3_000, sharpness=2.0)
    summary = cb.Report(y, p).summary()
    worst = max((b for b in summary["curve"]["bins"] if b["is_outside"]), key=lambda b: abs(b["gap"]))
    expected = f"from {percent(worst['from'])} to {percent(worst['to'])}: on average {percent(worst['predicted'])}"
    assert expected in summary["verdict"]["where"]


def test_level_is_named_everywhere() -> None:
    verdict = words(*binary(2_000, sharpness=2.0), level=0.8)
    assert "80% interval" in verdict["is_it_calibrated"]
    assert "80% interval" in verdict["where"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (percent(0.1234), "12.3%"),
        (percent(0.00042), "0.042%"),
        (percent(0.0), "0.0%"),
        (percent(1.0), "100.0%"),
        (points(0.05), "5.0 percentage points"),
        (percent_level(0.999), "99.9%"),
        (decimals(-0.00001), "0.0000"),
        (decimals(-0.5), "\N{MINUS SIGN}0.5000"),
        (signed(0.0401), "+0.040"),
        (signed(-0.0401), "\N{MINUS SIGN}0.040"),
        (signed(-0.0001), "0.000"),
        (shorten("abcdef", 4), "abc\N{HORIZONTAL ELLIPSIS}"),
        (shorten("abcd", 4), "abcd"),
    ],
)
def test_numbers_and_names_are_written_plainly(text: str, expected: str) -> None:
    assert text == expected
