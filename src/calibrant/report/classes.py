"""Measure what the report says of each of several classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.report.formats import shorten
from calibrant.rows import Rows

#: With more classes than this, the worst ones get a panel and rows in the tables.
MAX_CLASS_PANELS = 12
#: Other classes that are named where the most probable one was wrong.
_MOST_OTHERS = 2
_SHORT = 60
_FIGURES = ("mean_prob", "base_rate", "mean_gap", "brier", "ece_debiased", "slope", "auc", "top_gap")


def summarise_classes(rows: Rows, labels: list[str], level: float) -> dict[str, Any]:
    """Return the figures of each class, the worst first, as plain values.

    Parameters
    ----------
    rows : Rows
        Of several columns.
    labels : list of str
        What the page calls the classes.
    level : float
    """
    from calibrant.metrics import evaluate_classes

    found = evaluate_classes(
        rows.codes, rows.scores, sample_weight=rows.weight, level=level, classes=np.arange(rows.n_classes)
    )
    weight_of = np.bincount(rows.codes, weights=rows.weights, minlength=rows.n_classes).tolist()
    instead = _instead(rows, labels)
    figures = [
        {
            "code": code,
            "label": labels[code],
            "weight": weight_of[code],
            "is_off": found.is_off(code),
            "is_share_off": scores["mean_gap"].low > 0.0 or scores["mean_gap"].high < 0.0,
            "is_top_off": scores["top_gap"].low > 0.0 or scores["top_gap"].high < 0.0,
            "words": scores.verdict,
            **{name: scores[name].to_dict() for name in _FIGURES},
            "n_on_top": scores["top_gap"].n,
            "top_prob": scores["top_prob"].to_dict()["value"],
            "precision": scores["precision"].to_dict()["value"],
            "instead": instead[code],
        }
        for code, scores in found.classes.items()
    ]
    return {
        "verdict": found.describe(lambda code: shorten(labels[int(str(code))], _SHORT)),
        "level": found.interval_level,
        "n_off": len(found.off),
        "rows": figures,
    }


def _instead(rows: Rows, labels: list[str]) -> list[list[dict[str, Any]]]:
    """Return, where each class is on top, which others the rows were most often of, and how often that was said."""
    top = rows.scores.argmax(axis=1)
    weight = rows.weights
    found: list[list[dict[str, Any]]] = []
    for k in range(rows.n_classes):
        kept = top == k
        if not kept.any():
            found.append([])
            continue
        total = float(weight[kept].sum())
        observed = np.bincount(rows.codes[kept], weights=weight[kept], minlength=rows.n_classes) / total
        predicted = np.average(rows.scores[kept], axis=0, weights=weight[kept])
        others = sorted((j for j in range(rows.n_classes) if j != k), key=lambda j: (-observed[j], j))[:_MOST_OTHERS]
        found.append(
            [
                {"label": labels[j], "observed": float(observed[j]), "predicted": float(predicted[j])}
                for j in others
                if observed[j] > 0.0
            ]
        )
    return found
