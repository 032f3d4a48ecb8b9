"""Champion against challenger: paired differences against scipy, statsmodels, DeLong's formula and simulation."""

from __future__ import annotations

import itertools
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit
from statsmodels.regression.linear_model import OLS

import calibrant as cb
from calibrant import metrics
from calibrant.errors import CalibrantError
from calibrant.metrics.estimates import degrees_of_variance, mean_over_units
from calibrant.metrics.paired_differences import joined_intervals
from calibrant.results import Score

KEYS = ("log_loss", "brier", "ece_debiased", "auc")


def draw(n: int = 600, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return labels and the probabilities of two models that are noisy in ways of their own."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    y = (rng.random(n) < expit(z)).astype(int)
    return y, expit(1.4 * z + 0.3 * rng.normal(size=n)), expit(z + 0.4 * rng.normal(size=n))


def differences(y: Any, a: Any, b: Any, **options: Any) -> dict[str, Score]:
    found = cb.compare_models(y, {"a": a, "b": b}, **options).differences["b"]
    return {key: found[f"{key}_difference"] for key in KEYS}


def losses(y: Any, p: Any) -> dict[str, Any]:
    return {"log_loss": -np.where(y == 1, np.log(p), np.log1p(-p)), "brier": (p - y) ** 2}


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


def delong(y: Any, a: Any, b: Any) -> tuple[float, float]:
    """Return the difference of AUCs and its standard error, pair by pair (DeLong et al. 1988, equations 3 to 7)."""
    placements = []
    for p in (a, b):
        positive, negative = p[y == 1][:, None], p[y == 0][None, :]
        psi = (positive > negative) + 0.5 * (positive == negative)
        placements.append((psi.mean(axis=1), psi.mean(axis=0)))
    of_positive = placements[1][0] - placements[0][0]
    of_negative = placements[1][1] - placements[0][1]
    variance = of_positive.var(ddof=1) / of_positive.size + of_negative.var(ddof=1) / of_negative.size
    return float(of_positive.mean()), math.sqrt(variance)


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
def test_intervals_hold_the_difference_on_new_rows(make: Any) -> None:
    """Of 250 sets of 300 rows; the calibration error's covers more often than it says."""
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


# --- words, several challengers, several classes -------------------------------------------------------------


def test_the_verdict_says_which_is_better_and_in_what() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=3000)
    y = rng.random(3000) < expit(z)
    blurred, sharp = expit(0.7 * (z + 0.7 * rng.normal(size=3000))), expit(3.0 * z)
    found = cb.compare_models(y, {"old": blurred, "new": expit(z)})
    assert found.verdict.startswith("'new' predicts better than 'old': its log loss is lower by 0.0")
    assert "'new' ranks better (AUC higher by 0.0" in found.verdict
    back = cb.compare_models(y, {"new": expit(z), "old": blurred})
    assert back.verdict.startswith("'old' predicts worse than 'new': its log loss is higher by 0.0")
    words = cb.compare_models(y, {"old": blurred, "sharp": sharp}).verdict
    assert "'sharp' ranks better (AUC higher by 0.0" in words
    assert "and is worse calibrated (calibration error higher by 0." in words
    assert words.endswith("A calibrator can mend its calibration and keeps its order.")


def test_no_difference_is_said_so() -> None:
    y, a, _ = draw()
    words = cb.compare_models(y, {"a": a, "b": np.clip(a + 1e-3 * (-1) ** np.arange(600), 0.001, 0.999)}).verdict
    assert words.startswith("'b' and 'a': no difference that these rows show (log loss of the first less that of the")
    assert "Neither order nor calibration alone is shown to differ." in words


def test_an_infinite_loss_is_said_in_words_and_has_no_interval() -> None:
    y, a, b = draw()
    wrong = b.copy()
    wrong[np.flatnonzero(y)[0]] = 0.0
    found = cb.compare_models(y, {"a": a, "wrong": wrong})
    score = found.differences["wrong"]["log_loss_difference"]
    assert (score.value, score.low, score.high) == (math.inf,) * 3
    said = "'wrong' predicts worse than 'a' by log loss, which is infinite: something happened that it had given"
    assert found.verdict.startswith(f"{said} probability 0. Its Brier score is ")
    back = cb.compare_models(y, {"wrong": wrong, "a": a}).verdict
    assert back.startswith("'a' predicts better than 'wrong', whose log loss is infinite: something happened")
    assert str(found).count("infinite: something happened") == 1, "of the score, and not of its difference again"
    other = a.copy()
    other[np.flatnonzero(y)[1]] = 0.0
    both = cb.compare_models(y, {"other": other, "wrong": wrong})
    assert math.isnan(both.differences["wrong"]["log_loss_difference"].value)
    assert "Brier score" in both.verdict
    json.dumps(both.to_dict(), allow_nan=False)


def test_several_challengers_share_the_level() -> None:
    y, a, b = draw()
    c = expit(np.log(b / (1 - b)) * 0.5)
    found = cb.compare_models(y, {"a": a, "b": b, "c": c})
    assert (found.champion, list(found.differences), found.difference_level) == ("a", ["b", "c"], 0.975)
    for name, p in (("b", b), ("c", c)):
        alone = cb.compare_models(y, {"a": a, name: p}, level=0.975).differences[name]
        for key, score in found.differences[name].items():
            assert (score.low, score.high, score.level) == (alone[key].low, alone[key].high, 0.975)
    assert "so that all hold at once with 95%" in " ".join(str(found).split())
    assert found.models["c"]["brier"].level == 0.95
    assert set(found.figures) >= {"a:log_loss", "c:auc_difference"}
    assert "auc_difference" not in found.figures
    assert "auc_difference" in cb.compare_models(y, {"a": a, "b": b}).figures


def test_several_classes() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1.0, 2.0, 3.0], 500)
    y = (p.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1)
    q = p**1.7 / (p**1.7).sum(axis=1, keepdims=True)
    found = differences(y, p, q)
    rows = np.arange(500)
    each = np.log(p[rows, y]) - np.log(q[rows, y])
    plain = stats.ttest_1samp(each, 0.0).confidence_interval(0.95)
    assert found["log_loss"].value == pytest.approx(each.mean())
    assert (found["log_loss"].low, found["log_loss"].high) == pytest.approx(tuple(plain), abs=0.005)
    of_brier = ((q - np.eye(3)[y]) ** 2 - (p - np.eye(3)[y]) ** 2).sum(axis=1)
    assert found["brier"].value == pytest.approx(of_brier.mean())
    assert found["auc"].value == pytest.approx(metrics.roc_auc(y, q) - metrics.roc_auc(y, p))


def test_two_columns_say_of_the_auc_what_one_says() -> None:
    y, a, b = draw()
    one, two = differences(y, a, b), differences(y, *(np.column_stack([1 - p, p]) for p in (a, b)))
    assert (two["auc"].low, two["auc"].high) == pytest.approx((one["auc"].low, one["auc"].high), rel=0.01)
    assert (two["log_loss"].low, two["log_loss"].high) == pytest.approx((one["log_loss"].low, one["log_loss"].high))
    assert two["brier"].value == pytest.approx(2.0 * one["brier"].value)


def test_the_table_has_a_row_for_every_score_and_difference_within_80_columns() -> None:
    y, a, b = draw()
    found = cb.compare_models(y, {"champion": a, "challenger of long name": b})
    shown = str(found).splitlines()
    assert max(map(len, shown)) <= 80
    frame = found.to_frame("pandas")
    assert frame.shape[0] == 12
    assert frame["score"].tolist() == list(itertools.chain.from_iterable([key] * 3 for key in KEYS))
    assert frame["figure"].tolist() == ["value", "value", "difference"] * 4
    of = frame.set_index(["score", "figure", "model"]).loc[("brier", "difference", "challenger of long name")]
    assert of["low"] == found.differences["challenger of long name"]["brier_difference"].low


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([[0.1, 0.9], [0.2, 0.8]], "models is a list. Pass a mapping of names to probabilities"),
        ({"a": [0.1, 0.9]}, "models has 1 model. Pass two or more, the champion first"),
        ({"a": [0.1, 0.9], 2: [0.1, 0.8]}, "models has the key 2, which is not text"),
        ({"a": [0.1, 0.9], "b": [[0.9, 0.1], [0.2, 0.8]]}, "'b' has 2 columns of scores and 'a' one score per row"),
        ({"a": [0.1, 0.9], "b": [0.1, 1.9]}, r"models\['b'\] row 1: 1.9"),
        ({"a": [0.1, 0.9], "b": [0.1]}, r"models\['b'\] has 1"),
    ],
)
def test_what_can_not_be_compared_is_refused(models: Any, message: str) -> None:
    with pytest.raises(CalibrantError, match=message):
        cb.compare_models([0, 1], models)


# --- real models ---------------------------------------------------------------------------------------------


def scores_folder() -> Path:
    folder = os.environ.get("CALIBRANT_DATA")
    if folder is None:
        pytest.skip("CALIBRANT_DATA doesn't name a folder with scores/niamey_precip_2016.csv and others")
    return Path(folder) / "scores"


def test_forecasters_of_rain_have_the_published_brier_scores() -> None:
    """Dimitriadis, Gneiting and Jordan (2021), PNAS 118, table 1: .206, .232, .266 and .234 on 92 days in Niamey."""
    rain = pd.read_csv(scores_folder() / "niamey_precip_2016.csv")
    found = cb.compare_models(rain["obs"], {name: rain[name] for name in ("Logistic", "EMOS", "ENS", "EPC")})
    assert [round(scores["brier"].value, 3) for scores in found.models.values()] == [0.206, 0.232, 0.266, 0.234]
    ens = found.differences["ENS"]["brier_difference"]
    reference = stats.ttest_rel((rain["ENS"] - rain["obs"]) ** 2, (rain["Logistic"] - rain["obs"]) ** 2)
    plain = reference.confidence_interval(ens.level)
    assert (ens.low, ens.high) == pytest.approx(tuple(plain), abs=0.1 * (plain.high - plain.low))


def test_boosting_predicts_better_than_naive_bayes_on_adult() -> None:
    scores = pd.read_parquet(scores_folder() / "tabular_models_binary.parquet")
    adult = scores[scores["dataset"] == "adult"]
    models = {name: adult[adult["model"] == name].reset_index(drop=True) for name in ("nb", "hgb")}
    y = models["nb"]["y"].to_numpy()
    assert (models["hgb"]["y"].to_numpy() == y).all()
    a, b = (models[name]["s"].to_numpy() for name in ("nb", "hgb"))
    found = cb.compare_models(y, {"nb": a, "hgb": b})
    assert "'hgb' predicts better" in found.verdict
    assert "'hgb' ranks better" in found.verdict
    score = found.differences["hgb"]["auc_difference"]
    value, error = delong(y[:4000], a[:4000], b[:4000])
    part = differences(y[:4000], a[:4000], b[:4000])["auc"]
    assert (part.value, part.high - part.low) == pytest.approx((value, 2 * stats.norm.ppf(0.975) * error), rel=1e-6)
    assert score.low > 0.0


def test_one_impossible_event_does_not_decide_against_the_brier_score() -> None:
    y, a, _ = draw()
    better = np.clip(0.9 * y + 0.05, 0.0, 1.0)
    better[np.flatnonzero(y)[0]] = 0.0
    found = cb.compare_models(y, {"a": a, "better": better})
    assert (found.better, found.worse, found.contradicted) == ((), (), ("better",))
    assert math.isinf(found.differences["better"]["log_loss_difference"].value)
    assert found.differences["better"]["brier_difference"].high < 0.0
    said = "'better' and 'a': log loss and Brier score contradict each other. The log loss of 'better' is infinite:"
    assert found.verdict.startswith(said)
    back = cb.compare_models(y, {"better": better, "a": a})
    assert (back.better, back.worse, back.contradicted) == ((), (), ("a",))
    assert "The log loss of 'better' is infinite" in back.verdict
    assert "The Brier score of 'a' is higher by " in back.verdict
    assert json.loads(json.dumps(found.to_dict()))["contradicted"] == ["better"]
    pair = cb.ModelComparisonReport(y, {"a": a, "better": better}).markdown()
    assert "**Log loss and Brier score contradict each other**" in pair
    assert "Keep 'a' for now. 'better': one log loss is infinite" in pair
    page = cb.ModelComparisonReport(y, {"a": a, "better": better, "squared": a**2}).markdown()
    assert "No challenger is shown to predict better than 'a'" in page
    assert "Log loss and Brier score contradict each other: 'better'" in page.replace("log loss and", "Log loss and")
    assert "Compare them once probabilities are kept off 0 and 1." in page
