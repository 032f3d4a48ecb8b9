"""Frozen distributions of SciPy, whose parameters may be arrays with a value per row."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.forecasts.base import Forecast
from calibrant.numerics import SMALLEST_CLIP, FloatArray
from calibrant.validation import check_integer

#: Whole numbers of a discrete distribution that are summed over at once.
_BATCH = 2_000_000


class ScipyForecast(Forecast):
    """Distributions frozen by SciPy, such as ``scipy.stats.t(df=4, loc=mean, scale=scale)``.

    Parameters
    ----------
    frozen : frozen distribution of scipy.stats
        Continuous, or discrete on whole numbers. Its parameters are numbers or arrays of shape (n,).
    n : int, optional
        Number of rows, where all parameters are numbers; 1 by default.

    Raises
    ------
    CalibrantError
        If it is no frozen distribution, or its parameters have other shapes or values that they can't take.

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
        if not is_frozen(frozen):
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
            raise ShapeError(
                f"frozen has parameters of shapes {sorted(rows)}. Pass numbers, or arrays of one shape (n,)."
            )
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

    def __len__(self) -> int:
        return len(self._parameters)

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
        """Whether the distribution is discrete."""
        return self._is_discrete

    def _crps(self, y: FloatArray) -> FloatArray:
        if not self._is_discrete:
            return super()._crps(y)
        ends = self._ppf(np.array([[SMALLEST_CLIP, 1.0 - SMALLEST_CLIP]]))
        low = np.minimum(ends[:, 0], np.floor(y))
        steps = int(np.max(np.maximum(ends[:, 1], np.ceil(y)) - low)) + 1
        rows = max(_BATCH // steps, 1)
        scores = np.empty(len(self))
        for start in range(0, len(self), rows):
            part = slice(start, start + rows)
            at = low[part, None] + np.arange(steps, dtype=np.float64)
            left = np.clip(y[part, None] - at, 0.0, 1.0)  # of the step from one whole number to the next
            cdf = self[part].cdf(at)
            scores[part] = np.sum(left * cdf**2 + (1.0 - left) * (1.0 - cdf) ** 2, axis=1)
        return scores

    def mean(self) -> FloatArray:
        """Return the mean of each row, shape (n,)."""
        return np.broadcast_to(np.asarray(self._distribution.mean(), dtype=np.float64), (len(self),))

    def std(self) -> FloatArray:
        """Return the standard deviation of each row, shape (n,)."""
        return np.broadcast_to(np.asarray(self._distribution.std(), dtype=np.float64), (len(self),))


def is_frozen(value: object) -> bool:
    """Say whether this is a frozen distribution of SciPy."""
    return hasattr(value, "kwds") and hasattr(getattr(value, "dist", None), "_parse_args")
