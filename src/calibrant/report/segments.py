"""The section on segments: which subgroups of rows, found by a search over features, are off, and by how much."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from calibrant.displays import SegmentDisplay, SegmentPoints
from calibrant.metrics import MulticalibrationError, SegmentSettings, audit_rows
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
_SIZE = (5.6, 3.4)


def summarise_segments(rows: Rows, settings: SegmentSettings, *, level: float) -> dict[str, Any]:
    """Return the segments of the rows by their features, the worst first, as plain values."""
    found = audit_rows(rows, settings, level=level)
    worst, points = MulticalibrationError.of_audit(found), SegmentPoints.of(found)
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
        "rows": [
            {**each.to_dict(), "segment": clean(each.label), "is_infinite": math.isinf(each.sigma)}
            for each in found.findings[:_MOST_SHOWN]
        ],
        "points": {
            "n": list(points.n),
            "sigma": [plain(sigma) for sigma in points.sigma],
            "gap": list(points.gap),
            "labels": [clean(label) for label in points.labels],
        },
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
            ("Gap", lambda each: pages.signed(each["gap"])),
            (f"{percent_level(found['level'])} bounds", lambda each: pages.ends(each, 3)),
        ],
        note=_note,
        is_off=lambda each: bool(each["is_off"]),
        look="classes noted" if found["n_off"] else "classes",
        wide=(5,),
        note_title="Worst",
    )
    caption = (
        "Each point is a segment. Of calibrated predictions, none lies above the dashed line in "
        f"{percent_level(found['level'])} of searches like this one."
    )
    picture = pages.Picture(lambda: _picture(found), caption)
    below = f"{which}{bold}. Gap is mean prediction less observed frequency; its bounds hold for all segments at once."
    pictures = pages.Pictures([picture], "single")
    blocks: list[pages.Block] = [pages.Text(found["verdict"]), pages.Text(lead), pictures, pages.Text(below), table]
    return pages.Section("Segments", blocks)


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
        f"{each['segment']}, {pages.count(each['n'])} rows, {_sigma_in_words(each)}" for each in found["rows"][:3]
    )
    words = (
        f"Errors of {count(found['n_segments'], 'segment')} in standard deviations over their numbers of rows; "
        f"{found['n_off']:,} above {found['critical']:.3g}. The worst: {worst}."
    )
    return inline_axes(partial(_draw, found), _SIZE, key="segments", title="Segments", words=words)


def _draw(found: dict[str, Any], ax: Axes) -> None:
    points = found["points"]
    sigma = [math.inf if each is None else each for each in points["sigma"]]
    SegmentDisplay(SegmentPoints(points["n"], sigma, points["gap"], found["critical"], points["labels"])).plot(ax)
    enlarge_legend(ax)
