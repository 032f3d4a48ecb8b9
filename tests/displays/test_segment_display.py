"""Segments over their sizes: points, colours and names are those of the search."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

import calibrant as cb
from calibrant.displays.segments import SegmentPoints
from calibrant.displays.style import COLOURS, MUTED
from calibrant.errors import CalibrantError
from calibrant.metrics import Audit, audit


@pytest.fixture(scope="module")
def found() -> Audit:
    rng = np.random.default_rng(0)
    p, city, sex = rng.random(3000), rng.choice(["Bonn", "Kyiv", "Rome"], 3000), rng.choice(["f", "m"], 3000)
    y = rng.random(3000) < np.where(city == "Rome", p**2, np.where(city == "Kyiv", p**0.6, p))
    return audit(y, p, features={"city": city, "sex": sex}, n_draws=99)


def points_of(line: Any) -> set[tuple[float, float]]:
    return set(zip(np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist(), strict=True))


def test_points_are_sizes_and_errors_coloured_by_direction(found: Audit) -> None:
    ax = cb.SegmentDisplay.from_audit(found).ax_
    lines = {line.get_label(): line for line in ax.lines if line.get_linestyle() == "None"}
    assert points_of(lines["too high"]) == {(f.n, f.sigma) for f in found.off if f.score_gap > 0}
    assert points_of(lines["too low"]) == {(f.n, f.sigma) for f in found.off if f.score_gap < 0}
    assert points_of(lines["not found off"]) == {(f.n, f.sigma) for f in found.findings if not f.is_off}
    assert [to_hex(lines[name].get_color()) for name in lines] == [COLOURS[1], COLOURS[0], MUTED]
    (limit,) = (line for line in ax.lines if line.get_linestyle() != "None")
    assert set(limit.get_ydata()) == {found.critical}
    assert [text.get_text() for text in ax.texts] == [f.label for f in found.off[:2]]


def test_searches_before_and_after_are_told_apart_by_name(found: Audit) -> None:
    display = cb.SegmentDisplay.from_audit({"before": found, "$after$": found})
    lines = [line for line in display.ax_.lines if line.get_linestyle() == "None"]
    assert [line.get_label() for line in lines] == ["before", r"\$after\$"]
    assert all(points_of(line) == {(f.n, f.sigma) for f in found.findings} for line in lines)
    assert display.figure_.legends


def test_an_infinite_error_is_drawn_above_all_others() -> None:
    display = cb.SegmentDisplay(SegmentPoints([90, 60], [math.inf, 3.0], [0.1, -0.1], 2.5, ["a"])).plot()
    heights = [y for line in display.ax_.lines if line.get_linestyle() == "None" for _, y in points_of(line)]
    assert len(heights) == 2
    assert 3.0 < max(heights) < display.ax_.get_ylim()[1]


def test_what_is_no_audit_is_refused() -> None:
    with pytest.raises(CalibrantError, match=r"found is a dict_keys|found is a list"):
        cb.SegmentDisplay.from_audit([1])  # type: ignore[arg-type]
    with pytest.raises(CalibrantError, match="points is an empty sequence"):
        cb.SegmentDisplay([])
