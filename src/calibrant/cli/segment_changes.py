"""What calibration by segments changes of the rows of a file: scores and segments, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrant.cli import common
from calibrant.cli.evaluate import as_model_table
from calibrant.cli.option_texts import split_list
from calibrant.phrases import bracketed, count, figure, listed, p_value, percent_level

if TYPE_CHECKING:
    from calibrant.cli.data import FileRows
    from calibrant.metrics import Audit, ModelComparison, SegmentSettings
    from calibrant.numerics import FloatArray
    from calibrant.rows import Rows
    from calibrant.segments import NumberComparison, SegmentCalibrator, SegmentMeanCalibrator

#: What values are called.
BEFORE, AFTER = "before", "after"
NO_FEATURES = "name the columns of features, --features age,region, or a saved --calibrator that was fitted to some."
#: Segments that the table shows; JSON has them all.
_MOST_SEGMENTS = 10


@dataclass(frozen=True, slots=True)
class Change:
    """Rows before calibration and after it, how they were held out, and what was read."""

    found: FileRows
    values: dict[str, FloatArray]
    how: str

    def compared(self, level: float, seed: int) -> ModelComparison | NumberComparison | None:
        """Return the scores of both with their paired differences; None where there are none before."""
        from calibrant.metrics import SCORE_BINS, check_settings, compare_model_rows
        from calibrant.segments import compare_numbers

        rows = self.found.rows
        if BEFORE not in self.values:
            return None
        if rows.outcomes is not None:
            return compare_numbers(rows, self.values[AFTER], level=level, evaluated_on=self.how)
        models = {when: rows.with_scores(q) for when, q in self.values.items()}
        return compare_model_rows(models, check_settings(SCORE_BINS, level, seed), self.how)


def as_table(compared: ModelComparison | NumberComparison) -> str:
    """Return a row for each score, before and after, with the paired differences."""
    from calibrant.metrics import ModelComparison

    if isinstance(compared, ModelComparison):
        return as_model_table(compared)
    change, rows = compared.change, []
    level = f"{percent_level(change.level)} interval"
    for name in compared.before:
        for when, score in ((BEFORE, compared.before[name]), (AFTER, compared.after[name])):
            by = ("", "")
            if when == AFTER and change.name.startswith(name):
                by = figure(change.value, sign=True), bracketed(change.low, change.high)
            rows.append((name, when, figure(score.value), bracketed(score.low, score.high), *by))
    about = "mse: mean squared error; mean_error: prediction less outcome; difference: after less before, paired"
    return f"{common.table(('metric', '', 'value', level, 'difference', level), rows, left=2)}\n{about}"


def audits_of(values: Mapping[str, FloatArray], rows: Rows, settings: SegmentSettings, seed: int) -> dict[str, Audit]:
    """Search the segments of the rows with each of several probabilities."""
    from calibrant.metrics import audit_rows

    return {when: audit_rows(rows.with_scores(q), settings, rng=seed) for when, q in values.items()}


def audit_lines(found: Mapping[str, Audit], *, see: str = "--json") -> str:
    """Return the worst segment and how many are off, before and after, and a table of those that were off by most.

    `see` says what lists all of these.
    """
    from calibrant.metrics import MulticalibrationError, change_in_words

    errors = {when: MulticalibrationError.of_audit(audit) for when, audit in found.items()}
    rows = [
        (
            when,
            each.segment,
            f"{each.sigma:.2f}",
            p_value(each.p_value),
            figure(each.error),
            f"{len(found[when].off):,}",
        )
        for when, each in errors.items()
    ]
    first, last = next(iter(found.values())), found[AFTER]
    if not first.findings:
        return first.verdict
    title = f"Multicalibration error, the worst of {count(len(first.findings), 'segment')}:"
    lines = [title, common.table(("", "worst segment", "sigma", "p", "error", "off"), rows, left=2)]
    later = {finding.label: finding for finding in last.findings}
    shown = [each for each in first.off[:_MOST_SEGMENTS] if each.label in later] if first is not last else []
    if not shown:
        return "\n".join([*lines, last.verdict])
    table = []
    for each in shown:
        after = later[each.label]
        sigmas = (f"{each.sigma:.1f}", f"{after.sigma:.1f}")
        gaps = (figure(each.gap, sign=True), figure(after.gap, sign=True))
        table.append((each.label, f"{each.n:,}", *sigmas, *gaps, "off still" if after.is_off else ""))
    header = ("segment", "n", "sigma before", "after", "gap before", "after", "")
    left = len(first.off) - len(shown)
    more = [f"and {count(left, 'more segment')}: see {see}"] if left else []
    return "\n".join(
        [
            *lines,
            "",
            "Segments that were off, the worst first (gap: predicted less observed):",
            common.table(header, table),
            *more,
            change_in_words(first, last),
        ]
    )


def with_features_of(fitted: SegmentCalibrator | SegmentMeanCalibrator, options: dict[str, Any]) -> dict[str, Any]:
    """Return options whose features are those that the calibrator was fitted to, where none are named."""
    if options["features"]:
        return options
    categorical = [column.name for column in fitted.columns_ if column.kind == "category"]
    return {**options, "features": tuple(column.name for column in fitted.columns_), "categorical": tuple(categorical)}


def named_categories(options: Mapping[str, Any]) -> list[str] | None:
    """Return the columns that --categorical names, if any."""
    return [name for text in options["categorical"] for name in split_list(text)] or None


def fitted_in_words(fitted: SegmentCalibrator | SegmentMeanCalibrator, what: str) -> str:
    """Say what was fitted, to which features, and which of them it needs."""
    features = listed([f"{column.name} ({column.in_words()})" for column in fitted.columns_])
    needed = listed(fitted.feature_names) or "none"
    return f"Fitted {what}; features: {features}. Needed from now on: {needed}."
