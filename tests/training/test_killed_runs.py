"""Runs of several models or windows that are killed or run out of disk: all or nothing, and the next run clears up."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.errors import CalibrantError
from calibrant.training.bars import Bars
from calibrant.training.config import TrainConfig
from calibrant.training.run_folder import find_run, list_runs, load_run, new_run, remove_dead
from calibrant.training.training_run import run_stack, run_training

CONFIG = TrainConfig(model="logistic", horizon=8)


@pytest.fixture(scope="module")
def bars(make_bars: Callable[..., Bars]) -> Bars:
    return make_bars(500)


def stacked(root: str, bars: Bars) -> None:
    run_stack(CONFIG, ["logistic"], n_folds=3, bars=bars, root=root)


def walked(root: str, bars: Bars) -> None:
    run_training(replace(CONFIG, walk_forward=2, test=0.4, stop_share=0.3), bars=bars, root=root)


#: What is killed, and at the touch of which files.
RUNS = [(stacked, n) for n in (2, 8, 17, 31)] + [(walked, n) for n in (2, 9, 14)]


def in_child(target: Callable[..., None], *arguments: Any) -> int | None:
    child = multiprocessing.get_context("fork").Process(target=target, args=arguments)
    child.start()
    child.join()
    return child.exitcode


def killed_at(root: str, bars: Bars, n_events: int, run: Callable[[str, Bars], None] = stacked) -> None:
    """Run in a child process, and kill it when it touches a file of the run for the n-th time."""
    left = [n_events]

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.mkdir", "os.rename") and root in str(arguments[0]):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    run(root, bars)


def without_space(root: str, bars: Bars, most_bytes: int, run: Callable[[str, Bars], None]) -> None:
    """Run in a child process in which files can't grow beyond some size, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        run(root, bars)
    except OSError:
        os._exit(7)


@pytest.mark.parametrize(("run", "n_events"), RUNS)
def test_a_run_that_is_killed_leaves_nothing_that_loads_and_the_next_run_clears_up(
    run: Callable[[str, Bars], None], n_events: int, bars: Bars, tmp_path: Path
) -> None:
    assert in_child(killed_at, str(tmp_path), bars, n_events, run) == -signal.SIGKILL
    runs, n_partial = list_runs(tmp_path)
    assert (runs, n_partial) == ([], 0 if n_events == 2 else 1)
    for entry in tmp_path.iterdir():
        with pytest.raises(CalibrantError, match="holds no finished run"):
            load_run(entry)
        with pytest.raises(CalibrantError, match="no run in"):
            find_run(entry.name, tmp_path)
    with new_run(tmp_path, "next", {}):
        assert list_runs(tmp_path)[1] == 1, "what is left is the run that is under way"
    assert [run.run_id[:5] for run in list_runs(tmp_path)[0]] == ["next_"]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("run", [stacked, walked])
@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_is_killed_at_any_time_leaves_all_or_nothing(
    run: Callable[[str, Bars], None], seed: int, bars: Bars, tmp_path: Path
) -> None:
    child = multiprocessing.get_context("fork").Process(target=run, args=(str(tmp_path), bars))
    child.start()
    child.join(np.random.default_rng(seed).uniform(0.05, 1.5))
    child.kill()
    child.join()
    for run in list_runs(tmp_path)[0]:
        run.check()


@pytest.mark.parametrize("run", [stacked, walked])
@pytest.mark.parametrize("most_bytes", [0, 4_000, 20_000])
def test_a_disk_that_is_full_leaves_nothing_of_a_run(
    run: Callable[[str, Bars], None], most_bytes: int, bars: Bars, tmp_path: Path
) -> None:
    assert in_child(without_space, str(tmp_path), bars, most_bytes, run) == 7
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_stack_that_was_killed_and_is_run_again_gives_the_same_metrics(bars: Bars, tmp_path: Path) -> None:
    assert in_child(killed_at, str(tmp_path), bars, 12) == -signal.SIGKILL
    for root in (tmp_path, tmp_path / "elsewhere"):
        stacked(str(root), bars)
    found = [list_runs(root)[0][-1].path / "metrics.json" for root in (tmp_path, tmp_path / "elsewhere")]
    assert found[0].read_bytes() == found[1].read_bytes()


def test_only_folders_of_dead_processes_of_this_machine_are_cleared(tmp_path: Path) -> None:
    with new_run(tmp_path, "mine", {}) as mine:
        head = mine.name.rpartition("-")[0]
        dead = multiprocessing.get_context("fork").Process(target=int)
        dead.start()
        dead.join()
        kept = [
            mine.name,
            f".x.partial-elsewhere-{dead.pid}",
            ".x.partial-1",
            f"{head}-{os.getppid()}",
            "x.partial-1-1",
        ]
        for name in kept[1:]:
            (tmp_path / name).mkdir()
        (tmp_path / f"{head}-{dead.pid}").mkdir()
        (tmp_path / f"{head}-{dead.pid}" / "metrics.json").write_text("{}")
        assert remove_dead(tmp_path) == 1
        assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(kept)
