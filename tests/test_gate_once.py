"""In one fit, scores and labels are each checked once: folds and nested fits take rows that have been checked."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calibrant as cb
from calibrant.calibrators import CALIBRATORS, make_calibrator
from calibrant.validation import labels, scores

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), 300)
Y = (P.cumsum(axis=1) > RNG.random((300, 1))).argmax(axis=1)
CITY = np.arange(300) % 2


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of the gate for scores and labels, wherever in the package it was imported."""
    counted: Counter[str] = Counter()

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            counted[name] += 1
            return function(*args, **kwargs)

        return call

    gates = {"as_scores": scores.as_scores, "as_labels": labels.as_labels}
    wrapped = {name: counting(name, gate) for name, gate in gates.items()}
    for module in [m for key, m in sys.modules.items() if key.startswith("calibrant")]:
        for name, gate in gates.items():
            if vars(module).get(name) is gate:
                monkeypatch.setattr(module, name, wrapped[name])
    return counted


ONCE = {"as_scores": 1, "as_labels": 1}


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", CALIBRATORS)
def test_a_calibrator_checks_once(calls: Counter[str], name: str, k: int) -> None:
    p, y = (P[:, 1].copy(), Y == 1) if k == 2 else (P, Y)
    make_calibrator(name).fit(p, y)
    assert calls == ONCE


@pytest.mark.parametrize("k", [2, 3])
def test_the_automatic_choice_checks_once_for_all_folds_and_candidates(calls: Counter[str], k: int) -> None:
    p, y = (P[:, 1].copy(), Y == 1) if k == 2 else (P, Y)
    cb.AutoCalibrator(cv=3).fit(p, y, sample_weight=np.ones(300) * 2.0)
    assert calls == ONCE


def test_a_grouped_calibrator_checks_once_for_all_groups_folds_and_strengths(calls: Counter[str]) -> None:
    cb.GroupedCalibrator("beta", shrinkage="auto").fit(P[:, 1].copy(), Y == 1, groups=CITY)
    assert calls == ONCE


@pytest.mark.filterwarnings("ignore:isotonic regression gives probabilities of 0 or 1")
@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
def test_the_facade_checks_once_for_the_fit_and_its_figures(calls: Counter[str], method: Any) -> None:
    cb.ProbabilityCalibrator(cb.CalibrationConfig(method=method)).fit(Y, P)
    assert calls == ONCE


def test_a_comparison_checks_once_for_all_methods(calls: Counter[str]) -> None:
    cb.compare(P, Y, methods=["sigmoid", "temperature", "auto", "one_vs_rest"], cv=3)
    assert calls == ONCE


def test_applying_checks_the_new_scores_once(calls: Counter[str]) -> None:
    fitted = cb.TemperatureCalibrator().fit(P, Y)
    calls.clear()
    fitted.predict_proba(P)
    assert calls == {"as_scores": 1}


def test_a_picture_of_three_fits_checks_their_rows_once(calls: Counter[str]) -> None:
    cb.MimicDisplay.from_calibrator(cb.MimicCalibrator(), P[:, 1].copy(), Y == 1)
    assert calls == ONCE
