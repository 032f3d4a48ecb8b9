"""New class rates from a confusion matrix: exact algebra, honest intervals, and matrices that say nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from prior_data import draw, even
from sklearn.metrics import confusion_matrix

from calibrant.errors import DataWarning, InvalidInputError, InvalidLabelError, ShapeError
from calibrant.prior import estimate_prior_bbse


@pytest.mark.parametrize("kind", ["soft", "hard", "label"])
def test_rates_solve_the_system_of_the_confusion_matrix(kind: Any) -> None:
    rng = np.random.default_rng(0)
    y, p = draw(rng, 600, [0.4, 0.4, 0.2], 2.0)
    _, q = draw(rng, 500, [0.2, 0.3, 0.5], 2.0)
    top, new_top = p.argmax(axis=1), q.argmax(axis=1)
    if kind == "label":
        estimate = estimate_prior_bbse(y, top, new_predictions=new_top, kind="label")
    else:
        estimate = estimate_prior_bbse(y, p, new_predictions=q, kind=kind)
    if kind == "soft":
        matrix = np.column_stack([p[y == k].mean(axis=0) for k in range(3)])
        seen = q.mean(axis=0)
    else:
        matrix = confusion_matrix(y, top, normalize="true").T
        seen = np.bincount(new_top) / 500
    np.testing.assert_allclose(estimate.confusion, matrix, rtol=1e-12)
    np.testing.assert_allclose(estimate.unconstrained, np.linalg.solve(matrix, seen), rtol=1e-11)
    np.testing.assert_allclose(estimate.new, estimate.unconstrained, rtol=1e-11)
    assert estimate.condition == pytest.approx(np.linalg.cond(matrix), rel=1e-10)
    np.testing.assert_allclose(estimate.old, np.bincount(y) / 600, rtol=1e-14)
    # the weights of Lipton, Wang and Smola, from the joint confusion matrix, lead to the same rates
    joint = matrix * estimate.old
    np.testing.assert_allclose(estimate.old * np.linalg.solve(joint, seen), estimate.new, rtol=1e-10)


def test_hard_predictions_are_the_labels_of_the_most_probable_class() -> None:
    rng = np.random.default_rng(1)
    y, p = draw(rng, 300, [0.5, 0.5], 2.0)
    _, q = draw(rng, 300, [0.8, 0.2], 2.0)
    hard = estimate_prior_bbse(y, p[:, 1], new_predictions=q[:, 1], kind="hard")
    label = estimate_prior_bbse(y, p.argmax(axis=1), new_predictions=q.argmax(axis=1), kind="label")
    assert hard.new.tobytes() == label.new.tobytes()
    assert hard.low.tobytes() == label.low.tobytes()


def test_old_rows_as_new_ones_show_no_shift() -> None:
    y, p = draw(np.random.default_rng(2), 400, [0.5, 0.3, 0.2], 2.0)
    estimate = estimate_prior_bbse(y, p, new_predictions=p)
    np.testing.assert_allclose(estimate.new, estimate.old, rtol=1e-12)
    assert estimate.p_value == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["soft", "hard"])
@pytest.mark.parametrize("rates", [[0.9, 0.1], [0.5, 0.3, 0.2], [0.9, 0.1, 0.0]])
def test_intervals_cover_the_rates_that_the_rows_were_drawn_with(rates: list[float], kind: Any) -> None:
    rng = np.random.default_rng(3)
    k = len(rates)
    covered, rejected = np.zeros(k), 0
    for _ in range(300):
        y, p = draw(rng, 300, even(k).tolist(), 1.5)
        estimate = estimate_prior_bbse(y, p, new_predictions=draw(rng, 200, rates, 1.5)[1], kind=kind)
        covered += (estimate.low <= rates) & (rates <= estimate.high)
        same = estimate_prior_bbse(y, p, new_predictions=draw(rng, 200, even(k).tolist(), 1.5)[1], kind=kind)
        rejected += same.p_value < 0.05
    assert (covered / 300 >= 0.915).all()  # 0.95 less 2.8 standard errors of 300 draws
    assert rejected / 300 <= 0.09


def test_probabilities_need_not_be_calibrated() -> None:
    rng = np.random.default_rng(4)
    y, p = draw(rng, 20_000, [0.5, 0.5], 1.5)
    _, q = draw(rng, 20_000, [0.9, 0.1], 1.5)
    estimate = estimate_prior_bbse(y, p[:, 1] ** 3, new_predictions=q[:, 1] ** 3)
    assert estimate.low[1] < 0.1 < estimate.high[1]
    assert estimate.high[1] - estimate.low[1] < 0.03


def test_perfect_predictions_do_not_claim_certainty() -> None:
    y = np.repeat([0, 1], 20)
    estimate = estimate_prior_bbse(y, y, new_predictions=np.zeros(30, int), kind="label")
    assert estimate.new == pytest.approx([1.0, 0.0], abs=1e-14)
    assert 0.02 < estimate.high[1] < 0.3
    with pytest.warns(DataWarning, match="the new rate of 1 is below"):
        estimate.shift()


def test_singular_matrix_is_refused_with_its_condition_number() -> None:
    with pytest.raises(InvalidInputError, match=r"is singular \(condition number .*\): some of the classes \[0, 1\]"):
        estimate_prior_bbse([0, 1, 0, 1], [0.3, 0.3, 0.3, 0.3], new_predictions=[0.3, 0.2])


def test_matrix_that_may_be_singular_is_said() -> None:
    rng = np.random.default_rng(5)
    y, p = rng.integers(0, 2, 60), rng.random(60)
    with pytest.warns(DataWarning, match="can't be told from a singular one: its smallest singular value is"):
        estimate_prior_bbse(y, p, new_predictions=np.full(50, p[y == 1].mean()))


def test_change_of_more_than_the_rates_is_said() -> None:
    y, p = draw(np.random.default_rng(6), 2_000, [0.5, 0.5], 1.0)
    with pytest.warns(DataWarning, match=r"the rate of 0 that explains new_predictions is -.*no estimate of them can"):
        estimate = estimate_prior_bbse(y, p[:, 1], new_predictions=np.full(500, 0.99))
    assert estimate.new.tolist() == [0.0, 1.0]
    assert estimate.unconstrained[0] < -0.1
    assert estimate.low[0] == 0.0 < estimate.high[0]


def test_weights_are_rows() -> None:
    rng = np.random.default_rng(7)
    y, p = draw(rng, 200, [0.5, 0.5], 1.5)
    _, q = draw(rng, 100, [0.8, 0.2], 1.5)
    w, v = rng.integers(0, 4, 200), rng.integers(0, 4, 100)
    weighted = estimate_prior_bbse(y, p, new_predictions=q, sample_weight=w, new_weight=v)
    repeated = estimate_prior_bbse(np.repeat(y, w), np.repeat(p, w, axis=0), new_predictions=np.repeat(q, v, axis=0))
    np.testing.assert_allclose(weighted.new, repeated.new, rtol=1e-12)
    doubled = estimate_prior_bbse(y, p, new_predictions=q, sample_weight=np.full(200, 2.0), new_weight=np.full(100, 3))
    np.testing.assert_allclose(doubled.high, estimate_prior_bbse(y, p, new_predictions=q).high, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"y_true": [0, 0, 0, 0]}, InvalidLabelError, "y_true has no row of the class 1"),
        ({"y_true": [0, 1, 0]}, ShapeError, "y_true has 3 rows and predictions has 4"),
        ({"classes": [0, 1, 2]}, ShapeError, "y_true holds 3 classes"),
        ({"sample_weight": [1, 0, 1, 0]}, InvalidLabelError, "y_true has no row of the class 1 with a weight above 0"),
        ({"new_predictions": [[0.5, 0.25, 0.25]]}, ShapeError, "new_predictions has 3 columns for 2 classes"),
        ({"new_weight": [1.0]}, ShapeError, "new_predictions has 2 rows and new_weight has 1"),
        ({"kind": "firm"}, InvalidInputError, "unknown value of kind: 'firm'"),
        ({"kind": "label", "predictions": [0, 1, 0, 7]}, InvalidLabelError, "predictions row 3"),
    ],
)
def test_what_cannot_be_used_is_refused(change: dict[str, Any], kind: type[Exception], message: str) -> None:
    given: dict[str, Any] = {
        "y_true": [0, 1, 0, 1],
        "predictions": [0.1, 0.8, 0.4, 0.7],
        "new_predictions": [0.2, 0.3],
    } | change
    with pytest.raises(kind, match=message):
        estimate_prior_bbse(given.pop("y_true"), given.pop("predictions"), **given)
