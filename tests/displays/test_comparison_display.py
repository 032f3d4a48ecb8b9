"""Methods ranked by a value with its interval: order, places and colours are those of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

import calibrant as cb
from calibrant.displays.style import COLOURS, MUTED
from calibrant.errors import CalibrantError
from calibrant.results import Score

ROWS = [
    ("isotonic", 0.02, -0.01, 0.05),
    ("beta", -0.03, -0.04, -0.02),
    ("histogram", 0.06, 0.04, 0.08),
    ("lost", math.nan, math.nan, math.nan),
    ("sure", math.inf, math.inf, math.inf),
]


@dataclass
class Row:
    name: str
    value: float
    low: float
    high: float


def test_methods_are_ranked_with_undefined_ones_last() -> None:
    display = cb.ComparisonDisplay(ROWS).plot()
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == ["beta", "isotonic", "histogram", "sure", "lost"]
    heights = [display.ax_.transData.transform((0.0, tick))[1] for tick in display.ax_.get_yticks()]
    assert heights == sorted(heights, reverse=True)


def test_points_and_intervals_are_the_rows() -> None:
    ax = cb.ComparisonDisplay(ROWS).plot().ax_
    points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if line.get_marker() == "o"]
    assert points == [(-0.03, 0), (0.02, 1), (0.06, 2)]
    spans = [collection.get_segments()[0].tolist() for collection in ax.collections]
    assert spans == [[[-0.04, 0.0], [-0.02, 0.0]], [[-0.01, 1.0], [0.05, 1.0]], [[0.04, 2.0], [0.08, 2.0]]]


def test_colour_and_filling_say_better_unknown_or_worse() -> None:
    ax = cb.ComparisonDisplay(ROWS).plot().ax_
    looks = [(to_hex(p.get_color()), to_hex(p.get_markerfacecolor())) for p in ax.lines if p.get_marker() == "o"]
    assert looks == [(COLOURS[0], COLOURS[0]), (MUTED, "#ffffff"), (COLOURS[1], COLOURS[1])]


def test_numbers_are_written_beside_the_rows_and_inside_the_figure() -> None:
    figure = cb.ComparisonDisplay(ROWS).plot().figure_
    assert figure is not None
    figure.canvas.draw()
    texts = figure.axes[0].texts
    assert [text.get_text().replace("\N{MINUS SIGN}", "-") for text in texts] == [
        "uncalibrated",
        "-0.0300 [-0.0400, -0.0200]",
        "+0.0200 [-0.0100, +0.0500]",
        "+0.0600 [+0.0400, +0.0800]",
        "infinite",
        "undefined",
    ]
    boxes = [text.get_window_extent() for text in (*texts, *figure.axes[0].get_yticklabels())]
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])


def test_infinite_values_are_triangles_at_the_end_of_the_axis() -> None:
    rows = [("worse", math.inf, math.inf, math.inf), ("better", -math.inf, -math.inf, -math.inf)]
    ax = cb.ComparisonDisplay([*rows, ROWS[0]]).plot().ax_
    triangles = {line.get_marker(): line for line in ax.lines if line.get_marker() in "<>"}
    assert triangles["<"].get_xdata()[0] < 0.05 < 0.95 < triangles[">"].get_xdata()[0], "as shares of the axis"
    assert [to_hex(triangles[kind].get_color()) for kind in "<>"] == list(COLOURS[:2])


def test_where_the_baseline_is_infinite_the_scores_themselves_are_drawn() -> None:
    rng = np.random.default_rng(0)
    votes = np.round(10 * rng.beta(0.5, 0.5, 300)) / 10
    found = cb.compare(votes, rng.random(300) < 0.8 * votes + 0.1, methods=["sigmoid", "beta"])
    assert math.isinf(found.methods[-1].log_loss)
    display = cb.ComparisonDisplay.from_comparison(found)
    expected = [(each.name, each.log_loss) for each in found.methods if each.name != "none"]
    assert [(row.name, row.value) for row in display.rows] == expected
    points = [line.get_xdata()[0] for line in display.ax_.lines if line.get_marker() == "o"]
    assert points == [loss for _, loss in expected]
    assert (
        display.ax_.get_xlabel() == "Held-out log loss; that of the uncalibrated scores is infinite\n(less is better)"
    )
    assert [text.get_text() for text in display.ax_.texts] == [f"{loss:.4f}" for _, loss in expected]


def test_reference_is_a_line_where_it_is_told() -> None:
    display = cb.ComparisonDisplay(ROWS, reference=0.01, reference_name="as it is").plot()
    assert list(display.ax_.lines[0].get_xdata()) == [0.01, 0.01]
    assert display.ax_.texts[0].get_text() == "as it is"


def test_scores_tuples_and_objects_are_the_same_rows() -> None:
    name, value, low, high = ROWS[1]
    as_score = Score(name, value, low, high, 0.95, 10, "none")
    for row in (ROWS[1], Row(*ROWS[1]), as_score):
        assert tuple(cb.ComparisonDisplay([row]).rows[0]) == ROWS[1]


@pytest.mark.parametrize("score", ["log_loss", "brier"])
def test_of_a_comparison_draws_the_differences_to_its_baseline(score: Any) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(300)
    found = cb.compare(p**2, rng.random(300) < p, methods=["sigmoid", "histogram", "beta"])
    display = cb.ComparisonDisplay.from_comparison(found, score=score)
    expected = {each.name: getattr(each, f"{score}_difference") for each in found.methods if each.name != "none"}
    assert {row.name: row.value for row in display.rows} == {name: d.value for name, d in expected.items()}
    assert {row.name: (row.low, row.high) for row in display.rows} == {n: (d.low, d.high) for n, d in expected.items()}
    title = {"log_loss": "Held-out log loss", "brier": "Held-out Brier score"}[score]
    assert display.ax_.get_xlabel().startswith(f"{title}, less that of the uncalibrated scores")


def test_what_is_no_comparison_is_refused() -> None:
    with pytest.raises(CalibrantError, match=r"comparison is a list\. Pass what calibrant\.compare returns"):
        cb.ComparisonDisplay.from_comparison([])  # type: ignore[arg-type]


def test_names_are_shown_as_they_are() -> None:
    ax = cb.ComparisonDisplay([("_a $\\frac{$", 0.0, 0.0, 0.0)]).plot().ax_
    ax.get_figure().canvas.draw()
    assert ax.get_yticklabels()[0].get_text().endswith("_a \\$\\frac{\\$")


def test_given_axes_are_the_callers_and_no_setting_changes() -> None:
    before = dict(mpl.rcParams)
    figure, (ax, other) = plt.subplots(1, 2)
    display = cb.ComparisonDisplay(ROWS).plot(ax)
    assert (display.ax_, display.figure_) == (ax, figure)
    assert not other.has_data()
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "rows is empty"),
        ([("a", 0.1)], r"rows holds \('a', 0.1\), which is no \(name, value, low, high\)"),
        ([3], r"rows holds 3, which is no \(name, value, low, high\)"),
        ([("a", "x", 0.0, 1.0)], r"of 'a' are not three numbers"),
        ([("a", 0.5, 0.6, 0.7)], r"the value 0.5 of 'a' is outside its interval \[0.6, 0.7\]"),
    ],
)
def test_refusals_say_what_is_wrong(rows: Any, message: str) -> None:
    with pytest.raises(CalibrantError, match=message):
        cb.ComparisonDisplay(rows)
