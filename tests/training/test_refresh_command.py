"""calibrant refresh, as a user calls it: what it prints, its exit codes, and what calibrant runs says of the result."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from calibrant.cli import main

STEADY = 1200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, make_momentum: Callable[..., pa.Table]) -> Path:
    """Return a folder with a run that was trained in it; bars go on in newest.parquet."""
    folder = tmp_path_factory.mktemp("trained")
    table = make_momentum(STEADY, 600)
    pq.write_table(table[:STEADY], folder / "bars.parquet")
    pq.write_table(table, folder / "newest.parquet")
    words = ("--model", "logistic", "--horizon", "1", "--label", "binary", "--data", "bars.parquet")
    with contextlib.chdir(folder):
        assert call("train", *words).exit_code == 0
    return folder


@pytest.fixture(autouse=True)
def trained(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Go to a copy of the folder, and return the id of its run."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (run,) = Path("experiments/runs").iterdir()
    return run.name


def call(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def test_a_refresh_says_what_decided_it_and_where_the_new_run_is(trained: str) -> None:
    result = call("refresh", "last", "--data", "newest.parquet")
    assert result.exit_code == 0, result.output
    number, ends = r"[+-]\d\.\d{4}", r"\[-?\d\.\d+, -?\d\.\d+\]"
    assert re.search(
        r"^599 new rows: fitted to 298, judged by 300 later ones, worth 300 independent labels$",
        result.stdout,
        re.MULTILINE,
    )
    for what in ("the calibrator in use", "no calibrator"):
        assert re.search(rf"^{what} +{number} +{ends}$", result.stdout, re.MULTILINE)
    assert re.search(r"^Candidate: calibrator used \(temperature \d", result.stdout, re.MULTILINE)
    assert "Refreshed: later rows show no loss." in result.stdout
    new = re.search(r"calibrant runs show (\S+)", result.stdout)
    assert new is not None
    shown = call("runs", "show", new[1])
    assert shown.exit_code == 0, shown.output
    assert f"Refreshed from {trained}\n" in shown.stdout
    assert "Calibrator fitted to all new rows, those of the figures among them: 599 rows" in shown.stdout
    assert all(len(line) <= 120 for line in result.stdout.splitlines())
    listed = json.loads(call("runs", "list", "--json").stdout)["runs"]
    assert [run["run"] for run in listed] == [trained, new[1]]
    assert call("runs", "compare", trained, new[1]).exit_code == 0
    again = call("refresh", new[1], "--data", "newest.parquet")
    assert (again.exit_code, again.stdout[:48]) == (0, "Nothing to do: no row with a finished label came")


@pytest.mark.parametrize("n_new", [2, 3, 4])
def test_a_refresh_of_the_first_new_labels_has_nothing_to_do(trained: str, n_new: int) -> None:
    """None of a few rows has a label that ends before those that judge start: that was bad input, and exit code 2."""
    pq.write_table(pq.read_table("newest.parquet")[: STEADY + n_new], "few.parquet")
    result = call("refresh", trained, "--data", "few.parquet")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Nothing to do: ")
    assert "at least 30 of two classes are needed. Wait for more labels." in " ".join(result.stdout.split())


def test_json_is_one_document(trained: str) -> None:
    result = call("refresh", trained, "--data", "newest.parquet", "--dry-run", "--json")
    document = json.loads(result.stdout)
    assert result.stderr == ""
    assert (document["status"], document["parent"], document["run_id"]) == ("passed", trained, None)
    assert set(document["differences"]) == {"in_use", "none"}
    assert len(list(Path("experiments/runs").iterdir())) == 1
    nothing = json.loads(call("refresh", trained, "--json").stdout)
    assert (nothing["status"], nothing["differences"]) == ("nothing_to_do", {})


def test_what_later_rows_speak_against_ends_with_1(make_momentum: Callable[..., pa.Table]) -> None:
    """Prices turn against the model for a while, and follow it again."""
    moves = [
        np.diff(np.log(part["close"]), prepend=np.log(part["open"][0].as_py()))
        for part in (make_momentum(STEADY, 200, after=-0.5), make_momentum(0, 200, seed=5, after=0.5))
    ]
    close = 100.0 * np.exp(np.cumsum(np.concatenate(moves)))
    opened = np.append(100.0, close[:-1])
    bars = {"open": opened, "high": np.maximum(opened, close) * 1.001, "low": np.minimum(opened, close) / 1.001}
    days = np.datetime64("2000-01-01") + np.arange(close.size)
    pq.write_table(pa.table({"time": days, **bars, "close": close}), "turned.parquet")
    result = call("refresh", "last", "--data", "turned.parquet")
    assert result.exit_code == 1, result.output
    assert "Refused: later rows show a loss: the log loss of the refit is more than a standard error" in result.stdout
    assert len(list(Path("experiments/runs").iterdir())) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing",), "no run in experiments/runs is called 'nothing'"),
        (("last", "--data", "none.parquet"), "none.parquet"),
        (("last", "--data", "newest.parquet", "--later", "2"), "later"),
    ],
)
def test_bad_input_is_one_line_and_2(words: tuple[str, ...], said: str) -> None:
    result = call("refresh", *words)
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert said in last
