"""Laws of predictive distributions of every kind, against quadrature, exact numbers and SciPy."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from forecast_cases import CONTINUOUS, KINDS, WITH_DENSITY, forecasts
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibrant.errors import (
    DataWarning,
    InvalidInputError,
    InvalidProbabilityError,
    InvalidTypeError,
    InvalidWeightError,
    ShapeError,
)
from calibrant.forecasts import (
    AverageRecalibrator,
    Forecast,
    GaussianForecast,
    GridForecast,
    QuantileForecast,
    SampleForecast,
    ScipyForecast,
    ThresholdRule,
    crps,
    sharpness,
)

POINTS = np.concatenate((np.linspace(-6.0, 6.0, 49), [-np.inf, np.inf]))


@pytest.mark.parametrize("kind", KINDS)
def test_cdf_is_monotone_and_proper(kind):
    forecast = forecasts(30)[kind]
    cdf = forecast.cdf(np.sort(POINTS)[None, :])
    assert (np.diff(cdf, axis=1) >= 0.0).all()
    assert (cdf[:, 0] == 0.0).all()
    assert (cdf[:, -1] == 1.0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_ppf_is_the_least_value_whose_cdf_reaches_the_level(kind):
    forecast = forecasts(30)[kind]
    levels = np.random.default_rng(1).uniform(1e-6, 1.0 - 1e-6, (30, 40))
    at = forecast.ppf(levels)
    assert (forecast.cdf(at) >= levels - 1e-13).all()
    assert (forecast.cdf_below(at) <= levels + 1e-13).all()
    assert (np.diff(forecast.ppf(np.sort(levels, axis=1)), axis=1) >= 0.0).all()


@pytest.mark.parametrize("kind", CONTINUOUS)
def test_cdf_and_ppf_are_inverse_where_nothing_is_an_atom(kind):
    forecast = forecasts(30)[kind]
    levels = np.random.default_rng(1).uniform(1e-3, 1.0 - 1e-3, (30, 40))
    np.testing.assert_allclose(forecast.cdf(forecast.ppf(levels)), levels, atol=1e-13)


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=12), st.floats(0.0, 1.0))
def test_quantile_of_samples_is_exact(samples, level):
    forecast = SampleForecast([samples])
    at = forecast.ppf(level)[0]
    assert at in samples
    assert at == min(samples) or forecast.cdf_below(at)[0] < level
    assert forecast.cdf(at)[0] >= level


@pytest.mark.parametrize("kind", KINDS)
def test_cdf_below_differs_only_where_a_value_has_probability(kind):
    forecast = forecasts(30)[kind]
    at = forecast.ppf([[0.1, 0.3, 0.5, 0.9]])
    jump = forecast.cdf(at) - forecast.cdf_below(at)
    assert (jump >= 0.0).all()
    near = forecast.cdf(at) - forecast.cdf(np.nextafter(at, -np.inf))
    np.testing.assert_allclose(jump, near, atol=1e-12)
    if kind in CONTINUOUS:
        assert (jump == 0.0).all()


@pytest.mark.parametrize("kind", WITH_DENSITY)
def test_density_is_the_slope_of_the_cdf(kind):
    forecast = forecasts(30)[kind]
    at = np.random.default_rng(2).uniform(-2.5, 2.5, (30, 20)) + 1e-3
    step = 1e-7
    slope = (forecast.cdf(at + step) - forecast.cdf(at - step)) / (2.0 * step)
    np.testing.assert_allclose(forecast.pdf(at), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_crps_equals_quadrature(kind):
    forecast = forecasts()[kind]
    nodes, weights = np.polynomial.legendre.leggauss(8)
    far = np.linspace(-80.0, 80.0, 1281)  # in steps of 1/8: whole numbers are ends of pieces
    for y in (-4.0, -0.3, 0.25, 5.0):
        scores = forecast.crps(np.full(6, y))
        for i in range(6):
            knots = forecast[i].ppf(np.linspace(0.0, 1.0, 1001)[None, :]).ravel()
            ends = np.unique(np.concatenate((far, knots[np.isfinite(knots)], [y])))
            half = 0.5 * np.diff(ends)
            at = ends[:-1, None] + half[:, None] * (1.0 + nodes)
            squared = (forecast[i].cdf(at.reshape(1, -1)).reshape(at.shape) - (at >= y)) ** 2
            assert scores[i] == pytest.approx(float(np.sum(half[:, None] * weights * squared)), abs=1e-6)


@pytest.mark.parametrize("kind", ["gaussian", "t", "smoothed", "quantile"])
def test_generic_quadrature_equals_the_closed_form(kind):
    forecast = forecasts(200)[kind]
    y = np.random.default_rng(3).normal(0.0, 2.0, 200)
    tolerance = {"gaussian": 1e-12, "t": 1e-9}.get(kind, 2e-3)
    np.testing.assert_allclose(Forecast._crps(forecast, y), forecast.crps(y), atol=tolerance)
    np.testing.assert_allclose(Forecast.mean(forecast), forecast.mean(), atol=tolerance)
    np.testing.assert_allclose(Forecast.std(forecast), forecast.std(), atol=max(tolerance, 1e-6))


@pytest.mark.parametrize("kind", KINDS)
def test_mean_and_std_are_those_of_many_samples(kind):
    forecast = forecasts()[kind]
    drawn = forecast.sample(40_000, rng=0)
    assert drawn.shape == (6, 40_000)
    error = forecast.std() / 200.0
    np.testing.assert_allclose(drawn.mean(axis=1), forecast.mean(), atol=4.5 * error.max())
    np.testing.assert_allclose(drawn.std(axis=1), forecast.std(), rtol=0.06)
    np.testing.assert_array_equal(drawn, forecast.sample(40_000, rng=0))


def test_crps_of_samples_equals_the_double_sum():
    rng = np.random.default_rng(4)
    samples, y = rng.normal(size=(20, 7)), rng.normal(size=20)
    spread = np.abs(samples[:, :, None] - samples[:, None, :]).mean(axis=(1, 2))
    expected = np.abs(samples - y[:, None]).mean(axis=1) - 0.5 * spread
    np.testing.assert_allclose(SampleForecast(samples).crps(y), expected, atol=1e-14)


def test_weights_of_samples_are_repetitions():
    rng = np.random.default_rng(5)
    samples, weights, y = rng.normal(size=(30, 6)), rng.integers(0, 4, (30, 6)) + np.eye(6)[2], rng.normal(size=30)
    weighted = SampleForecast(samples, weights)
    points, levels = np.sort(rng.normal(size=(30, 20))), rng.random((30, 20))
    for i in range(30):
        repeated = SampleForecast([np.repeat(samples[i], weights[i].astype(int)).tolist() * 2])
        one = weighted[[i]]
        for name in ("mean", "std"):
            np.testing.assert_allclose(getattr(one, name)(), getattr(repeated, name)(), atol=1e-12)
        np.testing.assert_allclose(one.cdf(points[[i]]), repeated.cdf(points[[i]]), atol=1e-12)
        np.testing.assert_array_equal(one.ppf(levels[[i]]), repeated.ppf(levels[[i]]))
        np.testing.assert_allclose(one.crps(y[[i]]), repeated.crps(y[[i]]), atol=1e-12)
    shared = SampleForecast(samples, weights[0])
    np.testing.assert_array_equal(shared.cdf(points), SampleForecast(samples, np.tile(weights[0], (30, 1))).cdf(points))
    even = SampleForecast(samples, np.full(6, 0.7))
    np.testing.assert_allclose(even.smoothed().ppf(levels), SampleForecast(samples).smoothed().ppf(levels), atol=1e-9)
    np.testing.assert_allclose(even.fair_crps(y), SampleForecast(samples).fair_crps(y), atol=1e-12)


def test_fair_crps_takes_pairs_of_different_samples_and_is_unbiased():
    rng = np.random.default_rng(6)
    samples, y = rng.normal(size=(20_000, 4)), rng.normal(size=20_000)
    pairs = np.abs(samples[:, :, None] - samples[:, None, :]).sum(axis=(1, 2)) / 12.0
    expected = np.abs(samples - y[:, None]).mean(axis=1) - 0.5 * pairs
    forecast = SampleForecast(samples)
    np.testing.assert_allclose(forecast.fair_crps(y), expected, atol=1e-12)
    truth = GaussianForecast(np.zeros(20_000), 1.0).crps(y)
    error = np.std(expected - truth) / np.sqrt(20_000)
    assert abs(np.mean(expected - truth)) < 4.0 * error
    assert np.mean(forecast.crps(y) - truth) > 10.0 * error
    assert crps(forecast, y, fair=True) == pytest.approx(expected.mean())
    with pytest.raises(InvalidTypeError, match="fair=True with a GaussianForecast"):
        crps(GaussianForecast([0.0], 1.0), [0.0], fair=True)


def test_crps_of_a_discrete_distribution_is_that_of_many_samples():
    forecast = ScipyForecast(stats.poisson([0.2, 3.0, 40.0]))
    y = [0.0, 2.5, 55.0]
    many = SampleForecast(forecast.ppf((np.arange(20_000)[None, :] + 0.5) / 20_000))
    np.testing.assert_allclose(forecast.crps(y), many.crps(y), atol=2e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_alone_gives_the_same_bits_as_in_a_batch(kind):
    forecast = forecasts(37)[kind]
    y = np.random.default_rng(5).normal(size=37)
    grid = np.linspace(-2.0, 2.0, 7)[None, :]
    for i in (0, 17, 36):
        one = forecast[i]
        np.testing.assert_array_equal(one.cdf(grid), forecast.cdf(grid)[[i]])
        np.testing.assert_array_equal(one.cdf(y[[i]]), forecast.cdf(y)[[i]])
        np.testing.assert_array_equal(one.ppf([[0.1, 0.8]]), forecast.ppf([[0.1, 0.8]])[[i]])
        np.testing.assert_array_equal(one.crps(y[[i]]), forecast.crps(y)[[i]])
        np.testing.assert_array_equal(one.mean(), forecast.mean()[[i]])
        np.testing.assert_array_equal(one.std(), forecast.std()[[i]])


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_of_points_follow_one_rule(kind):
    forecast = forecasts(5)[kind]
    per_row, shared = np.linspace(-1.0, 1.0, 5), np.linspace(-1.0, 1.0, 4)[None, :]
    table = np.repeat(shared, 5, axis=0)
    np.testing.assert_array_equal(forecast.cdf(shared), forecast.cdf(table))
    np.testing.assert_array_equal(forecast.cdf(per_row), forecast.cdf(per_row[:, None])[:, 0])
    np.testing.assert_array_equal(forecast.cdf(0.5), forecast.cdf(np.full(5, 0.5)))
    np.testing.assert_array_equal(forecast.ppf([[0.2, 0.9]]), np.column_stack((forecast.ppf(0.2), forecast.ppf(0.9))))
    np.testing.assert_array_equal(forecast.ppf([[0.2]])[:, 0], forecast.ppf(0.2))
    low, high = forecast.interval(0.6)
    np.testing.assert_array_equal(low, forecast.ppf(0.5 - 0.3))
    assert (low <= high).all()
    np.testing.assert_allclose(forecast.sf(per_row), 1.0 - forecast.cdf(per_row), atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_picked_by_slice_mask_and_numbers(kind):
    forecast = forecasts(6)[kind]
    mask = np.array([True, False, True, False, False, True])
    whole = forecast.cdf(0.3)
    np.testing.assert_array_equal(forecast[mask].cdf(0.3), whole[mask])
    np.testing.assert_array_equal(forecast[::2].cdf(0.3), whole[::2])
    np.testing.assert_array_equal(forecast[[5, 0, 0]].cdf(0.3), whole[[5, 0, 0]])
    assert len(forecast[-1]) == 1
    assert repr(forecast[:2]) == f"{type(forecast).__name__} of 2 rows"
    for kept in (pickle.loads(pickle.dumps(forecast)), copy.deepcopy(forecast)):
        np.testing.assert_array_equal(kept.cdf(0.3), whole)


def test_index_errors_say_what_to_pass():
    forecast = forecasts(6)["gaussian"]
    with pytest.raises(InvalidInputError, match=r"forecast of 6 rows: .* Pass a slice, a mask or row numbers"):
        forecast[9]
    with pytest.raises(InvalidTypeError, match="one dimension, its rows"):
        forecast[0, 1]
    with pytest.raises(ShapeError, match="Pick at least one row of the 6"):
        forecast[6:]


def test_forecasts_keep_no_hold_on_the_arrays_they_were_made_of():
    mean = np.zeros(3)
    forecast = GaussianForecast(mean, 1.0)
    mean[:] = 9.0
    np.testing.assert_array_equal(forecast.mean(), np.zeros(3))
    with pytest.raises(ValueError, match="read-only"):
        forecast.mean()[0] = 1.0


def test_normal_distribution_far_out():
    forecast = GaussianForecast([0.0, 0.0], 1.0)
    assert forecast.cdf(8.3)[0] == 1.0
    assert forecast.sf(10.0)[0] == pytest.approx(stats.norm.sf(10.0), rel=1e-12)
    assert forecast.logpdf([40.0, -40.0])[0] == pytest.approx(-800.9189385, abs=1e-6)
    np.testing.assert_allclose(forecast.crps([1e3, -1e8]), [1e3 - 0.5641895835, 1e8 - 0.5641895835], rtol=1e-12)
    tiny = GaussianForecast([0.0], 1e-300)
    assert tiny.crps([3.0]) == 3.0
    assert tiny.logpdf([3.0]) == -np.inf


def test_quantiles_that_cross_are_sorted_and_said():
    with pytest.warns(DataWarning, match="quantiles of 1 of 2 rows cross, first in row 1; they were sorted"):
        crossed = QuantileForecast([0.1, 0.5, 0.9], [[0.0, 1.0, 2.0], [3.0, 1.0, 2.0]])
    np.testing.assert_array_equal(crossed.ppf([[0.1, 0.5, 0.9]]), [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]])


def test_tails_of_quantiles_go_on_with_the_density_at_the_outer_quantile():
    forecast = QuantileForecast([0.1, 0.5, 0.9], [[-1.0, 0.0, 2.0]])
    assert forecast.pdf(-1.0 - 1e-9)[0] == pytest.approx(0.4)
    assert forecast.pdf(2.0 + 1e-9)[0] == pytest.approx(0.2)
    assert forecast.cdf(-1.25)[0] == pytest.approx(0.1 * np.exp(-1.0))
    assert forecast.sf(3.0)[0] == pytest.approx(0.1 * np.exp(-2.0))
    flat = QuantileForecast([0.1, 0.5, 0.9], [[-1.0, 0.0, 2.0]], tails="atoms")
    assert flat.cdf_below(-1.0)[0] == 0.0
    assert flat.cdf(-1.0)[0] == 0.1
    assert flat.cdf_below(2.0)[0] == 0.9
    assert flat.cdf(2.0)[0] == 1.0
    np.testing.assert_array_equal(flat.ppf([[0.0, 1.0]]), [[-1.0, 2.0]])


def test_equal_quantiles_are_an_atom():
    forecast = QuantileForecast([0.0, 0.2, 0.8, 1.0], [[0.0, 1.0, 1.0, 2.0]])
    assert forecast.cdf(1.0)[0] == 0.8
    assert forecast.cdf_below(1.0)[0] == 0.2
    assert forecast.pdf(1.0)[0] == np.inf
    assert forecast.pdf(1.5)[0] == pytest.approx(0.2)
    constant = QuantileForecast([0.2, 0.8], [[1.0, 1.0]])
    assert constant.cdf(1.0)[0] == 1.0
    assert constant.cdf_below(1.0)[0] == 0.0
    assert constant.crps([3.0])[0] == 2.0
    assert constant.mean()[0] == 1.0
    assert constant.std()[0] == 0.0


def test_levels_without_points_between_have_no_density():
    forecast = GridForecast([0.0, 1.0, 2.0, 3.0], [[0.0, 0.5, 0.5, 1.0]])
    assert forecast.logpdf(1.5)[0] == -np.inf
    assert forecast.ppf(0.5)[0] == 1.0
    np.testing.assert_array_equal(forecast.ppf([[0.0, 1.0]]), [[0.0, 3.0]])


def test_grid_of_a_normal_distribution_is_nearly_that_distribution():
    normal, y = forecasts(20)["gaussian"], np.random.default_rng(1).normal(size=20)
    points = np.linspace(-12.0, 12.0, 4001)
    grid = GridForecast(points, normal.cdf(points[None, :]))
    np.testing.assert_allclose(grid.crps(y), normal.crps(y), atol=1e-5)
    np.testing.assert_allclose(grid.mean(), normal.mean(), atol=1e-5)
    np.testing.assert_allclose(grid.std(), normal.std(), atol=1e-4)


def test_samples_have_no_density_but_smoothed_ones_do():
    forecast = forecasts()["sample"]
    with pytest.raises(InvalidTypeError, match=r"SampleForecast has no density.*smoothed"):
        forecast.logpdf(0.0)
    assert not forecast.has_density
    assert np.isfinite(forecasts()["smoothed"].logpdf(0.0)).all()


def test_scipy_distributions_answer_as_scipy_does():
    mean, std = np.arange(4.0), np.arange(1.0, 5.0)
    forecast = ScipyForecast(stats.gumbel_r(mean, scale=std))
    y = np.linspace(-1.0, 4.0, 4)
    np.testing.assert_array_equal(forecast.cdf(y), stats.gumbel_r.cdf(y, mean, std))
    np.testing.assert_array_equal(forecast[1:3].logpdf(y[1:3]), stats.gumbel_r.logpdf(y, mean, std)[1:3])
    np.testing.assert_array_equal(forecast.std(), stats.gumbel_r.std(mean, std))
    assert len(ScipyForecast(stats.norm(), n=5)) == 5
    poisson = ScipyForecast(stats.poisson([2.0]))
    assert poisson.logpdf(3.0)[0] == pytest.approx(stats.poisson.logpmf(3, 2.0))
    assert poisson.cdf_below(3.0)[0] == stats.poisson.cdf(2, 2.0)
    assert poisson.cdf_below(2.5)[0] == stats.poisson.cdf(2, 2.0)


def test_metrics_and_recalibrators_take_frozen_distributions_as_they_are():
    mean, y = np.linspace(-1.0, 1.0, 40), np.linspace(-2.0, 2.0, 40)
    frozen, same = stats.norm(mean, 0.5), GaussianForecast(mean, 0.5)
    assert crps(frozen, y) == pytest.approx(crps(same, y), rel=1e-6)
    assert sharpness(frozen) == pytest.approx(sharpness(same))
    np.testing.assert_array_equal(ThresholdRule(0.0, 0.4).decide(frozen), ThresholdRule(0.0, 0.4).decide(same))
    fitted = AverageRecalibrator().fit(frozen, y)
    np.testing.assert_allclose(fitted.transform(frozen).cdf(0.3), fitted.transform(same).cdf(0.3))
    with pytest.raises(InvalidTypeError, match="forecast is a norm_gen, not a forecast"):
        crps(stats.norm, y)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: GaussianForecast([0.0, 1.0], [1.0, 0.0]), InvalidInputError, r"std row 1: 0.0 is not above"),
        (lambda: GaussianForecast([0.0, np.nan], 1.0), InvalidInputError, "mean row 1: nan is not finite"),
        (lambda: GaussianForecast([0.0], np.inf), InvalidInputError, "std=inf is not finite"),
        (lambda: GaussianForecast([0.0, 1.0], [1.0] * 3), ShapeError, "mean has 2 rows and std has 3"),
        (lambda: QuantileForecast([0.5, 0.5], [[0.0, 1.0]]), InvalidInputError, "levels row 1: 0.5 doesn't rise"),
        (lambda: QuantileForecast([0.5, 1.5], [[0.0, 1.0]]), InvalidInputError, r"levels row 1: 1.5 doesn't"),
        (lambda: QuantileForecast([0.5, 0.6, 0.7], [[0.0, 1.0]]), ShapeError, "values has 2 columns for 3 levels"),
        (lambda: QuantileForecast([0.1, 0.9], [[0, 1]], tails="fat"), InvalidInputError, "value of tails: 'fat'"),
        (lambda: SampleForecast([0.0, 1.0]), ShapeError, r"samples has shape \(2,\). Pass several numbers per row"),
        (lambda: SampleForecast([[0.0, 1.0]], [1.0]), ShapeError, r"weights has shape \(1,\) for samples of shape"),
        (lambda: SampleForecast([[0.0, 1.0]], [0.0, 0.0]), InvalidWeightError, "row 0: 0.0 is the weight of all"),
        (lambda: SampleForecast([[0.0, 1.0]], [1.0, -2.0]), InvalidWeightError, "weights row 0: -2.0 is negative"),
        (lambda: GridForecast([0.0, 1.0], [[0.5, 0.4]]), InvalidInputError, "cdf row 0: 0.4 comes after 0.5"),
        (lambda: GridForecast([1.0, 0.0], [[0.4, 0.5]]), InvalidInputError, "y row 0: 0.0 comes after 1.0"),
        (lambda: GridForecast([0.0, 1.0], [[0.4, 1.5]]), InvalidProbabilityError, r"1.5 is outside \[0, 1\]"),
        (lambda: GridForecast([0.0, 1.0], [[0.4, 0.4]]), InvalidProbabilityError, "cdf row 0: 0.4 at all points"),
        (lambda: GridForecast([1.0, 1.0], [[0.4, 0.5]]), InvalidInputError, "y row 0: 1.0 at all points"),
        (lambda: GridForecast([0.0, 1.0, 2.0], [[0.4, 0.5]]), ShapeError, r"Pass points of shape \(2,\)"),
        (lambda: ScipyForecast(stats.norm), InvalidTypeError, "not a frozen distribution"),
        (lambda: ScipyForecast(stats.norm([0.0], [-1.0])), InvalidInputError, "frozen row 0: norm has no distribution"),
        (lambda: ScipyForecast(stats.norm([[0.0]], 1.0)), ShapeError, r"Pass numbers, or arrays of one shape \(n,\)"),
        (lambda: GaussianForecast([0.0], 1.0).cdf(np.nan), InvalidInputError, "y row 0: nan is not a number"),
        (lambda: GaussianForecast([0.0], 1.0).ppf(1.5), InvalidProbabilityError, r"u row 0: 1.5 is outside \[0, 1\]"),
        (lambda: GaussianForecast([0.0, 1.0], 1.0).cdf([1, 2, 3]), ShapeError, "the forecast has 2 rows and y has 3"),
        (lambda: GaussianForecast([0.0] * 2, 1.0).cdf(np.ones((3, 2))), ShapeError, r"\(1, m\) for the same m values"),
        (lambda: GaussianForecast([0.0, 1.0], 1.0).cdf([0.0, [1.0]]), ShapeError, "y is not a rectangular array"),
        (lambda: GaussianForecast([0.0], 1.0).sample(0), InvalidInputError, "n=0 is too small"),
        (lambda: GaussianForecast([0.0], 1.0).interval(1.0), InvalidInputError, "level=1.0 is outside"),
    ],
)  # fmt: skip
def test_refusals_name_argument_place_and_value(make, error, text):
    with pytest.raises(error, match=text):
        make()
