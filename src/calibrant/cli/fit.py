"""calibrant fit: a calibrator from a file of scores and labels."""

from __future__ import annotations

import inspect
import math
import shlex
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from calibrant import persistence
from calibrant.calibrators import (
    ALIASES,
    BINARY_CALIBRATORS,
    CALIBRATORS,
    AutoCalibrator,
    Calibrator,
    calibrator_kind,
    make_calibrator,
)
from calibrant.cli.data import Request, ScoredRows, check_output, data_options
from calibrant.cli.examples import Command
from calibrant.cli.large import fit_large, is_large
from calibrant.cli.output import count, interval, listed, notes, number, table
from calibrant.dependence import stratified_folds
from calibrant.errors import CalibrantWarning, InvalidInputError, unknown_name
from calibrant.grouped import GroupedCalibrator
from calibrant.metrics import evaluate
from calibrant.numerics import BoolArray, FloatArray, expit, softmax
from calibrant.results import Scores
from calibrant.validation import INPUT_KINDS, InputKind, as_groups, check_both_classes, check_choice

_SHOWN = ("brier", "ece", "log_loss")
_MOST_FOLDS = 5
#: Options of the command by the parameter of a calibrator that they set.
_OPTIONS = {
    "bounded": "--bounded",
    "n_bins": "--bins",
    "strategy": "--strategy",
    "form": "--form",
    "threshold_pos": "--threshold-pos",
    "calibrator": "--calibrator",
    "coupling": "--coupling",
    "per_class": "--per-class",
    "input": "--input",
}


@click.command(
    "fit",
    cls=Command,
    examples=[
        "calibrant fit scores.parquet --label y --score p -o calibrator.json",
        "calibrant fit scores.csv --method isotonic --bounded -o calibrator.json",
        "calibrant fit scores.parquet --method beta --group city -o calibrator.json",
        "calibrant fit scores.csv --score 'logit_*' --input logit --method temperature -o calibrator.json",
        "calibrant fit scores.csv --score 'p_*' --method top_label --calibrator spline -o calibrator.json",
    ],
)
@data_options(positive=False)
@click.option("-o", "--output", required=True, metavar="CALIBRATOR", help="Where to save it: .json or .pkl.")
@click.option(
    "--method",
    default="auto",
    show_default=True,
    metavar="NAME",
    help=f"{', '.join(CALIBRATORS)}; platt is sigmoid.",
)
@click.option("--input", metavar="KIND", help="What the scores are: probability, logit, score.  [default: probability]")
@click.option("--group", metavar="COLUMN", help="Fit each group that the column names, drawn towards all rows.")
@click.option("--bounded", is_flag=True, default=None, help="isotonic: keep outputs away from 0 and 1.")
@click.option(
    "--bins", "n_bins", type=int, metavar="N", help="histogram, near_isotonic, scaling_binning: number of bins."
)
@click.option("--strategy", metavar="NAME", help="histogram: quantile or uniform bins.")
@click.option("--threshold-pos", type=int, metavar="N", help="mimic: positives in each first bin.")
@click.option("--form", metavar="NAME", help="beta: abm, am, ab or a.")
@click.option("--calibrator", metavar="NAME", help="one_vs_rest, top_label, bagged: the method for each score.")
@click.option("--coupling", metavar="NAME", help="one_vs_rest: normalise or likelihood.")
@click.option("--per-class", is_flag=True, default=None, help="top_label: one map for each class on top.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed of the folds and intervals.",
)
def command(
    output: str,
    method: str,
    group: str | None,
    input: str | None,
    bounded: bool | None,
    n_bins: int | None,
    strategy: str | None,
    form: str | None,
    threshold_pos: int | None,
    calibrator: str | None,
    coupling: str | None,
    per_class: bool | None,
    seed: int,
    **options: Any,
) -> None:
    """Fit a calibrator to the scores and labels in FILE, and save it.

    Prints what calibration does to rows that a fit has not seen: each of five folds is calibrated by a fit to the
    other four. The calibrator that is saved is fitted to all rows.

    FILE may be a folder of files too. What is too large for memory is read in passes: isotonic, sigmoid, beta and the
    multi-class curves are then fitted to all rows all the same, other methods to a summary of bounded error.

    With --group each group of rows gets a map of its own, blended with that of all rows: the smaller the group, the
    more it takes from all. calibrant apply then reads the column of groups too.
    """
    given = {
        "bounded": bounded,
        "n_bins": n_bins,
        "strategy": strategy,
        "form": form,
        "threshold_pos": threshold_pos,
        "calibrator": calibrator,
        "coupling": coupling,
        "per_class": per_class,
        "input": input,
    }
    single = new_calibrator(method, {key: value for key, value in given.items() if value is not None})
    request = Request(**options, groups=() if group is None else (group,))
    check_output(output, request.file)
    if group is None and is_large(request):
        done = fit_large(single, request)
        persistence.save(single, output, metadata={"score": list(single.score_names_ or ()), "label": request.label})
        click.echo(f"{done}\n\nSaved {output}")
        return
    rows = request.read(input=single.input)
    check_both_classes(rows.labels, f"column {rows.label!r} of {rows.file}", rows.weight)
    fitted: Calibrator | GroupedCalibrator = single
    by = None
    for name, column in rows.groups.items():
        groups = as_groups(column, name=name)
        fitted, by = GroupedCalibrator(single), groups.classes[groups.codes]
    fit_rows(fitted, rows, by, np.ones(len(rows.scores), dtype=bool))
    figures = out_of_fold_table(fitted, rows, seed, by)
    metadata = {"score": rows.score, "label": rows.label, **({} if by is None else {"group": group})}
    persistence.save(fitted, output, metadata=metadata)
    click.echo(rows.describe())
    click.echo(f"Fitted {describe(fitted, rows, group)}.\n")
    if isinstance(fitted, AutoCalibrator) and hasattr(fitted, "report_"):
        click.echo(f"{fitted.report_}\n")
    click.echo(figures)
    click.echo(f"\nSaved {output}")
    click.echo(f"Next:  calibrant apply {shlex.quote(output)} {_new_file(rows.file)}")


def new_calibrator(method: str, params: dict[str, Any]) -> Calibrator:
    """Return an unfitted calibrator, or say which option its method doesn't take.

    Raises
    ------
    CalibrantError
        If there is no such method, or it doesn't take a parameter.
    """
    name = ALIASES.get(method, method)
    if name not in CALIBRATORS:
        raise unknown_name("method", method, [*CALIBRATORS, *ALIASES])
    if "input" in params:
        check_choice("--input", params["input"], INPUT_KINDS)
    parameters = inspect.signature(CALIBRATORS[name]).parameters
    taken = [key for key in _OPTIONS if key in parameters or (key == "input" and calibrator_kind(name).takes_input())]
    for key in params:
        if key not in taken:
            takes = f"It takes {' and '.join(_OPTIONS[k] for k in taken)}." if taken else "It takes no such option."
            raise InvalidInputError(f"method {method!r} does not take {_OPTIONS[key]}. {takes}")
    inner = params.get("calibrator")
    if inner is not None and inner not in BINARY_CALIBRATORS and inner not in ALIASES:
        raise unknown_name("--calibrator", inner, [*BINARY_CALIBRATORS, *ALIASES])
    if inner is not None and "input" in params and not calibrator_kind(inner).takes_input():
        raise InvalidInputError(f"--calibrator {inner} does not take --input: it calibrates probabilities only.")
    return make_calibrator(name, **params)


def describe(calibrator: Calibrator | GroupedCalibrator, rows: ScoredRows, group: str | None) -> str:
    """Say what was fitted to what."""
    what = f"on {count(calibrator.n_rows_, 'row')} of classes {listed(rows.classes)}"
    if isinstance(calibrator, Calibrator):
        inner = calibrator.get_params(deep=False).get("calibrator")
        return f"{calibrator.name}{'' if inner is None else f' of {make_calibrator(inner).name}'} {what}"
    name, n_groups = make_calibrator(calibrator.calibrator).name, len(calibrator.groups_)
    drawn = f"all rows count for {calibrator.shrinkage_:,g}" if math.isfinite(calibrator.shrinkage_) else "all as one"
    return f"{name} by {group!r} ({count(n_groups, 'group')}; {drawn}) {what}"


def fit_rows(
    calibrator: Calibrator | GroupedCalibrator, rows: ScoredRows, by: npt.NDArray[Any] | None, kept: BoolArray
) -> None:
    """Fit to some of the rows, by group if need be."""
    weight = None if rows.weight is None else rows.weight[kept]
    more = {"sample_weight": weight, "classes": rows.classes}
    if isinstance(calibrator, GroupedCalibrator):
        calibrator.fit(rows.scores[kept], rows.y[kept], groups=None if by is None else by[kept], **more)
    else:
        calibrator.fit(rows.scores[kept], rows.y[kept], **more)


def out_of_fold_table(
    calibrator: Calibrator | GroupedCalibrator, rows: ScoredRows, seed: int, by: npt.NDArray[Any] | None = None
) -> str:
    """Return what the scores were worth before calibration, and are after one that hasn't seen them."""
    n_folds = min(_MOST_FOLDS, smallest_class(rows))
    if n_folds < 2:
        return "No out-of-fold figures: a class has fewer than two rows."
    after = measure(rows, out_of_fold(calibrator, rows, n_folds, seed, by), seed)
    values = before_calibration(rows, calibrator.input)
    before = None if values is None else measure(rows, values, seed)
    lines = []
    for name in _SHOWN:
        earlier = ["", ""] if before is None else [number(before[name].value), interval(*_ends(before, name))]
        lines.append([name, *earlier, number(after[name].value), interval(*_ends(after, name))])
    level = f"{100 * after[_SHOWN[0]].level:g}% interval"
    title = f"Out of fold ({n_folds} folds; each row calibrated by a fit that has not seen it):"
    header = ["metric", "before", level, "after", level]
    if before is None:
        header, lines = [header[0], *header[3:]], [[line[0], *line[3:]] for line in lines]
    shown = [note for scores in (before, after) if scores is not None for note in notes(scores)]
    return "\n".join([title, table(header, lines), *dict.fromkeys(shown)])


def out_of_fold(
    calibrator: Calibrator | GroupedCalibrator,
    rows: ScoredRows,
    n_folds: int,
    seed: int,
    by: npt.NDArray[Any] | None = None,
) -> FloatArray:
    """Calibrate each fold by a fit to the others."""
    codes = rows.labels.codes
    counted = np.ones(codes.size, dtype=bool) if rows.weight is None else rows.weight > 0.0
    folds = np.zeros(codes.size, dtype=np.int64)
    folds[counted] = stratified_folds(codes[counted], n_folds, seed)
    parts, places = [], []
    for fold in range(n_folds):
        held_out = folds == fold
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)  # said once, by the fit to all rows
            if isinstance(calibrator, GroupedCalibrator):
                grouped = GroupedCalibrator(calibrator.calibrator)
                fit_rows(grouped, rows, by, ~held_out)
                parts.append(grouped.predict_proba(rows.scores[held_out], groups=None if by is None else by[held_out]))
            else:
                fitted = make_calibrator(calibrator)
                fit_rows(fitted, rows, None, ~held_out)
                parts.append(fitted.predict_proba(rows.scores[held_out]))
        places.append(np.flatnonzero(held_out))
    out = np.empty_like(rows.scores)
    out[np.concatenate(places)] = np.concatenate(parts)
    return out


def smallest_class(rows: ScoredRows) -> int:
    """Return the number of rows with weight of the smallest class that has any."""
    codes = rows.labels.codes if rows.weight is None else rows.labels.codes[rows.weight > 0.0]
    counts = np.bincount(codes)
    return int(counts[counts > 0].min())


def before_calibration(rows: ScoredRows, input: InputKind) -> FloatArray | None:
    """Return the scores as probabilities; None for scores of no known scale."""
    match input:
        case "probability":
            return rows.scores
        case "logit":
            return expit(rows.scores) if rows.scores.ndim == 1 else softmax(rows.scores)
        case "score":
            return None


def measure(rows: ScoredRows, values: FloatArray, seed: int) -> Scores:
    """Measure probabilities of the rows."""
    return evaluate(rows.y, values, sample_weight=rows.weight, classes=rows.classes, rng=seed)


def _ends(scores: Scores, name: str) -> tuple[float, float]:
    return scores[name].low, scores[name].high


def _new_file(file: str) -> str:
    suffix = Path(file).suffix or ".csv"
    return f"new{suffix} -o out{suffix}"
