"""calibrant compare: every method on one file, by cross-validation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import choices
from calibrant.cli.common import (
    echo,
    json_option,
    level_option,
    new_command,
    progress,
    prose,
    seed_option,
    table,
    write_json,
)
from calibrant.cli.completing import Names
from calibrant.cli.data import Request
from calibrant.cli.models import BYTES_BY_FOLDS, describe_models, read_models
from calibrant.cli.option_texts import split_list, with_label_end
from calibrant.cli.table_options import data_options
from calibrant.phrases import bracketed, count, figure, percent_level

if TYPE_CHECKING:
    from calibrant.comparison import Comparison
    from calibrant.validation import InputKind

#: Letters of a baseline that the heading of a column names.
_LONGEST_BASELINE = 10


@new_command(
    "compare",
    "calibrant compare scores.parquet --label y --score p",
    "calibrant compare scores.csv --score 'logit_*' --input logit --methods temperature,vector,top_label",
    "calibrant compare scores.parquet --score old --versus new --methods auto,isotonic",
)
@data_options("versus", "dependent folds", "missing")
@click.option(
    "--methods",
    type=Names(choices.METHODS),
    metavar="A,B",
    help="Names of methods.  [default: all that take such scores]",
)
@click.option("--input", metavar="KIND", default="probability", help="probability, logit or score.")
@click.option("--folds", type=click.IntRange(min=2), default=5, metavar="N", help="Folds.")
@level_option()
@seed_option("the folds")
@json_option
def command(
    methods: str | None, input: InputKind, folds: int, level: float, seed: int, as_json: bool, **options: Any
) -> None:
    """Rank the methods of calibration by held-out log loss on the scores and labels in FILE.

    Every method calibrates the same folds, each by a fit to the others. Intervals are of the paired difference to the
    scores as they are, or of --input score to the first of the methods, by default the sigmoid. Below zero is better.
    --json has that of the Brier score too.

    --versus names the scores of other models: all methods of all models are ranked together on the same folds, with
    differences to the scores of the first model as they are. So says the table which model is best once it is
    calibrated. calibrant evaluate --versus compares models as they are.
    """
    from calibrant.comparison import compare_rows
    from calibrant.validation import INPUT_KINDS, check_choice

    check_choice("--input", input, INPUT_KINDS)
    opened = Request(**with_label_end(options)).open()
    models = read_models(opened, input=input, both_classes=True, bytes_per_row=BYTES_BY_FOLDS)
    first, is_one = next(iter(models.values())), len(models) == 1
    rows = first.rows if is_one else {name: each.rows for name, each in models.items()}
    named = None if methods is None else split_list(methods)
    with progress("Comparing", "methods") as on_method:
        ranked = compare_rows(rows, methods=named, cv=folds, seed=seed, level=level, on_method=on_method)
    if as_json:
        source = first.columns.source
        read: dict[str, Any] = {"file": source.name, "label": options["label"]}
        read |= (
            {"score": first.columns.score} if is_one else {"models": {k: m.columns.score for k, m in models.items()}}
        )
        read |= {"n_skipped": source.n_skipped}
        write_json({**read, **ranked.to_dict()})
        return
    echo(first.describe() if is_one else describe_models(models))
    echo(prose(f"\n{verdict(ranked)}\n"))
    echo(as_table(ranked))


def verdict(ranked: Comparison) -> str:
    """Say which method is best, and whether it is better than doing nothing."""
    best = ranked.methods[0]
    rows = f"{count(ranked.n_rows, 'row')} in {ranked.n_folds} folds"
    if math.isinf(best.log_loss):
        return f"On {rows} the log loss of every method is infinite. The best Brier score is that of {best.name!r}."
    if best.name == ranked.baseline:
        return f"Best on {rows}: {best.name!r}. No method does better."
    difference = best.log_loss_difference
    if math.isinf(difference.value):
        loss = f"log loss {figure(best.log_loss)}, where that of {ranked.baseline!r} is infinite"
        return f"Best on {rows}: {best.name!r}, {loss}: something happened that it had given probability 0."
    change = f"log loss {figure(difference.value, sign=True)} against {ranked.baseline!r} "
    change += f"({percent_level(ranked.level)} interval {figure(difference.low, sign=True)} to "
    change += f"{figure(difference.high, sign=True)})"
    if difference.high < 0.0:
        return f"Best on {rows}: {best.name!r}, {change}."
    return f"Best on {rows}: {best.name!r}, but not clearly: {change}."


def as_table(ranked: Comparison) -> str:
    """Return the methods, best first."""
    level = f"{percent_level(ranked.level)} interval"
    by_how_much = f"vs {ranked.baseline}" if len(ranked.baseline) <= _LONGEST_BASELINE else "difference"
    header = ["method", "log loss", by_how_much, level, "Brier", by_how_much]
    lines = []
    for method in ranked.methods:
        change, of_brier = method.log_loss_difference, method.brier_difference
        by = figure(change.value, sign=True) if math.isfinite(change.value) else ""  # the losses themselves say it
        shown = [by, bracketed(change.low, change.high), figure(of_brier.value, sign=True)]
        vs, ends, brier_vs = [""] * 3 if method.name == ranked.baseline else shown
        lines.append([method.name, figure(method.log_loss), vs, ends, figure(method.brier), brier_vs])
    return table(header, lines)
