"""Progress is shown on terminals, on standard error, and nowhere else."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from click.testing import Result
from pyarrow import parquet

from calibrant.calibrators import check_folding
from calibrant.cli import common
from calibrant.comparison import compare_rows
from calibrant.kernels import compiling_note
from calibrant.rows import read_rows

Run = Callable[..., Result]


def test_compare_tells_how_many_methods_are_done() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(200)
    rows = read_rows(p, (rng.random(200) < p).astype(int))
    done: list[int] = []
    compare_rows(rows, methods=["beta", "sigmoid"], cv=check_folding(3), seed=0, level=0.95, on_method=done.append)
    assert done == [1, 2]


def on_terminal(command: list[str], stream: str = "stderr", **more: str) -> tuple[bytes, bytes]:
    """Run a command one of whose streams is a terminal; return what it printed there, and on the other."""
    reader, writer = pty.openpty()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writer}
    shown = b""
    with subprocess.Popen(command, env={**os.environ, "TERM": "xterm", **more}, **streams) as process:
        os.close(writer)
        with contextlib.suppress(OSError):  # how Linux says that nobody writes any more
            while read := os.read(reader, 1 << 12):
                shown += read
        os.close(reader)
        other = process.stdout or process.stderr
        assert other is not None
        piped = other.read()
    assert process.returncode == 0, piped
    return shown, piped


def test_progress_is_for_terminals_alone(binary: pa.Table) -> None:
    command = [sys.executable, "-m", "calibrant", "compare", "scores.csv", "--methods", "beta,sigmoid", "--json"]
    shown, document = on_terminal(command)
    assert b"Comparing" in shown
    assert {method["name"] for method in json.loads(document)["methods"]} >= {"beta", "sigmoid"}
    piped = subprocess.run(command, capture_output=True, check=True)
    assert (piped.stdout, piped.stderr) == (document, b"")


def test_sentences_are_broken_at_the_width_of_a_terminal_and_nowhere_else(binary: pa.Table) -> None:
    command = [sys.executable, "-m", "calibrant", "evaluate", "scores.csv"]
    piped = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    (verdict,) = (line for line in piped.splitlines() if line.endswith(".") and len(line) > 100)
    shown, _ = on_terminal(command, "stdout", COLUMNS="72")
    text = shown.decode().replace("\r\n", "\n")
    assert verdict in " ".join(text.split("\n"))
    assert max(map(len, text.split("\n\n")[1].split("\n"))) <= 72


@pytest.mark.slow
def test_a_first_run_says_on_a_terminal_that_it_compiles(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(100_000)  # which are too many for Python's loops
    parquet.write_table(pa.table({"y": rng.random(p.size) < p, "p": p}), tmp_path / "many.parquet")
    soon = "from calibrant.kernels.compiling_note import note; note.seconds_left = 0.05; "  # on the fastest machine too
    call = f"{soon}from calibrant.cli import main; main()"
    command = [sys.executable, "-c", call, "compare", str(tmp_path / "many.parquet")]
    few, many = ([*command, "--methods", methods] for methods in ("venn_abers", "venn_abers,spline,mimic"))
    (tmp_path / "cache").mkdir()
    kept = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first, _ = on_terminal(many, **kept)
    assert first.count(b"\x1b[2KCompiling loops, once: later runs find them.\r\n") == 1, "on a line of its own"
    again, _ = on_terminal(many, **kept)
    assert b"Compiling" not in again
    dumb, _ = on_terminal(few, NUMBA_CACHE_DIR=str(tmp_path / "other"), TERM="dumb")
    assert b"Compiling" not in dumb
    empty = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "third")}
    assert subprocess.run(few, capture_output=True, check=True, env=empty).stderr == b""


def test_it_is_said_after_a_second_of_compiling_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []
    monkeypatch.setattr(compiling_note, "note", compiling_note.Note())
    compiling_note.tell_of_compiling(said.append)
    for seconds in (0.6, 0.2):  # together below a second
        machine = Compiling(seconds)
        with compiling_note.watched(machine):
            machine.compile()
    assert said == []
    for _ in range(2):
        machine = Compiling(0.5)
        with compiling_note.watched(machine):
            machine.compile()
    assert said == [True]
    assert not compiling_note.is_watched()


def test_it_is_said_where_patience_ends_before_it_shows_that_a_loop_is_not_on_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[bool] = []
    monkeypatch.setattr(compiling_note, "note", compiling_note.Note())
    compiling_note.note.seconds_left = 0.0
    compiling_note.tell_of_compiling(said.append)
    machine = Compiling(0.1)
    misses, machine.stats.cache_misses = machine.stats.cache_misses, {}
    with compiling_note.watched(machine):
        time.sleep(0.1)
        machine.stats.cache_misses = misses
        machine.compile()
    assert said == [True]


def test_a_loop_that_runs_for_long_is_not_said_to_be_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []
    monkeypatch.setattr(compiling_note, "note", compiling_note.Note())
    compiling_note.tell_of_compiling(said.append)
    machine = Compiling(0.0)
    with compiling_note.watched(machine):
        machine.compile()
        time.sleep(1.3)
    assert said == []


def test_a_loop_that_is_read_from_disk_slowly_is_not_said_to_be_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []
    monkeypatch.setattr(compiling_note, "note", compiling_note.Note())
    compiling_note.tell_of_compiling(said.append)
    machine = Compiling(1.3)
    machine.stats.cache_misses.clear()
    with compiling_note.watched(machine):
        machine.compile()
    assert said == []


class Compiling:
    """What numba says of a loop, of one that takes as long to compile as we like."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.signatures: list[str] = []
        self.stats = SimpleNamespace(cache_path="a folder", cache_misses={"form": 1})

    def compile(self) -> None:
        time.sleep(self.seconds)
        self.signatures.append("form")

    def get_metadata(self, form: str) -> dict[str, dict[str, float]]:
        return {"timers": {"compiler_lock": self.seconds}}


def test_what_is_done_is_counted_in_words() -> None:
    done = [common.done_so_far(*each) for each in (("Checking", 1, "files"), ("Reading", 2_000, "rows"))]
    assert done == ["Checking 1 file", "Reading 2,000 rows"]
    assert common.done_so_far("Fitting without fold", 1, "of 5") == "Fitting without fold 1 of 5"
