"""calibrant audit: the groups of rows in a file whose probabilities are furthest off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from calibrant.cli.common import echo, json_option, level_option, new_command, prose, table, write_json
from calibrant.cli.data import Request
from calibrant.cli.table_options import data_options
from calibrant.phrases import bracketed, count, figure

if TYPE_CHECKING:
    from calibrant.metrics import Audit


@new_command(
    "audit",
    "calibrant audit scores.parquet --label y --score p --groups sex,city",
    "calibrant audit scores.parquet --groups 'is_*' --order 1 --json",
)
@data_options("positive", "input", "calibrator", "dependence", "missing")
@click.option(
    "--groups", multiple=True, required=True, metavar="COLUMNS", help="Columns that name groups: a,b or a pattern."
)
@click.option("--order", default=2, metavar="N", help="How many columns are crossed.")
@click.option("--min-rows", default=50, metavar="N", help="Rows that a group must have.")
@click.option("--score-bins", default=5, metavar="N", help="Parts by score of each group; 1: none.")
@level_option("all bounds at once")
@click.option("--most", type=click.IntRange(min=1), default=15, metavar="N", help="Rows to print.")
@json_option
def command(order: int, min_rows: int, score_bins: int, level: float, most: int, as_json: bool, **options: Any) -> None:
    """List the groups of rows in FILE whose probabilities are furthest off.

    Looks at the values of the columns that --groups names, at those of each pair of them, and at parts of all these
    by score. The bounds of the gap, mean prediction less what happened, hold for all groups at once; the group that
    is off by most at least comes first.

    --cluster, or --time and --label-end, say that rows are not independent: bounds are then wider.
    """
    from calibrant.metrics import audit_rows

    found = Request(**options).open().read()
    audited = audit_rows(found.rows, max_order=order, min_rows=min_rows, n_score_bins=score_bins, level=level)
    if as_json:
        source = found.columns.source
        read = {"file": source.name, "n_skipped": source.n_skipped, "groups": found.columns.groups}
        write_json({**read, **audited.to_dict()})
        return
    echo(found.describe())
    echo(prose(f"\n{audited.verdict}\n"))
    echo(as_table(audited, most))
    if audited.n_left_out:
        echo(f"{count(audited.n_left_out, 'group')} of fewer than {count(min_rows, 'row')} left out")


def as_table(found: Audit, most: int) -> str:
    """Return a row for each of the worst groups."""
    header = ("group", "n", "predicted", "observed", "gap", "bounds", "")
    rows = []
    for one in found.findings[:most]:
        figures = (
            figure(one.predicted),
            figure(one.observed),
            figure(one.gap, sign=True),
            bracketed(one.low, one.high),
        )
        rows.append((one.label, f"{one.n:,}", *figures, "off" if one.is_off else ""))
    left = len(found.findings) - len(rows)
    shown = table(header, rows)
    return f"{shown}\nand {count(left, 'more group')}: see --json" if left else shown
