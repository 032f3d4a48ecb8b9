"""The reliability diagram: it shows the curve's numbers, and touches nothing that is the caller's."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

import calibrant as cb
from calibrant.displays import ScoreHistogram
from calibrant.displays.style import COLOURS, MARKERS
from calibrant.errors import CalibrantError, InvalidInputError, InvalidTypeError, ShapeError
from calibrant.results import Curve
from calibrant.rows import Rows


def make_curve(m: int = 4, *, label: str = "") -> Curve:
    x = (np.arange(m) + 0.5) / m
    y = x**2
    edges = np.column_stack((np.arange(m) / m, np.arange(1, m + 1) / m))
    low, high = np.maximum(y - 0.1, 0.0), np.minimum(y + 0.1, 1.0)
    return Curve(x, y, low, high, np.full(m, 250.0), edges, 0.9, "uniform", label)


def make_histogram(weight: np.ndarray | None = None) -> ScoreHistogram:
    p = np.linspace(0.0, 1.0, 1000)
    return ScoreHistogram.from_rows(Rows.of_positives(p, p**2 > 0.4, weight))


def texts(legend: Any) -> list[str]:
    return [text.get_text() for text in legend.get_texts()]


def test_points_and_bars_are_the_curve() -> None:
    curve = make_curve()
    _, ax = plt.subplots()
    display = cb.ReliabilityDisplay(curve).plot(ax)
    assert display.line_.get_xdata().tolist() == curve.x.tolist()
    assert display.line_.get_ydata().tolist() == curve.y.tolist()
    (bars,) = ax.collections
    segments = np.array(bars.get_segments())
    assert segments[:, :, 0].tolist() == np.column_stack((curve.x, curve.x)).tolist()
    assert segments[:, :, 1].tolist() == np.column_stack((curve.low, curve.high)).tolist()


def test_axes_are_the_unit_square_with_its_diagonal_and_names() -> None:
    display = cb.ReliabilityDisplay(make_curve()).plot()
    ax = display.ax_
    assert (ax.get_xlim(), ax.get_ylim(), ax.get_aspect()) == ((0.0, 1.0), (0.0, 1.0), 1.0)
    diagonal = next(line for line in ax.lines if line.get_label() == "perfectly calibrated")
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
    assert ax.get_ylabel() == "Observed frequency"
    assert display.ax_histogram_ is not None
    assert display.ax_histogram_.get_xlabel() == "Predicted probability"


def test_own_figure_shows_rows_and_events_below_at_the_same_width() -> None:
    histogram = make_histogram()
    display = cb.ReliabilityDisplay(make_curve(), histogram=histogram).plot()
    figure, below = display.figure_, display.ax_histogram_
    assert figure is not None
    assert below is not None
    figure.canvas.draw()
    rows, events = (patch.get_data().values.tolist() for patch in below.patches)
    assert (rows, events) == (histogram.n.tolist(), histogram.events.tolist())
    upper, lower = display.ax_.get_window_extent(), below.get_window_extent()
    assert upper.x0 == pytest.approx(lower.x0, abs=1.0)
    assert upper.x1 == pytest.approx(lower.x1, abs=1.0)
    assert upper.width == pytest.approx(upper.height, abs=1.0)
    assert f"n = 1,000 rows, {histogram.events.sum():.0f} events" in "\n".join(texts(figure.legends[0]))


@pytest.mark.parametrize("n_curves", [1, 2, 6])
def test_own_figure_leaves_no_gap_under_its_legend_nor_beside_the_diagram(n_curves: int) -> None:
    curves = [make_curve(label=f"model {i}") for i in range(n_curves)]
    display = cb.ReliabilityDisplay(curves, histogram=[make_histogram()] * n_curves).plot()
    display.figure_.canvas.draw()
    ax, inch = display.ax_.get_window_extent(), display.figure_.dpi
    assert 0.0 <= display.figure_.legends[0].get_window_extent().y0 - ax.y1 <= 0.3 * inch
    assert 0.0 <= ax.y0 - display.ax_histogram_.get_window_extent().y1 <= 0.3 * inch
    assert ax.width == pytest.approx(
        display.ax_.get_position(original=True).width * display.figure_.bbox.width, abs=1.0
    )


def test_what_all_curves_share_is_written_once_and_what_differs_beside_each() -> None:
    one, two = make_curve(label="one"), make_curve(label="two")
    shared = cb.ReliabilityDisplay([one, two]).plot()
    assert texts(shared.figure_.legends[0]) == [
        "perfectly calibrated",
        "one",
        "two",
        "n = 1,000, 328.1 events, 90% interval",
    ]
    other = dataclasses.replace(two, y=two.y / 2.0, level=0.8)
    differing = cb.ReliabilityDisplay([one, other]).plot()
    assert texts(differing.figure_.legends[0]) == [
        "perfectly calibrated",
        "one, 90% interval\n328.1 events",
        "two, 80% interval\n164.1 events",
        "n = 1,000",
    ]


def test_legend_and_labels_lie_inside_the_figure_and_outside_the_data() -> None:
    curves = [make_curve(label="a model whose name is so long that it has to be wrapped " * 3), make_curve(label="b")]
    figure = cb.ReliabilityDisplay(curves).plot().figure_
    assert figure is not None
    figure.canvas.draw()
    (legend,) = figure.legends
    frame = legend.get_window_extent()
    assert frame.y0 >= figure.axes[0].get_window_extent().y1
    assert frame.x0 >= 0.0
    assert frame.x1 <= figure.bbox.x1
    assert frame.y1 <= figure.bbox.y1


def test_without_histogram_each_bin_is_a_stem_of_its_weight() -> None:
    curve = make_curve()
    display = cb.ReliabilityDisplay(curve).plot()
    assert display.ax_histogram_ is not None
    (stems,) = display.ax_histogram_.collections
    assert [segment[1].tolist() for segment in stems.get_segments()] == np.column_stack((curve.x, curve.n)).tolist()
    assert "n = 1,000, 328.1 events" in "\n".join(texts(display.figure_.legends[0]))


def test_given_axes_are_drawn_on_and_stay_the_callers() -> None:
    figure, (ax, other) = plt.subplots(1, 2)
    ax.set_title("mine")
    display = cb.ReliabilityDisplay(make_curve(), histogram=make_histogram()).plot(ax)
    assert (display.ax_, display.figure_, display.ax_histogram_) == (ax, figure, None)
    assert ax.get_title() == "mine"
    assert ax.get_xlabel() == "Predicted probability"
    assert not other.has_data()
    assert figure.axes == [ax, other]


def test_given_histogram_axes_are_drawn_on() -> None:
    _, (ax, below) = plt.subplots(2, 1)
    display = cb.ReliabilityDisplay(make_curve(), histogram=make_histogram()).plot(ax, ax_histogram=below)
    assert display.ax_histogram_ is below
    assert len(below.patches) == 2


def test_nothing_is_shown_and_no_setting_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(plt, "show", lambda *args, **_: shown.append(args))
    before = dict(mpl.rcParams)
    cb.ReliabilityDisplay(make_curve(), histogram=make_histogram()).plot()
    assert dict(mpl.rcParams) == before
    assert shown == []


def test_several_curves_differ_in_colour_and_marker() -> None:
    curves = [make_curve(label=f"model {i}") for i in range(len(MARKERS))]
    display = cb.ReliabilityDisplay(curves, histogram=[make_histogram()] * len(curves)).plot()
    assert len({line.get_color() for line in display.lines_}) == len(curves)
    assert len({line.get_marker() for line in display.lines_}) == len(curves)
    assert display.line_ is display.lines_[0]


def test_more_curves_than_colours_differ_in_the_line() -> None:
    display = cb.ReliabilityDisplay([make_curve() for _ in range(2 * len(COLOURS))]).plot()
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in display.lines_}
    assert len(looks) == 2 * len(COLOURS)


def test_displays_on_the_same_axes_share_one_diagonal_and_differ() -> None:
    _, ax = plt.subplots()
    first = cb.ReliabilityDisplay(make_curve()).plot(ax, name="first")
    second = cb.ReliabilityDisplay(make_curve()).plot(ax, name="second")
    assert [line.get_label() for line in ax.lines].count("perfectly calibrated") == 1
    assert first.line_.get_color() != second.line_.get_color()
    assert [text.split(",")[0] for text in texts(ax.get_legend())] == ["perfectly calibrated", "first", "second"]


def test_many_bins_get_a_band_instead_of_bars() -> None:
    _, ax = plt.subplots()
    cb.ReliabilityDisplay(make_curve(60)).plot(ax)
    (band,) = ax.collections
    assert type(band).__name__ in {"FillBetweenPolyCollection", "PolyCollection"}


def test_names_with_dollars_or_underscores_are_shown_as_they_are() -> None:
    curves = [make_curve(label="_hidden"), make_curve(label="$\\frac{$ and $")]
    figure = cb.ReliabilityDisplay(curves).plot().figure_
    assert figure is not None
    figure.savefig(io.BytesIO())  # drawing parses what matplotlib takes for mathematics
    labels = texts(figure.legends[0])
    assert any(label.endswith("_hidden") for label in labels)
    assert r"\$\frac{\$ and \$" in labels


def test_isotonic_blocks_are_steps_from_their_first_score_to_their_last() -> None:
    curve = cb.reliability_curve([0, 0, 1, 1], [0.1, 0.2, 0.6, 0.7], strategy="isotonic")
    _, ax = plt.subplots()
    line = cb.ReliabilityDisplay(curve).plot(ax).line_
    assert line.get_xdata().tolist() == [0.1, 0.2, 0.6, 0.7]
    assert line.get_ydata().tolist() == [0.0, 0.0, 1.0, 1.0]
    assert len(ax.collections) == 1, "the interval is a band"


def test_several_isotonic_curves_differ_in_line_and_hide_no_other_behind_a_band() -> None:
    curve = dataclasses.replace(make_curve(), strategy="isotonic")
    display = cb.ReliabilityDisplay([curve] * 4).plot()
    assert len({line.get_linestyle() for line in display.lines_}) == 4
    assert list(display.ax_.collections) == []
    assert "interval" not in "".join(texts(display.figure_.legends[0]))


def test_consistency_band_is_shaded_where_the_curve_has_one_and_named_once() -> None:
    plain = make_curve()
    banded = dataclasses.replace(plain, band_low=plain.x - 0.05, band_high=plain.x + 0.05)
    _, ax = plt.subplots()
    cb.ReliabilityDisplay([banded, plain, banded]).plot(ax)
    bands = [c for c in ax.collections if "FillBetween" in type(c).__name__ or "Poly" in type(c).__name__]
    assert len(bands) == 2
    corners = {tuple(vertex) for vertex in bands[0].get_paths()[0].vertices.round(6).tolist()}
    assert set(zip(plain.x.round(6), (plain.x - 0.05).round(6), strict=True)) <= corners
    assert set(zip(plain.x.round(6), (plain.x + 0.05).round(6), strict=True)) <= corners
    assert texts(ax.get_legend()).count("90% of calibrated forecasts") == 1
    assert min(line.get_zorder() for line in ax.lines) > bands[0].get_zorder()


def test_band_of_a_single_bin_has_the_width_of_the_bin() -> None:
    one = make_curve(1)
    banded = dataclasses.replace(one, band_low=np.array([0.4]), band_high=np.array([0.6]))
    _, ax = plt.subplots()
    cb.ReliabilityDisplay(banded).plot(ax)
    band = next(c for c in ax.collections if "Fill" in type(c).__name__ or "Poly" in type(c).__name__)
    box = band.get_paths()[0].get_extents()
    assert (box.x0, box.x1, box.y0, box.y1) == (0.0, 1.0, 0.4, 0.6)


@pytest.mark.parametrize("n_curves", [2, 3, 4, 6])
def test_legend_of_several_models_lies_inside_the_figure(n_curves: int) -> None:
    curves = [make_curve(label=f"gradient boosting number {i}") for i in range(n_curves)]
    figure = cb.ReliabilityDisplay(curves, histogram=[make_histogram()] * n_curves).plot().figure_
    assert figure is not None
    figure.canvas.draw()
    frame = figure.legends[0].get_window_extent()
    assert (frame.x0 >= 0.0, frame.x1 <= figure.bbox.x1, frame.y1 <= figure.bbox.y1) == (True, True, True)
    assert frame.y0 >= figure.axes[0].get_window_extent().y1
    assert figure.axes[0].get_window_extent().width > 0.6 * figure.bbox.width


def test_close_up_ends_where_it_is_told() -> None:
    display = cb.ReliabilityDisplay(make_curve()).plot(upper=0.2)
    assert display.ax_.get_xlim() == display.ax_.get_ylim() == (0.0, 0.2)


@pytest.mark.slow
def test_weights_are_named_as_weights() -> None:
    histogram = make_histogram(np.full(1000, 0.5))
    display = cb.ReliabilityDisplay(make_curve(), histogram=histogram).plot()
    assert display.ax_histogram_ is not None
    assert display.ax_histogram_.get_ylabel() == "Weight"
    assert "n = 1,000 rows of total weight 500" in texts(display.figure_.legends[0])[1]


@pytest.mark.slow
def test_drawing_twice_gives_the_same_picture() -> None:
    pictures = []
    for _ in range(2):
        buffer = io.BytesIO()
        figure = cb.ReliabilityDisplay(make_curve(), histogram=make_histogram()).plot().figure_
        assert figure is not None
        figure.savefig(buffer, format="png")
        pictures.append(buffer.getvalue())
    assert pictures[0] == pictures[1]


class TestFromPredictions:
    rng = np.random.default_rng(7)
    p = rng.random(400)
    y = rng.random(400) < p

    def test_is_the_curve_of_the_metrics(self) -> None:
        expected = cb.reliability_curve(self.y, self.p, n_bins=5, strategy="uniform", level=0.8)
        display = cb.ReliabilityDisplay.from_predictions(
            self.y, self.p, n_bins=5, strategy="uniform", level=0.8, name="model"
        )
        (curve,) = display.curves
        for field in ("x", "y", "low", "high", "n", "edges"):
            assert getattr(curve, field).tolist() == getattr(expected, field).tolist()
        assert texts(display.figure_.legends[0])[1] == f"model, 80% interval\nn = 400 rows, {self.y.sum()} events"

    def test_takes_string_labels_with_the_smaller_one_positive(self) -> None:
        names = np.where(self.y, "a yes", "no")
        display = cb.ReliabilityDisplay.from_predictions(names, self.p, pos_label="a yes")
        expected = cb.ReliabilityDisplay.from_predictions(self.y, self.p)
        assert display.curves[0].y.tolist() == expected.curves[0].y.tolist()
        assert display.histograms[0].events.tolist() == expected.histograms[0].events.tolist()

    def test_of_several_classes_draws_the_top_label(self) -> None:
        p = self.rng.dirichlet([1.0, 1.0, 1.0], 400)
        y = self.rng.integers(0, 3, 400)
        display = cb.ReliabilityDisplay.from_predictions(y, p)
        right = int((p.argmax(axis=1) == y).sum())
        assert display.histograms[0].events.sum() == right
        assert (display.curves[0].n * display.curves[0].y).sum() == pytest.approx(right)
        assert display.curves[0].x.min() > 1.0 / 3.0

    def test_of_a_mapping_draws_each_model_under_its_name(self) -> None:
        display = cb.ReliabilityDisplay.from_predictions(self.y, {"plain": self.p, "squared": self.p**2}, n_bins=4)
        for curve, p in zip(display.curves, (self.p, self.p**2), strict=True):
            assert curve.y.tolist() == cb.reliability_curve(self.y, p, n_bins=4).y.tolist()
        rows = f"n = 400 rows, {self.y.sum()} events, 95% interval"
        assert texts(display.figure_.legends[0]) == ["perfectly calibrated", "plain", "squared", rows]

    @pytest.mark.parametrize(
        ("models", "name", "message"),
        [
            ({}, None, "y_prob is an empty mapping"),
            ({1: p}, None, "y_prob has the key 1, which is not text"),
            ({"a": p}, "model", "name='model' is for one model, but y_prob names 1"),
        ],
    )
    def test_refuses_what_names_no_models(self, models: Any, name: str | None, message: str) -> None:
        with pytest.raises(CalibrantError, match=message):
            cb.ReliabilityDisplay.from_predictions(self.y, models, name=name)

    def test_draws_on_given_axes(self) -> None:
        _, ax = plt.subplots()
        assert cb.ReliabilityDisplay.from_predictions(self.y, self.p, ax=ax).ax_ is ax

    def test_constant_scores_and_a_single_class_are_drawn(self) -> None:
        constant = cb.ReliabilityDisplay.from_predictions(self.y, np.full(400, 0.3))
        assert constant.curves[0].x.tolist() == pytest.approx([0.3])
        single = cb.ReliabilityDisplay.from_predictions(np.zeros(400, dtype=int), self.p)
        assert single.curves[0].y.tolist() == [0.0] * 10

    def test_refuses_what_is_no_probability(self) -> None:
        with pytest.raises(InvalidInputError, match=r"y_prob row 0: 1.5 is outside \[0, 1\]"):
            cb.ReliabilityDisplay.from_predictions([0, 1], [1.5, 0.2])
        assert plt.get_fignums() == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([],), ShapeError, "curve is an empty sequence"),
        (([[0.1, 0.2]],), InvalidTypeError, "curve holds a list. Pass what reliability_curve returns"),
    ],
)
def test_refuses_what_is_no_curve(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cb.ReliabilityDisplay(*arguments)


def test_refuses_another_number_of_histograms_or_names() -> None:
    with pytest.raises(ShapeError, match="2 curves and 1 histograms"):
        cb.ReliabilityDisplay([make_curve(), make_curve()], histogram=make_histogram())
    with pytest.raises(ShapeError, match="2 names for 1 curves"):
        cb.ReliabilityDisplay(make_curve()).plot(name=["a", "b"])


def test_a_further_curve_in_the_display_s_own_figure_goes_into_the_same_legend() -> None:
    display = cb.ReliabilityDisplay(make_curve(label="old"), histogram=make_histogram()).plot()
    display.figure_.canvas.draw()
    cb.ReliabilityDisplay(make_curve(label="new")).plot(display.ax_)
    (legend,) = display.figure_.legends
    assert display.ax_.get_legend() is None
    named = [text.split(",")[0] for text in texts(legend)]
    assert named == ["perfectly calibrated", "old", "new", "all rows", "events"]
    display.figure_.canvas.draw()
    assert display.ax_.get_tightbbox().y1 <= legend.get_window_extent().y0 <= display.figure_.bbox.y1


def test_a_legend_of_the_caller_s_own_figure_is_left_as_it_is() -> None:
    figure, ax = plt.subplots()
    ax.plot([0, 1], [1, 0], label="mine")
    mine = figure.legend()
    size = figure.get_size_inches().tolist()
    cb.ReliabilityDisplay(make_curve()).plot(ax)
    assert figure.legends == [mine]
    assert figure.get_size_inches().tolist() == size
