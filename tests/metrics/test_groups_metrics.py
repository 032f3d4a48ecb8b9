"""Scores by group: those of the group's rows alone, at levels that are corrected for the number of groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from metric_data import draw_classes
from scipy.stats import binom

from calibrant.errors import InvalidInputError, InvalidLabelError, ShapeError
from calibrant.metrics import evaluate, evaluate_groups


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
    assert found.verdict.startswith("Off on average, worst first: Rome (1 of 3). 3 groups are judged")
    assert "have the level 98.33%" in found.multiplicity
    assert "all groups at once with 95%" in found.multiplicity
    assert found.groups["Rome"].verdict.startswith("Too high, by 0.")
    assert found.groups["Bonn"].verdict.startswith("Not found off on average")


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
    assert found.verdict.startswith("No group found off on average.")


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
