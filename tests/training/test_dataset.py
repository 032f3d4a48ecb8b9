"""Parts in time: every label of a part is known before the next part starts, and nothing else is left out."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.errors import CalibrantError
from calibrant.training.bar_clock import BarClock
from calibrant.training.dataset import Dataset, hold_out, test_part as cut_off


def spans(time: np.ndarray, length: np.ndarray) -> Dataset:
    """Return rows with labels of random lengths, in the order of time."""
    order = np.argsort(time, kind="stable")
    start = np.datetime64("2020-01-01") + time[order]
    n = time.size
    return Dataset(
        X=np.zeros((n, 1)),
        names=("nothing",),
        y=np.arange(n) % 2,
        classes=np.array([0, 1]),
        time=start,
        label_end=start + length[order],
        symbol=np.full(n, "A", dtype=object),
        weight=np.ones(n),
        label_return=np.zeros(n),
        horizon_time=np.timedelta64(int(length.max()), "D"),
        clock=BarClock({"A": np.unique(start)}, np.timedelta64(1, "D")),
    )


def is_apart(data: Dataset, rows: np.ndarray, start: np.datetime64, embargo: int) -> np.ndarray:
    """Say where an embargo lies between the end of labels and a time, by counting the days with rows one by one."""
    days = set(data.time.tolist())
    n_between = [sum(end < day < start.item() for day in days) for end in data.label_end[rows].tolist()]
    is_later = data.label_end[rows] + np.timedelta64(embargo, "D") < start
    return is_later & (np.array(n_between) >= embargo)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(0, 25), st.integers(0, 6), st.integers(1, 4))
def test_no_label_reaches_into_a_later_part(seed: int, longest: int, embargo: int, rows_per_time: int) -> None:
    rng = np.random.default_rng(seed)
    data = spans(rng.integers(0, 700 // rows_per_time, 700), rng.integers(0, longest + 1, 700))
    parts = hold_out(data, embargo=embargo)
    in_time = [parts.fit, parts.stop, parts.validation, parts.test]
    for i, earlier in enumerate(in_time):
        for later in in_time[i + 1 :]:
            assert is_apart(data, earlier, data.time[later].min(), embargo).all()
    for a, b in pairwise(in_time):
        assert a.max() < b.min()
    left_out = np.setdiff1d(np.arange(700), np.concatenate(in_time))
    assert left_out.size == parts.n_purged
    starts = np.array([data.time[part].min() for part in in_time[1:]])
    for row in left_out:  # each overlaps the part that comes next after it
        following = [start for start, part in zip(starts, in_time[1:], strict=True) if part.min() > row]
        assert not is_apart(data, np.array([row]), min(following), embargo).any()


def test_parts_have_the_shares_that_are_asked_for() -> None:
    data = spans(np.arange(1000), np.zeros(1000, dtype=int))
    parts = hold_out(data, validation=0.3, test=0.1, stop=0.25)
    sizes = [part.size for part in (parts.fit, parts.stop, parts.validation, parts.test)]
    assert sizes == [450, 150, 300, 100]
    assert parts.n_purged == 0


def test_parts_that_nothing_can_be_learnt_from_are_refused() -> None:
    data = spans(np.arange(150), np.full(150, 5))
    with pytest.raises(CalibrantError, match=re.escape("the stop part has 12 rows of the classes [0, 1]: at least 30")):
        hold_out(data)
    one_class = spans(np.arange(1000), np.zeros(1000, dtype=int))
    one_class.y[-200:] = 1
    with pytest.raises(CalibrantError, match=re.escape("the test part has 200 rows of the classes [1]")):
        hold_out(one_class)
    with pytest.raises(CalibrantError, match=re.escape("the test part has 200 rows of the classes [1]")):
        cut_off(one_class, test=0.2, embargo=0)
    with pytest.raises(CalibrantError, match=re.escape("the test part has 7 rows of the classes [0, 1]")):
        cut_off(spans(np.arange(700), np.zeros(700, dtype=int)), test=0.01, embargo=0)
    endless = spans(np.arange(100), np.full(100, 100))
    with pytest.raises(CalibrantError, match="the part before the test part has 0 rows"):
        cut_off(endless, test=0.2, embargo=0)
    with pytest.raises(CalibrantError, match="labels that reach into a part leave no row before it"):
        hold_out(endless)


def test_an_embargo_that_leaves_no_row_is_told() -> None:
    data = spans(np.arange(700), np.ones(700, dtype=np.int64))
    with pytest.raises(CalibrantError, match="an embargo of 9,999 bars leaves no row before a part"):
        hold_out(data, embargo=9_999)
