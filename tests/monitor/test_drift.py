"""Drift by bets on ranks: few false alarms over whole streams, alarms on shifted ones, and states that go on."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import kstest, spearmanr

from calibrant.errors import CalibrantError, DocumentError
from calibrant.monitor import DriftMonitor
from calibrant.monitor.watched_column import WatchedColumn

ALPHA = 0.05


def rows(rng: np.random.Generator, n: int, shift: float = 0.0) -> dict[str, Any]:
    """Scores with ties, numbers of which some are missing, and labels."""
    age = np.round(rng.normal(40.0 + 20.0 * shift, 10.0, n))
    age[rng.random(n) < 0.1] = np.nan
    return {"score": rng.beta(2.0, 3.0, n), "age": age, "city": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])}


def stream(seed: int, shift: float = 0.0, n_ref: int = 300, n: int = 150, windows: int = 15, since: int = 5) -> Any:
    rng = np.random.default_rng(seed)
    monitor = DriftMonitor(rows(rng, n_ref), alpha=ALPHA, rng=seed)
    for t in range(windows):
        monitor.update(rows(rng, n, shift if t >= since else 0.0))
    return monitor


def test_false_alarms_over_whole_streams_are_rarer_than_alpha() -> None:
    """Of 300 streams, each looked at after each of 15 windows, in three columns; the bound is alpha on average."""
    found = [stream(seed) for seed in range(300)]
    assert np.mean([monitor.is_alarm for monitor in found]) <= ALPHA
    ends = np.exp([list(monitor.windows[-1].log_e_values.values()) for monitor in found])
    assert np.all(ends.mean(axis=0) < 1.0 + 4.0 * ends.std(axis=0) / np.sqrt(len(found)))  # a martingale from 1


def test_small_references_raise_no_more_false_alarms() -> None:
    """A test that took the reference for the truth would: the law is exact for any number of reference rows."""
    assert np.mean([stream(seed, n_ref=40, n=400, windows=5).is_alarm for seed in range(150)]) <= ALPHA


@pytest.mark.parametrize(("shift", "most_windows"), [(0.3, 4), (0.6, 2)])
def test_a_shifted_column_is_found_soon_and_no_other(shift: float, most_windows: int) -> None:
    found = [stream(seed, shift) for seed in range(30)]
    assert np.mean([monitor.windows[-1].drifted == ("age",) for monitor in found]) > 0.9
    late = [int(monitor.first_alarm.split()[1]) - 5 for monitor in found if monitor.is_alarm]
    assert np.median(late) <= most_windows
    assert min(late) > 0


@pytest.mark.parametrize(
    "change",
    [
        lambda rng, n: {"score": rng.beta(0.5, 0.75, n)},  # the same mean, wider
        lambda rng, n: {"age": np.where(rng.random(n) < 0.4, np.nan, 40.0 + 10.0 * rng.normal(size=n))},
        lambda rng, n: {"city": rng.choice(["a", "b", "new"], n, p=[0.6, 0.2, 0.2])},
        lambda rng, n: {"city": rng.choice(["a", "b", "c"], n, p=[0.3, 0.3, 0.4])},
    ],
    ids=["wider", "more missing", "a new label", "other shares"],
)
def test_any_change_of_spread_is_found(change: Callable[..., dict[str, Any]]) -> None:
    rng = np.random.default_rng(0)
    monitor = DriftMonitor(rows(rng, 1000), alpha=0.01)
    (name,) = change(rng, 1)
    for _ in range(6):
        window = monitor.update(rows(rng, 200) | change(rng, 200))
    assert window.drifted == (name,)
    assert window.distances[name] > 0.1


def test_ranks_are_those_of_the_definition_uniform_and_independent() -> None:
    rng = np.random.default_rng(1)
    values = np.round(rng.beta(2.0, 3.0, 4000), 1)
    column = WatchedColumn.of("x", values[:1000], rng)
    pool = [cell for cell, n in enumerate(column.pool) for _ in range(int(n))]
    cells = column.cells(values[1000:])
    draws = np.random.default_rng(7)
    found = column.ranks_of(cells, np.random.default_rng(7))
    for i, cell in enumerate(cells.tolist()[:200]):
        below, equal = sum(other < cell for other in pool), sum(other == cell for other in pool)
        assert found[i] == pytest.approx((below + draws.random() * (equal + 1)) / (len(pool) + 1), abs=1e-12)
        pool.append(cell)
    assert kstest(found, "uniform").pvalue > 0.01
    assert spearmanr(found[1:], found[:-1]).pvalue > 0.01


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, pl.DataFrame, pa.table, dict], ids=["pandas", "polars", "arrow", "dict"]
)
def test_frames_of_any_kind_are_read_alike(frame: Callable[[Any], Any]) -> None:
    reference, new = rows(np.random.default_rng(2), 200), rows(np.random.default_rng(3), 100, 0.5)
    expected = DriftMonitor(reference).update(new).log_e_values
    assert DriftMonitor(frame(reference)).update(frame(new)).log_e_values == expected


def test_missing_labels_and_numbers_are_one_thing_in_all_frames() -> None:
    values, labels = [1.0, None, 3.0] * 40, ["a", None, "b"] * 40
    found = [
        DriftMonitor({"x": x, "c": c}).update({"x": x, "c": c}).log_e_values
        for x, c in (
            (pa.array(values), pa.array(labels)),
            (pl.Series(values), pl.Series(labels)),
            (np.array(values, dtype=object), np.array(labels, dtype=object)),
            (np.array([1.0, Decimal("nan"), 3.0] * 40, dtype=object), np.array(["a", pd.NaT, "b"] * 40, dtype=object)),
            (pd.Series(values), pd.Series(labels)),
            (pd.Series(values, dtype="Float64"), pd.Series(labels, dtype="string")),
        )
    ]
    assert all(each == found[0] for each in found)


def test_a_state_goes_on_as_if_it_had_never_been_kept() -> None:
    rng = np.random.default_rng(4)
    reference, days = rows(rng, 300), [rows(rng, 100, 0.1 * day) for day in range(6)]
    whole = DriftMonitor(reference, rng=3)
    kept = DriftMonitor(reference, rng=3)
    for day, new in enumerate(days):
        assert whole.update(new, name=f"day {day}").is_alarm == kept.update(new, name=f"day {day}").is_alarm
        kept = DriftMonitor.from_dict(json.loads(json.dumps(kept.to_dict(), allow_nan=False)))
    assert kept.to_dict() == whole.to_dict()
    assert whole.first_alarm is not None
    assert [window.is_alarm for window in whole.windows] == sorted(window.is_alarm for window in whole.windows)


def broken(state: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    state = copy.deepcopy(state)
    place: Any = state
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in way:
        place = place[step]
    place[last] = value
    return state


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", "calibrant monitor", "not the state of a monitor of drift"),
        ("version", 2, "version 2, is not read"),
        ("alpha", 1.0, r"alpha: 1.0 is outside \(0, 1\)"),
        ("alpha", 1e-300, "drifted: .* does not go with the evidence and alpha"),
        ("seed", -1, r"seed: -1 is outside \[0"),
        ("columns", [], "columns: an empty list is too short"),
        ("columns.0.kind", "text", "kind: 'text' is none of"),
        ("columns.0.edges", [2.0, 1.0], "is not above"),
        ("columns.0.pool", [1.0], "pool: a list of 1 is not the number of rows in each of"),
        ("columns.0.labels", ["a"], "labels: a list of 1 does not go with the kind"),
        ("columns.0.ranks", [[0.0] * 16], "ranks: a list of 1 is not 2 lists of 16 numbers"),
        ("columns.0.ranks.0.0", -1.0, "ranks: .* holds a negative number of ranks"),
        ("columns.0.sums.0.1", 1e6, "sums: .* that so many ranks can't have"),
        ("columns.0.n_steps", 0, "n_steps: 0 does not go with the money that was bet"),
        ("columns.0.streams.cash", [1e6], "its parts don't fit together"),
        ("windows.0.n", 10, "its parts don't fit together"),
        ("windows.1.name", "window 1", "name: 'window 1' is the name of a window before"),
        ("windows.1.log_e_values.score", 99.0, "drifted: .* does not go with the evidence and alpha"),
        ("further", 1, "unknown field 'further'"),
    ],
)
def test_a_state_that_was_changed_is_refused(path: str, value: Any, message: str) -> None:
    state = stream(0, 0.6, windows=8, since=0).to_dict()
    assert state["windows"][-1]["drifted"] == ["age"]
    with pytest.raises(DocumentError, match=message):
        DriftMonitor.from_dict(broken(state, path, value))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: DriftMonitor({}), "reference has no columns"),
        (lambda _: DriftMonitor({"x": [1.0] * 39}), "reference has 39 rows. Pass at least 40"),
        (lambda _: DriftMonitor({"x": [1.0] * 50, "y": [1] * 51}), "has columns of 50, 51 rows"),
        (lambda _: DriftMonitor({"x": [[1.0]] * 50}), r"column 'x' of reference has shape \(50, 1\)"),
        (lambda _: DriftMonitor({"x": [np.inf] + [1.0] * 50}), "column 'x' of reference row 0 is infinite"),
        (lambda _: DriftMonitor({"x": [None, np.inf] + [1.0] * 50}), "column 'x' of reference row 1 is infinite"),
        (lambda _: DriftMonitor({"x": np.zeros(50, "M8[D]")}), r"is of type datetime64\[D\]"),
        (lambda _: DriftMonitor({"x": [{}] * 50}), "holds {} of type dict"),
        (lambda r: DriftMonitor(r, alpha=0.0), "alpha=0.0 is outside"),
        (lambda r: DriftMonitor(r).update({"score": [0.1]}), "not in the rows: 'age'"),
        (
            lambda r: DriftMonitor(r).update(r | {"age": ["old"] * 300}),
            "column 'age' holds labels, and the reference n",
        ),
        (lambda r: DriftMonitor(r).update({name: [] for name in r}), "has columns of 0 rows"),
    ],
)
def test_what_can_not_be_used_is_refused(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(CalibrantError, match=message):
        call(rows(np.random.default_rng(0), 300))


def test_a_window_counts_once() -> None:
    reference = rows(np.random.default_rng(0), 100)
    monitor = DriftMonitor(reference)
    monitor.update(reference, name="a")
    with pytest.raises(CalibrantError, match="there was a window 'a' before"):
        monitor.update(reference, name="a")


def test_columns_may_be_called_by_numbers_as_long_as_no_two_share_a_text() -> None:
    values = np.random.default_rng(0).random(100)
    monitor = DriftMonitor(pd.DataFrame({0: values, 1: values}))
    window = monitor.update(pd.DataFrame({1: values, 0: values}))
    assert list(window.log_e_values) == ["0", "1"]
    with pytest.raises(CalibrantError, match=r"reference has two columns called '1'\. Rename one"):
        DriftMonitor({1: values, "1": values})


def test_decimals_are_numbers() -> None:
    cents = np.random.default_rng(0).integers(0, 10_000, 200)
    decimals = pa.array([Decimal(int(each)).scaleb(-2) for each in cents], pa.decimal128(10, 2))
    of_decimals, of_floats = (DriftMonitor({"x": column}) for column in (decimals, cents / 100))
    assert of_decimals.update({"x": cents / 100}).log_e_values == of_floats.update({"x": decimals}).log_e_values


@pytest.mark.parametrize(
    "columns",
    [[0.1, 0.2] * 50, np.zeros((100, 2)), pd.Series(np.arange(100.0)), pl.LazyFrame({"x": np.arange(100.0)}), None],
    ids=lambda columns: type(columns).__name__,
)
def test_what_holds_no_columns_with_names_is_refused_as_such(columns: Any) -> None:
    fault = (
        f"a {type(columns).__name__}, which holds no columns with names. Pass a mapping, such as {{'score': scores}}"
    )
    with pytest.raises(CalibrantError, match=f"reference is {fault}"):
        DriftMonitor(columns)
    with pytest.raises(CalibrantError, match=f"rows is {fault}"):
        DriftMonitor({"x": np.arange(100.0)}).update(columns)


def test_digests_refuse_what_updates_refuse() -> None:
    reference = rows(np.random.default_rng(0), 100)
    monitor = DriftMonitor(reference)
    assert monitor.digest(reference) == monitor.update(reference).digest
    with pytest.raises(CalibrantError, match="column 'city' holds numbers, and the reference labels"):
        monitor.digest(reference | {"city": np.arange(100.0)})
