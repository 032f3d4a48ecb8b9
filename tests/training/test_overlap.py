"""Intervals for labels that overlap: as wide as repeated samples vary, in curves, reports and their words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.numerics import FloatArray, softmax
from calibrant.training.dataset import Dataset
from calibrant.training.overlap import widened_curve, widened_summary, width_factor

N = 2000


def rows(truth: FloatArray, seed: int, repeats: int) -> Dataset:
    """Return rows of which as many neighbours as `repeats` share their probabilities and their label."""
    rng, n = np.random.default_rng(seed), len(truth)
    y = (truth.cumsum(axis=1)[::repeats] < rng.random((n // repeats, 1))).sum(axis=1).repeat(repeats)
    time = np.datetime64("2020-01-01") + np.arange(n)
    return Dataset(
        X=np.zeros((n, 1)),
        names=("nothing",),
        y=y,
        classes=np.arange(3),
        time=time,
        label_end=time + np.timedelta64(repeats - 1, "D"),
        symbol=np.full(n, "A", dtype=object),
        weight=np.full(n, 1.0 / repeats),
        label_return=np.zeros(n),
        horizon_time=np.timedelta64(repeats, "D"),
    )


def truth(repeats: int, seed: int = 0) -> FloatArray:
    return softmax(np.random.default_rng(seed).normal(size=(N // repeats, 3))).repeat(repeats, axis=0)


@pytest.mark.parametrize("repeats", [1, 10])
def test_the_factor_is_the_root_of_how_often_each_label_counts(repeats: int) -> None:
    found = [width_factor(rows(truth(repeats), seed, repeats), truth(repeats)) for seed in range(10)]
    assert min(found) >= 1.0
    assert np.mean(found) == pytest.approx(np.sqrt(repeats), rel=0.25)


def test_widened_curves_cover_the_truth_as_often_as_they_say_and_narrow_ones_do_not() -> None:
    prob = truth(10)
    inside: dict[str, list[float]] = {"narrow": [], "wide": []}
    for seed in range(60):
        data = rows(prob, seed, 10)
        curve = cb.reliability_curve(data.y == 0, prob[:, 0], n_bins=5)
        for name, one in (("narrow", curve), ("wide", widened_curve(curve, width_factor(data, prob)))):
            inside[name].append(float(np.mean((one.low <= one.x) & (one.x <= one.high))))
    assert np.mean(inside["narrow"]) < 0.7
    assert 0.9 < np.mean(inside["wide"]) <= 1.0


def test_a_factor_of_one_changes_neither_numbers_nor_state() -> None:
    prob = truth(1)
    data = rows(prob, 0, 1)
    before = cb.Report(data.y, prob).summary()
    after = widened_summary(before, 1.0)
    assert after["verdict"]["headline"] == before["verdict"]["headline"]
    for name, score in before["scores"].items():
        for end in ("value", "low", "high"):
            assert after["scores"][name][end] == pytest.approx(score[end], abs=1e-15)
    assert after["curve"] == before["curve"]


def intervals(part: Any) -> list[tuple[float, float]]:
    if isinstance(part, dict):
        own = [(part["low"], part["high"])] if {"low", "high"} <= set(part) and part["low"] is not None else []
        return own + [pair for value in part.values() for pair in intervals(value)]
    return [pair for value in part for pair in intervals(value)] if isinstance(part, list) else []


def test_a_report_is_wider_everywhere_and_takes_back_what_overlap_alone_suggests() -> None:
    prob = truth(20, seed=3)
    taken_back = 0
    for seed in range(12):
        data = rows(prob, seed, 20)
        before = cb.Report(data.y, prob, by=np.arange(N) % 2).summary()
        after = widened_summary(before, width_factor(data, prob))
        narrow, wide = intervals(before), intervals(after)
        assert len(narrow) == len(wide) > 60
        assert sum(w[1] - w[0] > n[1] - n[0] for n, w in zip(narrow, wide, strict=True)) > 50
        assert after["scores"]["ece_debiased"]["low"] <= before["scores"]["ece_debiased"]["low"]
        assert after["scores"]["ece_debiased"]["value"] < before["scores"]["ece_debiased"]["value"]
        assert after["curve"]["bins"][0]["observed"] == before["curve"]["bins"][0]["observed"]
        assert after["scores"]["brier"]["value"] == before["scores"]["brier"]["value"]
        assert "widened for labels that overlap" in after["scores"]["brier"]["method"]
        states = before["verdict"]["state"], after["verdict"]["state"]
        taken_back += states[0] == "miscalibrated" and states[1] != "miscalibrated"
        assert not (states[1] == "miscalibrated" and states[0] != "miscalibrated")
        assert after["classes"]["n_off"] == sum(row["is_off"] for row in after["classes"]["rows"])
    assert taken_back >= 6, "labels that count twenty times look like errors of perfect probabilities"


def test_errors_that_are_large_are_still_found() -> None:
    prob = truth(5)
    data = rows(prob, 0, 5)
    sharp = softmax(8.0 * np.log(prob))
    after = widened_summary(cb.Report(data.y, sharp).summary(), width_factor(data, sharp))
    assert after["verdict"]["state"] == "miscalibrated"
    assert "over-confident" in after["verdict"]["headline"]
