"""calibrant evaluate: how good the probabilities in a file are."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import Any

import click

from calibrant.cli.data import Request, ScoredRows, data_options
from calibrant.cli.examples import Command
from calibrant.cli.gates import Gate, check_gates, parse_gates
from calibrant.cli.large import LargeColumns, evaluate_large, is_large, resolve
from calibrant.cli.output import count, interval, notes, number, shorten, table, write_json
from calibrant.metrics import ClassScores, GroupScores, evaluate, evaluate_classes, evaluate_groups
from calibrant.results import Scores

#: Groups, or classes, that the table shows; JSON has them all.
_MOST_GROUPS = 20
#: Width of the table of classes without their names.
_FIGURES_WIDTH = 68


@click.command(
    "evaluate",
    cls=Command,
    examples=[
        "calibrant evaluate scores.parquet --label y --score p --max ece_debiased=0.02",
        "calibrant evaluate scores.parquet --group city",
        "zcat scores.csv.gz | calibrant evaluate - --score 'p*' --json",
    ],
)
@data_options(positive=True)
@click.option("--group", metavar="COLUMN", help="Also measure each group of rows that the column names.")
@click.option("--bins", default=15, show_default=True, metavar="N", help="Bins of the ECE.")
@click.option("--level", default=0.95, show_default=True, metavar="SHARE", help="Coverage of the intervals.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of resampled intervals."
)
@click.option(
    "--evaluated-on", default="given data", metavar="TEXT", help='What the rows are, such as "held-out, May".'
)
@click.option("--max", "at_most", multiple=True, metavar="NAME=VALUE", help="Exit 1 if the metric is above.")
@click.option("--min", "at_least", multiple=True, metavar="NAME=VALUE", help="Exit 1 if the metric is below.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    group: str | None,
    bins: int,
    level: float,
    seed: int,
    evaluated_on: str,
    at_most: tuple[str, ...],
    at_least: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Measure how good the probabilities in FILE are, with intervals and a verdict.

    FILE is Parquet, CSV or JSON lines, a folder of these, or - for standard input. Of one score column, the value is
    the probability of the larger of two labels. Several score columns are matched to the classes by name, as p_a, p_b,
    p_c to a, b, c; where names don't say it, their order is that of the sorted classes.

    Of more than two classes a table has a row for each, those that are off first: predicted and observed share and
    the gap between them, the debiased calibration error, and the gap where the class is the most probable one.

    --group adds a table with a row for each group, the one that is surely off by most first. Its intervals are
    corrected for the number of groups.

    --max and --min make it a gate: exit 1 if a metric is out of bounds, or not defined.
    """
    gates = parse_gates("max", at_most) + parse_gates("min", at_least)
    request = Request(**options, groups=() if group is None else (group,))
    if is_large(request):
        columns = resolve(request)
        scores, by_group = evaluate_large(
            request, columns, n_bins=bins, level=level, seed=seed, evaluated_on=evaluated_on
        )
        check_gates(gates, scores)
        if as_json:
            write_json(_large_document(request, columns, scores, gates, by_group))
        else:
            click.echo(f"{request.file}: {next(iter(scores.values())).n:,} rows; {columns.order}; {evaluated_on}")
            _show(scores, None, by_group)
            if len(columns.classes) > 2:
                click.echo("\nToo many rows for a table of the classes: take a sample of them for that.")
        ctx.exit(_judge(gates, scores, as_json=as_json))
    rows = request.read()
    settings: dict[str, Any] = {
        "sample_weight": rows.weight,
        "n_bins": bins,
        "level": level,
        "pos_label": rows.positive,
        "classes": rows.classes,
        "evaluated_on": evaluated_on,
    }
    scores = evaluate(rows.y, rows.scores, rng=seed, **settings)
    check_gates(gates, scores)
    by_group = {
        name: evaluate_groups(rows.y, rows.scores, groups=column, **settings) for name, column in rows.groups.items()
    }
    by_class = evaluate_classes(rows.y, rows.scores, **settings) if len(rows.classes) > 2 else None
    if as_json:
        write_json(as_document(rows, scores, gates, by_class, by_group))
    else:
        click.echo(f"{rows.describe()}; {evaluated_on}")
        _show(scores, by_class, by_group)
    ctx.exit(_judge(gates, scores, as_json=as_json))


def _show(scores: Scores, by_class: ClassScores | None, by_group: dict[str, GroupScores]) -> None:
    """Print the tables."""
    click.echo(f"\n{scores.verdict}\n")
    click.echo(as_table(scores))
    for note in notes(scores):
        click.echo(note)
    if by_class is not None:
        click.echo(f"\nBy class: {by_class.describe(lambda label: shorten(str(label)))}\n")
        click.echo(as_class_table(by_class))
    for name, found in by_group.items():
        click.echo(f"\nBy {name!r}: {found.verdict}\n")
        click.echo(as_group_table(found))


def _judge(gates: list[Gate], scores: Scores, *, as_json: bool) -> int:
    """Say how the gates ended; return the exit code."""
    is_failed = False
    for gate in gates:
        passed = gate.passes(scores[gate.metric].value)
        is_failed |= not passed
        if not passed or not as_json:
            click.echo(gate.describe(scores), err=not passed)
    return 1 if is_failed else 0


def as_table(scores: Scores) -> str:
    """Return the scores as an aligned table."""
    first = next(iter(scores.values()))
    rows = [(s.name, number(s.value), interval(s.low, s.high), f"{s.n:,}") for s in scores.values()]
    return table(("metric", "value", f"{100 * first.level:g}% interval", "n"), rows)


def as_class_table(found: ClassScores) -> str:
    """Return a row for each class, those that are off by most first."""
    rows = []
    widest = max(12, get_terminal_size((120, 24)).columns - _FIGURES_WIDTH)
    for label, scores in list(found.classes.items())[:_MOST_GROUPS]:
        gap, on_top = scores["mean_gap"], scores["top_gap"]
        shares = [f"{scores[name].value:.4f}" for name in ("mean_prob", "base_rate")]
        bounds = f"[{gap.low:z.3f}, {gap.high:z.3f}]"
        top = "n/a" if on_top.n == 0 else f"{on_top.value:+z.3f}"
        figures = (f"{gap.value:+z.3f}", bounds, f"{scores['ece_debiased'].value:.3f}", top)
        rows.append((shorten(str(label), widest), *shares, *figures, "off" if found.is_off(label) else ""))
    level = f"{100 * found.interval_level:.4g}% interval"
    shown = table(("class", "predicted", "observed", "gap", level, "error", "top gap", ""), rows)
    left = len(found.classes) - len(rows)
    more = f"\nand {left:,} more: see --json" if left else ""
    return f"{shown}{more}\ngap: predicted less observed; error: debiased; top gap: where it is the top label"


def as_group_table(found: GroupScores) -> str:
    """Return a row for each of the groups that are off by most."""
    level = f"{100 * found.interval_level:.6g}% interval"
    rows = []
    for group, scores in list(found.groups.items())[:_MOST_GROUPS]:
        gap, error = scores["mean_gap"], scores["ece_debiased"]
        off = "off" if found.is_off(group) else ""
        figures = (f"{gap.value:+z.4f}", interval(gap.low, gap.high), number(error.value))
        rows.append((str(group), f"{gap.n:,}", *figures, interval(error.low, error.high), off))
    shown = table(("group", "n", "mean_gap", level, "ece_debiased", level, ""), rows)
    left = len(found.groups) - len(rows)
    return f"{shown}\nand {count(left, 'more group')}: see --json" if left else shown


def as_document(
    rows: ScoredRows,
    scores: Scores,
    gates: list[Gate],
    by_class: ClassScores | None,
    by_group: dict[str, GroupScores],
) -> dict[str, object]:
    """Return what was measured as one plain document."""
    return _document(
        {
            "file": rows.file,
            "n": rows.labels.codes.size,
            "columns": {"label": rows.label, "score": rows.score, "weight": rows.weight_name},
            "classes": rows.classes,
            "positive": rows.positive,
        },
        scores,
        gates,
        by_class,
        by_group,
    )


def _large_document(
    request: Request, columns: LargeColumns, scores: Scores, gates: list[Gate], by_group: dict[str, GroupScores]
) -> dict[str, object]:
    return _document(
        {
            "file": request.file,
            "n": next(iter(scores.values())).n,
            "columns": {"label": request.label, "score": columns.score, "weight": request.weight},
            "classes": columns.classes,
            "positive": columns.positive,
        },
        scores,
        gates,
        None,
        by_group,
    )


def _document(
    read: dict[str, object],
    scores: Scores,
    gates: list[Gate],
    by_class: ClassScores | None,
    by_group: dict[str, GroupScores],
) -> dict[str, object]:
    document: dict[str, object] = {**read, **scores.to_dict()}
    if by_class is not None:
        document["by_class"] = by_class.to_dict()
    for name, found in by_group.items():
        document["groups"] = {"column": name, **{k: v for k, v in found.to_dict().items() if k != "overall"}}
    if gates:
        document["gates"] = [gate.result(scores) for gate in gates]
    return document
