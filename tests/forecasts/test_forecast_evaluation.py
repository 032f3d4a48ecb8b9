"""evaluate and evaluate_rule: the figures of the functions, intervals that cover, gaps beside their noise floors."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from forecast_cases import forecasts, misjudged, right
from scipy import stats

from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.forecasts import (
    GaussianForecast,
    QuantileForecast,
    SampleForecast,
    ScipyForecast,
    ThresholdRule,
    average_calibration_error,
    coverage,
    crps,
    decision_loss,
    distribution_calibration_error,
    evaluate,
    evaluate_rule,
    evaluation,
    interval_score,
    log_score,
    pinball_loss,
    reliability_gap,
    reliability_gaps,
    sharpness,
    threshold_calibration_error,
    threshold_calibration_errors,
    weighted_interval_score,
)
from calibrant.forecasts.coverage import promised_coverage
from calibrant.forecasts.noise import GapByChance, _sizes_over_costs
from calibrant.forecasts.scores import read_outcomes
from calibrant.forecasts.verdict import IntervalCoverage

TABLE = ((0.0, 4.0), (1.0, 0.0))
RULE = (0.2, 0.45)


@pytest.fixture(scope="module")
def scores():
    return evaluate(*misjudged(600), evaluated_on="held-out")


@pytest.fixture
def unbounded(monkeypatch):
    """Leave out the noise bounds of gaps, half of the time of `evaluate`: what is said of independent rows has none."""
    monkeypatch.setattr(evaluation, "gap_noises", lambda *_: defaultdict(lambda: np.array([0.0, 1.0])))


@pytest.mark.slow
def test_figures_are_those_of_the_functions(scores):
    forecast, y = misjudged(600)
    errors, gaps = threshold_calibration_errors(forecast, y), reliability_gaps(forecast, y)
    best = np.arange(50)
    expected = {
        "crps": crps(forecast, y),
        "log_score": log_score(forecast, y),
        "pinball_loss": pinball_loss(forecast, y),
        "interval_score": interval_score(forecast, y),
        "weighted_interval_score": weighted_interval_score(forecast, y),
        "coverage": coverage(forecast, y),
        "sharpness": sharpness(forecast),
        "bias": float(np.mean(forecast.mean() - y)),
        "average_calibration_error": average_calibration_error(forecast, y),
        "threshold_calibration_error": errors.mean,
        "max_threshold_calibration_error": errors.max,
        "distribution_calibration_error": distribution_calibration_error(forecast, y),
        "reliability_gap": gaps.mean,
        "max_reliability_gap": gaps.max,
        "decision_loss": float(gaps.true[:, best, best].mean()),
    }
    assert list(scores) == list(expected)
    for name, value in expected.items():
        assert scores[name].value == pytest.approx(value, abs=1e-12)
        assert scores[name].low <= value <= scores[name].high
        assert scores[name].n == 600
        assert scores[name].evaluated_on == "held-out"


@pytest.mark.slow
def test_gaps_stand_beside_their_noise_floor(scores):
    gaps = [name for name in scores if name.endswith(("_error", "_gap"))]
    assert len(gaps) == 6
    floors = {name: float(scores[name].note.removeprefix("noise floor ")) for name in gaps}
    assert floors["average_calibration_error"] == pytest.approx(0.3133 / np.sqrt(600.0), rel=0.35)
    assert all(0.0 < floor < scores[name].value for name, floor in floors.items())


@pytest.mark.slow
def test_verdict_says_what_is_wrong(scores):
    assert scores.verdict.startswith("Not calibrated: on average over levels (error ")
    assert "in the losses that they promise (gap " in scores.verdict
    assert "Intervals are too narrow: those of 90% hold " in scores.verdict
    wide = evaluate(GaussianForecast(np.zeros(400), 3.0), np.random.default_rng(1).normal(size=400))
    assert "Intervals are too wide: those of 90% hold 100.0%" in wide.verdict


def test_intervals_that_err_are_not_called_within_chance_by_the_sentence_before():
    """Of rows that depend on each other the gaps are within chance, and the share that intervals hold is not."""
    rng = np.random.default_rng(0)
    time = np.arange(91)
    mean = rng.normal(size=91)
    y = mean + rng.normal(size=91) * 1.5
    found = evaluate(GaussianForecast(mean, np.ones(91)), y, time=time, label_end=time + 1000)
    assert found.verdict.startswith("Not calibrated. Intervals are too narrow: those of 90% hold ")


@pytest.mark.slow
@pytest.mark.usefixtures("unbounded")
def test_forecasts_that_are_right_are_rarely_called_wrong():
    """At 5%, 80 samples have 4 false alarms, and 9 or more with a chance of 2%; each gap at 5% gave 14."""
    verdicts = [evaluate(*right(40, seed), rng=seed).verdict for seed in range(80)]
    fine = [text == "No gap is beyond what chance gives a forecast that is right." for text in verdicts]
    assert 80 - sum(fine) <= 8


def test_the_limit_of_a_gap_is_exceeded_as_often_as_it_says():
    rng = np.random.default_rng(0)
    draws, new = np.exp(rng.normal(-3.0, 0.5, (4_000, 20))), np.exp(rng.normal(-3.0, 0.5, 4_000))
    above = new > [GapByChance.of_draws(each, 0.0125).limit for each in draws]
    assert above.mean() == pytest.approx(0.0125, abs=0.005)


def test_intervals_whose_ends_are_atoms_are_judged_by_what_right_ones_hold():
    """Of counts, the central 90% hold more: of a mean of 1, {0, ..., 3}, which is 98%."""
    rng = np.random.default_rng(0)
    mean = rng.uniform(0.5, 4.0, 400)
    y = rng.poisson(mean)
    right_verdict = "No gap is beyond what chance gives a forecast that is right."
    low, high = stats.poisson(mean).interval(0.9)
    held = np.mean(stats.poisson(mean).cdf(high) - stats.poisson(mean).cdf(low - 1.0))
    forecast = ScipyForecast(stats.poisson(mean))
    assert promised_coverage(read_outcomes(forecast, y), 0.9) == pytest.approx((held, held), abs=1e-12)
    assert evaluate(forecast, y).verdict == right_verdict
    drawn = SampleForecast(rng.poisson(mean[:, None], (400, 200)))
    assert evaluate(drawn, y).verdict == right_verdict
    spread = stats.nbinom(1.0, 1.0 / (1.0 + mean))
    wide = evaluate(ScipyForecast(spread), y).verdict
    assert f"Intervals are too wide: those of 90% hold {np.mean(y <= spread.ppf(0.95)):.1%}" in wide
    assert ", where right ones hold 9" in wide


def test_equal_quantiles_are_judged_as_the_atom_that_they_may_be():
    """Half of the outcomes are 0, as of rain: the quantiles at 0.05 and 0.5 are 0, and their interval holds 95%."""
    rng = np.random.default_rng(1)
    y = np.where(rng.random(600) < 0.5, 0.0, rng.exponential(size=600))
    quantiles = [0.0, 0.0, -np.log(0.1)]
    forecast = QuantileForecast([0.05, 0.5, 0.95], np.tile(quantiles, (600, 1)))
    assert promised_coverage(read_outcomes(forecast, y), 0.9) == pytest.approx((0.9, 0.95))
    assert "too wide" not in evaluate(forecast, y).verdict
    both = QuantileForecast([0.05, 0.5, 0.95, 0.99], np.tile([0.0, 1.0, 2.0, 2.0], (3, 1)))
    assert promised_coverage(read_outcomes(both, np.ones(3)), 0.9) == pytest.approx((0.9, 0.95))


def test_a_log_score_of_both_infinities_is_said_to_be_undefined():
    """An outcome on an atom scores minus infinity, one beyond a closed end infinity; their mean is not infinite."""
    forecast = QuantileForecast([0.0, 0.5, 0.9, 1.0], np.tile([0.0, 1.0, 1.0, 2.0], (2, 1)))
    notes = [evaluate(forecast, y)["log_score"].note for y in ([1.0, 5.0], [5.0, 5.0], [1.0, 1.0])]
    assert notes[0] == "undefined: infinite in some rows, minus infinity in others: see log_score"
    assert notes[1:] == ["infinite: see log_score"] * 2


def test_bins_of_one_row_each_show_no_noise_and_so_promise_nothing():
    found = evaluate(GaussianForecast([50.0, 45.0, 60.0], [2.0, 1.5, 3.0]), [53.0, 49.0, 66.0])
    error = found["distribution_calibration_error"]
    assert error.low == 0.0
    assert error.high >= 0.5


@pytest.mark.slow
def test_intervals_cover_the_values_of_many_rows():
    names = ("crps", "coverage", "average_calibration_error", "threshold_calibration_error")
    forecast, y = misjudged(60_000, 99)
    truth = (
        crps(forecast, y),
        coverage(forecast, y),
        average_calibration_error(forecast, y),
        threshold_calibration_errors(forecast, y).mean,
    )
    inside = np.zeros(4)
    for seed in range(12):
        found = evaluate(*misjudged(400, seed))
        inside += [found[name].low <= value <= found[name].high for name, value in zip(names, truth, strict=True)]
    assert (inside >= 10).all()


def test_interval_of_the_decision_loss_is_that_of_a_mean(scores):
    loss = scores["decision_loss"]
    assert loss.method == "Hall's t"
    assert 0.5 * (loss.low + loss.high) == pytest.approx(loss.value, rel=0.01)  # which is skewed a little


@pytest.mark.slow
def test_same_seed_gives_the_same_scores():
    forecast, y = misjudged(100)
    assert evaluate(forecast, y, rng=3).to_dict() == evaluate(forecast, y, rng=3).to_dict()
    assert evaluate(forecast, y, rng=3).to_dict() != evaluate(forecast, y, rng=4).to_dict()


@pytest.mark.slow
def test_forecasts_without_a_density_have_no_log_score():
    sample = evaluate(forecasts(50)["sample"], np.random.default_rng(1).normal(size=50))
    assert "log_score" not in sample
    assert np.isnan(evaluate(*right(20))["threshold_calibration_error"].value)
    assert evaluate(*right(20))["threshold_calibration_error"].note == (
        "undefined: no rule leaves 21 rows on both sides"
    )


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows_are_scored_without_a_silent_nan(n):
    for score in evaluate(*right(n)).values():
        assert np.isfinite([score.value, score.low, score.high]).all() or score.note


@pytest.mark.slow
def test_weights_count_as_rows():
    forecast, y = misjudged(80)
    weight = np.random.default_rng(1).integers(1, 3, 80)
    numbers = np.repeat(np.arange(80), weight)
    weighted, repeated = evaluate(forecast, y, sample_weight=weight), evaluate(forecast[numbers], y[numbers])
    for name in ("crps", "coverage", "average_calibration_error", "decision_loss", "bias"):
        assert weighted[name].value == pytest.approx(repeated[name].value, abs=1e-12)


def test_refusals_name_what_is_wrong():
    with pytest.raises(InvalidInputError, match=r"interval_level=1.5 is outside"):
        evaluate(*right(5), interval_level=1.5)
    with pytest.raises(InvalidInputError, match=r"y row 1: nan is not finite \(1 of 2 rows\)"):
        evaluate(GaussianForecast([0.0, 1.0], 1.0), [0.0, np.nan])


def test_rule_figures_are_those_of_the_functions():
    forecast, y = misjudged(500)
    weight = np.random.default_rng(0).random(500) + 0.2
    scores = evaluate_rule(forecast, y, RULE, TABLE, sample_weight=weight, evaluated_on="held-out")
    losses = decision_loss(forecast, y, RULE, TABLE, sample_weight=weight)
    expected = {
        "decided_yes": np.average(forecast.cdf(0.2) <= 0.45, weights=weight),
        "promised_loss": losses.predicted,
        "realised_loss": losses.true,
        "reliability_gap": reliability_gap(forecast, y, RULE, TABLE, sample_weight=weight),
        "threshold_calibration_error": threshold_calibration_error(forecast, y, *RULE, sample_weight=weight),
    }
    assert set(scores) == set(expected)
    for name, value in expected.items():
        assert scores[name].value == pytest.approx(value, abs=1e-12)
        assert scores[name].low <= value <= scores[name].high
        assert (scores[name].n, scores[name].evaluated_on) == (500, "held-out")
    for name in ("reliability_gap", "threshold_calibration_error"):
        assert scores[name].note.startswith("noise floor 0.")


def test_without_a_loss_only_the_error_is_measured():
    scores = evaluate_rule(*right(200), ThresholdRule(0.0, 0.5, is_above=True))
    assert list(scores) == ["decided_yes", "threshold_calibration_error"]
    assert scores["threshold_calibration_error"].value == pytest.approx(
        threshold_calibration_error(*right(200), 0.0, 0.5)
    )


@pytest.mark.slow
def test_intervals_hold_the_true_figures_as_often_as_they_say():
    """Of the rows of a large sample, small ones are drawn: its figures are the true ones."""
    forecast, y = misjudged(40_000, 3)
    true = evaluate_rule(forecast, y, RULE, TABLE)
    rng = np.random.default_rng(1)
    inside = dict.fromkeys(true, 0)
    for seed in range(100):
        rows = rng.integers(0, 40_000, 400)
        scores = evaluate_rule(forecast[rows], y[rows], RULE, TABLE, rng=seed)
        for name in inside:
            inside[name] += scores[name].low <= true[name].value <= scores[name].high
    assert min(inside.values()) >= 88


@pytest.mark.slow
def test_the_verdict_tells_the_truth_from_what_is_misjudged():
    accused = sum("beyond" in evaluate_rule(*right(300, seed), RULE, TABLE).verdict for seed in range(40))
    assert accused <= 6
    verdict = evaluate_rule(*misjudged(3_000), RULE, TABLE).verdict
    assert "Not calibrated on the sides of this rule" in verdict
    assert "was promised" in verdict


def test_a_weight_of_two_is_two_rows():
    forecast, y = misjudged(200)
    weight = np.random.default_rng(2).integers(0, 3, 200)
    rows = np.repeat(np.arange(200), weight)
    weighted = evaluate_rule(forecast, y, RULE, TABLE, sample_weight=weight)
    repeated = evaluate_rule(forecast[rows], y[rows], RULE, TABLE)
    for name in weighted:
        assert weighted[name].value == pytest.approx(repeated[name].value, abs=1e-12)
        assert weighted[name].high - weighted[name].low >= repeated[name].high - repeated[name].low - 0.02


@pytest.mark.parametrize("kind", ["quantile, atoms", "sample", "poisson", "grid, jump"])
def test_every_kind_of_forecast_is_taken(kind):
    forecast = forecasts(60)[kind]
    scores = evaluate_rule(forecast, forecast.sample(1, 1)[:, 0], (0.5, 0.5), TABLE)
    assert all(np.isfinite([s.value, s.low, s.high]).all() for s in scores.values())


def test_rule_refusals_name_what_is_wrong():
    with pytest.raises(InvalidTypeError, match=r"Pass ThresholdRule\(y0, alpha\)"):
        evaluate_rule(*right(30), 0.5)
    with pytest.raises(InvalidInputError, match=r"level=1\.5 is outside"):
        evaluate_rule(*right(30), RULE, level=1.5)


@pytest.mark.usefixtures("unbounded")
@pytest.mark.parametrize("kind", ["poisson", "normal"])
def test_few_samples_of_what_outcomes_are_drawn_from_are_not_called_too_narrow(kind):
    """Of 25 such samples of rows 25 were, and 23 of counts, where right intervals were to hold what the samples do."""
    accused, found = 0, 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        centre = rng.uniform(1.0, 6.0, 200)
        draw = rng.poisson if kind == "poisson" else rng.normal
        samples, y = draw(centre[:, None], size=(200, 20)).astype(float), draw(centre).astype(float)
        accused += "too narrow" in evaluate(SampleForecast(samples), y).verdict
        middle = samples.mean(axis=1, keepdims=True)
        narrow = SampleForecast(middle + 0.5 * (samples - middle))
        found += "too narrow" in evaluate(narrow, y).verdict
    assert accused <= 1
    assert found == 12


def test_sizes_over_costs_are_those_of_every_cost():
    rng = np.random.default_rng(0)
    cost = rng.permutation(np.r_[0.0, 0.25, 0.25, rng.uniform(size=20), 1.0])
    a, b = rng.normal(size=(30, 7)), rng.normal(size=(30, 1))
    a[:3, 0], b[0], b[1] = 0.0, 0.0, a[1, 1] / 0.25
    each = np.abs(a[..., None] - cost * b[..., None])
    mean, largest = _sizes_over_costs(a, b, cost)
    np.testing.assert_allclose(mean, each.mean(axis=2), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(largest, each.max(axis=2), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_rows_are_not_judged_by_their_coverage(n: int) -> None:
    narrow = GaussianForecast(np.zeros(n), 1.0)
    assert "too narrow" not in evaluate(narrow, np.full(n, 2.3)).verdict  # of right ones one row in ten lies outside


def test_coverage_of_few_rows_is_judged_by_the_binomial_test() -> None:
    for held, n, promised in ((2, 5, 0.9), (9, 10, 0.5), (0, 3, 0.8), (30, 40, 0.9)):
        exact = {
            "narrow": stats.binomtest(held, n, promised, alternative="less").pvalue,
            "wide": stats.binomtest(held, n, promised, alternative="greater").pvalue,
        }
        for chance in (0.2, 0.01, 1e-4):
            side = IntervalCoverage(promised, held / n, float(n), (promised, promised), chance).side
            assert side == next((name for name, p in exact.items() if p < 0.5 * chance), "")
