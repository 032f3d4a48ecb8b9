"""calibrant export: a saved calibrator as SQL or as an ONNX model."""

from __future__ import annotations

from pathlib import Path

import click

from calibrant import persistence
from calibrant.cli.common import Command
from calibrant.cli.data import check_output, split_list
from calibrant.errors import InvalidInputError
from calibrant.fitted import Fitted
from calibrant.persistence import DIALECTS, FLOAT_TYPES, DialectName, FloatType, write_whole

_OF_SQL = ("dialect", "table", "score", "keep", "column")


@click.command(
    "export",
    cls=Command,
    examples=[
        "calibrant export calibrator.json --to sql --dialect duckdb --table sales.scores --keep id",
        "calibrant export calibrator.json --to sql --dialect snowflake --score p -o apply.sql",
        "calibrant export calibrator.json --to onnx -o calibrator.onnx",
    ],
)
@click.argument("calibrator")
@click.option("--to", required=True, type=click.Choice(["sql", "onnx"]), help="What to make of it.")
@click.option("-o", "--output", metavar="OUT", help="Where to write; SQL goes to standard output by default.")
@click.option("--dialect", type=click.Choice(DIALECTS), help="SQL: of which engine.  [default: duckdb]")
@click.option("--table", metavar="TABLE", help="SQL: what stands after FROM.  [default: scores]")
@click.option(
    "--score",
    multiple=True,
    metavar="COLUMNS",
    help="SQL: column of the scores, or one per class.  [default: those that it was fitted to]",
)
@click.option("--keep", multiple=True, metavar="COLUMNS", help="SQL: columns that go into the result as they are.")
@click.option("--column", metavar="NAME", help="SQL: name of the new column.  [default: p_calibrated]")
@click.option("--dtype", type=click.Choice(FLOAT_TYPES), help="ONNX: type of scores and result.  [default: float64]")
def command(
    calibrator: str,
    to: str,
    output: str | None,
    dialect: DialectName | None,
    table: str | None,
    score: tuple[str, ...],
    keep: tuple[str, ...],
    column: str | None,
    dtype: FloatType | None,
) -> None:
    """Write the saved CALIBRATOR as SQL or as an ONNX model, to apply it where the scores are made.

    SQL is one SELECT. Rows that apply would refuse become NULL in SQL, NaN in ONNX.
    """
    fitted = persistence.load_as(Fitted, calibrator)
    if output is not None:
        check_output(output, calibrator)
    given = {"dialect": dialect, "table": table, "score": score, "keep": keep, "column": column}
    if to == "onnx":
        _refuse_others("onnx", [name for name in _OF_SQL if given[name]])
        if output is None or output == "-":
            raise InvalidInputError("an ONNX model is no text to print. Name a file with -o.")
        persistence.to_onnx(fitted, output, dtype=dtype or "float64")
    else:
        _refuse_others("sql", ["dtype"] if dtype else [])
        columns = [name for text in score for name in split_list(text)] or None
        sql = persistence.to_sql(
            fitted,
            dialect or "duckdb",
            columns=columns,
            table=table or "scores",
            keep=[name for text in keep for name in split_list(text)],
            output=column or "p_calibrated",
        )
        if output is None or output == "-":
            click.echo(sql)
            return
        write_whole(Path(output), f"{sql};\n".encode())
    click.echo(f"Wrote {output}")


def _refuse_others(to: str, named: list[str]) -> None:
    if named:
        raise InvalidInputError(f"--{named[0]} says nothing for --to {to}. Leave it out.")
