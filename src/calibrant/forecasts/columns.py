"""Columns of a table that hold forecasts: normal distributions, quantiles or samples; read, and as formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError, unknown_name
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.kinds import TAILS, GaussianForecast, QuantileForecast, SampleForecast, Tails
from calibrant.forecasts.normal_formula import normal_cdf
from calibrant.forecasts.points import LARGEST, as_numbers, as_rising_levels
from calibrant.numerics import FloatArray
from calibrant.terms import Builder, Term
from calibrant.validation import check_choice, check_same_length

#: Reads a column of finite numbers by its name.
ReadColumn: TypeAlias = Callable[[str], FloatArray]
Kind: TypeAlias = Literal["normal", "quantiles", "samples"]
#: Standard deviations in formulas are at least this, so that no engine leaves the range of float64.
_LEAST_STD = 1e-150


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastColumns:
    """Columns of a table that hold forecasts of a number, of one kind.

    Parameters
    ----------
    mean, std : str, optional
        Columns of the means of normal distributions, and of their standard deviations.
    quantiles : sequence of str, optional
        Columns of quantiles, with their `levels`.
    levels : sequence of float, optional
        The level of each column of quantiles, in any order.
    samples : sequence of str, optional
        Columns of samples.
    tails : {"exponential", "atoms"}
        Of quantiles, as in `QuantileForecast`.

    Attributes
    ----------
    kind : {"normal", "quantiles", "samples"}
    names : tuple of str
        All columns: quantiles in the order of their levels.

    Raises
    ------
    CalibrantError
        If the columns are of no kind, of more than one, or of half of one.

    Examples
    --------
    What is decided on in memory is decided on in a file, or in a database, by the same policy:

    >>> from calibrant.decisions import Policy, Problem
    >>> from calibrant.forecasts import ForecastColumns
    >>> frost = Problem({"spray": {"frost": 2.0, "none": 2.0}, "leave": {"frost": 10.0, "none": 0.0}}, thresholds=0.0)
    >>> columns = ForecastColumns(quantiles=["q10", "q50", "q90"], levels=[0.1, 0.5, 0.9])
    >>> forecast = columns.read({"q10": [-2.0, 1.0], "q50": [0.5, 4.0], "q90": [3.0, 7.0]})
    >>> Policy(frost).decide(forecast).tolist()
    ['spray', 'leave']
    >>> sql = Policy(frost).to_sql("duckdb", columns=columns, table="weather")
    """

    mean: str | None = None
    std: str | None = None
    quantiles: Sequence[str] = ()
    levels: Sequence[float] | None = None
    samples: Sequence[str] = ()
    tails: Tails = "exponential"
    kind: Kind = field(init=False)
    names: tuple[str, ...] = field(init=False)

    #: Numbers beyond this are refused, or NULL.
    largest: ClassVar[float] = LARGEST

    def __post_init__(self) -> None:
        check_choice("tails", self.tails, TAILS)
        ways = [name for name in ("mean", "quantiles", "samples") if getattr(self, name)]
        if len(ways) != 1:
            said = "none of" if not ways else f"{' and '.join(ways)} of"
            raise InvalidInputError(
                f"{said} mean, quantiles and samples. Name the columns of one kind of forecast, such as "
                'ForecastColumns(mean="mu", std="sigma").'
            )
        if (self.mean is None) != (self.std is None):
            raise InvalidInputError("mean and std go together. Name both columns.")
        if (self.levels is not None) != bool(self.quantiles):
            raise InvalidInputError("quantiles and levels go together. Give the level of each column of quantiles.")
        names, levels = (_as_names(self.mean, self.std) if self.mean else self._several()), None
        if self.levels is not None:
            given = as_numbers(self.levels, name="levels")
            check_same_length(len(names), given.size, "quantiles", "levels")
            order = np.argsort(given, kind="stable")
            names, levels = tuple(names[k] for k in order), as_rising_levels(given[order], name="levels")
        settled = {
            "kind": "normal" if self.mean else ways[0],
            "names": names,
            "levels": None if levels is None else tuple(levels.tolist()),
            "quantiles": names if self.quantiles else (),
            "samples": names if self.samples else (),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def _several(self) -> tuple[str, ...]:
        what = "quantiles" if self.quantiles else "samples"
        given = getattr(self, what)
        if isinstance(given, str):
            raise InvalidTypeError(f"{what}={given!r} is a text. Pass a list of names of columns.")
        names = _as_names(*given)
        if len(names) < 2:
            raise ShapeError(f"{what}: only column {names[0]!r} is named. Name at least two.")
        return names

    def read(self, table: Any) -> Forecast:
        """Return the forecasts of the rows of a table: an Arrow table, a data frame or a mapping of columns."""
        known = list(
            table if isinstance(table, Mapping) else getattr(table, "column_names", getattr(table, "columns", ()))
        )

        def column(name: str) -> FloatArray:
            if name not in known:
                raise unknown_name("column", name, known)
            return as_numbers(table[name], name=f"column {name!r}")

        return self.of_columns(column)

    def of_columns(self, column: ReadColumn) -> Forecast:
        """Return the forecasts of what reads a column by its name."""
        values = [column(name) for name in self.names]
        match self.kind:
            case "normal":
                return GaussianForecast(*values)
            case "samples":
                return SampleForecast(np.column_stack(values))
            case _:
                assert self.levels is not None  # noqa: S101
                return QuantileForecast(self.levels, np.column_stack(values), tails=self.tails)

    def to_dict(self) -> dict[str, Any]:
        """Return the columns by the arguments that name them."""
        match self.kind:
            case "normal":
                return {"mean": self.mean, "std": self.std}
            case "samples":
                return {"samples": list(self.names)}
            case _:
                return {"quantiles": list(self.names), "levels": list(np.asarray(self.levels).tolist())}

    # --- as a formula ----------------------------------------------------------------------------------------------

    def usable(self, b: Builder, columns: Sequence[Term]) -> Term | None:
        """Return the condition that forecasts can be made of the columns as they stand; None where they always can.

        Quantiles that cross, which `QuantileForecast` sorts with a warning, are none here.
        """
        if self.kind == "normal":
            return columns[1] > 0.0
        if self.kind == "samples":
            return None
        return reduce(b.least, [b.hold(high - low) for low, high in pairwise(columns)]) >= 0.0

    def below(self, b: Builder, columns: Sequence[Term], at: Term) -> Term:
        """Return P(Y <= at) of columns that are usable, each a term of one number."""
        if self.kind == "normal":
            mean, std = columns
            return normal_cdf(b, b.hold((at - mean) / b.greatest(std, b.number(_LEAST_STD))))
        if self.kind == "samples":
            one, none = b.number(1.0), b.number(0.0)
            counted = [b.choose(sample <= at, one, none) for sample in columns]
            return b.total(b.columns(counted)) / float(len(columns))
        return b.hold(self._tree(b, columns, b.hold(at), 0, len(columns)))

    def _tree(self, b: Builder, y: Sequence[Term], at: Term, low: int, high: int) -> Term:
        """Return the CDF between knots, of which at least `low` and at most `high` are no larger than `at`."""
        if low == high:
            return self._piece(b, y, at, low)
        middle = (low + high) // 2
        return b.choose(at < y[middle], self._tree(b, y, at, low, middle), self._tree(b, y, at, middle + 1, high))

    def _piece(self, b: Builder, y: Sequence[Term], at: Term, k: int) -> Term:
        """Return the CDF where k knots are no larger than `at`, as `kernels.piecewise_cdf` has it."""
        f: Any = self.levels
        if k == 0:
            return self._tail(b, y, f, y[0] - at)
        if k == len(y):
            from_above = [1.0 - level for level in reversed(f)]
            return 1.0 - self._tail(b, [-1.0 * each for each in reversed(y)], from_above, at - y[-1])
        share = (at - y[k - 1]) / (y[k] - y[k - 1])
        return b.clip(f[k - 1] + (f[k] - f[k - 1]) * share, f[k - 1], f[k])

    def _tail(self, b: Builder, y: Sequence[Term], f: Sequence[float], outside: Term) -> Term:
        """Return how much lies farther out than a distance, of the mass below the first knot."""
        none = b.number(0.0)
        if f[0] == 0.0 or self.tails == "atoms":
            return none
        found = none
        for k in reversed(range(len(y) - 1)):  # the first piece that has a width says how fast the tail falls
            width = y[k + 1] - y[k]
            slope = (f[k + 1] - f[k]) / f[0]
            farther = b.exp(-slope * outside / width)
            found = b.choose(width > 0.0, f[0] * farther, found)
        return found


def _as_names(*given: Any) -> tuple[str, ...]:
    for name in given:
        if not isinstance(name, str) or not name:
            raise InvalidTypeError(f"{name!r} is no name. Pass names of columns as text.")
    return tuple(given)
