"""calibrant audit: the segments of rows in a file whose probabilities are furthest off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from calibrant.cli.common import echo, json_option, level_option, new_command, prose, seed_option, table, write_json
from calibrant.cli.data import Request
from calibrant.cli.table_options import NUMBERS, check_of_numbers, data_options, segment_options
from calibrant.phrases import bracketed, count, figure, p_value

if TYPE_CHECKING:
    from calibrant.metrics import Audit

#: Rows from which on it is said what a search takes, and what that is, for each number of scores and features.
_MANY_ROWS, _BYTES_PER_NUMBER = 1 << 22, 150


@new_command(
    "audit",
    "calibrant audit scores.parquet --label y --score p --features age,region,sex",
    "calibrant audit scores.parquet --features 'is_*' --depth 1 --json",
)
@data_options("positive", "input", "calibrator", "dependence", "missing")
@segment_options(required=True)
@click.option("--bins", default=5, metavar="N", help="Ranges that a column of many numbers is cut into.")
@click.option("--max-levels", default=20, metavar="N", help="Levels of a category, the rarer ones taken together.")
@click.option("--draws", default=499, metavar="N", help="Draws that p-values rest on.")
@NUMBERS
@level_option("finding nothing off where nothing is")
@seed_option("draws")
@click.option("--most", type=click.IntRange(min=1), default=15, metavar="N", help="Rows to print.")
@json_option
def command(
    depth: int,
    min_rows: int,
    bins: int,
    max_levels: int,
    draws: int,
    numbers: bool,
    level: float,
    seed: int,
    most: int,
    as_json: bool,
    **options: Any,
) -> None:
    """List the segments of rows in FILE whose probabilities are furthest off.

    Looks at the values of the columns that --features names, numbers cut into ranges, and at those of each pair of
    them. The error of a segment is the largest sum of gaps between outcome and probability over any range of scores,
    in standard deviations; p-values are right for the search over all segments at once.

    With --numbers labels are numbers, and scores predictions of them: the gaps are those between number and prediction,
    and p-values are too small where a handful of events make up the numbers.

    --cluster, or --time and --label-end, say that rows are not independent: they then tell less.
    """
    from calibrant.metrics import SegmentSettings, audit_rows

    settings = SegmentSettings.checked(depth=depth, min_rows=min_rows, n_bins=bins, max_levels=max_levels)
    if numbers:
        check_of_numbers(options, "positive", "input", "classes", "calibrator")
    opened = Request(**options).open()
    if opened.n_rows is not None and opened.n_rows >= _MANY_ROWS:
        opened.tell_of_memory("Segments are found among", _BYTES_PER_NUMBER * len([*opened.score, *opened.features]))
    found = opened.read_numbers() if numbers else opened.read()
    audited = audit_rows(found.rows, settings, level=level, n_draws=draws, rng=seed)
    if as_json:
        source = found.columns.source
        read = {"file": source.name, "n_skipped": source.n_skipped, "features": list(found.rows.features or ())}
        write_json({**read, **audited.to_dict()})
        return
    echo(found.describe())
    echo(prose(f"\n{audited.verdict}\n"))
    echo(as_table(audited, most))
    if audited.n_left_out:
        echo(f"{count(audited.n_left_out, 'segment')} of fewer than {count(audited.min_rows, 'row')} left out")


def as_table(found: Audit, most: int) -> str:
    """Return a row for each of the worst segments."""
    header = ("segment", "n", "sigma", "p", "gap", "bounds", "worst at scores", "gap there", "")
    rows = []
    for one in found.findings[:most]:
        gap, bounds = figure(one.gap, sign=True), bracketed(one.low, one.high)
        worst = one.at_scores, figure(one.score_gap, sign=True)
        figures = (f"{one.n:,}", f"{one.sigma:.1f}", p_value(one.p_value), gap, bounds, *worst)
        rows.append((one.label, *figures, "off" if one.is_off else ""))
    left = len(found.findings) - len(rows)
    shown = table(header, rows)
    return f"{shown}\nand {count(left, 'more segment')}: see --json" if left else shown
