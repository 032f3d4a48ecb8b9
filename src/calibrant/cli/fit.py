"""calibrant fit: a calibrator from a file of scores and labels."""

from __future__ import annotations

import inspect
import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import choices, common
from calibrant.cli.completing import Names
from calibrant.cli.data import OpenedFile, Request
from calibrant.cli.option_texts import check_output, with_label_end
from calibrant.cli.table_options import data_options
from calibrant.errors import InvalidInputError, unknown_name
from calibrant.phrases import count, listed

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.grouped import GroupedCalibrator
    from calibrant.numerics import FloatArray
    from calibrant.provenance import OutOfFold
    from calibrant.rows import Rows
    from calibrant.segments import SegmentCalibrator

_SHOWN = ("brier", "ece", "log_loss")
_MOST_FOLDS = 5
_LEVEL = 0.95
#: Parameters of calibrators that options of the command set.
_OPTIONS = (
    *("bounded", "n_bins", "strategy", "form", "threshold_pos", "calibrator", "coupling", "per_class", "input"),
    *("allow_inversion", "exportable"),
)


@common.new_command(
    "fit",
    "calibrant fit scores.parquet --label y --score p -o calibrator.json",
    "calibrant fit scores.csv --method isotonic --bounded -o calibrator.json",
    "calibrant fit scores.parquet --method beta --group city -o calibrator.json",
    "calibrant fit scores.csv --score 'logit_*' --input logit --method temperature -o calibrator.json",
    "calibrant fit scores.csv --score 'p_*' --method top_label --calibrator spline -o calibrator.json",
)
@data_options("dependent folds", "missing")
@click.option("-o", "--output", required=True, metavar="CALIBRATOR", help="Where to save it: .json or .pkl.")
@click.option(
    "--method",
    type=Names(choices.METHODS),
    default="auto",
    metavar="NAME",
    help=f"{', '.join(choices.METHODS)}; platt is sigmoid.",
)
@click.option("--input", metavar="KIND", help="What the scores are: probability, logit, score.  [default: probability]")
@click.option("--group", metavar="COLUMN", help="Fit each group that the column names, drawn towards all rows.")
@click.option(
    "--bounded",
    is_flag=True,
    default=None,
    help="isotonic, centered_isotonic, mimic: keep outputs away from 0 and 1.",
)
@click.option(
    "--allow-inversion", is_flag=True, default=None, help="auto: turn scores round that run against the labels."
)
@click.option("--exportable", metavar="FORMAT", help="auto: use only what can be exported so: sql.")
@click.option("--bins", "n_bins", type=int, metavar="N", help="histogram: number of bins.")
@click.option("--strategy", metavar="NAME", help="histogram: quantile or uniform bins.")
@click.option("--threshold-pos", type=int, metavar="N", help="mimic: positives in each first bin.")
@click.option("--form", metavar="NAME", help="beta: abm, am, ab or a.")
@click.option("--calibrator", metavar="NAME", help="one_vs_rest, top_label: the method for each score.")
@click.option("--coupling", metavar="NAME", help="one_vs_rest: normalise or likelihood.")
@click.option("--per-class", is_flag=True, default=None, help="top_label: one map for each class on top.")
@common.seed_option("the folds and intervals")
def command(file: str, output: str, method: str, group: str | None, seed: int, **options: Any) -> None:
    """Fit a calibrator to the scores and labels in FILE, and save it.

    Prints what calibration does to rows that a fit has not seen: each of five folds is calibrated by a fit to the
    other four. The calibrator that is saved is fitted to all rows.

    Of two labels the larger is the positive class: 1 of 0 and 1, good of bad and good. One score is of it, and so is
    what apply gives. Where the score is of the other label, pass a column that is true where that label is.

    FILE may be a folder of files too. What is too large for memory is read in passes: isotonic, sigmoid, beta and the
    multi-class curves are then fitted to all rows all the same, other methods to a summary of bounded error.

    --cluster, or --time and --label-end, say that rows are not independent: folds then keep clusters whole, or are
    blocks in time without labels that overlap, and auto chooses by them. --time alone: each label was known at once.

    With --group each group of rows gets a map of its own, blended with that of all rows: the smaller the group, the
    more it takes from all. calibrant apply then reads the column of groups too.
    """
    from calibrant import persistence
    from calibrant.calibrators import AutoCalibrator, Calibrator, warn_if_certain, warn_of_rows
    from calibrant.grouped import GroupedCalibrator
    from calibrant.provenance import Provenance

    single = new_calibrator(method, common.take_params(options, _OPTIONS))
    single.check_params()
    check_output(output, file)
    opened = Request(file, group=group, **with_label_end(options)).open()
    if group is None and opened.is_large:
        said, batches = fit_large(single, opened)
        common.echo(f"{said}\n")
        known = Provenance.of_batches(batches, source=common.source_name(file))
        persistence.save(single, output, metadata={"label": options["label"]}, provenance=known)
        common.echo(f"Saved {output}")
        return
    found = opened.read(input=single.input, both_classes=True)
    warn_of_rows(found.rows, allow_inversion=getattr(single, "allow_inversion", False))
    with common.progress("Fitting"):
        fitted = (single if group is None else GroupedCalibrator(single)).fit_rows(found.rows)
    if isinstance(fitted, Calibrator):
        warn_if_certain(fitted, found.rows)
    figures, out_of_fold = out_of_fold_table(fitted, found.rows, seed)
    known = Provenance.of_batches([found.rows], source=common.source_name(file), out_of_fold=out_of_fold)
    persistence.save(fitted, output, metadata={"label": options["label"]}, provenance=known)
    common.echo(found.describe())
    common.echo(f"Fitted {describe(fitted)}.\n")
    if isinstance(fitted, AutoCalibrator) and hasattr(fitted, "report_"):
        common.echo(f"{fitted.report_}\n")
    common.echo(figures)
    common.echo(f"\nSaved {output}")
    suffix = Path(found.columns.source.name).suffix or ".csv"
    common.echo(f"Next:  calibrant apply {shlex.quote(output)} new{suffix} -o out{suffix}")


def new_calibrator(method: str, params: dict[str, Any]) -> Calibrator:
    """Return an unfitted calibrator, or say which option its method doesn't take."""
    from calibrant.calibrators import ALIASES, BINARY_CALIBRATORS, CALIBRATORS, calibrator_kind, make_calibrator
    from calibrant.validation import INPUT_KINDS, check_choice

    name = ALIASES.get(method, method)
    if name not in CALIBRATORS:
        raise unknown_name("method", method, [*CALIBRATORS, *ALIASES])
    if "input" in params:
        check_choice("--input", params["input"], INPUT_KINDS)
    parameters = inspect.signature(CALIBRATORS[name]).parameters
    taken = [key for key in _OPTIONS if key in parameters or (key == "input" and calibrator_kind(name).takes_input())]
    common.check_taken(method, params, taken)
    inner = params.get("calibrator")
    if inner is not None and inner not in BINARY_CALIBRATORS and inner not in ALIASES:
        raise unknown_name("--calibrator", inner, [*BINARY_CALIBRATORS, *ALIASES])
    if inner is not None and "input" in params and not calibrator_kind(inner).takes_input():
        raise InvalidInputError(f"--calibrator {inner} does not take --input: it calibrates probabilities only.")
    return make_calibrator(name, **params)


def fit_large(calibrator: Calibrator | SegmentCalibrator, opened: OpenedFile) -> tuple[str, Iterator[Rows]]:
    """Fit in passes over the file; return lines that say to what, and the rows for a pass more."""
    from calibrant import engines

    columns = opened.resolve(takes_dependence=calibrator.takes_features)
    how: dict[str, Any] = {**columns.names(), **columns.dependence(), "features": opened.features or None}
    with common.progress("Fitting"):
        engines.fit(calibrator, columns.source, **how)
    reader = engines.RowReader(columns.source, input=calibrator.input, **columns.names())
    said = (
        f"Fitted {calibrator!r} to {count(calibrator.n_rows_, 'row')} in passes over {columns.source.name}; "
        f"{columns.order}.{f' ({columns.source.skipped}.)' if columns.source.skipped else ''}\n"
        "No out-of-fold figures of so many rows: measure it on rows that it has not seen, by calibrant evaluate."
    )
    return said, (batch.rows for batch in reader)


def describe(fitted: Calibrator | GroupedCalibrator) -> str:
    """Say what was fitted to what."""
    from calibrant.calibrators import Calibrator, make_calibrator

    what = f"on {count(fitted.n_rows_, 'row')} of classes {listed(fitted.classes_.tolist())}"
    inner = fitted.get_params(deep=False).get("calibrator")
    if isinstance(fitted, Calibrator):
        return f"{fitted.name}{'' if inner is None else f' of {make_calibrator(inner).name}'} {what}"
    drawn = f"all rows count for {fitted.shrinkage_:,g}" if math.isfinite(fitted.shrinkage_) else "all as one"
    groups = f"{count(len(fitted.groups_), 'group')}; {drawn}"
    return f"{make_calibrator(fitted.calibrator).name} by {fitted.group_name_!r} ({groups}) {what}"


def out_of_fold_table(
    calibrator: Calibrator | GroupedCalibrator | SegmentCalibrator, rows: Rows, seed: int
) -> tuple[str, OutOfFold | None]:
    """Return what the scores were worth before calibration, and are after one that hasn't seen them: lines, figures."""
    values, n_folds = out_of_fold_values(calibrator, rows, seed)
    if not values:
        return "No out-of-fold figures: a class has fewer than two rows.", None
    return table_of_values(values, n_folds, rows, seed)


def out_of_fold_values(
    calibrator: Calibrator | GroupedCalibrator | SegmentCalibrator, rows: Rows, seed: int
) -> tuple[dict[str, FloatArray], int]:
    """Return the probabilities of rows before calibration, and after one that hasn't seen them, and how many folds.

    Raw scores have none before; where a class has fewer than two rows there are none at all.
    """
    from calibrant.calibrators import out_of_fold, row_splits

    n_folds = min(_MOST_FOLDS, *(n for n in rows.checked_labels().counts().tolist() if n))
    if n_folds < 2:
        return {}, n_folds
    with common.progress("Fitting without fold", f"of {n_folds}") as on_fold:
        after = out_of_fold(calibrator, rows, row_splits(rows, n_folds, rng=seed), on_fold=on_fold)
    unchanged = rows.probabilities()
    return {**({} if unchanged is None else {"before": unchanged}), "after": after}, n_folds


def table_of_values(values: Mapping[str, FloatArray], n_folds: int, rows: Rows, seed: int) -> tuple[str, OutOfFold]:
    """Return what out-of-fold probabilities are worth: lines, figures."""
    from calibrant.metrics import SCORE_BINS, check_settings, evaluate_rows
    from calibrant.provenance import OutOfFold

    scores = {
        when: evaluate_rows(rows.with_scores(q), check_settings(SCORE_BINS, _LEVEL, seed), "given data")
        for when, q in values.items()
    }
    found = OutOfFold.of(n_folds, _LEVEL, scores, _SHOWN)
    noted = {when: common.notes(each) for when, each in scores.items()}
    of_all = [note for note in noted["after"] if all(note in notes for notes in noted.values())]
    own = [f"{when}, {note}" for when, notes in noted.items() for note in notes if note not in of_all]
    return "\n".join([*as_table(found), *own, *of_all]), found


def as_table(found: OutOfFold) -> list[str]:
    """Return lines that say what was measured out of fold."""
    title = f"Out of fold ({found.n_folds} folds; each row calibrated by a fit that has not seen it):"
    return [title, common.table(*found.table())]
