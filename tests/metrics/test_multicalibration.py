"""The search over segments: the figures of a plain loop and of another package, and p-values that are right for it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from audit_cases import draw_rows, plain_search
from scipy.stats import binom, kstest

from calibrant import kernels
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError, UnknownNameError
from calibrant.metrics import audit, kuiper, multicalibration_error
from calibrant.metrics.calibration_tests import range_exceeds


def of_peer(n=3000, seed=20260701):
    """Return the rows that the figures of MCGrad are of."""
    rng = np.random.default_rng(seed)
    age, income, visits = rng.normal(40, 12, n), rng.gamma(2.0, 1.0, n), rng.integers(0, 3, n)
    region, sex = rng.choice(["east", "north", "south", "west"], n, p=[0.4, 0.3, 0.2, 0.1]), rng.choice(["f", "m"], n)
    p, weight = rng.beta(1.0, 2.0, n), rng.gamma(4.0, 0.25, n)
    y = rng.random(n) < np.where((region == "north") & (age < 35), p**2, p)
    return y, p, weight, {"region": region, "sex": sex, "age": age, "income": income, "visits": visits}


# --- the error -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weighted", "digits"), [(False, 9), (False, 2), (True, 9), (True, 1)])
def test_figures_are_those_of_a_plain_loop_over_all_segments(weighted, digits):
    rng, p, features = draw_rows(1200)
    p, features["age"] = p.round(digits), np.where(rng.random(1200) < 0.1, np.nan, features["age"])
    weight = rng.gamma(2.0, 1.0, 1200) if weighted else None
    y = rng.random(1200) < p**1.2
    expected = plain_search(y, p, features, weight=weight, min_rows=30)
    found = audit(y, p, features=features, sample_weight=weight, min_rows=30, n_draws=9).findings
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.n == len(other.rows)
        np.testing.assert_allclose((one.sigma, one.error, one.gap), other[1:], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("weighted", "depth", "sigma", "error", "p_alone"),
    [
        (False, 0, 2.8094115265180153, 0.02094610198021824, 0.019852709680524327),
        (False, 1, 4.246668138806245, 0.03166184201636891, 8.678918702620386e-05),
        (False, 2, 6.548699670745606, 0.04882507594438015, 2.3216095712541573e-10),
        (False, 3, 6.548699670745606, 0.04882507594438015, 2.3216095712541573e-10),
        (True, 0, 2.894019636220803, 0.024041859871769104, 0.01521371805957572),
        (True, 1, 4.251170511466655, 0.03531629310613301, 8.506247421613544e-05),
        (True, 2, 5.878144409763172, 0.04883226168779415, 1.659563630962424e-08),
        (True, 3, 5.878144409763172, 0.04883226168779415, 1.659563630962424e-08),
    ],
)
def test_figures_are_those_of_mcgrad(weighted, depth, sigma, error, p_alone):
    """`mce_sigma`, `mce`, `mce_pvalue` of mcgrad 0.1.5 with precision_dtype="float64", its defaults, all segments.

    Its p-value is that of the worst segment as if no other had been looked at.
    """
    y, p, weight, features = of_peer()
    limits = {"n_bins": 3, "max_levels": 3, "min_rows": 10, "depth": depth}
    found = multicalibration_error(
        y, p, features=features, sample_weight=weight if weighted else None, n_draws=9, **limits
    )
    np.testing.assert_allclose((found.sigma, found.error_of_all), (sigma, error), rtol=1e-12)
    assert range_exceeds(found.sigma) == pytest.approx(p_alone, rel=1e-4)


def test_error_of_all_rows_is_that_of_kuipers_test():
    rng, p, features = draw_rows(500)
    p = p.round(2)
    y = rng.random(500) < p
    found, test = multicalibration_error(y, p, features=features, depth=0), kuiper(y, p)
    assert (found.segment, found.n_segments) == ("all rows", 1)
    np.testing.assert_allclose((found.sigma, found.error), (test.scaled, test.statistic), rtol=1e-12)


def test_worst_range_of_scores_is_where_the_error_adds_up():
    rng, p, features = draw_rows(8000)
    planted = (features["sex"] == "m") & (p > 0.6) & (p < 0.8)
    y = rng.random(8000) < np.where(planted, p - 0.3, p)
    worst = audit(y, p, features=features, n_draws=9).findings[0]
    assert worst.where == (("sex", "m"),)
    low, high = worst.scores
    assert 0.5 < low < 0.62
    assert high > 0.78
    there = (features["sex"] == "m") & (p >= low) & (p <= high)
    assert worst.score_gap == pytest.approx((p - y)[there].mean(), rel=1e-9)
    assert worst.error == pytest.approx((p - y)[there].sum() / (features["sex"] == "m").sum(), rel=1e-9)


def test_scale_of_the_weights_changes_nothing_and_a_row_of_weight_zero_is_no_row():
    rng, p, features = draw_rows(1000)
    y, weight = rng.random(1000) < p, rng.gamma(2.0, 1.0, 1000)
    first = multicalibration_error(y, p, features=features, sample_weight=weight)
    again = multicalibration_error(y, p, features=features, sample_weight=1024.0 * weight)
    assert first == again
    weight[features["city"] == "Rome"] = 0.0
    kept = weight > 0.0
    of_kept = {name: column[kept] for name, column in features.items()}
    found = multicalibration_error(y, p, features=features, sample_weight=weight)
    assert found == multicalibration_error(y[kept], p[kept], features=of_kept, sample_weight=weight[kept])


def test_what_had_probability_zero_and_happened_is_infinitely_far_off():
    p, y = np.repeat([0.0, 0.5], 60), np.tile([0, 1], 60)
    side = np.repeat(["a", "b"], 60)
    found = audit(y, p, features={"side": side})
    assert found.findings[0].where == (("side", "a"),)
    assert found.findings[0].sigma == math.inf
    assert found.findings[0].p_value == 1 / 500
    assert found.findings[0].to_dict()["sigma"] is None
    in_words = "nfinitely many standard deviations, as nothing there could vary"
    assert f"i{in_words}, p 0.0020)" in found.verdict
    assert multicalibration_error(y, p, features={"side": side}).words.startswith(f"I{in_words} (p 0.0020), 0.5000 in ")
    y[:60] = 0
    assert audit(y, p, features={"side": side}).findings[-1].sigma == 0.0


def test_several_classes_are_judged_by_the_top_label():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 2000)
    y = np.array([rng.choice(3, p=row) for row in P])
    features = {"g": rng.choice(["x", "y"], 2000)}
    expected = multicalibration_error(P.argmax(1) == y, P.max(1), features=features)
    assert multicalibration_error(y, P, features=features) == expected


# --- p-values ------------------------------------------------------------------------------------------------


def test_p_values_are_those_of_all_outcomes_of_few_rows():
    """All 2^6 outcomes of six rows, each with its probability."""
    p, features = np.array([0.1, 0.25, 0.4, 0.55, 0.7, 0.9]), {"a": ["x", "y"] * 3, "b": ["u", "u", "v", "v", "u", "v"]}
    outcomes = [np.array(bits) for bits in itertools.product([0, 1], repeat=6)]
    chance = [float(np.prod(np.where(bits == 1, p, 1.0 - p))) for bits in outcomes]
    largest = [plain_search(bits, p, features, min_rows=1)[0].sigma for bits in outcomes]
    for i in (0, 5, 21, 42, 63):
        exact = sum(c for c, sigma in zip(chance, largest, strict=True) if sigma >= largest[i] - 1e-9)
        found = multicalibration_error(outcomes[i], p, features=features, min_rows=1, n_draws=4000, classes=[0, 1])
        assert found.sigma == pytest.approx(largest[i], rel=1e-12)
        drawn = max(4000.0, 50.0 / exact) if exact < 50.0 / 4000.0 else 50.0 / exact
        assert abs(found.p_value - exact) < 4.0 * math.sqrt(exact / drawn) + 1e-3


def test_p_values_of_calibrated_predictions_are_uniform():
    p_values = []
    for seed in range(150):
        rng, p, features = draw_rows(250, seed)
        found = multicalibration_error(
            rng.random(250) < p**2, p**2, features=features, min_rows=15, n_draws=99, rng=seed
        )
        p_values.append(found.p_value)
    assert kstest(p_values, "uniform").pvalue > 0.01
    assert np.count_nonzero(np.array(p_values) <= 0.1) <= binom.ppf(0.999, 150, 0.1)


def test_the_search_finds_more_than_bonferronis_correction():
    """Features of real tables say much of the same: here nine are noisy copies of one."""
    found = {"drawn": 0, "bonferroni": 0}
    for seed in range(60):
        rng, p, features = draw_rows(1200, seed)
        own = features["city"]
        copies = {f"c{j}": np.where(rng.random(1200) < 0.1, rng.permutation(own), own) for j in range(9)}
        y = rng.random(1200) < np.where(own == "Rome", np.clip(p - 0.085, 0.0, 1.0), p)
        worst = multicalibration_error(y, p, features={"city": own, **copies}, n_draws=199, rng=seed)
        found["drawn"] += worst.p_value <= 0.05
        found["bonferroni"] += range_exceeds(worst.sigma) * worst.n_segments <= 0.05
    assert found["bonferroni"] + 10 <= found["drawn"] < 60


def test_drawing_ends_early_where_nothing_is_off_and_changes_no_small_p_value():
    rng, p, features = draw_rows(2000)
    y = rng.random(2000) < p
    few = audit(y, p, features=features, n_draws=499)
    many = audit(y, p, features=features, n_draws=4999)
    assert few.findings[0].p_value == many.findings[0].p_value == 50 / few.n_draws or few.n_draws < 499
    assert many.n_draws == few.n_draws < 499
    off = audit(rng.random(2000) < p**2, p, features=features, n_draws=99)
    assert off.findings[0].p_value == 0.01


def test_later_p_values_are_never_smaller():
    rng, p, features = draw_rows(2000)
    found = audit(rng.random(2000) < p**1.15, p, features=features)
    p_values = [f.p_value for f in found.findings]
    assert p_values == sorted(p_values)
    assert all(f.is_off == (f.p_value <= 0.05) for f in found.findings)
    assert all(f.sigma > found.critical for f in found.off[:-1])


def clustered(n_clusters, size, seed, shift=1.5):
    """Return probabilities, outcomes that clusters share in part, and the clusters."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), size)
    p = rng.uniform(0.2, 0.8, cluster.size)
    common = np.where(rng.random(n_clusters) < 0.5, rng.random(n_clusters), np.nan)[cluster]
    u = np.where(np.isnan(common), rng.random(cluster.size), common)
    return p, u < p, cluster


def test_clusters_are_respected():
    alarms = {"ignored": 0, "declared": 0, "in time": 0}
    for seed in range(60):
        p, y, cluster = clustered(60, 12, seed)
        rng = np.random.default_rng(seed)
        features = {"ward": rng.integers(0, 4, 60)[cluster], "sex": rng.choice(["f", "m"], cluster.size)}
        known = {"time": np.arange(cluster.size), "label_end": np.arange(cluster.size) + 12}
        for name, more in (("ignored", {}), ("declared", {"cluster": cluster}), ("in time", known)):
            alarms[name] += multicalibration_error(y, p, features=features, n_draws=99, **more).p_value <= 0.1
    assert alarms["ignored"] > 25
    assert alarms["declared"] <= binom.ppf(0.999, 60, 0.1)
    assert alarms["in time"] <= binom.ppf(0.999, 60, 0.1)


def test_clusters_of_one_row_lose_little_power():
    rng, p, features = draw_rows(3000)
    y = rng.random(3000) < np.where(features["city"] == "Rome", p**1.6, p)
    alone = multicalibration_error(y, p, features=features)
    declared = multicalibration_error(y, p, features=features, cluster=np.arange(3000))
    assert alone.segment == declared.segment == "city = Rome"
    assert alone.p_value == declared.p_value == 1 / 500
    assert declared.sigma <= alone.sigma


def test_one_cluster_tells_nothing():
    rng, p, features = draw_rows(400)
    found = multicalibration_error(rng.random(400) < p**3, p, features=features, cluster=np.zeros(400, int))
    assert found.p_value == 1.0


def test_same_seed_gives_the_same_p_values():
    rng, p, features = draw_rows(800)
    y = rng.random(800) < p**1.2
    first, again, other = (multicalibration_error(y, p, features=features, rng=rng_).p_value for rng_ in (0, 0, 7))
    assert first == again
    assert first != other


def test_walks_in_python_and_in_machine_code_are_the_same():
    rng = np.random.default_rng(0)
    codes, tie = rng.integers(0, 5, 200).astype(np.uint32), np.sort(rng.integers(0, 80, 200))
    steps, scale = rng.normal(size=(200, kernels.DRAWS)), rng.random((5, kernels.DRAWS))
    scale[2] = 0.0
    found = []
    for run in (kernels.widest_walks.in_python(), kernels.widest_walks):
        widest = np.zeros(kernels.DRAWS)
        run(codes, tie, steps, scale, widest)
        found.append(widest)
    np.testing.assert_array_equal(*found)
    expected = np.zeros(kernels.DRAWS)
    for c, factor in enumerate(scale):
        own = codes == c
        ends = np.append(tie[own][1:] != tie[own][:-1], True)
        walk = np.vstack((np.zeros(kernels.DRAWS), np.cumsum(steps[own], axis=0)[ends]))
        expected = np.maximum(expected, np.ptp(walk, axis=0) * factor)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)


# --- segments ------------------------------------------------------------------------------------------------


def conditions(y, p, features, **options):
    found = audit(y, p, features=features, depth=1, n_draws=9, min_rows=1, **options).findings
    return {f.where[0][1]: f.n for f in found if f.where}


def test_numbers_are_cut_at_quantiles_and_few_are_taken_one_by_one():
    rng, p, features = draw_rows(1001)
    y, age = rng.random(1001) < p, features["age"]
    found = conditions(y, p, {"age": age}, n_bins=4)
    counts = pd.cut(
        pd.Series(age), pd.Series(age).quantile([0, 0.25, 0.5, 0.75, 1]), include_lowest=True
    ).value_counts()
    assert sorted(found.values()) == sorted(counts.tolist())
    for where, n in found.items():
        assert np.count_nonzero((age >= where.low) & (age <= where.high)) == n
    assert conditions(y, p, {"k": features["k"]}) == {k: int((features["k"] == k).sum()) for k in range(4)}
    assert conditions(y, p, {"x": np.round(p, 0) / 2.0}) == {0: (p <= 0.5).sum(), 0.5: (p > 0.5).sum()}


def test_categories_keep_their_most_frequent_levels():
    rng, p, _ = draw_rows(1000)
    level = np.repeat(list("abcdef"), [400, 300, 150, 80, 50, 20])
    found = conditions(rng.random(1000) < p, p, {"g": level}, max_levels=3)
    assert {str(k): n for k, n in found.items()} == {"a": 400, "b": 300, "one of 4 rarer levels": 300}
    labels = [f.label for f in audit(rng.random(1000) < p, p, features={"g": level}, max_levels=3, n_draws=9).findings]
    assert "g one of 4 rarer levels" in labels


def test_missing_values_are_a_segment():
    rng, p, features = draw_rows(900)
    y, gone = rng.random(900) < p, np.arange(900) % 3 == 0
    for column in (np.where(gone, np.nan, features["age"]), np.where(gone, None, features["city"])):
        found = conditions(y, p, {"x": column})
        assert found[None] == 300
    assert "x missing" in {f.label for f in audit(y, p, features={"x": column}, n_draws=9).findings}


def test_whole_numbers_that_are_names_are_taken_by_value():
    rng, p, _ = draw_rows(900)
    place = np.arange(900) % 9 + 53_000
    y = rng.random(900) < p
    assert len(conditions(y, p, {"place": place})) == 5
    assert conditions(y, p, {"place": place}, categorical=["place"]) == dict.fromkeys(range(53_000, 53_009), 100)


def test_any_frame_gives_the_same_as_a_dict():
    polars = pytest.importorskip("polars")
    rng, p, features = draw_rows(600)
    y = rng.random(600) < p
    expected = audit(y, p, features=features, n_draws=19)
    assert audit(y, p, features=pd.DataFrame(features), n_draws=19) == expected
    assert audit(y, p, features=polars.DataFrame(features), n_draws=19) == expected


@pytest.mark.parametrize(
    ("features", "options", "kind", "message"),
    [
        ({}, {}, InvalidInputError, "features has no columns"),
        ([1, 2, 3], {}, InvalidTypeError, "features is a list, whose columns have no names"),
        (None, {}, InvalidInputError, "have no features"),
        ({"a": [1, 2]}, {}, ShapeError, "y_prob has 3 rows and column 'a' of features has 2"),
        ({"a": [1, 2, 3]}, {"depth": -1}, InvalidInputError, "depth=-1 is too small"),
        ({"a": [1, 2, 3]}, {"min_rows": 0}, InvalidInputError, "min_rows=0 is too small"),
        ({"a": [1, 2, 3]}, {"n_bins": 0}, InvalidInputError, "n_bins=0 is too small"),
        ({"a": [1, 2, 3]}, {"max_levels": 0}, InvalidInputError, "max_levels=0 is too small"),
        ({"a": [1, 2, 3]}, {"n_draws": 0}, InvalidInputError, "n_draws=0 is too small"),
        ({"age": [1, 2, 3]}, {"categorical": ["agee"]}, UnknownNameError, "'agee'. Did you mean 'age'"),
    ],
)
def test_what_makes_no_segments_is_refused(features, options, kind, message):
    with pytest.raises(kind, match=message):
        multicalibration_error([0, 1, 1], [0.1, 0.5, 0.9], features=features, **options)


def test_more_segments_than_memory_holds_are_refused():
    rng, p, _ = draw_rows(3000)
    names = {f"x{j}": np.arange(3000) % 1499 for j in range(2)}
    with pytest.raises(InvalidInputError, match=r"x0, x1 cross to 2,247,001 segments, .* Pass a smaller depth"):
        multicalibration_error(rng.random(3000) < p, p, features=names, categorical=[*names], max_levels=3000)


def test_all_rows_are_looked_at_however_few():
    found = multicalibration_error([0, 1, 1], [0.1, 0.5, 0.9], features={"a": [1, 2, 3]})
    assert (found.segment, found.n_segments, found.n) == ("all rows", 1, 3)
    assert found.sigma == pytest.approx(kuiper([0, 1, 1], [0.1, 0.5, 0.9]).scaled)
    assert audit([0, 1, 1], [0.1, 0.5, 0.9], features={"a": [1, 2, 3]}).n_left_out == 3
