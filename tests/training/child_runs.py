"""Runs in child processes that are killed at a touch of a file, or whose files can't grow."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any


def in_child(target: Callable[..., None], *arguments: Any) -> int | None:
    """Call a function in a child process; return the exit code of that."""
    child = multiprocessing.get_context("fork").Process(target=target, args=arguments)
    child.start()
    child.join()
    return child.exitcode


def killed_at(n_events: int, of: str, run: Callable[..., object], *arguments: Any) -> None:
    """Kill this process when it touches a file or folder with `of` in its path for the n-th time."""
    left = [n_events]

    def count(event: str, found: tuple[Any, ...]) -> None:
        if event in ("open", "os.mkdir", "os.rename") and of in str(found[0]):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    run(*arguments)


def without_space(most_bytes: int, run: Callable[..., object], *arguments: Any) -> None:
    """Let no file of this process grow beyond some size, as on a disk that is full; end with 7 where one would."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        run(*arguments)
    except OSError:
        os._exit(7)
