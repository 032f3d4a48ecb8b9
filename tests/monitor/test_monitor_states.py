"""States of a monitor: one transaction with its page, one process at a time, checked as a whole, each row once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from monitor_cases import rows, run

from calibrant.cli import monitor_state
from calibrant.errors import CalibrantError
from calibrant.files import held
from calibrant.monitor import CalibrationMonitor

pytestmark = pytest.mark.usefixtures("unrendered")


def test_what_fails_counts_nothing_and_can_be_done_again() -> None:
    pq.write_table(rows(0.0), "t.parquet")
    command = "monitor t.parquet --rows 1000 --state s.json"
    failed = run(f"{command} -o no/x.html")
    assert failed.exit_code == 2
    assert "there is no folder" in failed.output
    assert not Path("s.json").exists()
    assert run(f"{command} -o x.html").exit_code == 0
    state = Path("s.json").read_bytes()
    assert len(json.loads(state)["windows"]) == 6
    assert run(f"{command} -o no/x.html").exit_code == 2
    assert Path("s.json").read_bytes() == state
    assert sorted(path.name for path in Path().iterdir()) == ["s.json", "t.parquet", "x.html"]


@pytest.mark.parametrize("options", ["--rows 500", "--rows 1000", "--date day", "--date day --every month", ""])
def test_rows_count_once_whatever_their_windows(options: str) -> None:
    pq.write_table(rows(0.0), "t.parquet")
    assert run("monitor t.parquet --date day --state s.json").exit_code == 0
    state = Path("s.json").read_bytes()
    again = run(f"monitor t.parquet --state s.json {options}")
    assert again.exit_code == 0
    assert "These rows were counted before, all of them" in again.output
    assert Path("s.json").read_bytes() == state


def test_windows_that_were_counted_are_passed_over_and_periods_do_not_overlap() -> None:
    table = rows(0.0).sort_by("day")
    pq.write_table(table.filter(table["day"].to_numpy() < np.datetime64("2026-03-11")), "t.parquet")
    run("monitor t.parquet --date day --state s.json")
    pq.write_table(table, "t.parquet")
    other = run("monitor t.parquet --date day --every month --state s.json")
    assert other.exit_code == 2
    assert "has days of window '2026-03-01', which was counted: a row counts once. Take the periods" in other.output
    grown = run("monitor t.parquet --date day --state s.json")
    assert "2026-03-01, 2026-03-02, 2026-03-03, and 7 more were counted before, and passed over." in grown.output
    alone = run("monitor t.parquet --date day --state alone.json")
    assert grown.exit_code == alone.exit_code == 0
    both = [json.loads(Path(name).read_text("utf-8")) for name in ("s.json", "alone.json")]
    assert both[0]["windows"] == both[1]["windows"]
    assert both[0]["martingale"] == both[1]["martingale"]


def test_a_period_before_those_that_were_counted_is_refused_and_passed_over_if_it_was_counted() -> None:
    table = rows(0.0)
    day = table["day"].to_numpy()
    for name, kept in (("early", day < np.datetime64("2026-03-11")), ("late", day >= np.datetime64("2026-03-11"))):
        pq.write_table(table.filter(kept), f"{name}.parquet")
    run("monitor late.parquet --date day --state s.json")
    state = Path("s.json").read_bytes()
    late = run("monitor early.parquet --date day --state s.json")
    assert late.exit_code == 2
    assert "window '2026-03-01' is earlier than window '2026-03-11', which was counted" in late.output
    assert Path("s.json").read_bytes() == state
    for name in ("early", "late", "early"):
        assert run(f"monitor {name}.parquet --date day --state alone.json").exit_code == 0


def test_a_state_that_can_not_be_read_again_is_refused() -> None:
    pq.write_table(rows(0.0), "t.parquet")
    refused = run("monitor t.parquet --state -")
    assert (refused.exit_code, refused.output) == (2, "Error: --state - can't be read again. Name a file.\n")


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("name", ["s.json", "./s.json", "link.json"])
def test_a_page_over_the_state_is_refused_as_such(name: str, exists: bool) -> None:
    pq.write_table(rows(0.0), "t.parquet")
    Path("link.json").symlink_to("s.json")
    if exists:
        assert run("monitor t.parquet --rows 1000 --state s.json").exit_code == 0
    refused = run(f"monitor t.parquet --rows 1000 --state s.json -o {name}")
    assert refused.exit_code == 2
    assert f"-o {name} is the file that is read. Write to another one." in refused.output
    assert Path("s.json").exists() == exists


def test_states_are_for_their_owner_and_keep_what_permissions_they_have() -> None:
    pq.write_table(rows(0.0).slice(0, 1_000), "t.parquet")
    run("monitor t.parquet --state s.json")
    assert Path("s.json").stat().st_mode & 0o777 == 0o600
    Path("s.json").chmod(0o640)
    pq.write_table(rows(0.0).slice(1_000, 1_000), "u.parquet")
    run("monitor u.parquet --state s.json")
    assert Path("s.json").stat().st_mode & 0o777 == 0o640
    assert len(json.loads(Path("s.json").read_text("utf-8"))["windows"]) == 2


@pytest.mark.slow
def test_two_monitors_of_one_state_lose_no_window() -> None:
    table = rows(0.0)
    for i in range(4):
        pq.write_table(table.slice(1_000 * i, 1_000), f"{i}.parquet")
    run("monitor 0.parquet --rows 500 --state other.json")  # loops are compiled while nobody waits
    command = [sys.executable, "-m", "calibrant", "monitor"]
    running = [
        subprocess.Popen([*command, f"{i}.parquet", "--state", "s.json"], stdout=subprocess.DEVNULL) for i in range(4)
    ]
    assert [process.wait() for process in running] == [0] * 4
    state = json.loads(Path("s.json").read_text("utf-8"))
    assert sorted(window["name"] for window in state["windows"]) == [f"{i}.parquet" for i in range(4)]
    assert not list(Path().glob(".calibrant*"))


def test_a_monitor_that_is_stuck_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_state, "_WAIT", 0.0)
    pq.write_table(rows(0.0), "t.parquet")
    with held(Path("s.json")):
        refused = run("monitor t.parquet --state s.json")
    assert refused.exit_code == 2
    assert f"process {os.getpid()} is writing" in refused.output
    assert not Path("s.json").exists()


def broken_states() -> Iterator[tuple[str, Any]]:
    """Yield states that are none, each with what was done to it."""
    monitor = CalibrationMonitor()
    rng = np.random.default_rng(0)
    for k in range(3):
        p = rng.random(50)
        t = np.arange(50 * k, 50 * k + 50)
        monitor.update(rng.random(50) < p, p, time=t, label_end=t + 2)
    whole = json.loads(json.dumps(monitor.to_dict()))
    yield "whole", whole

    def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        keys = list(value) if isinstance(value, dict) else range(min(len(value), 2)) if isinstance(value, list) else []
        for key in keys:
            yield (*path, key)
            yield from places(value[key], (*path, key))

    for path in places(whole):
        for new in (None, "x", True, -1, -0.5, 1e308, 2**70, [], {}, [[]], [None], {"x": 1}, "delete"):
            changed = json.loads(json.dumps(whole))
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            if new == "delete":
                del holder[path[-1]]
            else:
                holder[path[-1]] = new
            yield f"{path} = {new!r}", changed


def test_no_broken_state_is_taken_for_another_or_ends_in_a_traceback() -> None:
    n_taken, whole = 0, None
    for what, state in broken_states():
        whole = state if what == "whole" else whole
        try:
            monitor = CalibrationMonitor.from_dict(state)
        except CalibrantError:
            continue
        again = json.loads(json.dumps(monitor.to_dict(), allow_nan=False))
        assert CalibrationMonitor.from_dict(again).to_dict() == monitor.to_dict(), what
        assert monitor.is_alarm or monitor.windows[-1].log_e_value < -np.log(monitor.alpha), what
        assert np.isfinite(monitor.martingale.log_e_value), what
        n_taken += 1
    assert n_taken > 1


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"null", b"[]", b"NaN", b'{"format": "calibrant monitor", "version": 99}', b"[" * 100_000, b"\xff\xfe",
     b'{"format": 1, "format": 1}', b"PAR1", b"\x80\x04N.", b"1" * 5_000],
)  # fmt: skip
def test_a_broken_state_is_refused_with_exit_code_two_and_stays(text: bytes) -> None:
    pq.write_table(rows(0.0), "t.parquet")
    Path("s.json").write_bytes(text)
    refused = run("monitor t.parquet --state s.json")
    assert refused.exit_code == 2, refused.output
    assert "s.json: " in refused.output
    assert "Traceback" not in refused.output
    assert Path("s.json").read_bytes() == text


def test_a_state_of_any_depth_asks_for_no_more_streams_than_are_used() -> None:
    """It is the most labels that were open at once, and 4,294,967,296 of them made 384 GiB of streams."""
    monitor = CalibrationMonitor()
    rng = np.random.default_rng(0)
    for _ in range(2):
        monitor.update(rng.random(40) < 0.5, rng.random(40), cluster=np.arange(40) // 4)
    state = json.loads(json.dumps(monitor.to_dict()))
    state["martingale"]["depth"] = 2**32
    deep = CalibrationMonitor.from_dict(state)
    deep.update(rng.random(3) < 0.5, rng.random(3), cluster=[0, 1, 2])
    assert deep.martingale.streams.cash.size <= 1_000
    assert np.isfinite(deep.martingale.log_e_value)
