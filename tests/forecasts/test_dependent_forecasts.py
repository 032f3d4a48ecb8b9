"""Forecasts of rows that are not independent: what intervals, floors, bands, tests and folds make of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from forecast_cases import misjudged, right
from scipy import stats
from scipy.signal import lfilter

from calibrant.errors import InvalidInputError, ShapeError
from calibrant.forecasts import (
    AverageRecalibrator,
    ConformalRecalibrator,
    CostPolicy,
    GaussianForecast,
    QuantileForecast,
    ThresholdLoss,
    ThresholdPolicy,
    ThresholdRecalibrator,
    ThresholdRule,
    evaluate,
    evaluate_rule,
    level_curve,
    pit_histogram,
    pit_test,
    read_outcomes,
    threshold_curves,
)
from calibrant.forecasts.evaluation import mean_estimates
from calibrant.forecasts.rule_scores import rule_estimates

TABLE = ((0.0, 4.0), (1.0, 0.0))
RULE = (0.0, 0.45)
RULE_, LOSS = ThresholdRule(*RULE), ThresholdLoss(0.0, TABLE).problem
MEANS = ("crps", "log_score", "pinball_loss", "interval_score", "bias", "decision_loss")


def clustered(n_clusters: int, seed: int, *, size: int = 20, common: float = 0.4) -> tuple[GaussianForecast, Any, Any]:
    """Return normal forecasts that are right, whose errors have a part in common in each cluster."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(n_clusters), size)
    n = cluster.size

    def normal() -> np.ndarray:
        return np.sqrt(common) * rng.normal(size=n_clusters)[cluster] + np.sqrt(1.0 - common) * rng.normal(size=n)

    mean, std = normal(), np.exp(0.3 * normal())
    return GaussianForecast(mean, std), mean + std * normal(), cluster


def serial(n: int, seed: int, phi: float = 0.9) -> tuple[GaussianForecast, Any]:
    """Return normal forecasts that are right, with errors of an AR(1)."""
    rng = np.random.default_rng(seed)
    error = lfilter([np.sqrt(1.0 - phi**2)], [1.0, -phi], rng.normal(size=n + 300))[300:]
    mean = rng.normal(size=n)
    return GaussianForecast(mean, 1.0), mean + error


def overlapping(n: int, seed: int, reach: int = 10) -> tuple[GaussianForecast, Any, dict[str, Any]]:
    """Return normal forecasts of sums over the next steps, which are right, and when each was made and known."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=n + reach - 1)
    mean = rng.normal(size=n)
    time = np.arange(n)
    error = np.convolve(steps, np.ones(reach), "valid")
    return GaussianForecast(mean, np.sqrt(reach)), mean + error, {"time": time, "label_end": time + reach - 1}


def test_clusters_of_one_row_have_the_intervals_of_student() -> None:
    forecast, y = misjudged(60)
    scores = evaluate(forecast, y, cluster=np.arange(60))
    expected = stats.ttest_1samp(forecast.crps(y), 0.0).confidence_interval(0.95)
    assert scores["crps"].high - scores["crps"].low == pytest.approx(expected.high - expected.low, rel=0.05)
    alone = evaluate(forecast, y)["crps"]
    assert (scores["crps"].low, scores["crps"].high) == pytest.approx((alone.low, alone.high))
    assert scores["crps"].method.startswith("Hall's t (60 clusters)")


def test_copies_of_rows_in_one_cluster_say_no_more_than_the_rows() -> None:
    forecast, y = misjudged(60)
    copies = np.repeat(np.arange(60), 5)
    once = evaluate(forecast, y, cluster=np.arange(60))
    copied = evaluate(forecast[copies], y[copies], cluster=copies)
    unknown = evaluate(forecast[copies], y[copies])
    for name in (*MEANS, "coverage"):
        assert copied[name].low == pytest.approx(once[name].low, abs=1e-9)
        assert copied[name].high == pytest.approx(once[name].high, abs=1e-9)
        assert unknown[name].high - unknown[name].low < 0.6 * (copied[name].high - copied[name].low)
    for name in ("average_calibration_error", "distribution_calibration_error", "reliability_gap"):
        assert copied[name].value == pytest.approx(once[name].value, abs=1e-9)
        assert 1.5 < (copied[name].high - copied[name].value) / (unknown[name].high - unknown[name].value) < 3.2
    assert ", design effect 5" in copied["crps"].method


def test_what_names_the_clusters_does_not_matter() -> None:
    forecast, y, cluster = clustered(12, 0, size=6)
    names = np.array([f"patient {k}" for k in np.random.default_rng(0).permutation(12)])[cluster]
    by_number, by_name = (
        evaluate_rule(forecast, y, RULE, TABLE, cluster=each)["realised_loss"] for each in (cluster, names)
    )
    assert by_number.low == pytest.approx(by_name.low)


def test_datetimes_are_times() -> None:
    forecast, y, known = overlapping(200, 0)
    days = {name: np.datetime64("2020-01-01") + values for name, values in known.items()}
    shuffled = np.random.default_rng(0).permutation(200)
    plain = evaluate_rule(forecast, y, RULE, TABLE, **known)["realised_loss"]
    moved = evaluate_rule(
        forecast[shuffled], y[shuffled], RULE, TABLE, **{name: each[shuffled] for name, each in days.items()}
    )["realised_loss"]
    assert (plain.low, plain.high) == pytest.approx((moved.low, moved.high))


@pytest.mark.parametrize(
    "call",
    [
        evaluate,
        lambda forecast, y, **known: evaluate_rule(forecast, y, RULE, TABLE, **known),
        pit_histogram,
        level_curve,
        pit_test,
        lambda forecast, y, **known: threshold_curves(forecast, y, RULE, **known),
        lambda forecast, y, **known: AverageRecalibrator().fit(forecast, y, **known),
        lambda forecast, y, **known: ThresholdRecalibrator().fit(forecast, y, **known),
    ],
)
def test_every_function_has_the_same_gate(call: Any) -> None:
    forecast, y = right(60)
    with pytest.raises(ShapeError, match=r"the forecast has 60 rows and cluster has 59"):
        call(forecast, y, cluster=np.arange(59))
    with pytest.raises(InvalidInputError, match=r"cluster is the same in all 60 rows, .* or leave cluster out"):
        call(forecast, y, cluster=np.ones(60, dtype=np.int64))
    with pytest.raises(InvalidInputError, match=r"label_end row 0: -1 is before the row's time 0"):
        call(forecast, y, time=np.arange(60), label_end=np.arange(60) - 1)


def test_rows_of_weight_zero_leave_their_cluster() -> None:
    forecast, y, cluster = clustered(8, 1, size=5)
    weight = (cluster > 0).astype(float)
    kept = np.flatnonzero(weight)
    weighted = evaluate_rule(forecast, y, RULE, TABLE, sample_weight=weight, cluster=cluster)
    left = evaluate_rule(forecast[kept], y[kept], RULE, TABLE, cluster=cluster[kept])
    assert weighted.to_dict() == left.to_dict()


def test_a_rate_that_never_fails_is_known_as_well_as_there_are_clusters() -> None:
    forecast, cluster = GaussianForecast(np.zeros(200), 1.0), np.repeat(np.arange(10), 20)
    found = read_outcomes(forecast, np.zeros(200), cluster=cluster).rate_estimate(np.ones(200), 0.95)
    stretch = (stats.t.ppf(0.975, 9) / stats.norm.ppf(0.975)) ** 2
    z2 = stats.norm.ppf(0.975) ** 2
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(1.0 / (1.0 + z2 * stretch / 10.0))


@pytest.mark.slow
@pytest.mark.parametrize("is_right", [True, False])
@pytest.mark.parametrize("kind", ["independent", "clustered", "overlapping", "serial"])
def test_intervals_cover_as_often_as_they_say_and_are_not_vacuous(kind: str, is_right: bool) -> None:
    """Of 600 samples, 93% to 97.5% are wanted; a share of 93% has a standard error of 1 point."""

    def sample(n: int, seed: int) -> tuple[Any, Any, dict[str, Any]]:
        match kind:
            case "clustered":
                forecast, y, cluster = clustered(n // 20, seed)
                known: dict[str, Any] = {"cluster": cluster}
            case "overlapping":
                forecast, y, known = overlapping(n, seed)
            case "serial":
                forecast, y = serial(n, seed, 0.6)
                known = {"time": np.arange(n)}
            case _:
                (forecast, y), known = right(n, seed), {}
        if not is_right:
            forecast = GaussianForecast(forecast.mean() + 0.2, 0.7 * forecast.std())
        return forecast, y, known

    def measured(forecast: Any, y: Any, known: dict[str, Any]) -> dict[str, Any]:
        rows = read_outcomes(forecast, y, **known)
        of_rule = rule_estimates(rows, RULE_, LOSS, 0.95)
        return {**mean_estimates(rows, 0.9, 0.95), **of_rule}

    forecast, y, _ = sample(400_000, 999)
    true = {name: each.value for name, each in measured(forecast, y, {}).items()}
    true["reliability_gap"] = 0.0 if is_right else true["reliability_gap"]
    inside = dict.fromkeys(true, 0)
    widths: dict[int, dict[str, float]] = {}
    for n, n_sets in ((1_000, 600), (16_000, 4)):
        widths[n] = dict.fromkeys(true, 0.0)
        for seed in range(n_sets):
            for name, found in measured(*sample(n, seed)).items():
                widths[n][name] += (found.high - found.low) / n_sets
                if n == 1_000:
                    inside[name] += found.low - 1e-9 <= true[name] <= found.high + 1e-9
    shares = {name: count / 600 for name, count in inside.items()}
    assert min(shares.values()) >= 0.92, shares
    exempt = {"sharpness"} if kind in ("overlapping", "serial") else set()  # forecasts of one width are sure of it
    if not is_right:  # of a size that can't be below zero, one end of the interval covers
        shares["reliability_gap"] = min(shares["reliability_gap"], 0.975)
    assert max(share for name, share in shares.items() if name not in exempt) <= 0.975, shares
    for name in set(true) - exempt:  # 16 times the rows: a quarter of the width
        assert widths[16_000][name] < 0.4 * widths[1_000][name], name


@pytest.mark.slow
def test_clustered_forecasts_that_are_right_are_rarely_called_wrong() -> None:
    def is_accused(forecast: Any, y: Any, **known: Any) -> bool:
        return not evaluate(forecast, y, **known).verdict.startswith("No gap is beyond")

    accused = dict.fromkeys(["known", "unknown"], 0)
    for seed in range(16):
        forecast, y, cluster = clustered(25, seed)
        accused["known"] += is_accused(forecast, y, cluster=cluster)
        accused["unknown"] += seed < 8 and is_accused(forecast, y)
    assert accused["known"] <= 2
    assert accused["unknown"] >= 3, "of 8"


def test_forecasts_that_are_wrong_are_still_found_in_clusters() -> None:
    forecast, y, cluster = clustered(50, 3)
    narrow = GaussianForecast(forecast.mean(), 0.5 * forecast.std())
    assert "Intervals are too narrow" in evaluate(narrow, y, cluster=cluster).verdict
    assert "Not calibrated" in evaluate_rule(narrow, y, RULE, TABLE, cluster=cluster).verdict


@pytest.mark.slow
def test_tests_of_uniformity_reject_as_often_as_they_say() -> None:
    """At 5%, 300 samples have 15 rejections, and 26 or more with a chance of 0.5%; unaware tests have about 100."""
    rejected = np.zeros(4)
    for seed in range(300):
        forecast, y, cluster = clustered(40, seed, size=10)
        for k, known in enumerate(({"cluster": cluster}, {})):
            found = pit_test(forecast, y, rng=0, **known)
            rejected[2 * k] += found.kolmogorov_smirnov_p_value <= 0.05
            rejected[2 * k + 1] += found.cramer_von_mises_p_value <= 0.05
    assert rejected[:2].max() < 26
    assert rejected[:2].min() > 2
    assert rejected[2:].min() >= 80


def test_tests_of_uniformity_have_power_in_clusters() -> None:
    forecast, y, cluster = clustered(40, 0)
    found = pit_test(GaussianForecast(forecast.mean() + 0.6, forecast.std()), y, cluster=cluster, rng=0)
    assert found.kolmogorov_smirnov_p_value < 0.01
    assert found.cramer_von_mises_p_value < 0.01


@pytest.mark.slow
def test_bands_hold_the_shares_of_calibrated_forecasts() -> None:
    at, inside, bars = [10, 30, 50, 70, 90], np.zeros(5), 0.0
    for seed in range(200):
        forecast, y, cluster = clustered(40, seed, size=10)
        curve = level_curve(forecast, y, cluster=cluster)
        inside += ((curve.low <= curve.share) & (curve.share <= curve.high))[at]
        histogram = pit_histogram(forecast, y, cluster=cluster, n_bins=10)
        bars += bool(((histogram.low_all <= histogram.density) & (histogram.density <= histogram.high_all)).all())
    assert inside.min() >= 0.9 * 200
    assert bars >= 0.92 * 200
    alone = level_curve(forecast, y)
    assert np.all((alone.high - alone.low)[at] < (curve.high - curve.low)[at])
    assert (curve.high - curve.low).max() < 0.5


def test_policies_are_judged_by_cluster() -> None:
    forecast, y, cluster = clustered(20, 5)
    policy = ThresholdPolicy(ThresholdLoss(0.0, TABLE)).fit(forecast)
    alone, together = policy.evaluate(forecast, y), policy.evaluate(forecast, y, cluster=cluster)
    assert together.realised.method.startswith("Hall's t (20 clusters)")
    assert together.gap.high - together.gap.low > 1.3 * (alone.gap.high - alone.gap.low)
    p = forecast.cdf(0.0)
    costs = CostPolicy([[0.0, 4.0], [1.0, 0.0]])
    of_classes = costs.evaluate((y <= 0.0).astype(int), p, cluster=cluster).realised
    assert (of_classes.low, of_classes.high) == pytest.approx((together.realised.low, together.realised.high))


def test_folds_of_the_rounds_keep_clusters_whole_and_purge_what_overlaps() -> None:
    forecast, y, cluster = clustered(30, 6, size=10)
    shuffled = np.random.default_rng(0).permutation(300)
    folds = ThresholdRecalibrator()._folds(read_outcomes(forecast, y, cluster=cluster[shuffled]))
    assert all(np.unique(folds[cluster[shuffled] == c]).size == 1 for c in range(30))
    assert np.unique(folds).size > 4
    held_out = ThresholdRecalibrator(stopping="validation")
    parts = held_out._folds(read_outcomes(forecast, y, time=np.arange(300)[shuffled]))
    assert set(parts) == {-1, 0}
    assert np.arange(300)[shuffled][parts == 0].min() == 240  # the last fifth
    rows = read_outcomes(forecast, y, time=np.arange(300), label_end=np.arange(300) + 4)
    folds = ThresholdRecalibrator()._folds(rows)
    assert len(rows.fitted_without(folds, 1)) == 300 - np.count_nonzero(folds == 1) - 8


@pytest.mark.slow
def test_rounds_are_not_chosen_by_rows_of_the_clusters_that_they_learned() -> None:
    """Forecasts say of each cluster its own number, and errors are of the cluster: there is nothing to learn."""
    chosen = dict.fromkeys(["known", "unknown"], 0)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        cluster = np.repeat(np.arange(25), 40)
        mean = 3.0 * rng.normal(size=25)[cluster]
        y = mean + (0.95 * rng.normal(size=25)[cluster] + 0.3 * rng.normal(size=1_000))
        for name, known in (("known", {"cluster": cluster}), ("unknown", {})):
            fitted = ThresholdRecalibrator(max_rounds=20).fit(GaussianForecast(mean, 1.0), y, **known)
            chosen[name] += fitted.choice_ == "rounds"
    assert chosen["unknown"] >= 4
    assert chosen["known"] <= 1


def test_labels_that_all_overlap_leave_nothing_to_fit_to() -> None:
    forecast, y = right(40)
    with pytest.raises(InvalidInputError, match=r"every outcome overlaps one of the \d+ rows held out: none is left"):
        ThresholdRecalibrator().fit(forecast, y, time=np.arange(40), label_end=np.arange(40) + 50)


def test_a_conformal_cluster_counts_as_one_row() -> None:
    forecast, y = misjudged(30)
    copies = np.repeat(np.arange(30), np.random.default_rng(0).integers(1, 6, 30))
    once = ConformalRecalibrator().fit(forecast, y)
    clusters = ConformalRecalibrator().fit(forecast[copies], y[copies], cluster=copies)
    np.testing.assert_allclose(clusters.layers_[0].levels, once.layers_[0].levels, atol=1e-12)  # type: ignore[attr-defined]
    np.testing.assert_allclose(clusters.bounds(forecast, y), once.bounds(forecast, y), atol=1e-12)


@pytest.mark.slow
def test_conformal_bounds_enclose_a_uniform_level_in_new_clusters() -> None:
    rng = np.random.default_rng(3)
    low, high = [], []
    for _ in range(2_000):
        common = rng.normal(size=13)
        sizes = rng.integers(1, 30, 13)
        cluster = np.repeat(np.arange(13), sizes)
        y = common[cluster] + 0.3 * rng.normal(size=cluster.size)
        old, new = cluster < 12, np.flatnonzero(cluster == 12)[:1]
        forecast = GaussianForecast(np.zeros(cluster.size), 1.0)
        fitted = ConformalRecalibrator("residual").fit(forecast[old], y[old], cluster=cluster[old])
        ends = fitted.bounds(forecast[new], y[new])
        low.append(ends[0][0])
        high.append(ends[1][0])
    for c in (0.2, 0.5, 0.8):
        error = 3.0 * np.sqrt(c * (1.0 - c) / 2_000)
        assert np.mean(np.array(high) <= c) <= c + error
        assert np.mean(np.array(low) < c) >= c - error
        assert np.mean(np.array(low) < c) <= c + 2.0 / 13.0 + error  # not vacuous


def test_intervals_of_quantiles_are_at_a_level_that_they_give() -> None:
    rng = np.random.default_rng(0)
    mean = rng.normal(size=300)
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    forecast = QuantileForecast(levels, GaussianForecast(mean, 1.0).ppf(levels[None, :]))
    assert forecast.central_levels == [0.8, 0.5]
    y = mean + rng.normal(size=300)
    assert evaluate(forecast, y)["coverage"].value == evaluate(forecast, y, interval_level=0.8)["coverage"].value
    lopsided = QuantileForecast([0.1, 0.5], [[0.0, 1.0]])
    assert lopsided.central_levels == []


def test_effective_numbers_of_rows_are_those_of_weights_and_clusters() -> None:
    rng = np.random.default_rng(0)
    y, weight, cluster = rng.normal(size=400), rng.integers(1, 4, 400), np.arange(400) // 4
    kish = weight.sum() ** 2 / np.square(weight).sum()
    weighted = evaluate(GaussianForecast(np.zeros(400), 1.0), y, sample_weight=weight)
    assert [score.n_eff for score in weighted.values()] == pytest.approx([kish] * len(weighted))
    repeated = evaluate(GaussianForecast(np.zeros(400), 1.0), y[cluster], cluster=cluster)
    assert repeated["crps"].n_eff == pytest.approx(100.0, rel=0.02)
    assert repeated["coverage"].n_eff == pytest.approx(100.0, rel=0.1)
