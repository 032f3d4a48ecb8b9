"""evaluate: losses, gaps and regrets equal those of other means, and intervals respect what rows share."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from sklearn.metrics import confusion_matrix

import calibrant as cb
from calibrant.decisions import Policy, Problem, evaluate, expected_loss
from calibrant.errors import CalibrantError, InvalidInputError, InvalidTypeError, ShapeError, UnknownNameError

YES_NO = Problem.two_actions(false_positive=1.0, false_negative=4.0)


def draw(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return (rng.random(n) < p).astype(int), p


def test_realised_loss_is_that_of_scikit_learns_confusion_matrix() -> None:
    y, p = draw(500)
    table = np.array([[0.5, 4.0], [1.0, -2.0]])
    problem = Problem(table, actions=["no", "yes"])
    counts = confusion_matrix(y, Policy(problem).decide(p) == "yes")
    found = evaluate(y, p, problem)
    assert found["realised"].value == pytest.approx((counts * table.T).sum() / 500, abs=1e-12)
    expected = np.column_stack((1 - p, p)) @ table.T
    assert found["promised"].value == pytest.approx(expected.min(axis=1).mean(), abs=1e-12)
    assert found["gap"].value == pytest.approx(found["realised"].value - found["promised"].value, abs=1e-12)


def test_interval_of_a_symmetric_mean_is_students_t() -> None:
    """Losses of -1 and 1 in equal numbers have no skewness."""
    y = np.array([0, 1] * 50)
    problem = Problem([[-1.0, 1.0], [5.0, 5.0]], actions=["x", "y"])
    found = evaluate(y, np.full(100, 0.5), problem)["realised"]
    low, high = stats.t.interval(0.95, 99, 0.0, stats.sem(2.0 * y - 1.0))
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9)), min_size=4, max_size=12))
def test_the_best_threshold_in_hindsight_is_the_best_of_all(rows: list[tuple[int, int]]) -> None:
    y, p = np.array([r[0] for r in rows]), np.array([r[1] for r in rows]) / 10
    y[:2] = [0, 1]
    cuts = [0.0, *(np.unique(p)), 1.1]
    losses = [np.where(p >= cut, 1.0 - y, 4.0 * y).mean() for cut in cuts]
    for policy in (YES_NO, Policy(YES_NO, threshold=0.55)):
        found = evaluate(y, p, policy)
        assert found["best_in_hindsight"].value == pytest.approx(min(losses), abs=1e-12)
        assert found["regret"].value == pytest.approx(found["realised"].value - min(losses), abs=1e-12)
        assert 0.0 <= found["regret"].low <= found["regret"].value + 1e-12


def test_best_in_hindsight_of_many_actions_is_no_worse_than_the_policy_or_any_single_action() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1.0, 1.0, 1.0], 300)
    y = rng.integers(0, 3, 300)
    problem = Problem(rng.normal(size=(4, 3)))
    found = evaluate(y, p, problem)
    best = found["best_in_hindsight"].value
    assert best <= found["realised"].value
    assert best <= found["best_single_action"].value
    assert found["best_single_action"].value == pytest.approx(problem.table[:, y].mean(axis=1).min(), abs=1e-12)


def test_best_in_hindsight_with_a_capacity_is_the_best_of_all_thresholds_that_keep_it() -> None:
    y, p = draw(40, 3)
    problem = Problem({"call": {0: 1.0, 1: -9.0}}, do_nothing="wait", capacity={"call": 6})
    order = np.argsort(-p)
    losses = [(1.0 - 10.0 * y[order[:m]]).sum() / 40 for m in range(7)]
    assert evaluate(y, p, problem)["best_in_hindsight"].value == pytest.approx(min(losses), abs=1e-12)


def test_the_best_single_action_is_one_that_all_rows_may_get() -> None:
    p, y = np.array([0.9, 0.8, 0.7, 0.6]), np.array([1, 1, 1, 0])
    problem = Problem({"call": {0: 1.0, 1: -9.0}}, do_nothing="wait", capacity={"call": 2})
    found = evaluate(y, p, problem)
    assert found.baseline.where == "'wait' for all rows"
    assert found.baseline.value == 0.0
    assert evaluate(y, p, problem, per=["mon", "mon", "tue", "tue"]).baseline.where == "'call' for all rows"


def test_weight_two_is_two_rows_and_weight_zero_none_where_nothing_is_limited() -> None:
    y, p = draw(60, 4)
    weight = np.random.default_rng(5).integers(0, 3, 60)
    weighted = evaluate(y, p, YES_NO, sample_weight=weight)
    repeated = evaluate(np.repeat(y, weight), np.repeat(p, weight), YES_NO)
    for name in ("realised", "promised", "gap", "regret", "best_in_hindsight", "best_single_action"):
        assert weighted[name].value == pytest.approx(repeated[name].value, abs=1e-12)
    assert weighted["realised"].n == (weight > 0).sum()


def test_clusters_of_equal_rows_say_what_one_row_each_says() -> None:
    y, p = draw(100, 6)
    alone = evaluate(y, p, YES_NO)
    copied = evaluate(np.repeat(y, 5), np.repeat(p, 5), YES_NO, cluster=np.repeat(np.arange(100), 5))
    for name in ("realised", "gap"):
        assert (copied[name].low, copied[name].high) == pytest.approx((alone[name].low, alone[name].high), rel=1e-2)
        assert "100 clusters" in copied[name].method
    assert copied["gap"].n_eff == pytest.approx(100.0, rel=0.02)


def test_regret_of_three_actions_with_capacity_is_near_that_of_all_charges() -> None:
    """All charges on a grid are tried by brute force: the search finds nearly all that they save, and never more."""
    saved, most = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = rng.random(14)
        y = (rng.random(14) < p).astype(int)
        losses = {"call": {0: 3.0, 1: -9.0}, "write": {0: 1.0, 1: -3.0}}
        problem = Problem(losses, do_nothing="wait", capacity={"call": 3, "write": 4})
        given = p**3  # too low: more should be called than looks worth it
        found = evaluate(y, given, problem)
        policy, expected = Policy(problem), problem.expected_losses(given)
        table = np.array([[0.0, 0.0], [3.0, -9.0], [1.0, -3.0]])[:, y].T
        grid = np.linspace(-12.0, 12.0, 33)
        costs = [
            table[np.arange(14), policy.codes_of(expected + np.array([0.0, a, b]))].mean()
            for a, b in product(grid, grid)
        ]
        assert found["best_in_hindsight"].value >= min(costs) - 0.3
        assert found.regret.value == pytest.approx(found.realised.value - found["best_in_hindsight"].value, abs=1e-12)
        assert found.regret.low <= 0.0 <= found.regret.value
        saved.append(found.regret.value)
        most.append(found.realised.value - min(costs))
    assert np.mean(saved) > 0.8 * np.mean(most) > 0.0


def test_overlapping_labels_widen_the_interval() -> None:
    rng = np.random.default_rng(7)
    shocks = np.convolve(rng.normal(size=1_049), np.ones(50), "valid") / np.sqrt(50)
    p = np.full(1_000, 0.5) + 1e-3 * rng.random(1_000)
    y = (shocks > 0).astype(int)
    start = np.arange(1_000)
    wide = evaluate(y, p, YES_NO, time=start, label_end=start + 49)["gap"]
    narrow = evaluate(y, p, YES_NO)["gap"]
    assert wide.high - wide.low > 3.0 * (narrow.high - narrow.low)


def test_rows_in_which_nothing_went_wrong_claim_no_certainty() -> None:
    found = evaluate(np.array([0] * 29 + [1]), np.array([0.05] * 29 + [0.9]), YES_NO)
    assert found["realised"].value == 0.0
    assert found["realised"].high > 0.05
    assert found["gap"].low < 0.0 < found["gap"].high


def test_groups_and_actions_are_measured_as_if_they_were_alone() -> None:
    y, p = draw(400, 8)
    city = np.random.default_rng(9).choice(["Bonn", "Rome"], 400)
    found = evaluate(y, p, YES_NO, groups=city)
    assert list(found.by_group) == ["Bonn", "Rome"]
    rome = evaluate(y[city == "Rome"], p[city == "Rome"], YES_NO, level=0.975)
    for name in ("realised", "promised", "gap"):
        ours, alone = found.by_group["Rome"][name], rome[name]
        assert (ours.value, ours.low, ours.high) == pytest.approx((alone.value, alone.low, alone.high), abs=1e-12)
    yes = p > 0.2
    assert found.by_action["yes"]["share"].value == pytest.approx(yes.mean())
    assert found.by_action["yes"]["realised"].value == pytest.approx((1 - y[yes]).mean())
    document = found.to_dict()
    assert [each["action"] for each in document["by_action"]] == ["no", "yes"]
    assert [each["group"] for each in document["by_group"]] == ["Bonn", "Rome"]


def test_actions_that_were_taken_are_judged_as_they_are() -> None:
    y, p = draw(200, 10)
    actions = np.where(np.arange(200) % 2 == 0, "yes", "no")
    found = evaluate(y, p, actions, YES_NO)
    assert found["realised"].value == pytest.approx(np.where(actions == "yes", 1 - y, 4 * y).mean())
    assert found["promised"].value == pytest.approx(np.where(actions == "yes", 1 - p, 4 * p).mean())


def test_costs_of_each_row_come_with_the_rows() -> None:
    y, p = draw(200, 11)
    costs = pd.DataFrame({"amount": np.random.default_rng(12).uniform(0, 20, 200)})
    problem = Problem({"no": {0: 0.0, 1: "amount"}, "yes": {0: 5.0, 1: 0.0}})
    found = evaluate(y, p, problem, costs=costs)
    yes = 5.0 * (1 - p) < costs["amount"] * p
    assert found["realised"].value == pytest.approx(np.where(yes, 5.0 * (1 - y), costs["amount"] * y).mean())


def test_labels_of_text_and_named_columns_are_matched() -> None:
    rng = np.random.default_rng(13)
    p = rng.dirichlet([1.0, 1.0, 1.0], 300)
    y = np.array(["cat", "dog", "eel"])[(p.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)]
    losses = {"x": {"dog": 0.0, "cat": 2.0, "eel": 3.0}, "z": {"dog": 5.0, "cat": 1.0, "eel": 0.5}}
    shuffled = pd.DataFrame({"p_eel": p[:, 2], "p_cat": p[:, 0], "p_dog": p[:, 1]})
    plain, named = evaluate(y, p, losses), evaluate(y, shuffled, losses)
    assert plain["realised"].value == named["realised"].value
    assert plain["promised"].value == pytest.approx(named["promised"].value, abs=1e-15)
    codes = {"cat": 0, "dog": 1, "eel": 2}
    chosen = Policy(Problem(losses)).decide(shuffled)
    assert named["realised"].value == pytest.approx(np.mean([losses[a][k] for a, k in zip(chosen, y, strict=True)]))
    assert set(codes) == set(y)


def test_one_row_or_cluster_does_not_tell_of_a_gap() -> None:
    for found in (evaluate([1], [0.5], YES_NO), evaluate([1, 0, 1], [0.5, 0.2, 0.8], YES_NO, cluster=["a"] * 3)):
        assert "Whether that is a gap can't be told: one row, cluster or block" in found.verdict
        assert "inf" not in found.verdict


def test_verdict_says_whether_the_promise_was_kept() -> None:
    y, p = draw(3_000, 14)
    assert "No gap found" in evaluate(y, p, YES_NO).verdict
    assert "more" in evaluate(y, p**3, YES_NO).verdict
    assert "not kept" in evaluate(y, p**3, YES_NO).verdict


def test_a_promise_is_what_the_gap_is_measured_to() -> None:
    """Maps of few rows are off by their own chance: held to their promise they are kept as often as its level says."""
    plain, held = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        s = rng.random(1_600)
        y = (rng.random(1_600) < s**1.5).astype(int)
        fit, new = slice(0, 200), slice(200, None)
        calibrator = cb.BetaCalibrator().fit(s[fit], y[fit])
        promise = expected_loss(s[new], YES_NO, calibrator=calibrator, fitted_to=(s[fit], y[fit]), about="rows")
        p = calibrator.predict_proba(s[new])
        alone, found = (evaluate(y[new], p, YES_NO, promise=each) for each in (None, promise))
        assert found.gap.value == pytest.approx(found.realised.value - promise.value)
        assert found.promised.value == promise.value
        plain.append(alone.gap.low <= 0.0 <= alone.gap.high)
        held.append(found.gap.low <= 0.0 <= found.gap.high)
        assert held[-1] == (promise.low <= found.realised.value <= promise.high)
        assert ("No gap found" in found.verdict) == held[-1]
    assert np.mean(plain) < 0.85
    assert np.mean(held) >= 0.9
    with pytest.raises(InvalidInputError, match="about="):
        evaluate(y[new], p, YES_NO, promise=expected_loss(p, YES_NO))
    with pytest.raises(InvalidInputError, match="level=0"):
        evaluate(y[new], p, YES_NO, promise=promise, level=0.9)


def test_gap_of_calibrated_rows_is_covered() -> None:
    """Of true probabilities the gap's interval holds 0 as often as its level says, with few rows and rare losses."""
    hits = []
    for seed, n in product(range(300), (60, 400)):
        rng = np.random.default_rng([seed, n])
        p = rng.beta(0.6, 4.0, n)
        y = rng.random(n) < p
        if y.any():
            gap = evaluate(y, p, YES_NO, level=0.95)["gap"]
            hits.append(gap.low <= 0.0 <= gap.high)
    assert 0.93 <= np.mean(hits) <= 0.975


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"p": [0.1, np.nan, 0.5, 0.6]}, CalibrantError, "predictions row 1"),
        ({"p": [0.1, 1.2, 0.5, 0.6]}, CalibrantError, r"predictions row 1: 1.2 is outside \[0, 1\]"),
        ({"y": ["a"] * 4}, CalibrantError, "y holds one class|y holds 1 class"),
        ({"y": [0, 1, 0]}, ShapeError, "predictions has 4 rows and y has 3"),
        ({"y": []}, CalibrantError, "y is empty"),
        ({"policy": ["no", "yes", "no", "maybe"], "problem": YES_NO}, UnknownNameError, "'maybe'"),
        ({"policy": ["no", "yes", "no", "no"]}, InvalidTypeError, "with problem="),
        ({"problem": YES_NO}, InvalidInputError, "Leave problem= out"),
        ({"level": 1.0}, InvalidInputError, "level=1.0"),
        ({"sample_weight": [1.0, -1.0, 1.0, 1.0]}, CalibrantError, "sample_weight row 1"),
        ({"label_end": [1, 2, 3, 4]}, InvalidInputError, "needs time"),
        ({"per": [1, 1, 2, 2]}, InvalidInputError, "no action has one"),
        ({"groups": ["a", "b", "c"]}, ShapeError, "groups"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(change: dict[str, Any], kind: type[Exception], message: str) -> None:
    rows = {"y": [0, 1, 0, 1], "p": [0.1, 0.2, 0.5, 0.6], "policy": YES_NO} | change
    y, p, policy = rows.pop("y"), rows.pop("p"), rows.pop("policy")
    with pytest.raises(kind, match=message):
        evaluate(y, p, policy, **rows)
