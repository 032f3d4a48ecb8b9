"""Losses that go by a number which a forecast is of: by the range that the number falls into, or any function of it.

Nothing here knows the kinds of forecasts: whatever has a CDF and quantiles will do. Ranges make classes of numbers, so
that whatever is built on probabilities of classes holds for forecasts too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from calibrant.decisions.losses import as_list, cost_column, numbers_of_rows, returned
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.numerics import FloatArray, IntArray
from calibrant.terms import Builder, Term
from calibrant.validation import ArrayLike, check_number

#: A loss of (costs, number, action): takes the columns of costs and numbers, shape (n,), and gives a number or an array
#: of shape (n,).
NumberFunction: TypeAlias = Callable[[Any, FloatArray, str], Any]
_Given = TypeVar("_Given")
#: Quantiles, at even levels, over which a function of the number is averaged.
_N_QUANTILES = 200
_LEVELS = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
#: Quantiles that are held at once, over all rows; of more rows than this it is one of each row.
_MOST_QUANTILES = 16_384


@runtime_checkable
class Distributions(Protocol):
    """Predictive distributions of n numbers, as `calibrant.forecasts.Forecast` has them."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def cdf(self, y: Any) -> FloatArray:
        """Return P(Y <= y)."""
        ...

    def ppf(self, u: Any) -> FloatArray:
        """Return quantiles."""
        ...


@runtime_checkable
class DistributionColumns(Protocol):
    """Columns of a table that hold distributions, as `calibrant.forecasts.ForecastColumns` does.

    `largest` is the size of the numbers that they may hold.
    """

    names: tuple[str, ...]
    largest: float

    def read(self, table: Any) -> Distributions:
        """Return the distributions of the rows of a table."""
        ...

    def usable(self, b: Builder, columns: Sequence[Term]) -> Term | None:
        """Return the condition that the columns, a term each, hold a distribution; None where they always do."""
        ...

    def below(self, b: Builder, columns: Sequence[Term], at: Term) -> Term:
        """Return P(Y <= at)."""
        ...


class DistributionRecalibrator(Protocol):
    """What makes distributions of distributions, as `calibrant.forecasts.Recalibrator` does."""

    def fresh(self) -> Any:
        """Return an unfitted copy."""
        ...

    def transform(self, forecast: Any) -> Any:
        """Return the recalibrated forecast."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Ranges of a number between thresholds that rise: up to the first, above it and up to the second, and so on.

    A threshold is a number, or the name of a column of the costs that come with the rows.
    """

    thresholds: tuple[float | str, ...]

    @classmethod
    def read(cls, given: Any) -> Ranges:
        """Check thresholds: one, or several that rise."""
        listed = [given] if isinstance(given, str) or np.ndim(given) == 0 else list(given)
        if not listed:
            raise ShapeError("thresholds is empty. Pass one number at least, such as [0.0].")
        found = tuple(
            each if isinstance(each, str) else check_number(f"thresholds[{k}]", each) for k, each in enumerate(listed)
        )
        fixed = [each for each in found if not isinstance(each, str)]
        for low, high in pairwise(fixed):
            if high <= low:
                raise InvalidInputError(
                    f"thresholds: {high!r} comes after {low!r}, but they must rise. Sort them, and losses with them."
                )
        return cls(found)

    @property
    def columns(self) -> list[str]:
        """Names of the columns of costs that thresholds are taken from."""
        return [each for each in self.thresholds if isinstance(each, str)]

    @property
    def names(self) -> list[str]:
        """What the ranges are called where the caller names none."""
        shown = [each if isinstance(each, str) else f"{each:.12g}" for each in self.thresholds]
        between = [f"{low} to {high}" for low, high in pairwise(shown)]
        return [f"up to {shown[0]}", *between, f"above {shown[-1]}"]

    def at(self, n: int, costs: Any) -> FloatArray:
        """Return the thresholds of `n` rows, shape (n, K), or (1, K) where all rows have the same."""
        if not self.columns:
            return np.array([self.thresholds], dtype=np.float64)
        columns = [
            cost_column(costs, each, n) if isinstance(each, str) else np.full(n, each) for each in self.thresholds
        ]
        found = np.column_stack(columns)
        falls = np.diff(found, axis=1) <= 0.0
        if falls.any():
            row, k = (int(i) for i in np.argwhere(falls)[0])
            raise InvalidInputError(
                f"thresholds row {row}: {found[row, k + 1].item()!r} comes after {found[row, k].item()!r}, but they "
                f"must rise ({falls.any(axis=1).sum():,} of {n:,} rows). Order the columns by their values."
            )
        return found

    def probabilities(self, forecast: Distributions, costs: Any) -> FloatArray:
        """Return the chance of each range, shape (n, K + 1), or (n,) of the upper one of two."""
        n = len(forecast)
        below = np.asarray(forecast.cdf(self.at(n, costs)))
        if below.shape[1] == 1:
            return np.asarray(1.0 - below[:, 0])
        return np.diff(np.column_stack((np.zeros(n), below, np.ones(n))), axis=1)

    def codes(self, y: FloatArray, costs: Any) -> IntArray:
        """Return the number of the range that each number falls into; one on a threshold is in the lower."""
        return np.asarray((y[:, None] > self.at(y.size, costs)).sum(axis=1).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class NumberLosses:
    """Losses that a function gives of the costs of the rows, the number that came, and an action."""

    function: NumberFunction
    actions: tuple[str, ...]

    def of(self, y: FloatArray, costs: Any) -> FloatArray:
        """Return what each action loses with each number, shape (n, A)."""
        found = np.empty((y.size, len(self.actions)))
        for a, action in enumerate(self.actions):
            found[:, a] = returned(self.function(costs, y, action), y.size, f"action {action!r}")
        bad = ~np.isfinite(found)
        if bad.any():
            row, a = (int(i) for i in np.argwhere(bad)[0])
            raise InvalidInputError(
                f"losses row {row}, action {self.actions[a]!r}: {found[row, a].item()!r} for the number "
                f"{y[row].item()!r} ({bad.any(axis=1).sum():,} of {y.size:,} rows). Return finite losses."
            )
        return found

    def moments(self, forecast: Distributions, costs: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of what each action will lose, shape (n, A), over quantiles at even levels."""
        first = self.of(np.asarray(forecast.ppf(_LEVELS[0])), costs)
        more, square = np.zeros_like(first), np.zeros_like(first)
        n_at_once = max(_MOST_QUANTILES // len(forecast), 1)
        for start in range(1, _N_QUANTILES, n_at_once):
            for quantiles in np.asarray(forecast.ppf(_LEVELS[None, start : start + n_at_once])).T:
                # what is lost more than at the first: see `losses.moments`
                losses = self.of(np.ascontiguousarray(quantiles), costs) - first
                more += losses / _N_QUANTILES
                square += losses**2 / _N_QUANTILES
        return first + more, np.maximum(square - more**2, 0.0)


def as_distributions(given: Any, name: str) -> Distributions:
    """Check a forecast."""
    if isinstance(given, Distributions):
        return given
    raise InvalidTypeError(
        f"{name} is a {type(given).__name__}, and the losses are of a number. Pass a forecast of it, such as "
        "calibrant.forecasts.GaussianForecast(mean, std)."
    )


def as_distribution_columns(given: Any, name: str) -> DistributionColumns:
    """Check what names the columns of forecasts."""
    if isinstance(given, DistributionColumns):
        return given
    raise InvalidTypeError(
        f"{name}={given!r:.80} names no forecasts, and these losses go by a number. Pass "
        'calibrant.forecasts.ForecastColumns(mean="mu", std="sigma"), or the columns of quantiles or samples.'
    )


def refuse_distribution_columns(given: _Given | DistributionColumns, name: str) -> _Given:
    """Return names of columns, or refuse those of forecasts, of losses that go by classes."""
    if isinstance(given, DistributionColumns):
        raise InvalidTypeError(
            f"{name} names the columns of forecasts of a number, and the losses are of classes. Give the problem "
            "thresholds=, between the ranges of the number that losses go by."
        )
    return given


def as_recalibrator(given: Any) -> DistributionRecalibrator:
    """Check what makes better forecasts of forecasts."""
    if not (hasattr(given, "transform") and hasattr(given, "fresh")):
        raise InvalidTypeError(
            f"calibrator is a {type(given).__name__}, and predictions are a forecast. Pass a fitted recalibrator of "
            "forecasts, such as calibrant.forecasts.AverageRecalibrator()."
        )
    return given  # type: ignore[no-any-return]


def as_outcomes(y: ArrayLike, n: int, name: str) -> FloatArray:
    """Check the numbers that came, one for each of `n` rows."""
    return numbers_of_rows(y, name, n)


def actions_of_function(actions: Sequence[str] | None) -> tuple[str, ...]:
    """Return the actions that a function of the number knows; refuse one whose actions nobody names."""
    names = as_list(actions, "actions")
    if not names:
        raise InvalidInputError(
            "losses is a function. Name the actions that it knows by actions=[...]; and by classes=[...] the classes, "
            "unless it is one of a number."
        )
    return tuple(names)
