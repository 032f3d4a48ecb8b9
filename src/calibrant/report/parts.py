"""The sections on parts of the rows: each class against the rest, its share, where it is on top; and each group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.metrics import ClassScores, GroupScores, excludes
from calibrant.phrases import clean, legible, p_value, percent_level
from calibrant.report import pages
from calibrant.report.reliability import axes_end, curve_of, panels, side_by_side
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary

#: With more classes or groups than this, the worst ones get a panel and rows in the tables.
MAX_PANELS = 12
#: A group has at most one bin for so many rows.
_ROWS_PER_BIN = 20
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


def class_sections(summary: dict[str, Any]) -> list[pages.Section]:
    """Return the sections on classes; of many only the worst are shown."""
    curves, classes, data = summary["class_curves"], summary["classes"], summary["data"]
    if not curves:
        return []
    captions = [f"{pages.count(each['events'])} of {pages.count(data['total_weight'])}" for each in curves]
    pictures = panels(curves, "class", captions)
    weight = "Weight" if data["is_weighted"] else "Rows"
    if classes is None:
        return [_of_curves(curves, pictures, len(data["classes"]), weight)]
    shown, n = classes["rows"][: len(curves)], len(classes["rows"])
    level = f"{percent_level(classes['level'])} interval"
    which = f"All {n} classes" if len(shown) == n else f"Shown are the worst {len(shown)} of {n} classes"
    of_table = (
        "Debiased error is the root mean squared gap less the part that noise explains. A slope below 1 says that the "
        "probabilities of the class are over-confident, above 1 under-confident."
    )
    against_rest = pages.table(
        "Classes",
        shown,
        [
            ("Class", _name),
            ("Debiased error", lambda each: pages.figure(each["ece_debiased"], 3)),
            (level, lambda each: pages.ends(each["ece_debiased"], 3)),
            ("Slope", lambda each: pages.figure(each["slope"], 2)),
            (level, lambda each: pages.ends(each["slope"], 2)),
            ("Brier score", lambda each: pages.figure(each["brier"], 3)),
            ("AUC", lambda each: pages.figure(each["auc"], 3)),
        ],
        note=lambda each: str(each["words"]),
        is_off=lambda each: bool(each["is_off"]),
        look="classes noted",
        wide=(2, 4),
        note_title="What is off",
    )
    blocks: list[pages.Block] = [
        pages.Text(classes["verdict"]),
        pages.Text(f"{which}, the worst first. Bins have equal width; a long bar means few rows. {axes_end(curves)}"),
        pictures,
        pages.Text(of_table),
        against_rest,
    ]
    return [
        pages.Section("Each class against the rest", blocks),
        _shares(shown, level, n, weight),
        _on_top(shown, level),
    ]


def summarise_groups(
    found: GroupScores,
    summaries: Mapping[Any, ScoreSummary],
    *,
    by: str,
    n_bins: int,
    level: float,
    effect: float = 1.0,
) -> dict[str, Any]:
    """Return the figures of each group, the worst first, and the curves of the worst, as plain values."""
    figures: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    for group, scores in found.groups.items():
        gap = scores["mean_gap"]
        figures.append(
            {
                "group": clean(group),
                "n": gap.n,
                "mean_gap": gap.value,
                "low": gap.low,
                "high": gap.high,
                "ece_debiased": scores["ece_debiased"].value,
                "p_value": found.p_value(group),
                "is_off": found.is_off(group),
            }
        )
        if len(curves) < MAX_PANELS:
            few = max(1, min(n_bins, gap.n // _ROWS_PER_BIN))
            curves.append(curve_of(summaries[group], few, level, clean(group), n_rows=gap.n, effect=effect))
    return {
        "by": clean(by),
        "verdict": found.describe(lambda group: legible(group, _SHORT)),
        "level": found.interval_level,
        "rows": figures,
        "curves": side_by_side(curves),
    }


def group_section(groups: dict[str, Any]) -> pages.Section:
    """Return the section on groups."""
    curves, n = groups["curves"], len(groups["rows"])
    shown = groups["rows"][: len(curves)]
    bold = "Groups that are off are bold. " if any(each["is_off"] for each in groups["rows"]) else ""
    lead = (
        "Gap is mean prediction less observed frequency; p is of the test of all ways of being off. "
        f"{bold}{axes_end(curves)}"
    )
    if len(shown) < n:
        lead = f"Shown are the worst {len(shown)} of {n} groups. {lead}"
    found = pages.table(
        "Groups",
        shown,
        [
            ("Group", lambda each: pages.name(each["group"], _SHORT)),
            ("Rows", lambda each: pages.count(each["n"])),
            ("Gap", lambda each: pages.off_cell(pages.signed(each["mean_gap"]), each["is_off"])),
            (f"{percent_level(groups['level'])} interval", lambda each: pages.ends(each, 3)),
            ("Debiased error", lambda each: pages.decimals(each["ece_debiased"], 3)),
            ("p", lambda each: p_value(each["p_value"])),
        ],
        wide=(4,),
    )
    pictures = panels(curves, "group", [pages.count(curve["n_rows"], "row") for curve in curves])
    return pages.Section(
        f"Groups: {pages.name(groups['by'], _SHORT)}",
        [pages.Text(groups["verdict"]), pictures, pages.Text(lead), found],
    )


def _of_curves(curves: list[dict[str, Any]], pictures: pages.Pictures, n: int, weight: str) -> pages.Section:
    """Return the section of classes of which only curves were measured."""
    which = "Both classes." if n == 2 else f"Shown are the largest {len(curves)} of {n} classes."
    noise = "Calibration error is the mean gap over the bins of the class, with the noise of few rows in it."
    found = pages.table(
        "Classes",
        curves,
        [
            ("Class", _name),
            (weight, lambda curve: pages.count(curve["events"])),
            ("Mean predicted", lambda curve: pages.decimals(curve["mean_predicted"])),
            ("Observed", lambda curve: pages.decimals(curve["mean_observed"])),
            ("Calibration error", lambda curve: pages.decimals(curve["mean_error"])),
        ],
    )
    return pages.Section(
        "Each class against the rest", [pages.Text(f"{which} {axes_end(curves)}"), pictures, pages.Text(noise), found]
    )


def _shares(shown: list[dict[str, Any]], level: str, n: int, weight: str) -> pages.Section:
    digits = 3 if n <= 20 else 4
    lead = (
        f"Is each class predicted as often as it occurs? Gap is predicted less observed share{_bold(shown, 'share')}."
    )
    if len(shown) < n:
        lead += f" Of {n} classes the same {len(shown)}."
    found = pages.table(
        "Shares of the classes",
        shown,
        [
            ("Class", _name),
            (weight, lambda each: pages.count(each["weight"])),
            ("Predicted", lambda each: pages.figure(each["mean_prob"], digits)),
            ("Observed", lambda each: pages.figure(each["base_rate"], digits)),
            ("Gap", lambda each: pages.off_cell(pages.signed(each["mean_gap"]["value"], digits), each["is_share_off"])),
            (level, lambda each: pages.ends(each["mean_gap"], digits)),
        ],
        wide=(1,),
    )
    return pages.Section("Shares of the classes", [pages.Text(lead), found])


def _on_top(shown: list[dict[str, Any]], level: str) -> pages.Section:
    lead = (
        "The rows by their most probable class: its mean probability, and how often it was right. Gap is the difference"
        f"{_bold(shown, 'top')}. Below, what the rows most often were instead, and the mean probability of that."
    )

    def note(each: dict[str, Any]) -> str:
        if not each["n_on_top"]:
            return "Never the most probable class."
        others = [
            f"{_name(other)} {pages.percent(other['observed'])}, predicted {pages.percent(other['predicted'])}"
            for other in each["instead"]
        ]
        return f"Instead {'; '.join(others)}" if others else "Always right."

    def sure(each: dict[str, Any]) -> str | pages.Cell:
        return pages.decimals(each["top_prob"], 3) if each["n_on_top"] else pages.Cell("never", "undefined-value")

    def gap(each: dict[str, Any]) -> str | pages.Cell:
        return pages.off_cell(pages.signed(each["top_gap"]["value"]), each["is_top_off"]) if each["n_on_top"] else ""

    title = "How sure, and how often right"
    found = pages.table(
        title,
        shown,
        [
            ("It says", _name),
            ("Rows", lambda each: pages.count(each["n_on_top"])),
            ("Sure", sure),
            ("Right", lambda each: pages.decimals(each["precision"], 3) if each["n_on_top"] else ""),
            ("Gap", gap),
            (level, lambda each: pages.ends(each["top_gap"], 3)),
        ],
        note=note,
        look="classes noted",
        note_title="Instead",
    )
    return pages.Section(title, [pages.Text(lead), found])


def _name(each: dict[str, Any]) -> str:
    return pages.name(each["label"], _SHORT)


def _bold(shown: list[dict[str, Any]], what: str) -> str:
    return ", bold where its interval excludes 0" if any(each[f"is_{what}_off"] for each in shown) else ""


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
