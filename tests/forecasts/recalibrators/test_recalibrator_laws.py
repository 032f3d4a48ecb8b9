"""Laws that every recalibrator keeps, on every kind of forecast and number of rows."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fixture_rows import Array, misspecified, truthful
from hypothesis import given, settings, strategies as st
from scipy import stats

import calibrant as cb
from calibrant.errors import CalibrantError, DocumentError, InvalidInputError, NotFittedError
from calibrant.forecasts import (
    AverageRecalibrator,
    ConformalRecalibrator,
    DistributionRecalibrator,
    Forecast,
    GaussianForecast,
    GridForecast,
    Outcomes,
    QuantileForecast,
    Recalibrator,
    SampleForecast,
    ThresholdRecalibrator,
    VarianceScalingRecalibrator,
    persistence,
)
from calibrant.forecasts.recalibrators.rounds import Regularised, Rounds, ThresholdChain, middle_thresholds

METHODS: dict[str, Callable[[], Recalibrator]] = {
    "average": AverageRecalibrator,
    "average, smooth": lambda: AverageRecalibrator(n_knots=20),
    "conformal": ConformalRecalibrator,
    "conformal, residual": lambda: ConformalRecalibrator("residual"),
    "conformal, level": lambda: ConformalRecalibrator("level"),
    "distribution": DistributionRecalibrator,
    "threshold": lambda: ThresholdRecalibrator(max_rounds=6),
    "threshold, bagged": lambda: ThresholdRecalibrator(max_rounds=3, bagged=True, n_folds=3),
    "threshold, direct": lambda: ThresholdRecalibrator(max_rounds=3, direct_layer=True),
    "threshold, paper": lambda: ThresholdRecalibrator("paper", max_rounds=12),
    "threshold, epsilon": lambda: ThresholdRecalibrator(max_rounds=5, stopping="epsilon"),
    "variance": VarianceScalingRecalibrator,
    "variance, shift": lambda: VarianceScalingRecalibrator(shift=True),
}
#: Fits that deal rows to folds, where a row of weight 2 is one row.
FOLDED = ("threshold", "threshold, bagged", "threshold, direct")
KINDS: dict[str, Callable[[GaussianForecast], Forecast]] = {
    "gaussian": lambda f: f,
    "quantile": lambda f: QuantileForecast(np.linspace(0.1, 0.9, 9), f.ppf(np.linspace(0.1, 0.9, 9)[None, :])),
    "sample": lambda f: SampleForecast(f.sample(40, 1)),
}
POINTS = np.linspace(-9.0, 9.0, 61)[None, :]


def outcomes(kind: str, y: Array) -> Array:
    return {
        "continuous": y,
        "rounded": np.round(y),
        "two values": np.where(y > 0.0, 1.0, 0.0),
        "one value": np.full(y.size, 0.3),
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_a_recalibrated_cdf_rises_from_0_to_1_and_quantiles_reach_their_level(method: str, kind: str) -> None:
    new = KINDS[kind](misspecified(30, 9)[0])
    for n in (2, 5, 30, 100):
        forecast, y = misspecified(n)
        for labels in ("continuous", "rounded", "two values", "one value"):
            after = METHODS[method]().fit(KINDS[kind](forecast), outcomes(labels, y)).transform(new)
            cdf = after.cdf(POINTS)
            assert np.isfinite(cdf).all()
            assert (np.diff(cdf, axis=1) >= -1e-12).all()
            np.testing.assert_allclose(after.cdf(np.array([[-1e9, 1e9]])), [[0.0, 1.0]] * 30, atol=1e-9)
            u = np.array([[0.01, 0.1, 0.37, 0.5, 0.9, 0.99]])
            y_at = after.ppf(u)
            assert np.isfinite(y_at).all()
            assert (after.cdf(y_at) >= u - 1e-9).all()
            below = y_at - 1e-9 * np.maximum(np.abs(y_at), 1.0)
            assert (after.cdf(below) <= u + 1e-9).all()
            assert (np.diff(y_at, axis=1) >= 0.0).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_lower_end_of_a_finite_forecast_is_its_quantile_of_level_0(method: str) -> None:
    normal, y = misspecified(60)
    low, high = normal.interval(0.9)
    corners = np.column_stack((low, high))
    for forecast in (
        SampleForecast(corners),
        QuantileForecast([0.1, 0.9], corners, tails="atoms"),
        GridForecast(corners, [[0.2, 1.0]] * 60, tails="atoms"),
        GridForecast(corners, [[0.0, 1.0]] * 60),
    ):
        after = METHODS[method]().fit(forecast, y).transform(forecast)
        np.testing.assert_allclose(after.ppf(0.0), after.ppf(1e-11), atol=1e-4)


@pytest.mark.parametrize("method", ["average", "distribution", "threshold, bagged", "variance, shift"])
def test_integrals_of_a_recalibrated_ensemble_are_sums_over_its_members(method: str) -> None:
    normal, y = misspecified(200)
    forecast = SampleForecast(np.round(normal.sample(10, 1), 1))
    after = METHODS[method]().fit(forecast, y).transform(forecast)
    after = AverageRecalibrator().fit(after, y).transform(after)  # of what was recalibrated too
    members = np.sort(np.round(normal.sample(10, 1), 1), axis=1)
    same = SampleForecast(members, np.maximum(np.diff(after.cdf(members), axis=1, prepend=0.0), 0.0))
    for got, expected in ((after.mean(), same.mean()), (after.std(), same.std()), (after.crps(y), same.crps(y))):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_invert_the_cdf_and_the_density_is_its_slope(method: str) -> None:
    forecast, y = misspecified(600)
    after = METHODS[method]().fit(forecast, y).transform(misspecified(40, 5)[0])
    u = np.linspace(0.03, 0.97, 23)[None, :]
    at = after.ppf(u)
    np.testing.assert_allclose(after.cdf(at), np.broadcast_to(u, at.shape), atol=1e-6)
    step = 1e-7
    slope = (after.cdf(at + step) - after.cdf(at - step)) / (2.0 * step)
    near = np.abs(slope / after.pdf(at) - 1.0) < 1e-4
    assert near.mean() > 0.95  # all but those with a knot within the step


@pytest.mark.parametrize("method", METHODS)
def test_one_row_alone_gives_the_same_bits(method: str) -> None:
    forecast, y = misspecified(300)
    fitted = METHODS[method]().fit(forecast, y)
    new = misspecified(20, 3)[0]
    together = fitted.transform(new)
    for row in (0, 7, 19):
        assert np.array_equal(fitted.transform(new[[row]]).cdf(POINTS), together.cdf(POINTS)[[row]])
        assert np.array_equal(together[[row]].logpdf(POINTS), together.logpdf(POINTS)[[row]])


@pytest.mark.parametrize("method", [name for name in METHODS if name not in FOLDED])
def test_weight_two_is_two_rows_and_weight_zero_none(method: str) -> None:
    forecast, y = misspecified(200)
    weight = np.random.default_rng(0).integers(0, 3, 200).astype(np.float64)
    rows = np.repeat(np.arange(200), weight.astype(int))
    new = misspecified(20, 3)[0]
    weighted = METHODS[method]().fit(forecast, y, sample_weight=weight).transform(new)
    repeated = METHODS[method]().fit(forecast[rows], y[rows]).transform(new)
    np.testing.assert_allclose(weighted.cdf(POINTS), repeated.cdf(POINTS), atol=1e-9)


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
@pytest.mark.parametrize("method", METHODS)
def test_a_saved_recalibrator_gives_the_same_bits(method: str, suffix: str, tmp_path: Path) -> None:
    forecast, y = misspecified(200)
    fitted = METHODS[method]().fit(forecast, y)
    cb.save(fitted, tmp_path / f"r{suffix}")
    loaded = cb.load(tmp_path / f"r{suffix}")
    expected = fitted.transform(forecast).cdf(POINTS)
    assert type(loaded) is type(fitted)
    assert np.array_equal(loaded.transform(forecast).cdf(POINTS), expected)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted.transform(forecast))).cdf(POINTS), expected)


def test_a_document_with_a_falling_map_is_refused() -> None:
    document = cb.persistence.to_document(AverageRecalibrator(n_knots=3).fit(*misspecified(50)))
    document["layers"][0]["y"][1] = 2.0
    with pytest.raises(DocumentError, match=r"layers\[0\]\.y"):
        cb.persistence.from_document(document)


def test_fitted_rows_of_the_average_have_uniform_levels() -> None:
    forecast, y = misspecified(999)
    levels = np.sort(AverageRecalibrator().fit(forecast, y).transform(forecast).cdf(y))
    np.testing.assert_allclose(levels, np.arange(1, 1_000) / 1_001, atol=1e-9)


def test_variance_scaling_is_the_greatest_likelihood() -> None:
    forecast, y = misspecified(500)
    for shift in (False, True):
        fitted = VarianceScalingRecalibrator(shift=shift).fit(forecast, y)

        def loss(scale: float, move: float) -> float:
            std = forecast.std()
            return float(-GaussianForecast(forecast.mean() + move * std, scale * std).logpdf(y).mean())

        best = loss(fitted.scale_, fitted.shift_)
        assert fitted.transform(forecast).logpdf(y).mean() == pytest.approx(-best)
        assert best < min(loss(fitted.scale_ * f, fitted.shift_) for f in (0.99, 1.01))
        if shift:
            assert best < min(loss(fitted.scale_, fitted.shift_ + d) for d in (-0.01, 0.01))


def test_variance_scaling_of_any_forecast_is_that_of_the_normal_one() -> None:
    from scipy import stats

    from calibrant.forecasts import ScipyForecast

    forecast, y = misspecified(300)
    same = ScipyForecast(stats.norm(forecast.mean(), forecast.std()))
    normal, general = (VarianceScalingRecalibrator(shift=True).fit(f, y).transform(f) for f in (forecast, same))
    np.testing.assert_allclose(general.cdf(POINTS), normal.cdf(POINTS), atol=1e-9)
    inner = np.linspace(-2.0, 2.0, 9)[None, :]
    is_clear = np.abs(forecast.cdf(inner) - 0.5) < 0.5 - 1e-9  # of the levels that are moved inward
    np.testing.assert_allclose(general.logpdf(inner)[is_clear], normal.logpdf(inner)[is_clear], atol=1e-5)


@pytest.mark.parametrize("conformity", ["normalised", "residual", "level"])
def test_conformal_levels_of_a_new_row_are_exactly_uniform(conformity: str) -> None:
    # Of 8 rows in any order, each is the new one once: its rank is 1..8 once, whatever the forecasts are worth.
    forecast, y = misspecified(8, 4)
    found = []
    for new in range(8):
        others = np.delete(np.arange(8), new)
        fitted = ConformalRecalibrator(conformity).fit(forecast[others], y[others])
        low, high = fitted.bounds(forecast[[new]], y[[new]])
        assert fitted.randomised_pit(forecast[[new]], y[[new]], rng=1)[0] == pytest.approx(
            (low + high)[0] / 2, abs=0.07
        )
        found.append((low[0], high[0]))
    np.testing.assert_allclose(sorted(found), [(i / 8.0, (i + 1) / 8.0) for i in range(8)])


def test_residuals_of_forecasts_without_a_width_are_refused_at_fit_and_at_transform() -> None:
    forecast, y = misspecified(40)
    agreeing = persistence(np.where(np.arange(40) < 3, 1e6 + 0.1, y))  # the mean of equal samples may be rounded
    fitted = ConformalRecalibrator().fit(forecast, y)
    words = (
        r"standard deviation of the forecast, row 2: .* \(38 of 40 rows\)\. Use ConformalRecalibrator\(\"residual\"\)"
    )
    wide = np.arange(40)[:, None] < 2
    for refused in (
        lambda f: ConformalRecalibrator().fit(f, y),
        lambda f: fitted.transform(f),
        lambda f: fitted.bounds(f, y),
    ):
        with pytest.raises(InvalidInputError, match=words):
            refused(SampleForecast(np.where(wide, [[-1.0, 0.0, 1.0]], 0.1 + np.arange(40)[:, None] * 1e6)))
    with pytest.raises(InvalidInputError, match=r"row 0: inf is zero up to rounding, or not finite.*\(40 of 40 rows\)"):
        ConformalRecalibrator().fit(stats.t(2.0, np.zeros(40)), y)
    with pytest.raises(InvalidInputError, match=r'mean of the forecast, row 0: nan .*ConformalRecalibrator\("level"\)'):
        ConformalRecalibrator("residual").fit(stats.cauchy(np.zeros(40)), y)
    for conformity in ("residual", "level"):
        after = ConformalRecalibrator(conformity).fit(agreeing, y).transform(agreeing)
        assert np.isfinite(after.crps(y)).all()


def test_distribution_recalibration_repairs_rows_by_their_forecast() -> None:
    forecast, y = misspecified(6_000)
    new, new_y = misspecified(6_000, 1)
    after = DistributionRecalibrator(n_bins=(8, 1)).fit(forecast, y).transform(new)
    for is_high in (False, True):
        side = (new.mean() > 0.0) == is_high
        low, high = after[side].interval(0.8)
        share = ((new_y[side] > low) & (new_y[side] < high)).mean()
        assert share == pytest.approx(0.8, abs=0.04)
        before = new[side].interval(0.8)
        assert abs(((new_y[side] > before[0]) & (new_y[side] < before[1])).mean() - 0.8) > 0.1


@given(st.integers(0, 50), st.sampled_from([0.03, 0.05]))
@settings(max_examples=15)
def test_the_greatest_error_falls_below_epsilon_within_the_rounds_that_the_log_score_pays_for(
    seed: int, epsilon: float
) -> None:
    forecast, y = misspecified(400, seed)
    fitted = ThresholdRecalibrator(
        epsilon=epsilon, stopping="epsilon", learning_rate=1.0, pseudo_counts=0.0, n_thresholds=10, max_rounds=300
    ).fit(forecast, y)
    chain = fitted.layers_[0]
    assert isinstance(chain, ThresholdChain)
    assert fitted.rounds_[0].error_before > epsilon
    assert fitted.rounds_[-1].error_after <= epsilon
    # Pinsker: a round that splits where the error is w raises the mean log score of these rows by 2 w^2 or more.
    scores = [
        ThresholdChain(chain.thresholds, chain.column[:t], chain.alpha[:t], chain.maps).apply(forecast).logpdf(y).mean()
        for t in range(len(chain) + 1)
    ]
    gains = np.diff(scores)
    assert (gains >= [2.0 * r.error_before**2 for r in fitted.rounds_]).all()
    assert len(fitted.rounds_) <= (scores[-1] - scores[0]) / (2.0 * epsilon**2)


@given(st.integers(0, 20))
@settings(max_examples=8)
def test_the_paper_stops_at_epsilon_too(seed: int) -> None:
    forecast, y = misspecified(1_000, seed)
    fitted = ThresholdRecalibrator("paper", epsilon=0.12, min_leaf=150, max_rounds=60).fit(forecast, y)
    assert len(fitted.rounds_) < 60
    assert fitted.rounds_[0].error_before > 0.12 >= fitted.rounds_[-1].error_after
    assert all(r.error_before > 0.12 for r in fitted.rounds_)


def test_rounds_say_what_they_split_on() -> None:
    forecast, y = misspecified(1_000)
    fitted = ThresholdRecalibrator(stopping="epsilon", max_rounds=4, min_leaf=120).fit(forecast, y)
    first = fitted.rounds_[0]
    is_left = forecast.cdf(first.y0) <= first.alpha
    assert (first.n_left, first.n_right) == (is_left.sum(), (~is_left).sum())
    assert min(min(r.n_left, r.n_right) for r in fitted.rounds_) >= 120
    assert [r.error_after for r in fitted.rounds_[:-1]] == [r.error_before for r in fitted.rounds_[1:]]


def test_replaying_the_fitting_rows_gives_the_state_of_the_fit() -> None:
    forecast, y = misspecified(500)
    thresholds = middle_thresholds(y, np.ones(500), 20)
    rounds = Rounds(Outcomes(forecast, y, None), thresholds, Regularised(30, None, 20, 20.0, 0.3), 0.0)
    assert list(rounds.run(12)) == list(range(1, 13))
    assert np.array_equal(rounds.chain().apply(forecast).cdf(y), rounds.state.level)
    assert np.array_equal(rounds.chain(5).alpha, rounds.chain().alpha[:5])


@pytest.mark.parametrize("n", [30, 300, 1_500])
def test_a_truthful_forecast_is_left_nearly_alone(n: int) -> None:
    fitted = ThresholdRecalibrator().fit(*truthful(n, 3))
    new, y = truthful(4_000, 4)
    after = fitted.transform(new)
    assert np.abs(after.cdf(POINTS) - new.cdf(POINTS)).mean() < 0.02
    assert cb.forecasts.crps(after, y) < 1.01 * cb.forecasts.crps(new, y)


@pytest.mark.slow
def test_the_gap_of_a_calibrated_base_stays_at_its_noise_floor() -> None:
    """Under 1.3 noise floors, over six samples: measured on new rows, and the floor on outcomes drawn for them."""
    cost = np.linspace(0.05, 0.95, 10)

    def gap(forecast: Forecast, y: Array, sample_weight: Array | None = None) -> float:
        y0 = np.linspace(-2.0, 2.0, 15)
        return cb.forecasts.reliability_gaps(forecast, y, y0=y0, alpha=cost, cost=cost).mean

    gaps, floors = [], []
    for seed in range(6):
        after = ThresholdRecalibrator().fit(*truthful(1_200, seed)).transform(truthful(2_000, 100 + seed)[0])
        gaps.append(gap(after, truthful(2_000, 100 + seed)[1]))
        floors.append(cb.forecasts.noise_floor(after, gap, n_draws=20).mean)
    assert np.mean(gaps) < 1.3 * np.mean(floors)


@pytest.mark.parametrize("method", METHODS)
def test_recalibrating_a_calibrated_forecast_changes_nothing_beyond_noise(method: str) -> None:
    # The levels of n rows follow a distribution that is off by about 0.3 / sqrt(n) for no other reason than chance.
    n, new = 1_500, truthful(300, 9)[0]
    change = [
        np.abs(METHODS[method]().fit(*truthful(n, seed)).transform(new).cdf(POINTS) - new.cdf(POINTS)).mean()
        for seed in range(3)
    ]
    assert np.mean(change) < (1.5 if method == "threshold, paper" else 0.5) / np.sqrt(n)


@pytest.mark.slow
def test_what_was_recalibrated_needs_little_more() -> None:
    once = ThresholdRecalibrator().fit(*misspecified(2_000, 1))
    forecast, y = misspecified(2_000, 2)
    new = misspecified(300, 3)[0]
    twice = ThresholdRecalibrator().fit(once.transform(forecast), y)
    first = np.abs(once.transform(new).cdf(POINTS) - new.cdf(POINTS)).mean()
    second = np.abs(twice.transform(once.transform(new)).cdf(POINTS) - once.transform(new).cdf(POINTS)).mean()
    assert second < 0.3 * first


@pytest.mark.slow
def test_held_out_errors_fall_where_the_forecast_is_wrong() -> None:
    new, y = misspecified(3_000, 8)
    errors = {}
    for name in ("average", "threshold"):
        make = ThresholdRecalibrator if name == "threshold" else AverageRecalibrator
        after = make().fit(*misspecified(1_500)).transform(new)
        errors[name] = (
            cb.forecasts.threshold_calibration_errors(after, y).mean,
            cb.forecasts.reliability_gaps(after, y).mean,
        )
    assert errors["threshold"][0] < 0.6 * errors["average"][0]
    assert errors["threshold"][1] < 0.8 * errors["average"][1]


@pytest.mark.slow
def test_fitting_more_goes_on_where_the_fit_ended() -> None:
    forecast, y = misspecified(1_500)
    fitted = ThresholdRecalibrator().fit(forecast[:300], y[:300])
    n_layers = len(fitted.layers_)
    fitted.fit_more(forecast[300:], y[300:])
    assert len(fitted.layers_) >= n_layers
    assert fitted.n_rows_ == 1_500
    new, new_y = misspecified(2_000, 7)
    few = ThresholdRecalibrator().fit(forecast[:300], y[:300]).transform(new)
    assert cb.forecasts.crps(fitted.transform(new), new_y) <= cb.forecasts.crps(few, new_y) + 1e-3


def test_progress_is_told_after_each_round() -> None:
    told: list[tuple[int, int, float]] = []
    fitted = ThresholdRecalibrator(
        stopping="epsilon", max_rounds=3, progress=lambda *told_now: told.append(told_now)
    ).fit(*misspecified(200))
    assert told == [(i + 1, 3, r.error_after) for i, r in enumerate(fitted.rounds_)]
    assert len(fitted.rounds_) == 3


def test_validation_rows_stop_the_rounds_too() -> None:
    fitted = ThresholdRecalibrator(stopping="validation").fit(*misspecified(1_500))
    assert fitted.choice_ == "rounds"
    assert fitted.cv_ is not None
    assert len(fitted.rounds_) == fitted.cv_.n_rounds > 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ThresholdRecalibrator("papers"), "algorithm: 'papers'. Did you mean 'paper'?"),
        (lambda: ThresholdRecalibrator(stopping="never"), "stopping: 'never'"),
        (lambda: ThresholdRecalibrator(learning_rate=1.5), r"learning_rate=1.5 is outside \(0, 1\]"),
        (lambda: ThresholdRecalibrator(epsilon=-1.0), "epsilon=-1.0"),
        (lambda: ThresholdRecalibrator(max_rounds=0), "max_rounds=0 is too small"),
        (lambda: ThresholdRecalibrator(n_folds=1), "n_folds=1 is too small"),
        (lambda: ThresholdRecalibrator(pseudo_counts="many"), "pseudo_counts='many' is not a number"),
        (lambda: ConformalRecalibrator("residuals"), "conformity: 'residuals'. Did you mean 'residual'"),
        (lambda: DistributionRecalibrator(n_bins=5), "n_bins=5 is no pair"),
        (lambda: AverageRecalibrator(n_knots=0), "n_knots=0 is too small"),
    ],
)
def test_wrong_settings_are_refused_at_fit(make: Callable[[], Recalibrator], words: str) -> None:
    with pytest.raises(CalibrantError, match=words):
        make().fit(*misspecified(30))


def test_what_cannot_be_fitted_is_refused() -> None:
    forecast, y = misspecified(30)
    with pytest.raises(NotFittedError, match="this AverageRecalibrator is not fitted"):
        AverageRecalibrator().transform(forecast)
    with pytest.raises(CalibrantError, match="forecast has 30 rows and y has 29"):
        AverageRecalibrator().fit(forecast, y[:-1])
    with pytest.raises(CalibrantError, match="forecast is a ndarray, not a forecast"):
        AverageRecalibrator().fit(y, y)
    with pytest.raises(CalibrantError, match=r"sample_weight row 0: 0\.5 is no whole number"):
        ThresholdRecalibrator("paper").fit(forecast, y, sample_weight=np.full(30, 0.5))
    with pytest.raises(CalibrantError, match="y lies on the forecasts' centre in every row"):
        VarianceScalingRecalibrator().fit(forecast, forecast.mean())
