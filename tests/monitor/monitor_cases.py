"""Rows to watch, and a way to run the command."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from click.testing import CliRunner, Result

from calibrant.cli import main


def run(command: str) -> Result:
    result = CliRunner().invoke(main, command.split())
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def rows(shift: float, n: int = 6_000) -> pa.Table:
    """Return rows of 30 days in no order; from the 15th on, events are more frequent than said."""
    rng = np.random.default_rng(0)
    day = rng.integers(0, 30, n)
    p = rng.uniform(0.05, 0.75, n).round(3)
    y = (rng.random(n) < p + shift * (day >= 14)).astype(int)
    return pa.table({"p": p, "y": y, "day": pa.array(np.datetime64("2026-03-01") + day)})
