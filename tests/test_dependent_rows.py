"""Rows that are not independent: intervals are as wide as repeated samples vary, in scores, curves and reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.dependent_rows import DesignEffects, effects_in_groups
from calibrant.metrics import design_effect, measured_rows
from calibrant.numerics import FloatArray, softmax

N = 2000


def truth(repeats: int, seed: int = 0) -> FloatArray:
    return softmax(np.random.default_rng(seed).normal(size=(N // repeats, 3))).repeat(repeats, axis=0)


def drawn(prob: FloatArray, seed: int, repeats: int) -> np.ndarray[Any, Any]:
    """Draw labels of which as many neighbours as `repeats` share one, as they share their probabilities."""
    chance = np.random.default_rng(seed).random((len(prob) // repeats, 1))
    return (prob.cumsum(axis=1)[::repeats] < chance).sum(axis=1).repeat(repeats)


def dependence(kind: str, repeats: int) -> dict[str, Any]:
    """Return what says that rows share labels: clusters, or times of labels that overlap."""
    if kind == "clusters":
        return {"cluster": np.arange(N) // repeats}
    start = np.datetime64("2020-01-01") + np.arange(N)
    return {"time": start, "label_end": start + np.timedelta64(repeats - 1, "D")}


@pytest.mark.parametrize("kind", ["clusters", "labels that overlap"])
@pytest.mark.parametrize("repeats", [1, 10])
def test_the_effect_is_how_often_each_label_counts(kind: str, repeats: int) -> None:
    prob, what = truth(repeats), dependence(kind, repeats)
    found = [design_effect(measured_rows(drawn(prob, seed, repeats), prob, **what)) for seed in range(10)]
    assert min(found) >= 1.0
    assert np.sqrt(np.mean(found)) == pytest.approx(np.sqrt(repeats), rel=0.25)


def test_one_cluster_is_worth_one_row() -> None:
    prob = truth(1)
    assert design_effect(measured_rows(drawn(prob, 0, 1), prob, cluster=np.zeros(N))) == pytest.approx(N)


@pytest.mark.parametrize("kind", ["clusters", "labels that overlap"])
def test_curves_cover_the_truth_as_often_as_they_say_and_those_of_independent_rows_do_not(kind: str) -> None:
    prob, what = truth(10), dependence(kind, 10)
    inside: dict[str, list[float]] = {"narrow": [], "wide": []}
    for seed in range(60):
        y = drawn(prob, seed, 10)
        for name, how in (("narrow", {}), ("wide", what)):
            curve = cb.reliability_curve(y, prob, class_label=0, n_bins=5, **how)
            inside[name].append(float(np.mean((curve.low <= curve.x) & (curve.x <= curve.high))))
    assert np.mean(inside["narrow"]) < 0.7
    assert 0.9 < np.mean(inside["wide"]) <= 1.0


@pytest.mark.slow
def test_the_truth_is_called_off_as_rarely_as_of_independent_rows() -> None:
    off = {"narrow": 0, "wide": 0}
    for seed in range(20):
        prob = truth(20, seed)[:, 0]
        y = np.random.default_rng(seed).random(N // 20).repeat(20) < prob
        for name, how in (("narrow", {}), ("wide", dependence("labels that overlap", 20))):
            off[name] += cb.evaluate(y, prob, **how).verdict.startswith("Not calibrated")
    assert off["narrow"] >= 15
    assert off["wide"] <= 6


def test_rows_that_are_each_a_cluster_of_their_own_get_the_figures_of_independent_rows() -> None:
    prob = truth(1)
    y = drawn(prob, 0, 1)
    plain, alone = cb.evaluate(y, prob), cb.evaluate(y, prob, cluster=np.arange(N))
    for name, score in plain.items():
        assert alone[name].value == pytest.approx(score.value, rel=1e-2, abs=1e-9)
        assert alone[name].low == pytest.approx(score.low, rel=1e-2, abs=1e-3)
    assert alone.verdict.split(":")[0] == plain.verdict.split(":")[0]


def intervals(part: Any) -> list[tuple[float, float]]:
    if isinstance(part, dict):
        own = [(part["low"], part["high"])] if {"low", "high"} <= set(part) and part["low"] is not None else []
        return own + [pair for value in part.values() for pair in intervals(value)]
    return [pair for value in part for pair in intervals(value)] if isinstance(part, list) else []


@pytest.mark.slow
def test_a_report_is_wider_everywhere_and_takes_back_what_overlap_alone_suggests() -> None:
    prob, what = truth(20, seed=3), dependence("labels that overlap", 20)
    taken_back = 0
    for seed in range(12):
        y = drawn(prob, seed, 20)
        before, after = (cb.Report(y, prob, groups=np.arange(N) % 2, **how).summary() for how in ({}, what))
        narrow, wide = intervals(before), intervals(after)
        assert len(narrow) == len(wide) > 60
        assert sum(w[1] - w[0] > n[1] - n[0] for n, w in zip(narrow, wide, strict=True)) > 50
        assert after["scores"]["ece_debiased"]["low"] <= before["scores"]["ece_debiased"]["low"]
        assert after["scores"]["ece_debiased"]["value"] < before["scores"]["ece_debiased"]["value"]
        assert after["curve"]["bins"][0]["observed"] == before["curve"]["bins"][0]["observed"]
        assert after["scores"]["brier"]["value"] == before["scores"]["brier"]["value"]
        assert "design effect" in after["scores"]["brier"]["method"]
        assert after["data"]["effective_rows"] < 0.5 * N == 0.5 * before["data"]["effective_rows"]
        states = before["verdict"]["state"], after["verdict"]["state"]
        taken_back += states[0] == "miscalibrated" and states[1] != "miscalibrated"
        assert not (states[1] == "miscalibrated" and states[0] != "miscalibrated")
    assert taken_back >= 6, "labels that count twenty times look like errors of perfect probabilities"


def test_errors_that_are_large_are_still_found() -> None:
    prob = truth(5)
    sharp = softmax(8.0 * np.log(prob))
    found = cb.Report(drawn(prob, 0, 5), sharp, **dependence("labels that overlap", 5)).summary()["verdict"]
    assert found["state"] == "miscalibrated"
    assert "over-confident" in found["headline"]


@pytest.mark.parametrize("kind", ["clusters", "labels that overlap"])
def test_the_effects_in_one_group_are_those_of_all_rows(kind: str) -> None:
    rows = measured_rows(drawn(truth(10), 0, 10), truth(10), **dependence(kind, 10))
    influence = rows.scores[:, 0] - (rows.codes == 0)
    in_one = effects_in_groups(rows, np.zeros(N, dtype=np.intp), 1, influence)
    assert in_one == pytest.approx(DesignEffects.of(rows).of_means(rows, influence[:, None]), rel=1e-9)
    assert in_one > 3.0
