"""The estimator: what it promises for new rows, the maps it keeps, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

import calibrant as cb
from calibrant.errors import (
    CalibrantError,
    ColumnOrderError,
    DocumentError,
    InvalidInputError,
    NotFittedError,
    ShapeError,
)
from calibrant.rank_preserving import EpsilonSlack, LambdaPenalty, Nearly, margins_from_labels, solve

RNG = np.random.default_rng(7)
P = RNG.dirichlet(np.ones(3), 300)
NEW = RNG.dirichlet(np.ones(3), 500)
RATES = np.array([0.5, 0.3, 0.2])
KEPT: dict[str, Any] = {"margins": RATES, "margin_kind": "rates"}
#: Margins that the nearest matrix breaks orders for, where it may.
FAR: dict[str, Any] = {"margins": np.array([0.1, 0.6, 0.3]), "margin_kind": "rates"}
RISING = cb.RankPreservingCalibrator().fit(P, **KEPT)
STRAIGHT = cb.RankPreservingCalibrator(maps="straight").fit(P, **KEPT)


def worst_break(before: np.ndarray, after: np.ndarray) -> float:
    """Return the largest amount by which the order of a column is broken, over all pairs of rows."""
    lower = before[:, None, :] <= before[None, :, :]
    return float(((after[:, None, :] - after[None, :, :])[lower]).max())


def test_rows_of_the_fit_become_the_matrix_of_solve() -> None:
    expected = solve(P, RATES, margin_kind="rates").Q
    np.testing.assert_allclose(RISING.transform(P), expected, atol=4e-6)
    exact = cb.RankPreservingCalibrator(knot_tol=0.0, floor=0.0).fit(P, **KEPT)
    np.testing.assert_allclose(exact.transform(P), expected, atol=1e-8)
    assert exact.order_bound(P) < 1e-7
    np.testing.assert_allclose(exact.transform(P).mean(axis=0), RATES, atol=1e-8)


@pytest.mark.parametrize("knot_tol", [1e-6, 1e-3, 0.02])
def test_stored_maps_rise_and_lie_within_the_tolerance_of_the_fitted_ones(knot_tol: float) -> None:
    made = cb.RankPreservingCalibrator(knot_tol=knot_tol).fit(P, **KEPT)
    Q = made.result_.Q
    for j, column in enumerate(made.map_.maps):
        assert np.abs(column.apply(P[:, j]) - Q[:, j]).max() <= knot_tol + 1e-15
        assert (np.diff(column.y) >= 0.0).all()
        assert (np.diff(column.apply(np.linspace(0.0, 1.0, 5_001))) >= 0.0).all()
    assert made.map_.maps[0].x.size < 300 or knot_tol < 1e-5


@pytest.mark.parametrize("nearly", [EpsilonSlack(0.02), LambdaPenalty(0.02), LambdaPenalty(1e-4, "all")])
def test_maps_of_a_broken_order_are_the_rising_ones_nearest_to_it(nearly: Nearly) -> None:
    coarse = np.array([RNG.multinomial(50, row) for row in P]) / 50.0  # with ties
    weight = RNG.integers(0, 3, 300).astype(float)
    kept = weight > 0.0
    made = cb.RankPreservingCalibrator(nearly=nearly, knot_tol=0.0, floor=0.0).fit(coarse, sample_weight=weight, **FAR)
    Q = solve(coarse, nearly=nearly, sample_weight=weight, **FAR).Q
    np.testing.assert_array_equal(made.result_.Q, Q)
    broken = made.result_.rank_residual
    assert broken > 0.01
    for j, column in enumerate(made.map_.maps):
        regression = IsotonicRegression().fit(coarse[kept, j], Q[kept, j], sample_weight=weight[kept])
        mapped = column.apply(coarse[kept, j])
        np.testing.assert_allclose(mapped, regression.predict(coarse[kept, j]), atol=1e-12)
        assert np.abs(mapped - Q[kept, j]).max() <= broken + 1e-12
        assert weight[kept] @ mapped / weight.sum() == pytest.approx(FAR["margins"][j], abs=1e-8)
        assert (np.diff(column.y) >= 0.0).all()
    away = np.abs(1.0 / made.row_sums(coarse[kept]) - 1.0).max()
    after = weight[kept] @ made.transform(coarse[kept]) / weight.sum()
    assert (np.abs(after - FAR["margins"]) <= away * FAR["margins"] + 1e-8).all()
    assert worst_break(NEW, made.transform(NEW)) <= made.order_bound(NEW)


def test_an_order_that_is_not_broken_has_the_maps_of_the_strict_one() -> None:
    for nearly in (EpsilonSlack(0.0), LambdaPenalty(np.inf)):
        made = cb.RankPreservingCalibrator(nearly=nearly).fit(P, **KEPT)
        np.testing.assert_array_equal(made.transform(NEW), RISING.transform(NEW))


@pytest.mark.parametrize("made", [RISING, STRAIGHT])
def test_new_rows_are_distributions(made: cb.RankPreservingCalibrator) -> None:
    corners = np.vstack((NEW, np.eye(3), np.full((1, 3), 1 / 3)))
    q = made.transform(corners)
    assert q.min() >= 0.0
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=0, atol=1e-15)
    for i in (0, 17, 500, 503):
        np.testing.assert_array_equal(made.transform(corners[i : i + 1])[0], q[i])


def test_no_order_of_new_rows_is_broken_by_more_than_the_bound() -> None:
    q = RISING.transform(NEW)
    bound = RISING.order_bound(NEW)
    broken = worst_break(NEW, q)
    assert 0.0 < broken <= bound < 0.5
    sums = RISING.row_sums(NEW)
    np.testing.assert_allclose(bound, sums.max() / sums.min() - 1.0, rtol=1e-12)
    mapped = q * sums[:, None]
    assert worst_break(NEW, mapped) <= 1e-15  # before the division nothing is broken
    for a in range(60):
        for b in range(60):
            rises = NEW[a] <= NEW[b]
            allowed = q[b] * (sums[b] / sums[a] - 1.0)
            assert (q[a] - q[b] <= allowed + 1e-14)[rises].all()


def test_straight_maps_keep_every_order_and_every_sum() -> None:
    q = STRAIGHT.transform(NEW)
    np.testing.assert_allclose(STRAIGHT.row_sums(np.vstack((NEW, np.eye(3)))), 1.0, rtol=0, atol=1e-15)
    assert worst_break(NEW, q) <= 1e-15
    np.testing.assert_allclose(STRAIGHT.transform(P).mean(axis=0), RATES, atol=1e-14)
    slopes = {round(float(np.diff(column.y)[0]), 12) for column in STRAIGHT.map_.maps}
    mean = P.mean(axis=0)
    assert slopes == {round(min(1.0, float(((RATES - 1e-6) / mean).min())), 12)}


def test_two_columns_keep_order_and_sums_on_any_row() -> None:
    p = RNG.beta(0.5, 0.8, 200)
    made = cb.RankPreservingCalibrator().fit(np.column_stack((p, 1.0 - p)), margins=[130.0, 70.0])
    new = np.concatenate(([0.0, 1.0], RNG.random(400)))
    rows = np.column_stack((new, 1.0 - new))
    assert np.abs(made.row_sums(rows) - 1.0).max() <= 2.1e-6
    assert worst_break(rows, made.transform(rows)) <= 1e-5


def test_margins_of_new_rows_of_the_population_hold_about() -> None:
    many = np.random.default_rng(8).dirichlet(np.ones(3), 20_000)
    np.testing.assert_allclose(STRAIGHT.transform(many).mean(axis=0), RATES, atol=0.02)
    np.testing.assert_allclose(RISING.transform(many).mean(axis=0), RATES, atol=0.02)


def test_labels_count_under_the_weights_of_the_rows() -> None:
    y, weight = P.argmax(axis=1), np.where(P[:, 0] > 0.5, 3, 1)
    made = cb.RankPreservingCalibrator().fit(P, y, sample_weight=weight)
    repeated = cb.RankPreservingCalibrator().fit(np.repeat(P, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(made.margins_, repeated.margins_, rtol=1e-12)
    np.testing.assert_allclose(made.transform(NEW), repeated.transform(NEW), atol=1e-4)
    with pytest.raises(ShapeError, match=r"y has shape \(9,\) for 300 rows .* margins=margins_from_labels\(y\)"):
        cb.RankPreservingCalibrator().fit(P, y[:9], sample_weight=weight)


def test_labels_give_the_margins_and_the_classes() -> None:
    y = np.array(["x"] * 50 + ["y"] * 30 + ["z"] * 20)
    by_labels = cb.RankPreservingCalibrator().fit(P, y)
    by_margins = cb.RankPreservingCalibrator().fit(P, margins=margins_from_labels(y))
    for made in (by_labels, by_margins):
        np.testing.assert_allclose(made.margins_, RATES, atol=1e-15)
        assert made.classes_.tolist() == ["x", "y", "z"]
        np.testing.assert_array_equal(made.transform(NEW), RISING.transform(NEW))
    assert RISING.classes_.tolist() == [0, 1, 2]


def test_rows_of_weight_zero_count_for_nothing() -> None:
    weight = np.where(np.arange(300) < 250, 1.0, 0.0)
    for maps in ("rising", "straight"):
        made = cb.RankPreservingCalibrator(maps=maps)  # type: ignore[arg-type]
        one = made.fit(P, sample_weight=weight, **KEPT).transform(NEW)
        two = made.fit(P[:250], **KEPT).transform(NEW)
        np.testing.assert_allclose(one, two, atol=1e-12)
        assert made.n_rows_ == 250


def test_container_and_names_are_kept() -> None:
    frame = pd.DataFrame(P, columns=["a", "b", "c"])
    made = cb.RankPreservingCalibrator().fit(frame, margins={"c": 60.0, "a": 150.0, "b": 90.0})
    out = made.transform(pd.DataFrame(NEW, columns=["a", "b", "c"]))
    assert list(out.columns) == ["a", "b", "c"]
    np.testing.assert_array_equal(out.to_numpy(), RISING.transform(NEW))
    np.testing.assert_array_equal(made.predict_proba(NEW), out)
    np.testing.assert_array_equal(cb.RankPreservingCalibrator().fit_transform(P, **KEPT), RISING.transform(P))
    assert made.score_names_ == ("a", "b", "c")


def test_it_is_an_estimator_that_can_be_cloned() -> None:
    made = clone(cb.RankPreservingCalibrator(maps="straight", knot_tol=1e-3))
    assert made.get_params() == {
        "maps": "straight",
        "knot_tol": 1e-3,
        "tol": 1e-9,
        "gap_tol": None,
        "max_iter": 20_000,
        "nearly": None,
        "floor": 1e-6,
    }
    assert repr(made.set_params(knot_tol=1e-6)) == "RankPreservingCalibrator(maps='straight')"
    with pytest.raises(CalibrantError, match=r"unknown parameter of RankPreservingCalibrator 'knots'"):
        made.set_params(knots=1)


def test_it_is_a_step_of_a_pipeline() -> None:
    y = np.array(["x"] * 50 + ["y"] * 30 + ["z"] * 20)[np.arange(300) % 100]
    pipeline = make_pipeline(FunctionTransformer(), cb.RankPreservingCalibrator(maps="straight"))
    np.testing.assert_array_equal(pipeline.fit(P, y).transform(NEW), STRAIGHT.transform(NEW))
    by_margins = pipeline.fit(P, rankpreservingcalibrator__margins=150.0 * np.array([1.0, 0.6, 0.4]))
    np.testing.assert_allclose(by_margins.transform(NEW), STRAIGHT.transform(NEW), atol=1e-15)
    assert pipeline[-1].n_features_in_ == 3
    assert not hasattr(cb.RankPreservingCalibrator(), "n_features_in_")
    check_is_fitted(STRAIGHT)
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(cb.RankPreservingCalibrator())


def test_columns_of_a_frame_are_matched_by_name_and_others_refused() -> None:
    frame, new = (pd.DataFrame(values, columns=["a", "b", "c"]) for values in (P, NEW))
    for maps in ("straight", "rising"):
        made = cb.RankPreservingCalibrator(maps=maps).fit(frame, **KEPT)  # type: ignore[arg-type]
        expected = made.transform(new)
        turned = made.predict_proba(new[["c", "a", "b"]])
        assert list(turned.columns) == ["c", "a", "b"]
        pd.testing.assert_frame_equal(turned[["a", "b", "c"]], expected)
        np.testing.assert_array_equal(made.row_sums(new[["c", "a", "b"]]), made.row_sums(new))
        np.testing.assert_array_equal(made.transform(NEW), expected)  # an array has no names
        np.testing.assert_array_equal(made.transform(pd.DataFrame(NEW)), expected)  # nor has a frame that only counts
        text = r"P has the columns \['a', 'b', 'x'\], but this RankPreservingCalibrator has \['a', 'b', 'c'\]"
        with pytest.raises(ColumnOrderError, match=text):
            made.transform(new.set_axis(["a", "b", "x"], axis=1))


def test_columns_of_a_frame_are_matched_to_the_classes_where_the_fit_had_an_array() -> None:
    y = np.array(["x"] * 50 + ["y"] * 30 + ["z"] * 20)
    made = cb.RankPreservingCalibrator(maps="straight").fit(P, y)
    new = pd.DataFrame(NEW, columns=["x", "y", "z"])
    for names in (["z", "x", "y"], ["p_z", "p_x", "p_y"]):
        turned = made.transform(new[["z", "x", "y"]].set_axis(names, axis=1))
        np.testing.assert_array_equal(turned.to_numpy()[:, [1, 2, 0]], made.transform(NEW))
    with pytest.raises(ColumnOrderError, match=r"P has the columns \['z', 'x', 'v'\], in an order that contradicts"):
        made.transform(new.set_axis(["z", "x", "v"], axis=1))


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
def test_columns_that_are_named_after_the_classes_follow_these(tmp_path: Path, suffix: str) -> None:
    y = np.array(["x"] * 50 + ["y"] * 30 + ["z"] * 20)
    straight = cb.RankPreservingCalibrator(maps="straight")
    expected = straight.fit(P, y).transform(NEW)
    made = straight.fit(pd.DataFrame(P[:, [2, 0, 1]], columns=["p_z", "p_x", "p_y"]), y)
    cb.save(made, tmp_path / f"c{suffix}")
    for one in (made, cb.load(tmp_path / f"c{suffix}")):
        assert one.classes_.tolist() == ["x", "y", "z"]
        assert one.score_names_ == ("p_x", "p_y", "p_z")
        np.testing.assert_allclose(one.margins_, RATES, atol=1e-15)
        np.testing.assert_allclose(one.transform(NEW), expected, atol=1e-15)
        turned = one.transform(pd.DataFrame(NEW[:, [1, 2, 0]], columns=["p_y", "p_z", "p_x"]))
        np.testing.assert_allclose(turned.to_numpy(), expected[:, [1, 2, 0]], atol=1e-15)


# --- files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
@pytest.mark.parametrize("made", [RISING, STRAIGHT])
def test_saved_and_loaded_it_gives_the_same_bits(
    tmp_path: Path, made: cb.RankPreservingCalibrator, suffix: str
) -> None:
    cb.save(made, tmp_path / f"c{suffix}")
    loaded = cb.load(tmp_path / f"c{suffix}")
    np.testing.assert_array_equal(loaded.transform(NEW), made.transform(NEW))
    np.testing.assert_array_equal(loaded.margins_, made.margins_)
    assert loaded.get_params() == made.get_params()
    assert loaded.classes_.tolist() == [0, 1, 2]
    assert (loaded.n_rows_, loaded.score_names_) == (300, None)


@pytest.mark.parametrize("suffix", [".json", ".pkl"])
@pytest.mark.parametrize(
    "nearly", [EpsilonSlack(0.02), LambdaPenalty(0.02), LambdaPenalty(1e-4, "all"), LambdaPenalty(np.inf)]
)
def test_how_the_order_may_be_broken_is_kept(tmp_path: Path, nearly: Nearly, suffix: str) -> None:
    made = cb.RankPreservingCalibrator(nearly=nearly, knot_tol=1e-3, gap_tol=1e-3).fit(P, **KEPT)
    cb.save(made, tmp_path / f"c{suffix}")
    loaded = cb.load(tmp_path / f"c{suffix}")
    assert loaded.get_params() == made.get_params()
    assert loaded.nearly == clone(made).nearly == nearly
    np.testing.assert_array_equal(loaded.transform(NEW), made.transform(NEW))


@pytest.mark.parametrize("maps", ["rising", "straight"])
def test_no_class_becomes_impossible(maps: Any) -> None:
    sparse = np.random.default_rng(2).dirichlet(np.full(3, 0.05), 300)
    wanted: dict[str, Any] = {"margins": np.array([0.05, 0.55, 0.4]), "margin_kind": "rates"}
    made = cb.RankPreservingCalibrator(maps=maps, floor=1e-3).fit(sparse, **wanted)
    without = cb.RankPreservingCalibrator(maps=maps, floor=0.0).fit(sparse, **wanted)
    rows = np.vstack((sparse, NEW, np.eye(3)))
    assert without.transform(rows).min() < 1e-8  # 0 of straight maps, next to it of rising ones
    assert made.floor_ == 1e-3
    least = (made.transform(rows) * made.row_sums(rows)[:, None]).min()
    assert least == pytest.approx(1e-3, rel=1e-3)
    np.testing.assert_allclose(made.transform(sparse).mean(axis=0), wanted["margins"], atol=1e-5)
    assert cb.persistence.from_document(cb.persistence.to_document(made)).floor_ == 1e-3


def test_a_rare_class_has_half_its_rate_for_a_floor() -> None:
    made = cb.RankPreservingCalibrator().fit(P, margins=[0.6, 0.4 - 1e-6, 1e-6], margin_kind="rates")
    assert made.floor_ == 5e-7
    none = cb.RankPreservingCalibrator().fit(P, margins=[0.6, 0.4, 0.0], margin_kind="rates")
    assert none.floor_ == 0.0
    assert none.transform(NEW)[:, 2].max() == 0.0


def test_documents_of_a_strict_order_say_nothing_of_it() -> None:
    assert "nearly" not in cb.persistence.to_document(RISING)["settings"]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("settings.nearly", {"eps": 0.1}, r"settings.nearly: an object of 1 does not go with straight maps"),
        ("settings.nearly", {"eps": -0.1}, r"settings.nearly.eps: -0.1 is negative"),
        ("settings.nearly", {"eps": None}, r"settings.nearly.eps: null is not a number"),
        ("settings.nearly", {"lam": -0.1, "pairs": "all"}, r"settings.nearly.lam: -0.1 is negative"),
        ("settings.nearly", {"lam": 0.1, "pairs": "every"}, r"settings.nearly.pairs: 'every' is none of"),
        ("settings.nearly", {"lam": 0.1}, r"settings.nearly: the field 'pairs' is missing"),
        ("settings.nearly", 0.1, r"settings.nearly: 0.1 is not an object with named fields"),
        ("settings.maps", "bent", r"settings.maps: 'bent' is none of 'rising', 'straight'"),
        ("settings.tol", 0.0, r"settings.tol: 0.0 is no tolerance"),
        ("settings.knot_tol", -1.0, r"settings.knot_tol: -1.0 is no tolerance"),
        ("settings.max_iter", 2.5, r"settings.max_iter: 2.5 is not a whole number"),
        ("classes", [0, 1], r"does not go with 2 classes: one item for each is needed"),
        ("margins", [0.5, 0.5], r"margins: a list of 2 does not go with 3 classes"),
        ("margins", [0.5, 0.5, 2.0], r"margins\[2\]: 2.0 is outside \[0, 1\]"),
        ("n_rows", 0, r"n_rows: 0 is outside"),
        ("map.is_logit", True, r"map: an object of 4 is no map of columns of probabilities"),
        ("map.maps", [{"kind": "interpolated", "x": [0.0, 1.0], "y": [1.0, 0.0]}] * 3, r"map.maps\[0\]: .* rises"),
        ("map.maps", [{"kind": "logistic", "slope": 1.0, "intercept": 0.0}] * 3, r"map.maps\[0\]: .* rises"),
        ("map", {"kind": "logistic", "slope": 1.0, "intercept": 0.0}, r"map.kind: 'logistic' is none of 'one_vs_rest'"),
    ],
)
def test_documents_that_were_changed_are_refused(path: str, value: object, message: str) -> None:
    document = json.loads(json.dumps(cb.persistence.to_document(STRAIGHT)))
    *way, last = path.split(".")
    place = document
    for key in way:
        place = place[key]
    place[last] = value
    with pytest.raises(DocumentError, match=message):
        cb.persistence.from_document(document)


# --- refusals ------------------------------------------------------------------------------------------------


def test_wrong_arguments_are_named() -> None:
    made = cb.RankPreservingCalibrator()
    with pytest.raises(NotFittedError, match=r"not fitted. Call fit\(P, margins=...\) first"):
        made.transform(P)
    with pytest.raises(NotFittedError, match="not fitted"):
        cb.persistence.to_document(made)
    with pytest.raises(InvalidInputError, match=r"fit takes margins, or labels y to take them from. Pass one"):
        made.fit(P)
    with pytest.raises(InvalidInputError, match="Pass one of the two"):
        made.fit(P, np.zeros(3), margins=RATES)
    with pytest.raises(InvalidInputError, match="classes are those of y"):
        made.fit(P, margins=RATES, classes=[0, 1, 2])
    with pytest.raises(ShapeError, match=r"P has 2 columns, but this calibrator was fitted for the 3 classes"):
        RISING.transform([[0.5, 0.5]])
    with pytest.raises(ShapeError, match=r"P has 1 column, but this calibrator was fitted for the 3 classes"):
        RISING.transform([0.1, 0.2, 0.7])
    with pytest.raises(InvalidInputError, match=r"P row 0, column 1: nan"):
        RISING.transform([[0.5, np.nan, 0.5]])
    with pytest.raises(CalibrantError, match="unknown value of maps: 'bent'"):
        cb.RankPreservingCalibrator(maps="bent").fit(P, **KEPT)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r'nearly=EpsilonSlack\(eps=0.1\) goes with maps="rising": straight'):
        cb.RankPreservingCalibrator(maps="straight", nearly=EpsilonSlack(0.1)).fit(P, **KEPT)
    with pytest.raises(CalibrantError, match=r"nearly=0\.1 is no slack"):
        cb.RankPreservingCalibrator(nearly=0.1).fit(P, **KEPT)  # type: ignore[arg-type]
    with pytest.raises(CalibrantError, match="knot_tol=-1 is "):
        cb.RankPreservingCalibrator(knot_tol=-1).fit(P, **KEPT)
    with pytest.raises(CalibrantError, match="knot_tol='x' is not a number"):
        cb.RankPreservingCalibrator(knot_tol="x").fit(P, **KEPT)  # type: ignore[arg-type]
