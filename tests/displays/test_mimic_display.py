"""The picture of mimic calibration: bins of each pass, curves of three methods, and nothing of the caller's touched."""

from __future__ import annotations

import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb

import calibrant as cb
from calibrant.displays.mimic import MAX_PASSES
from calibrant.errors import InvalidInputError, InvalidTypeError, NotFittedError

RNG = np.random.default_rng(5)
P = RNG.random(600)
Y = RNG.random(600) < P**2


def key(ax: plt.Axes) -> list[str]:
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def brightness(colour: object) -> float:
    return sum(to_rgb(colour))


def draw(**params: object) -> cb.MimicDisplay:
    return cb.MimicDisplay.from_calibrator(cb.MimicCalibrator(**params), P, Y)


def test_bars_and_points_are_the_tables_of_the_history() -> None:
    display = draw()
    history = cb.MimicCalibrator(record_history=True).fit(P, Y).history_
    assert 3 < len(history) <= MAX_PASSES
    for bars, table in zip(display.bars_, history, strict=True):
        segments = np.array(bars.get_segments())
        np.testing.assert_array_equal(segments[:, :, 0], np.column_stack((table.score_min, table.score_max)))
        np.testing.assert_array_equal(segments[:, :, 1], np.column_stack((table.rate, table.rate)))
    assert display.points_.get_xdata().tolist() == history[-1].boundary.tolist()
    assert display.points_.get_ydata().tolist() == history[-1].rate.tolist()


def test_passes_go_from_light_to_dark() -> None:
    light = [brightness(bars.get_color()[0][:3]) for bars in draw().bars_]
    assert light == sorted(light, reverse=True)
    assert len(set(light)) == len(light)


@pytest.mark.parametrize("kind", ["probability", "logit", "score"])
def test_curves_are_what_each_method_predicts(kind: str) -> None:
    scores = P if kind == "probability" else np.log(P) - np.log1p(-P)
    display = cb.MimicDisplay.from_calibrator(cb.MimicCalibrator(8, input=kind), scores, Y)
    rivals = {
        "mimic": cb.MimicCalibrator(8, input=kind),
        "isotonic": cb.IsotonicCalibrator(input=kind),
        "sigmoid (Platt)": cb.SigmoidCalibrator(input=kind),
    }
    assert list(display.lines_) == list(rivals)
    for name, rival in rivals.items():
        x, y = display.lines_[name].get_data()
        assert x.size > 1000
        np.testing.assert_array_equal(y, rival.fit(scores, Y).predict_proba(x))
    low, high = (0.0, 1.0) if kind == "probability" else (scores.min(), scores.max())
    assert display.ax_.get_xlim() == pytest.approx((low, high))
    expected = {"probability": "Predicted probability", "logit": "Logit", "score": "Score"}[kind]
    assert display.ax_.get_xlabel() == display.ax_history_.get_xlabel() == expected


def test_curves_include_every_knot() -> None:
    x, y = draw().lines_["isotonic"].get_data()
    fitted = cb.IsotonicCalibrator().fit(P, Y).map_
    assert set(fitted.x) <= set(x)
    assert set(fitted.y) <= set(y)


@pytest.mark.slow
def test_weights_reach_every_fit() -> None:
    w = RNG.integers(1, 4, P.size)
    weighted = cb.MimicDisplay.from_calibrator(cb.MimicCalibrator(), P, Y, sample_weight=w)
    repeated = cb.MimicDisplay.from_calibrator(cb.MimicCalibrator(), np.repeat(P, w), np.repeat(Y, w))
    x = np.linspace(0, 1, 50)
    for name in ("isotonic", "sigmoid (Platt)"):
        one, other = (display.rivals[name].predict_proba(x) for display in (weighted, repeated))
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert f"n = {w.sum():,}, {w[Y].sum():,} events" in key(weighted.ax_)[1]


def test_own_figure_has_two_square_panels_with_their_keys_above_and_inside() -> None:
    display = draw()
    figure = display.figure_
    assert figure is not None
    figure.canvas.draw()
    assert figure.axes == [display.ax_history_, display.ax_]
    for ax in figure.axes:
        frame, panel = ax.get_legend().get_window_extent(), ax.get_window_extent()
        assert panel.width == pytest.approx(panel.height, abs=1.0)
        assert frame.y0 >= panel.y1 - 1.0
        assert frame.y1 <= figure.bbox.y1
        assert 0.0 <= frame.x0 < frame.x1 <= figure.bbox.x1
    assert (display.ax_history_.get_ylabel(), display.ax_.get_ylabel()) == (
        "Observed frequency",
        "Calibrated probability",
    )
    assert display.ax_.get_xlim() == display.ax_.get_ylim() == (0.0, 1.0)


def test_keys_name_the_bins_and_the_rows() -> None:
    display = draw()
    sizes = [table.size for table in display.passes]
    named = key(display.ax_history_)
    assert named[0] == f"first: {sizes[0]} bins"
    assert named[-2:] == [f"after pass {len(sizes) - 1} (last): {sizes[-1]} bins", "recorded points"]
    assert key(display.ax_) == [
        "scores as they are",
        f"mimic, {sizes[-1]} bins\nn = 600, {Y.sum()} events",
        "isotonic",
        "sigmoid (Platt)",
    ]


def test_of_many_passes_some_are_drawn_the_first_and_the_last_among_them() -> None:
    y = np.r_[np.tile([0, 1], 100), np.zeros(100, int)]
    display = cb.MimicDisplay.from_calibrator(cb.MimicCalibrator(1), np.linspace(0, 1, y.size), y)
    assert len(display.passes) == 101
    assert len(display.bars_) == MAX_PASSES
    assert [len(bars.get_segments()) for bars in (display.bars_[0], display.bars_[-1])] == [101, 1]
    assert len(key(display.ax_history_)) <= 6


def test_without_a_history_the_final_bins_are_drawn() -> None:
    fitted = cb.MimicCalibrator().fit(P, Y)
    display = cb.MimicDisplay(fitted).plot()
    assert list(display.lines_) == ["mimic"]
    (bars,) = display.bars_
    assert len(bars.get_segments()) == fitted.boundary_table_.size
    assert key(display.ax_history_)[0] == f"final: {fitted.boundary_table_.size} bins"


def test_given_axes_take_bins_and_curves_and_stay_the_callers() -> None:
    figure, (ax, other) = plt.subplots(1, 2)
    ax.set_title("mine")
    display = cb.MimicDisplay.from_calibrator(cb.MimicCalibrator(), P, Y, ax=ax)
    assert display.ax_ is display.ax_history_ is ax
    assert display.figure_ is figure
    assert plt.get_fignums() == [figure.number]
    assert ax.get_title() == "mine"
    assert not other.lines
    again = display.plot(ax, ax_history=other)
    assert again is display
    assert (display.ax_, display.ax_history_) == (ax, other)
    assert other.collections


@pytest.mark.slow
def test_close_up_of_rare_events_hides_what_lies_outside() -> None:
    display = draw().plot(upper=0.2)
    assert display.ax_.get_xlim() == display.ax_.get_ylim() == (0.0, 0.2)
    assert display.points_.get_clip_on()
    assert not draw().points_.get_clip_on()


def test_no_setting_is_touched_and_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plt, "show", lambda: pytest.fail("shown"))
    before = dict(mpl.rcParams)
    draw()
    assert dict(mpl.rcParams) == before


@pytest.mark.slow
def test_drawing_twice_gives_the_same_picture() -> None:
    pictures = []
    for _ in range(2):
        buffer = io.BytesIO()
        draw().figure_.savefig(buffer, format="png")
        pictures.append(buffer.getvalue())
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize("kind", ["probability", "score"])
def test_a_constant_score_is_drawn(kind: str) -> None:
    display = cb.MimicDisplay.from_calibrator(cb.MimicCalibrator(input=kind), [0.3] * 20, [0, 1] * 10)
    assert set(display.lines_["mimic"].get_ydata()) == {0.5}
    display.figure_.canvas.draw()


def test_the_calibrator_is_left_as_it_is() -> None:
    unfitted = cb.MimicCalibrator()
    cb.MimicDisplay.from_calibrator(unfitted, P, Y)
    assert not hasattr(unfitted, "map_")
    fitted = cb.MimicCalibrator().fit(P, Y)
    cb.MimicDisplay.from_calibrator(fitted, P[::-1], Y[::-1])
    assert fitted.history_ is None


def test_refuses_rows_that_the_calibrator_was_not_fitted_to() -> None:
    fitted = cb.MimicCalibrator().fit(P, Y)
    with pytest.raises(InvalidInputError, match=r"was fitted to other rows than these\. Pass its calibration rows"):
        cb.MimicDisplay.from_calibrator(fitted, P[:300], Y[:300])
    assert plt.get_fignums() == []


def test_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(InvalidTypeError, match=r"calibrator is a IsotonicCalibrator\. Pass a MimicCalibrator"):
        cb.MimicDisplay(cb.IsotonicCalibrator().fit(P, Y))
    with pytest.raises(InvalidTypeError, match="calibrator is a str"):
        cb.MimicDisplay.from_calibrator("mimic", P, Y)
    with pytest.raises(NotFittedError, match="not fitted"):
        cb.MimicDisplay(cb.MimicCalibrator())
    columns = RNG.dirichlet([1, 1, 1], 90)
    with pytest.raises(NotFittedError, match="fitted to 3 columns"):
        cb.MimicDisplay(cb.MimicCalibrator().fit(columns, np.arange(90) % 3))
    logits = cb.SigmoidCalibrator(input="logit").fit(P, Y)
    with pytest.raises(
        InvalidInputError, match=r"rivals: 'other' takes input='logit' of 2 classes.*input='probability'"
    ):
        cb.MimicDisplay(cb.MimicCalibrator().fit(P, Y), rivals={"other": logits})
