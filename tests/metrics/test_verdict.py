"""The verdict: words follow the scores, and a correction is recommended only where these show an error."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.metrics import roc_auc_score

import calibrant as cb
from calibrant import engines
from calibrant.metrics import Verdict, verdict
from calibrant.monitor import CalibrationMonitor


def binary(n: int, *, sharpness: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    """Return events and predictions, calibrated at sharpness 1 and over-confident above."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n)
    return rng.random(n) < truth, 1.0 / (1.0 + ((1.0 - truth) / truth) ** sharpness)


def multiclass(n: int, k: int, *, sharpness: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, 0.6), n)
    p = truth**sharpness
    y = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    return y, p / p.sum(axis=1, keepdims=True)


def words(*rows: Any, **options: Any) -> Verdict:
    return verdict(cb.evaluate(*rows, **options))


def shifted(change: float, *, n: int = 4_000) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    truth = 0.2 + 0.6 * rng.random(n)
    return rng.random(n) < truth, truth + change


@st.composite
def any_rows(draw: st.DrawFn) -> dict[str, Any]:
    """Draw rows of two or more classes: with ties, probabilities of 0 and 1, weights, and classes without rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, k = draw(st.integers(1, 400)), draw(st.sampled_from([1, 1, 2, 3, 5]))
    decimals = draw(st.sampled_from([1, 2, 12]))
    sharpness = draw(st.sampled_from([0.4, 1.0, 1.0, 3.0]))
    if k == 1:
        truth = rng.beta(*draw(st.sampled_from([(1.0, 1.0), (0.2, 0.4), (1.0, 50.0)])), n)
        p = (truth**sharpness / (truth**sharpness + (1.0 - truth) ** sharpness)).round(decimals)
        y = (rng.random(n) < truth).astype(int)
    else:
        truth = rng.dirichlet(np.full(k, 0.5), n)
        p = truth**sharpness
        p /= p.sum(axis=1, keepdims=True)
        if draw(st.booleans()):  # rows that are sure
            p = np.where(p.max(axis=1, keepdims=True) > 0.8, p >= p.max(axis=1, keepdims=True), p).astype(float)
        y = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    weight = rng.integers(1, 4, n) / 2.0 if draw(st.booleans()) else None
    return {"y": y, "p": p, "weight": weight}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(any_rows())
def test_all_who_judge_the_same_rows_say_the_same_words(rows: dict[str, Any]) -> None:
    y, p, weight = rows.values()
    is_binary = p.ndim == 1
    options: dict[str, Any] = {"classes": [0, 1] if is_binary else list(range(p.shape[1]))}
    scores = cb.evaluate(y, p, sample_weight=weight, **options)
    said = scores.verdict
    assert cb.Report(y, p, sample_weight=weight, **options).summary()["verdict"]["in_short"] == said
    columns = {"p": p} if is_binary else {f"p{k}": p[:, k] for k in range(p.shape[1])}
    table = {"y": y, **columns} | ({} if weight is None else {"w": weight})
    how: dict[str, Any] = {"score": list(columns), "weight": None if weight is None else "w", **options}
    # two columns of probabilities are one score to whoever reads them from a table
    if not is_binary and p.shape[1] == 2:
        said = cb.evaluate(y, p[:, 1], sample_weight=weight, **options).verdict
    assert engines.evaluate(table, **how).verdict == said
    assert cb.Report.from_source(table, **how).summary()["verdict"]["in_short"] == said
    one = p if is_binary or p.shape[1] > 2 else p[:, 1]
    window = CalibrationMonitor().update(y, one, sample_weight=weight, **options)
    assert window.verdict == said


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(any_rows())
def test_correction_is_recommended_only_on_evidence(rows: dict[str, Any]) -> None:
    y, p, weight = rows.values()
    scores = cb.evaluate(y, p, sample_weight=weight, classes=[0, 1] if p.ndim == 1 else list(range(p.shape[1])))
    found = verdict(scores)
    has_evidence = scores.test.p_value < 0.05 or scores["log_loss"].value == math.inf
    if "class_gap" in scores:
        has_evidence |= scores["class_gap"].low > 0.0 or scores["class_gap"].high < 0.0
    assert found.is_off == has_evidence
    assert ("Not calibrated" in found.headline) == has_evidence
    assert found.in_short.startswith("Not calibrated") == has_evidence
    if not has_evidence:
        assert found.action != "calibrate"
        assert "Fit a calibrator" not in found.what_to_do


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_pure_chance_is_seldom_called_miscalibrated(seed: int) -> None:
    """Off in about 10% of calibrated sets: of 20, 8 or more have a chance below 1 in 1,000."""
    alarms = sum(words(*binary(300, seed=20 * seed + i)).is_off for i in range(20))
    assert alarms < 8


@pytest.mark.parametrize(
    ("data", "headline", "which_way"),
    [
        (binary(3_000, sharpness=2.0), "predictions are over-confident", "high ones less often"),
        (binary(3_000, sharpness=0.5), "predictions are under-confident", "high ones more often"),
        (shifted(0.15), "predictions are too high", "Events happened less often than predicted."),
        (shifted(-0.15), "predictions are too low", "Events happened more often than predicted."),
        (multiclass(3_000, 3, sharpness=2.0), "the model is over-confident", "right less often"),
        (multiclass(3_000, 3, sharpness=0.5), "the model is under-confident", "right more often"),
    ],
)
def test_direction_is_named(data: tuple[Any, Any], headline: str, which_way: str) -> None:
    found = words(*data)
    assert found.headline == f"Not calibrated: {headline}"
    assert which_way in found.which_way
    assert found.is_it_calibrated.startswith("No.")


def test_calibrated_rows_are_left_alone() -> None:
    found = words(*binary(20_000))
    assert found.state == "calibrated"
    assert found.is_it_calibrated.startswith("Yes")
    assert found.what_to_do.startswith("Leave it alone.")


def test_few_rows_tell_nothing_either_way() -> None:
    found = words(*binary(30))
    assert found.headline == "No error found, on too few rows to be sure"
    assert found.what_to_do.startswith("Collect more labelled rows before deciding.")


def test_small_is_judged_against_the_rarer_outcome() -> None:
    """An error of 1 in 100 is small for a coin and as large as the rate itself for an event of 1 in 100."""
    rng = np.random.default_rng(5)
    truth = rng.uniform(0.0, 0.02, 2_000)
    assert words(rng.random(2_000) < truth, truth).state == "unclear"
    assert words(*binary(2_000)).state == "calibrated"


def test_turned_round_labels_are_suspected_and_not_calibrated_away() -> None:
    y, p = binary(1_000)
    found = words(~y, p)
    assert found.headline == "Not calibrated: predictions run the wrong way"
    assert "Check first which class is the positive one" in found.what_to_do
    assert f"predictions run the wrong way: the AUC is {roc_auc_score(~y, p):.3f}." in found.in_short


@pytest.mark.parametrize("p", [np.full(200, 0.01), np.repeat([0.01, 0.012], 100)])
def test_predictions_that_are_all_too_low_are_not_said_to_be_right_on_average(p: Any) -> None:
    y = np.zeros(200, dtype=int)
    y[[1, 50, 90, 120, 150, 170]] = 1
    found = words(y, p)
    assert found.headline == "Not calibrated: predictions are too low"
    assert "holds 0); p = 0.0" in found.in_short
    assert found.which_way.endswith("was predicted and 0.030 happened.")


def test_one_class_alone_asks_for_the_other() -> None:
    found = words(np.zeros(200, dtype=int), np.linspace(0.0, 1.0, 200))
    assert found.what_to_do == "Collect rows of the other class too: a calibrator needs both."


def off_by_class(n: int = 6_000) -> tuple[Any, Any]:
    """Return rows whose most probable class is right as often as it says, but whose other classes are exchanged."""
    y, p = multiclass(n, 4)
    order = p.argsort(axis=1)
    wrong = y != order[:, -1]
    takers = np.where(np.random.default_rng(0).random(n) < 0.7, 2, y)
    y = np.where(wrong & (order[:, -1] != 2), takers, y)
    return y, p


def test_classes_that_are_off_are_named_though_the_most_probable_one_is_right() -> None:
    found = words(*off_by_class())
    assert found.state == "miscalibrated"
    assert found.headline == "Not calibrated: some classes are off"
    assert found.is_it_calibrated.startswith("No. 4 of 4 classes are off, worst first: 2, ")
    assert "The confidence in the predicted class is off by -0.0" in found.is_it_calibrated
    assert found.where.startswith("Worst in class 2: predicted too low: 0.")
    assert "it needs a term for each class, which temperature scaling lacks" in found.what_to_do
    assert found.in_short.startswith("Not calibrated: 4 of 4 classes are off, worst first: 2, ")


def test_a_sharp_model_whose_shares_are_right_is_told_that_one_number_may_do() -> None:
    found = words(*multiclass(4_000, 3, sharpness=2.0))
    assert "3 of 3 classes are off, worst first: " in found.in_short
    assert found.what_to_do.endswith("temperature scaling may be enough.")


def test_of_many_classes_five_are_named_and_the_others_counted() -> None:
    said = words(*multiclass(20_000, 15, sharpness=2.5)).is_it_calibrated
    assert re.search(r"15 of 15 classes are off, worst first: (\d+, ){5}and 10 more\.$", said)


def test_where_names_the_bin_that_adds_most() -> None:
    y, p = binary(3_000, sharpness=2.0)
    found = verdict(cb.evaluate(y, p, n_bins=10))
    low, high = map(float, re.findall(r"between (\S+) and (\S+): ", found.where)[0])
    held = (p >= low) & (p < high)
    assert f"predicted {p[held].mean():.2g}" in found.where
    assert f"({held.sum():,} rows)" in found.where


def test_level_is_named() -> None:
    assert "80% interval" in words(*binary(2_000, sharpness=2.0), level=0.8).is_it_calibrated


def test_an_infinite_log_loss_and_a_slope_are_evidence_alone() -> None:
    y, p = binary(4_000)
    p[np.flatnonzero(y)[0]] = 0.0
    found = words(y, p)
    assert found.headline == "Not calibrated: something happened that had probability 0"
    assert "log loss is infinite" in found.in_short


def test_a_verdict_is_its_short_words_and_plain_data() -> None:
    found = words(*binary(300))
    assert str(found) == found.in_short
    assert set(found.to_dict()) == {*Verdict.__dataclass_fields__}
