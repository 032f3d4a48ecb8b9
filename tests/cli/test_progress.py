"""Progress is shown on terminals, on standard error, and nowhere else."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from click.testing import Result

from calibrant.calibrators import check_folding
from calibrant.comparison import compare_rows
from calibrant.rows import read_rows

Run = Callable[..., Result]


def test_compare_tells_how_many_methods_are_done() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(200)
    rows = read_rows(p, (rng.random(200) < p).astype(int))
    done: list[int] = []
    compare_rows(rows, methods=["beta", "sigmoid"], cv=check_folding(3), seed=0, level=0.95, on_method=done.append)
    assert done == [1, 2]


def test_progress_is_for_terminals_alone(binary: pa.Table) -> None:
    command = [sys.executable, "-m", "calibrant", "compare", "scores.csv", "--methods", "beta,sigmoid", "--json"]
    reader, writer = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    shown = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer, env=env) as process:
        os.close(writer)
        try:
            while read := os.read(reader, 1 << 12):
                shown += read
        except OSError:  # how Linux says that nobody writes any more
            pass
        os.close(reader)
        assert process.stdout is not None
        document = process.stdout.read()
    assert b"Comparing" in shown
    assert {method["name"] for method in json.loads(document)["methods"]} >= {"beta", "sigmoid"}
    piped = subprocess.run(command, capture_output=True, check=True)
    assert (piped.stdout, piped.stderr) == (document, b"")
