"""`train`, `oof` and `predict`, killed at changes of files, without disk or rights, with a clock that goes back.

A run is there as a whole or not at all, the next one finishes, and what a killed one left goes with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from click.testing import CliRunner
from faulty_runs import count_events, fill_disk, give_up_rights, in_child, kill_at, load, turn_back_clock

from calibrant.cli import main
from calibrant.training import list_runs, load_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="forks, signals and limits of POSIX"),
    pytest.mark.usefixtures("unrendered"),
]

COMMANDS = {
    "train": "train --data bars.csv --model logistic --horizon 5 --runs runs --no-gate",
    "oof": "oof --data bars.csv --models logistic --folds 3 --horizon 5 --runs runs --no-gate",
}
#: Of all changes of files that a run makes, so many are kills.
MOST_KILLS = 8


def write_bars() -> None:
    rng = np.random.default_rng(0)
    close = 100.0 * np.exp(np.cumsum(0.01 * rng.normal(size=600)))
    opened = np.append(100.0, close[:-1])
    bars = {"open": opened, "high": np.maximum(opened, close), "low": np.minimum(opened, close), "close": close}
    pc.write_csv(pa.table({"time": np.datetime64("2020-01-01") + np.arange(600), **bars}), "bars.csv")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    pytest.importorskip("skops", reason="skops is not installed")
    with contextlib.chdir(tmp_path_factory.mktemp("loaded")):
        write_bars()
        load(*COMMANDS.values(), "predict last --data bars.csv -o out.parquet --runs runs")


@pytest.fixture(autouse=True)
def folder(loaded: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_bars()
    return tmp_path


def check_runs(n_runs: int) -> None:
    """Check that so many runs are there, each of them whole."""
    found, _ = list_runs("runs")
    assert len(found) == n_runs
    for run in found:
        loaded = load_run(run.path)
        assert loaded.metrics
        assert loaded.calibrators
        loaded.check()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_kill_leaves_a_whole_run_or_none_and_the_next_one_clears_up(name: str) -> None:
    words = COMMANDS[name].split()
    assert in_child(words, count_events, "events") == 0
    n_events, n_runs = int(Path("events").read_text()), 1
    assert n_events > MOST_KILLS
    for at in np.unique(np.linspace(1, n_events, MOST_KILLS).astype(int)).tolist():
        code = in_child(words, kill_at, at)
        assert code in (0, -signal.SIGKILL)
        found = len(list_runs("runs")[0])
        assert found in (n_runs, n_runs + 1)
        check_runs(found)
        n_runs = found
        listed = CliRunner().invoke(main, ["runs", "list", "--runs", "runs"])
        assert listed.exit_code == 0
    assert in_child(words) == 0
    check_runs(n_runs + 1)
    assert len(list(Path("runs").iterdir())) == n_runs + 1, "what was left half is gone"
    assert not list(Path().rglob(".calibrant-*"))


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("most_bytes", [0, 1_000, 10_000])
def test_a_full_disk_leaves_no_run(name: str, most_bytes: int) -> None:
    words = COMMANDS[name].split()
    assert in_child(words, fill_disk, most_bytes) == 2
    assert list_runs("runs")[0] == []
    assert in_child(words) == 0
    check_runs(1)
    assert len(list(Path("runs").iterdir())) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_who_may_not_write_is_told_so_and_changes_nothing(name: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    before = sorted(tmp_path.rglob("*"))
    assert in_child(COMMANDS[name].split(), give_up_rights) == 2
    assert sorted(tmp_path.rglob("*")) == before
    tmp_path.chmod(0o755)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_clock_that_goes_back_changes_nothing(name: str) -> None:
    assert in_child(COMMANDS[name].split(), turn_back_clock) == 0
    check_runs(1)


@pytest.fixture
def predicting() -> list[str]:
    """Return the words of a prediction whose output is there already, by a run that is there."""
    assert in_child(COMMANDS["train"].split()) == 0
    words = "predict last --data bars.csv -o out.parquet --runs runs"
    assert in_child([*words.split(), "--last"]) == 0
    return words.split()


def test_a_prediction_that_is_killed_leaves_the_old_file_or_the_new_one(predicting: list[str]) -> None:
    output, old = Path("out.parquet"), Path("out.parquet").read_bytes()
    assert in_child(predicting) == 0
    new = output.read_bytes()
    assert new != old
    for n_events in range(1, 40):
        output.write_bytes(old)
        code = in_child(predicting, kill_at, n_events)
        assert output.read_bytes() in (old, new)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        assert in_child(predicting) == 0
        assert output.read_bytes() == new
        assert list(Path().rglob(".calibrant-*")) == []
    else:
        pytest.fail("the command never finished")
    assert n_events > 2
    check_runs(1)


@pytest.mark.parametrize("most_bytes", [0, 1, 1_000])
def test_a_prediction_onto_a_full_disk_leaves_the_old_file(most_bytes: int, predicting: list[str]) -> None:
    old = Path("out.parquet").read_bytes()
    assert in_child(predicting, fill_disk, most_bytes) == 2
    assert Path("out.parquet").read_bytes() == old
    assert list(Path().rglob(".calibrant-*")) == []
    check_runs(1)
    assert in_child(predicting) == 0


def test_a_prediction_by_who_may_not_write_changes_nothing(predicting: list[str], tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    tmp_path.chmod(0o555)
    assert in_child(predicting, give_up_rights) == 2
    tmp_path.chmod(0o755)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
