"""calibrant audit: the groups of rows in a file whose probabilities are furthest off."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli.data import Request, data_options
from calibrant.cli.examples import Command
from calibrant.cli.output import count, interval, number, table, write_json
from calibrant.metrics import Audit, audit


@click.command(
    "audit",
    cls=Command,
    examples=[
        "calibrant audit scores.parquet --label y --score p --groups sex,city",
        "calibrant audit scores.parquet --groups 'is_*' --order 1 --json",
    ],
)
@data_options(positive=True)
@click.option(
    "--groups", multiple=True, required=True, metavar="COLUMNS", help="Columns that name groups: a,b or a pattern."
)
@click.option("--order", default=2, show_default=True, metavar="N", help="How many columns are crossed.")
@click.option("--min-rows", default=50, show_default=True, metavar="N", help="Rows that a group must have.")
@click.option("--score-bins", default=5, show_default=True, metavar="N", help="Parts by score of each group; 1: none.")
@click.option("--level", default=0.95, show_default=True, metavar="SHARE", help="Coverage of all bounds at once.")
@click.option("--most", type=click.IntRange(min=1), default=15, show_default=True, metavar="N", help="Rows to print.")
@click.option("--json", "as_json", is_flag=True, help="Print all groups as one JSON document and nothing else.")
def command(
    groups: tuple[str, ...],
    order: int,
    min_rows: int,
    score_bins: int,
    level: float,
    most: int,
    as_json: bool,
    **options: Any,
) -> None:
    """List the groups of rows in FILE whose probabilities are furthest off.

    Looks at the values of the columns that --groups names, at those of each pair of them, and at parts of all these
    by score. The bounds of the gap, mean prediction less what happened, hold for all groups at once; the group that
    is off by most at least comes first.
    """
    rows = Request(**options, groups=groups).read()
    found = audit(
        rows.y,
        rows.scores,
        groups=rows.groups,
        max_order=order,
        min_rows=min_rows,
        n_score_bins=score_bins,
        level=level,
        sample_weight=rows.weight,
        pos_label=rows.positive,
        classes=rows.classes,
    )
    if as_json:
        write_json({"file": rows.file, "groups": list(rows.groups), **found.to_dict()})
        return
    click.echo(rows.describe())
    click.echo(f"\n{found.verdict}\n")
    click.echo(as_table(found, most))
    if found.n_left_out:
        click.echo(f"{count(found.n_left_out, 'group')} of fewer than {count(min_rows, 'row')} left out")


def as_table(found: Audit, most: int) -> str:
    """Return a row for each of the worst groups."""
    header = ("group", "n", "predicted", "observed", "gap", "bounds", "")
    rows = [
        (
            finding.label,
            f"{finding.n:,}",
            number(finding.predicted),
            number(finding.observed),
            f"{finding.gap:+z.4f}",
            interval(finding.low, finding.high),
            "off" if finding.is_off else "",
        )
        for finding in found.findings[:most]
    ]
    left = len(found.findings) - len(rows)
    shown = table(header, rows)
    return f"{shown}\nand {count(left, 'more group')}: see --json" if left else shown
