"""Measure what the report says of groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calibrant.metrics import GroupScores
from calibrant.report.curves import OF_HISTOGRAM, curve_of
from calibrant.report.formats import shorten
from calibrant.report.summarise import clean
from calibrant.validation import ArrayLike

#: With more groups than this, the worst ones get a panel and a row in the table.
MAX_GROUP_PANELS = 12
_SHORT = 60


def summarise_groups(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    by: ArrayLike,
    *,
    name: str,
    sample_weight: ArrayLike | None,
    n_bins: int,
    level: float,
    pos_label: object,
    classes: ArrayLike | None,
) -> dict[str, Any]:
    """Return the figures of each group, the worst first, and the curves of the worst, as plain values."""
    from calibrant.metrics import evaluate_groups, measured_rows

    rows = measured_rows(
        y_true, y_prob, groups={"by": by}, sample_weight=sample_weight, pos_label=pos_label, classes=classes
    )
    groups = rows.groups["by"]
    found = evaluate_groups(
        y_true, y_prob, groups=by, sample_weight=sample_weight, level=level, pos_label=pos_label, classes=classes
    )
    place = {group: code for code, group in enumerate(groups.classes.tolist())}

    def curve(group: Any, few: int, label: str) -> dict[str, Any]:
        own = rows.take(groups.codes == place[group]).one_column()
        return curve_of(own, few, level, label)

    return describe_groups(found, curve, name=name, n_bins=n_bins)


def describe_groups(
    found: GroupScores, curve: Callable[[Any, int, str], dict[str, Any]], *, name: str, n_bins: int
) -> dict[str, Any]:
    """Return what the report says of measured groups; `curve` draws one, of so many bins and with a label."""
    figures: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    for group, scores in found.groups.items():
        gap, error = scores["mean_gap"], scores["ece_debiased"]
        label = clean(group)
        figures.append(
            {
                "group": label,
                "n": gap.n,
                "mean_gap": gap.value,
                "low": gap.low,
                "high": gap.high,
                "ece_debiased": error.value,
                "is_off": found.is_off(group),
            }
        )
        if len(curves) < MAX_GROUP_PANELS:
            curves.append(curve(group, max(1, min(n_bins, gap.n // 20)), label))
    upper = max(drawn["upper"] for drawn in curves)  # panels beside each other share their axes
    return {
        "by": clean(name),
        "verdict": found.describe(lambda group: shorten(clean(group), _SHORT)),
        "level": found.interval_level,
        "rows": figures,
        "curves": [{**{k: v for k, v in c.items() if k not in OF_HISTOGRAM}, "upper": upper} for c in curves],
    }
