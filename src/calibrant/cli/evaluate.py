"""calibrant evaluate: how good the probabilities in a file are; and gates, which make a command fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import choices, common
from calibrant.cli.data import FileColumns, OpenedFile, Request
from calibrant.cli.gates import Gate, check_gates, gate_options, gate_results, judge, parse_gates
from calibrant.cli.models import describe_models, hinting_at_versus, models_facts, read_models
from calibrant.cli.table_options import data_options
from calibrant.phrases import bracketed, count, difference, figure, p_value, percent_level, shorten

if TYPE_CHECKING:
    from calibrant.cli.data import FileRows
    from calibrant.metrics import ClassScores, GroupScores, ModelComparison
    from calibrant.results import Scores

#: Groups, or classes, that the table shows; JSON has them all.
_MOST_GROUPS = 20
#: Width of the table of classes without their names.
_FIGURES_WIDTH = 68
#: Letters of the name of a class in a sentence.
_MOST_LETTERS = 24


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of a file: all rows, each class where there are several, and each group by its column."""

    columns: FileColumns
    n_read: int
    scores: Scores
    by_class: ClassScores | None
    by_group: dict[str, GroupScores]

    def to_dict(self) -> dict[str, Any]:
        """Return it as one plain document."""
        document = {**self.columns.facts(self.n_read), **self.scores.to_dict()}
        if self.by_class is not None:
            document["by_class"] = self.by_class.to_dict()
        for name, found in self.by_group.items():
            document["groups"] = {"column": name, **{k: v for k, v in found.to_dict().items() if k != "overall"}}
        return document


@common.new_command(
    "evaluate",
    "calibrant evaluate scores.parquet --label y --score p --max ece_debiased=0.02",
    "calibrant evaluate scores.parquet --group city",
    "calibrant evaluate scores.parquet --score old --versus new --max log_loss_difference=0",
    "calibrant evaluate 'scores/part-*.csv.gz' --score 'p*' --json",
    "calibrant evaluate scores.csv --delimiter ';' --decimal , --encoding latin-1",
)
@data_options("versus", "positive", "input", "calibrator", "dependence", "missing")
@click.option("--group", metavar="COLUMN", help="Also measure each group of rows that the column names.")
@click.option("--bins", default=choices.SCORE_BINS, metavar="N", help="Bins of the ECE.")
@common.level_option()
@common.seed_option("resampled intervals")
@gate_options
@click.pass_context
def command(
    ctx: click.Context, /, bins: int, level: float, seed: int, evaluated_on: str, as_json: bool, **options: Any
) -> None:
    """Measure how good the probabilities in FILE are, with intervals and a verdict.

    FILE is Parquet, CSV or JSON lines, packed (.csv.gz, .csv.zst) or not; a folder of these, or a pattern of names in
    quotes ('part-*.csv'); an address, s3:// or https://; or - for standard input. Of one score column, the value is
    the probability of the larger of two labels. Several score columns are matched to the classes by name, as p_a, p_b,
    p_c to a, b, c; where names don't say it, their order is that of the sorted classes.

    --group adds a table with a row for each group, the one that is surely off by most first. Its intervals are
    corrected for the number of groups.

    --versus compares models: champion in --score, a challenger in each --versus, of one column or one per class. A
    table has the scores of each and their paired differences, which gates name log_loss_difference, or
    MODEL:log_loss_difference where there are several. Of two classes, --score a,b does the same where the columns can't
    be the classes of one model: their names are not those of the classes, and most rows don't sum to one.

    --input logit says that scores are logits: of one column the probability is expit of it, of several their softmax.

    --calibrator measures what a saved calibrator, of any kind, makes of the scores.

    --cluster, or --time and --label-end, say that rows are not independent: intervals are then wider.

    --missing skip leaves out rows that lack a value in a column that is read, and says how many.

    --max and --min make it a gate: exit 1 if a metric is out of bounds, or not defined.
    """
    gates = parse_gates(options.pop("at_most"), options.pop("at_least"))
    opened = Request(**options).open()
    how: dict[str, Any] = {"n_bins": bins, "level": level, "rng": seed}
    if opened.is_large and not opened.models:
        with hinting_at_versus(opened):
            found = measure_large(opened, evaluated_on, **how)
    else:
        models = read_models(opened)
        if len(models) > 1:
            ctx.exit(compare_models(models, gates, evaluated_on, as_json=as_json, **how))
        found = measure_rows(next(iter(models.values())), evaluated_on, **how)
    check_gates(gates, found.scores)
    if as_json:
        common.write_json(found.to_dict() | gate_results(gates, found.scores))
    else:
        common.echo(f"{found.columns.describe(found.n_read)}; {evaluated_on}")
        show(found)
    ctx.exit(judge(gates, found.scores, as_json=as_json))


def compare_models(
    found: Mapping[str, FileRows], gates: Sequence[Gate], evaluated_on: str, *, as_json: bool, **how: Any
) -> int:
    """Measure several models on rows in memory, and say how they differ; return the exit code."""
    from calibrant.metrics import check_settings, compare_model_rows

    rows = {name: each.rows for name, each in found.items()}
    compared: ModelComparison = compare_model_rows(rows, check_settings(**how), evaluated_on)
    figures = compared.figures
    check_gates(gates, figures)
    if as_json:
        common.write_json(models_facts(found) | compared.to_dict() | gate_results(gates, figures))
    else:
        common.echo(f"{describe_models(found)}; {evaluated_on}")
        common.echo(common.prose(f"\n{compared.verdict}\n"))
        for note in compared.notes:
            common.echo(common.prose(f"{note}\n"))
        common.echo(as_model_table(compared))
    return judge(gates, figures, as_json=as_json)


def measure_rows(found: FileRows, evaluated_on: str, **how: Any) -> Measured:
    """Measure rows in memory."""
    from calibrant.metrics import check_settings, classes_of_rows, evaluate_rows, groups_of_rows

    settings = check_settings(**how)
    rows = found.rows
    return Measured(
        found.columns,
        found.n_read,
        evaluate_rows(rows, settings, evaluated_on),
        classes_of_rows(rows, settings, evaluated_on) if rows.n_classes > 2 else None,
        {name: groups_of_rows(rows, name, settings, evaluated_on)[0] for name in rows.groups},
    )


def measure_large(opened: OpenedFile, evaluated_on: str, **how: Any) -> Measured:
    """Measure rows in passes, without holding them: no table of the classes."""
    from calibrant import engines

    columns = opened.resolve(takes_dependence=True)
    more = {
        **columns.names(),
        **columns.dependence(),
        "pos_label": columns.positive,
        "evaluated_on": evaluated_on,
        **how,
    }
    with common.progress("Measuring"):
        scores: Scores = engines.evaluate(columns.source, **more)
        groups = {name: engines.evaluate(columns.source, group=name, **more) for name in columns.groups}
    return Measured(columns, next(iter(scores.values())).n, scores, None, groups)


def show(found: Measured) -> None:
    """Print the tables."""
    common.echo(common.prose(f"\n{found.scores.verdict}\n"))
    for note in found.scores.notes:
        common.echo(common.prose(f"{note}\n"))
    common.echo(as_table(found.scores))
    if found.by_class is not None:
        common.echo(f"\nBy class: {found.by_class.describe(lambda label: shorten(str(label), _MOST_LETTERS))}\n")
        common.echo(as_class_table(found.by_class))
    for name, scores in found.by_group.items():
        common.echo(common.prose(f"\nBy {name!r}: {scores.verdict}\n"))
        common.echo(as_group_table(scores))
    if found.by_class is None and len(found.columns.classes) > 2:
        common.echo("\nToo many rows for a table of the classes: take a sample of them for that.")


def as_table(scores: Scores) -> str:
    """Return the scores as an aligned table, and notes on them."""
    first = next(iter(scores.values()))
    is_fewer = any(round(s.n_eff) < s.n for s in scores.values())
    rows = []
    for s in scores.values():
        sizes = (f"{s.n:,}", f"{s.n_eff:,.0f}") if is_fewer else (f"{s.n:,}",)
        rows.append((s.name, figure(s.value), bracketed(s.low, s.high), *sizes))
    header = ("metric", "value", f"{100 * first.level:g}% interval", "n", *(["n_eff"] if is_fewer else []))
    return "\n".join([common.table(header, rows), *common.notes(scores)])


def as_model_table(compared: ModelComparison) -> str:
    """Return a row for each score of each model, with the paired difference to the champion, and notes on them."""
    from calibrant.metrics import COMPARED

    levels = (f"{percent_level(level)} interval" for level in (compared.level, compared.difference_level))
    rows = []
    for key in COMPARED:
        for name, scores in compared.models.items():
            score, by = scores[key], ("", "")
            if name in compared.differences:
                less = compared.differences[name][f"{key}_difference"]
                by = (figure(less.value, sign=True), bracketed(less.low, less.high))
            own = (figure(score.value), bracketed(score.low, score.high))
            rows.append((key, shorten(name, _MOST_LETTERS), *own, *by))
    of_values, of_differences = levels
    header = ("metric", "model", "value", of_values, "difference", of_differences)
    about = f"difference: less that of {shorten(compared.champion, _MOST_LETTERS)!r}, paired; better below 0, auc above"
    return "\n".join([common.table(header, rows, left=2), about, *compared.score_notes])


def as_class_table(found: ClassScores) -> str:
    """Return a row for each class, those that are off by most first."""
    rows = []
    widest = max(12, get_terminal_size((120, 24)).columns - _FIGURES_WIDTH)
    for label, scores in list(found.classes.items())[:_MOST_GROUPS]:
        gap, on_top = scores["mean_gap"], scores["top_gap"]
        shares = [figure(scores[name].value) for name in ("mean_prob", "base_rate")]
        scale = max(abs(gap.low), abs(gap.high), scores["mean_prob"].value)
        ends = f"[{difference(gap.low, scale=scale)}, {difference(gap.high, scale=scale)}]"
        top = "n/a" if on_top.n == 0 else difference(on_top.value, sign=True, scale=scale)
        error = difference(scores["ece_debiased"].value, scale=scale)
        figures = (difference(gap.value, sign=True, scale=scale), ends, error, top)
        rows.append((shorten(str(label), widest), *shares, *figures, "off" if found.is_off(label) else ""))
    level = f"{100 * found.interval_level:.4g}% interval"
    shown = common.table(("class", "predicted", "observed", "gap", level, "error", "top gap", ""), rows)
    left = len(found.classes) - len(rows)
    more = f"\nand {left:,} more: see --json" if left else ""
    return f"{shown}{more}\ngap: predicted less observed; error: debiased; top gap: where it is the top label"


def as_group_table(found: GroupScores) -> str:
    """Return a row for each of the groups that are off by most."""
    level = f"{percent_level(found.interval_level)} interval"
    rows = []
    for group, scores in list(found.groups.items())[:_MOST_GROUPS]:
        gap, error = scores["mean_gap"], scores["ece_debiased"]
        off = "off" if found.is_off(group) else ""
        figures = (figure(gap.value, sign=True), bracketed(gap.low, gap.high), figure(error.value))
        tested = p_value(found.p_value(group))
        rows.append((str(group), f"{gap.n:,}", *figures, bracketed(error.low, error.high), tested, off))
    shown = common.table(("group", "n", "mean_gap", level, "ece_debiased", level, "p", ""), rows)
    left = len(found.groups) - len(rows)
    return f"{shown}\nand {count(left, 'more group')}: see --json" if left else shown
