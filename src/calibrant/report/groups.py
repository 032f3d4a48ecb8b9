"""The section on groups of rows: their curves, and which are off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.metrics import GroupScores
from calibrant.phrases import clean, legible, percent_level
from calibrant.report.formats import count, decimals, ends, signed
from calibrant.report.page import Section, Text, name, off_cell, table
from calibrant.report.reliability import axes_end, curve_of, panels, side_by_side
from calibrant.summary import ScoreSummary

#: With more groups than this, the worst ones get a panel and a row in the table.
MAX_GROUP_PANELS = 12
#: A group has at most one bin for so many rows.
_ROWS_PER_BIN = 20
_SHORT = 60


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
                "is_off": found.is_off(group),
            }
        )
        if len(curves) < MAX_GROUP_PANELS:
            few = max(1, min(n_bins, gap.n // _ROWS_PER_BIN))
            curves.append(curve_of(summaries[group], few, level, clean(group), n_rows=gap.n, effect=effect))
    return {
        "by": clean(by),
        "verdict": found.describe(lambda group: legible(group, _SHORT)),
        "level": found.interval_level,
        "rows": figures,
        "curves": side_by_side(curves),
    }


def group_section(groups: dict[str, Any]) -> Section:
    """Return the section on groups."""
    curves, n = groups["curves"], len(groups["rows"])
    shown = groups["rows"][: len(curves)]
    bold = ", bold where its interval excludes 0" if any(each["is_off"] for each in groups["rows"]) else ""
    lead = f"Gap is mean prediction less observed frequency{bold}. {axes_end(curves)}"
    if len(shown) < n:
        lead = f"Shown are the worst {len(shown)} of {n} groups. {lead}"
    found = table(
        "Groups",
        shown,
        [
            ("Group", lambda each: name(each["group"], _SHORT)),
            ("Rows", lambda each: count(each["n"])),
            ("Gap", lambda each: off_cell(signed(each["mean_gap"]), each["is_off"])),
            (f"{percent_level(groups['level'])} interval", lambda each: ends(each, 3)),
            ("Debiased error", lambda each: decimals(each["ece_debiased"], 3)),
        ],
    )
    pictures = panels(curves, "group", [f"{count(curve['n_rows'])} rows" for curve in curves])
    return Section(f"Groups: {name(groups['by'], _SHORT)}", [Text(groups["verdict"]), pictures, Text(lead), found])
