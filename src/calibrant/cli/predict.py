"""calibrant predict: calibrated probabilities of new bars or rows, by the bundle of a run."""

from __future__ import annotations

from pathlib import Path

import click

from calibrant.cli import choices
from calibrant.cli.common import echo, new_command, trust_option
from calibrant.cli.option_texts import check_output, split_list
from calibrant.errors import InvalidInputError
from calibrant.phrases import count


@new_command(
    "predict",
    "calibrant predict last --data bars.parquet -o tomorrow.csv --last",
    "calibrant predict last --data table.parquet -o out.parquet --raw",
)
@click.argument("run")
@click.option("--data", required=True, metavar="FILE", help="Bars, or a table with the columns of the training.")
@click.option("-o", "--output", required=True, metavar="OUT", help="Where to write; - is CSV on standard output.")
@click.option("--raw", is_flag=True, help="Write what the models say before calibration too.")
@click.option("--last", is_flag=True, help="Predict the last row of each symbol alone.")
@trust_option
@click.option("--runs", "root", default=choices.RUNS_ROOT, metavar="FOLDER", help="The folder of all runs.")
def command(run: str, data: str, output: str, trust: str, root: str, *, raw: bool, last: bool) -> None:
    """Predict the rows of FILE by the models of RUN, calibrated as the run is judged by.

    Features are made, matched and ordered as in the training. Rows are predicted whether their labels are known yet or
    not, and get the bits that they would have among any others. Bars need the 61 bars up to the first one to predict;
    those before it are left out.

    OUT has a row for each, in the order of time: time, symbol, and p_CLASS for each class. Times with a zone go
    to UTC. OUT appears whole or not at all. RUN is an id, a part of it that no other id holds, a folder, or last.
    """
    import pyarrow as pa

    from calibrant.tables import write_table
    from calibrant.training import find_run

    check_output(output, data)
    found = find_run(run, root, trusted=split_list(trust))
    if output != "-" and found.path.resolve() in Path(output).resolve().parents:
        raise InvalidInputError(f"-o {output} is inside of {found.run_id}, which stays as it is. Write somewhere else.")
    made = found.predict(data, raw=raw, last=last)
    columns = {name: v.tolist() if v.dtype == object else v for name, v in made.arrays().items()}
    if made.has_zone:
        columns["time"] = pa.array(columns["time"], pa.timestamp("us", tz="UTC"))
    write_table(pa.table(columns), output)
    if output == "-":
        return
    left_out = f"; {count(made.n_left_out, 'bar')} left out, as nothing moved before" if made.n_left_out else ""
    echo(f"Wrote {output}: {count(made.n_rows, 'row')} predicted by {made.run_id}{left_out}")
