"""The audit: honest on calibrated predictions, first to find what was planted, and one count per set of rows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom

from calibrant.errors import InvalidInputError, InvalidLabelError, InvalidTypeError, ShapeError
from calibrant.metrics import audit
from calibrant.metrics.gap_bounds import gap_bounds


def draw_grouped(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.8, 1.2, n)
    groups = {
        "city": rng.choice(["Bonn", "Kyiv", "Rome"], n),
        "sex": rng.choice(["f", "m"], n),
        "k": rng.integers(0, 4, n),
    }
    return rng, p, groups


def one_group(p, y, weight=None, level=0.95):
    p, y = np.asarray(p, float), np.asarray(y, bool)
    return gap_bounds(p, y, weight, np.zeros(p.size, np.int64), 1, level)


# --- the bounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "p", "k"), [(1, 0.3, 1), (5, 0.2, 4), (40, 0.1, 11), (40, 0.5, 20), (200, 0.01, 9), (30, 0.4, 0)]
)
def test_p_value_is_at_least_that_of_the_exact_binomial_test(n, p, k):
    bounds = one_group(np.full(n, p), np.arange(n) < k)
    tail = min(binom.cdf(k, n, p), binom.sf(k - 1, n, p))
    assert bounds.p_value[0] >= tail
    assert bounds.p_value[0] <= 40.0 * tail or bounds.p_value[0] == 1.0


@pytest.mark.parametrize(("n", "p", "k"), [(40, 0.1, 11), (40, 0.5, 20), (30, 0.4, 29)])
def test_p_value_and_bounds_are_those_of_the_kullback_leibler_divergence(n, p, k):
    """For equal predictions the log-likelihood ratio is n KL(k/n || p), in closed form."""

    def divergence(q):
        rate = k / n
        return n * (rate * math.log(rate / q) + (1 - rate) * math.log((1 - rate) / (1 - q)))

    bounds = one_group(np.full(n, p), np.arange(n) < k)
    assert bounds.p_value[0] == pytest.approx(min(1.0, 2 * math.exp(-divergence(p))), rel=1e-9)
    for end in (bounds.low[0], bounds.high[0]):
        assert divergence(p - end) == pytest.approx(math.log(2 / 0.05), rel=1e-6)


def test_bounds_exclude_zero_just_where_the_p_value_is_below_the_level():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(200):
        p = rng.beta(1, 3, 30)
        bounds = one_group(p, rng.random(30) < p**0.6)
        is_off = bool(bounds.low[0] > 0 or bounds.high[0] < 0)
        assert is_off == (bounds.p_value[0] < 0.05)
        seen.add(is_off)
    assert seen == {True, False}


@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
def test_bounds_at_the_edges_are_finite_and_hold_the_gap(level):
    for p, y in (([0.2] * 9, [0] * 9), ([0.2] * 9, [1] * 9), ([0.0] * 5, [0] * 5), ([1.0, 0.0], [0, 1]), ([0.5], [1])):
        bounds = one_group(p, y, level=level)
        assert -1.0 <= bounds.low[0] <= bounds.gap[0] + 1e-9
        assert bounds.gap[0] - 1e-9 <= bounds.high[0] <= 1.0


def test_scale_of_the_weights_changes_nothing():
    rng = np.random.default_rng(0)
    p, w = rng.random(100), rng.gamma(2.0, 1.0, 100)
    y = rng.random(100) < p
    first, second = one_group(p, y, w), one_group(p, y, 1000 * w)
    np.testing.assert_allclose(
        [first.low, first.high, first.p_value], [second.low, second.high, second.p_value], rtol=1e-6
    )


# --- the audit -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_calibrated_predictions_are_rarely_found_off():
    n_off, n_runs = 0, 80
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        p = rng.beta(0.5, 4.0, 400)
        groups = {"a": rng.integers(0, 3, 400), "b": rng.integers(0, 4, 400)}
        n_off += bool(audit(rng.random(400) < p, p, groups=groups, level=0.8, min_rows=5).off)
    assert n_off <= binom.ppf(0.999, n_runs, 0.2)


@pytest.mark.slow
def test_calibrated_weighted_predictions_are_rarely_found_off():
    n_off, n_runs = 0, 60
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        p, w = rng.beta(0.5, 4.0, 300), rng.gamma(0.3, 1.0, 300)
        found = audit(
            rng.random(300) < p, p, groups={"a": rng.integers(0, 5, 300)}, sample_weight=w, level=0.8, min_rows=5
        )
        n_off += bool(found.off)
    assert n_off <= binom.ppf(0.999, n_runs, 0.2)


@pytest.mark.parametrize("seed", range(5))
def test_planted_group_is_found_first(seed):
    rng, p, groups = draw_grouped(6000, seed)
    planted = groups["city"] == "Rome"
    found = audit(rng.random(6000) < np.where(planted, p**2.5, p), p, groups=groups)
    assert found.findings[0].where == (("city", "Rome"),)
    whole = next(f for f in found.findings if f.where == (("city", "Rome"),) and f.scores is None)
    assert whole.low < p[planted].mean() - (p[planted] ** 2.5).mean() < whole.high
    assert all(("city", "Rome") in f.where or not f.where or f.gap > 0 for f in found.off)
    assert "Worst: city = Rome, " in found.verdict


@pytest.mark.parametrize("seed", range(5))
def test_planted_intersection_is_found_first(seed):
    rng, p, groups = draw_grouped(6000, seed)
    planted = (groups["city"] == "Kyiv") & (groups["sex"] == "f")
    found = audit(rng.random(6000) < np.where(planted, p**0.3, p), p, groups=groups)
    assert dict(found.findings[0].where) == {"city": "Kyiv", "sex": "f"}
    assert found.findings[0].gap < 0.0


def test_planted_part_by_score_is_found_first():
    rng, p, groups = draw_grouped(8000)
    planted = (groups["sex"] == "m") & (p > 0.8)
    found = audit(rng.random(8000) < np.where(planted, p - 0.4, p), p, groups=groups)
    assert found.findings[0].where == (("sex", "m"),)
    assert found.findings[0].scores[1] == 1.0


def test_figures_are_those_of_the_rows():
    rng, p, groups = draw_grouped()
    y = rng.random(3000) < p
    for finding in audit(y, p, groups=groups, min_rows=1).findings:
        kept = np.ones(3000, dtype=bool)
        for column, value in finding.where:
            kept &= groups[column] == value
        if finding.scores is not None:
            kept &= (p > finding.scores[0]) & (p <= finding.scores[1])
        assert finding.n == kept.sum()
        assert finding.gap == pytest.approx(p[kept].mean() - y[kept].mean())
        assert finding.low <= finding.gap <= finding.high


def test_every_group_is_looked_at_once():
    rng, p, groups = draw_grouped()
    y = rng.random(3000) < p
    found = audit(y, p, groups=groups, n_score_bins=1, min_rows=1)
    assert len(found.findings) == 1 + (3 + 2 + 4) + (6 + 12 + 8)
    assert len(audit(y, p, groups=groups, n_score_bins=1, max_order=1).findings) == 1 + 9
    assert len(audit(y, p, groups=groups, n_score_bins=1, max_order=3, min_rows=1).findings) == 1 + 9 + 26 + 24
    assert len(audit(y, p, groups={"sex": groups["sex"]}, n_score_bins=5).findings) == 3 * 6


def test_columns_that_say_the_same_are_looked_at_once():
    rng, p, groups = draw_grouped()
    y = rng.random(3000) < p
    alone = audit(y, p, groups={"sex": groups["sex"]})
    again = audit(y, p, groups={"sex": groups["sex"], "is_f": groups["sex"] == "f", "all": np.ones(3000, int)})
    assert [f.where for f in again.findings if len(f.where) == 2] == []
    assert not any(("all", 1) in f.where for f in again.findings)
    assert len(again.findings) == len(alone.findings) + 2 * 6  # the copy by its own name


def test_small_groups_are_counted_and_left_out():
    rng, p, _ = draw_grouped(300)
    rare = np.where(np.arange(300) < 7, "rare", "usual")
    found = audit(rng.random(300) < p, p, groups={"kind": rare}, n_score_bins=1, min_rows=8)
    assert [f.label for f in found.findings if f.where] == ["kind = usual"]
    assert found.n_left_out == 1
    assert "groups of at least 8 rows" in found.verdict


def test_row_of_weight_zero_is_no_row():
    rng, p, groups = draw_grouped(1000)
    y = rng.random(1000) < p
    weight = np.where(groups["city"] == "Rome", 0.0, 1.0)
    kept = weight > 0
    assert audit(y, p, groups=groups, sample_weight=weight) == audit(
        y[kept], p[kept], groups={k: v[kept] for k, v in groups.items()}
    )


@pytest.mark.slow
def test_frames_and_dicts_give_the_same():
    rng, p, groups = draw_grouped()
    y = rng.random(3000) < p
    expected = audit(y, p, groups=groups)
    assert audit(y, p, groups=pd.DataFrame(groups)) == expected
    assert audit(y, p, groups=pl.DataFrame(groups)) == expected
    assert audit(y, p, groups=groups).to_dict()["n_looked_at"] == len(expected.findings)


def test_several_classes_are_judged_by_the_top_label():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 2000)
    y = np.array([rng.choice(3, p=row) for row in P])
    group = rng.choice(["x", "y"], 2000)
    expected = audit(P.argmax(1) == y, P.max(1), groups={"g": group})
    assert [f.gap for f in audit(y, P, groups={"g": group}).findings] == pytest.approx(
        [f.gap for f in expected.findings]
    )


@pytest.mark.parametrize(
    ("groups", "options", "kind", "message"),
    [
        ({}, {}, InvalidInputError, "groups has no columns"),
        ([1, 2, 3], {}, InvalidTypeError, "groups is a list"),
        ({"a": [1, 2]}, {}, ShapeError, "y_prob has 3 rows and a has 2"),
        ({"age": [0.5, 1.25, 2.0]}, {}, InvalidLabelError, "age row 0: 0.5 names no group .* Cut numbers into ranges"),
        ({"a": ["x", None, "y"]}, {}, InvalidLabelError, "a row 1: missing label"),
        ({"a": [1, 2, 3]}, {"max_order": 0}, InvalidInputError, "max_order=0 is too small"),
        ({"a": [1, 2, 3]}, {"min_rows": 0}, InvalidInputError, "min_rows=0 is too small"),
        ({"a": [1, 2, 3]}, {"level": 1.0}, InvalidInputError, r"level=1.0 is outside \(0, 1\)"),
    ],
)
def test_what_names_no_groups_is_refused(groups, options, kind, message):
    with pytest.raises(kind, match=message):
        audit([0, 1, 1], [0.1, 0.5, 0.9], groups=groups, **options)
