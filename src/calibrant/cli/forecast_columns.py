"""Forecasts of a number in the columns of a file: normal distributions, quantiles or samples."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli.common import with_options
from calibrant.cli.option_texts import called, split_list, split_names
from calibrant.cli.table_options import format_options
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.phrases import count, listed

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.dependence import Dependence
    from calibrant.forecasts import Forecast, ForecastColumns, Outcomes
    from calibrant.numerics import FloatArray
    from calibrant.provenance import RowHash
    from calibrant.tables import FormatLike, RowSource

#: Columns that a line names before it counts the others.
_MOST_NAMED = 6


#: The columns of forecasts, by kind.
DISTRIBUTION_OPTIONS = [
    click.option("--mean", metavar="COLUMN", help="Column of the means of normal distributions."),
    click.option("--std", metavar="COLUMN", help="Column of their standard deviations."),
    click.option("--quantiles", multiple=True, metavar="COLUMNS", help="Columns of quantiles: q0.1,q0.5,q0.9 or 'q*'."),
    click.option(
        "--levels", metavar="NUMBERS", help="Their levels: 0.1,0.5,0.9. Needed where names don't end in them."
    ),
    click.option("--samples", multiple=True, metavar="COLUMNS", help="Columns of samples: 'draw_*'."),
]


def forecast_options(*, outcomes: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that name the columns of forecasts, and of what came of them."""
    options: list[Callable[..., Any]] = [*DISTRIBUTION_OPTIONS, format_options]
    if outcomes:
        label = click.option(
            "--outcome", "--label", "outcome", default="y", metavar="COLUMN", help="Column of what happened."
        )
        beside = [
            click.option("--weight", metavar="COLUMN", help="Column of sample weights."),
            click.option("--cluster", metavar="COLUMN", help="What rows that are not independent share: a patient."),
            click.option("--time", metavar="COLUMN", help="When each was made: errors may be correlated in time."),
            click.option("--label-end", metavar="COLUMN", help="When its outcome was known, if outcomes overlap."),
        ]
        options = [label, *options[:-1], *beside, options[-1]]

    return with_options(options)


@dataclass(frozen=True, slots=True)
class ForecastOptions:
    """What the options say of the columns of forecasts."""

    mean: str | None = None
    std: str | None = None
    quantiles: tuple[str, ...] = ()
    levels: str | None = None
    samples: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse options that name no kind of forecast, more than one, or half of one."""
        ways = [f"--{name}" for name in ("mean", "quantiles", "samples") if getattr(self, name)]
        if len(ways) != 1:
            said = "none of" if not ways else f"{' and '.join(ways)} of"
            raise InvalidInputError(
                f"{said} --mean, --quantiles and --samples. Name the columns of one kind of forecast, such as --mean "
                "mu --std sigma."
            )
        if (self.mean is None) != (self.std is None):
            raise InvalidInputError("--mean and --std go together. Name both columns.")
        if self.levels is not None and not self.quantiles:
            raise InvalidInputError("--levels are those of --quantiles. Name the columns, or leave --levels out.")

    def select(self, opened: RowSource) -> ForecastColumns:
        """Find the columns in a file."""
        self.check()
        spread = [] if self.mean else opened.select(split_names(self.quantiles or self.samples, opened.names))
        return self.match(spread, opened.name)

    def match(self, spread: Sequence[str], where: str) -> ForecastColumns:
        """Return checked options as columns, with the names of the quantiles or samples."""
        from calibrant.forecasts import ForecastColumns

        if self.mean is not None:
            return ForecastColumns(mean=self.mean, std=self.std)
        if len(spread) < 2:
            named = f"only column {spread[0]!r}" if spread else "no column"
            raise ShapeError(f"{where}: {named} is named. Name at least two, such as 'q*'.")
        if self.samples:
            return ForecastColumns(samples=spread)
        return ForecastColumns(quantiles=spread, levels=_levels(spread, self.levels).tolist())


@dataclass(frozen=True, slots=True)
class ForecastRows:
    """Forecasts of a file with what came of them."""

    file: str
    forecast: Forecast
    y: FloatArray
    weight: FloatArray | None
    outcome: str
    found: ForecastColumns
    weight_name: str | None
    dependence: Dependence
    dependence_names: dict[str, str]
    extra: dict[str, pa.ChunkedArray] = field(default_factory=dict)
    extra_names: dict[str, str] = field(default_factory=dict)
    row_hash: RowHash | None = None

    def numbers(self, option: str) -> FloatArray | None:
        """Return the finite numbers of the column that an option names; None where it names none."""
        if option not in self.extra:
            return None
        return _numbers(self.extra[option], called(self.extra_names[option], self.file))

    @property
    def known(self) -> dict[str, Any]:
        """What is known beside forecasts and outcomes, by the arguments that take it."""
        of = self.dependence
        return {"sample_weight": self.weight, "cluster": of.cluster, "time": of.time, "label_end": of.label_end}

    def outcomes(self) -> Outcomes:
        """Return the rows with weight."""
        from calibrant.forecasts import read_outcomes

        known = self.known
        return read_outcomes(self.forecast, self.y, known.pop("sample_weight"), **known)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that were read, by the options that name them."""
        beside = {"weight": self.weight_name, **self.dependence_names, **self.extra_names}
        return {"outcome": self.outcome, **self.found.to_dict(), **beside}

    def describe(self) -> str:
        """Return a line that says what was read."""
        named = {key: value if isinstance(value, list) else [value] for key, value in self.columns.items() if value}
        what = ", ".join(f"{key} {listed(list(map(repr, names)), most=_MOST_NAMED)}" for key, names in named.items())
        return f"{self.file}: {count(self.y.size, 'row')}, {what}"


def read_forecasts(
    file: str,
    *,
    outcome: str,
    weight: str | None = None,
    format: FormatLike = None,
    table: str | None = None,
    extra: Mapping[str, str | None] | None = None,
    hashed: bool = False,
    **options: Any,
) -> ForecastRows:
    """Read and check the rows that the options name; `extra` names columns that are kept as they are, by option.

    With `hashed`, what tells the rows from others is kept too.
    """
    from calibrant.dependence import read_dependence
    from calibrant.tables import open_rows
    from calibrant.validation import as_weight

    more = {option: column for option, column in (extra or {}).items() if column is not None}
    asked = {name: options.pop(name, None) for name in ("cluster", "time", "label_end")}
    named = {name: column for name, column in asked.items() if column is not None}
    columns = ForecastOptions(**options)
    columns.check()
    opened = open_rows(file, format=format, table=table)
    where = opened.name
    chosen = columns.select(opened)
    others = [name for name in (outcome, weight, *named.values(), *more.values()) if name is not None]
    found = opened.read(list(dict.fromkeys([*others, *chosen.names])))
    numbers = {name: number_column(found, name, where) for name in chosen.names}
    forecast = chosen.of_columns(numbers.__getitem__)
    y = number_column(found, outcome, where)
    weights = None
    if weight is not None:
        weights = as_weight(number_column(found, weight, where), y.size, name=called(weight, where))
    known = [None if column is None else found.column(column) for column in asked.values()]
    cluster, time, label_end = (called(column or "", where) for column in asked.values())
    dependence = read_dependence(y.size, *known, rows=where, names=(cluster, time, label_end))
    kept = {option: found.column(column) for option, column in more.items()}
    row_hash = _row_hash(list(numbers.values()), weights, y) if hashed else None
    return ForecastRows(where, forecast, y, weights, outcome, chosen, weight, dependence, named, kept, more, row_hash)


def _row_hash(columns: list[FloatArray], weight: FloatArray | None, y: FloatArray) -> RowHash:
    """Return what tells the rows with weight from others."""
    import numpy as np

    from calibrant.provenance import RowHash

    weights = np.ones(y.size) if weight is None else weight
    kept = weights > 0.0
    return RowHash().update_numbers(np.column_stack(columns)[kept], weights[kept], y[kept])


def number_column(found: pa.Table, name: str, where: str) -> FloatArray:
    """Return a column of finite numbers."""
    return _numbers(found.column(name), called(name, where))


def _numbers(column: pa.ChunkedArray, name: str) -> FloatArray:
    from calibrant.tables import check_numbers
    from calibrant.validation import as_scores

    check_numbers(column, name)
    return as_scores(column, name=name).values


def numbers_in(option: str, given: str, example: str) -> list[float]:
    """Return the finite numbers that an option lists."""
    import numpy as np

    try:
        found = [float(text) + 0.0 for text in split_list(given)]  # no negative zero
    except ValueError:
        found = []
    if not found or not np.isfinite(found).all():
        raise InvalidInputError(f"{option} {given!r} are not finite numbers. Write them so: {option} {example}.")
    return found


def _levels(names: Sequence[str], given: str | None) -> FloatArray:
    """Return the level of each column: those given, or the decimals that the names end in."""
    import numpy as np

    if given is not None:
        levels = numbers_in("--levels", given, "0.1,0.5,0.9")
        if len(levels) != len(names):
            raise ShapeError(f"--levels names {len(levels)} levels for {len(names)} columns of quantiles.")
        return np.array(levels)
    found = [re.search(r"(0?\.[0-9]+|[01](\.0*)?)$", name) for name in names]
    if None in found:
        odd = names[found.index(None)]
        raise InvalidInputError(
            f"column {odd!r}: no level such as 0.9 at the end of its name. Pass --levels, one per column."
        )
    return np.array([float(each.group()) for each in found if each is not None])
