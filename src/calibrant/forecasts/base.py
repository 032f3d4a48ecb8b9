"""A batch of predictive distributions of a number, and what every kind of them can do."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.forecasts.points import as_levels, as_numbers, as_points, central_ends
from calibrant.numerics import SMALLEST_CLIP, FloatArray
from calibrant.phrases import count
from calibrant.validation import ArrayLike, as_generator, check_fraction, check_integer, check_same_length

#: Panels that integrals over a distribution are divided into, by quantiles at even steps of the logit, and numbers that
#: are held at once.
_N_PANELS, _BATCH = 96, 2_000_000
#: Nodes and weights of the Gauss-Legendre rule on [0, 1] in each panel.
_NODES, _WEIGHTS = (a * 0.5 for a in np.polynomial.legendre.leggauss(5))
_NODES = _NODES + 0.5


class Forecast(ABC):
    """Predictive distributions of n numbers, one per row.

    Notes
    -----
    **Shapes.** `cdf`, `cdf_below`, `sf`, `pdf` and `logpdf` take points `y`, and `ppf` takes levels `u`, by one rule:

    - a number, or shape (n,): one value per row; the answer has shape (n,);
    - shape (n, m): m values per row; the answer has shape (n, m);
    - shape (1, m): the same m values in every row; the answer has shape (n, m).

    **Limits of float64.** A CDF that comes within 1e-16 of 1 is 1: that of a normal distribution from 8.3 standard
    deviations on. `sf` keeps its digits there. What needs the level itself, such as a recalibration of levels, moves
    it into [1e-12, 1 - 1e-12] (`calibrant.numerics.SMALLEST_CLIP`), so that outcomes beyond 7.03 standard deviations
    count alike. Densities are computed without a CDF and saturate nowhere.

    **Kinds.** A kind of forecast defines `_cdf` and `_ppf`; where it has a density, `_logpdf`; where it has atoms,
    `_cdf_below`. Their points are checked, of shape (n, m) or (1, m), and their answers have shape (n, m). What it
    keeps of each row is in attributes that `_by_row` names: arrays, or what else can be indexed by row numbers. An
    array of one row belongs to all rows, of which there are as many as the longest has.
    """

    __slots__ = ()
    _by_row: ClassVar[tuple[str, ...]]

    def __len__(self) -> int:
        """Return the number of rows."""
        return max(len(getattr(self, name)) for name in self._by_row)

    @abstractmethod
    def _cdf(self, y: FloatArray) -> FloatArray:
        """Return P(Y <= y) at checked points."""

    @abstractmethod
    def _ppf(self, u: FloatArray) -> FloatArray:
        """Return the least y with P(Y <= y) >= u at checked levels."""

    def _take(self, rows: npt.NDArray[np.intp]) -> Self:
        taken = copy.copy(self)
        for name in self._by_row:
            of_rows = getattr(self, name)
            if len(of_rows) == len(self):
                of_rows = of_rows[rows]
                if isinstance(of_rows, np.ndarray):
                    of_rows.flags.writeable = False
                setattr(taken, name, of_rows)
        return taken

    def _logpdf(self, y: FloatArray) -> FloatArray:  # noqa: ARG002 - kinds with a density need it
        raise InvalidTypeError(
            f"{type(self).__name__} has no density, and so no log score. Use crps, or a forecast with a density, "
            "such as SampleForecast(...).smoothed()."
        )

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        return self._cdf(y)

    def _sf(self, y: FloatArray) -> FloatArray:
        return 1.0 - self._cdf(y)

    def _crps(self, y: FloatArray) -> FloatArray:
        return self.integrals(ranked_score_at, y)[:, 0]

    def _atoms(self) -> FloatArray | None:
        """Return the sorted numbers that hold all probability of each row, shape (n, m); None where there are more."""
        return None

    @property
    def has_density(self) -> bool:
        """Whether `pdf` and `logpdf` can be asked for."""
        return self._defines("_logpdf")

    @property
    def has_atoms(self) -> bool:
        """Whether single values may have positive probability, so that `cdf_below` may differ from `cdf`."""
        return self._defines("_cdf_below")

    def _defines(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(Forecast, method)

    def cdf(self, y: ArrayLike) -> FloatArray:
        """Return P(Y <= y) of each row; see the class for the shapes."""
        return self._answer(self._cdf, as_points(y, len(self), name="y"))

    def cdf_below(self, y: ArrayLike) -> FloatArray:
        """Return P(Y < y) of each row: less than `cdf` where y is an atom."""
        return self._answer(self._cdf_below, as_points(y, len(self), name="y"))

    def sf(self, y: ArrayLike) -> FloatArray:
        """Return P(Y > y) of each row, with its digits where it is tiny if the kind of forecast allows."""
        return self._answer(self._sf, as_points(y, len(self), name="y"))

    def ppf(self, u: ArrayLike) -> FloatArray:
        """Return the quantiles at levels `u` of each row: the least y with P(Y <= y) >= u."""
        return self._answer(self._ppf, as_levels(u, len(self), name="u"))

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Return the log of the density of each row at y; raise InvalidTypeError where `has_density` is false."""
        return self._answer(self._logpdf, as_points(y, len(self), name="y"))

    def _answer(self, of: Callable[[FloatArray], FloatArray], points: FloatArray) -> FloatArray:
        """Evaluate at checked points, and bring the answers to the shape that was asked for."""
        return of(points) if points.ndim == 2 else of(points.reshape(-1, 1))[:, 0]

    def pdf(self, y: ArrayLike) -> FloatArray:
        """Return the density of each row at y; see `logpdf`."""
        return np.exp(self.logpdf(y))

    def sample(self, n: int, rng: int | np.random.Generator | None = None) -> FloatArray:
        """Draw `n` values from each row, shape (rows, n)."""
        n = check_integer("n", n, minimum=1)
        return self._ppf(as_generator(rng).random((len(self), n)))

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the central interval of each row that holds `level` of the probability."""
        level = check_fraction("level", level)
        ends = self._ppf(np.array([central_ends(level)]))
        return ends[:, 0], ends[:, 1]

    def mean(self) -> FloatArray:
        """Return the mean of each row, shape (n,)."""
        return self.integrals(_moments)[:, 0]

    def std(self) -> FloatArray:
        """Return the standard deviation of each row, shape (n,)."""
        return self.integrals(_moments)[:, 1]

    def crps(self, y: ArrayLike) -> FloatArray:
        """Return the CRPS of each row, int (F(t) - 1{y <= t})^2 dt, in closed form or by a Gauss-Legendre rule."""
        values = as_numbers(y, name="y")
        check_same_length(len(self), values.size, "the forecast", "y")
        return self._crps(values)

    def integrals(self, of: Any, y: FloatArray | None = None) -> FloatArray:
        """Integrate over the number line in batches of rows: `of` takes the forecast, the panels' ends and outcomes."""
        z = np.linspace(math.log(SMALLEST_CLIP), -math.log(SMALLEST_CLIP), _N_PANELS + 1)
        levels = np.minimum(1.0 / (1.0 + np.exp(-z)), 1.0 - SMALLEST_CLIP)[None, :]
        outcomes = np.zeros(len(self)) if y is None else y
        step = max(_BATCH // (_N_PANELS * _NODES.size), 1)
        parts = []
        for start in range(0, len(self), step):
            part = self._take(np.arange(start, min(start + step, len(self))))
            parts.append(of(part, part.ppf(levels), outcomes[start : start + step]))
        return np.concatenate(parts)

    def __getitem__(self, index: Any) -> Self:
        """Return the forecast of some rows: a slice, a mask, row numbers, or one number for a forecast of one row."""
        n = len(self)
        if isinstance(index, tuple):
            raise InvalidTypeError("a forecast has one dimension, its rows. Pass a slice, a mask or row numbers.")
        try:
            picked = np.atleast_1d(np.arange(n)[index if isinstance(index, slice) else np.asarray(index)])
        except (IndexError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"index into a forecast of {n:,} rows: {error}. Pass a slice, a mask or row numbers."
            ) from None
        if picked.ndim != 1 or picked.size == 0:
            raise ShapeError(f"index picks rows of shape {picked.shape}. Pick at least one row of the {n:,}.")
        return self._take(picked)

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {count(len(self), 'row')}"


def _nodes(ends: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights, shape (n, panels * nodes) each, of the panels between `ends`, shape (n, panels + 1)."""
    width = np.diff(ends, axis=1)[:, :, None]
    at = ends[:, :-1, None] + width * _NODES
    return at.reshape(len(ends), -1), (width * _WEIGHTS).reshape(len(ends), -1)


def _moments(forecast: Forecast, ends: FloatArray, _: FloatArray) -> FloatArray:
    """Return mean and standard deviation, shape (n, 2), of the distribution cut off at the outermost quantiles."""
    at, weight = _nodes(ends)
    above = 1.0 - forecast.cdf(at)
    low = ends[:, 0]
    mean = low + np.sum(weight * above, axis=1)
    variance = (low - mean) ** 2 + np.sum(2.0 * weight * (at - mean[:, None]) * above, axis=1)
    return np.column_stack((mean, np.sqrt(np.maximum(variance, 0.0))))


def ranked_score_at(forecast: Forecast, ends: FloatArray, y: FloatArray) -> FloatArray:
    """Return the CRPS, shape (n, 1): the outcome is one more end, so that the integrand jumps within no panel."""
    at, weight = _nodes(np.sort(np.column_stack((ends, y)), axis=1))
    cdf = forecast.cdf(at)
    return np.asarray(np.sum(weight * (cdf - (at >= y[:, None])) ** 2, axis=1, keepdims=True))
