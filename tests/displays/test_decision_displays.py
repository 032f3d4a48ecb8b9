"""Pictures of decisions show what was measured, on given axes or their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt

import calibrant as cb
from calibrant.decisions import Problem, decision_curve, evaluate, risk_coverage_curve
from calibrant.displays import COLOURS
from calibrant.errors import InvalidTypeError, ShapeError

RNG = np.random.default_rng(0)
P = RNG.random(400)
Y = RNG.random(400) < P
PROBLEM = Problem.two_actions(false_positive=1.0, false_negative=4.0)


def lines(ax: Any) -> dict[str, Any]:
    return {line.get_label(): np.column_stack(line.get_data()) for line in ax.lines}


def test_decision_curve_is_drawn_beside_all_and_none() -> None:
    display = cb.DecisionCurveDisplay.from_predictions(Y, {"plain": P, "squared": P**2}, thresholds=[0.1, 0.4, 0.7])
    curve = decision_curve(Y, P, thresholds=[0.1, 0.4, 0.7])
    shown = lines(display.ax_)
    np.testing.assert_array_equal(shown["plain"][:, 1], curve.net_benefit)
    np.testing.assert_array_equal(shown["act on all"][:, 1], curve.all)
    assert list(shown) == ["plain", "squared", "act on all", "act on none"]
    assert len(display.ax_.collections) == 2, "a band for each"


def test_many_curves_have_no_bands() -> None:
    models = {f"m{k}": P**k for k in range(1, 6)}
    assert not cb.DecisionCurveDisplay.from_predictions(Y, models).ax_.collections
    assert not cb.RiskCoverageDisplay.from_predictions(Y, models).ax_.collections


def test_promises_that_were_not_kept_are_vermilion() -> None:
    kept = cb.PromiseDisplay(evaluate(Y, P, PROBLEM)).plot()
    broken = cb.PromiseDisplay(evaluate(Y, P**4, PROBLEM)).plot()
    assert kept.names == ["all rows", "no", "yes"]
    assert [t.get_text() for t in kept.ax_.get_yticklabels()] == kept.names
    assert lines(kept.ax_)["realised, promise kept"][0, 0] == pytest.approx(kept.scores["realised"].value)
    colours = [display.ax_.lines[0].get_color() for display in (kept, broken)]
    assert colours == [COLOURS[0], COLOURS[1]]


def test_an_action_of_constant_loss_has_no_gap_by_rounding() -> None:
    problem = Problem({"no": {0: 0.0, 1: 4.0}, "yes": {0: 1.0, 1: 0.0}}, abstain=0.3)
    gap = evaluate(Y, P, problem).by_action["abstain"]["gap"]
    assert (gap.value, gap.low, gap.high) == (0.0, 0.0, 0.0)


def test_risk_is_drawn_over_coverage_on_given_axes() -> None:
    _, ax = plt.subplots()
    display = cb.RiskCoverageDisplay.from_predictions(Y, P, loss=PROBLEM, ax=ax)
    curve = risk_coverage_curve(Y, P, loss=PROBLEM)
    assert display.ax_ is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), curve.risk)
    assert f"{curve.aurc.value:.4g}" in ax.get_legend().get_texts()[0].get_text()
    assert ax.get_ylabel().startswith("Mean loss")


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="decision_curve returns"):
        cb.DecisionCurveDisplay("x")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="curve is an empty sequence"):
        cb.RiskCoverageDisplay([])
    with pytest.raises(InvalidTypeError, match="scores is a dict"):
        cb.PromiseDisplay({})  # type: ignore[arg-type]
