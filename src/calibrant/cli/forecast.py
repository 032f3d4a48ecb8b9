"""calibrant forecast: forecasts of a number in a file, and how good they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from calibrant.cli.data import check_numbers, split_list, split_names
from calibrant.cli.evaluate import as_table
from calibrant.cli.examples import Command, ExamplesMixin
from calibrant.cli.gates import check_gates, parse_gates
from calibrant.cli.output import listed, notes, write_json
from calibrant.engines import TableFile, open_table
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.forecasts import Forecast, GaussianForecast, QuantileForecast, SampleForecast, evaluate
from calibrant.numerics import FloatArray
from calibrant.validation import as_scores, as_weight

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns that a line names before it counts the others.
_MOST_NAMED = 6


class Group(ExamplesMixin, click.Group):
    """A group of commands with examples."""


@click.group(
    "forecast",
    cls=Group,
    examples=[
        "calibrant forecast evaluate forecasts.parquet --mean mu --std sigma",
        "calibrant forecast evaluate forecasts.csv --quantiles 'q*'",
    ],
)
def command() -> None:
    """Measure forecasts of a number: normal distributions, quantiles or samples in the columns of a file."""


@dataclass(frozen=True, slots=True)
class ForecastRows:
    """Forecasts of a file with what came of them."""

    file: str
    forecast: Forecast
    y: FloatArray
    weight: FloatArray | None
    columns: dict[str, Any]

    def describe(self) -> str:
        """Return a line that says what was read."""
        named = {key: value if isinstance(value, list) else [value] for key, value in self.columns.items() if value}
        what = ", ".join(f"{key} {listed(list(map(repr, names)), most=_MOST_NAMED)}" for key, names in named.items())
        return f"{self.file}: {self.y.size:,} rows, {what}"


@command.command(
    "evaluate",
    cls=Command,
    examples=[
        "calibrant forecast evaluate forecasts.parquet --outcome y --mean mu --std sigma",
        "calibrant forecast evaluate forecasts.csv --quantiles 'q*' --max crps=0.4",
        "calibrant forecast evaluate draws.parquet --samples 'draw_*' --json",
    ],
)
@click.argument("file")
@click.option("--outcome", default="y", show_default=True, metavar="COLUMN", help="Column of what happened.")
@click.option("--mean", metavar="COLUMN", help="Column of the means of normal distributions.")
@click.option("--std", metavar="COLUMN", help="Column of their standard deviations.")
@click.option("--quantiles", multiple=True, metavar="COLUMNS", help="Columns of quantiles: q0.1,q0.5,q0.9 or 'q*'.")
@click.option("--levels", metavar="NUMBERS", help="Their levels: 0.1,0.5,0.9. Needed where names don't end in them.")
@click.option("--samples", multiple=True, metavar="COLUMNS", help="Columns of samples: 'draw_*'.")
@click.option("--weight", metavar="COLUMN", help="Column of sample weights.")
@click.option("--format", metavar="FORMAT", help="What FILE is, whatever its name says: parquet, csv, tsv, jsonl.")
@click.option("--coverage", default=0.9, show_default=True, metavar="SHARE", help="Level of the scored intervals.")
@click.option("--level", default=0.95, show_default=True, metavar="SHARE", help="Coverage of the scores' intervals.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of simulated intervals."
)
@click.option(
    "--evaluated-on", default="given data", metavar="TEXT", help='What the rows are, such as "held-out, May".'
)
@click.option("--max", "at_most", multiple=True, metavar="NAME=VALUE", help="Exit 1 if the metric is above.")
@click.option("--min", "at_least", multiple=True, metavar="NAME=VALUE", help="Exit 1 if the metric is below.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def evaluate_command(
    ctx: click.Context,
    /,
    coverage: float,
    level: float,
    seed: int,
    evaluated_on: str,
    at_most: tuple[str, ...],
    at_least: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Measure how good the forecasts in FILE are, with intervals and a verdict.

    FILE is Parquet, CSV or JSON lines, or - for standard input. Forecasts are normal distributions (--mean and
    --std), quantiles, or samples, in columns beside the outcome.

    Each gap is shown beside its noise floor: what it would be on average if the forecasts were right.

    --max and --min make it a gate: exit 1 if a metric is out of bounds, or not defined.
    """
    gates = parse_gates("max", at_most) + parse_gates("min", at_least)
    rows = read_forecasts(**options)
    scores = evaluate(
        rows.forecast,
        rows.y,
        sample_weight=rows.weight,
        interval_level=coverage,
        level=level,
        rng=seed,
        evaluated_on=evaluated_on,
    )
    check_gates(gates, scores)
    if as_json:
        document: dict[str, Any] = {"file": rows.file, "n": rows.y.size, "columns": rows.columns, **scores.to_dict()}
        if gates:
            document["gates"] = [gate.result(scores) for gate in gates]
        write_json(document)
    else:
        click.echo(f"{rows.describe()}; {evaluated_on}\n\n{scores.verdict}\n")
        click.echo(as_table(scores))
        for note in notes(scores):
            click.echo(note)
    is_failed = False
    for gate in gates:
        passed = gate.passes(scores[gate.metric].value)
        is_failed |= not passed
        if not passed or not as_json:
            click.echo(gate.describe(scores), err=not passed)
    ctx.exit(1 if is_failed else 0)


def read_forecasts(
    file: str,
    outcome: str,
    *,
    mean: str | None,
    std: str | None,
    quantiles: Sequence[str],
    levels: str | None,
    samples: Sequence[str],
    weight: str | None,
    format: str | None,
) -> ForecastRows:
    """Read and check the rows that the options name.

    Raises
    ------
    CalibrantError
        If the file can't be read, lacks a column, or holds what can't be used.
    """
    ways = [name for name, given in (("--mean", mean), ("--quantiles", quantiles), ("--samples", samples)) if given]
    if len(ways) != 1:
        said = "none of" if not ways else f"{' and '.join(ways)} of"
        raise InvalidInputError(
            f"{said} --mean, --quantiles and --samples. Name the columns of one kind of forecast, such as --mean mu "
            "--std sigma."
        )
    if (mean is None) != (std is None):
        raise InvalidInputError("--mean and --std go together. Name both columns.")
    if levels is not None and not quantiles:
        raise InvalidInputError("--levels are those of --quantiles. Name the columns, or leave --levels out.")
    opened = open_table(file, format=format)
    spread = opened.select(split_names(quantiles or samples, opened.names))
    others = [name for name in (outcome, mean, std, weight) if name is not None]
    found = opened.read(list(dict.fromkeys([*others, *spread])))
    where = opened.source.name
    forecast, columns = _forecast(
        opened, found, mean=mean, std=std, spread=spread, levels=levels, is_sample=bool(samples)
    )
    y = _column(found, outcome, where)
    weights = None if weight is None else as_weight(_column(found, weight, where), y.size, name=_called(weight, where))
    return ForecastRows(where, forecast, y, weights, {"outcome": outcome, **columns, "weight": weight})


def _forecast(
    opened: TableFile,
    found: pa.Table,
    *,
    mean: str | None,
    std: str | None,
    spread: list[str],
    levels: str | None,
    is_sample: bool,
) -> tuple[Forecast, dict[str, Any]]:
    """Return the forecasts of a table, and the columns that they are made of."""
    where = opened.source.name
    if mean is not None and std is not None:
        return GaussianForecast(_column(found, mean, where), _column(found, std, where)), {"mean": mean, "std": std}
    values = np.column_stack([_column(found, name, where) for name in spread])
    if values.shape[1] < 2:
        raise ShapeError(f"{where}: only column {spread[0]!r} is named. Name at least two, such as 'q*'.")
    if is_sample:
        return SampleForecast(values), {"samples": spread}
    asked = _levels(spread, levels)
    order = np.argsort(asked)
    named = [spread[k] for k in order]
    return QuantileForecast(asked[order], values[:, order]), {"quantiles": named, "levels": asked[order].tolist()}


def _levels(names: list[str], given: str | None) -> FloatArray:
    """Return the level of each column: those given, or the decimals that the names end in."""
    texts = split_list(given) if given is not None else [_decimal_end(name) for name in names]
    if len(texts) != len(names):
        raise ShapeError(f"--levels names {len(texts)} levels for {len(names)} columns of quantiles.")
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        odd = next(name for name, text in zip(names, texts, strict=True) if not re.fullmatch(r"[0-9.eE+-]+", text))
        raise InvalidInputError(
            f"column {odd!r}: no level such as 0.9 at the end of its name. Pass --levels, one per column."
            if given is None
            else f"--levels {given!r} are not numbers. Write them so: --levels 0.1,0.5,0.9."
        ) from None


def _decimal_end(name: str) -> str:
    found = re.search(r"(0?\.[0-9]+|[01](\.0*)?)$", name)
    return found.group() if found else "?"


def _column(found: pa.Table, name: str, where: str) -> FloatArray:
    check_numbers(found.column(name), _called(name, where))
    return as_scores(found.column(name), name=_called(name, where)).values


def _called(name: str, where: str) -> str:
    return f"column {name!r} of {where}"
