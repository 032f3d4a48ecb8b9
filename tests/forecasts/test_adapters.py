"""Forecasts from models: SciPy's distributions, scikit-learn, objects that look like NGBoost and quantile forests."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor

from calibrant.errors import DataWarning, InvalidInputError, InvalidTypeError, ShapeError
from calibrant.forecasts import (
    AverageRecalibrator,
    GaussianForecast,
    SampleForecast,
    ScipyForecast,
    ThresholdRule,
    coverage,
    crps,
    from_ngboost,
    from_quantile_forest,
    from_quantile_regressors,
    sharpness,
)


class Distribution:
    """What NGBoost predicts: it keeps a frozen distribution of SciPy."""

    def __init__(self, dist):
        self.dist = dist


class Boosted:
    """A fitted NGBRegressor, as far as it is used."""

    def __init__(self, make):
        self.make = make

    def pred_dist(self, X):
        return Distribution(self.make(X[:, 0]))


class Forest:
    """A fitted quantile forest, as far as it is used."""

    def predict(self, X, quantiles):
        return stats.norm.ppf(np.array(quantiles), X[:, :1], 2.0)


class Constant:
    """A regressor that says nothing of its quantile."""

    def __init__(self, value):
        self.value = value

    def predict(self, X):
        return np.full(len(X), self.value)


def rows(n=600):
    rng = np.random.default_rng(0)
    X = rng.random((n, 1))
    return X, X[:, 0] + rng.normal(0.0, 0.2 + 0.5 * X[:, 0])


def test_normal_distributions_of_ngboost_become_normal_forecasts():
    X = np.array([[0.0], [1.0]])
    forecast = from_ngboost(Boosted(lambda mean: stats.norm(mean, np.array([1.0, 2.0]))), X)
    assert isinstance(forecast, GaussianForecast)
    np.testing.assert_array_equal(forecast.mean(), [0.0, 1.0])
    np.testing.assert_array_equal(forecast.std(), [1.0, 2.0])


def test_parameters_alone_are_those_of_a_normal_distribution():
    class Parameters:
        params = {"loc": np.array([0.0, 1.0]), "scale": np.array([1.0, 2.0])}  # noqa: RUF012 - as NGBoost has it

    class Model:
        def pred_dist(self, X):
            return Parameters()

    forecast = from_ngboost(Model(), np.zeros((2, 1)))
    assert isinstance(forecast, GaussianForecast)
    np.testing.assert_array_equal(forecast.std(), [1.0, 2.0])


def test_other_distributions_of_ngboost_stay_what_they_are():
    X = np.array([[0.5], [1.0]])
    forecast = from_ngboost(Boosted(lambda s: stats.lognorm(s, scale=2.0)), X)
    assert isinstance(forecast, ScipyForecast)
    np.testing.assert_array_equal(forecast.ppf(0.5), stats.lognorm.ppf(0.5, X[:, 0], scale=2.0))
    with pytest.raises(InvalidTypeError, match="Constant without pred_dist"):
        from_ngboost(Constant(1.0), X)
    with pytest.raises(InvalidTypeError, match="Distribution without a SciPy distribution as dist"):
        from_ngboost(Boosted(lambda *_: None), X)


def test_quantiles_of_a_forest():
    X = np.array([[0.0], [3.0]])
    forecast = from_quantile_forest(Forest(), X)
    np.testing.assert_allclose(forecast.cdf(X[:, 0]), 0.5)
    np.testing.assert_allclose(forecast.ppf(0.9), stats.norm.ppf(0.9, X[:, 0], 2.0), rtol=1e-12)
    assert len(from_quantile_forest(Forest(), X, levels=[0.1, 0.9])) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda level: GradientBoostingRegressor(loss="quantile", alpha=level, n_estimators=40, max_depth=2),
        lambda level: HistGradientBoostingRegressor(loss="quantile", quantile=level, max_iter=40, max_depth=2),
    ],
)
def test_regressors_of_scikit_learn_say_their_quantiles_themselves(make):
    X, y = rows()
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    models = [make(level).fit(X, y) for level in levels]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # a few quantiles cross
        forecast = from_quantile_regressors(models, None, X)
        same = from_quantile_regressors(models, levels, X)
    np.testing.assert_array_equal(forecast.ppf([levels]), same.ppf([levels]))
    expected = np.sort([model.predict(X) for model in models], axis=0).T
    np.testing.assert_allclose(forecast.ppf([levels]), expected, atol=1e-12)
    assert coverage(forecast, y, level=0.9) == pytest.approx(0.9, abs=0.06)
    with pytest.raises(InvalidInputError, match=r"levels row 1: 0.3 for a \w+ that was fitted to the quantile 0.25"):
        from_quantile_regressors(models, [0.05, 0.3, 0.5, 0.75, 0.95], X)


def test_models_that_say_nothing_need_levels():
    X = np.zeros((2, 1))
    models = [Constant(1.0), Constant(2.0)]
    with pytest.raises(InvalidInputError, match=r"levels=None, but models row 0, a Constant, .* \(2 of 2\)"):
        from_quantile_regressors(models, None, X)
    np.testing.assert_allclose(from_quantile_regressors(models, [0.25, 0.75], X).ppf(0.5), 1.5)
    with pytest.raises(ShapeError, match="levels has 3 levels for 2 models"):
        from_quantile_regressors(models, [0.25, 0.5, 0.75], X)
    with pytest.raises(ShapeError, match="Pass at least two fitted regressors"):
        from_quantile_regressors(models[:1], [0.5], X)


def test_crps_of_a_discrete_distribution_is_that_of_many_samples():
    forecast = ScipyForecast(stats.poisson([0.2, 3.0, 40.0]))
    y = [0.0, 2.5, 55.0]
    many = SampleForecast(forecast.ppf((np.arange(20_000)[None, :] + 0.5) / 20_000))
    np.testing.assert_allclose(forecast.crps(y), many.crps(y), atol=2e-4)


def exact_crps(frozen, y):
    """Return the CRPS by a sum over all whole numbers between the outermost quantiles and the outcome."""
    low, high = frozen.ppf([1e-13, 1.0 - 1e-13])
    at = np.arange(min(low, np.floor(y)), max(high, y) + 1.0)
    left, cdf = np.clip(y - at, 0.0, 1.0), frozen.cdf(at)
    return np.sum(left * cdf**2 + (1.0 - left) * (1.0 - cdf) ** 2)


@pytest.mark.parametrize(
    ("frozen", "y"),
    [
        (stats.poisson(3.0), 1e6 + 0.25),  # outcomes beyond the distribution
        (stats.poisson(1e5), 3.0),
        (stats.skellam(4.0, 9.0), -700.5),
        (stats.logser(0.99), 2.5),  # a CDF that SciPy adds up
        (stats.nbinom(0.5, 1e-5), 12.3),  # more than two million whole numbers
        (stats.randint(0, 4_000_000), 1e6),
    ],
)
def test_crps_of_a_discrete_distribution_is_the_sum_over_whole_numbers(frozen, y):
    rtol = 1e-11 if frozen.ppf(1.0 - 1e-12) - frozen.ppf(1e-12) < 2**21 else 1e-5
    np.testing.assert_allclose(ScipyForecast(frozen).crps([y]), exact_crps(frozen, y), rtol=rtol)


def test_crps_far_from_the_outcome_takes_no_memory_and_is_the_same_beside_other_rows():
    np.testing.assert_allclose(ScipyForecast(stats.poisson(1e9)).crps([0.0]), 1e9 - np.sqrt(1e9 / np.pi), rtol=1e-9)
    forecast, y = ScipyForecast(stats.poisson([100.0, 3.0, 1e5])), np.array([1e12, 2.0, 1e5])
    together = forecast.crps(y)
    assert together.tolist() == [forecast[[i]].crps(y[[i]])[0] for i in range(3)]
    assert together[0] == pytest.approx(1e12 - 100.0 - np.sqrt(100.0 / np.pi), rel=1e-12)


def test_distributions_whose_probabilities_scipy_adds_up_for_ever_are_refused():
    words = r"frozen row 1: 2\.0 lets zipf reach beyond 2,097,152 whole numbers.*\(1 of 2 rows\)\. Pass samples"
    with pytest.raises(InvalidInputError, match=words):
        ScipyForecast(stats.zipf([9.0, 2.0])).crps([5.0, 5.0])


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
