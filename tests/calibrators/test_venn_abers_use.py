"""Venn-Abers as it is used: containers, classes, documents, refusals."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import calibrant as cb
from calibrant.cli.inspect import describe_binary, example_scores
from calibrant.document_field import DocumentField
from calibrant.errors import CalibrantError, DataWarning, DocumentError, NotFittedError, ShapeError
from calibrant.maps import VennAbersMap, decode_map, encode_map


def draw(n, seed=0, decimals=None):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.8, 1.2, n)
    if decimals is not None:
        p = p.round(decimals)
    return p, rng.random(n) < p**1.5


# --- containers and classes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pd.Series, pl.Series, list])
def test_pair_comes_in_the_container_of_the_scores(kind):
    p, y = draw(60)
    expected = cb.VennAbersCalibrator().fit(p, y).predict_interval(p)
    got = cb.VennAbersCalibrator().fit(kind(p), y).predict_interval(kind(p))
    for name, side, numbers in zip(("p0", "p1"), got, expected, strict=True):
        assert type(side) is (np.ndarray if kind is list else kind)
        assert getattr(side, "name", name) == name
        np.testing.assert_array_equal(np.asarray(side), numbers)


def test_index_of_a_series_is_kept():
    p, y = draw(60)
    new = pd.Series([0.2, 0.9], index=["a", "b"], name="score")
    for side in cb.VennAbersCalibrator().fit(p, y).predict_interval(new):
        assert side.index.tolist() == ["a", "b"]


def test_of_two_columns_each_class_has_its_own_pair():
    p, y = draw(200)
    fitted = cb.VennAbersCalibrator().fit(p, y)
    p0, p1 = fitted.predict_interval(p)
    frame = pd.DataFrame({"no": 1 - p, "yes": p})
    low, high = fitted.predict_interval(frame)
    assert low.columns.tolist() == high.columns.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(low, np.column_stack((1 - p1, p0)))
    np.testing.assert_array_equal(high, np.column_stack((1 - p0, p1)))


@pytest.mark.parametrize("input", ["probability", "logit"])
def test_of_several_classes_each_has_its_pair_against_the_rest(input):
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.7, 1.0, 1.3], 200)
    y = np.array([rng.choice(3, p=row) for row in P])
    scores = P if input == "probability" else np.log(P)
    low, high = cb.VennAbersCalibrator(input=input).fit(scores, y).predict_interval(scores)
    as_seen = P if input == "probability" else cb.numerics.softmax(scores)
    for k in range(3):
        p0, p1 = cb.VennAbersCalibrator().fit(as_seen[:, k], y == k).predict_interval(as_seen[:, k])
        np.testing.assert_array_equal(low[:, k], p0)
        np.testing.assert_array_equal(high[:, k], p1)


def test_of_a_class_without_rows_nothing_is_known():
    P = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 50)
    with pytest.warns(DataWarning, match="class 2 has no rows"):
        fitted = cb.VennAbersCalibrator().fit(P, np.arange(50) % 2)
    low, high = fitted.predict_interval(P)
    assert low[:, 2].tolist() == [0.0] * 50
    assert high[:, 2].tolist() == [1.0] * 50


BINARY = cb.VennAbersCalibrator().fit([0.1, 0.2, 0.3], [0, 1, 0])
ERRORS = {
    "not fitted": (lambda: cb.VennAbersCalibrator().predict_interval([0.5]), NotFittedError, "not fitted. Call fit"),
    "three columns": (
        lambda: BINARY.predict_interval([[0.1, 0.2, 0.7]]),
        ShapeError,
        "scores has 3 columns, but this calibrator was fitted for the 2 classes",
    ),
    "a logit": (lambda: BINARY.predict_interval([2.5]), CalibrantError, 'If these are logits, pass input="logit"'),
    "raw scores in two columns": (
        lambda: cb.VennAbersCalibrator(input="score").fit([1.0, 2.0], [0, 1]).predict_interval([[1.0, 2.0]]),
        ShapeError,
        "say twice what one says",
    ),
}


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS.values(), ids=ERRORS)
def test_bad_input_is_named(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


# --- documents -----------------------------------------------------------------------------------------------

PAIR = {
    "kind": "venn_abers",
    "edges0": [0.1, 0.5],
    "levels0": [0.0, 0.25, 0.5],
    "edges1": [0.1, 0.5],
    "levels1": [0.25, 0.5, 1.0],
}


def test_pair_that_touches_is_read_and_written_bit_for_bit():
    fitted = decode_map(DocumentField(PAIR, "map"))
    assert encode_map(fitted) == PAIR
    assert json.loads(json.dumps(encode_map(fitted))) == PAIR


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"levels0": [0.0, 0.5, 0.25]}, "map.levels0: a list of 3 falls somewhere, but these must not"),
        ({"levels1": [0.5, 0.25, 1.0]}, "map.levels1: a list of 3 falls somewhere"),
        (
            {"levels0": [0.0, 0.25, 0.51]},
            r"map.levels0: a list of 3 holds p0 = 0.51 for scores where p1 = 0.5, but p0 must not be above p1",
        ),
        ({"levels0": [0.3, 0.3, 0.5]}, "map.levels0: a list of 3 holds p0 = 0.3 for scores where p1 = 0.25"),
        (
            {"edges1": [0.05, 0.5], "levels0": [0.2, 0.25, 0.5], "levels1": [0.1, 0.5, 1.0]},
            "map.levels0: a list of 3 holds p0 = 0.2 for scores where p1 = 0.1",
        ),
        ({"levels0": [0.0, 0.25]}, "map.levels0: a list of 2 does not go with 2 edges"),
        ({"edges1": [0.5, 0.1]}, r"map.edges1\[1\]: 0.1 is not above map.edges1\[0\] = 0.5"),
        ({"levels1": [0.25, 0.5, 1.5]}, r"map.levels1\[2\]: 1.5 is outside \[0, 1\]"),
    ],
)
def test_pair_that_no_fit_gives_is_refused(change, text):
    with pytest.raises(DocumentError, match=text):
        decode_map(DocumentField({**PAIR, **change}, "map"))


def test_levels_of_zero_and_one_merge_without_a_warning():
    """Only a document made by hand holds them: a fit has seen the object that it adds."""
    certain = VennAbersMap(np.array([0.5]), np.array([0.0, 1.0]), np.array([0.4]), np.array([0.0, 1.0]))
    assert certain.apply(np.array([0.1, 0.45, 0.6])).tolist() == [0.0, 0.5, 1.0]
    assert certain.apply(np.array([0.1, 0.45, 0.6] * 9)).tolist() == [0.0, 0.5, 1.0] * 9


def test_inspect_says_what_it_is_and_shows_the_range_of_its_scores():
    fitted = cb.VennAbersCalibrator(input="score").fit([-30.0, -20.0, 10.0, 50.0], [0, 1, 0, 1])
    assert "q = p1 / (1 - p0 + p1), p0 of " in describe_binary(fitted.map_)
    shown = example_scores((fitted.map_,), "score")
    assert (shown[0], shown[-1]) == (fitted.map_.edges1[0], fitted.map_.edges1[-1])
