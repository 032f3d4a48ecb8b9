"""Forecasts from what people have: NGBoost, quantile forests, a regressor per quantile, distributions of SciPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.kinds import GaussianForecast, QuantileForecast
from calibrant.forecasts.points import as_numbers, refuse
from calibrant.numerics import SMALLEST_CLIP, FloatArray
from calibrant.validation import ArrayLike, check_integer

#: Levels asked of a quantile forest: 0.02, 0.04, ..., 0.98.
_LEVELS = np.arange(1, 50) / 50.0
#: Whole numbers of a discrete distribution that are summed over at once; of rows with more, the CRPS is by quadrature.
_BATCH = 2**21


def as_forecast(forecast: object) -> Forecast:
    """Return one of the forecasts, a frozen distribution of SciPy being made one; raise InvalidTypeError of others."""
    if isinstance(forecast, Forecast):
        return forecast
    if _is_frozen(forecast):
        return ScipyForecast(forecast)
    raise InvalidTypeError(
        f"forecast is a {type(forecast).__name__}, not a forecast. Wrap it first, such as in "
        "calibrant.forecasts.GaussianForecast(mean, std) or SampleForecast(samples)."
    )


class ScipyForecast(Forecast):
    """Distributions frozen by SciPy, such as ``scipy.stats.t(df=4, loc=mean, scale=scale)``.

    Parameters
    ----------
    frozen : frozen distribution of scipy.stats
        Continuous, or discrete on whole numbers. Its parameters are numbers or arrays of shape (n,).
    n : int, optional
        Number of rows, where all parameters are numbers; 1 by default.

    Notes
    -----
    Of a discrete distribution `logpdf` is the log of the probability of a value. Metrics and recalibrators take a
    frozen distribution as it is, and wrap it themselves.

    Examples
    --------
    >>> from scipy import stats
    >>> from calibrant.forecasts import ScipyForecast
    >>> forecast = ScipyForecast(stats.expon(scale=[1.0, 2.0]))
    >>> forecast.mean()
    array([1., 2.])
    """

    __slots__ = ("_is_discrete", "_kind", "_parameters")
    _by_row = ("_parameters",)

    def __init__(self, frozen: Any, *, n: int | None = None) -> None:
        if not _is_frozen(frozen):
            raise InvalidTypeError(
                f"frozen is a {type(frozen).__name__}, not a frozen distribution. Pass one such as "
                "scipy.stats.norm(loc=mean, scale=std)."
            )
        self._kind: Any = frozen.dist
        shapes, location, scale = self._kind._parse_args(*frozen.args, **frozen.kwds)
        self._is_discrete = hasattr(self._kind, "pmf")
        given = [*shapes, location] if self._is_discrete else [*shapes, location, scale]
        parameters = [np.asarray(value, dtype=np.float64) for value in given]
        rows = {value.shape for value in parameters if value.ndim}
        if len(rows) > 1 or any(len(shape) != 1 or shape[0] == 0 for shape in rows):
            raise ShapeError(f"frozen has parameter shapes {sorted(rows)}. Pass numbers, or arrays of one shape (n,).")
        size = rows.pop()[0] if rows else check_integer("n", 1 if n is None else n, minimum=1)
        if n is not None and size != n:
            raise ShapeError(f"n={n!r} for a distribution with parameters of {size:,} rows. Leave n out.")
        self._parameters = np.column_stack([np.broadcast_to(value, (size,)) for value in parameters])
        bad = np.isnan(np.atleast_1d(self._distribution.cdf(0.0)))
        if bad.any():
            row = int(bad.argmax())
            raise InvalidInputError(
                f"frozen row {row}: {self._kind.name} has no distribution with parameters "
                f"{self._parameters[row].tolist()!r} ({bad.sum():,} of {bad.size:,} rows). Give scales above zero, and "
                "shapes that it takes."
            )

    @property
    def _distribution(self) -> Any:
        return self._kind(*np.ascontiguousarray(self._parameters.T))

    def _of(self, method: str, points: FloatArray) -> FloatArray:
        """Call a method of the distribution; SciPy lines rows up with the last axis."""
        with np.errstate(all="ignore"):
            found = getattr(self._distribution, method)(points.T).T
        return np.ascontiguousarray(np.broadcast_to(found, (len(self), points.shape[1])))

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._of("cdf", y)

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        return self._of("cdf", np.ceil(y) - 1.0) if self._is_discrete else self._of("cdf", y)

    def _sf(self, y: FloatArray) -> FloatArray:
        return self._of("sf", y)

    def _ppf(self, u: FloatArray) -> FloatArray:
        return self._of("ppf", u)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        return self._of("logpmf" if self._is_discrete else "logpdf", y)

    @property
    def has_atoms(self) -> bool:
        return self._is_discrete

    def _crps(self, y: FloatArray) -> FloatArray:
        if not self._is_discrete:
            return super()._crps(y)
        self._refuse_long_sums()
        low, high = self._ppf(np.array([[SMALLEST_CLIP, 1.0 - SMALLEST_CLIP]])).T
        inside = np.clip(y, low, high)
        scores = np.abs(y - inside)  # beyond these quantiles the CDF is 0 or 1
        # Rows are summed over powers of two of whole numbers, so that a row's sum is the same beside any others.
        sizes = np.exp2(np.ceil(np.log2(high - low + 1.0)))
        is_long = ~(sizes <= _BATCH)
        if is_long.any():
            scores[is_long] += super(ScipyForecast, self[is_long])._crps(inside[is_long])
        for size in np.unique(sizes[~is_long]).astype(np.int64):
            rows = np.flatnonzero(sizes == size)
            for start in range(0, rows.size, _BATCH // size):
                part = rows[start : start + _BATCH // size]
                at = low[part, None] + np.arange(size, dtype=np.float64)
                left = np.clip(inside[part, None] - at, 0.0, 1.0)  # of the step from one whole number to the next
                cdf = self[part]._cdf_of_steps(at)
                scores[part] += np.sum(left * cdf**2 + (1.0 - left) * (1.0 - cdf) ** 2, axis=1)
        return scores

    @property
    def _is_added_up(self) -> bool:
        """Whether SciPy knows no CDF and adds probabilities up, from the lowest whole number on."""
        from scipy.stats import rv_discrete

        return type(self._kind)._cdf is rv_discrete._cdf

    def _cdf_of_steps(self, at: FloatArray) -> FloatArray:
        """Return the CDF at consecutive whole numbers, shape (n, m)."""
        if not self._is_added_up:
            return self.cdf(at)
        return np.minimum(self.cdf_below(at[:, :1]) + np.cumsum(self._of("pmf", at), axis=1), 1.0)

    def _refuse_long_sums(self) -> None:
        """Refuse rows whose probabilities SciPy would add up for longer than anyone waits, such as those of zipf(2)."""
        if not self._is_added_up:
            return
        is_long = np.full(len(self), True)
        for size in (_BATCH // 1000, _BATCH):  # the fewer numbers tell most rows
            rows = np.flatnonzero(is_long)
            if rows.size:
                lowest = self[rows]._distribution.support()[0]
                is_long[rows] = self[rows].sf(np.broadcast_to(lowest + size, rows.size)) > SMALLEST_CLIP
        problem = f"lets {self._kind.name} reach beyond {_BATCH:,} whole numbers, which SciPy adds up one by one"
        fix = "Pass samples: SampleForecast(frozen.rvs(size=(1_000, n)).T)."
        refuse(is_long, self._parameters[:, 0], "frozen", problem, fix)

    def mean(self) -> FloatArray:
        return np.broadcast_to(np.asarray(self._distribution.mean(), dtype=np.float64), (len(self),))

    def std(self) -> FloatArray:
        return np.broadcast_to(np.asarray(self._distribution.std(), dtype=np.float64), (len(self),))


def _is_frozen(value: object) -> bool:
    return hasattr(value, "kwds") and hasattr(getattr(value, "dist", None), "_parse_args")


def from_ngboost(model: Any, X: Any) -> GaussianForecast | ScipyForecast:
    """Forecast with a fitted NGBoost regressor.

    Parameters
    ----------
    model : NGBRegressor
        Or any object whose ``pred_dist(X)`` gives distributions with a frozen SciPy distribution as ``dist``, or, as
        normal distributions, with no more than ``loc`` and ``scale`` as ``params``.
    X : table of features, as the model takes it
    """
    if not hasattr(model, "pred_dist"):
        raise InvalidTypeError(f"model is a {type(model).__name__} without pred_dist. Pass a fitted NGBRegressor.")
    predicted = model.pred_dist(X)
    frozen = getattr(predicted, "dist", None)
    params = getattr(predicted, "params", None)
    if frozen is None:
        if isinstance(params, Mapping) and set(params) == {"loc", "scale"}:
            return GaussianForecast(params["loc"], params["scale"])
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
