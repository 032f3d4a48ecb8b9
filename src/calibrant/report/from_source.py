"""What the report says of any source of rows: its figures come from summaries, so rows may be any number."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant._version import __version__
from calibrant.engines.class_rows import StreamedClassRows, materialise_rows, probabilities_of
from calibrant.engines.columns import flipped, ungrouped
from calibrant.engines.evaluating import (
    count_weighted,
    evaluate_grouped,
    evaluate_streamed,
    group_summaries,
    is_flipped,
)
from calibrant.engines.quantised import QuantisedSummary
from calibrant.engines.rows import CheckedRows, RowReader
from calibrant.engines.summarise import fold_summaries
from calibrant.metrics import Settings, check_settings, evaluate_multiclass
from calibrant.report.classes import MAX_CLASS_PANELS
from calibrant.report.curves import OF_HISTOGRAM, curve_of
from calibrant.report.groups import describe_groups
from calibrant.report.source_columns import SourceColumns
from calibrant.report.summarise import check_score_names, clean, plain_scores, summarise
from calibrant.report.words import verdict
from calibrant.summary import ScoreSummary
from calibrant.tables import open_rows
from calibrant.validation import check_integer

#: Bins of the calibration errors among the scores, as `evaluate` has them.
_SCORE_BINS = 15


def summarise_source(
    source: Any,
    columns: SourceColumns,
    *,
    max_distinct: int,
    n_bins: int,
    level: float,
    title: str,
    rng: int | None,
) -> dict[str, Any]:
    """Return what `Report` says of a source, as dicts, lists, strings and numbers."""
    settings = check_settings(_SCORE_BINS, level, rng)
    check_integer("n_bins", n_bins, minimum=1)
    check_integer("max_distinct", max_distinct, minimum=1)
    reader = RowReader(
        open_rows(source, format=columns.format, table=columns.table),
        score=columns.score,
        label=columns.label,
        weight=columns.weight,
        group=columns.group,
        classes=columns.classes,
    )
    labels = [clean(label) for label in reader.classes.tolist()]
    found = probabilities_of(reader)
    flip = columns.pos_label is not None and is_flipped(columns.pos_label, reader)
    if flip:
        found = flipped(found)
        labels.reverse()
    if found.is_binary:
        document = _of_one(found, labels, settings, max_distinct, n_bins, rng)
        document["data"]["positive_class"] = labels[1]
    else:
        document = _of_classes(found, labels, settings, max_distinct, n_bins, rng)
    document["title"] = clean(title)
    data = document["data"]
    data["source"] = clean(reader.source.name)
    data["score_names"] = check_score_names(reader.score, len(reader.score))
    if columns.group is not None:
        document["groups"] = _of_groups(found, columns.group, settings, max_distinct, n_bins)
    return document


def _of_one(
    reader: RowReader, labels: list[str], settings: Settings, max_distinct: int, n_bins: int, rng: int | None
) -> dict[str, Any]:
    """Report on one score."""
    alone = ungrouped(reader)
    summary = fold_summaries(alone, exact="auto", max_distinct=max_distinct)
    assert isinstance(summary, ScoreSummary)  # noqa: S101
    n_rows = count_weighted(alone, summary)
    measured = evaluate_streamed(summary, n_rows, settings, "given data")
    scores = plain_scores(measured)
    label, level = "positive class", settings.level
    curve = curve_of(summary, n_bins, level, label, band="consistency", rng=rng, n_rows=n_rows)
    weight = np.array([summary.total_weight - summary.total_positives, summary.total_positives])
    counts = _counts(alone, weight, labels)
    words = verdict(scores, scores["auc"], curve, counts, None, is_multiclass=False)
    return {
        "version": __version__,
        "kind": "binary",
        "verdict": {**words, "in_short": measured.verdict},
        "scores": scores,
        "top_label_scores": {},
        "curve": curve,
        "groups": None,
        "classes": None,
        "class_curves": [],
        "data": _data(alone, counts, n_rows, summary.effective_size, level, _notes(summary)),
    }


def _of_classes(
    reader: RowReader, labels: list[str], settings: Settings, max_distinct: int, n_bins: int, rng: int | None
) -> dict[str, Any]:
    """Report on several columns: of all rows where they fit."""
    level = settings.level
    alone = ungrouped(reader)
    held = materialise_rows(alone, max_distinct)
    if held is not None:
        return summarise(
            held.classes[held.codes],
            held.scores,
            sample_weight=held.weight,
            classes=held.classes,
            n_bins=n_bins,
            level=level,
            rng=rng,
        )
    rows = StreamedClassRows.read(alone, exact="auto", max_distinct=max_distinct)
    measured = evaluate_multiclass(rows, settings, "given data")
    scores = plain_scores(measured)
    top = plain_scores(evaluate_streamed(rows.top, rows.n_rows, settings, "given data"))
    curve = curve_of(rows.top, n_bins, level, "top label", band="consistency", rng=rng, n_rows=rows.n_rows)
    counts = _counts(alone, np.array([summary.total_positives for summary in rows.by_class]), labels)
    words = verdict(top, scores["auc"], curve, counts, None, is_multiclass=True)
    shown = sorted(range(rows.n_classes), key=lambda k: -counts[k]["weight"])[:MAX_CLASS_PANELS]
    curves = [
        curve_of(rows.by_class[k], n_bins, level, labels[k], strategy="uniform", n_rows=rows.n_rows) for k in shown
    ]
    upper = max(drawn["upper"] for drawn in curves)
    left_out = "Left out, since it takes all rows in memory: the table of classes; their curves are the largest first."
    return {
        "version": __version__,
        "kind": "multiclass",
        "verdict": {**words, "in_short": measured.verdict},
        "scores": scores,
        "top_label_scores": {name: top[name] for name in ("mean_gap", "base_rate")},
        "curve": curve,
        "groups": None,
        "classes": None,
        "class_curves": [{**{k: v for k, v in c.items() if k not in OF_HISTOGRAM}, "upper": upper} for c in curves],
        "data": {
            **_data(alone, counts, rows.n_rows, rows.effective_size, level, [*_notes(rows.top), left_out]),
            "positive_class": None,
        },
    }


def _of_groups(reader: RowReader, name: str, settings: Settings, max_distinct: int, n_bins: int) -> dict[str, Any]:
    """Report on the groups of the rows."""
    by_group = group_summaries(reader, exact="auto", max_distinct=max_distinct)
    found = evaluate_grouped(reader, settings, "given data", exact="auto", max_distinct=max_distinct, by_group=by_group)

    def curve(group: Any, few: int, label: str) -> dict[str, Any]:
        n_rows = found.groups[group]["mean_gap"].n
        return curve_of(by_group[group], few, settings.level, label, n_rows=n_rows)

    return describe_groups(found, curve, name=name, n_bins=n_bins)


def _counts(
    reader: RowReader, weight: np.ndarray[Any, np.dtype[np.float64]], labels: list[str]
) -> list[dict[str, Any]]:
    """Return rows and weight of each class."""
    n_classes = weight.size
    counts = np.rint(weight).astype(np.int64)
    if reader.weight is not None and reader.source.is_repeatable:

        def part(rows: CheckedRows) -> np.ndarray[Any, Any]:
            return np.bincount(rows.codes, minlength=n_classes)

        counts = reader.total(part)
    return [
        {"label": label, "n": int(n), "weight": float(w), "share": float(w / weight.sum())}
        for label, n, w in zip(labels, counts, weight, strict=True)
    ]


def _data(
    reader: RowReader, counts: list[dict[str, Any]], n_rows: int, size: float, level: float, notes: list[str]
) -> dict[str, Any]:
    return {
        "n_rows": n_rows,
        "classes": counts,
        "is_weighted": reader.weight is not None,
        "total_weight": sum(entry["weight"] for entry in counts),
        "effective_rows": size,
        "level": level,
        "notes": notes,
    }


def _notes(summary: ScoreSummary) -> list[str]:
    """Say how far figures can be from those of the rows."""
    if not isinstance(summary, QuantisedSummary):
        return []
    return [f"More scores than fit in memory: figures are of cells of neighbouring scores ({summary.bounds})."]
