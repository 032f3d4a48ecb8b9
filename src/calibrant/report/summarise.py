"""Measure everything that the report states, as one dict of plain values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from calibrant._version import __version__
from calibrant.errors import ShapeError
from calibrant.metrics import measured_rows
from calibrant.report.classes import MAX_CLASS_PANELS, summarise_classes
from calibrant.report.curves import OF_HISTOGRAM, curve_of
from calibrant.report.words import MEANINGS, verdict
from calibrant.results import Scores
from calibrant.rows import Rows
from calibrant.validation import ArrayLike, check_fraction


def summarise(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 10,
    level: float = 0.95,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    title: str = "Calibration report",
    score_names: Sequence[str] | None = None,
    source: str | None = None,
    rng: int | np.random.Generator | None = 0,
) -> dict[str, Any]:
    """Return what `Report` says of labels and probabilities, as dicts, lists, strings and numbers; NaN is None.

    The parameters are those of `Report`.
    """
    from calibrant.metrics import evaluate

    check_fraction("level", level)
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    names = check_score_names(score_names, 1 if rows.is_binary else rows.scores.shape[1])
    # the codes say by themselves which column or event they mean
    y = rows.positive if rows.is_binary else rows.codes
    measured = evaluate(y, rows.scores, sample_weight=rows.weight, level=level, rng=rng)
    scores = plain_scores(measured)
    label = "positive class" if rows.is_binary else "top label"
    curve = curve_of(rows.one_column(), n_bins, level, label, band="consistency", rng=rng)
    counts = _class_counts(rows)
    top = scores if rows.is_binary else plain_scores(_top_label_scores(rows, level, rng))
    labels = [entry["label"] for entry in counts]
    by_class = summarise_classes(rows, labels, level) if rows.n_classes > 2 else None
    words = verdict(top, scores["auc"], curve, counts, by_class, is_multiclass=not rows.is_binary)
    return {
        "title": clean(title),
        "version": __version__,
        "kind": "binary" if rows.is_binary else "multiclass",
        "verdict": {**words, "in_short": _in_short(measured.verdict, by_class)},
        "scores": scores,
        "top_label_scores": {} if rows.is_binary else {name: top[name] for name in ("mean_gap", "base_rate")},
        "curve": curve,
        "groups": None,
        "classes": by_class,
        "class_curves": [] if rows.is_binary else _class_curves(rows, n_bins, level, labels, by_class),
        "data": {
            "source": None if source is None else clean(source),
            "score_names": names,
            "n_rows": rows.n_rows,
            "classes": counts,
            "positive_class": counts[1]["label"] if rows.is_binary else None,
            "is_weighted": rows.weight is not None,
            "total_weight": float(rows.weights.sum()),
            "effective_rows": rows.effective_size,
            "level": level,
            "notes": [],
        },
    }


def _in_short(of_top_label: str, by_class: dict[str, Any] | None) -> str:
    """Return the verdict of the scores, preceded by that of the classes where only these are off."""
    if by_class is None or not by_class["n_off"] or of_top_label.startswith("Not calibrated"):
        return of_top_label
    return f"Not calibrated. {by_class['verdict']} Of the predicted class: {of_top_label}"


def clean(text: object) -> str:
    """Return text that any page or file can hold: no control characters and no halves of surrogate pairs."""
    printable = "".join(" " if c in "\t\r\n" else c if c >= " " and c != "\x7f" else "\ufffd" for c in str(text))
    return printable.encode("utf-8", "replace").decode("utf-8")


def plain_scores(measured: Scores) -> dict[str, dict[str, Any]]:
    """Return the scores that the report explains as plain values; infinity, which JSON lacks, is None and marked."""
    plain = {name: score.to_dict() for name, score in measured.items() if name in MEANINGS}
    for name, score in plain.items():
        score["is_infinite"] = measured[name].value == math.inf
    return plain


def _top_label_scores(rows: Rows, level: float, rng: int | np.random.Generator | None) -> Scores:
    """Measure the confidence in the most probable class as the probability that it is right."""
    from calibrant.metrics import evaluate

    top = rows.top_label()
    return evaluate(top.positive, top.scores, sample_weight=top.weight, level=level, rng=rng)


def check_score_names(score_names: Sequence[str] | None, n_columns: int) -> list[str]:
    """Return the names of the score columns as text, one for each."""
    if score_names is None:
        return []
    if isinstance(score_names, str):
        score_names = [score_names]
    if len(score_names) != n_columns:
        raise ShapeError(f"score_names has {len(score_names)} names for {n_columns} columns. Pass one for each column.")
    return [clean(name) for name in score_names]


def _class_counts(rows: Rows) -> list[dict[str, Any]]:
    codes, n_classes = rows.codes, len(rows.classes)
    counts = np.bincount(rows.codes, minlength=rows.n_classes)
    weights = np.bincount(codes, weights=rows.weights, minlength=n_classes)
    return [
        {"label": clean(label), "n": int(n), "weight": float(w), "share": float(w / weights.sum())}
        for label, n, w in zip(rows.classes.tolist(), counts, weights, strict=True)
    ]


def _class_curves(
    rows: Rows, n_bins: int, level: float, labels: list[str], by_class: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """Measure each class against the rest; of several classes, the worst first, and of many only these.

    Bins of several classes have equal width: nearly all rows are of other classes, with probabilities near zero, and
    would fill all bins of equal weight but one.
    """
    strategy: Literal["quantile", "uniform"] = "quantile" if by_class is None else "uniform"
    codes = range(rows.n_classes) if by_class is None else [row["code"] for row in by_class["rows"][:MAX_CLASS_PANELS]]
    curves = [curve_of(rows.of_class(k), n_bins, level, labels[k], strategy=strategy) for k in codes]
    upper = max(curve["upper"] for curve in curves)  # panels beside each other share their axes
    return [{**{k: v for k, v in curve.items() if k not in OF_HISTOGRAM}, "upper": upper} for curve in curves]
