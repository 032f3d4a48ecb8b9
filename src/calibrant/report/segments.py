"""The section on segments: which subgroups of rows, found by a search over features, are off, and by how much."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from calibrant.displays import SegmentDisplay, SegmentPoints
from calibrant.metrics import Audit, Finding, MulticalibrationError, SegmentSettings, audit_rows, change_in_words
from calibrant.phrases import clean, count, listed, p_value, percent_level
from calibrant.report import pages
from calibrant.report.figures import enlarge_legend, inline_axes
from calibrant.results import plain
from calibrant.rows import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The worst segments stand in the table.
_MOST_SHOWN = 12
#: Features that the page names.
_MOST_NAMED = 12
_SHORT = 60
_WHEN = ("before", "after")
_SIZE = (5.6, 3.4)


def summarise_segments(
    rows: Rows, settings: SegmentSettings, *, level: float, before: Rows | None = None
) -> dict[str, Any]:
    """Return the segments of the rows by their features, the worst first, as plain values.

    `before` are the same rows with the predictions that a calibrator was given.
    """
    found = audit_rows(rows, settings, level=level)
    worst = MulticalibrationError.of_audit(found)
    return {
        "features": [clean(name) for name in rows.features or ()],
        "depth": found.depth,
        "min_rows": found.min_rows,
        "verdict": clean(found.verdict),
        "level": level,
        "n_draws": found.n_draws,
        "n_off": len(found.off),
        "n_segments": len(found.findings),
        "n_left_out": found.n_left_out,
        "critical": found.critical,
        "error": worst.to_dict(),
        "rows": [_segment(each) for each in found.findings[:_MOST_SHOWN]],
        "points": _points(found),
        "before": None if before is None else _summarise_change(audit_rows(before, settings, level=level), found),
    }


def _segment(finding: Finding) -> dict[str, Any]:
    return {**finding.to_dict(), "segment": clean(finding.label), "is_infinite": math.isinf(finding.sigma)}


def _points(found: Audit) -> dict[str, Any]:
    points = SegmentPoints.of(found)
    return {
        "n": list(points.n),
        "sigma": [plain(sigma) for sigma in points.sigma],
        "gap": list(points.gap),
        "labels": [clean(label) for label in points.labels],
    }


def _summarise_change(before: Audit, after: Audit) -> dict[str, Any]:
    """Return the segments before calibration, the worst of them with what they are after it."""
    later = {finding.label: finding for finding in after.findings}
    shown = [each for each in before.findings if each.label in later][:_MOST_SHOWN]
    return {
        "verdict": clean(before.verdict),
        "change": change_in_words(before, after),
        "n_off": len(before.off),
        "critical": before.critical,
        "error": MulticalibrationError.of_audit(before).to_dict(),
        "rows": [{"before": _segment(each), "after": _segment(later[each.label])} for each in shown],
        "points": _points(before),
    }


def segment_section(found: dict[str, Any]) -> pages.Section:
    """Return the section of a summary of segments."""
    names = listed([pages.name(each, _SHORT) for each in found["features"]], most=_MOST_NAMED)
    crossed = f"up to {found['depth']} of them at once" if found["depth"] > 1 else "one at a time"
    lead = (
        f"The rows were cut by {names}, {crossed}. The error of a segment is the largest sum of gaps between outcome "
        "and prediction over any range of scores, in standard deviations of calibrated predictions; p is the chance "
        f"that the worst of {count(found['n_segments'], 'segment')} of calibrated predictions is as far off."
    )
    before = found["before"]
    blocks: list[pages.Block] = [] if before is None else [pages.Text(before["change"])]
    blocks += [pages.Text(found["verdict"]), pages.Text(lead), _pictures(found)]
    if before is not None:
        blocks += _change_blocks(before, found["n_segments"])
    if before is None or found["n_off"]:
        blocks += _blocks_of_worst(found)
    return pages.Section("Segments", blocks)


def _change_blocks(before: dict[str, Any], n: int) -> list[pages.Block]:
    """Return the table of the segments that were furthest off before calibration, with what became of them."""
    columns: list[tuple[str, Callable[[Any], str | pages.Cell]]] = [
        ("Segment", lambda each: pages.name(each["before"]["segment"], _SHORT)),
        ("Rows", lambda each: pages.count(each["before"]["n"])),
    ]
    for title, figure in (("Error, s.d.", _sigma), ("Gap", _gap)):
        columns += [(f"{title}, {when}", partial(_of, when, figure)) for when in _WHEN]
    table = pages.table(
        "Segments before and after",
        before["rows"],
        columns,
        is_off=lambda each: bool(each["before"]["is_off"] or each["after"]["is_off"]),
    )
    shown = len(before["rows"])
    which = (
        f"The {shown} segments of {n:,} that were furthest off before" if shown < n else "All segments, as they were"
    )
    return [pages.Text(f"{which}. Gap is mean prediction less observed frequency."), table]


def _blocks_of_worst(found: dict[str, Any]) -> list[pages.Block]:
    """Return the table of the worst segments."""
    shown, n = found["rows"], found["n_segments"]
    which = f"The worst {len(shown)} of {n:,} segments" if len(shown) < n else "All segments, the worst first"
    bold = "; those that are off are bold" if found["n_off"] else ""
    table = pages.table(
        "Segments",
        shown,
        [
            ("Segment", lambda each: pages.name(each["segment"], _SHORT)),
            ("Rows", lambda each: pages.count(each["n"])),
            ("Error, s.d.", _sigma),
            ("p", lambda each: p_value(each["p_value"])),
            ("Gap", _gap),
            (f"{percent_level(found['level'])} bounds", lambda each: pages.ends(each, 3)),
        ],
        note=_note,
        is_off=lambda each: bool(each["is_off"]),
        look="classes noted" if found["n_off"] else "classes",
        wide=(5,),
        note_title="Worst",
    )
    after = "" if found["before"] is None else " after calibration"
    gap = "Gap is mean prediction less observed frequency; its bounds hold for all segments at once."
    below = f"{which}{after}{bold}. {gap}"
    return [pages.Text(below), table]


def _pictures(found: dict[str, Any]) -> pages.Pictures:
    when = "" if found["before"] is None else ", before and after calibration"
    caption = (
        f"Each point is a segment{when}. Of calibrated predictions, none lies above the dashed line in "
        f"{percent_level(found['level'])} of searches like this one."
    )
    return pages.Pictures([pages.Picture(lambda: _picture(found), caption)], "single")


def _of(when: str, figure: Callable[[dict[str, Any]], str | pages.Cell], each: dict[str, Any]) -> str | pages.Cell:
    return figure(each[when])


def _gap(each: dict[str, Any]) -> str:
    return pages.signed(each["gap"])


def _sigma(each: dict[str, Any]) -> str | pages.Cell:
    return pages.off_cell(_sigma_in_words(each), each["is_off"])


def _sigma_in_words(each: dict[str, Any]) -> str:
    return "infinite" if each["is_infinite"] else f"{each['sigma']:.1f}"


def _note(each: dict[str, Any]) -> str:
    """Say where a segment that is off is furthest off."""
    if not each["is_off"]:
        return ""
    low, high = (pages.decimals(end, 3) for end in each["scores"])
    way = "high" if each["score_gap"] > 0.0 else "low"
    return f"Too {way} by {pages.decimals(abs(each['score_gap']), 3)} at scores {low} to {high}."


def _picture(found: dict[str, Any]) -> str:
    """Return the SVG of all segments."""
    worst = "; ".join(
        f"{each['segment']}, {pages.count(each['n'], 'row')}, {_sigma_in_words(each)}" for each in found["rows"][:3]
    )
    change = "" if found["before"] is None else f"{found['before']['change']} "
    words = (
        f"{change}Errors of {count(found['n_segments'], 'segment')} in standard deviations over their numbers of rows; "
        f"{found['n_off']:,} above {found['critical']:.3g}. The worst: {worst}."
    )
    return inline_axes(partial(_draw, found), _SIZE, key="segments", title="Segments", words=words)


def _draw(found: dict[str, Any], ax: Axes) -> None:
    if found["before"] is None:
        points = [_read_points(found)]
    else:  # names of segments stand at the first, as they were before
        points = [_read_points(found["before"], "before"), _read_points(found, "after")]
    SegmentDisplay(points).plot(ax)
    enlarge_legend(ax)


def _read_points(found: dict[str, Any], name: str = "") -> SegmentPoints:
    points = found["points"]
    sigma = [math.inf if each is None else each for each in points["sigma"]]
    return SegmentPoints(points["n"], sigma, points["gap"], found["critical"], points["labels"], name)
