"""calibrant forecast apply: quantiles of recalibrated forecasts beside the forecasts of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import numpy as np

from calibrant import persistence
from calibrant.cli.data import check_output, split_list
from calibrant.cli.examples import Command
from calibrant.cli.forecast_columns import ForecastColumns, FoundColumns, forecast_options
from calibrant.cli.output import count, listed, progress
from calibrant.engines import append_columns, open_table
from calibrant.errors import InvalidInputError, InvalidProbabilityError, InvalidTypeError
from calibrant.forecasts import Recalibrator
from calibrant.numerics import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

_LEVELS = tuple(k / 20 for k in range(1, 20))
#: Rows that are recalibrated at once.
_BATCH_ROWS = 1 << 14
#: Columns that a line names before it counts the others.
_MOST_NAMED = 3


@click.command(
    "apply",
    cls=Command,
    short_help="Add quantiles of recalibrated forecasts.",
    examples=[
        "calibrant forecast apply recalibrator.json new.parquet -o out.parquet",
        "calibrant forecast apply recalibrator.json new.csv --output-levels 0.1,0.5,0.9 -o out.csv",
        "calibrant forecast evaluate out.parquet --quantiles 'recalibrated_q*'",
    ],
)
@click.argument("recalibrator")
@click.argument("file")
@click.option("-o", "--output", required=True, metavar="OUT", help="Where to write; - is standard output.")
@forecast_options(outcomes=False)
@click.option(
    "--output-levels",
    metavar="NUMBERS",
    help="Levels of the new columns.  [default: 0.05,0.1,...,0.95 and those of --quantiles]",
)
@click.option(
    "--column", default="recalibrated_q", show_default=True, metavar="NAME", help="What new names have before a level."
)
def apply_command(
    recalibrator: str,
    file: str,
    output: str,
    output_levels: str | None,
    column: str,
    format: str | None,
    **options: Any,
) -> None:
    """Add the quantiles of forecasts recalibrated by RECALIBRATOR to the forecasts in FILE.

    Same rows, same order, and every other column as it was. OUT may be FILE itself, and appears whole or not at all.
    The columns of the forecasts are those that RECALIBRATOR was fitted to, unless options name others.
    """
    check_output(output, recalibrator)
    fitted = load_recalibrator(recalibrator)
    columns = find_columns(ForecastColumns(**options), fitted, file, format)
    levels = levels_to_write(output_levels, columns.levels)
    names = [f"{column}{np.format_float_positional(level, trim='-')}" for level in levels]

    def compute(found: pa.Table) -> FloatArray:
        forecast = columns.forecast(found)
        parts = (forecast[start : start + _BATCH_ROWS] for start in range(0, len(forecast), _BATCH_ROWS))
        return np.concatenate([fitted.transform(part).ppf([levels]) for part in parts])

    with progress("Recalibrating") as advance:
        n_rows = append_columns(
            file, output, inputs=columns.names, outputs=names, compute=compute, format=format, progress=advance
        )
    if output != "-":
        click.echo(f"Wrote {output}: {count(n_rows, 'row')} with {listed(names, most=_MOST_NAMED)}")


def load_recalibrator(path: str) -> Recalibrator:
    """Load a recalibrator of forecasts.

    Raises
    ------
    CalibrantError
        If the file can't be read, or holds something else.
    """
    loaded = persistence.load(path)
    if not isinstance(loaded, Recalibrator):
        raise InvalidTypeError(
            f"{path} holds a {type(loaded).__name__}, not a recalibrator of forecasts. Pass what calibrant forecast "
            "fit saved."
        )
    return loaded


def find_columns(given: ForecastColumns, fitted: Recalibrator, file: str, format: str | None) -> FoundColumns:
    """Return the columns of the forecasts: those that options name, else those that the recalibrator remembers.

    Raises
    ------
    CalibrantError
        If neither names any, or the file lacks one.
    """
    if given == ForecastColumns():
        given = stored_columns(fitted)
    given.check()
    if file != "-":
        return given.select(open_table(file, format=format))
    named = [name for text in given.quantiles or given.samples for name in split_list(text)]
    pattern = next((name for name in named if any(c in "*?[" for c in name)), None)
    if pattern is not None:
        raise InvalidInputError(
            f"standard input can't be read twice to see what {pattern!r} matches. Name each column, or pass a file."
        )
    return given.match(named, "standard input")


def stored_columns(fitted: Recalibrator) -> ForecastColumns:
    """Return the columns that a recalibrator was fitted to, as its metadata says."""
    stored = getattr(fitted, "metadata_", {}).get("columns")
    match stored:
        case {"mean": str(mean), "std": str(std)}:
            return ForecastColumns(mean=mean, std=std)
        case {"quantiles": [*names], "levels": [*levels]} if names:
            return ForecastColumns(quantiles=tuple(map(str, names)), levels=",".join(map(str, levels)))
        case {"samples": [*names]} if names:
            return ForecastColumns(samples=tuple(map(str, names)))
        case _:
            raise InvalidInputError(
                "the recalibrator doesn't say which columns it was fitted to. Name them: --mean mu --std sigma, "
                "--quantiles or --samples."
            )


def levels_to_write(given: str | None, own: tuple[float, ...]) -> list[float]:
    """Return the levels of the new columns, rising.

    Raises
    ------
    CalibrantError
        If they are not numbers between 0 and 1.
    """
    if given is None:
        return sorted({*_LEVELS, *(level for level in own if 0.0 < level < 1.0)})
    try:
        asked = sorted({float(text) for text in split_list(given)})
    except ValueError:
        raise InvalidInputError(
            f"--output-levels {given!r} are not numbers. Write them so: --output-levels 0.1,0.5,0.9."
        ) from None
    odd = next((level for level in asked if not 0.0 < level < 1.0), None)
    if odd is not None or not asked:
        what = "names no level" if odd is None else f"{odd!r} is not between 0 and 1"
        raise InvalidProbabilityError(f"--output-levels: {what}. Write them so: --output-levels 0.1,0.5,0.9.")
    return asked
