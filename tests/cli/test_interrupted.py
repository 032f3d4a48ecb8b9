"""Ctrl-C ends a command with 130, whatever it was doing, and leaves no file behind; so do other signals that end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import Result

from calibrant.cli import main
from calibrant.cli.app import INTERRUPTED

Run = Callable[..., Result]
ROWS = "y,p\n" + "".join(f"{i % 2},{i / 200}\n" for i in range(1, 200))


def begin(*args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "calibrant", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_command_that_waits_for_input_ends_with_130(folder: Path) -> None:
    os.mkfifo("rows.csv")
    process = begin("evaluate", "rows.csv", "--format", "csv")
    with Path("rows.csv").open("wb") as pipe:  # opens once the command reads
        pipe.write(b"y,p\n1,0.5\n")
        pipe.flush()
        time.sleep(0.5)  # until it waits for more: Python misses a signal that comes as a read begins
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.decode()) == (INTERRUPTED, "Interrupted.\n")


@pytest.mark.parametrize(
    ("target", "number", "code", "said"),
    [
        ("out.csv", signal.SIGINT, INTERRUPTED, "Interrupted.\n"),
        ("out.csv.gz", signal.SIGINT, INTERRUPTED, "Interrupted.\n"),
        ("out.csv", signal.SIGTERM, 143, ""),
        ("out.csv", signal.SIGHUP, 129, ""),
    ],
)
def test_a_file_that_is_half_written_goes(
    run: Run, folder: Path, target: str, number: signal.Signals, code: int, said: str
) -> None:
    Path("rows.csv").write_text(ROWS)
    run("fit rows.csv --method isotonic --bounded -o c.json")
    os.mkfifo("pipe.csv")
    process = begin("apply", "c.json", "pipe.csv", "-o", target, "--format", "csv")
    with Path("pipe.csv").open("wb") as pipe:
        padding = np.random.default_rng(0).bytes(400).hex().encode()
        pipe.write(b"p,x\n" + b"".join(b"0.5,%d%s\n" % (i, padding) for i in range(15_000)))
        pipe.flush()
        end = time.monotonic() + 60
        while not list(folder.glob(".calibrant-*.part")) and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(number)  # a terminal sends it to who writes the pipe, too, which so ends
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.decode()) == (code, said)
    assert sorted(path.name for path in folder.iterdir()) == ["c.json", "pipe.csv", "rows.csv"]


def test_an_interruption_that_click_takes_is_no_failed_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(ctx: click.Context) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "invoke", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", "rows.csv"])
    assert ended.value.code == INTERRUPTED


def test_an_interruption_that_comes_twice_is_one(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    def interrupted_twice(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("calibrant.cli.data.Request.open", interrupted_twice)
    Path("rows.csv").write_text(ROWS)
    done = run("evaluate rows.csv")
    assert (done.exit_code, done.stderr) == (INTERRUPTED, "Interrupted.\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interruption_that_a_compiled_module_turns_into_its_own_error_is_one(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Ctrl-C while pandas was imported was a SystemError, and "a fault of calibrant"."""

    def stopped(*_: object) -> None:
        raise SystemError("an import returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr("calibrant.cli.data.Request.open", stopped)
    Path("rows.csv").write_text(ROWS)
    done = run("evaluate rows.csv")
    assert (done.exit_code, done.stderr) == (INTERRUPTED, "Interrupted.\n")
