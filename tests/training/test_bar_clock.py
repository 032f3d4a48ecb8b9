"""The embargo is counted in bars of each symbol, wherever rows are parted in time, and is no shorter than its steps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calibrant.dependence import PurgedKFold
from calibrant.training.bar_clock import BarClock, usual_step
from calibrant.training.bars import Bars, as_bars
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset, hold_out
from calibrant.training.out_of_fold import out_of_fold_predictions
from calibrant.training.training_run import run_dataset
from calibrant.training.walk_forward import walk_forward

HOUR = np.timedelta64(1, "h")
HORIZON, EMBARGO = 4, 20


def weekly_bars(n_weeks: int = 30, seed: int = 0) -> Bars:
    """Hourly bars from Monday to Friday: 120 a week, and 48 hours without any."""
    weeks = np.datetime64("2020-01-06T00", "h") + 7 * 24 * HOUR * np.arange(n_weeks)
    time = (weeks[:, None] + np.arange(120) * HOUR).ravel()
    rng = np.random.default_rng(seed)
    close = 100.0 * np.exp(np.cumsum(0.01 * rng.normal(size=time.size)))
    spread = 1.0 + 0.01 * rng.random(time.size)
    prices = {"open": close, "high": close * spread, "low": close / spread, "close": close}
    return as_bars(pa.table({"time": time.astype("datetime64[s]"), **prices}))


@pytest.fixture(scope="module")
def data() -> Dataset:
    return run_dataset(TrainConfig(horizon=HORIZON), weekly_bars())


def bars_between(data: Dataset, after: Any, before: Any) -> int:
    (times,) = data.clock.time.values()
    return int(((times > after) & (times < before)).sum())


def starting_on_monday(data: Dataset) -> float:
    """Return the share of rows of a test part that starts on the first bar of a week, 48 hours after the last one."""
    n = data.n_rows
    first = n - round(0.2 * n)
    while data.time[first] - data.time[first - 1] == HOUR:
        first += 1
    return (n - first) / n


def test_over_a_weekend_as_many_bars_lie_between_as_in_the_week(data: Dataset) -> None:
    share = starting_on_monday(data)
    before, test = data.last(share, EMBARGO)
    assert test.time[0] - before.label_end.max() > 48 * HOUR
    assert bars_between(data, before.label_end.max(), test.time[0]) == EMBARGO
    old = data.label_end + EMBARGO * HOUR < test.time[0]
    assert old.sum() > before.n_rows, "twenty steps after the last bars of a week are over on Saturday"
    parts = hold_out(data, test=share, embargo=EMBARGO)
    in_time = [parts.fit, parts.stop, parts.validation, parts.test]
    for earlier, later in pairwise(in_time):
        assert bars_between(data, data.label_end[earlier].max(), data.time[later].min()) >= EMBARGO


def test_windows_have_the_embargo_too(data: Dataset) -> None:
    config = TrainConfig(model="logistic", horizon=HORIZON, embargo=EMBARGO, walk_forward="month", test=0.5)
    for parts, _ in walk_forward(config, data).windows:
        in_time = [parts.fit, parts.stop, parts.validation, parts.test]
        for earlier, later in pairwise(in_time):
            assert bars_between(data, data.label_end[earlier].max(), data.time[later].min()) >= EMBARGO


def test_folds_have_the_embargo_after_them(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    few = data.take(np.arange(60, 60 + 3 * 180))  # a fold of a week and a half ends on a Friday
    numbered = Dataset(**{**_fields(few), "X": np.column_stack((np.arange(few.n_rows), few.X))})
    shown: list[tuple[Any, Any]] = []

    class Watching:
        n_rounds_ = 0

        def fit(self, X: Any, codes: Any, **more: Any) -> Watching:
            self.rows = np.concatenate((X[:, 0], more["stop"][0][:, 0])).astype(int)
            self.rates = np.bincount(codes, minlength=3) / codes.size
            return self

        def predict_proba(self, X: Any) -> Any:
            shown.append((self.rows, X[:, 0].astype(int)))
            return np.tile(self.rates, (len(X), 1))

    monkeypatch.setattr("calibrant.training.out_of_fold.make_model", lambda *_, **__: Watching())
    found = out_of_fold_predictions(numbered, n_folds=3, embargo=EMBARGO)
    n_short = 0
    for rows, predicted in shown:
        for fold in np.unique(found.fold[predicted]):
            end = few.label_end[predicted[found.fold[predicted] == fold]].max()
            later = rows[few.time[rows] > end]
            if later.size:
                n_between = bars_between(few, end, few.time[later].min())
                assert n_between >= EMBARGO
                n_short += few.time[later].min() - end > 48 * HOUR
    assert n_short, "no fold ends before a weekend"


def _fields(data: Dataset) -> dict[str, Any]:
    return {name: getattr(data, name) for name in Dataset.__slots__}


def test_an_embargo_is_no_shorter_than_its_steps() -> None:
    """Where bars come twice as often as usual, as many of them take half the time."""
    time = np.concatenate((np.arange(0, 100, 2), np.arange(100, 110))) * HOUR + np.datetime64("2020-01-01T00", "h")
    clock = BarClock({"A": time}, usual_step(time))
    assert clock.step == 2 * HOUR
    symbol = np.array(["A"], dtype=object)
    assert clock.n_between(symbol, time[50], time[54]).tolist() == [3]
    assert clock.is_apart(symbol, time[50], time[54], 3).tolist() == [False]
    assert clock.is_apart(symbol, time[50], time[57], 3).tolist() == [True]


def test_each_symbol_has_bars_of_its_own(make_bars: Callable[..., Bars]) -> None:
    bars = make_bars(300, ("A", "B"))
    kept = np.concatenate((np.arange(300), 300 + np.arange(0, 300, 5)))  # of B every fifth
    rows = {name: getattr(bars, name)[kept] for name in ("time", "open", "high", "low", "close")}
    thin = as_bars(pa.table({"symbol": ["A"] * 300 + ["B"] * 60, **rows}))
    data = run_dataset(TrainConfig(horizon=HORIZON), thin)
    before, test = data.last(0.3, 10)
    for symbol, times in data.clock.time.items():
        own = before.symbol == symbol
        if own.any():
            end = before.label_end[own].max()
            assert ((times > end) & (times < test.time[0])).sum() == 10
    assert (before.symbol == "A").any()


def test_on_bars_without_gaps_it_is_what_a_span_of_time_was(make_bars: Callable[..., Bars]) -> None:
    data = run_dataset(TrainConfig(horizon=HORIZON), make_bars(400))
    day = np.timedelta64(1, "D")
    before, test = data.last(0.25, 7)
    assert (data.label_end + 7 * day < test.time[0]).sum() == before.n_rows
    splits = PurgedKFold(3, times=data.time, label_end=data.label_end, embargo=7 * day).split(data.X)
    train, block = next(splits)
    kept = data.starts_after(np.arange(block.max() + 1, data.n_rows), data.label_end[block].max(), 7)
    np.testing.assert_array_equal(kept, train[train > block.max()])
