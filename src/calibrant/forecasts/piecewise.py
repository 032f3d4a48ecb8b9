"""CDFs that are linear between knots, with a stated tail on either side."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import frozen
from calibrant.numerics import FloatArray

Tails: TypeAlias = Literal["exponential", "atoms"]
TAILS: tuple[str, ...] = get_args(Tails)


class PiecewiseForecast(Forecast):
    """Distributions whose CDFs run in straight lines between knots.

    `y` and `levels` have shape (n, K), or (1, K) where all rows share them; at least one has n rows. Probability
    below the first knot and above the last is an exponential tail whose density goes on from the nearest piece of
    positive width, or sits on that knot itself where `tails` is "atoms" or no piece has a width.
    """

    __slots__ = ("_levels", "_scales", "_y")

    def _set(self, y: FloatArray, levels: FloatArray, tails: Tails) -> None:
        self._y, self._levels = frozen(y), frozen(levels)
        n = max(len(y), len(levels))
        scales = np.zeros((n, 2)) if tails == "atoms" else _tail_scales(self._y, self._levels)
        self._scales = frozen(np.broadcast_to(scales, (n, 2)))

    def __len__(self) -> int:
        return len(self._scales)

    def _take(self, rows: npt.NDArray[np.intp]) -> Self:
        taken = type(self).__new__(type(self))
        own = [part if len(part) < len(self) else part[rows] for part in (self._y, self._levels, self._scales)]
        taken._y, taken._levels, taken._scales = map(frozen, own)
        return taken

    def _cdf(self, y: FloatArray) -> FloatArray:
        out = np.empty((len(self), y.shape[1]))
        kernels.evaluate_pieces(y, self._y, self._levels, self._scales, False, out)
        return out

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        out = np.empty((len(self), y.shape[1]))
        kernels.evaluate_pieces(y, self._y, self._levels, self._scales, True, out)
        return out

    def _ppf(self, u: FloatArray) -> FloatArray:
        out = np.empty((len(self), u.shape[1]))
        kernels.invert_pieces(u, self._y, self._levels, self._scales, out)
        return out

    def _logpdf(self, y: FloatArray) -> FloatArray:
        out = np.empty((len(self), y.shape[1]))
        kernels.slope_of_pieces(y, self._y, self._levels, self._scales, out)
        with np.errstate(divide="ignore"):  # no density is right between knots of one level
            log_density: FloatArray = np.log(out)
        return log_density

    def _crps(self, y: FloatArray) -> FloatArray:
        out = np.empty(len(self))
        kernels.score_pieces(y, self._y, self._levels, self._scales, out)
        return out

    def mean(self) -> FloatArray:
        """Return the mean of each row, shape (n,)."""
        origin = self._y[:, :1]
        y, mass = self._y - origin, np.diff(self._levels, axis=1)
        first, last = self._levels[:, 0], 1.0 - self._levels[:, -1]
        inner: FloatArray = np.sum(mass * (y[:, :-1] + y[:, 1:]), axis=1) * 0.5
        tails = last * (y[:, -1] + self._scales[:, 1]) - first * self._scales[:, 0]
        mean: FloatArray = origin[:, 0] + inner + tails
        return mean

    def std(self) -> FloatArray:
        """Return the standard deviation of each row, shape (n,)."""
        y, mass = self._y - self.mean()[:, None], np.diff(self._levels, axis=1)
        first, last = self._levels[:, 0], 1.0 - self._levels[:, -1]
        left, right = self._scales.T
        a, b = y[:, :-1], y[:, 1:]
        inner: FloatArray = np.sum(mass * (a * a + a * b + b * b), axis=1) / 3.0
        tails = first * ((y[:, 0] - left) ** 2 + left**2) + last * ((y[:, -1] + right) ** 2 + right**2)
        std: FloatArray = np.sqrt(inner + tails)
        return std


def _tail_scales(y: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the scales of both tails, shape (n, 2)."""
    left = _scale_beside(y, levels)
    right = _scale_beside(-y[:, ::-1], 1.0 - levels[:, ::-1])
    return np.column_stack((left, right))


def _scale_beside(y: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the scale of the left tail: mass below the first knot, over the density of the first piece with both."""
    width, mass = np.broadcast_arrays(np.diff(y, axis=1), np.diff(levels, axis=1))
    usable = (width > 0.0) & (mass > 0.0)
    piece = usable.argmax(axis=1)[:, None]
    at_width, at_mass = (np.take_along_axis(part, piece, axis=1)[:, 0] for part in (width, mass))
    return np.where(usable.any(axis=1), levels[:, 0] * at_width / np.where(at_mass > 0.0, at_mass, 1.0), 0.0)
