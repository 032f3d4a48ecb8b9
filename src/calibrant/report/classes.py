"""The sections on several classes: each against the rest, their shares, and where each is the most probable one."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.metrics import ClassScores, excludes
from calibrant.phrases import clean, legible
from calibrant.report.formats import count, decimals, ends, figure, percent, percent_level, signed
from calibrant.report.page import Cell, Row, Section, Table, Text, name, off_cell
from calibrant.report.reliability import axes_end, panels
from calibrant.rows import Rows

#: With more classes than this, the worst ones get a panel and rows in the tables.
MAX_CLASS_PANELS = 12
#: Other classes that are named where the most probable one was wrong.
_MOST_OTHERS = 2
_SHORT = 60
_FIGURES = ("mean_prob", "base_rate", "mean_gap", "brier", "ece_debiased", "slope", "auc", "top_gap")


def summarise_classes(rows: Rows, found: ClassScores) -> dict[str, Any]:
    """Return the figures of each class, the worst first, as plain values."""
    code = {label: k for k, label in enumerate(rows.classes.tolist())}
    weight, instead = rows.class_weight.tolist(), _instead(rows)
    return {
        "verdict": found.describe(lambda label: legible(label, _SHORT)),
        "level": found.interval_level,
        "n_off": len(found.off),
        "rows": [
            {
                "code": code[label],
                "label": clean(label),
                "weight": weight[code[label]],
                "is_off": found.is_off(label),
                "is_share_off": excludes(scores["mean_gap"]),
                "is_top_off": excludes(scores["top_gap"]),
                "words": scores.verdict,
                **{name: scores[name].to_dict() for name in _FIGURES},
                "n_on_top": scores["top_gap"].n,
                "top_prob": scores["top_prob"].to_dict()["value"],
                "precision": scores["precision"].to_dict()["value"],
                "instead": instead[code[label]],
            }
            for label, scores in found.classes.items()
        ],
    }


def class_sections(summary: dict[str, Any]) -> list[Section]:
    """Return the sections on classes; of many only the worst are shown."""
    curves = summary["class_curves"]
    if not curves:
        return []
    classes, data = summary["classes"], summary["data"]
    captions = [f"{count(curve['events'])} of {count(data['total_weight'])}" for curve in curves]
    if classes is None:
        return [_of_curves(summary, captions)]
    shown, n = classes["rows"][: len(curves)], len(classes["rows"])
    level = f"{percent_level(classes['level'])} interval"
    which = f"All {n} classes" if len(shown) == n else f"Shown are the worst {len(shown)} of {n} classes"
    lead = f"{which}, the worst first. Bins have equal width; a long bar means few rows. {axes_end(curves)}"
    of_table = (
        "Debiased error is the root mean squared gap less the part that noise explains. A slope below 1 says that the "
        "probabilities of the class are over-confident, above 1 under-confident."
    )
    rows = []
    for each in shown:
        error, slope = each["ece_debiased"], each["slope"]
        cells = (figure(error, 3), ends(error, 3), figure(slope, 2), ends(slope, 2), figure(each["brier"], 3))
        rows.append(Row((name(each["label"], _SHORT), *cells, figure(each["auc"], 3)), each["words"], each["is_off"]))
    columns = ("Class", "Debiased error", level, "Slope", level, "Brier score", "AUC")
    against_rest = [
        Text(classes["verdict"]),
        Text(lead),
        panels(curves, "class", captions),
        Text(of_table),
        Table("Classes", columns, rows, "classes noted", wide=(2, 4), note_title="What is off"),
    ]
    return [
        Section("Each class against the rest", against_rest),
        _shares(shown, level, n, is_weighted=data["is_weighted"]),
        _on_top(shown, level),
    ]


def _of_curves(summary: dict[str, Any], captions: list[str]) -> Section:
    """Return the section of classes of which only curves were measured."""
    curves, n = summary["class_curves"], len(summary["data"]["classes"])
    which = "Both classes." if n == 2 else f"Shown are the largest {len(curves)} of {n} classes."
    rows = [
        Row(
            (
                name(curve["label"], _SHORT),
                count(curve["events"]),
                *(decimals(curve[key]) for key in ("mean_predicted", "mean_observed", "mean_error")),
            )
        )
        for curve in curves
    ]
    weight = "Weight" if summary["data"]["is_weighted"] else "Rows"
    columns = ("Class", weight, "Mean predicted", "Observed", "Calibration error")
    noise = "Calibration error is the mean gap over the bins of the class, with the noise of few rows in it."
    blocks = [Text(f"{which} {axes_end(curves)}"), panels(curves, "class", captions), Text(noise)]
    return Section("Each class against the rest", [*blocks, Table("Classes", columns, rows)])


def _shares(shown: list[dict[str, Any]], level: str, n: int, *, is_weighted: bool) -> Section:
    digits = 3 if n <= 20 else 4
    rows = [
        Row(
            (
                name(each["label"], _SHORT),
                count(each["weight"]),
                figure(each["mean_prob"], digits),
                figure(each["base_rate"], digits),
                off_cell(signed(each["mean_gap"]["value"], digits), each["is_share_off"]),
                ends(each["mean_gap"], digits),
            )
        )
        for each in shown
    ]
    bold = ", bold where its interval excludes 0" if any(each["is_share_off"] for each in shown) else ""
    lead = f"Is each class predicted as often as it occurs? Gap is predicted less observed share{bold}."
    if len(shown) < n:
        lead += f" Of {n} classes the same {len(shown)}."
    columns = ("Class", "Weight" if is_weighted else "Rows", "Predicted", "Observed", "Gap", level)
    return Section("Shares of the classes", [Text(lead), Table("Shares of the classes", columns, rows, wide=(1,))])


def _on_top(shown: list[dict[str, Any]], level: str) -> Section:
    rows = []
    for each in shown:
        label, n = name(each["label"], _SHORT), count(each["n_on_top"])
        if not each["n_on_top"]:
            never = Cell("never", "undefined-value")
            rows.append(Row((label, n, never, "", "", ""), "Never the most probable class."))
            continue
        gap = off_cell(signed(each["top_gap"]["value"]), each["is_top_off"])
        sure, right = decimals(each["top_prob"], 3), decimals(each["precision"], 3)
        others = [
            f"{name(other['label'], _SHORT)} {percent(other['observed'])}, predicted {percent(other['predicted'])}"
            for other in each["instead"]
        ]
        note = f"Instead {'; '.join(others)}" if others else "Always right."
        rows.append(Row((label, n, sure, right, gap, ends(each["top_gap"], 3)), note))
    bold = ", bold where its interval excludes 0" if any(each["is_top_off"] for each in shown) else ""
    lead = (
        "The rows by their most probable class: its mean probability, and how often it was right. Gap is the "
        f"difference{bold}. Below, what the rows most often were instead, and the mean probability of that."
    )
    columns = ("It says", "Rows", "Sure", "Right", "Gap", level)
    title = "How sure, and how often right"
    return Section(title, [Text(lead), Table(title, columns, rows, "classes noted", note_title="Instead")])


def _instead(rows: Rows) -> list[list[dict[str, Any]]]:
    """Return, where each class is on top, which others the rows were most often of, and how often that was said."""
    top, labels = rows.scores.argmax(axis=1), rows.classes.tolist()
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
                {"label": clean(labels[j]), "observed": float(observed[j]), "predicted": float(predicted[j])}
                for j in others
                if observed[j] > 0.0
            ]
        )
    return found
