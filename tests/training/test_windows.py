"""Windows of a walk-forward: whole, next to each other, and none of their parts knows of a later row."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.errors import CalibrantError
from calibrant.training.bars import Bars
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset
from calibrant.training.training_run import run_dataset
from calibrant.training.windows import check_walk_forward, cut_windows, last_parts, window_starts

CUT = {"validation": 0.25, "stop": 0.15, "embargo": 0}


@pytest.fixture(scope="module")
def data(make_bars: Callable[..., Bars]) -> Dataset:
    return run_dataset(TrainConfig(horizon=6), make_bars(1200, ("A", "B")))


@pytest.mark.parametrize("walk_forward", [1, 3, 7, "month", "quarter", "year"])
@pytest.mark.parametrize("history", ["expanding", "rolling"])
def test_windows_are_all_rows_from_the_first_start_on_and_nothing_before_reaches_into_them(
    walk_forward: int | str, history: str, data: Dataset
) -> None:
    starts = window_starts(data, walk_forward, test=0.5)
    windows = cut_windows(data, starts, history=history, **CUT)  # type: ignore[arg-type]
    np.testing.assert_array_equal(
        np.concatenate([parts.test for parts in windows]), np.flatnonzero(data.time >= starts[0])
    )
    for one, other in pairwise(windows):
        assert data.time[one.test].max() < data.time[other.test].min(), "rows of a time are in one window"
    for parts in windows:
        in_time = [parts.fit, parts.stop, parts.validation, parts.test]
        for earlier, later in pairwise(in_time):
            assert data.label_end[earlier].max() < data.time[later].min()
    if isinstance(walk_forward, int):
        sizes = [parts.test.size for parts in windows]
        assert len(windows) == walk_forward
        assert max(sizes) - min(sizes) <= 3  # the two symbols of a time stay together
        assert data.n_rows - windows[0].test[0] == pytest.approx(0.5 * data.n_rows, abs=2)
    else:
        first = {"month": 1, "quarter": 3, "year": 12}[walk_forward]
        months = starts.astype("datetime64[M]")
        np.testing.assert_array_equal(months.astype(starts.dtype), starts)
        assert (months.astype(int) % first == 0).all()
        assert set(np.diff(months.astype(int))) <= {first}


def test_a_rolling_history_keeps_its_length_and_an_expanding_one_keeps_all(data: Dataset) -> None:
    starts = window_starts(data, 5, test=0.5)
    for history in ("expanding", "rolling"):
        windows = cut_windows(data, starts, history=history, **CUT)  # type: ignore[arg-type]
        n_first = windows[0].test[0]
        seen = [parts.before.size + parts.n_purged for parts in windows]
        firsts = [parts.before.min() for parts in windows]
        if history == "rolling":
            assert seen == [n_first] * 5
            assert firsts == [parts.test[0] - n_first for parts in windows]
        else:
            assert seen == [parts.test[0] for parts in windows]
            assert firsts == [0] * 5
        last = last_parts(data, int(n_first), history=history, **CUT)  # type: ignore[arg-type]
        assert last.before.max() == data.n_rows - 1
        assert last.test.size == 0
        assert last.before.size + last.n_purged == (n_first if history == "rolling" else data.n_rows)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.sampled_from(["expanding", "rolling"]), st.integers(0, 15))
def test_rows_that_come_later_move_no_part_of_a_window(data: Dataset, n_kept: int, history: str, embargo: int) -> None:
    starts = window_starts(data, 7, test=0.5)
    cut = {**CUT, "embargo": embargo, "history": history}
    whole = cut_windows(data, starts, **cut)  # type: ignore[arg-type]
    end = whole[n_kept - 1].test[-1] + 1
    known = cut_windows(data.take(np.arange(end)), starts[:n_kept], **cut)  # type: ignore[arg-type]
    for one, other in zip(whole, known, strict=False):
        for name in ("fit", "stop", "validation", "test"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_windows_that_cannot_be_are_refused(data: Dataset) -> None:
    for value, said in (
        (0, "walk_forward=0 is too small"),
        (2.5, "walk_forward=2.5 is not a whole number"),
        (True, "walk_forward=True"),
        ("quarte", "Did you mean 'quarter'?"),
    ):
        with pytest.raises(CalibrantError, match=re.escape(said)):
            check_walk_forward(value)
    assert (check_walk_forward(""), check_walk_forward(4), check_walk_forward("year")) == ("", 4, "year")
    with pytest.raises(CalibrantError, match="500 windows don't fit into 114 times of the last part, of 22"):
        window_starts(data, 500, test=0.1)
    with pytest.raises(CalibrantError, match=r"no year starts in the last part of the rows, from 2023-"):
        window_starts(data, "year", test=0.04)
    with pytest.raises(CalibrantError, match=r"the stop part of the window from 2020-0.* at least 30 rows"):
        cut_windows(data, data.time[[150]], history="expanding", **CUT)  # type: ignore[arg-type]
