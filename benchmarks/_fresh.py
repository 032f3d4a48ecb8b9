"""Code timed in fresh interpreters: what a process pays before it does its first useful thing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks._harness import Rounds

_TIMED = """\
import json, time
cpu, wall = time.process_time(), time.perf_counter()
{code}
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""


class Fresh:
    """A piece of code, with environment variables of its own."""

    def __init__(self, code: str, env: Callable[[], Mapping[str, str]] = dict) -> None:
        self.code = code
        self.env = env

    def run(self) -> tuple[float, float]:
        """Run the code in a new interpreter; return its seconds by the clock and of processor time."""
        done = subprocess.run(
            [sys.executable, "-c", _TIMED.format(code=self.code)],
            env={**os.environ, **self.env()},
            cwd=Path(__file__).parents[1],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        wall, cpu = json.loads(done.stdout)
        return wall, cpu


def race_fresh(rivals: dict[str, Fresh], *, rounds: int) -> dict[str, Rounds]:
    """Time each rival in a fresh process once per round, in turn, after one round that doesn't count."""
    measured: dict[str, Rounds] = {name: Rounds([], []) for name in rivals}
    for fresh in rivals.values():
        fresh.run()
    for _ in range(rounds):
        for name, fresh in rivals.items():
            wall, cpu = fresh.run()
            measured[name].wall_s.append(wall)
            measured[name].cpu_s.append(cpu)
    return measured
