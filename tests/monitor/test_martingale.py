"""The test martingale: rarely a false alarm however often one looks, and soon a true one."""

from __future__ import annotations

import json
import math
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

import calibrant as cb
from calibrant.errors import DocumentError, InvalidInputError, ShapeError
from calibrant.monitor import CalibrationMartingale, CalibrationMonitor, MonitorReport
from calibrant.monitor.bets import N_BETTORS

ALPHA = 0.05


def window(rng: np.random.Generator, n: int, shift: float = 0.0) -> cb.ScoreSummary:
    p = rng.uniform(0.05, 0.95, n).round(2)
    return cb.ScoreSummary.from_rows(p, rng.random(n) < p + shift, None)


@pytest.mark.slow
def test_false_alarms_over_2000_streams_watched_to_the_end_are_at_most_alpha() -> None:
    rng = np.random.default_rng(0)
    n_streams, n_alarms, ends = 2_000, 0, []
    for _ in range(n_streams):
        martingale = CalibrationMartingale()
        seen = [martingale.add(window(rng, 60)) for _ in range(8)]
        n_alarms += max(seen) >= -math.log(ALPHA)
        ends.append(math.exp(seen[-1]))
    print(f"{n_alarms / n_streams:.4f} of {n_streams:,} calibrated streams raised an alarm at alpha = {ALPHA}")
    assert n_alarms / n_streams <= ALPHA
    assert np.mean(ends) < 1.0 + 3.0 * np.std(ends) / math.sqrt(n_streams)


@pytest.mark.slow
def test_a_fixed_interval_at_each_look_would_raise_far_more_false_alarms() -> None:
    """The reason for the martingale: looking at every window's own 95% interval is no test at level 5%."""
    rng = np.random.default_rng(1)
    n_alarms = 0
    for _ in range(100):
        monitor = CalibrationMonitor(alpha=ALPHA)
        for _ in range(8):
            monitor.update_summary(window(rng, 200))
        n_alarms += any(not w.low <= 0.0 <= w.high for w in monitor.windows)
    assert n_alarms / 100 > 0.2


@pytest.mark.slow
def test_the_wealth_is_a_martingale_exactly_in_expectation_over_all_labels() -> None:
    """Over all labels of three windows of three rows each, weighted by their probabilities, the mean is one."""
    p = np.array([0.2, 0.5, 0.7])
    total = 0.0
    for y in product((False, True), repeat=9):
        labels = np.array(y).reshape(3, 3)
        chance = float(np.prod(np.where(labels, p, 1.0 - p)))
        martingale = CalibrationMartingale()
        for row in labels:
            log_e = martingale.add(cb.ScoreSummary.from_rows(p, np.ascontiguousarray(row), None))
        total += chance * math.exp(log_e)
    assert total == pytest.approx(1.0, abs=1e-12)


def test_each_way_to_bet_gains_on_the_error_it_is_made_for_and_a_stop_costs_nothing() -> None:
    rng = np.random.default_rng(2)
    martingale = CalibrationMartingale()
    for _ in range(6):
        martingale.add(window(rng, 500, shift=0.05))
    assert martingale.streams.log_wealth.shape == (1, N_BETTORS)
    assert (martingale.streams.log_wealth > 1.0).sum() > 6
    assert martingale.log_e_value > 5.0


@pytest.mark.parametrize("n_before", [0, 100])
def test_a_change_is_found_soon_however_long_all_was_well(n_before: int) -> None:
    delays = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        monitor = CalibrationMonitor(alpha=0.01)
        for _ in range(n_before):
            monitor.update_summary(window(rng, 300))
        assert not monitor.is_alarm
        delay = 0
        while not monitor.is_alarm:
            monitor.update_summary(window(rng, 300, shift=0.05 if delay < 60 else 0.0))
            delay += 1
            assert delay < 60
        delays.append(delay)
    # One fixed test at level 1%, of rows that are known to follow the change, needs about 4 windows of 300 to find a
    # gap of 0.05 with power 95%: (2.58 + 1.64)^2 0.18 / 0.05^2 / 300. Looking at any time costs a small factor.
    print(f"delays after {n_before} calibrated windows: {delays}")
    assert np.median(delays) <= 12


@pytest.mark.slow
def test_a_change_is_found_sooner_than_by_fixed_windows_that_keep_the_same_rate_of_false_alarms() -> None:
    """A test of each window by itself must share alpha among all windows that anybody will ever look at."""
    alpha, n_before, n_after = 0.01, 40, 120
    limit = NormalDist().inv_cdf(1.0 - 0.5 * alpha / (n_before + n_after))
    delays: dict[str, list[int]] = {"monitor": [], "fixed windows": []}
    for seed in range(7):
        rng = np.random.default_rng(100 + seed)
        monitor = CalibrationMonitor(alpha=alpha)
        for _ in range(n_before):
            monitor.update_summary(window(rng, 300))
        found: dict[str, int] = {}
        for delay in range(1, n_after + 1):
            summary = window(rng, 300, shift=0.05)
            monitor.update_summary(summary)
            p, w = summary.scores, summary.weight
            z = (float(w @ p) - summary.total_positives) / float(np.sqrt(w @ (p * (1.0 - p))))
            if monitor.is_alarm:
                found.setdefault("monitor", delay)
            if abs(z) > limit:
                found.setdefault("fixed windows", delay)
            if len(found) == 2:
                break
        for name, seen in delays.items():
            seen.append(found.get(name, n_after))
    medians = {name: float(np.median(seen)) for name, seen in delays.items()}
    print(f"windows of 300 rows until a gap of 0.05 is found: {medians}")
    assert medians["monitor"] < medians["fixed windows"]


def test_what_was_said_impossible_is_an_alarm_at_once_and_not_a_nan() -> None:
    monitor = CalibrationMonitor()
    monitor.update([0, 0, 1], [0.0, 0.5, 0.5])
    monitor.update([1, 0, 1], [0.0, 0.5, 0.5], name="impossible")
    last = monitor.update([0, 1, 0], [0.0, 0.5, 0.5])
    assert not math.isnan(last.log_e_value)
    assert math.isfinite(last.gap)
    json.dumps(monitor.to_dict(), allow_nan=False)


def test_windows_state_their_figures() -> None:
    monitor = CalibrationMonitor()
    w = monitor.update([0, 1, 1, 1], [0.5, 0.5, 0.5, 0.7], name="a")
    assert (w.n, w.name, w.is_alarm) == (4.0, "a", False)
    assert w.mean_prob == pytest.approx(0.55)
    assert w.gap == pytest.approx(-0.2)
    assert w.brier == pytest.approx(np.mean([0.25, 0.25, 0.25, 0.09]))
    weighted = CalibrationMonitor().update([0, 1, 1], [0.5, 0.5, 0.7], sample_weight=[10.0, 20.0, 10.0])
    assert weighted.gap == pytest.approx(w.gap)


def test_several_classes_are_watched_by_their_top_label() -> None:
    P = np.tile([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], (50, 1))
    w = CalibrationMonitor().update(np.tile([1, 2], 50), P)
    assert w.mean_prob == pytest.approx(0.55)
    assert w.base_rate == pytest.approx(0.5)


def test_a_monitor_that_is_saved_after_each_window_goes_on_as_if_it_never_stopped() -> None:
    rng = np.random.default_rng(3)
    windows = [window(rng, 400, 0.02) for _ in range(12)]
    whole, parts = CalibrationMonitor(), CalibrationMonitor()
    for summary in windows:
        whole.update_summary(summary)
        parts = CalibrationMonitor.from_dict(json.loads(json.dumps(parts.to_dict())))
        parts.update_summary(summary)
    assert parts.windows == whole.windows


def test_what_a_monitor_cannot_use_is_refused() -> None:
    monitor = CalibrationMonitor()
    monitor.update([0, 1], [0.5, 0.5], name="day")
    with pytest.raises(InvalidInputError, match="there was a window 'day' before: a window counts once"):
        monitor.update([0, 1], [0.5, 0.5], name="day")
    with pytest.raises(ShapeError, match="y_true"):
        monitor.update([0, 1, 1], [0.5, 0.5])
    with pytest.raises(InvalidInputError, match="are no probabilities"):
        monitor.update_summary(cb.ScoreSummary.from_arrays([-1.0, 2.0], [0, 1]))
    with pytest.raises(InvalidInputError, match="alpha"):
        CalibrationMonitor(alpha=1.5)
    with pytest.raises(InvalidInputError, match="has seen no window"):
        MonitorReport(CalibrationMonitor())
    assert len(monitor.windows) == 1


@pytest.mark.parametrize("name", ["format", "version", "alpha", "windows", "martingale"])
def test_a_broken_state_is_refused(name: str) -> None:
    monitor = CalibrationMonitor()
    monitor.update([0, 1], [0.5, 0.5])
    state = monitor.to_dict()
    for broken in ({k: v for k, v in state.items() if k != name}, {**state, name: None}, {**state, name: [1]}):
        with pytest.raises((DocumentError, InvalidInputError)):
            CalibrationMonitor.from_dict(broken)
    with pytest.raises(DocumentError, match="its parts don't fit together"):
        CalibrationMonitor.from_dict({**state, "windows": []})
    with pytest.raises(DocumentError, match="is not the state of a monitor"):
        CalibrationMonitor.from_dict([1])
