"""Losses of several actions that may differ from row to row: by the interval of the outcome, or a function of it.

What an action is expected to cost is a mean over a row's possible outcomes with their probabilities: exact for a
`StepLoss`, over 200 quantiles at even levels for a `FunctionLoss`. The same outcomes give the variance and the skewness
of what is lost.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.decisions import LossFunction, ThresholdLoss, as_loss
from calibrant.forecasts.points import as_numbers, is_number
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import count
from calibrant.validation import ArrayLike

#: Levels at whose quantiles a function of the outcome is averaged, and rows that are held at once.
_N_QUANTILES, _BATCH = 200, 10_000


class RowLoss(ABC):
    """What each of several actions costs with each outcome, of rows that may differ.

    Attributes
    ----------
    actions : tuple
        Their names, in the order in which decisions number them.
    n_rows : int or None
        How many rows it is of; None where it is the same in all.
    """

    actions: tuple[Any, ...]
    n_rows: int | None = None

    @abstractmethod
    def possible(self, forecast: Forecast) -> tuple[FloatArray, FloatArray]:
        """Return losses, shape (n, A, m), of m possible outcomes of each row, and their chances, (n, m) or (1, m)."""

    @abstractmethod
    def realised(self, y: FloatArray) -> FloatArray:
        """Return what each action costs with each outcome, shape (n, A)."""

    @abstractmethod
    def take(self, rows: npt.NDArray[np.intp]) -> Self:
        """Return the loss of some rows, by their numbers."""

    def check_rows(self, n: int, what: str) -> None:
        """Refuse a loss of another number of rows."""
        if self.n_rows not in (None, n):
            raise ShapeError(
                f"{what} is of {count(int(self.n_rows or 0), 'row')} and the forecast of {n:,}. Pass as many."
            )

    def expected(self, forecast: Forecast) -> FloatArray:
        """Return what each action is expected to cost in each row, shape (n, A)."""
        return np.concatenate([np.einsum("nam,nm->na", *both) for both in self._parts(forecast)])

    def moments(self, forecast: Forecast, taken: IntArray) -> FloatArray:
        """Return mean, variance and third central moment of what the actions taken cost, shape (n, 3)."""
        found, start = [], 0
        for losses, chance in self._parts(forecast):
            own = np.take_along_axis(losses, taken[start : start + len(losses), None, None], axis=1)[:, 0]
            mean = np.sum(own * chance, axis=1)
            off = own - mean[:, None]
            found.append(np.column_stack((mean, np.sum(off**2 * chance, axis=1), np.sum(off**3 * chance, axis=1))))
            start += len(losses)
        return np.concatenate(found)

    def _parts(self, forecast: Forecast) -> list[tuple[FloatArray, FloatArray]]:
        """Return possible losses and their chances, shape (rows, A, m) and (rows, m), of parts of the rows."""
        parts, n = [], len(forecast)
        for start in range(0, n, _BATCH):
            rows = np.arange(start, min(start + _BATCH, n))
            losses, chance = self.take(rows).possible(forecast[rows])
            parts.append((losses, np.broadcast_to(chance, (rows.size, losses.shape[2]))))
        return parts


class StepLoss(RowLoss):
    """A loss that depends on which interval between thresholds the outcome falls into.

    Parameters
    ----------
    y0 : float or array-like of shape (K,) or (n, K)
        Thresholds, rising; of all rows or of each.
    table : array-like of shape (A, K + 1) or (n, A, K + 1)
        What each of A actions costs where the outcome is at most the first threshold, above it and at most the second,
        and so on; of all rows or of each.
    actions : sequence, optional
        Names of the actions, in the order of the table.

    Raises
    ------
    CalibrantError
        If shapes don't fit, thresholds fall, or a number is not finite.

    Notes
    -----
    Expected losses are exact: sums over P(Y <= y0). A `ThresholdLoss` is one of two actions and one threshold.

    Examples
    --------
    Of three staffing levels, the dearer the more work comes:

    >>> from calibrant.forecasts import GaussianForecast, StepLoss
    >>> loss = StepLoss([50.0, 80.0], [[1.0, 6.0, 20.0], [2.0, 2.0, 9.0], [4.0, 4.0, 4.0]])
    >>> loss.expected(GaussianForecast([40.0, 90.0], 10.0)).round(2)
    array([[ 1.79,  2.  ,  4.  ],
           [17.78,  7.89,  4.  ]])
    """

    def __init__(self, y0: ArrayLike, table: ArrayLike, *, actions: Sequence[Any] | None = None) -> None:
        self._y0 = self._thresholds(y0)
        try:
            found = np.array(table, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidTypeError(f"table={table!r:.80} holds no numbers. Pass a row per action.") from None
        found = found[None] if found.ndim == 2 else found
        n_steps = self._y0.shape[1] + 1
        if found.ndim != 3 or found.shape[1] < 2 or found.shape[2] != n_steps:
            raise ShapeError(
                f"table has shape {np.shape(table)} for {count(n_steps - 1, 'threshold')}. Pass a row per action, at "
                f"least two, of {n_steps} losses each, or such a table per row."
            )
        if not np.isfinite(found).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(found))[0])
            raise InvalidInputError(
                f"table{list(place)}: {found[place].item()!r} is not finite. Pass a loss for each case."
            )
        self._table = found
        sizes = {len(each) for each in (self._y0, found)} - {1}
        if len(sizes) > 1:
            raise ShapeError(f"y0 is of {len(self._y0):,} rows and table of {len(found):,}. Pass as many.")
        self.n_rows = sizes.pop() if sizes else None
        self.actions = _names(actions, found.shape[1])

    @staticmethod
    def _thresholds(y0: ArrayLike) -> FloatArray:
        if is_number(y0):
            y0 = [float(y0)]
        ndim = np.ndim(np.asarray(y0)) if isinstance(y0, (list, tuple, np.ndarray)) else 1
        if ndim == 2 and np.shape(y0)[1] == 1:  # the gate of scores refuses single columns
            found = as_numbers(np.asarray(y0)[:, 0], name="y0")[:, None]
        else:
            found = as_numbers(y0, name="y0", ndim=2 if ndim == 2 else 1)
            found = found[None, :] if found.ndim == 1 else found
        falls = np.diff(found, axis=1) <= 0.0
        if falls.any():
            row, k = (int(i) for i in np.argwhere(falls)[0])
            where = f"y0 row {row}" if len(found) > 1 else "y0"
            raise InvalidInputError(
                f"{where}: {found[row, k + 1].item()!r} comes after {found[row, k].item()!r}, but they must rise. "
                "Sort them, and the columns of table with them."
            )
        return found

    def take(self, rows: npt.NDArray[np.intp]) -> Self:
        if self.n_rows is None:
            return self
        part = copy.copy(self)
        part._y0 = self._y0[rows] if len(self._y0) > 1 else self._y0
        part._table = self._table[rows] if len(self._table) > 1 else self._table
        part.n_rows = rows.size
        return part

    def possible(self, forecast: Forecast) -> tuple[FloatArray, FloatArray]:
        n = len(forecast)
        levels = forecast.cdf(self._y0)
        chance = np.diff(np.column_stack((np.zeros(n), levels, np.ones(n))), axis=1)
        return np.broadcast_to(self._table, (n, *self._table.shape[1:])), chance

    def realised(self, y: FloatArray) -> FloatArray:
        step = (y[:, None] > self._y0).sum(axis=1)
        table = np.broadcast_to(self._table, (y.size, *self._table.shape[1:]))
        return np.asarray(np.take_along_axis(table, step[:, None, None], axis=2)[:, :, 0])


class FunctionLoss(RowLoss):
    """A loss that is any function of the action and the outcome, with what is known of each row.

    Parameters
    ----------
    function : callable
        ``function(action, y, **costs)`` takes one of the actions, outcomes of shape (rows, m), and `costs` of shape
        (rows, 1), and returns losses of shape (rows, m).
    actions : sequence
        The actions as the function takes them, at least two: numbers such as orders, or names.
    costs : mapping of names to array-like of shape (n,), optional
        What differs from row to row, such as prices.

    Raises
    ------
    CalibrantError
        If an argument can't be used, or the function gives what is not finite or of another shape.

    Notes
    -----
    Expected losses are means over 200 quantiles at even levels of each row's forecast.

    Examples
    --------
    Each order costs its price; each unit of demand that is not met loses a sale of 5:

    >>> from calibrant.forecasts import FunctionLoss, GaussianForecast
    >>> loss = FunctionLoss(
    ...     lambda order, demand, price: price * order + 5.0 * (demand - order).clip(0.0),
    ...     actions=[0, 10, 20],
    ...     costs={"price": [1.0, 4.0]},
    ... )
    >>> loss.expected(GaussianForecast([10.0, 10.0], 2.0)).argmin(axis=1)
    array([1, 1])
    """

    def __init__(
        self, function: Callable[..., Any], actions: Sequence[Any], *, costs: Mapping[str, ArrayLike] | None = None
    ) -> None:
        if not callable(function):
            raise InvalidTypeError(f"function={function!r:.60} can't be called. Pass one of an action and outcomes.")
        self._function = function
        self.actions = _names(actions, None)
        self._costs = {name: as_numbers(values, name=f"costs[{name!r}]") for name, values in (costs or {}).items()}
        sizes = {values.size for values in self._costs.values()}
        if len(sizes) > 1:
            raise ShapeError(f"costs are of {sorted(sizes)!r} rows. Pass one number per row in each.")
        self.n_rows = sizes.pop() if sizes else None

    def take(self, rows: npt.NDArray[np.intp]) -> Self:
        if self.n_rows is None:
            return self
        part = copy.copy(self)
        part._costs = {name: values[rows] for name, values in self._costs.items()}
        part.n_rows = rows.size
        return part

    def possible(self, forecast: Forecast) -> tuple[FloatArray, FloatArray]:
        levels = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
        return self._of(forecast.ppf(levels[None, :])), np.full((1, _N_QUANTILES), 1.0 / _N_QUANTILES)

    def realised(self, y: FloatArray) -> FloatArray:
        return self._of(y[:, None])[:, :, 0]

    def _of(self, y: FloatArray) -> FloatArray:
        costs = {name: values[:, None] for name, values in self._costs.items()}
        found = np.empty((len(y), len(self.actions), y.shape[1]))
        for a, action in enumerate(self.actions):
            losses = np.asarray(self._function(action, y, **costs), dtype=np.float64)
            if losses.shape != y.shape:
                raise ShapeError(
                    f"the loss of action {action!r:.40} has shape {losses.shape} for outcomes of shape {y.shape}. "
                    "Return one loss for each outcome."
                )
            bad = ~np.isfinite(losses)
            if bad.any():
                row, k = (int(i) for i in np.argwhere(bad)[0])
                raise InvalidInputError(
                    f"the loss of action {action!r:.40}, row {row}: {losses[row, k].item()!r} for outcome "
                    f"{y[row, k].item()!r} ({bad.any(axis=1).sum():,} of {len(y):,} rows). Return finite losses."
                )
            found[:, a] = losses
        return found


def as_row_loss(loss: RowLoss | LossFunction | ArrayLike, y0: float | None = None) -> RowLoss:
    """Return any loss as one of rows: a table at `y0`, a `ThresholdLoss`, or a function of decisions and outcomes."""
    if isinstance(loss, RowLoss):
        return loss
    checked = as_loss(loss, y0)
    if isinstance(checked, ThresholdLoss):
        return StepLoss(checked.y0, np.array(checked.table)[:, ::-1], actions=("no", "yes"))

    def of(action: str, y: FloatArray) -> FloatArray:
        return checked(np.full(y.shape, action == "yes"), y)

    return FunctionLoss(of, ("no", "yes"))


def _names(actions: Sequence[Any] | None, n: int | None) -> tuple[Any, ...]:
    """Check names of actions, or number them."""
    if actions is None:
        return tuple(range(int(n or 0)))
    found = tuple(actions)
    if len(found) < 2 or (n is not None and len(found) != n):
        wanted = "at least two" if n is None else f"{n}, one per row of the table"
        raise ShapeError(f"actions names {len(found)}. Pass {wanted}.")
    if len(set(map(str, found))) != len(found):
        raise InvalidInputError(f"actions={list(found)!r:.80} names one twice. Name each once.")
    return found
