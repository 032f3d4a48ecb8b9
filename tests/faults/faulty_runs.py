"""Commands in a child process that is killed, runs out of disk, may not write, or whose clock goes back."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from calibrant.cli import main

#: What changes files or names of them, as the interpreter reports it before it happens.
EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.chmod", "os.chown", "os.truncate", "os.link", "os.symlink")


def load(*lines: str) -> None:
    """Run commands in this process, so that its forks find the modules, loops and templates that they need."""
    for line in lines:
        assert CliRunner().invoke(main, line.split()).exit_code == 0, line


def in_child(words: list[str], prepare: Callable[..., None] | None = None, *arguments: Any) -> int | None:
    """Run a command in a fork of this process, and return its exit code; negative is the signal that ended it."""
    child = multiprocessing.get_context("fork").Process(target=_run, args=(words, prepare, arguments))
    child.start()
    child.join(60.0)
    if child.is_alive():
        child.kill()
        raise TimeoutError(words)
    return child.exitcode


def _run(words: list[str], prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    if prepare is not None:
        prepare(*arguments)
    main(words, prog_name="calibrant")


def kill_at(n_events: int) -> None:
    """Kill this process when it is about to change a file below its folder for the n-th time."""
    left = [n_events]

    def kill_last() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    _at_events(kill_last)


def count_events(path: str) -> None:
    """Write into a file how many changes there were so far."""
    seen, file = [0], os.open(path, os.O_WRONLY | os.O_CREAT)

    def count() -> None:
        seen[0] += 1
        os.pwrite(file, str(seen[0]).encode(), 0)

    _at_events(count)


def _at_events(act: Callable[[], None]) -> None:
    """Call a function before each change of a file below this process's folder, and at each flush to the disk."""
    here = os.fspath(Path().resolve())

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS or not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if os.path.realpath(os.fsdecode(arguments[0])).startswith(here):
            act()

    sys.addaudithook(look)
    synced = os.fsync

    def sync(file: int) -> None:
        act()
        synced(file)
        act()

    os.fsync = sync


def fill_disk(most_bytes: int) -> None:
    """Let no file grow beyond some size, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


def give_up_rights() -> None:
    """Give up what lets root write anywhere, by capset(2): the permissions of files hold then."""
    if os.geteuid() == 0:
        header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        if ctypes.CDLL(None, use_errno=True).capset(header, none) != 0:
            raise OSError(ctypes.get_errno(), "capset")


def turn_back_clock() -> None:
    """Let each look at the clock find it an hour earlier."""
    now = [time.time()]

    def earlier() -> float:
        now[0] -= 3600.0
        return now[0]

    time.time = earlier
