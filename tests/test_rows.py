"""Rows: what the gate makes of arguments, and how rows are taken, split and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.errors import (
    ColumnOrderError,
    InvalidInputError,
    InvalidLabelError,
    InvalidProbabilityError,
    InvalidTypeError,
    InvalidWeightError,
    ShapeError,
)
from calibrant.rows import Rows, read_rows


def binary(n: int = 200, seed: int = 0, **what: Any) -> Rows:
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return read_rows(p, rng.random(n) < p, **what)


def of_classes(n: int = 300, k: int = 3, seed: int = 0, **what: Any) -> Rows:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), n)
    return read_rows(p, np.append(np.arange(k), rng.integers(0, k, n - k)), **what)


def spans(n: int, length: int) -> dict[str, Any]:
    return {"time": np.arange(n), "label_end": np.arange(n) + length}


# --- the gate ------------------------------------------------------------------------------------------------


def test_columns_are_put_into_the_order_of_the_classes_by_their_names() -> None:
    rows = read_rows(
        pd.DataFrame({"hold": [0.1, 0.2], "buy": [0.7, 0.1], "sell": [0.2, 0.7]}),
        ["hold", "sell"],
        classes=["buy", "hold", "sell"],
    )
    assert rows.columns == ("buy", "hold", "sell")
    assert rows.scores.tolist() == [[0.7, 0.1, 0.2], [0.1, 0.2, 0.7]]
    assert rows.scores.flags.c_contiguous
    assert list(rows.container.wrap(rows.scores).columns) == ["hold", "buy", "sell"]


def test_names_that_contradict_the_order_are_refused_with_both_orders() -> None:
    frame = pd.DataFrame({"sell": [0.1, 0.2], "hold": [0.7, 0.1], "other": [0.2, 0.7]})
    with pytest.raises(
        ColumnOrderError, match=r"scores has the columns \['sell', 'hold', 'other'\], .*\['buy', 'hold'"
    ):
        read_rows(frame, ["hold", "sell"], classes=["buy", "hold", "sell"])


def test_all_that_describes_rows_is_kept_beside_them() -> None:
    frame = pl.DataFrame({"age": [1, 2, 3], "city": ["a", "b", "a"]})
    rows = read_rows(
        [0.1, 0.2, 0.3],
        [0, 1, 0],
        sample_weight=[1, 2, 3],
        groups={"city": ["x", "y", "x"]},
        features=frame,
        cluster=["u", "v", "u"],
        time=[3, 1, 2],
        label_end=[4, 2, 2],
    )
    assert rows.weights.tolist() == [1.0, 2.0, 3.0]
    assert rows.groups["city"].classes[rows.groups["city"].codes].tolist() == ["x", "y", "x"]
    assert rows.features is not None
    assert rows.features["age"].values.tolist() == [1.0, 2.0, 3.0]
    assert rows.cluster is not None
    assert rows.cluster.tolist() == [0, 1, 0]
    assert (rows.time.tolist(), rows.label_end.tolist()) == ([3, 1, 2], [4, 2, 2])  # type: ignore[union-attr]


def test_rows_of_weight_zero_are_dropped_with_all_that_is_known_of_them() -> None:
    rows = read_rows(
        [0.1, 0.2, 0.3, 0.4],
        [0, 1, 0, 1],
        sample_weight=[1, 0, 1, 1],
        groups={"g": ["a", "b", "c", "c"]},
        features=pd.DataFrame({"x": [1, 2, 3, 4]}),
        cluster=[7, 8, 9, 9],
        time=[1, 2, 3, 4],
        label_end=[1, 2, 3, 4],
    )
    assert rows.n_rows == 3
    assert rows.weight is None  # those that are left are all one
    assert rows.groups["g"].classes.tolist() == ["a", "c"]
    assert rows.groups["g"].codes.tolist() == [0, 1, 1]
    assert rows.features is not None
    assert rows.features["x"].values.tolist() == [1.0, 3.0, 4.0]
    assert (rows.cluster.tolist(), rows.time.tolist()) == ([0, 1, 1], [1, 3, 4])  # type: ignore[union-attr]
    assert rows.counted() is rows


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "lengths": ({"y": [0, 1]}, ShapeError, "scores has 3 rows and y has 2"),
    "lengths, labels first": (
        {"y": [0, 1], "names": ("y_prob", "y_true")},
        ShapeError,
        "y_true has 2 rows and y_prob has 3",
    ),
    "probability": ({"scores": [0.1, 1.2, 0.3]}, InvalidProbabilityError, r"scores row 1: 1\.2 is outside \[0, 1\]"),
    "weight": ({"sample_weight": [1, -1, 1]}, InvalidWeightError, "sample_weight row 1: -1.0 is negative"),
    "one class": ({"y": [1, 1, 1], "both_classes": True}, InvalidLabelError, "y holds one class only: 1 in all 3 rows"),
    "one class with weight": (
        {"y": [0, 1, 1], "both_classes": True, "sample_weight": [0, 1, 1]},
        InvalidLabelError,
        "y holds one class only: 1 in all 2 rows",
    ),
    "three classes": ({"y": [0, 1, 2]}, ShapeError, r"y holds 3 classes, \[0, 1, 2\], for one column of scores"),
    "groups": ({"groups": {"city": ["a", "b"]}}, ShapeError, "scores has 3 rows and city has 2"),
    "missing group": ({"groups": {"city": ["a", None, "b"]}}, InvalidLabelError, "city row 1: missing label"),
    "cluster": ({"cluster": [1, 2]}, ShapeError, "scores has 3 rows and cluster has 2"),
    "cluster of numbers": ({"cluster": [0.5, 1, 2]}, InvalidLabelError, r"cluster row 0: 0\.5 names no group"),
    "time alone": ({"time": [1, 2, 3]}, InvalidInputError, "time and label_end go together"),
    "times": ({"time": [1, 2], "label_end": [1, 2]}, ShapeError, "scores has 3 rows and time has 2"),
    "early end": (
        {"time": [1, 2, 3], "label_end": [1, 1, 3]},
        InvalidInputError,
        r"label_end row 1: 1 is before .* 2 \(1",
    ),
    "features": ({"features": [[1], [2], [3]]}, InvalidTypeError, "features is a list, whose columns have no names"),
    "features short": (
        {"features": pd.DataFrame({"x": [1]})},
        ShapeError,
        "scores has 3 rows and column 'x' of features has 1",
    ),
    "pos_label of columns": (
        {"scores": np.eye(3), "y": [0, 1, 2], "pos_label": 1},
        InvalidInputError,
        "pos_label=1 is for one column of probabilities, but scores has 3",
    ),
    "unknown kind": ({"input": "odds"}, InvalidInputError, "unknown value of input: 'odds'"),
    "text": ({"scores": ["a", "b", "c"]}, InvalidTypeError, "not real numbers"),
}


@pytest.mark.parametrize(("what", "kind", "text"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_go_together_is_refused(what: dict[str, Any], kind: type[Exception], text: str) -> None:
    given_rows = {"scores": [0.1, 0.2, 0.3], "y": [0, 1, 0], **what}
    with pytest.raises(kind, match=text):
        read_rows(given_rows.pop("scores"), given_rows.pop("y"), **given_rows)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_any_frame_gives_the_same_rows(frame: Any) -> None:
    columns = {"p_a": [0.2, 0.5], "p_b": [0.8, 0.5]}
    rows = read_rows(frame(columns), ["a", "b"])
    assert rows.columns == ("p_a", "p_b")
    assert rows.scores.tolist() == [[0.2, 0.8], [0.5, 0.5]]


def test_rows_without_labels_say_so_when_they_are_asked_for_them() -> None:
    rows = Rows(np.array([0.1, 0.9]))
    assert rows.labels is None
    with pytest.raises(InvalidInputError, match="these rows have no labels"):
        _ = rows.codes


# --- sizes ---------------------------------------------------------------------------------------------------


def test_effective_size_is_the_number_of_rows_where_all_count_alike() -> None:
    assert binary(50).effective_size == 50.0
    assert binary(50, sample_weight=np.full(50, 3.0)).effective_size == pytest.approx(50.0)


def test_effective_size_is_that_of_kish_for_weights_and_for_sums_of_clusters() -> None:
    w = np.random.default_rng(1).exponential(size=60)
    assert binary(60, sample_weight=w).effective_size == pytest.approx(w.sum() ** 2 / (w**2).sum())
    cluster = np.arange(60) // 3
    sums = np.bincount(cluster, weights=w)
    rows = binary(60, sample_weight=w, cluster=cluster)
    assert rows.effective_size == pytest.approx(sums.sum() ** 2 / (sums**2).sum())
    assert binary(60, cluster=cluster).effective_size == pytest.approx(20.0)


def test_effective_size_falls_with_the_overlap_of_labels() -> None:
    assert binary(100, **spans(100, 0)).effective_size == pytest.approx(100.0)
    assert binary(100, **spans(100, 9)).effective_size == pytest.approx(10.0, rel=0.3)
    alike = np.zeros(100)
    assert binary(100, time=alike, label_end=alike + 1).effective_size == pytest.approx(1.0)


def test_weights_of_classes_and_of_all() -> None:
    rows = read_rows([0.1, 0.2, 0.3], [0, 1, 1], sample_weight=[1.0, 2.0, 4.0])
    assert rows.class_weight.tolist() == [1.0, 6.0]
    assert rows.total_weight == 7.0
    assert binary(10).total_weight == 10.0


# --- parts ---------------------------------------------------------------------------------------------------


def test_taken_rows_keep_all_classes_and_what_is_known_of_them() -> None:
    rows = of_classes(
        6,
        groups={"g": list("abcabc")},
        features=pd.DataFrame({"x": range(6)}),
        cluster=[0, 0, 1, 1, 2, 2],
        sample_weight=[1, 2, 3, 4, 5, 6],
        **spans(6, 1),
    )
    at = np.array([5, 0])
    mask = np.isin(np.arange(6), at)
    for taken, order in ((rows.take(at), at), (rows.take(mask), np.flatnonzero(mask))):
        assert taken.classes.tolist() == [0, 1, 2]
        np.testing.assert_array_equal(taken.scores, rows.scores[order])
        np.testing.assert_array_equal(taken.codes, rows.codes[order])
        np.testing.assert_array_equal(taken.weights, rows.weights[order])
        np.testing.assert_array_equal(taken.groups["g"].codes, rows.groups["g"].codes[order])
        np.testing.assert_array_equal(taken.cluster, rows.cluster[order])  # type: ignore[index]
        np.testing.assert_array_equal(taken.time, rows.time[order])  # type: ignore[index]
        assert taken.features["x"].values.tolist() == order.tolist()


def test_folds_spread_each_class_evenly_and_repeat_with_the_seed() -> None:
    rows = of_classes(301)
    folds = rows.folds(5, rng=3)
    np.testing.assert_array_equal(folds, rows.folds(5, rng=3))
    assert (folds != rows.folds(5, rng=4)).any()
    for k in range(3):
        assert np.ptp(np.bincount(folds[rows.codes == k], minlength=5)) <= 1
    assert np.ptp(np.bincount(folds)) <= 1


def test_folds_spread_strata_in_place_of_classes() -> None:
    rows = of_classes(400)
    strata = np.arange(400) % 7
    folds = rows.folds(5, strata=strata)
    for s in range(7):
        assert np.ptp(np.bincount(folds[strata == s], minlength=5)) <= 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=30, max_size=80), st.integers(2, 4), st.integers(0, 5))
def test_folds_keep_clusters_whole(cluster: list[int], n_folds: int, seed: int) -> None:
    rows = binary(len(cluster), cluster=cluster)
    folds = rows.folds(n_folds, rng=seed)
    assert all(np.unique(folds[np.array(cluster) == c]).size == 1 for c in set(cluster))
    assert folds.max() < n_folds


def test_folds_of_clusters_have_about_the_same_classes() -> None:
    rows = of_classes(3000, cluster=np.random.default_rng(1).integers(0, 300, 3000))
    folds = rows.folds(5)
    counts = np.array([np.bincount(rows.codes[folds == fold], minlength=3) for fold in range(5)])
    assert np.ptp(counts, axis=0).max() <= 30


def test_folds_of_rows_in_time_are_consecutive_blocks() -> None:
    time = np.random.default_rng(0).permutation(103)
    rows = binary(103, time=time, label_end=time)
    folds = rows.folds(5)
    assert (np.diff(folds[np.argsort(time)]) >= 0).all()
    assert np.ptp(np.bincount(folds)) <= 1


@pytest.mark.parametrize("length", [0, 3, 20])
def test_no_label_that_is_fitted_to_overlaps_one_that_is_held_out(length: int) -> None:
    rows = binary(200, **spans(200, length))
    folds = rows.folds(4)
    for fold in range(4):
        rest, held = rows.split(folds, fold)
        start, end = held.time.min(), held.label_end.max()  # type: ignore[union-attr]
        assert ((rest.label_end < start) | (rest.time > end)).all()  # type: ignore[operator]
        assert held.n_rows == 50
        n_purged = length * (2 if 0 < fold < 3 else 1)
        assert rest.n_rows == 150 - n_purged


def test_split_of_independent_rows_is_a_partition() -> None:
    rows = of_classes(90)
    folds = rows.folds(3)
    rest, held = rows.split(folds, 1)
    assert sorted([*rest.scores[:, 0], *held.scores[:, 0]]) == sorted(rows.scores[:, 0])
    np.testing.assert_array_equal(rows.fitted_without(folds, 1), folds != 1)


# --- other rows of the same ----------------------------------------------------------------------------------


def test_a_class_against_the_rest_is_a_row_of_one_score() -> None:
    rows = of_classes()
    for k in range(3):
        own = rows.of_class(k)
        assert own.is_binary
        assert own.columns is None
        np.testing.assert_array_equal(own.scores, rows.scores[:, k])
        np.testing.assert_array_equal(own.positive, rows.codes == k)
    one = binary()
    np.testing.assert_array_equal(one.of_class(1).scores, one.scores)
    np.testing.assert_array_equal(one.of_class(0).scores, 1.0 - one.scores)
    np.testing.assert_array_equal(one.of_class(0).positive, ~one.positive)


def test_top_label_takes_the_first_of_equal_probabilities() -> None:
    rows = read_rows([[0.4, 0.4, 0.2], [0.1, 0.2, 0.7]], [1, 2], classes=[0, 1, 2])
    top = rows.top_label()
    assert top.scores.tolist() == [0.4, 0.7]
    assert top.positive.tolist() == [False, True]
    assert rows.one_column().scores.tolist() == [0.4, 0.7]
    one = read_rows([0.3, 0.8, 0.5], [0, 1, 1])
    assert one.top_label().scores.tolist() == [0.7, 0.8, 0.5]
    assert one.top_label().positive.tolist() == [True, True, False]
    assert one.one_column() is one


def test_scores_as_probabilities() -> None:
    z = np.array([[0.0, 1.0], [2.0, -1.0]])
    assert Rows(np.array([0.2, 0.3])).probabilities().tolist() == [0.2, 0.3]  # type: ignore[union-attr]
    q = Rows(z, input="logit").probabilities()
    np.testing.assert_allclose(q, np.exp(z) / np.exp(z).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(Rows(np.zeros(1), input="logit").probabilities(), [0.5])
    assert Rows(np.zeros(1), input="score").probabilities() is None


@pytest.mark.parametrize("weighted", [False, True])
def test_summary_and_ties_hold_the_same_rows(weighted: bool) -> None:
    w = np.random.default_rng(0).exponential(size=200) if weighted else None
    rows = binary(200, sample_weight=w)
    ties, distinct = rows.tied(), rows.summary().distinct
    order = np.argsort(ties.scores)
    np.testing.assert_array_equal(ties.scores[order], distinct.scores)
    np.testing.assert_allclose(ties.weight[order], distinct.weight)
    np.testing.assert_allclose(ties.positives[order], distinct.positives)


def test_with_scores_changes_the_scores_alone() -> None:
    rows = binary(sample_weight=np.arange(1, 201))
    other = rows.with_scores(np.zeros(200), input="logit")
    assert other.input == "logit"
    assert other.labels is rows.labels
    assert other.weight is rows.weight
