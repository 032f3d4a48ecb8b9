"""calibrant apply: calibrated probabilities beside the scores of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli.common import echo, new_command, progress
from calibrant.cli.option_texts import check_output, split_list
from calibrant.cli.table_options import format_options
from calibrant.phrases import count, listed

if TYPE_CHECKING:
    from calibrant.tables import FormatLike, MissingInput


@new_command(
    "apply",
    "calibrant apply calibrator.json new.csv -o out.csv",
    "calibrant apply calibrator.json new.csv.gz --score prob -o out.csv.gz",
)
@click.argument("calibrator")
@click.argument("file")
@click.option("-o", "--output", required=True, metavar="OUT", help="Where to write; - is standard output.")
@click.option(
    "--score",
    multiple=True,
    metavar="COLUMNS",
    help="Column of the scores, or one per class.  [default: those that it was fitted to]",
)
@click.option(
    "--group", metavar="COLUMN", help="Column of the groups.  [default: that which it was fitted to, if by group]"
)
@click.option(
    "--column",
    metavar="NAME",
    help="Name of the new column; of several, what comes before _CLASS.  [default: p_calibrated]",
)
@click.option(
    "--missing",
    default="error",
    metavar="WHAT",
    help="Rows without a score: error; skip leaves them out; keep leaves their new columns empty.",
)
@format_options
def command(
    calibrator: str,
    file: str,
    output: str,
    score: tuple[str, ...],
    group: str | None,
    column: str | None,
    missing: MissingInput,
    format: FormatLike,
    table: str | None,
) -> None:
    """Add the calibrated probabilities of CALIBRATOR to the scores in FILE.

    Same rows, same order, and every other column as it was: to the byte in CSV and JSON lines, with its type in
    Parquet. OUT may be FILE itself, and appears whole or not at all. Where OUT has another format than FILE,
    values are converted.

    FILE may be a folder of files of one format; OUT is then a folder, which gets a part for each. A file is written in
    parts too where OUT ends in a slash. Killed and started again, it redoes only the parts that are missing.

    A calibrator that was fitted by group reads the column of groups too.

    One score column gives p_calibrated; one per class gives p_calibrated_CLASS for each class. Corrected predictions of
    a number are called calibrated.
    """
    from calibrant import engines, persistence
    from calibrant.applicable import Applicable
    from calibrant.engines import FittedColumns
    from calibrant.fitted import Fitted
    from calibrant.tables import MISSING_INPUT
    from calibrant.validation import check_choice

    check_output(output, calibrator)
    fitted = persistence.load_as(Applicable, calibrator)
    names = [name for text in score for name in split_list(text)]
    check_choice("--missing", missing, MISSING_INPUT)
    outputs = FittedColumns.of(fitted, score=names, group=group).new_columns(column).outputs
    how: dict[str, Any] = {"score": names, "group": group, "column": column, "missing": missing}
    with progress("Calibrating") as advance:
        done = engines.apply(fitted, file, output, format=format, table=table, progress=advance, **how)
    if output != "-":
        kept = f"; {done.n_kept:,} {'was' if done.n_kept == 1 else 'were'} there already" if done.n_kept else ""
        parts = f" in {count(done.n_parts, 'part')}{kept}" if Path(output).is_dir() else ""
        had, made = ("score", "probability") if isinstance(fitted, Fitted) else ("prediction", "corrected one")
        fate = "left out" if missing == "skip" else f"without a {made}"
        lacking = f"; {count(done.n_missing, 'row')} without a {had}, {fate}" if done.n_missing else ""
        echo(f"Wrote {output}: {count(done.n_rows, 'row')} with {listed(outputs)}{parts}{lacking}")
