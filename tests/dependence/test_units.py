"""Units of rows that are not independent: clusters and blocks of time, errors of means, folds, the gate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from calibrant.dependence import Dependence, Units, read_dependence, serial_blocks, t_quantile
from calibrant.dependence.overlap import autocovariances, label_blocks
from calibrant.errors import CalibrantError


def autoregressive(n: int, phi: float, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=n + 300)
    return np.asarray(lfilter([1.0], [1.0, -phi], noise)[300:])


def units_of(dependence: Dependence, *series: np.ndarray):
    units = dependence.units(*series)
    assert units is not None
    return units


def test_error_of_equal_clusters_is_that_of_statsmodels() -> None:
    regression = pytest.importorskip("statsmodels.regression.linear_model")
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(12), 7)
    values = rng.normal(size=12)[cluster] + rng.normal(size=84)
    error, degrees, _ = units_of(Dependence(cluster=cluster)).error_of_mean(values, np.ones(84))
    fitted = regression.OLS(values, np.ones(84)).fit(cov_type="cluster", cov_kwds={"groups": cluster})
    assert error == pytest.approx(float(fitted.bse[0]), rel=1e-12)
    assert degrees == pytest.approx(11.0)


def test_error_is_the_jackknife_over_clusters() -> None:
    rng = np.random.default_rng(1)
    cluster = np.unique(rng.integers(0, 9, 60), return_inverse=True)[1]
    values, weight = rng.normal(size=60), rng.random(60) + 0.1
    n = cluster.max() + 1
    means = [np.average(values[cluster != g], weights=weight[cluster != g]) for g in range(n)]
    expected = np.sqrt((n - 1) / n * np.sum((np.array(means) - np.average(values, weights=weight)) ** 2))
    error, degrees, _ = units_of(Dependence(cluster=cluster)).error_of_mean(values, weight)
    share = np.bincount(cluster, weights=weight) / weight.sum()
    assert error == pytest.approx(float(expected), rel=1e-12)
    assert degrees == pytest.approx(1.0 / np.sum(share**2) - 1.0)


def test_clusters_of_one_row_are_rows() -> None:
    values = np.random.default_rng(2).normal(size=40)
    error, degrees, _ = units_of(Dependence(cluster=np.arange(40))).error_of_mean(values, np.ones(40))
    assert error == pytest.approx(float(stats.sem(values)))
    assert t_quantile(degrees, 0.95) == pytest.approx(float(stats.t.ppf(0.975, 39)))


def test_one_cluster_says_nothing_of_the_error() -> None:
    error, degrees, _ = units_of(Dependence(cluster=np.zeros(5, dtype=np.int64))).error_of_mean(
        np.arange(5.0), np.ones(5)
    )
    assert (error, degrees) == (np.inf, 0.0)
    assert t_quantile(degrees, 0.95) == np.inf


@pytest.mark.parametrize("phi", [0.3, 0.5, 0.7])
def test_blocks_of_an_autoregression_are_as_long_as_politis_and_white_say(phi: float) -> None:
    """Of an AR(1), G / g(0) is 2 phi / (1 - phi^2), so that the length is (6 phi^2 / (1 - phi^2)^2)^(1/3) n^(1/3)."""
    n = 20_000
    found = [serial_blocks(autoregressive(n, phi, seed)) for seed in range(15)]
    wanted = (6.0 * phi**2 / (1.0 - phi**2) ** 2 * n) ** (1.0 / 3.0)
    assert np.median([each.length for each in found]) == pytest.approx(wanted, rel=0.15)
    lost = 2.0 * phi / (1.0 - phi**2) / wanted
    assert np.median([each.lost for each in found]) == pytest.approx(lost, rel=0.2)


def test_length_follows_the_rule_step_by_step() -> None:
    for seed, phi in enumerate((0.0, 0.4, 0.8)):
        x = autoregressive(300, phi, seed)
        x = x - x.mean()
        n, run = x.size, 5
        most = int(np.ceil(np.sqrt(n))) + run
        r = [float(np.sum(x[: n - k] * x[k:])) / n for k in range(most + 1)]
        limit = 2.0 * np.sqrt(np.log10(n) / n)
        quiet = [m for m in range(most - run + 1) if all(abs(r[m + k] / r[0]) < limit for k in range(1, run + 1))]
        m = 2 * max(quiet[0], 1)
        taper = [1.0 if k <= m / 2 else max(2.0 * (1.0 - k / m), 0.0) for k in range(most + 1)]
        g = sum(2.0 * k * taper[k] * r[k] for k in range(most + 1))
        variance = r[0] + 2.0 * sum(taper[k] * r[k] for k in range(1, most + 1))
        wanted = (2.0 * g**2 / (4.0 / 3.0 * variance**2) * n) ** (1.0 / 3.0)
        assert serial_blocks(x).length == max(1, min(int(np.ceil(wanted)), n // 10))


def test_autocovariances_are_means_of_products() -> None:
    x = np.random.default_rng(4).normal(size=57)
    x -= x.mean()
    expected = [float(x[: 57 - k] @ x[k:]) / 57 for k in range(12)]
    np.testing.assert_allclose(autocovariances(x, 11), expected, atol=1e-13)


@pytest.mark.parametrize("values", [np.zeros(100), np.ones(3), np.arange(10.0)])
def test_series_that_show_nothing_have_blocks_of_a_row(values: np.ndarray) -> None:
    assert serial_blocks(values) == (1, 0.0)


def test_ends_of_blocks_lose_a_third_of_the_reach_over_their_length() -> None:
    start = np.arange(4_000)
    length, lost = label_blocks(start, start + 10)
    assert (length, lost) == (40, pytest.approx(1.0 / 12.0, rel=0.01))
    ones = np.ones(11) / np.sqrt(11.0)
    x = np.convolve(np.random.default_rng(5).normal(size=400_010), ones, "valid")
    ratio = length * x.reshape(-1, length).mean(axis=1).var() / 11.0  # 11: the long-run variance
    assert ratio == pytest.approx(1.0 - lost, abs=0.03)


def test_rows_of_one_time_are_in_one_block_and_one_fold() -> None:
    time = np.random.default_rng(6).integers(0, 50, 400)
    dependence = Dependence(time=time, label_end=time + 1)
    units = units_of(dependence)
    for labels in (units.code, dependence.folds(5, 0)):
        assert all(np.unique(labels[time == t]).size == 1 for t in np.unique(time))
        order = np.argsort(time, kind="stable")
        assert (np.diff(labels[order]) >= 0).all()
    assert units.words == f"{units.n} blocks of 4 times"


def test_what_overlaps_the_rows_held_out_is_not_fitted_to() -> None:
    time = np.arange(100)
    dependence = Dependence(time=time, label_end=time + 7)
    folds = dependence.folds(5, 0)
    fitted = dependence.fitted_without(folds, 2)
    held = np.flatnonzero(folds == 2)
    assert np.flatnonzero(~fitted).tolist() == list(range(held[0] - 7, held[-1] + 8))


def test_the_longest_blocks_that_a_series_asks_for_are_taken() -> None:
    dependence = Dependence(time=np.arange(2_000))
    smooth, rough = autoregressive(2_000, 0.9, 7), np.random.default_rng(7).normal(size=2_000)
    alone = units_of(dependence, smooth).n
    assert units_of(dependence, rough, smooth).n == alone < 0.2 * units_of(dependence, rough).n


def test_taken_rows_keep_their_clusters_and_times() -> None:
    taken = Dependence(cluster=np.array([0, 1, 1, 2])).take(np.array([False, True, True, True]))
    assert taken.cluster is not None
    assert taken.cluster.tolist() == [0, 0, 1]
    assert not Dependence().take(np.arange(2))
    assert Dependence(time=np.arange(3)).take(np.array([2, 0])).time.tolist() == [2, 0]  # type: ignore[union-attr]


def test_refusals_name_what_is_wrong() -> None:
    with pytest.raises(CalibrantError, match=r"cluster and time are two ways .* Pass one of them"):
        read_dependence(2, [0, 1], [0, 1], None, rows="the forecast")
    with pytest.raises(CalibrantError, match=r"label_end says when a label was known, and needs time"):
        read_dependence(2, None, None, [0, 1], rows="the forecast")
    with pytest.raises(CalibrantError, match=r"the forecast has 3 rows and cluster has 2"):
        read_dependence(3, ["a", "b"], None, None, rows="the forecast")
    with pytest.raises(CalibrantError, match=r"known row 1: 0 is before the row's time 2 \(1 of 2 rows\)"):
        read_dependence(2, None, [0, 2], [1, 0], rows="f.csv", names=("c", "made", "known"))
    with pytest.raises(CalibrantError, match="cluster row 1: "):
        read_dependence(2, [1.0, np.nan], None, None, rows="the forecast")


def test_ends_are_student_of_what_has_no_skewness_and_reach_further_on_the_long_side() -> None:
    values = np.random.default_rng(8).normal(size=50)
    values = np.concatenate((values, -values))
    found = Units.of_rows(100).error_of_mean(values, np.ones(100))
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    assert found.ends(0.0, 0.9) == pytest.approx((expected.low, expected.high))
    losses = np.random.default_rng(9).exponential(size=60)
    low, high = Units.of_rows(60).error_of_mean(losses, np.ones(60)).ends(float(losses.mean()), 0.95)
    assert high - losses.mean() > 1.2 * (losses.mean() - low)


def test_ends_undo_the_transformation_of_hall() -> None:
    """With T the studentised mean, T + c T^2 / 3 + c^2 T^3 / 27 + c / 6 is near t: c is the skewness of the mean."""
    losses = np.random.default_rng(10).exponential(size=40)
    found = Units.of_rows(40).error_of_mean(losses, np.ones(40))
    assert found.skewness == pytest.approx(float(stats.skew(losses)) * (40 / 39) ** 1.5 / 40**0.5)
    for end, t in zip(found.ends(2.0, 0.9), (1.0, -1.0), strict=True):
        x, c = (2.0 - end) / found.error, found.skewness
        transformed = x + c * x**2 / 3.0 + c**2 * x**3 / 27.0 + c / 6.0
        assert transformed == pytest.approx(t * stats.t.ppf(0.95, 39))


@pytest.mark.slow
def test_intervals_of_skewed_losses_cover() -> None:
    """Of lognormal losses the symmetric interval covers 91% of 40 rows."""
    inside = np.zeros(2)
    true = float(np.exp(0.5 * 0.8**2))
    for seed in range(2_000):
        losses = np.exp(0.8 * np.random.default_rng(seed).normal(size=40))
        low, high = Units.of_rows(40).error_of_mean(losses, np.ones(40)).ends(float(losses.mean()), 0.95)
        plain = stats.ttest_1samp(losses, 0.0).confidence_interval(0.95)
        inside += [low <= true <= high, plain.low <= true <= plain.high]
    assert inside[0] / 2_000 > 0.93
    assert inside[1] / 2_000 < 0.92
