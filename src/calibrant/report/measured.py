"""What a report measures, of rows in memory or of any source of rows, as one dict of plain values.

Both give the same figures, those of `evaluate`, and summaries of one score each; the rest is made of these alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant._version import __version__
from calibrant.engines import (
    CheckedRows,
    QuantisedSummary,
    RowReader,
    StreamedClassRows,
    count_weighted,
    evaluate_grouped,
    evaluate_streamed,
    fold_summaries,
    group_summaries,
    materialise_rows,
    ungrouped,
)
from calibrant.metrics import (
    ClassScores,
    GroupScores,
    Settings,
    Verdict,
    as_independent,
    classes_of_rows,
    design_effect,
    evaluate_multiclass,
    evaluate_rows,
    groups_of_rows,
    verdict,
)
from calibrant.numerics import FloatArray
from calibrant.phrases import clean
from calibrant.report.classes import MAX_CLASS_PANELS, summarise_classes
from calibrant.report.groups import summarise_groups
from calibrant.report.reliability import curve_of, side_by_side
from calibrant.report.scores import plain_scores
from calibrant.results import Scores
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary


@dataclass(frozen=True, slots=True)
class Measured:
    """What is measured of rows.

    Attributes
    ----------
    scores : Scores
    column : ScoreSummary
        Of one score, or of the most probable class.
    labels : sequence
        The sorted classes.
    counts, weights : ndarray of shape (K,)
        Rows and weight of each class.
    effective_size : float
    is_weighted : bool
    effect : float
        The design effect of the rows.
    by_class : sequence of ScoreSummary, or None
        Each of several columns against its class.
    classes : dict or None
        What `summarise_classes` says of more than two classes.
    order : sequence of int
        Numbers of the classes whose curves are shown.
    notes : sequence of str
        What a reader must know of the figures.
    """

    scores: Scores
    column: ScoreSummary
    labels: Sequence[Any]
    counts: npt.NDArray[Any]
    weights: FloatArray
    effective_size: float
    is_weighted: bool
    effect: float = 1.0
    by_class: Sequence[ScoreSummary] | None = None
    classes: dict[str, Any] | None = None
    order: Sequence[int] = ()
    notes: Sequence[str] = field(default=())

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return next(iter(self.scores.values())).n


def of_rows(rows: Rows, settings: Settings) -> Measured:
    """Measure rows in memory."""
    effect = design_effect(rows)
    rows = as_independent(rows)
    settings = Settings(settings.n_bins, settings.level, settings.rng, effect)
    by_class, classes, order = None, None, range(rows.n_classes)
    scores = evaluate_rows(rows, settings, "given data")
    if not rows.is_binary:
        by_class = [rows.of_class(k).summary() for k in range(rows.n_classes)]
        if rows.n_classes > 2:
            found: ClassScores = classes_of_rows(rows, settings, "given data")
            classes = summarise_classes(rows, found)
            order = [each["code"] for each in classes["rows"]]
    return Measured(
        scores,
        rows.one_column().summary(),
        rows.classes.tolist(),
        np.bincount(rows.codes, minlength=rows.n_classes),
        rows.class_weight,
        rows.effective_size,
        rows.weight is not None,
        effect,
        by_class,
        classes,
        order,
    )


def of_source(reader: RowReader, labels: Sequence[Any], settings: Settings, max_distinct: int) -> Measured:
    """Measure the rows that a reader reads: of several columns, all rows where they fit."""
    alone = ungrouped(reader)
    if reader.is_binary:
        summary = fold_summaries(alone, exact="auto", max_distinct=max_distinct)
        assert isinstance(summary, ScoreSummary)  # noqa: S101
        weights = np.array([summary.total_weight - summary.total_positives, summary.total_positives])
        scores = evaluate_streamed(summary, count_weighted(alone, summary), settings, "given data")
        counts = _counts(alone, weights)
        is_weighted = reader.weight is not None
        return Measured(
            scores, summary, labels, counts, weights, summary.effective_size, is_weighted, notes=_notes(summary)
        )
    held = materialise_rows(alone, max_distinct)
    if held is not None:
        return of_rows(held, settings)
    rows = StreamedClassRows.read(alone, exact="auto", max_distinct=max_distinct)
    weights = np.array([summary.total_positives for summary in rows.by_class])
    left_out = "Left out, since it takes all rows in memory: the table of classes; their curves are the largest first."
    return Measured(
        evaluate_multiclass(rows, settings, "given data"),
        rows.top,
        labels,
        _counts(alone, weights),
        weights,
        rows.effective_size,
        reader.weight is not None,
        by_class=rows.by_class,
        order=np.argsort(-weights, kind="stable").tolist(),
        notes=[*_notes(rows.top), left_out],
    )


def groups_in_rows(rows: Rows, name: str, settings: Settings) -> tuple[GroupScores, Mapping[Any, ScoreSummary]]:
    """Measure the groups of rows in memory, and summarise them."""
    by, data = rows.groups[name], as_independent(rows).one_column()
    labels = by.classes.tolist()
    summaries = {group: data.take(by.codes == code).summary() for code, group in enumerate(labels)}
    return groups_of_rows(rows, name, settings, "given data"), summaries


def groups_in_source(
    reader: RowReader, settings: Settings, max_distinct: int
) -> tuple[GroupScores, Mapping[Any, ScoreSummary]]:
    """Measure the groups of what a reader reads, and summarise them."""
    by_group = group_summaries(reader, exact="auto", max_distinct=max_distinct)
    found = evaluate_grouped(reader, settings, "given data", exact="auto", max_distinct=max_distinct, by_group=by_group)
    return found, by_group


def summarise(
    found: Measured,
    settings: Settings,
    *,
    n_bins: int,
    title: str,
    source: str | None,
    score_names: list[str],
    groups: tuple[str, GroupScores, Mapping[Any, ScoreSummary]] | None = None,
    rng: int | np.random.Generator | None = 0,
) -> dict[str, Any]:
    """Return what `Report` says, as dicts, lists, strings and numbers; NaN is None."""
    is_binary, level, labels = found.by_class is None, settings.level, [clean(label) for label in found.labels]
    what = {"n_rows": found.n_rows, "effect": found.effect}
    label = "positive class" if is_binary else "top label"
    curve = curve_of(found.column, n_bins, level, label, **what, band="consistency", rng=rng)
    class_curves = []
    if found.by_class is not None:
        strategy = "quantile" if len(labels) == 2 else "uniform"
        shown = list(found.order)[:MAX_CLASS_PANELS]
        class_curves = side_by_side(
            [curve_of(found.by_class[k], n_bins, level, labels[k], **what, strategy=strategy) for k in shown]
        )
    total = float(found.weights.sum())
    return {
        "title": clean(title),
        "version": __version__,
        "kind": "binary" if is_binary else "multiclass",
        "verdict": _with_command(verdict(found.scores), is_binary=is_binary),
        "scores": plain_scores(found.scores),
        "curve": curve,
        "groups": None
        if groups is None
        else summarise_groups(*groups[1:], by=groups[0], n_bins=n_bins, level=level, effect=found.effect),
        "classes": found.classes,
        "class_curves": class_curves,
        "data": {
            "source": None if source is None else clean(source),
            "score_names": score_names,
            "n_rows": found.n_rows,
            "classes": [
                {"label": label, "n": int(n), "weight": float(w), "share": float(w) / total}
                for label, n, w in zip(labels, found.counts, found.weights, strict=True)
            ],
            "positive_class": labels[1] if is_binary else None,
            "is_weighted": found.is_weighted,
            "total_weight": total,
            "effective_rows": found.effective_size / found.effect,
            "design_effect": found.effect,
            "level": level,
            "notes": list(found.notes),
        },
    }


def _with_command(found: Verdict, *, is_binary: bool) -> dict[str, Any]:
    """Return the parts of a verdict, and the command that does what it advises."""
    score = "SCORE" if is_binary else "SCORES --method auto"
    command = f"calibrant fit FILE --label LABEL --score {score} -o calibrator.json"
    return {**found.to_dict(), "command": command if found.action == "calibrate" else None}


def _counts(reader: RowReader, weights: FloatArray) -> npt.NDArray[Any]:
    """Return the number of rows of each class: their weight, unless rows have weights of their own."""
    if reader.weight is None or not reader.source.is_repeatable:
        return np.rint(weights).astype(np.int64)

    def part(rows: CheckedRows) -> npt.NDArray[Any]:
        return np.bincount(rows.codes, minlength=weights.size)

    return reader.total(part)


def _notes(summary: ScoreSummary) -> list[str]:
    """Say how far figures can be from those of the rows."""
    if not isinstance(summary, QuantisedSummary):
        return []
    return [f"More scores than fit in memory: figures are of cells of neighbouring scores ({summary.bounds})."]
