"""The monitor's promise where rows depend on each other: laws of its bets, what an alarm waits for, what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

import calibrant as cb
from calibrant.errors import DocumentError, InvalidInputError
from calibrant.metrics import STAKES
from calibrant.monitor import CalibrationMartingale, CalibrationMonitor
from calibrant.monitor.bets import unit_gains
from calibrant.monitor.streams import Streams
from calibrant.rows import Rows, read_rows

MEMORY = cb.ScoreSummary.from_arrays([0.2, 0.2, 0.6, 0.6, 0.6], [1, 0, 1, 1, 0]).distinct


def rows(p: Any, y: Any, **declared: Any) -> Rows:
    return read_rows(p, y, names=("y_prob", "y_true"), classes=[0, 1], **declared)


def sums(n: int, h: int, rng: np.random.Generator, shift: float = 0.0) -> tuple[Any, Any]:
    """Return probabilities, and labels that are known h rows later: each by a sum of h numbers that rows share."""
    from scipy.special import ndtr

    walk = np.concatenate(([0.0], rng.normal(size=n + h).cumsum()))
    p = rng.uniform(0.1, 0.7, n)
    return p, ndtr((walk[h : h + n] - walk[:n]) / math.sqrt(h)) < p + shift


def value_of_the_best_stop(n: int, size: int, *, by_label_end: bool) -> float:
    """Return the largest mean of the money over all rules that stop after a window, knowing all that is known then.

    Label i is the sum of steps i and i + 1, each 0, 1 or 2, above 2: its chance is a third, but known to whoever saw
    step i. All step sequences are gone through.
    """
    steps = np.array(list(product(range(3), repeat=n + 1)))
    labels = steps[:, :-1] + steps[:, 1:] > 2
    ends = range(size, n + 1, size)
    seen: dict[bytes, list[float]] = {}
    money = np.empty((len(ends), len(steps)))
    for i, y in enumerate(labels):
        if y.tobytes() not in seen:
            martingale, p = CalibrationMartingale(), np.full(size, 1 / 3)
            seen[y.tobytes()] = found = []
            for end in ends:
                t = np.arange(end - size, end)
                one = y[end - size : end]
                of_window = rows(p, one, time=t, label_end=t + 1) if by_label_end else rows(p, one)
                log_e = martingale.add_rows(of_window) if by_label_end else martingale.add(of_window.summary())
                found.append(math.exp(log_e))
        money[:, i] = seen[y.tobytes()]
    best = money[-1]
    for k in reversed(range(len(ends) - 1)):
        n_known = ends[k] if by_label_end else ends[k] + 1  # without times, labels of the window count at once
        past = np.unique(steps[:, :n_known], axis=0, return_inverse=True)[1]
        best = np.maximum(money[k], (np.bincount(past, best) / np.bincount(past))[past])
    return float(best.mean())


@pytest.mark.slow
def test_no_rule_that_stops_while_labels_are_half_known_expects_more_than_it_began_with() -> None:
    assert value_of_the_best_stop(8, 2, by_label_end=True) <= 1.0 + 1e-12
    assert value_of_the_best_stop(8, 2, by_label_end=False) > 1.005


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 0.99), st.integers(0, 2)), min_size=1, max_size=6))
def test_a_cluster_of_any_joint_law_is_a_fair_bet(cases: list[tuple[float, int]]) -> None:
    """Labels of one cluster are made by one number, as alike as they can be; clusters have numbers of their own."""
    p, cluster = np.array([c[0] for c in cases]), np.unique([c[1] for c in cases], return_inverse=True)[1]
    gains = np.ones(2 * len(STAKES))
    for c in range(int(cluster.max()) + 1):
        mine = p[cluster == c]
        cuts = np.concatenate(([0.0], np.sort(mine), [1.0]))
        mean = np.zeros_like(gains)
        for low, high in pairwise(cuts):
            found, least = unit_gains(
                MEMORY, mine, mine > (low + high) / 2, np.ones(mine.size), np.zeros(mine.size, int)
            )
            assert (found >= least - 1e-12).all()
            mean += (high - low) * np.exp(found[:, 0])
        gains *= mean
    assert gains == pytest.approx(np.ones_like(gains), abs=1e-9)


def test_a_cluster_of_one_row_is_bet_on_as_an_independent_row() -> None:
    rng = np.random.default_rng(0)
    one, other = CalibrationMartingale(), CalibrationMartingale()
    for _ in range(4):
        p = rng.random(200).round(2)
        y = rng.random(200) < p**2
        assert one.add_rows(rows(p, y, cluster=np.arange(200))) == pytest.approx(other.add(rows(p, y).summary()))
    assert one.log_e_value > 5.0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), min_size=1, max_size=30), st.integers(1, 5))
def test_no_two_labels_of_a_stream_overlap_and_a_free_stream_is_used(spans: list[tuple[int, int]], n: int) -> None:
    spans = sorted(spans)
    start = np.array([s for s, _ in spans], dtype=np.float64)
    end = start + np.array([length for _, length in spans])
    streams = Streams()
    streams.release(1, n)
    found = streams.assign(start, end)
    for j in range(n):
        mine = found == j
        assert (start[mine][1:] > end[mine][:-1]).all()
    for i in np.flatnonzero(found < 0):
        assert sum((found[:i] == j).any() and end[:i][found[:i] == j].max() >= start[i] for j in range(n)) == n


@pytest.mark.parametrize("h", [5, 20])
def test_a_drift_of_overlapping_labels_is_found_and_later_than_that_of_independent_ones(h: int) -> None:
    delays: dict[int, list[int]] = {1: [], h: []}
    for length, found in delays.items():
        for seed in range(5):
            p, y = sums(15_000, length, np.random.default_rng(seed), shift=0.1)
            martingale = CalibrationMartingale()
            for k in range(60):
                t = np.arange(250 * k, 250 * (k + 1))
                if martingale.add_rows(rows(p[t], y[t], time=t, label_end=t + length - 1)) >= math.log(100.0):
                    break
            found.append(k + 1)
    print(f"windows of 250 rows until a gap of 0.1 is found, by rows that a label spans: {delays}")
    assert np.median(delays[1]) < np.median(delays[h]) < 45


def patients(rng: np.random.Generator, n: int, size: int, shift: float = 0.0) -> tuple[Any, Any, Any]:
    """Return rows of patients whose labels are made by nearly the same number."""
    from scipy.special import ndtr

    z = 0.95 * np.repeat(rng.normal(size=n), size) + math.sqrt(1 - 0.95**2) * rng.normal(size=n * size)
    p = rng.uniform(0.1, 0.6, n * size)
    return p, ndtr(z) < p + shift, np.repeat(np.arange(n), size)


@pytest.mark.slow
def test_clusters_raise_few_false_alarms_where_they_are_declared_and_many_where_not() -> None:
    n_alarms = {"declared": 0, "not": 0}
    for seed in range(200):
        rng = np.random.default_rng(seed)
        kinds = {name: CalibrationMartingale() for name in n_alarms}
        highest = dict.fromkeys(kinds, -math.inf)
        for _ in range(10):
            p, y, cluster = patients(rng, 25, 20)
            found = {
                "declared": kinds["declared"].add_rows(rows(p, y, cluster=cluster)),
                "not": kinds["not"].add(rows(p, y).summary()),
            }
            highest = {name: max(highest[name], found[name]) for name in found}
        for name, log_e in highest.items():
            n_alarms[name] += log_e >= math.log(20.0)
    print(f"false alarms at 5% in 200 streams of clusters: {n_alarms}")
    assert n_alarms["declared"] <= 10
    assert n_alarms["not"] >= 60


def windows_of_users(shift: float, n_windows: int) -> Iterable[dict[str, Any]]:
    """Yield a window a day of 300 users, whose labels are known after four days and overlap those of days before."""
    from scipy.special import ndtr

    rng = np.random.default_rng(4)
    noise = rng.normal(size=(n_windows + 4, 300))
    for day in range(n_windows):
        p = rng.uniform(0.1, 0.6, 300)
        y = ndtr(noise[day : day + 4].sum(axis=0) / 2.0) < p + shift
        times = {"time": np.full(300, day), "label_end": np.full(300, day + 3)}
        yield {"y_true": y, "y_prob": p, "cluster": np.arange(300), **times}


def test_clusters_with_labels_that_overlap_over_windows_are_bet_on_in_streams_of_windows() -> None:
    monitors = {shift: CalibrationMonitor() for shift in (0.0, 0.1)}
    for shift, monitor in monitors.items():
        for window in windows_of_users(shift, 30):
            monitor.update(**window)
    assert not monitors[0.0].is_alarm
    assert monitors[0.1].first_alarm in {f"window {k}" for k in range(8, 20)}
    assert monitors[0.1].martingale.depth == 4
    assert monitors[0.1].martingale.streams.cash.size == 4


def test_an_alarm_waits_for_labels_that_are_not_known() -> None:
    """The last label of the window alone is known late; its bet counts at the least it can gain until then."""
    p, t = np.full(50, 0.5), np.arange(50)
    martingale = CalibrationMartingale()
    martingale.add_rows(rows(p, np.ones(50), time=t, label_end=t))
    martingale.add_rows(rows(p, np.ones(50), time=t + 50, label_end=t + 50))
    streams = martingale.streams
    assert (streams.until >= martingale.clock).sum() == 1
    is_open = streams.until >= martingale.clock
    assert (streams.gain[is_open] > 0.0).any()
    assert (streams.least[is_open] < 0.0).any()
    before = martingale.log_e_value
    streams.settle(1_000.0)
    assert martingale.log_e_value > before


@pytest.mark.parametrize("kind", ["overlap", "cluster", "both", "datetime"])
def test_a_monitor_of_dependent_rows_goes_on_from_its_state_as_if_it_never_stopped(kind: str) -> None:
    rng = np.random.default_rng(5)
    whole, parts = CalibrationMonitor(), CalibrationMonitor()
    for k in range(8):
        p, y, cluster = patients(rng, 10, 8, 0.1)
        t: npt.NDArray[Any] = np.arange(80 * k, 80 * (k + 1))
        end = t + 7
        if kind == "datetime":
            t, end = (np.datetime64("2026-01-01T00", "h") + each for each in (t, end))
        declared = {"time": t, "label_end": end} if kind != "cluster" else {}
        if kind in ("cluster", "both"):
            declared["cluster"] = cluster
        whole.update(y, p, **declared)
        parts = CalibrationMonitor.from_dict(json.loads(json.dumps(parts.to_dict(), allow_nan=False)))
        parts.update(y, p, **declared)
    assert parts.windows == whole.windows
    assert parts.martingale.streams.to_dict() == whole.martingale.streams.to_dict()


def test_many_open_labels_are_bet_on_together_in_few_streams() -> None:
    rng = np.random.default_rng(6)
    martingale = CalibrationMartingale()
    for k in range(60):
        p = rng.uniform(0.1, 0.6, 1_000)
        y = rng.random(1_000) < p + 0.15
        martingale.add_rows(rows(p, y, time=np.full(1_000, k), label_end=np.full(1_000, k + 1)))
    assert martingale.depth == 2_000
    assert martingale.streams.cash.size <= 33
    assert martingale.log_e_value > math.log(100.0)


def test_what_a_monitor_of_dependent_rows_cannot_use_is_refused() -> None:
    monitor = CalibrationMonitor()
    y, p, t = [0, 1, 1], [0.2, 0.5, 0.5], np.arange(3)
    monitor.update(y, p, time=t + 10, label_end=t + 12, name="first")
    with pytest.raises(
        InvalidInputError, match="window 'next' declares nothing of its rows, the windows before label_end"
    ):
        monitor.update(y, p, name="next")
    with pytest.raises(
        InvalidInputError, match=r"2 of 3 rows were predicted before the last row of the windows before"
    ):
        monitor.update(y, p, time=t + 10, label_end=t + 12)
    with pytest.raises(InvalidInputError, match="time and label_end go together"):
        monitor.update(y, p, time=t + 20)
    assert len(monitor.windows) == monitor.martingale.n_windows == 1


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("streams", None),
        ("waiting", {"scores": [0.5], "weight": [], "positive": [1.0], "known_at": [1.0]}),
        ("clock", "now"),
        ("depth", -1),
        ("open_until", None),
        ("cash", [0.1]),
        ("least", [[0.5] * 12] * 4),
        ("until", [1.0]),
        ("gain", [[0.0] * 11] * 4),
        ("n_released", 99),
        ("n_released", -1),
        ("n_windows", float("inf")),
    ],
)
def test_a_broken_state_of_streams_is_refused(part: str, value: Any) -> None:
    monitor = CalibrationMonitor()
    for k in range(4):
        t = np.arange(20 * k, 20 * (k + 1))
        monitor.update(t % 3 == 0, np.full(20, 0.4), time=t, label_end=t + 3)
    state = json.loads(json.dumps(monitor.to_dict()))
    holder = state["martingale"] if part in state["martingale"] else state["martingale"]["streams"]
    assert part in holder
    holder[part] = value
    with pytest.raises(DocumentError, match="the state of the monitor is broken"):
        CalibrationMonitor.from_dict(state)


def test_what_was_declared_is_said() -> None:
    said = []
    for window in ({}, {"cluster": [0, 0, 1]}, {"time": [0, 1, 2], "label_end": [3, 4, 5]}):
        monitor = CalibrationMonitor()
        monitor.update([0, 1, 1], [0.2, 0.5, 0.5], **window)
        said.append(cb.monitor.MonitorReport(monitor).summary()["advice"])
    assert "for rows that are independent" in said[0]
    assert "for rows of which those of one cluster may depend on each other within a window" in said[1]
    assert "for rows whose labels may overlap in time, with bets that count once labels are known" in said[2]
