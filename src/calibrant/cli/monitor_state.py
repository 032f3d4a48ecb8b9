"""The state of a monitor in a file, from which `calibrant monitor` goes on."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from calibrant.errors import InvalidInputError
from calibrant.files import open_target

if TYPE_CHECKING:
    from calibrant.monitor import CalibrationMonitor, DriftMonitor

_Monitor = TypeVar("_Monitor", "CalibrationMonitor", "DriftMonitor")
#: Seconds that a monitor waits for another one of the same state.
_WAIT = 30.0


def open_state(state: str | None) -> AbstractContextManager[BinaryIO | None]:
    """Open the file of a state, if there is one, to be written anew; it stays as it is where what follows fails."""
    return nullcontext() if state is None else open_target(state, private=True, wait=_WAIT)


def load_state(kind: type[_Monitor], state: str, alpha: float | None) -> _Monitor:
    """Return the monitor of a state; refuse an `alpha` that is another than the one that it was begun with."""
    from calibrant import persistence
    from calibrant.document_field import within

    document = persistence.read_plain(state)
    with within(state):
        monitor = kind.from_dict(document)
    if alpha is not None and alpha != monitor.alpha:
        raise InvalidInputError(
            f"--alpha {alpha:g}, but {state} was begun with {monitor.alpha:g}: to change it by what one has seen would "
            "void the guarantee. Leave --alpha out, or begin a new state."
        )
    return monitor


def write_state(out: BinaryIO, monitor: CalibrationMonitor | DriftMonitor) -> None:
    """Write the state of a monitor."""
    out.write((json.dumps(monitor.to_dict(), allow_nan=False) + "\n").encode())
