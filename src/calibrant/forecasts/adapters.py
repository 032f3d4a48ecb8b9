"""Forecasts from what people have: NGBoost, quantile forests, a regressor per quantile, distributions of SciPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.gaussian import GaussianForecast
from calibrant.forecasts.piecewise import QuantileForecast
from calibrant.forecasts.points import as_numbers
from calibrant.forecasts.scipy_adapter import ScipyForecast, is_frozen
from calibrant.validation import ArrayLike

#: Levels asked of a quantile forest: 0.02, 0.04, ..., 0.98.
_LEVELS = np.arange(1, 50) / 50.0


def as_forecast(forecast: object) -> Forecast:
    """Return one of the forecasts, a frozen distribution of SciPy being made one; raise InvalidTypeError of others."""
    if isinstance(forecast, Forecast):
        return forecast
    if is_frozen(forecast):
        return ScipyForecast(forecast)
    raise InvalidTypeError(
        f"forecast is a {type(forecast).__name__}, not a forecast. Wrap it first, such as in "
        "calibrant.forecasts.GaussianForecast(mean, std) or SampleForecast(samples)."
    )


def from_ngboost(model: Any, X: Any) -> GaussianForecast | ScipyForecast:
    """Forecast with a fitted NGBoost regressor.

    Parameters
    ----------
    model : NGBRegressor
        Or any object whose ``pred_dist(X)`` gives distributions with a frozen SciPy distribution as ``dist``, or, as
        normal distributions, with no more than ``loc`` and ``scale`` as ``params``.
    X : table of features, as the model takes it

    Raises
    ------
    InvalidTypeError
        If the model gives no such distributions.
    """
    if not hasattr(model, "pred_dist"):
        raise InvalidTypeError(f"model is a {type(model).__name__} without pred_dist. Pass a fitted NGBRegressor.")
    predicted = model.pred_dist(X)
    frozen = getattr(predicted, "dist", None)
    params = getattr(predicted, "params", None)
    if frozen is None and isinstance(params, Mapping) and set(params) == {"loc", "scale"}:
        return GaussianForecast(params["loc"], params["scale"])
    if frozen is None:
        raise InvalidTypeError(
            f"model predicts a {type(predicted).__name__} without a SciPy distribution as dist. Pass its parameters "
            "to a forecast, such as GaussianForecast(mean, std)."
        )
    if getattr(getattr(frozen, "dist", None), "name", "") == "norm":
        return GaussianForecast(frozen.mean(), frozen.std())
    return ScipyForecast(frozen)


def from_quantile_forest(model: Any, X: Any, *, levels: ArrayLike | None = None) -> QuantileForecast:
    """Forecast with a fitted quantile forest.

    Parameters
    ----------
    model : RandomForestQuantileRegressor or ExtraTreesQuantileRegressor
        Or any object with ``predict(X, quantiles=[...])``.
    X : table of features, as the model takes it
    levels : array-like, optional
        Levels to ask for; 0.02, 0.04, ..., 0.98 by default.
    """
    asked = _LEVELS if levels is None else as_numbers(levels, name="levels")
    return QuantileForecast(asked, np.asarray(model.predict(X, quantiles=asked.tolist())))


def from_quantile_regressors(models: Sequence[Any], levels: ArrayLike | None, X: Any) -> QuantileForecast:
    """Forecast with one fitted regressor per quantile, such as scikit-learn's with ``loss="quantile"``.

    Parameters
    ----------
    models : sequence of regressors
        In rising order of their quantiles; at least two.
    levels : array-like or None
        The level of each. None reads them from the models' own parameters; where both say one they must agree.
    X : table of features, as the models take it

    Raises
    ------
    CalibrantError
        If levels are missing, or other than what a model was fitted to.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import QuantileRegressor
    >>> from calibrant.forecasts import from_quantile_regressors
    >>> X, y = np.zeros((5, 1)), np.arange(5.0)
    >>> models = [QuantileRegressor(quantile=level, alpha=0.0).fit(X, y) for level in (0.3, 0.5, 0.7)]
    >>> from_quantile_regressors(models, None, X).ppf(0.5)
    array([2., 2., 2., 2., 2.])
    """
    if len(models) < 2:
        raise ShapeError(f"models holds {len(models)}. Pass at least two fitted regressors, one per quantile.")
    said = [_own_level(model) for model in models]
    if levels is None:
        unknown = [k for k, level in enumerate(said) if level is None]
        if unknown:
            raise InvalidInputError(
                f"levels=None, but models row {unknown[0]}, a {type(models[unknown[0]]).__name__}, doesn't say which "
                f"quantile it predicts ({len(unknown)} of {len(models)}). Pass levels=[...]."
            )
    asked = as_numbers(said if levels is None else levels, name="levels")
    if asked.size != len(models):
        raise ShapeError(f"levels has {asked.size} levels for {len(models)} models. Pass one per model.")
    for k, level in enumerate(said):
        if level is not None and level != asked[k]:
            raise InvalidInputError(
                f"levels row {k}: {asked[k].item()!r} for a {type(models[k]).__name__} that was fitted to the "
                f"quantile {level!r}. Give levels and models the same order."
            )
    return QuantileForecast(asked, np.column_stack([np.asarray(model.predict(X)) for model in models]))


def _own_level(model: Any) -> float | None:
    """Return the quantile that scikit-learn's and compatible regressors say they predict."""
    parameters = model.get_params() if hasattr(model, "get_params") else {}
    if parameters.get("quantile") is not None:
        return float(parameters["quantile"])
    is_boosted = parameters.get("loss") == "quantile" or parameters.get("objective") == "quantile"
    alpha = parameters.get("alpha")
    return float(alpha) if is_boosted and alpha is not None else None
