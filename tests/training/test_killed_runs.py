"""Runs of several models or windows that are killed or run out of disk: all or nothing, and the next run clears up."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from child_runs import in_child, killed_at, without_space

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


@pytest.mark.parametrize(("run", "n_events"), RUNS)
def test_a_run_that_is_killed_leaves_nothing_that_loads_and_the_next_run_clears_up(
    run: Callable[[str, Bars], None], n_events: int, bars: Bars, tmp_path: Path
) -> None:
    assert in_child(killed_at, n_events, str(tmp_path), run, str(tmp_path), bars) == -signal.SIGKILL
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
    assert in_child(without_space, most_bytes, run, str(tmp_path), bars) == 7
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_stack_that_was_killed_and_is_run_again_gives_the_same_metrics(bars: Bars, tmp_path: Path) -> None:
    assert in_child(killed_at, 12, str(tmp_path), stacked, str(tmp_path), bars) == -signal.SIGKILL
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
