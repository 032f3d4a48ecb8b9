"""The drop-in for scikit-learn's CalibrationDisplay: the same picture, and intervals, band and histogram on request."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.calibration import CalibrationDisplay as Reference
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

import calibrant as cb
from calibrant.errors import CalibrantError, InvalidInputError, InvalidTypeError, ShapeError

X, Y = make_classification(600, random_state=3, flip_y=0.2)
MODEL = GaussianNB().fit(X[:300], Y[:300])
P = MODEL.predict_proba(X)[:, 1]


def content(display: Any) -> dict[str, Any]:
    """Return all that a display on axes of its own shows, but for blanks at the end of names."""
    ax = display.ax_
    return {
        "lines": [
            (
                line.get_xdata().tolist() if isinstance(line.get_xdata(), np.ndarray) else line.get_xdata(),
                line.get_ydata().tolist() if isinstance(line.get_ydata(), np.ndarray) else line.get_ydata(),
                line.get_color(),
                line.get_marker(),
                line.get_linestyle(),
                line.get_linewidth(),
                line.get_alpha(),
                line.get_label(),
            )
            for line in ax.lines
        ],
        "names": (ax.get_xlabel().strip(), ax.get_ylabel().strip(), ax.get_title()),
        "legend": [text.get_text() for text in ax.get_legend().get_texts()],
        "place": ax.get_legend()._loc,
        "limits": (ax.get_xlim(), ax.get_ylim()),
        "other": len(ax.collections) + len(ax.patches),
        "attributes": (
            display.prob_true.tolist(),
            display.prob_pred.tolist(),
            display.estimator_name,
            display.pos_label,
        ),
    }


OPTIONS: list[dict[str, Any]] = [
    {},
    {"n_bins": 10, "strategy": "quantile"},
    {"name": "my model", "pos_label": 0},
    {"c": "red", "lw": 3, "ls": "--", "alpha": 0.5},
    {"marker": "o", "color": "green", "label": "given"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_picture_is_that_of_scikit_learn(options: dict[str, Any]) -> None:
    for made in ("from_estimator", "from_predictions"):
        arguments = (MODEL, X, Y) if made == "from_estimator" else (Y, P)
        expected = content(getattr(Reference, made)(*arguments, **options))
        assert content(getattr(cb.CalibrationDisplay, made)(*arguments, **options)) == expected


def test_plot_takes_axes_name_and_no_diagonal() -> None:
    drawn = []
    for kind in (Reference, cb.CalibrationDisplay):
        _, ax = plt.subplots()
        display = kind(np.array([0.2, 0.7]), np.array([0.3, 0.6]), np.array([]), estimator_name="first")
        assert display.plot(ax=ax, ref_line=False) is display
        assert (display.ax_, display.figure_) == (ax, ax.figure)
        display.plot(ax=ax, name="second")
        display.plot(ax=ax)
        drawn.append(content(display))
    assert drawn[0] == drawn[1]
    assert drawn[1]["legend"].count("Perfectly calibrated") == 1


def test_without_any_name_there_is_no_legend_and_no_warning() -> None:
    display = cb.CalibrationDisplay(np.array([0.2]), np.array([0.3]), np.array([])).plot(ref_line=False)
    assert display.ax_.get_legend() is None
    assert display.ax_.get_xlabel() == "Mean predicted probability"


def test_intervals_and_band_are_those_of_the_reliability_curve() -> None:
    """Equal widths make the bins of the curve the same, and so its intervals and its band."""
    curve = cb.reliability_curve(Y, P, n_bins=7, strategy="uniform", level=0.8, band="consistency")
    display = cb.CalibrationDisplay.from_predictions(Y, P, n_bins=7, level=0.8, band="consistency")
    assert display.curve is not None
    for field in ("x", "y", "low", "high", "n", "edges", "band_low", "band_high"):
        assert getattr(display.curve, field) == pytest.approx(getattr(curve, field), abs=1e-12)
    shade, bars = display.ax_.collections
    segments = np.array(bars.get_segments())
    assert segments[:, :, 0] == pytest.approx(np.column_stack((curve.x, curve.x)))
    assert segments[:, :, 1] == pytest.approx(np.column_stack((curve.low, curve.high)))
    assert mpl.colors.same_color(bars.get_color(), display.line_.get_color())
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["Perfectly calibrated", "Classifier", "80% of calibrated forecasts"]
    assert shade.get_zorder() < display.line_.get_zorder()


def test_band_alone_draws_no_intervals_and_two_displays_name_it_once() -> None:
    first = cb.CalibrationDisplay.from_predictions(Y, P, band="consistency", name="a")
    assert len(first.ax_.collections) == 1
    cb.CalibrationDisplay.from_predictions(Y, P**2, band="consistency", name="b", ax=first.ax_)
    legend = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert legend.count("95% of calibrated forecasts") == 1


@pytest.mark.parametrize("strategy", ["quantile", "isotonic", [0.0, 0.25, 1.0]])
def test_every_kind_of_bins_is_drawn_with_intervals_and_band(strategy: Any) -> None:
    display = cb.CalibrationDisplay.from_predictions(Y, P, strategy=strategy, level=0.9, band="consistency")
    prob_true, prob_pred = cb.calibration_curve(Y, P, strategy=strategy)
    assert display.line_.get_xdata().tolist() == prob_pred.tolist()
    assert display.line_.get_ydata().tolist() == prob_true.tolist()
    curve = display.curve
    assert curve is not None
    assert (curve.low <= prob_true).all()
    assert (prob_true <= curve.high).all()
    assert curve.band_low is not None
    assert curve.band_high is not None
    assert (curve.band_low <= curve.band_high).all()


def test_histogram_is_drawn_below_in_a_figure_of_its_own() -> None:
    display = cb.CalibrationDisplay.from_estimator(MODEL, X, Y, histogram=True)
    below = display.ax_histogram_
    assert below is not None
    rows, events = (patch.get_data().values for patch in below.patches)
    assert (rows.sum(), events.sum()) == (600, Y.sum())
    assert below.get_xlabel() == "Mean predicted probability (Positive class: 1)"
    assert display.figure_ is not None
    display.figure_.canvas.draw()
    upper, lower = display.ax_.get_window_extent(), below.get_window_extent()
    assert upper.x0 == pytest.approx(lower.x0, abs=1.0)
    assert upper.width == pytest.approx(upper.height, abs=1.0)
    _, (ax, other) = plt.subplots(1, 2)
    assert display.plot(ax=ax).ax_histogram_ is None
    assert display.plot(ax=ax, ax_histogram=other).ax_histogram_ is other


def test_weight_two_is_two_rows_in_the_picture() -> None:
    weight = np.random.default_rng(1).integers(0, 3, Y.size)
    options: dict[str, Any] = {"n_bins": 6, "level": 0.9, "strategy": "quantile"}
    weighted = cb.CalibrationDisplay.from_predictions(Y, P, sample_weight=weight, **options)
    repeated = cb.CalibrationDisplay.from_predictions(np.repeat(Y, weight), np.repeat(P, weight), **options)
    assert weighted.prob_true == pytest.approx(repeated.prob_true, abs=1e-12)
    assert weighted.prob_pred == pytest.approx(repeated.prob_pred, abs=1e-12)


def test_nothing_is_shown_and_no_setting_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(plt, "show", lambda *args, **_: shown.append(args))
    before = dict(mpl.rcParams)
    cb.CalibrationDisplay.from_predictions(Y, P, histogram=True, level=0.9)
    assert dict(mpl.rcParams) == before
    assert shown == []


def test_refusals_of_estimators_say_what_they_are() -> None:
    three = LogisticRegression().fit(X[:30], np.arange(30) % 3)
    make = cb.CalibrationDisplay.from_estimator
    with pytest.raises(InvalidInputError, match=r"to be a binary classifier\. Got 3 classes instead"):
        make(three, X, Y)
    with pytest.raises(InvalidInputError, match="Got DecisionTreeRegressor instead"):
        make(DecisionTreeRegressor().fit(X, Y), X, Y)
    with pytest.raises(InvalidTypeError, match="LinearSVC has none of the following attributes: predict_proba"):
        make(LinearSVC().fit(X, Y), X, Y)
    with pytest.raises(NotFittedError):
        make(GaussianNB(), X, Y)
    with pytest.raises(InvalidTypeError, match=r"estimator is a list. Pass a fitted classifier"):
        make([0.1, 0.2], X, Y)
    with pytest.raises(InvalidInputError, match=r"pos_label=2 is none of the classes \[0, 1\]"):
        make(MODEL, X, Y, pos_label=2)
    with pytest.raises(ShapeError, match="inconsistent numbers of samples: y_true has 600 rows and y_prob has 9"):
        make(MODEL, X[:9], Y)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"level": 1.5}, InvalidInputError, r"level=1.5 is outside \(0, 1\)"),
        ({"band": "confidence"}, InvalidInputError, "unknown value of band: 'confidence'"),
        ({"c": "red", "color": "blue"}, TypeError, "aliases"),
    ],
)
def test_refusals_of_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cb.CalibrationDisplay.from_predictions(Y, P, **options)


def test_refuses_what_is_no_probability_before_a_figure_is_made() -> None:
    with pytest.raises(CalibrantError, match=r"y_prob row 0: nan is not finite"):
        cb.CalibrationDisplay.from_predictions([0, 1], [np.nan, 0.2])
    assert plt.get_fignums() == []
