"""Scores of classes and of groups: those of their rows alone, judged at levels that are corrected for their number."""

from __future__ import annotations

import json
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from metric_data import draw_classes, draw_weights
from scipy.stats import binom

from calibrant import metrics
from calibrant.errors import InvalidInputError, InvalidLabelError, ShapeError
from calibrant.metrics import evaluate, evaluate_classes, evaluate_groups, marginal_calibration_error

NAMES = [
    *("mean_prob", "base_rate", "mean_gap", "brier", "ece_debiased", "slope", "intercept", "auc"),
    *("worst_gap", "top_gap", "top_prob", "precision"),
]


def kumar_squares(y, P, n_bins):
    """Return the debiased squared errors of the columns as the paper's program finds them, row by row."""
    squares = []
    for k in range(P.shape[1]):
        total = 0.0
        for rows in np.array_split(np.argsort(P[:, k], kind="stable"), n_bins):
            hits = [1.0 if y[i] == k else 0.0 for i in rows]
            rate = sum(hits) / len(hits)
            gap = sum(P[i, k] for i in rows) / len(hits) - rate
            total += len(hits) / len(y) * (gap**2 - rate * (1.0 - rate) / (len(hits) - 1))
        squares.append(total)
    return squares


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_marginal_error_is_that_of_kumar_liang_and_ma(temperature):
    y, P = draw_classes(600, n_classes=4, temperature=temperature)
    squares = kumar_squares(y, P, 15)
    assert marginal_calibration_error(y, P) == pytest.approx(sqrt(max(np.mean(squares), 0.0)))
    own = [metrics.ece_debiased(y == k, P[:, k]) for k in range(4)]
    assert own == pytest.approx([sqrt(max(square, 0.0)) for square in squares])
    cut = sqrt(np.mean(np.square(own)))
    assert marginal_calibration_error(y, P) <= cut + 1e-12
    if temperature == 0.4:  # nothing to cut: the authors' program gives the same
        assert min(squares) > 0.0
        assert marginal_calibration_error(y, P) == pytest.approx(cut)


def test_marginal_error_of_one_column_is_its_debiased_error():
    y, P = draw_classes(400, n_classes=2, temperature=0.5)
    assert marginal_calibration_error(y, P[:, 1]) == pytest.approx(metrics.ece_debiased(y, P[:, 1]), abs=1e-3)
    assert marginal_calibration_error(y, P[:, 1]) == pytest.approx(marginal_calibration_error(y, P))


def test_marginal_error_averages_to_the_truth_where_cutting_each_class_would_not():
    """Squares of perfect probabilities have mean zero: mostly a value of zero, where cut squares hardly ever are."""
    values, cut = [], []
    for seed in range(40):
        y, P = draw_classes(300, n_classes=10, seed=seed)
        squares = kumar_squares(y, P, 15)
        values.append(marginal_calibration_error(y, P))
        cut.append(sqrt(np.mean(np.maximum(squares, 0.0))))
    assert np.mean(np.array(values) == 0.0) > 0.3
    assert np.mean(np.array(cut) > 0.0) > 0.9
    assert np.mean(values) < 0.5 * np.mean(cut)


@pytest.mark.slow
def test_marginal_interval_covers_zero_for_perfect_probabilities_and_excludes_it_for_others():
    for seed in range(20):
        y, P = draw_classes(400, n_classes=5, seed=seed)
        assert evaluate(y, P)["marginal_calibration_error"].low == 0.0
        y, P = draw_classes(2000, n_classes=5, seed=seed, temperature=0.4)
        score = evaluate(y, P)["marginal_calibration_error"]
        assert 0.0 < score.low < score.value < score.high


def test_marginal_interval_of_two_columns_is_that_of_one():
    y, P = draw_classes(800, n_classes=2, temperature=0.5)
    one, both = evaluate(y, P[:, 1])["ece_debiased"], evaluate(y, P)["marginal_calibration_error"]
    assert (both.value, both.low, both.high) == pytest.approx((one.value, one.low, one.high), rel=0.02)


@pytest.mark.parametrize("weighted", [False, True])
def test_figures_are_those_of_the_column_alone(weighted):
    y, P = draw_classes(900, n_classes=4, temperature=0.7)
    w = draw_weights(900) if weighted else None
    found = evaluate_classes(np.array(list("abcd"))[y], P, sample_weight=w)
    assert found.interval_level == pytest.approx(1 - 0.05 / 12)
    for k, label in enumerate("abcd"):
        scores, p = found.classes[label], P[:, k]
        assert list(scores) == NAMES
        alone = evaluate(y == k, p, sample_weight=w, level=found.interval_level)
        for name in ("base_rate", "brier", "ece_debiased", "slope", "intercept", "auc"):
            assert scores[name].to_dict() == alone[name].to_dict(), name
        assert scores["mean_gap"].value == pytest.approx(alone["mean_gap"].value)
        assert scores["mean_prob"].value == pytest.approx(np.average(p, weights=w))
        on_top = P.argmax(axis=1) == k
        own = None if w is None else w[on_top]
        sure, right = np.average(p[on_top], weights=own), np.average(y[on_top] == k, weights=own)
        values = [scores[name].value for name in ("top_prob", "precision", "top_gap")]
        assert values == pytest.approx([sure, right, sure - right])
        assert scores["top_gap"].n == on_top.sum()
        assert all(s.low <= s.value + 1e-9 and s.value <= s.high + 1e-9 for s in scores.values())
    top = evaluate(P.argmax(axis=1) == y, P.max(axis=1), sample_weight=w)
    assert found.overall["ece_debiased"].to_dict() == top["ece_debiased"].to_dict()
    assert found.overall["mean_gap"].value == pytest.approx(top["mean_gap"].value)
    whole = evaluate(y, P, sample_weight=w)
    for name in ("marginal_calibration_error", "accuracy"):
        assert found.overall[name].to_dict() == whole[name].to_dict()


def test_worst_gap_is_that_of_the_bin_it_names():
    y, P = draw_classes(2000, temperature=0.4)
    for label, scores in evaluate_classes(y, P).classes.items():
        worst = scores["worst_gap"]
        low, high = map(float, worst.where.removeprefix("between ").split(" and "))
        p = P[:, label]
        kept = (p > low - 5e-4) & (p <= high + 5e-4)
        assert abs(worst.n - kept.sum()) <= 3
        assert worst.n == pytest.approx(2000 / 15, abs=1)
        assert worst.value == pytest.approx(np.mean(p[kept] - (y[kept] == label)), abs=0.02)
        assert worst.level == pytest.approx(1 - 0.05 / 9 / 15)


def test_a_class_that_is_right_on_average_is_found_by_its_bins():
    y, P = draw_classes(3000, temperature=0.5)
    found = evaluate_classes(y, P)
    assert set(found.off) == {0, 1, 2}
    off_in_the_large = [k for k, s in found.classes.items() if s["mean_gap"].low > 0.0 or s["mean_gap"].high < 0.0]
    assert off_in_the_large == []
    for scores in found.classes.values():
        assert "Probabilities between 0." in scores.verdict
        assert "As top label too high: 0." in scores.verdict
    assert found.verdict.startswith("Off, worst first: ")
    assert "3 classes are judged, so the intervals of each have the level 99.44%" in found.verdict
    assert found.overall.verdict.startswith("The top label is too high, by 0.")


def test_only_the_classes_whose_share_is_wrong_are_off_and_come_first():
    y, P = draw_classes(4000, n_classes=5)
    y = np.where((y == 1) & (np.random.default_rng(3).random(4000) < 0.4), 3, y)
    found = evaluate_classes(y, P)
    assert sorted(found.off) == [1, 3]
    assert list(found.classes)[:2] == list(found.off)
    assert found.classes[1].verdict.startswith("Predicted too high: 0.")
    assert found.classes[3].verdict.startswith("Predicted too low: 0.")
    assert found.classes[0].verdict == "Not found off."
    said = " ".join(str(found).split())
    assert said.startswith(found.verdict)
    assert found.describe(lambda k: f"<{k}>").count("<") == 2


@pytest.mark.slow
def test_calibrated_classes_are_rarely_found_off():
    n_off = sum(bool(evaluate_classes(*draw_classes(150, n_classes=6, seed=seed), level=0.8).off) for seed in range(60))
    assert n_off <= binom.ppf(0.999, 60, 0.2)


def test_many_classes_are_ordered_and_counted():
    y, P = draw_classes(8000, n_classes=15, temperature=0.2)
    found = evaluate_classes(y, P)
    errors = [found.classes[k]["ece_debiased"].value for k in found.off]
    assert len(errors) > 10
    assert errors == sorted(errors, reverse=True)
    assert f", and {len(errors) - 10} more ({len(errors)} of 15)" in found.verdict


def test_a_class_without_rows_says_what_is_undefined():
    y, P = draw_classes(200)
    P = P[:, [0, 1, 2, 2]] * [1.0, 1.0, 1.0, 0.0]
    scores = evaluate_classes(np.array(list("abc"))[y], P, classes=list("abcd")).classes["d"]
    assert scores["base_rate"].value == 0.0
    assert scores["slope"].note == "undefined: all rows are of one class"
    assert scores["top_gap"].note == "undefined: never the top label"
    assert np.isnan(scores["top_gap"].value)
    assert scores["top_gap"].n == 0
    assert scores.verdict == "Not found off."


def test_one_column_has_two_classes():
    y, P = draw_classes(600, n_classes=2, temperature=0.5)
    one, both = evaluate_classes(y, P[:, 1]), evaluate_classes(y, P)
    assert set(one.classes) == {0, 1}
    for label in (0, 1):
        assert one.classes[label]["mean_gap"].value == pytest.approx(both.classes[label]["mean_gap"].value)
        assert one.classes[label]["precision"].value == pytest.approx(both.classes[label]["precision"].value)


def test_row_order_and_weight_zero_change_nothing():
    y, P = draw_classes(300)
    order = np.random.default_rng(0).permutation(300)
    keep = np.arange(300) % 3 > 0
    for left, right in [
        (evaluate_classes(y[order], P[order]), evaluate_classes(y, P)),
        (evaluate_classes(y, P, sample_weight=keep), evaluate_classes(y[keep], P[keep])),
    ]:
        assert list(left.classes) == list(right.classes)
        for label, scores in left.classes.items():
            expected = [s.value for s in right.classes[label].values()]
            assert [s.value for s in scores.values()] == pytest.approx(expected, rel=1e-9)


def test_result_is_plain_in_json():
    found = evaluate_classes(*draw_classes(120), evaluated_on="held-out")
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [entry["class"] for entry in document["classes"]] == list(found.classes)
    assert document["classes"][0]["scores"]["mean_gap"]["evaluated_on"] == "held-out"
    assert set(document) == {"level", "interval_level", "verdict", "overall", "classes"}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda y, P: evaluate_classes(y, P, n_bins=0), InvalidInputError, "n_bins=0 is too small"),
        (lambda y, P: evaluate_classes(y, P, level=95), InvalidInputError, "level=95"),
        (lambda y, P: evaluate_classes(y[:-1], P), ShapeError, "y_true"),
        (lambda y, P: evaluate_classes([*y[:-1], 7], P), InvalidLabelError, "4 classes"),
        (lambda y, P: evaluate_classes(y, P, pos_label=1), InvalidInputError, "pos_label=1 is for one column"),
        (lambda y, P: marginal_calibration_error(y, P, n_bins=0), InvalidInputError, "n_bins=0 is too small"),
        (lambda y, P: marginal_calibration_error(y, P, strategy="x"), InvalidInputError, "strategy: 'x'"),
    ],
)
def test_refusals_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call(*draw_classes(30))


def draw_cities(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    p, city = rng.beta(0.8, 1.2, n), rng.choice(["Bonn", "Kyiv", "Rome"], n, p=[0.5, 0.2, 0.3])
    return (rng.random(n) < np.where(city == "Rome", p**2.5, p)).astype(int), p, city


def test_figures_are_those_of_the_rows_alone():
    y, p, city = draw_cities()
    found = evaluate_groups(y, p, groups=city)
    assert found.interval_level == pytest.approx(1 - 0.05 / 3)
    for kept, scores, level in [
        (np.ones(3000, dtype=bool), found.overall, 0.95),
        *((city == name, scores, found.interval_level) for name, scores in found.groups.items()),
    ]:
        alone = evaluate(y[kept], p[kept], level=level)
        assert list(scores) == ["mean_gap", "ece_debiased", "base_rate", "auc"]
        for name in ("ece_debiased", "base_rate", "auc"):
            assert scores[name].to_dict() == alone[name].to_dict()
        gap = scores["mean_gap"]
        assert gap.value == pytest.approx(alone["mean_gap"].value)
        assert -0.03 < gap.low - alone["mean_gap"].low < 0.0 < gap.high - alone["mean_gap"].high < 0.03


def test_worst_group_comes_first_and_is_named():
    y, p, city = draw_cities()
    found = evaluate_groups(y, p, groups=city)
    assert next(iter(found.groups)) == "Rome"
    assert found.off == ("Rome",)
    assert found.is_off("Rome")
    assert not found.is_off("Bonn")
    assert found.verdict.startswith("Off, worst first: Rome (1 of 3). 3 groups are judged")
    assert "has the level 98.33%" in found.multiplicity
    assert "all groups at once with 95%" in found.multiplicity
    assert found.groups["Rome"].verdict.startswith("Too high, by 0.")
    assert found.groups["Bonn"].verdict.startswith("Not found off: on average")


def test_a_group_that_no_bin_shows_to_be_off_has_no_size_in_its_verdict():
    """It said "Off in places, by 0.000 over bins"."""
    rng = np.random.default_rng(9)
    p = rng.beta(0.3, 3.0, 100)
    y = rng.random(100) < 1.0 / (1.0 + np.exp(0.8 - 0.4 * np.log(p / (1.0 - p))))
    group = evaluate_groups(y, p, groups=np.zeros(100, int), classes=[False, True]).groups[0]
    assert group["ece_debiased"].low == 0.0
    assert str(group.verdict) == "Off in places, though right on average (p = 0.0077)."


def test_calibrated_groups_of_rare_events_are_rarely_found_off():
    n_off, n_runs = 0, 60
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        p, by = rng.beta(0.3, 10.0, 120), np.arange(120) % 4
        n_off += bool(evaluate_groups(rng.random(120) < p, p, groups=by, level=0.8).off)
    assert n_off <= binom.ppf(0.999, n_runs, 0.2)


def test_more_groups_make_wider_intervals():
    y, p, city = draw_cities()
    wide = evaluate_groups(y, p, groups=np.where(city == "Bonn", 0, np.arange(y.size) % 50 + 1))
    narrow = evaluate_groups(y, p, groups=np.where(city == "Bonn", 0, 1))
    for name in ("mean_gap", "base_rate", "auc", "ece_debiased"):
        assert wide.groups[0][name].value == narrow.groups[0][name].value
        assert wide.groups[0][name].low <= narrow.groups[0][name].low
        assert wide.groups[0][name].high > narrow.groups[0][name].high


def test_single_group_is_everything():
    y, p, _ = draw_cities()
    found = evaluate_groups(y, p, groups=np.zeros(y.size, int))
    assert found.interval_level == found.level == 0.95
    assert found.groups[0].to_dict() == found.overall.to_dict()
    assert "One group is judged" in found.verdict


def test_row_of_weight_zero_is_no_row_and_scale_of_weights_changes_nothing():
    y, p, city = draw_cities()
    weight = np.where(city == "Kyiv", 0.0, np.random.default_rng(1).gamma(2.0, 1.0, y.size))
    kept = weight > 0
    found = evaluate_groups(y, p, groups=city, sample_weight=weight)
    assert list(found.groups) == ["Rome", "Bonn"]
    expected = evaluate_groups(y[kept], p[kept], groups=city[kept], sample_weight=4.0 * weight[kept])
    for name, scores in found.groups.items():
        for score in scores.values():
            assert score.value == pytest.approx(expected.groups[name][score.name].value, rel=1e-9)


def test_groups_of_one_class_and_of_one_row_are_measured():
    y, p = np.array([0, 0, 0, 1, 1, 0, 1]), np.array([0.1, 0.2, 0.3, 0.7, 0.8, 0.4, 0.9])
    found = evaluate_groups(y, p, groups=["none"] * 3 + ["all"] * 2 + ["one"] + ["two"])
    assert np.isnan(found.groups["none"]["auc"].value)
    assert found.groups["one"]["mean_gap"].value == pytest.approx(0.4)
    assert found.off == ()
    assert found.verdict.startswith("No group found off.")


def test_several_classes_are_judged_by_the_top_label():
    y, P = draw_classes(n=900, temperature=0.5)
    by = np.arange(900) % 2
    found = evaluate_groups(y, P, groups=by)
    assert list(found.groups[0]) == ["mean_gap", "ece_debiased", "accuracy"]
    right = P.argmax(1)[by == 0] == y[by == 0]
    assert found.groups[0]["mean_gap"].value == pytest.approx(P.max(1)[by == 0].mean() - right.mean())


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pd.Categorical, lambda v: pd.Series(v, dtype="category")])
def test_groups_come_in_any_container(kind):
    y, p, city = draw_cities(600)
    expected = evaluate_groups(y, p, groups=city).to_dict()
    assert evaluate_groups(y, p, groups=kind(city.tolist())).to_dict() == expected


def test_labels_of_groups_keep_their_kind():
    y, p, _ = draw_cities(600)
    assert set(evaluate_groups(y, p, groups=np.arange(600) % 3).groups) == {0, 1, 2}
    assert set(evaluate_groups(y, p, groups=(np.arange(600) % 3).astype(float)).groups) == {0, 1, 2}
    assert {type(g) for g in evaluate_groups(y, p, groups=np.arange(600) % 2 == 0).groups} == {bool}


@pytest.mark.parametrize(
    ("by", "kind", "message"),
    [
        (["a", "b"], ShapeError, "y_prob has 3 rows and groups has 2"),
        (["a", None, "b"], InvalidLabelError, "groups row 1: missing label"),
        (["a", 1, "b"], InvalidLabelError, "groups mixes kinds of labels"),
        ([0.5, 1.0, 2.0], InvalidLabelError, "groups row 0: 0.5 names no group"),
        (np.array([[1], [2], [3]]), ShapeError, r"groups has shape \(3, 1\)"),
        ([], ShapeError, "groups is empty"),
    ],
)
def test_what_names_no_group_is_refused(by, kind, message):
    with pytest.raises(kind, match=message):
        evaluate_groups([0, 1, 1], [0.1, 0.5, 0.9], groups=by)


def test_level_outside_the_unit_interval_is_refused():
    with pytest.raises(InvalidInputError, match=r"level=2 is outside \(0, 1\)"):
        evaluate_groups([0, 1], [0.1, 0.5], groups=[0, 1], level=2)
