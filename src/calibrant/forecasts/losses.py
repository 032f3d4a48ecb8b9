"""What a yes-or-no decision costs, when a number turns out as it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.forecasts.base import Forecast
from calibrant.numerics import BoolArray, FloatArray
from calibrant.validation import check_number

#: Levels at whose quantiles a loss without a table is averaged, to expect it.
N_QUANTILES = 200

#: A loss of decisions and outcomes: takes arrays of one shape, booleans and numbers, and gives losses of that shape.
LossFunction: TypeAlias = Callable[[BoolArray, FloatArray], FloatArray]


@dataclass(frozen=True, slots=True)
class ThresholdLoss:
    """A loss that depends on a decision and on whether the number stays at or below a threshold.

    Attributes
    ----------
    y0 : float
        The threshold.
    table : pair of pairs of float
        ``table[d][e]``: what decision d (0 no, 1 yes) costs where the event Y <= y0 does not (e = 0) or does (e = 1)
        happen.

    Examples
    --------
    Spraying costs 2; frost that finds the field unprotected costs 10.

    >>> from calibrant.forecasts import ThresholdLoss
    >>> loss = ThresholdLoss(0.0, ((0.0, 10.0), (2.0, 2.0)))
    >>> float(loss.level)
    0.2
    """

    y0: float
    table: tuple[tuple[float, float], tuple[float, float]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "y0", check_number("y0", self.y0))
        try:
            table = np.asarray(self.table, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidTypeError(f"table={self.table!r} holds no numbers. Pass ((0.0, 10.0), (2.0, 2.0)).") from None
        if table.shape != (2, 2):
            raise ShapeError(f"table has shape {table.shape}. Pass a row per decision, a column per event: (2, 2).")
        if not np.isfinite(table).all():
            raise InvalidInputError(f"table={table.tolist()!r} is not finite. Pass the loss of each case.")
        (a, b), (c, d) = table.tolist()
        object.__setattr__(self, "table", ((a, b), (c, d)))

    @property
    def level(self) -> float:
        """The probability of the event at which both decisions cost the same; NaN where none is worth its loss."""
        (no_0, no_1), (yes_0, yes_1) = self.table
        slope = (no_1 - no_0) - (yes_1 - yes_0)
        return (yes_0 - no_0) / slope if slope else float("nan")

    def __call__(self, decision: BoolArray, y: FloatArray) -> FloatArray:
        """Return the loss of decisions with the numbers that came, of one shape."""
        table = np.array(self.table)
        losses: FloatArray = table[np.asarray(decision).astype(np.intp), (np.asarray(y) <= self.y0).astype(np.intp)]
        return losses

    def expected(self, forecast: Forecast) -> FloatArray:
        """Return what deciding no and yes is expected to cost in each row, shape (n, 2)."""
        table = np.array(self.table)
        level = forecast.cdf(self.y0)
        expected: FloatArray = table[:, 0] + level[:, None] * (table[:, 1] - table[:, 0])
        return expected


def expected_losses(forecast: Forecast, loss: LossFunction) -> FloatArray:
    """Return what deciding no and yes is expected to cost in each row, shape (n, 2).

    Exact for a `ThresholdLoss`; a mean over 200 quantiles at even levels for a function.
    """
    if isinstance(loss, ThresholdLoss):
        return loss.expected(forecast)
    levels = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
    expected = np.empty((len(forecast), 2))
    step = 10_000
    for start in range(0, len(forecast), step):
        part = forecast[start : start + step]
        values = part.ppf(levels[None, :])
        for d in (0, 1):
            expected[start : start + step, d] = _called(loss, np.full(values.shape, bool(d)), values).mean(axis=1)
    return expected


def realised_losses(y: FloatArray, loss: LossFunction) -> FloatArray:
    """Return what deciding no and yes costs with each outcome, shape (n, 2)."""
    return np.column_stack([_called(loss, np.full(y.size, bool(d)), y) for d in (0, 1)])


def as_loss(loss: object, y0: float | None = None) -> LossFunction:
    """Check a loss: a `ThresholdLoss`, a function of decisions and outcomes, or a (2, 2) table of losses at `y0`."""
    if isinstance(loss, ThresholdLoss):
        return loss
    if callable(loss):
        return loss
    if y0 is None:
        raise InvalidTypeError(
            f"loss is a {type(loss).__name__}. Pass a ThresholdLoss(y0, table), or a function of decisions (booleans) "
            "and outcomes."
        )
    return ThresholdLoss(y0, loss)  # type: ignore[arg-type]  # its own gate


def _called(loss: LossFunction, decision: BoolArray, y: FloatArray) -> FloatArray:
    found = np.asarray(loss(decision, y), dtype=np.float64)
    if found.shape != y.shape:
        raise ShapeError(
            f"loss gives shape {found.shape} for decisions and outcomes of shape {y.shape}. Return a loss for each."
        )
    if not np.isfinite(found).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(found))[0])
        raise InvalidInputError(
            f"loss row {place[0]}: {found[place].item()!r} for decision {bool(decision[place])!r} and outcome "
            f"{y[place].item()!r} ({(~np.isfinite(found)).sum():,} of {found.size:,} values). Return finite losses."
        )
    return found
