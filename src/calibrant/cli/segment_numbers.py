"""Predictions of a number for calibrant segments: what is fitted to them, and what a correction changes."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import common
from calibrant.cli.data import OpenedFile, Request, read_counted
from calibrant.cli.option_texts import check_output, with_label_end
from calibrant.cli.segment_changes import (
    AFTER,
    BEFORE,
    NO_FEATURES,
    Change,
    as_table,
    audit_lines,
    audits_of,
    fitted_in_words,
    named_categories,
    with_features_of,
)
from calibrant.cli.table_options import check_of_numbers
from calibrant.errors import InvalidInputError
from calibrant.phrases import count

if TYPE_CHECKING:
    from calibrant.metrics import SegmentSettings
    from calibrant.numerics import FloatArray
    from calibrant.provenance import OutOfFold
    from calibrant.rows import Rows
    from calibrant.segments import SegmentMeanCalibrator

_FOLDS, _LEVEL = 5, 0.95
_EVALUATE = "calibrant segments evaluate"
_HOW = "out of {} folds, each corrected by a fit to the others"


def fit(file: str, output: str, settings: SegmentSettings, seed: int, options: dict[str, Any]) -> None:
    """Fit to the predictions, numbers and features in a file, save it, and say what it does to rows out of fold."""
    from calibrant import persistence
    from calibrant.provenance import Provenance

    single = _new_calibrator(seed, options)
    check_output(output, file)
    opened = Request(file, **with_label_end({**options, "input": None})).open()
    rows: Iterable[Rows]
    out_of_fold: OutOfFold | None = None
    lines = "No out-of-fold figures of so many rows."
    if opened.is_large:
        rows = _fit_large(single, opened)
        read = opened.number_columns().describe(single.n_rows_)
    else:
        found = opened.read_numbers()
        with common.progress("Fitting"):
            single.fit_rows(found.rows)
        rows, read = [found.rows], found.describe()
        after, n_folds = _out_of_fold(single, found.rows, seed)
        lines = "No out-of-fold figures: there are too few rows."
        if after is not None:
            change = Change(found, {BEFORE: found.rows.scores, AFTER: after}, _HOW.format(n_folds))
            lines, out_of_fold = _measured(change, n_folds, settings, seed)
    known = Provenance.of_batches(rows, source=common.source_name(file), out_of_fold=out_of_fold)
    persistence.save(single, output, metadata={"label": options["label"]}, provenance=known)
    what = f"a line and segments on {count(single.n_rows_, 'row')}"
    told = common.prose(f"{read}\n{fitted_in_words(single, what)}")
    common.echo(f"{told}\n\n{single.report_}\n\n{lines}\n\nSaved {output}")
    suffix, named, score = Path(opened.source.name).suffix or ".csv", shlex.quote(output), shlex.quote(opened.score[0])
    label = shlex.quote(options["label"])
    common.echo(f"Next:  calibrant apply {named} new{suffix} --score {score} -o out{suffix}")
    common.echo(f"       {_EVALUATE} new{suffix} --calibrator {named} --label {label} --score {score}")


def change_of(seed: int, options: dict[str, Any], *, are_said: bool) -> Change | None:
    """Return what a correction changes of predictions of a number; None where labels are classes.

    They are numbers where that is said, and where the calibrator is of numbers.
    """
    from calibrant import persistence
    from calibrant.segments import SegmentMeanCalibrator

    calibrator = options["calibrator"]
    if calibrator is None:
        return _change_out_of_fold(seed, options) if are_said else None
    if are_said:
        fitted = persistence.load_as(SegmentMeanCalibrator, calibrator)
    else:
        loaded = persistence.load(calibrator)
        if not isinstance(loaded, SegmentMeanCalibrator):
            return None
        fitted = loaded
    return _change_by(fitted, options)


def _change_out_of_fold(seed: int, options: dict[str, Any]) -> Change:
    """Correct each fold of a file by a fit to the others."""
    if not options["features"]:
        raise InvalidInputError(NO_FEATURES)
    single = _new_calibrator(seed, options)
    opened = Request(**{**with_label_end(options), "input": None}).open()
    opened.check_held("folds are corrected")
    found = opened.read_numbers()
    after, n_folds = _out_of_fold(single, found.rows, seed)
    if after is None:
        n, source = count(found.rows.n_rows, "row"), found.columns.source.name
        least = 2 * single.least_rows
        raise InvalidInputError(f"{n} of {source} are too few for {n_folds} folds. Pass {least} at least.")
    return Change(found, {BEFORE: found.rows.scores, AFTER: after}, _HOW.format(n_folds))


def _change_by(fitted: SegmentMeanCalibrator, options: dict[str, Any]) -> Change:
    """Correct the rows of a file by a saved calibrator, whose features make segments where none are named."""
    from calibrant.engines import FittedColumns

    check_of_numbers(options, "input", "classes")
    of = with_features_of(fitted, options) | {"calibrator": None, "text": fitted.text_names(None)}
    opened = Request(**of).open()
    opened.check_held("segments are found among rows")
    found = opened.read_numbers()
    columns = FittedColumns.of(fitted, score=opened.score, where=opened.source.name)
    after = columns.probabilities(read_counted(opened.source, columns.inputs, opened.request.weight))
    return Change(found, {BEFORE: found.rows.scores, AFTER: after}, "given data")


def _new_calibrator(seed: int, options: Mapping[str, Any]) -> SegmentMeanCalibrator:
    """Return an unfitted calibrator of numbers, or refuse options that are of classes."""
    from calibrant.segments import SegmentMeanCalibrator

    is_said = click.get_current_context().get_parameter_source("method") is click.core.ParameterSource.COMMANDLINE
    check_of_numbers({**options, "method": True if is_said else None}, "method", "input", "classes")
    single = SegmentMeanCalibrator(categorical=named_categories(options), seed=seed)
    single.check_params()
    return single


def _fit_large(calibrator: SegmentMeanCalibrator, opened: OpenedFile) -> Iterator[Rows]:
    """Fit in passes over the file; return the rows for a pass more."""
    from calibrant import engines

    of = opened.request
    names: dict[str, Any] = {"score": opened.score, "label": of.label, "weight": of.weight}
    shared: dict[str, Any] = opened.number_columns().dependence()
    with common.progress("Fitting"):
        engines.fit(calibrator, opened.source, features=opened.features, **names, **shared)
    reader = engines.RowReader(opened.source, input="score", label_is_number=True, **names)
    return (batch.rows for batch in reader)


def _out_of_fold(calibrator: SegmentMeanCalibrator, rows: Rows, seed: int) -> tuple[FloatArray | None, int]:
    """Return the predictions of each fold as a fit to the others corrects them, and how many folds there are.

    There are no predictions where rows are too few for a fit.
    """
    import numpy as np

    from calibrant.calibrators import row_splits

    splits = row_splits(rows, _FOLDS, rng=seed)
    if min(int(split.fitted.sum()) for split in splits) < calibrator.least_rows:
        return None, len(splits)
    after = np.full(rows.n_rows, np.nan)
    with common.progress("Fitting without fold", f"of {len(splits)}") as on_fold:
        for k, split in enumerate(splits, start=1):
            if on_fold is not None:
                on_fold(k)
            fitted = calibrator.fresh().fit_rows(rows.take(split.fitted))
            after[split.held_out] = fitted.apply(rows.take(split.held_out))
    return after, len(splits)


def _measured(change: Change, n_folds: int, settings: SegmentSettings, seed: int) -> tuple[str, OutOfFold]:
    """Return lines that say what a correction changed out of fold, and the figures to keep."""
    from calibrant.provenance import OutOfFold
    from calibrant.segments import compare_numbers

    rows = change.found.rows
    compared = compare_numbers(rows, change.values[AFTER], level=_LEVEL, evaluated_on=change.how)
    scores = {BEFORE: compared.before, AFTER: compared.after}
    found = OutOfFold.of(n_folds, _LEVEL, scores, list(compared.after))
    title = f"Out of fold ({n_folds} folds; each row corrected by a fit that has not seen it):"
    segments = audit_lines(audits_of(change.values, rows, settings, seed), see=f"{_EVALUATE} --numbers --json")
    return f"{title}\n{as_table(compared)}\n{common.prose(compared.verdict)}\n\n{segments}", found
