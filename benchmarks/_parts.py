"""Run code in this process, and print its processor seconds by part: `python -m benchmarks._parts CODE`.

Import, compile and run exclude each other: what is imported while numba compiles is import, and loading compiled code
from numba's cache is run. The total is that of the process, with the interpreter's own start.
"""

from __future__ import annotations

import builtins
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_seconds = {"import": 0.0, "compile": 0.0}
_running: list[str] = []
_listening: list[bool] = []
_since = [time.process_time()]


def _switch() -> None:
    """Add the time since the last switch to the part that was running."""
    now = time.process_time()
    if _running:
        _seconds[_running[-1]] += now - _since[0]
    _since[0] = now


def _listen() -> None:
    """Have numba say when it compiles."""
    from numba.core import event

    class Compilations(event.Listener):
        def on_start(self, event: Any) -> None:
            _switch()
            _running.append("compile")

        def on_end(self, event: Any) -> None:
            _switch()
            _running.pop()

    event.register("numba:compile", Compilations())


def _timed(load: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if _running and _running[-1] == "import":
            return load(*args, **kwargs)
        _switch()
        _running.append("import")
        try:
            return load(*args, **kwargs)
        finally:
            _switch()
            _running.pop()
            if not _listening and hasattr(sys.modules.get("numba"), "njit"):
                _listening.append(True)
                _listen()

    return wrapper


def main(code: str) -> None:
    """Run the code; what it prints goes nowhere."""
    out = sys.stdout
    with Path(os.devnull).open("w") as sys.stdout:
        builtins.__import__ = _timed(builtins.__import__)
        importlib.import_module = _timed(importlib.import_module)
        try:
            exec(code, {"__name__": "__main__"})
        except SystemExit as ended:
            if ended.code not in (None, 0):
                raise
        total = time.process_time()
    sys.stdout = out
    print(json.dumps({"total": total, **_seconds}))


if __name__ == "__main__":
    main(sys.argv[1])
