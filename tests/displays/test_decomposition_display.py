"""Miscalibration against discrimination: points, lines of equal score and the uncertainty are those of `decompose`."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

import calibrant as cb
from calibrant.errors import CalibrantError
from calibrant.metrics import Decomposition, decompose

RNG = np.random.default_rng(3)
TRUTH = RNG.random(500)
Y = RNG.random(500) < TRUTH
MODELS = {"plain": TRUTH, "squared": TRUTH**2, "$rough": np.clip(TRUTH + RNG.normal(0.0, 0.2, 500), 0.01, 0.99)}


@pytest.mark.parametrize("score", ["brier", "log"])
def test_points_are_the_parts_of_each_model(score: Any) -> None:
    display = cb.DecompositionDisplay.from_predictions(Y, MODELS, score=score)
    for name, prob in MODELS.items():
        parts = decompose(Y, prob, score=score)
        point = display.points_[name]
        assert (point.get_xdata()[0], point.get_ydata()[0]) == (parts.miscalibration, parts.discrimination)
    assert len({line.get_marker() for line in display.points_.values()}) == 3
    uncertainty = decompose(Y, TRUTH, score=score).uncertainty
    assert f"uncertainty {uncertainty:.4f}" in display.ax_.get_title(loc="left")


def test_every_isoline_joins_points_of_the_score_it_names() -> None:
    display = cb.DecompositionDisplay.from_predictions(Y, MODELS)
    lines = [segment for lines in display.ax_.collections for segment in lines.get_segments()]
    names = [text.get_text() for text in display.ax_.texts]
    assert len(lines) == len(names) >= 4
    for line, name in zip(lines, names, strict=True):
        scores = line[:, 0] - line[:, 1] + display.uncertainty
        expected = display.uncertainty if name == "no skill" else float(name)
        assert scores == pytest.approx([expected, expected], abs=1e-9)
    assert names.count("no skill") == 1


def test_legend_states_each_score() -> None:
    display = cb.DecompositionDisplay.from_predictions(Y, MODELS)
    (legend,) = display.figure_.legends
    assert legend.get_title().get_text() == "Brier score"
    expected = [f"{name}: {decompose(Y, p).score:.4f}".replace("$", r"\$") for name, p in MODELS.items()]
    assert [text.get_text() for text in legend.get_texts()] == expected


def test_legend_and_labels_lie_inside_the_figure_and_apart() -> None:
    models = {f"a model with quite a long name, number {i}": np.clip(TRUTH + 0.03 * i, 0.0, 1.0) for i in range(7)}
    figure = cb.DecompositionDisplay.from_predictions(Y, models).figure_
    figure.canvas.draw()
    frame, ax = figure.legends[0].get_window_extent(), figure.axes[0]
    assert frame.x1 <= figure.bbox.x1
    assert frame.y1 <= figure.bbox.y1
    boxes = [text.get_window_extent() for text in ax.texts]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
        assert not box.overlaps(ax.title.get_window_extent())
        assert box.x1 <= figure.bbox.x1


def test_infinite_score_is_named_and_not_drawn() -> None:
    models = {"finite": TRUTH, "sure": np.where(Y, 0.0, 0.5)}
    display = cb.DecompositionDisplay.from_predictions(Y, models, score="log")
    assert list(display.points_) == ["finite"]
    assert "sure: infinite, not shown" in [text.get_text() for text in display.figure_.legends[0].get_texts()]
    display.figure_.canvas.draw()


@pytest.mark.parametrize(
    ("y", "p"), [([0, 1] * 20, np.full(40, 0.5)), (np.zeros(40, dtype=int), np.full(40, 0.3)), ([1], [0.7])]
)
def test_forecasts_without_skill_and_single_classes_are_drawn(y: Any, p: Any) -> None:
    display = cb.DecompositionDisplay.from_predictions(y, p, name="constant")
    display.figure_.canvas.draw()
    assert all(math.isfinite(end) for end in (*display.ax_.get_xlim(), *display.ax_.get_ylim()))


def test_given_axes_are_the_callers_and_no_setting_changes() -> None:
    before = dict(mpl.rcParams)
    figure, (ax, other) = plt.subplots(1, 2)
    display = cb.DecompositionDisplay({"a": decompose(Y, TRUTH)}).plot(ax)
    assert (display.ax_, display.figure_) == (ax, figure)
    assert not other.has_data()
    assert figure.legends == []
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cb.DecompositionDisplay({}), "decompositions is empty"),
        (lambda: cb.DecompositionDisplay([]), "decompositions is a list. Pass a mapping"),
        (lambda: cb.DecompositionDisplay({"a": 0.2}), r"decompositions\['a'\] is a float"),
        (lambda: cb.DecompositionDisplay({"a": decompose(Y, TRUTH)}, score="logs"), "unknown value of score: 'logs'"),
        (
            lambda: cb.DecompositionDisplay({"a": decompose(Y, TRUTH), "b": decompose(Y[:99], TRUTH[:99])}),
            "the uncertainty of 'a' is .* and of 'b' .*: they were measured on different outcomes",
        ),
        (
            lambda: cb.DecompositionDisplay({"a": Decomposition(math.inf, 0.1, 0.2, math.inf)}, score="log"),
            "the score of every model is infinite",
        ),
    ],
)
def test_refusals_say_what_is_wrong(make: Any, message: str) -> None:
    with pytest.raises(CalibrantError, match=message):
        make()
