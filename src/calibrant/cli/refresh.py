"""calibrant refresh: a run's calibrator fitted anew to the newest rows, kept where later rows show no loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from calibrant.cli import choices
from calibrant.cli.common import echo, json_option, new_command, table, trust_option, write_json
from calibrant.cli.option_texts import split_list
from calibrant.phrases import bracketed, count

if TYPE_CHECKING:
    from calibrant.training import RefreshResult, Run


@new_command(
    "refresh",
    "calibrant refresh last --data newest.parquet",
    "calibrant refresh xgboost_h20 --data newest.parquet --dry-run",
)
@click.argument("run")
@click.option("--data", metavar="FILE", help="The newest bars or rows.  [default: the file of RUN, read again]")
@click.option(
    "--rows", type=click.IntRange(min=1), metavar="N", help="Take the last N of the new rows.  [default: all]"
)
@click.option("--later", default=0.5, metavar="SHARE", help="Of the new rows, to judge by: the last ones in time.")
@click.option("--dry-run", is_flag=True, help="Judge, and write nothing.")
@trust_option
@click.option("--runs", "root", default=choices.RUNS_ROOT, metavar="FOLDER", help="The folder of all runs.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    run: str,
    data: str | None,
    rows: int | None,
    later: float,
    dry_run: bool,
    trust: str,
    root: str,
    as_json: bool,
) -> None:
    """Fit the calibrator of RUN anew to the newest rows; the model stays. Exit 1 where later rows show a loss.

    RUN is named by its id, by a part of it that no other id holds, by its folder, or as last. FILE holds the newest
    bars, and enough of those before for the features; or, of a run of a table, rows with the same columns, of which
    those without a label are left out. Rows count that begin after the last label that RUN knew of; after a drift,
    --rows leaves out older ones, which tell of times that are gone.

    The earlier ones fit a candidate. On the later ones its log loss is compared with that of the calibrator in use, and
    with that of none: where it is above neither by more than a standard error, the calibrator is fitted to all new rows
    and goes, with the same model, into a new folder beside RUN, which says what it was refreshed from. RUN stays as it
    is, and a monitor of the new calibrator begins anew.

    Exit codes: 0 refreshed, or nothing to do, as too few labels have come or the fit changes nothing; 1 refused by the
    later rows; 2 bad input.
    """
    from calibrant.training import find_run, refresh_run

    found = find_run(run, root, trusted=split_list(trust))
    result = refresh_run(found, data, rows=rows, later=later, dry_run=dry_run, echo=not as_json)
    if as_json:
        write_json(result.as_dict())
    else:
        echo(closing_text(result))
        if result.run_id is not None:
            echo(f"\nSaved {found.path.parent / result.run_id}\nNext:  calibrant runs show {result.run_id}")
    ctx.exit(1 if result.is_refused else 0)


def closing_text(result: RefreshResult) -> str:
    """Return how a refresh ended, and the differences that decided it."""
    left = f" ({count(result.n_left_out, 'row')} without a label left out)" if result.n_left_out else ""
    if not result.differences:
        return f"Nothing to do: {result.reason}{left}"
    later = f"judged by {result.n_later:,} later ones, worth {result.n_independent:,.0f} independent labels"
    verdict = result.status.replace("_", " ").capitalize()
    return "\n".join(
        [
            f"{count(result.n_rows, 'new row')}: fitted to {result.n_fit:,}, {later}{left}",
            differences_table(result.differences),
            f"Candidate: {result.decision}",
            f"{verdict}: {result.reason}",
        ]
    )


def origin_text(run: Run) -> str:
    """Return what a run was refreshed from, and the differences that decided it."""
    found = run.metrics["refresh"]
    text = run.metrics["calibration"]["deployed"]
    return f"Refreshed from {found['refreshed_from']}\n{differences_table(found['differences'])}\nCalibrator {text}\n"


def differences_table(differences: Mapping[str, Mapping[str, float | None]]) -> str:
    """Return the log loss of the refit less that of what it was compared with."""
    from calibrant.training import LEVEL, PAIRED_WITH

    rows = []
    for name, gap in differences.items():
        value, low, high = (math.nan if (end := gap[key]) is None else end for key in ("value", "low", "high"))
        rows.append([PAIRED_WITH[name], f"{value:+z.4f}" if math.isfinite(value) else "infinite", bracketed(low, high)])
    return table(["log loss of the refit less that of", "", f"{100 * LEVEL:g}% interval"], rows)
