"""calibrant forecast apply: what recalibrated forecasts say, beside the forecasts of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from calibrant.cli.common import echo, new_command, progress, seed_option
from calibrant.cli.forecast_columns import ForecastOptions, forecast_options, number_column, numbers_in
from calibrant.cli.option_texts import check_output, split_list
from calibrant.errors import InvalidInputError, InvalidProbabilityError
from calibrant.phrases import count, listed

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.forecasts import Forecast, ForecastColumns, Recalibrator
    from calibrant.numerics import FloatArray
    from calibrant.tables import FormatLike

_LEVELS = tuple(k / 20 for k in range(1, 20))
#: Rows that are recalibrated at once.
_BATCH_ROWS = 1 << 14
#: Columns that a line names before it counts the others.
_MOST_NAMED = 3


@new_command(
    "apply",
    "calibrant forecast apply recalibrator.json new.parquet -o out.parquet",
    "calibrant forecast apply recalibrator.json new.csv --output-levels 0.1,0.5,0.9 -o out.csv",
    "calibrant forecast apply recalibrator.json new.parquet --moments --thresholds 0,10 -o out.csv",
    "calibrant forecast apply recalibrator.json new.parquet --draws 100 --seed 1 -o out.parquet",
    "calibrant forecast evaluate out.parquet --quantiles 'recalibrated_q*'",
    short_help="Add quantiles, moments, samples or probabilities of recalibrated forecasts.",
)
@click.argument("recalibrator")
@click.argument("file")
@click.option("-o", "--output", required=True, metavar="OUT", help="Where to write; - is standard output.")
@forecast_options(outcomes=False)
@click.option(
    "--output-levels",
    metavar="NUMBERS",
    help="Levels of quantiles to add.  [default, where nothing else is asked for: 0.05,0.1,...,0.95 and those of "
    "--quantiles]",
)
@click.option("--moments", is_flag=True, help="Add the mean and the standard deviation.")
@click.option("--thresholds", metavar="NUMBERS", help="Add the probability of at most each of these numbers.")
@click.option("--draws", type=click.IntRange(min=1), metavar="N", help="Add N samples.")
@seed_option("--draws")
@click.option(
    "--column",
    default="recalibrated_q",
    metavar="NAME",
    help="What names of quantiles have before a level; without a last q, what other new names begin with.",
)
def apply_command(
    recalibrator: str, file: str, output: str, format: FormatLike, table: str | None, **options: Any
) -> None:
    """Add what forecasts recalibrated by RECALIBRATOR say to the forecasts in FILE: quantiles, if not told otherwise.

    Same rows, same order, and every other column as it was. OUT may be FILE itself, and appears whole or not at all.
    The columns of the forecasts are those that RECALIBRATOR was fitted to, unless options name others.
    """
    import numpy as np

    from calibrant import persistence
    from calibrant.forecasts import Recalibrator
    from calibrant.tables import NewColumns, append_columns, name_of

    check_output(output, recalibrator)
    fitted = persistence.load_as(Recalibrator, recalibrator)
    given = ForecastOptions(**{each.name: options.pop(each.name) for each in fields(ForecastOptions)})
    columns = find_columns(given, fitted, file, format, table)
    where = "standard input" if file == "-" else name_of(file)
    parts = parts_to_write(tuple(columns.levels or ()), **options)
    names = [name for part in parts for name in part.names]

    def compute(found: pa.Table) -> FloatArray:
        forecast = columns.of_columns(lambda name: number_column(found, name, where))
        written = []
        for start in range(0, len(forecast), _BATCH_ROWS):
            after = fitted.transform(forecast[start : start + _BATCH_ROWS])
            written.append(np.column_stack([part.of(after) for part in parts]))
        return np.concatenate(written)

    with progress("Recalibrating") as advance:
        new = NewColumns(columns.names, names, compute)
        done = append_columns(file, output, columns=new, format=format, table=table, progress=advance)
    if output != "-":
        echo(f"Wrote {output}: {count(done.n_rows, 'row')} with {listed(names, most=_MOST_NAMED)}")


class Part(NamedTuple):
    """New columns, and what they hold of a forecast, shape (n, columns)."""

    names: list[str]
    of: Callable[[Forecast], FloatArray]


def parts_to_write(
    own: tuple[float, ...],
    *,
    output_levels: str | None,
    moments: bool,
    thresholds: str | None,
    draws: int | None,
    seed: int,
    column: str,
) -> list[Part]:
    """Return the new columns that options ask for: quantiles, moments, probabilities, samples."""
    import numpy as np

    stem = column.removesuffix("q")
    parts = []
    is_other_asked = moments or thresholds is not None or draws is not None
    if output_levels is not None or not is_other_asked:
        at = levels_to_write(output_levels, own)
        parts.append(Part([f"{column}{_decimal(level)}" for level in at], lambda f: f.ppf([at])))
    if moments:
        parts.append(Part([f"{stem}mean", f"{stem}std"], lambda f: np.column_stack((f.mean(), f.std()))))
    if thresholds is not None:
        points = sorted(set(numbers_in("--thresholds", thresholds, "0,2.5,10")))
        parts.append(Part([f"{stem}cdf_{_decimal(t)}" for t in points], lambda f: f.cdf([points])))
    if draws is not None:
        generator = np.random.default_rng(seed)  # goes on from batch to batch, so that these change nothing
        parts.append(Part([f"{stem}sample_{k + 1}" for k in range(draws)], lambda f: f.sample(draws, generator)))
    return parts


def _decimal(value: float) -> str:
    import numpy as np

    return np.format_float_positional(value, trim="-")


def find_columns(
    given: ForecastOptions, fitted: Recalibrator, file: str, format: FormatLike, table: str | None
) -> ForecastColumns:
    """Return the columns of the forecasts: those that options name, else those that the recalibrator remembers."""
    from calibrant.tables import open_rows

    if given == ForecastOptions():
        given = stored_columns(fitted)
    given.check()
    if file != "-":
        return given.select(open_rows(file, format=format, table=table))
    named = [name for text in given.quantiles or given.samples for name in split_list(text)]
    pattern = next((name for name in named if any(c in "*?[" for c in name)), None)
    if pattern is not None:
        raise InvalidInputError(
            f"standard input can't be read twice to see what {pattern!r} matches. Name each column, or pass a file."
        )
    return given.match(named, "standard input")


def stored_columns(fitted: Recalibrator) -> ForecastOptions:
    """Return the columns that a recalibrator was fitted to, as its metadata says."""
    stored = fitted.metadata_.get("columns")
    match stored:
        case {"mean": str(mean), "std": str(std)}:
            return ForecastOptions(mean=mean, std=std)
        case {"quantiles": [*names], "levels": [*levels]} if names:
            return ForecastOptions(quantiles=tuple(map(str, names)), levels=",".join(map(str, levels)))
        case {"samples": [*names]} if names:
            return ForecastOptions(samples=tuple(map(str, names)))
        case _:
            raise InvalidInputError(
                "the recalibrator doesn't say which columns it was fitted to. Name them: --mean mu --std sigma, "
                "--quantiles or --samples."
            )


def levels_to_write(given: str | None, own: tuple[float, ...]) -> list[float]:
    """Return the levels of the new columns, rising: by default, those of every twentieth and of the forecast itself."""
    if given is None:
        return sorted({*_LEVELS, *(level for level in own if 0.0 < level < 1.0)})
    asked = sorted(set(numbers_in("--output-levels", given, "0.1,0.5,0.9")))
    odd = next((level for level in asked if not 0.0 < level < 1.0), None)
    if odd is not None:
        raise InvalidProbabilityError(f"--output-levels: {odd!r} is not between 0 and 1. Write them so: 0.1,0.5,0.9.")
    return asked
