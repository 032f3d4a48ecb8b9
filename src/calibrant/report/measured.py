"""What a report measures, of rows in memory or of any source of rows, as one dict of plain values.

Both give the same figures, those of `evaluate`, and summaries of one score each; the rest is made of these alone.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant import engines, metrics
from calibrant._version import __version__
from calibrant.dependent_rows import as_independent
from calibrant.numerics import FloatArray
from calibrant.phrases import clean
from calibrant.report.parts import MAX_PANELS, summarise_classes, summarise_groups
from calibrant.report.reliability import curve_of, side_by_side
from calibrant.results import Scores
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary

#: Scores of each group, and the summary of its rows.
Groups: TypeAlias = tuple[metrics.GroupScores, Mapping[Any, ScoreSummary]]
ON = "given data"
#: Longer names stay placeholders in a command.
_LONGEST_WORD = 120


@dataclass(frozen=True, slots=True)
class About:
    """What a report is told, and does not measure: its title, and where its rows come from.

    `source` is what the page calls the file or table, and `file` what a command would read: None where there is none.
    `label_name` and `score_names` are names of columns, `n_skipped` the rows that were left out for missing values, and
    `notes` what a reader must know of the rows.
    """

    title: str
    source: str | None = None
    file: str | None = None
    label_name: str | None = None
    score_names: Sequence[str] = ()
    n_skipped: int = 0
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """What is measured of rows: scores, the summary of one score or of the most probable class, and of each class.

    `counts` and `weights` are rows and weight of each of the sorted classes, `labels`; `classes` is what
    `summarise_classes` says of more than two, `order` that of the curves of classes that are shown.
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
    notes: Sequence[str] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return next(iter(self.scores.values())).n


def of_rows(
    rows: Rows,
    settings: metrics.Settings,
    scores: Scores | None = None,
    by_class: metrics.ClassScores | None = None,
) -> Measured:
    """Measure rows in memory; scores, of all and by class, are those given, where they have been measured."""
    scores, n_classes = scores or metrics.evaluate_rows(rows, settings, ON), rows.n_classes
    classes = None
    if n_classes > 2:
        classes = summarise_classes(rows, by_class or metrics.classes_of_rows(rows, settings, ON))
    effect = settings.with_rows(rows).factor
    rows = as_independent(rows)
    return Measured(
        scores,
        rows.one_column().summary(),
        rows.classes.tolist(),
        np.bincount(rows.codes, minlength=n_classes),
        rows.class_weight,
        rows.effective_size,
        rows.weight is not None,
        effect,
        None if rows.is_binary else [rows.of_class(k).summary() for k in range(n_classes)],
        classes,
        range(n_classes) if classes is None else [each["code"] for each in classes["rows"]],
        notes=scores.notes,
    )


def of_source(stream: engines.SourceStream, settings: metrics.Settings) -> Measured:
    """Measure the probabilities of a stream: of several columns, all rows where they fit."""
    labels, is_weighted = stream.classes.tolist(), stream.reader.weight is not None
    if stream.is_binary:
        found = stream.summary()
        weights = np.array([found.total_weight - found.total_positives, found.total_positives])
        settings = engines.settings_of_stream(stream, found, settings)
        scores = engines.evaluate_one_score(stream, found, settings, ON)
        counts, size, effect = _counts(stream, weights), found.effective_size, settings.factor
        return Measured(scores, found, labels, counts, weights, size, is_weighted, effect, notes=_notes(found))
    held = stream.materialise(stream.max_distinct // len(labels))
    if held is not None:
        return of_rows(held, settings)
    rows = engines.StreamedClassRows.read(stream)
    weights = np.array([summary.total_positives for summary in rows.by_class])
    settings = engines.settings_of_stream(stream, rows.top, settings, rows.by_class)
    left_out = "Left out, since it takes all rows in memory: the table of classes; their curves are the largest first."
    return Measured(
        metrics.evaluate_multiclass(rows, settings, ON),
        rows.top,
        labels,
        _counts(stream, weights),
        weights,
        rows.effective_size,
        is_weighted,
        settings.factor,
        by_class=rows.by_class,
        order=np.argsort(-weights, kind="stable").tolist(),
        notes=[*_notes(rows.top), left_out],
    )


def groups_in_source(stream: engines.SourceStream, settings: metrics.Settings) -> Groups:
    """Measure the groups of a stream, and summarise them."""
    by_group = engines.summarise_groups_of(stream)
    return engines.evaluate_groups_of(stream, by_group, settings, ON), by_group


def summarise(
    found: Measured,
    about: About,
    *,
    n_bins: int,
    groups: tuple[str, Groups] | None = None,
    rng: int | np.random.Generator | None = 0,
) -> dict[str, Any]:
    """Return what `Report` says, as dicts, lists, strings and numbers; NaN is None."""
    labels = [clean(label) for label in found.labels]
    level, n, effect = found.scores["brier"].level, found.n_rows, found.effect
    class_curves = []
    if found.by_class is not None:
        strategy: Literal["quantile", "uniform"] = "quantile" if len(labels) == 2 else "uniform"
        class_curves = [
            curve_of(found.by_class[k], n_bins, level, labels[k], n_rows=n, effect=effect, strategy=strategy)
            for k in list(found.order)[:MAX_PANELS]
        ]
    return {
        "title": clean(about.title),
        "version": __version__,
        "kind": "binary" if found.by_class is None else "multiclass",
        "verdict": _verdict(found, about),
        "scores": plain_scores(found.scores),
        "curve": main_curve(found, n_bins, rng),
        "calibrator": None,
        "decisions": None,
        "segments": None,
        "groups": None
        if groups is None
        else summarise_groups(*groups[1], by=groups[0], n_bins=n_bins, level=level, effect=effect),
        "classes": found.classes,
        "class_curves": side_by_side(class_curves) if class_curves else [],
        "data": data_of(found, about),
    }


def data_of(found: Measured, about: About) -> dict[str, Any]:
    """Return what a report says of the rows themselves, as plain values."""
    labels, total = [clean(label) for label in found.labels], float(found.weights.sum())
    return {
        "source": None if about.source is None else clean(about.source),
        "score_names": [clean(name) for name in about.score_names],
        "n_rows": found.n_rows,
        "n_skipped": about.n_skipped,
        "classes": [
            {"label": label, "n": int(rows), "weight": float(weight), "share": float(weight) / total}
            for label, rows, weight in zip(labels, found.counts, found.weights, strict=True)
        ],
        "positive_class": labels[1] if found.by_class is None else None,
        "is_weighted": found.is_weighted,
        "total_weight": total,
        "effective_rows": found.effective_size / found.effect,
        "design_effect": found.effect,
        "level": found.scores["brier"].level,
        "notes": [*about.notes, *found.notes],
    }


def main_curve(
    found: Measured, n_bins: int, rng: int | np.random.Generator | None, *, least_end: float = 0.0
) -> dict[str, Any]:
    """Measure the curve of the one score, or of the most probable class, with axes that end at `least_end` or above."""
    label = "positive class" if found.by_class is None else "top label"
    known: dict[str, Any] = {"n_rows": found.n_rows, "effect": found.effect, "band": "consistency", "rng": rng}
    level = found.scores["brier"].level
    return curve_of(found.column, n_bins, level, label, least_end=least_end, **known)


def plain_scores(measured: Scores) -> dict[str, dict[str, Any]]:
    """Return scores as plain values; infinity, which JSON lacks, is None and marked."""
    plain = {name: score.to_dict() for name, score in measured.items()}
    for name, score in plain.items():
        score["is_infinite"] = measured[name].value == math.inf
    return plain


def _verdict(found: Measured, about: About) -> dict[str, Any]:
    """Return the parts of the verdict, and the command that does what it advises, with the names that are known."""
    said, names = metrics.verdict(found.scores), [clean(name) for name in about.score_names]
    placeholder, method = ("SCORE", "") if found.by_class is None else ("SCORES", " --method auto")
    score = shell_word(",".join(names), placeholder) if names else placeholder
    command = f"calibrant fit {file_and_label(about)} --score {score}{method} -o calibrator.json"
    return {**said.to_dict(), "command": command if said.action == "calibrate" else None}


def file_and_label(about: About) -> str:
    """Return the file and the label as a command names them; placeholders where they are not known."""
    known = {"FILE": about.file, "LABEL": about.label_name}
    return " --label ".join(word if name is None else shell_word(name, word) for word, name in known.items())


def shell_word(name: str, placeholder: str) -> str:
    """Quote a name for a shell; the placeholder of one that is long, or not what it looks like."""
    is_plain = name.isprintable() and len(name) <= _LONGEST_WORD and not set(name) & set("<>`")
    return shlex.quote(name) if is_plain else placeholder


def _counts(stream: engines.SourceStream, weights: FloatArray) -> npt.NDArray[Any]:
    """Return the number of rows of each class: their weight, unless rows have weights of their own."""
    if not stream.can_count:
        return np.rint(weights).astype(np.int64)
    n_classes = weights.size
    return stream.total(lambda rows: np.bincount(rows.codes, minlength=n_classes))


def _notes(summary: ScoreSummary) -> list[str]:
    """Say how far figures can be from those of the rows."""
    if not isinstance(summary, engines.QuantisedSummary):
        return []
    return [f"More scores than fit in memory: figures are of cells of neighbouring scores ({summary.bounds.in_words})."]
