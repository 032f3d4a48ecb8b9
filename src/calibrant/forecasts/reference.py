"""Reference forecasts that a forecast is compared with: climatology and persistence."""

from __future__ import annotations

import copy

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.kinds import SampleForecast
from calibrant.forecasts.points import as_numbers, frozen
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike, check_integer

#: Past changes that a persistence forecast is dressed with, at most: more are taken at even levels.
_MOST_CHANGES = 199


class ClimatologyForecast(Forecast):
    """The same distribution in every row: that of past outcomes.

    Parameters
    ----------
    history : array-like of shape (m,)
        Past outcomes, in any order; at least two. Take them from before the rows that are forecast.
    n : int
        Number of rows.

    Notes
    -----
    The CDF is that of the outcomes, a step at each, and there is no density. It is calibrated where the future is like
    the past, and tells no row from another: a forecast that has skill does better.

    Examples
    --------
    >>> from calibrant.forecasts import ClimatologyForecast
    >>> ClimatologyForecast([3.0, 1.0, 2.0, 4.0], 2).cdf([2.5, 0.0])
    array([0.5, 0. ])
    """

    __slots__ = ("_history", "_rows", "_sums")
    _by_row = ("_rows",)

    def __init__(self, history: ArrayLike, n: int) -> None:
        values = as_numbers(history, name="history")
        if values.size < 2:
            raise InvalidInputError(f"history has {values.size} outcome. Pass at least two past outcomes.")
        self._rows = frozen(np.zeros(check_integer("n", n, minimum=1)))
        self._keep(np.sort(values))

    def _keep(self, rising: FloatArray) -> None:
        self._history = frozen(rising)
        self._sums = frozen(np.concatenate(([0.0], np.cumsum(rising - rising.mean()))))

    @property
    def history(self) -> FloatArray:
        """The past outcomes, sorted."""
        return self._history

    def clipped(self, low: float, high: float) -> ClimatologyForecast:
        """Return the distributions of the numbers moved into [low, high]."""
        moved = copy.copy(self)
        moved._keep(np.clip(self._history, low, high))
        return moved

    def _share(self, y: FloatArray, side: str) -> FloatArray:
        found = np.searchsorted(self._history, y, side=side) / self._history.size  # type: ignore[call-overload]
        return np.array(np.broadcast_to(found, (len(self), y.shape[1])))

    def _cdf(self, y: FloatArray) -> FloatArray:
        return self._share(y, "right")

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        return self._share(y, "left")

    def _ppf(self, u: FloatArray) -> FloatArray:
        m = self._history.size
        at = np.clip(np.ceil(u * m - 1e-9).astype(np.intp) - 1, 0, m - 1)
        return np.array(np.broadcast_to(self._history[at], (len(self), u.shape[1])))

    def _crps(self, y: FloatArray) -> FloatArray:
        """Return E|X - y| - E|X - X'| / 2, by sums of the sorted outcomes up to y."""
        m, centre = self._history.size, float(self._history.mean())
        k, z = np.searchsorted(self._history, y, side="right"), y - centre
        distance = (z * (2.0 * k - m) - 2.0 * self._sums[k] + self._sums[-1]) / m
        ranks = 2.0 * np.arange(1, m + 1) - m - 1.0
        return np.asarray(distance - float(ranks @ (self._history - centre)) / m**2)

    def mean(self) -> FloatArray:
        return np.full(len(self), self._history.mean())

    def std(self) -> FloatArray:
        return np.full(len(self), self._history.std())


def climatology(history: ArrayLike, n: int) -> ClimatologyForecast:
    """Forecast the distribution of past outcomes in each of `n` rows; see `ClimatologyForecast`.

    Parameters
    ----------
    history : array-like of shape (m,)
        Past outcomes.
    n : int
        Number of rows.
    """
    return ClimatologyForecast(history, n)


def persistence(last: ArrayLike, *, changes: ArrayLike | None = None) -> SampleForecast:
    """Forecast that nothing changes, or that changes are as they were.

    Parameters
    ----------
    last : array-like of shape (n,)
        The outcome of each row that was last known when it was forecast: of a forecast h steps ahead, h steps before.
    changes : array-like of shape (m,), optional
        Past changes over as many steps, whose distribution is put around `last`; more than 199 are taken at even
        levels. Without them the forecast is the single number `last`, whose CRPS is the absolute error.

    Examples
    --------
    >>> from calibrant.forecasts import persistence
    >>> persistence([1.0, 3.0], changes=[-1.0, 0.0, 1.0]).ppf(0.5)
    array([1., 3.])
    """
    known = as_numbers(last, name="last")
    if changes is None:
        return SampleForecast(np.column_stack((known, known)))
    moves = np.sort(as_numbers(changes, name="changes"))
    if moves.size < 2:
        raise InvalidInputError(f"changes has {moves.size} number. Pass at least two, or leave changes out.")
    if moves.size > _MOST_CHANGES:
        moves = np.quantile(moves, (np.arange(_MOST_CHANGES) + 0.5) / _MOST_CHANGES)
    return SampleForecast(known[:, None] + moves)


def as_reference(reference: object, n: int, history: ArrayLike | None) -> Forecast:
    """Return the forecast to compare with: a forecast of as many rows, or "climatology"."""
    if isinstance(reference, Forecast):
        if len(reference) != n:
            raise InvalidInputError(f"reference has {len(reference):,} rows and the forecast {n:,}. Pass one per row.")
        return reference
    if reference != "climatology":
        raise InvalidTypeError(
            f'reference={reference!r:.60} is no forecast. Pass one, such as persistence(last), or "climatology".'
        )
    if history is None:
        raise InvalidInputError('reference="climatology" needs history: outcomes from before the rows. Pass history=.')
    return ClimatologyForecast(history, n)
