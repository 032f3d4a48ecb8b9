"""Small multiples: the top label and each class have a panel of their own, with the curve's numbers in it."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

import calibrant as cb
from calibrant.displays.diagram import DIAGONAL
from calibrant.errors import InvalidTypeError, ShapeError


def rows(k: int, n: int = 600) -> tuple[Any, Any]:
    rng = np.random.default_rng(k)
    p = rng.dirichlet(np.full(k, 0.7), n)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1)
    return y, p


def drawn(ax: Any) -> Any:
    return next(line for line in ax.lines if line.get_label() != DIAGONAL)


def test_panels_are_the_curves_of_the_top_label_and_of_each_class() -> None:
    y, p = rows(3)
    display = cb.MulticlassReliabilityDisplay.from_predictions(y, p, n_bins=5, level=0.8)
    expected = [cb.reliability_curve(y, p, n_bins=5, level=0.8)]
    expected += [cb.reliability_curve(y == k, p[:, k], n_bins=5, level=0.8) for k in range(3)]
    assert len(display.axes_) == 4
    for ax, curve in zip(display.axes_, expected, strict=True):
        assert drawn(ax).get_xdata().tolist() == curve.x.tolist()
        assert drawn(ax).get_ydata().tolist() == curve.y.tolist()


class Own:
    """A classifier with its classes in an order of its own, whose probabilities are its features."""

    classes_ = np.array(["pos", "neg", "neutral"])

    def predict_proba(self, X: Any) -> Any:
        return X


def test_a_classifier_may_have_its_classes_in_any_order() -> None:
    codes, p = rows(3)
    y = Own.classes_[codes]
    order = np.argsort(Own.classes_)
    found = cb.MulticlassReliabilityDisplay.from_estimator(Own(), p, y)
    expected = cb.MulticlassReliabilityDisplay.from_predictions(y, p[:, order], classes=Own.classes_[order])
    for ours, theirs in zip(found.axes_, expected.axes_, strict=True):
        assert drawn(ours).get_ydata().tolist() == drawn(theirs).get_ydata().tolist()
    one = cb.ReliabilityDisplay.from_estimator(Own(), p, y)
    assert drawn(one.ax_).get_ydata().tolist() == drawn(found.ax_).get_ydata().tolist()


def test_titles_state_class_and_events_and_the_rows_once() -> None:
    y, p = rows(3)
    names = np.array(["ant", "$\\frac{$bee", "_cow"])
    order = np.argsort(names)
    display = cb.MulticlassReliabilityDisplay.from_predictions(names[order][y], p)
    right = int((p.argmax(axis=1) == y).sum())
    titles = [ax.get_title(loc="left") for ax in display.axes_]
    assert titles[0] == f"top label\nn = 600, {right} right"
    assert titles[1] == f"\\$\\frac{{\\$bee\n{(y == 0).sum()} events"
    assert titles[2].endswith(f"_cow\n{(y == 1).sum()} events")
    display.figure_.canvas.draw()  # drawing parses what matplotlib takes for mathematics


@pytest.mark.slow
def test_weight_two_equals_two_rows() -> None:
    y, p = rows(3, 200)
    weighted = cb.MulticlassReliabilityDisplay.from_predictions(y, p, sample_weight=np.full(200, 2.0), n_bins=4)
    repeated = cb.MulticlassReliabilityDisplay.from_predictions(np.repeat(y, 2), np.repeat(p, 2, axis=0), n_bins=4)
    for one, two in zip(weighted.curves, repeated.curves, strict=True):
        assert one.n.tolist() == two.n.tolist()
        assert one.y.tolist() == pytest.approx(two.y.tolist())


def test_of_many_classes_the_worst_are_shown_and_it_is_said() -> None:
    y, p = rows(15, 1_000)
    display = cb.MulticlassReliabilityDisplay.from_predictions(y, p, max_classes=4)
    errors = [cb.metrics.ece(y == k, p[:, k], n_bins=10, strategy="quantile") for k in range(15)]
    assert [curve.label for curve in display.curves] == [str(k) for k in np.argsort(errors)[::-1][:4]]
    assert display.figure_.get_suptitle() == "4 of 15 classes: those of the largest calibration error first"


def test_classes_that_the_rows_lack_are_drawn() -> None:
    y, p = rows(3)
    display = cb.MulticlassReliabilityDisplay.from_predictions(np.array(["a", "b", "a"])[y], p, classes=["a", "b", "c"])
    assert display.curves[2].y.tolist() == [0.0] * 10


@pytest.mark.slow
def test_classes_share_axes_and_nothing_overlaps() -> None:
    y, p = rows(7)
    display = cb.MulticlassReliabilityDisplay.from_predictions(y, p)
    assert len({ax.get_xlim() for ax in display.axes_[1:]}) == 1
    figure = display.figure_
    assert figure is not None
    figure.canvas.draw()
    assert figure.axes == list(display.axes_), "no empty axes"
    boxes = [ax.get_tightbbox() for ax in display.axes_]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1


def test_given_axes_are_drawn_on_in_order_and_the_rest_stays_empty() -> None:
    figure, axes = plt.subplots(2, 3)
    display = cb.MulticlassReliabilityDisplay.from_predictions(*rows(3), axes=axes)
    assert (display.ax_, display.figure_) == (axes[0, 0], figure)
    assert list(display.axes_) == list(axes.flat[:4])
    assert not axes[1, 1].has_data()
    assert figure.get_suptitle() == ""


def test_nothing_is_shown_and_no_setting_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(plt, "show", lambda *args, **_: shown.append(args))
    before = dict(mpl.rcParams)
    cb.MulticlassReliabilityDisplay.from_predictions(*rows(4))
    assert dict(mpl.rcParams) == before
    assert shown == []


def test_refusals_say_what_is_wrong() -> None:
    y, p = rows(3)
    with pytest.raises(ShapeError, match="y_prob has one column"):
        cb.MulticlassReliabilityDisplay.from_predictions(y > 0, p[:, 0])
    with pytest.raises(ShapeError, match="axes holds 2 for 4 panels"):
        cb.MulticlassReliabilityDisplay.from_predictions(y, p, axes=plt.subplots(1, 2)[1])
    with pytest.raises(InvalidTypeError, match="curves holds a list"):
        cb.MulticlassReliabilityDisplay(cb.reliability_curve(y, p), [[0.1]])  # type: ignore[list-item]
    with pytest.raises(ShapeError, match="curves is an empty sequence"):
        cb.MulticlassReliabilityDisplay(cb.reliability_curve(y, p), [])
