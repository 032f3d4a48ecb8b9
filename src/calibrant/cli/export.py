"""calibrant export: a saved calibrator as SQL or as an ONNX model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import choices
from calibrant.cli.common import echo, new_command
from calibrant.cli.option_texts import check_output, split_list
from calibrant.errors import InvalidInputError
from calibrant.phrases import for_terminal

if TYPE_CHECKING:
    from calibrant.persistence import FloatType


@new_command(
    "export",
    "calibrant export calibrator.json --to sql --dialect duckdb --table sales.scores --keep id",
    "calibrant export calibrator.json --dialect snowflake --score p -o apply.sql",
    "calibrant export calibrator.json -o calibrator.onnx",
)
@click.argument("calibrator")
@click.option(
    "--to", type=click.Choice(["sql", "onnx"]), help="What to make of it.  [default: what OUT ends in, else sql]"
)
@click.option("-o", "--output", metavar="OUT", help="Where to write; SQL goes to standard output by default.")
@click.option("--dialect", type=click.Choice(choices.DIALECTS), help="SQL: of which engine.  [default: duckdb]")
@click.option("--table", metavar="TABLE", help="SQL: what stands after FROM.  [default: scores]")
@click.option(
    "--score",
    multiple=True,
    metavar="COLUMNS",
    help="SQL: column of the scores, or one per class.  [default: those that it was fitted to]",
)
@click.option("--keep", multiple=True, metavar="COLUMNS", help="SQL: columns that go into the result as they are.")
@click.option("--column", metavar="NAME", help="SQL: name of the new column.  [default: p_calibrated]")
@click.option(
    "--dtype", type=click.Choice(choices.FLOAT_TYPES), help="ONNX: type of scores and result.  [default: float64]"
)
def command(calibrator: str, to: str | None, output: str | None, dtype: FloatType | None, **of_sql: Any) -> None:
    """Write the saved CALIBRATOR as SQL or as an ONNX model, to apply it where the scores are made.

    SQL is one SELECT. Rows that apply would refuse become NULL in SQL, NaN in ONNX.
    """
    from calibrant import persistence
    from calibrant.applicable import Applicable
    from calibrant.persistence import write_whole

    fitted = persistence.load_as(Applicable, calibrator)
    if output is not None:
        check_output(output, calibrator)
    to = to or _said_by(output)
    if to == "onnx":
        _refuse_others("onnx", [name for name, value in of_sql.items() if value])
        if output is None or output == "-":
            raise InvalidInputError("an ONNX model is no text to print. Name a file with -o.")
        persistence.to_onnx(fitted, output, dtype=dtype or "float64")
    else:
        _refuse_others("sql", ["dtype"] if dtype else [])
        score, keep = ([name for text in of_sql[key] for name in split_list(text)] for key in ("score", "keep"))
        sql = persistence.to_sql(
            fitted,
            of_sql["dialect"] or "duckdb",
            columns=score or None,
            table=of_sql["table"] or "scores",
            keep=keep,
            output=of_sql["column"] or None,
        )
        if output is None or output == "-":
            click.echo(for_terminal(sql) if sys.stdout.isatty() else sql)
            return
        write_whole(Path(output), f"{sql};\n".encode())
    echo(f"Wrote {output}")


def _said_by(output: str | None) -> str:
    """Return what the ending of a file's name says is to be made; SQL where none is named."""
    ending = ".sql" if output in (None, "-") else Path(output).suffix.lower()
    if ending not in (".sql", ".onnx"):
        raise InvalidInputError(f"{output} ends in neither .sql nor .onnx. Say what to make by --to sql or --to onnx.")
    return ending[1:]


def _refuse_others(to: str, named: list[str]) -> None:
    if named:
        raise InvalidInputError(f"--{named[0]} says nothing for --to {to}. Leave it out.")
