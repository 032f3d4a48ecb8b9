"""Who is told that loops are being compiled, which takes seconds once, and when.

This module imports neither numba nor NumPy, so that a program can ask to be told before it knows whether there is a
loop to run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds of compiling, of all loops together, after which it is said.
_PATIENCE_S = 1.0


class Note:
    """Says once in a process that loops are being compiled, where somebody listens."""

    def __init__(self) -> None:
        self.listener: Callable[[bool], None] | None = None
        self.seconds_left = _PATIENCE_S
        self._lock = threading.Lock()  # a timer asks from a thread of its own

    def say(self, machine: Any) -> None:
        """Say it, unless the loop has been compiled or is read from disk, which shows when it has been looked for."""
        is_read = bool(machine.stats.cache_path) and not machine.stats.cache_misses
        if not (machine.signatures or is_read):
            self.tell(machine)

    def tell(self, machine: Any) -> None:
        """Say it, unless it was said before."""
        with self._lock:
            tell, self.listener = self.listener, None
        if tell is not None:
            tell(bool(machine.stats.cache_path))


#: The one of this process.
note = Note()


def tell_of_compiling(listener: Callable[[bool], None]) -> None:
    """Ask to be called, once and maybe by another thread, when loops have been compiled for a second.

    The listener is told whether the machine code is kept for later processes. Code that is on disk already is never
    told of, however long it takes to read.
    """
    note.listener = listener


def is_watched() -> bool:
    """Say whether somebody still waits to be told."""
    return note.listener is not None


@contextmanager
def watched(machine: Any) -> Iterator[None]:
    """Watch the first call of a loop, which compiles it before it runs."""
    timer = threading.Timer(max(note.seconds_left, 0.0), note.say, [machine])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if machine.stats.cache_misses or not machine.stats.cache_path:
            took = (machine.get_metadata(each).get("timers", {}) for each in machine.signatures)
            note.seconds_left -= sum(timers.get("compiler_lock", 0.0) for timers in took)
            if note.seconds_left <= 0.0:  # the timer may have asked too early
                note.tell(machine)
