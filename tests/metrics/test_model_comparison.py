"""Champion against challenger: paired differences against scipy, statsmodels, DeLong's formula and simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from model_pairs import KEYS, delong, differences, draw, losses
from scipy import stats
from scipy.special import expit
from some_scores import measure_only
from statsmodels.regression.linear_model import OLS

import calibrant as cb
from calibrant import metrics
from calibrant.metrics.estimates import degrees_of_variance, mean_over_units
from calibrant.metrics.paired_differences import joined_intervals
from calibrant.results import Score


def hall(mean: float, error: float, degrees: float, skewness: float) -> tuple[float, float]:
    """Return the ends of Hall's (1992) interval; `skewness` is that of the mean."""
    ends = []
    for t in stats.t.ppf([0.975, 0.025], degrees):
        inner = 3.0 / skewness * (np.cbrt(1.0 + skewness * (t - skewness / 6.0)) - 1.0)
        ends.append(mean - error * inner)
    return ends[0], ends[1]


def test_scores_are_those_of_evaluate_and_differences_those_of_the_scores() -> None:
    y, a, b = draw()
    weight = np.arange(600) % 3 + 1.0
    found = cb.compare_models(y, {"a": a, "b": b}, sample_weight=weight, n_bins=7, level=0.9, evaluated_on="May")
    for name, p in (("a", a), ("b", b)):
        alone = cb.evaluate(y, p, sample_weight=weight, n_bins=7, level=0.9, evaluated_on="May")
        assert found.models[name].to_dict() == alone.to_dict()
    for key in KEYS:
        score = found.differences["b"][f"{key}_difference"]
        assert score.value == pytest.approx(found.models["b"][key].value - found.models["a"][key].value, abs=1e-12)
        assert score.low < score.value < score.high
        assert (score.level, score.n, score.evaluated_on) == (0.9, 600, "May")


def test_of_symmetric_differences_the_interval_is_the_paired_t_interval_of_scipy() -> None:
    rng = np.random.default_rng(1)
    half = rng.uniform(-0.04, 0.04, size=150)  # with tails lighter than a normal's
    square = 0.16 + 0.003 + np.concatenate([half, -half])  # Brier losses of negative rows, symmetric about their mean
    y = np.zeros(300, int)
    a, b = np.full(300, 0.4), np.sqrt(square)
    score = differences(y, a, b, classes=[0, 1])["brier"]
    reference = stats.ttest_rel(b**2, a**2).confidence_interval(0.95)
    assert score.value == pytest.approx(0.003)
    assert (score.low, score.high) == pytest.approx(tuple(reference), rel=1e-9)


@pytest.mark.parametrize("key", ["log_loss", "brier"])
def test_of_skewed_differences_it_is_that_interval_by_halls_transformation(key: str) -> None:
    y, a, b = draw()
    each = losses(y, b)[key] - losses(y, a)[key]
    reference = stats.ttest_1samp(each, 0.0)
    error = float(each.mean() / reference.statistic)
    away = (each - each.mean()) / (each.size - 1) / error
    score = differences(y, a, b)[key]
    degrees = 2.0 * each.size / (stats.kurtosis(each, fisher=False) - 1.0)  # of which a variance is as uncertain
    assert degrees < reference.df
    assert (score.low, score.high) == pytest.approx(hall(each.mean(), error, degrees, np.sum(away**3)), rel=1e-8)
    plain = reference.confidence_interval(0.95)
    assert (score.low, score.high) == pytest.approx(tuple(plain), abs=0.1 * (plain.high - plain.low))


@pytest.mark.parametrize("digits", [12, 1])
def test_auc_has_delongs_interval_also_with_ties(digits: int) -> None:
    y, a, b = draw(400, seed=3)
    a, b = np.round(a, digits), np.round(b, digits)
    value, error = delong(y, a, b)
    score = differences(y, np.clip(a, 0.01, 0.99), np.clip(b, 0.01, 0.99))["auc"]
    assert score.value == pytest.approx(value)
    half = stats.norm.ppf(0.975) * error
    assert (score.low, score.high) == pytest.approx((value - half, value + half), rel=1e-9)
    assert score.method == "DeLong, paired"


@pytest.mark.parametrize("key", ["log_loss", "brier"])
def test_of_clusters_the_error_is_that_of_cluster_robust_least_squares(key: str) -> None:
    """A regression of the difference on a constant, its errors clustered, with the factor G / (G - 1)."""
    y, a, b = draw()
    cluster = np.arange(600) // 10
    shared = np.random.default_rng(5).normal(size=60)[cluster]
    a = expit(np.log(a / (1 - a)) + shared)  # an error that the rows of a cluster share
    each = losses(y, b)[key] - losses(y, a)[key]
    fit = OLS(each, np.ones(600)).fit(cov_type="cluster", cov_kwds={"groups": cluster})
    sums = np.bincount(cluster, each - each.mean()) / 600 * 60 / 59
    score = differences(y, a, b, cluster=cluster)[key]
    expected = hall(fit.params[0], fit.bse[0], 59, float(np.sum((sums / fit.bse[0]) ** 3)))
    assert (score.low, score.high) == pytest.approx(expected, rel=1e-8)
    alone = OLS(each, np.ones(600)).fit()
    assert score.n_eff == pytest.approx(600 * (alone.bse[0] / fit.bse[0]) ** 2, rel=1e-6)


def test_of_clusters_the_auc_has_the_error_of_summed_influences() -> None:
    y, a, b = draw(1200, seed=2)
    cluster = np.arange(1200) // 10
    a = expit(np.log(a / (1 - a)) + np.random.default_rng(5).normal(size=120)[cluster])
    rate = y.mean()
    influence = np.zeros(1200)
    for p, sign in ((b, 1.0), (a, -1.0)):
        for label, share in ((1, rate), (0, 1.0 - rate)):
            own, other = p[y == label][:, None], p[y != label][None, :]
            psi = ((own > other) if label else (own < other)).mean(axis=1)
            influence[y == label] += sign * (psi - psi.mean()) / share
    fit = OLS(influence, np.ones(1200)).fit(cov_type="cluster", cov_kwds={"groups": cluster})
    score = differences(y, a, b, cluster=cluster)["auc"]
    half = stats.t.ppf(0.975, 119) * fit.bse[0]
    assert score.high - score.low == pytest.approx(2.0 * half, rel=5e-3)  # DeLong's has n - 1 of each class


def test_labels_that_overlap_widen_the_intervals() -> None:
    y, a, b = draw(300)
    thrice = [np.repeat(each, 3) for each in (y, a, b)]
    day = np.repeat(np.arange(300), 3)
    alone, together = differences(*thrice), differences(*thrice, time=day, label_end=day + 1)
    for key in ("log_loss", "brier", "auc"):
        ratio = (together[key].high - together[key].low) / (alone[key].high - alone[key].low)
        assert 1.4 < ratio < 2.3, "three equal rows are worth one: about the root of three"
        assert together[key].n_eff < 600.0


def test_weight_two_equals_two_rows_but_for_the_effective_number() -> None:
    y, a, b = draw(300)
    weighted = differences(y, a, b, sample_weight=np.full(300, 2.0))
    plain, doubled = differences(y, a, b), differences(*(np.repeat(each, 2) for each in (y, a, b)))
    for key in KEYS:
        assert weighted[key].value == pytest.approx(plain[key].value, abs=1e-12)
        assert (weighted[key].low, weighted[key].high) == pytest.approx((plain[key].low, plain[key].high), abs=1e-9)
        if key != "ece_debiased":  # which takes off the noise of so many rows
            assert doubled[key].value == pytest.approx(plain[key].value, abs=1e-12)
            assert doubled[key].high - doubled[key].low < plain[key].high - plain[key].low


def test_rounding_makes_no_model_better_and_what_it_tells_apart_at_0_does() -> None:
    """A map that left scores alone was found better by 0.000, for the logits that they went by."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.02, 0.98, 2_000).round(4)
    y = rng.random(p.size) < p
    rounded = np.where(y, np.nextafter(p, 1.0), p)
    assert (rounded != p).any()
    assert cb.compare_models(y, {"a": p, "b": rounded}).verdict == "'b' gives the same probabilities as 'a'."
    wrong, less_wrong = (np.where(np.arange(p.size) == y.argmin(), last, p) for last in (1.0, np.nextafter(1.0, 0.0)))
    assert "predicts better" in cb.compare_models(y, {"a": wrong, "b": less_wrong}).verdict


def test_the_same_probabilities_differ_in_nothing_and_a_rising_map_keeps_the_order() -> None:
    y, a, _ = draw()
    same = cb.compare_models(y, {"a": a, "b": a.copy()})
    assert {(s.value, s.low, s.high) for s in same.differences["b"].values()} == {(0.0, 0.0, 0.0)}
    assert same.verdict == "'b' gives the same probabilities as 'a'."
    score = differences(y, a, a**2)["auc"]
    assert (score.value, score.low, score.high, score.method) == (0.0, 0.0, 0.0, "same order")


def test_swapping_the_models_turns_every_interval_round() -> None:
    y, a, b = draw()
    there, back = differences(y, a, b), differences(y, b, a)
    for key in KEYS:
        assert (-back[key].high, -back[key].low) == pytest.approx((there[key].low, there[key].high), abs=1e-12)


def test_zou_and_donner_is_exact_where_both_are_independent_and_normal() -> None:
    z = stats.norm.ppf(0.975)
    scores = [Score("s", v, v - z * e, v + z * e, 0.95, 100, "") for v, e in ((0.3, 0.02), (0.1, 0.05))]
    found = joined_intervals(*scores, 0.0)
    assert found.high - found.value == pytest.approx(z * math.hypot(0.02, 0.05))
    found = joined_intervals(*scores, 0.6)
    assert found.value - found.low == pytest.approx(z * math.sqrt(0.02**2 + 0.05**2 - 2 * 0.6 * 0.02 * 0.05))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.2, 1.0])
def test_the_correlation_of_calibration_errors_is_that_of_repeated_outcomes(noise: float) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=1500)
    a, b = expit(1.6 * z), expit(1.6 * z + noise * rng.normal(size=1500))
    squares, said = [], []
    for k in range(400):
        y = rng.random(1500) < expit(z)
        squares.append([metrics.ece_debiased(y, p, n_bins=15, strategy="quantile") ** 2 for p in (a, b)])
        if k < 20:
            said.append(float(differences(y, a, b)["ece_debiased"].method.rpartition(" ")[2]))
    seen = np.corrcoef(np.array(squares).T)[0, 1]
    assert np.mean(said) == pytest.approx(seen, abs=0.08)


def both_off(z: Any, rng: Any) -> tuple[Any, Any]:
    return expit(1.5 * z), expit(z + 0.3 * rng.normal(size=z.size))


def both_alike(z: Any, rng: Any) -> tuple[Any, Any]:
    return expit(z + 0.5 * rng.normal(size=z.size)), expit(z + 0.5 * rng.normal(size=z.size))


@pytest.mark.slow
@pytest.mark.parametrize("make", [both_off, both_alike])
def test_intervals_hold_the_difference_on_new_rows(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 250 sets of 300 rows; the calibration error's covers more often than it says."""
    measure_only((), monkeypatch)
    rng = np.random.default_rng(0)
    z = rng.normal(size=200_000)
    a, b = make(z, rng)
    rate = expit(z)
    truth = {}
    for key in ("log_loss", "brier"):
        expected = [rate * losses(1, p)[key] + (1 - rate) * losses(0, p)[key] for p in (a, b)]
        truth[key] = float(np.mean(expected[1]) - np.mean(expected[0]))
    y = rng.random(z.size) < rate
    of_many = differences(y, a, b)
    truth |= {key: of_many[key].value for key in ("ece_debiased", "auc")}
    held = dict.fromkeys(KEYS, 0)
    for _ in range(250):
        z = rng.normal(size=300)
        found = differences(rng.random(300) < expit(z), *make(z, rng))
        for key in KEYS:
            held[key] += found[key].low <= truth[key] <= found[key].high
    shares = {key: n / 250 for key, n in held.items()}
    assert all(0.92 <= shares[key] <= 0.985 for key in ("log_loss", "brier", "auc")), shares
    assert shares["ece_debiased"] >= 0.93, shares


def test_of_few_events_differences_are_not_surer_than_these_allow() -> None:
    """Some eight of 2,000 rows differ by chance: with a row's degrees of freedom one interval in seven misses 0."""
    missed = {False: 0, True: 0}
    weight = np.ones(2_000)
    for seed in range(800):
        rng = np.random.default_rng(seed)
        each = rng.normal(size=2_000) * (rng.random(2_000) < 0.004)
        for heeds in missed:
            degrees = degrees_of_variance(each, weight) if heeds else math.inf
            found = mean_over_units(each, weight, [], 0.95, most_degrees=degrees)
            missed[heeds] += not found.low <= 0.0 <= found.high
    assert missed[False] / 800 > 0.09
    assert missed[True] / 800 <= 0.05 + 2.5 * 0.0077


def test_rows_in_which_nothing_happened_claim_no_certainty() -> None:
    """Of 200 rows with a rate of 0.5% one in three sets has no event: it doesn't tell that 0.1% is better than 1%."""
    rng = np.random.default_rng(0)
    a, b = 0.001 * rng.uniform(0.9, 1.1, 200), 0.01 * rng.uniform(0.9, 1.1, 200)
    score = differences(np.zeros(200, int), a, b, classes=[0, 1])["log_loss"]
    assert score.low < 0.0 < score.high
    assert math.isnan(differences(np.zeros(200, int), a, b, classes=[0, 1])["auc"].value)
