"""The histogram of scores: every row is counted once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from calibrant.displays import ScoreHistogram
from calibrant.rows import Rows

unit = st.floats(0.0, 1.0)


def rows(p: list[float], event: list[bool], weight: list[float] | None = None) -> Rows:
    return Rows.of_positives(np.array(p), np.array(event), None if weight is None else np.array(weight))


@given(st.lists(st.tuples(unit, st.booleans()), min_size=1, max_size=50))
def test_every_row_is_counted_once_and_as_numpy_does(data: list[tuple[float, bool]]) -> None:
    p, event = (list(column) for column in zip(*data, strict=True))
    histogram = ScoreHistogram.from_rows(rows(p, event))
    assert histogram.n.sum() == histogram.n_rows == len(p)
    assert histogram.n.tolist() == np.histogram(p, bins=histogram.edges)[0].tolist()
    assert histogram.events.tolist() == np.histogram(np.array(p)[event], bins=histogram.edges)[0].tolist()


def test_scores_of_zero_and_one_lie_in_the_outer_bins() -> None:
    histogram = ScoreHistogram.from_rows(rows([0.0, 1.0, 1.0], [False, True, False]))
    inner = [0] * (histogram.n.size - 2)
    assert histogram.n.tolist() == [1, *inner, 2]
    assert histogram.events.tolist() == [0, *inner, 1]


def test_scores_above_the_end_fall_in_the_last_bin() -> None:
    summary = rows([0.0, 0.9], [False, True]).summary()
    histogram = ScoreHistogram.from_summary(summary, n_rows=2, is_weighted=False, upper=0.1)
    assert histogram.n.tolist() == [1, *[0] * (histogram.n.size - 2), 1]
    assert histogram.edges[[0, -1]].tolist() == [0.0, 0.1]


def test_weight_two_equals_two_rows() -> None:
    weighted = ScoreHistogram.from_rows(rows([0.2, 0.7], [True, False], [2.0, 1.0]))
    repeated = ScoreHistogram.from_rows(rows([0.2, 0.2, 0.7], [True, True, False]))
    assert weighted.n.tolist() == repeated.n.tolist()
    assert weighted.events.tolist() == repeated.events.tolist()


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (None, "n = 2 rows, 1 event"),
        ([3.0, 1.5], "n = 2 rows of total weight 4.5, 66.7% events"),
    ],
)
def test_text_states_rows_and_events(weight: list[float] | None, text: str) -> None:
    assert str(ScoreHistogram.from_rows(rows([0.2, 0.7], [True, False], weight))) == text
