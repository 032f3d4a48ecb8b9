"""Refreshes that are killed or run out of disk: the old run stays whole, and a new one is there or not."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from child_runs import in_child, killed_at, without_space

from calibrant.errors import CalibrantError
from calibrant.training import TrainConfig, as_bars, list_runs, load_run, refresh_run, run_training
from calibrant.training.run_folder import Run

#: A calibrator that has no infinite fit, on which a refresh always has something to write.
CONFIG = TrainConfig(model="logistic", horizon=1, label="binary", calibrator="sigmoid")


@pytest.fixture(scope="module")
def table(make_momentum: Callable[..., pa.Table]) -> pa.Table:
    return make_momentum(900, 300)


@pytest.fixture
def run(table: pa.Table, tmp_path: Path) -> Run:
    return run_training(CONFIG, bars=as_bars(table[:900]), root=tmp_path)


def old_is_whole(run: Run, before: bytes) -> None:
    load_run(run.path).check()
    names = len(run.found["features"])
    assert load_run(run.path).predict_proba(np.zeros((3, names))).tobytes() == before


@pytest.mark.parametrize("n_events", [1, 2, 4, 9, 15, 25, 1_000])
def test_a_refresh_that_is_killed_leaves_the_old_run_whole_and_all_or_nothing_of_the_new(
    n_events: int, run: Run, table: pa.Table
) -> None:
    before = run.predict_proba(np.zeros((3, len(run.found["features"])))).tobytes()
    assert in_child(killed_at, n_events, "_refreshed_", refresh_run, run, table) == (
        0 if n_events == 1_000 else -signal.SIGKILL
    )
    old_is_whole(run, before)
    runs, n_partial = list_runs(run.path.parent)
    if n_events == 1_000:
        assert (len(runs), n_partial) == (2, 0)
        runs[1].check()
        return
    assert [one.run_id for one in runs] == [run.run_id]
    for entry in run.path.parent.glob(".*"):
        with pytest.raises(CalibrantError, match="holds no finished run"):
            load_run(entry)
    again = refresh_run(run, table)
    assert {one.run_id for one in list_runs(run.path.parent)[0]} == {run.run_id, again.run_id}
    assert list(run.path.parent.glob(".*")) == [], "the next run clears up"


@pytest.mark.parametrize("most_bytes", [0, 500, 3_000, 20_000])
def test_a_disk_that_is_full_leaves_the_old_run_and_nothing_else(most_bytes: int, run: Run, table: pa.Table) -> None:
    before = run.predict_proba(np.zeros((3, len(run.found["features"])))).tobytes()
    assert in_child(without_space, most_bytes, refresh_run, run, table) == 7
    old_is_whole(run, before)
    assert list(run.path.parent.iterdir()) == [run.path]
