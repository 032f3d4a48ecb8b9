"""calibrant segments: calibration within segments of rows, that trees find in columns of features."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import choices, common, segment_numbers
from calibrant.cli.completing import Names
from calibrant.cli.data import OpenedFile, Request
from calibrant.cli.fit import fit_large, new_calibrator, out_of_fold_values, table_of_values
from calibrant.cli.option_texts import check_output, check_suffix, with_label_end
from calibrant.cli.report import report_on, scores_before
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
from calibrant.cli.table_options import NUMBERS, data_options, segment_options
from calibrant.errors import InvalidInputError, InvalidLabelError
from calibrant.phrases import count, listed

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.segments import SegmentCalibrator


@click.group(
    "segments",
    cls=common.Group,
    examples=[
        "calibrant segments fit scores.parquet --features age,region,sex -o calibrator.json",
        "calibrant segments evaluate scores.parquet --features age,region,sex",
        "calibrant segments evaluate new.parquet --calibrator calibrator.json",
        "calibrant segments report new.parquet --calibrator calibrator.json -o report.html",
    ],
)
def command() -> None:
    """Calibrate probabilities within segments of rows, such as the young in one region, and measure what it changes."""


@command.command(
    "fit",
    short_help="Fit a calibrator by segments, and save it.",
    examples=[
        "calibrant segments fit scores.parquet --label y --score p --features age,region,sex -o calibrator.json",
        "calibrant segments fit scores.csv --features 'x_*,zip' --categorical zip --cluster patient -o c.json",
        "calibrant segments fit claims.csv --numbers --label cost --score predicted --features age,region -o c.json",
    ],
)
@data_options("dependence", "missing")
@segment_options(required=True)
@click.option("-o", "--output", required=True, metavar="CALIBRATOR", help="Where to save it: .json or .pkl.")
@click.option(
    "--method",
    type=Names(choices.METHODS),
    default="auto",
    metavar="NAME",
    help="The calibrator of the scores, as of calibrant fit.",
)
@click.option("--input", metavar="KIND", help="What the scores are: probability, logit, score.  [default: probability]")
@NUMBERS
@common.seed_option("the folds and intervals")
def fit_command(
    file: str,
    output: str,
    method: str,
    input: str | None,
    numbers: bool,
    seed: int,
    depth: int,
    min_rows: int,
    **options: Any,
) -> None:
    """Fit a calibrator to the scores, labels and features in FILE, and save it.

    The scores get a calibrator of their own, --method. Then boosted trees find where in the columns of --features that
    is not enough. How many there are is chosen by cross-validation: none where held-out loss doesn't fall.

    Prints what that does to rows that a fit has not seen: each of five folds is calibrated by a fit to the other four.
    The calibrator that is saved is fitted to all rows, and reads the features that it needs by their names.

    Text and truth values are categories, numbers are numbers; --categorical names columns of numbers that are names.
    A feature may be missing. What is too large for memory is read in two passes, and held at a byte for each value of
    a feature.

    --depth and --min-rows are of the segments that are listed, before and after; they don't change the fit.

    Labels are classes. With --numbers they are numbers, and scores are predictions of their mean: these are corrected
    by a line, and by trees where in the columns of --features that is not enough.

    --cluster, or --time and --label-end, say that rows are not independent, as in calibrant fit.
    """
    from calibrant import persistence
    from calibrant.calibrators import warn_of_rows
    from calibrant.metrics import SegmentSettings
    from calibrant.provenance import Provenance

    settings = SegmentSettings.checked(depth=depth, min_rows=min_rows)
    if numbers:
        segment_numbers.fit(file, output, settings, seed, options | {"input": input})
        return
    single = new_segments(method, input, seed, options)
    check_output(output, file)
    opened = Request(file, **with_label_end(options)).open()
    metadata = {"label": options["label"]}
    if opened.is_large:
        with _numbers_explained():
            said, batches = fit_large(single, opened)
        common.echo(f"{said}\n\n{single.report_}\n")
        known = Provenance.of_batches(batches, source=common.source_name(file))
        persistence.save(single, output, metadata=metadata, provenance=known)
        common.echo(f"Saved {output}")
        return
    with _numbers_explained():
        found = opened.read(input=single.input, both_classes=True)
    warn_of_rows(found.rows)
    with common.progress("Fitting"):
        single.fit_rows(found.rows)
    values, n_folds = out_of_fold_values(single, found.rows, seed)
    lines, out_of_fold = ("No out-of-fold figures: a class has fewer than two rows.", None)
    if values:
        lines, out_of_fold = table_of_values(values, n_folds, found.rows, seed)
        audits = audits_of(values, found.rows, settings, seed)
        lines += f"\n\n{audit_lines(audits, see='calibrant segments evaluate --json')}"
    known = Provenance.of_batches([found.rows], source=common.source_name(file), out_of_fold=out_of_fold)
    persistence.save(single, output, metadata=metadata, provenance=known)
    suffix = Path(found.columns.source.name).suffix or ".csv"
    named = shlex.quote(output)
    told = common.prose(f"{found.describe()}\n{describe(single)}")
    common.echo(f"{told}\n\n{single.report_}\n\n{lines}\n\nSaved {output}")
    common.echo(f"Next:  calibrant apply {named} new{suffix} -o out{suffix}")
    common.echo(f"       calibrant segments evaluate new{suffix} --calibrator {named}")


@contextmanager
def _numbers_explained() -> Iterator[None]:
    """Say of labels that are no classes what there is for numbers."""
    try:
        yield
    except InvalidLabelError as error:
        if "can't be continuous" not in str(error):
            raise
        raise InvalidLabelError(f"{error} Of predictions of a number, pass --numbers.") from None


def new_segments(method: str, input: str | None, seed: int, options: Mapping[str, Any]) -> SegmentCalibrator:
    """Return an unfitted calibrator by segments."""
    from calibrant.segments import SegmentCalibrator

    made = new_calibrator(method, {} if input is None else {"input": input})
    base: str | Calibrator = method if input is None else made
    single = SegmentCalibrator(base, categorical=named_categories(options), seed=seed)
    single.check_params()
    return single


def describe(fitted: SegmentCalibrator) -> str:
    """Say what was fitted to what."""
    from calibrant.calibrators import make_calibrator

    what = f"{count(fitted.n_rows_, 'row')} of classes {listed(fitted.classes_.tolist())}"
    return fitted_in_words(fitted, f"{make_calibrator(fitted.calibrator).name} and segments on {what}")


@command.command(
    "evaluate",
    short_help="Measure what calibration by segments changes.",
    examples=[
        "calibrant segments evaluate scores.parquet --label y --score p --features age,region,sex",
        "calibrant segments evaluate new.parquet --calibrator calibrator.json --json",
        "calibrant segments evaluate claims.csv --numbers --label cost --score predicted --features age,region",
    ],
)
@data_options("calibrator", "input", "dependence", "missing")
@segment_options()
@click.option("--method", type=Names(choices.METHODS), default="auto", metavar="NAME", help="As of segments fit.")
@NUMBERS
@common.level_option()
@common.seed_option("folds, intervals and draws")
@common.json_option
def evaluate_command(
    method: str, numbers: bool, level: float, seed: int, depth: int, min_rows: int, as_json: bool, **options: Any
) -> None:
    """Measure what calibration by segments changes: scores and the error within segments, before and after.

    Without --calibrator each of five folds of FILE is calibrated by a fit to the other four, as calibrant segments fit
    does it. With --calibrator the rows are calibrated by a saved one: give rows that it was not fitted to. --features
    are then those that it was fitted to, if none are named, or others.

    The error of a segment is the largest sum of gaps between outcome and probability over a range of scores, in
    standard deviations; the p-value of the worst one takes the search over all of them into account.

    With --numbers, or a --calibrator of numbers, labels are numbers and scores predictions of them: these are measured
    by their squared errors, and segments by the gaps between number and prediction.
    """
    from calibrant.metrics import SegmentSettings

    settings = SegmentSettings.checked(depth=depth, min_rows=min_rows)
    change = segment_numbers.change_of(seed, options, are_said=numbers)
    if change is None:
        change = _out_of_fold(method, seed, options) if options["calibrator"] is None else _by_calibrator(options)
    compared = change.compared(level, seed)
    audits = audits_of(change.values, change.found.rows, settings, seed)
    if as_json:
        scores = {} if compared is None else compared.to_dict()
        segments = {when: found.to_dict() for when, found in audits.items()}
        facts = change.found.columns.facts(change.found.n_read)
        common.write_json({**facts, "evaluated_on": change.how, **scores, "segments": segments})
        return
    common.echo(f"{change.found.describe()}; {change.how}\n")
    if compared is None:
        common.echo("The scores before are no probabilities, which could be compared.\n")
    else:
        common.echo(common.prose(f"{compared.verdict}\n"))
        common.echo(f"{as_table(compared)}\n")
    common.echo(audit_lines(audits))


def _out_of_fold(method: str, seed: int, options: dict[str, Any]) -> Change:
    """Calibrate each fold of a file by a fit to the others."""
    if not options["features"]:
        raise InvalidInputError(NO_FEATURES)
    of_rows = {**with_label_end(options), "input": None}
    single = new_segments(method, options["input"], seed, options)
    found = _opened(of_rows).read(input=single.input, both_classes=True)
    values, n_folds = out_of_fold_values(single, found.rows, seed)
    if not values:
        raise InvalidInputError(f"a class of {found.columns.source.name} has one row only. Pass two at least.")
    return Change(found, values, f"out of {n_folds} folds, each calibrated by a fit to the others")


def _by_calibrator(options: dict[str, Any]) -> Change:
    """Calibrate the rows of a file by a saved calibrator."""
    opened = _opened(with_known_features(options))
    found = opened.read()
    before = scores_before(opened, found)[0].before
    values = {} if before is None else {BEFORE: before.scores}
    return Change(found, {**values, AFTER: found.rows.scores}, "given data")


def with_known_features(options: dict[str, Any]) -> dict[str, Any]:
    """Return options whose features are those that the calibrator was fitted to, where none are named."""
    from calibrant import persistence
    from calibrant.fitted import Fitted
    from calibrant.segments import SegmentCalibrator

    if options["features"]:
        return options
    if options["calibrator"] is None:
        raise InvalidInputError(NO_FEATURES)
    fitted = persistence.load_as(Fitted, options["calibrator"])
    if not isinstance(fitted, SegmentCalibrator):
        raise InvalidInputError(
            f"{options['calibrator']} holds a {type(fitted).__name__}, which doesn't say what features rows have. Name "
            "their columns: --features age,region."
        )
    return with_features_of(fitted, options)


def _opened(options: dict[str, Any]) -> OpenedFile:
    """Open a file whose rows are held in memory."""
    opened = Request(**options).open()
    opened.check_held("segments are found among rows")
    return opened


@command.command(
    "report",
    short_help="Write a page on calibration by segments.",
    examples=["calibrant segments report new.parquet --calibrator calibrator.json -o report.html"],
)
@data_options("positive", "input", "calibrator", "dependence", "missing")
@segment_options()
@click.option("-o", "--output", required=True, metavar="OUT", help="Where to write: .html, .json or .md.")
@click.option("--title", metavar="TEXT", help="Heading of the page.")
@common.level_option()
@common.seed_option("resampled intervals")
def report_command(
    output: str, title: str | None, level: float, seed: int, depth: int, min_rows: int, **options: Any
) -> None:
    """Write a page on what a saved calibrator makes of the scores in FILE, before and after, and by segments.

    It is that of calibrant report with a section on the segments of --features: by default those that --calibrator was
    fitted to. Give rows that it was not fitted to. Without --calibrator the page is of the scores as they are.
    """
    from calibrant.metrics import SegmentSettings

    check_suffix(output, ".html", ".htm", ".json", ".md")
    check_output(output, options["file"], options["calibrator"])
    settings = SegmentSettings.checked(depth=depth, min_rows=min_rows)
    opened = _opened(with_known_features(options))
    report = report_on(opened, title=title, n_bins=10, level=level, rng=seed, segments=settings)
    common.write_page(report, output)
    common.echo(f"Wrote {output}")
