"""Weighted interval score, threshold-weighted CRPS and ranked probability score: those of scoringrules; and skill."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate, stats

from calibrant.errors import CalibrantError, InvalidInputError, InvalidLabelError, UnknownNameError
from calibrant.forecasts import (
    AverageRecalibrator,
    ClimatologyForecast,
    Forecast,
    GaussianForecast,
    GridForecast,
    QuantileForecast,
    SampleForecast,
    ScipyForecast,
    climatology,
    crps,
    evaluate,
    evaluate_horizons,
    evaluate_ordered,
    interval_score,
    persistence,
    pinball_loss,
    ranked_probability_score,
    skill,
    threshold_weighted_crps,
    weighted_interval_score,
)
from calibrant.forecasts.regions import row_region_crps
from calibrant.forecasts.scores import Outcomes

N = 40
LEVELS = [0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95]
REGIONS = [(-0.3, 0.8), (0.5, np.inf), (-np.inf, 0.2), (-0.05, 0.0)]


@pytest.fixture(scope="module")
def sr() -> ModuleType:
    """Import scoringrules, which compiles loops."""
    import scoringrules

    return scoringrules


def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=N), np.exp(0.3 * rng.normal(size=N))
    return mean, std, mean + 1.5 * std * rng.normal(size=N)


MEAN, STD, Y = drawn()
NORMAL = GaussianForecast(MEAN, STD)
SAMPLES = NORMAL.sample(30, 1)
WEIGHTS = np.random.default_rng(2).integers(1, 5, 30).astype(np.float64)
HISTORY = np.random.default_rng(3).normal(size=25)
QUANTILES = np.round(NORMAL.ppf(np.array([LEVELS])), 1)  # some of them equal, which are atoms


def in_region(forecast: Forecast, low: float, high: float) -> np.ndarray:
    return row_region_crps(Outcomes(forecast, Y, None), low, high)


@pytest.mark.parametrize(("low", "high"), REGIONS)
def test_the_crps_of_a_region_is_that_of_scoringrules(sr: ModuleType, low: float, high: float) -> None:
    at = np.clip(Y, low, high)
    close: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-13}
    expected = sr.crps_cnormal(at, MEAN, STD, lower=low, upper=high)
    np.testing.assert_allclose(in_region(NORMAL, low, high), expected, **close)
    expected = sr.twcrps_ensemble(Y, SAMPLES, a=low, b=high)
    np.testing.assert_allclose(in_region(SampleForecast(SAMPLES), low, high), expected, **close)
    expected = sr.twcrps_ensemble(Y, SAMPLES, a=low, b=high, ens_w=np.tile(WEIGHTS, (N, 1)))
    np.testing.assert_allclose(in_region(SampleForecast(SAMPLES, WEIGHTS), low, high), expected, **close)
    expected = sr.twcrps_ensemble(Y, np.tile(HISTORY, (N, 1)), a=low, b=high)
    np.testing.assert_allclose(in_region(ClimatologyForecast(HISTORY, N), low, high), expected, **close)
    student = ScipyForecast(stats.t(5, MEAN, STD))
    expected = sr.crps_ct(at, 5, MEAN, STD, lower=low, upper=high)
    np.testing.assert_allclose(in_region(student, low, high), expected, atol=1e-11)


@pytest.mark.parametrize(("low", "high"), [*REGIONS, (7.0, 9.0), (-9.0, -7.0)])
@pytest.mark.parametrize("kind", ["quantiles", "atoms", "grid"])
def test_the_crps_of_a_region_of_straight_pieces_is_quadrature(kind: str, low: float, high: float) -> None:
    forecast: Forecast = QuantileForecast(LEVELS, QUANTILES, tails="atoms" if kind == "atoms" else "exponential")
    if kind == "grid":
        forecast = GridForecast(np.linspace(-2.0, 2.0, 9), NORMAL.cdf(np.linspace(-2.0, 2.0, 9)[None, :]))
    found = in_region(forecast, low, high)
    for row in range(0, N, 8):
        one = forecast[[row]]

        def square(t: float, one: Forecast = one, y: float = Y[row]) -> float:
            return float(one.cdf(np.array([t]))[0] - (y <= t)) ** 2

        a, b = max(low, -60.0), min(high, 60.0)
        breaks = [*QUANTILES[row], *np.linspace(-2.0, 2.0, 9), Y[row]]
        ends = [a, *sorted({float(x) for x in breaks if a < x < b}), b]
        parts = [integrate.quad(square, u, v, epsabs=1e-12, limit=200)[0] for u, v in pairwise(ends)]
        assert found[row] == pytest.approx(sum(parts), abs=1e-9)


@given(st.floats(-3.0, 3.0), st.floats(0.01, 3.0))
@settings(max_examples=30)
def test_regions_that_make_up_the_line_add_up_to_the_crps(low: float, width: float) -> None:
    recalibrated = AverageRecalibrator(n_knots=5).fit(NORMAL, Y).transform(NORMAL)
    for forecast, tol in (
        (NORMAL, 1e-12),
        (QuantileForecast(LEVELS, QUANTILES), 1e-12),
        (SampleForecast(SAMPLES), 1e-12),
        (recalibrated, 2e-4),  # by quadrature, whose panels are others
    ):
        parts = [
            threshold_weighted_crps(forecast, Y, high=low),
            threshold_weighted_crps(forecast, Y, low=low, high=low + width),
            threshold_weighted_crps(forecast, Y, low=low + width),
        ]
        assert sum(parts) == pytest.approx(crps(forecast, Y), abs=tol)


def test_the_weighted_interval_score_is_that_of_scoringrules(sr: ModuleType) -> None:
    forecast = QuantileForecast(LEVELS, NORMAL.ppf(np.array([LEVELS])))
    alpha = np.array([0.6, 0.2, 0.1])
    low, high = (NORMAL.ppf(each[None, :]) for each in (alpha / 2.0, 1.0 - alpha / 2.0))
    expected = sr.weighted_interval_score(Y, MEAN, low, high, alpha)
    assert weighted_interval_score(forecast, Y) == pytest.approx(float(np.mean(expected)), abs=1e-13)
    assert weighted_interval_score(NORMAL, Y, levels=[0.4, 0.8, 0.9]) == pytest.approx(float(np.mean(expected)))
    hub = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    for given_forecast in (NORMAL, SampleForecast(SAMPLES), ScipyForecast(stats.t(5, MEAN, STD))):
        low, high = (given_forecast.ppf(each[None, :]) for each in (hub / 2.0, 1.0 - hub / 2.0))
        expected = sr.weighted_interval_score(Y, given_forecast.ppf(0.5), low, high, hub)
        assert weighted_interval_score(given_forecast, Y) == pytest.approx(float(np.mean(expected)), abs=1e-12)


def test_the_weighted_interval_score_is_twice_the_mean_pinball_loss() -> None:
    forecast = QuantileForecast(LEVELS, QUANTILES)
    expected = 2.0 * np.mean([pinball_loss(forecast, Y, level=level) for level in LEVELS])
    assert weighted_interval_score(forecast, Y) == pytest.approx(float(expected), abs=1e-12)
    without = QuantileForecast([0.1, 0.4], QUANTILES[:, 1:3])
    with pytest.raises(InvalidInputError, match="no two quantiles given are the ends"):
        weighted_interval_score(without, Y)
    outer = QuantileForecast([0.1, 0.9], QUANTILES[:, [1, 5]])
    beyond = pytest.raises(
        CalibrantError, match=r"levels: 0\.95 asks for quantiles beyond those given, from 0\.1 to 0\.9"
    )
    with beyond:
        weighted_interval_score(outer, Y, levels=[0.95])
    scored = 0.1 * interval_score(outer, Y, level=0.8) + 0.5 * np.abs(Y - outer.ppf(0.5)).mean()
    assert weighted_interval_score(outer, Y) == pytest.approx(scored / 1.5)


@given(st.lists(st.integers(0, 6), min_size=4, max_size=4).filter(any), st.integers(0, 3))
def test_the_ranked_probability_score_is_that_of_exact_fractions_and_of_scoringrules(
    sr: ModuleType, parts: list[int], y: int
) -> None:
    shares = [Fraction(part, sum(parts)) for part in parts]
    exact = sum((sum(shares[: k + 1], Fraction(0)) - (y <= k)) ** 2 for k in range(4))
    prob = np.array([[float(share) for share in shares]])
    found = ranked_probability_score([y], prob, classes=[0, 1, 2, 3])
    assert found == pytest.approx(float(exact), abs=1e-14)
    assert found == pytest.approx(float(sr.rps_score(np.array([y + 1]), prob)[0]), abs=1e-14)


def test_the_order_of_the_classes_is_the_caller_s(sr: ModuleType) -> None:
    prob = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 50)
    place = np.random.default_rng(1).integers(0, 3, 50)
    order = ["low", "middle", "high"]  # sorted, high would come first
    names = np.array(order)[place]
    expected = float(np.mean(sr.rps_score(place + 1, prob)))
    assert ranked_probability_score(names, prob, classes=order) == pytest.approx(expected, abs=1e-13)
    assert ranked_probability_score(names, prob) != pytest.approx(expected, abs=1e-3)
    assert ranked_probability_score([0, 1], [0.2, 0.6]) == pytest.approx(0.5 * (0.2**2 + 0.4**2))
    with pytest.raises(InvalidLabelError, match="names a class twice"):
        ranked_probability_score(names, prob, classes=["low", "low", "high"])
    with pytest.raises(CalibrantError, match="y_true has 49 rows and y_prob has 50"):
        ranked_probability_score(names[:-1], prob, classes=order)


def test_skill_of_ordered_classes_is_paired_and_weighted() -> None:
    rng = np.random.default_rng(0)
    prob = rng.dirichlet([1.0, 1.0, 1.0], 400)
    place = np.array([rng.choice(3, p=row) for row in prob])
    scores = evaluate_ordered(place, prob, reference=[1 / 3, 1 / 3, 1 / 3])
    own = ranked_probability_score(place, prob)
    other = ranked_probability_score(place, np.full((400, 3), 1 / 3))
    assert scores["skill"].value == pytest.approx(1.0 - own / other)
    assert scores.verdict.startswith("Better than the reference")
    weight = rng.integers(0, 3, 400)
    rows = np.repeat(np.arange(400), weight)
    weighted = evaluate_ordered(place, prob, reference=prob[::-1], sample_weight=weight)
    repeated = evaluate_ordered(place[rows], prob[rows], reference=prob[::-1][rows])
    for name in weighted:
        assert weighted[name].value == pytest.approx(repeated[name].value)


def test_climatology_is_the_samples_in_every_row(sr: ModuleType) -> None:
    forecast, samples = climatology(HISTORY, N), SampleForecast(np.tile(HISTORY, (N, 1)))
    at, levels = np.linspace(-2.0, 2.0, 9)[None, :], np.array([[0.0, 0.1, 0.5, 0.96, 1.0]])
    np.testing.assert_array_equal(forecast.cdf(at), samples.cdf(at))
    np.testing.assert_array_equal(forecast.cdf_below(HISTORY[:1].repeat(N)), samples.cdf_below(HISTORY[:1].repeat(N)))
    np.testing.assert_array_equal(forecast.ppf(levels), samples.ppf(levels))
    np.testing.assert_allclose(forecast.crps(Y), sr.crps_ensemble(Y, np.tile(HISTORY, (N, 1))), atol=1e-13)
    np.testing.assert_allclose([forecast.mean()[0], forecast.std()[0]], [HISTORY.mean(), HISTORY.std()])
    assert len(forecast[3:7]) == 4
    with pytest.raises(InvalidInputError, match="history has 1 outcome"):
        climatology([1.0], 3)


def test_persistence_is_the_absolute_error_and_dressed_it_is_the_changes(sr: ModuleType) -> None:
    assert crps(persistence(MEAN), Y) == pytest.approx(float(np.abs(MEAN - Y).mean()))
    dressed = persistence(MEAN, changes=HISTORY)
    np.testing.assert_allclose(dressed.crps(Y), sr.crps_ensemble(Y, MEAN[:, None] + HISTORY), atol=1e-13)
    many = persistence(MEAN, changes=np.random.default_rng(0).normal(size=50_000))
    np.testing.assert_allclose(many.crps(Y), GaussianForecast(MEAN, 1.0).crps(Y), atol=0.01)


@pytest.mark.parametrize("score", ["crps", "pinball_loss", "interval_score", "weighted_interval_score"])
def test_skill_is_one_less_the_ratio_of_scores_and_its_interval_covers(score: str) -> None:
    found = skill(NORMAL, Y, GaussianForecast(np.zeros(N), 2.0), score=score)
    assert found["skill"].value == pytest.approx(1.0 - found[score].value / found["reference_score"].value)
    assert found["difference"].value == pytest.approx(found[score].value - found["reference_score"].value)
    assert skill(NORMAL, Y, NORMAL, score=score)["skill"].value == pytest.approx(0.0)
    with pytest.raises(UnknownNameError, match=r"unknown score 'crp'\. Did you mean 'crps'"):
        skill(NORMAL, Y, NORMAL, score="crp")


def test_the_interval_of_skill_covers_the_true_skill() -> None:
    """Of 400 samples of 150 rows: the true skill of N(m, 1) against N(0, sqrt 2) in CRPS is 1 - 1 / sqrt 2."""
    held = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        mean = rng.normal(size=150)
        y = mean + rng.normal(size=150)
        found = skill(GaussianForecast(mean, 1.0), y, GaussianForecast(np.zeros(150), np.sqrt(2.0)))["skill"]
        held.append(found.low <= 1.0 - 1.0 / np.sqrt(2.0) <= found.high)
    assert 0.92 < np.mean(held) < 0.98


def test_skill_against_a_reference_without_a_loss_is_not_defined_and_nothing_is_infinite() -> None:
    found = evaluate_ordered([0, 1, 2], np.full((3, 3), 1.0 / 3.0), reference=np.eye(3))
    assert found["skill"].note == "undefined: the reference's score is zero"
    assert "infinite" not in str(found)


def test_skill_takes_weights_clusters_and_says_what_is_missing() -> None:
    weight = np.random.default_rng(0).integers(0, 3, N)
    rows = np.repeat(np.arange(N), weight)
    other = persistence(MEAN[::-1])
    weighted, repeated = skill(NORMAL, Y, other, sample_weight=weight), skill(NORMAL[rows], Y[rows], other[rows])
    assert weighted["skill"].value == pytest.approx(repeated["skill"].value)
    twice = np.repeat(np.arange(N), 2)
    alone, together = (
        skill(NORMAL[twice], Y[twice], other[twice], cluster=cluster)["skill"] for cluster in (None, twice)
    )
    assert together.high - together.low > 1.3 * (alone.high - alone.low)
    with pytest.raises(InvalidInputError, match='reference="climatology" needs history'):
        skill(NORMAL, Y)
    with pytest.raises(InvalidInputError, match="reference has 3 rows and the forecast 40"):
        skill(NORMAL, Y, NORMAL[:3])


def test_evaluate_has_the_new_scores_with_intervals() -> None:
    scores = evaluate(NORMAL, Y, region=(0.5, None))
    assert scores["threshold_weighted_crps"].value == pytest.approx(threshold_weighted_crps(NORMAL, Y, low=0.5))
    assert scores["weighted_interval_score"].value == pytest.approx(weighted_interval_score(NORMAL, Y))
    for name in ("threshold_weighted_crps", "weighted_interval_score"):
        assert 0.0 <= scores[name].low < scores[name].value < scores[name].high
    for region, words in (
        ((1.0, 0.0), "low=1 is not below high=0"),
        ((None, None), "neither low nor high"),
        (3, "pair"),
    ):
        with pytest.raises(CalibrantError, match=words):
            evaluate(NORMAL, Y, region=region)


def test_horizons_are_measured_as_if_they_were_alone_and_in_rising_order() -> None:
    step = np.tile([12, 1, 3], 40)
    rng = np.random.default_rng(0)
    y = rng.normal(scale=np.sqrt(step))
    forecast, last, origin = GaussianForecast(np.zeros(120), 1.0), rng.normal(size=120), np.repeat(np.arange(20), 6)
    found = evaluate_horizons(forecast, y, step, reference=persistence(last), cluster=origin)
    assert list(found.by_horizon) == [1, 3, 12]
    for horizon, scores in found.by_horizon.items():
        own = step == horizon
        alone = evaluate(forecast[own], y[own], cluster=origin[own])
        for name in ("crps", "coverage", "bias", "average_calibration_error"):
            assert scores[name].value == pytest.approx(alone[name].value)
            if name != "average_calibration_error":  # whose bounds are drawn
                assert (scores[name].low, scores[name].high) == pytest.approx((alone[name].low, alone[name].high))
        against = skill(forecast[own], y[own], persistence(last[own]), cluster=origin[own])
        assert scores["skill"].value == pytest.approx(against["skill"].value)
    assert 12 in found.off
    assert found.verdict.startswith("Not calibrated at")
    header, lines = found.lines()
    assert header[:4] == ["horizon", "n", "crps", "95% interval"]
    assert [line[:2] for line in lines] == [["1", "40"], ["3", "40"], ["12", "40"]]
    assert [part["horizon"] for part in found.to_dict()["horizons"]] == [1, 3, 12]


def test_a_horizon_of_one_row_and_rows_of_other_lengths_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"horizon 2 has 1 row\. Pass more of them"):
        evaluate_horizons(NORMAL[:4], Y[:4], [1, 1, 1, 2])
    with pytest.raises(CalibrantError, match="forecast has 4 rows and horizon has 3"):
        evaluate_horizons(NORMAL[:4], Y[:4], [1, 1, 1])
