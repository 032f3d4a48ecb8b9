"""Bars of a random market, as the tests of the pipeline need them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calibrant.training import refresh, training_run
from calibrant.training.bars import Bars, as_bars

MakeTable = Callable[..., pa.Table]


@pytest.fixture(autouse=True)
def unrendered_runs(unrendered: None) -> None:
    """Let the runs of all tests here hold empty pictures."""


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the runs of a test draw no pictures and an empty page, which take most of the time of small ones.

    Those that a fixture of the module trains are drawn.
    """

    def write_page(path: Path, *_: Any, **__: Any) -> None:
        path.write_text("")

    for name in ("draw_run", "draw_money", "draw_walk_forward"):
        monkeypatch.setattr(training_run, name, lambda *_: None)
    for module in (training_run, refresh):
        monkeypatch.setattr(module, "write_page", write_page)


@pytest.fixture(scope="session")
def make_table() -> MakeTable:
    """Return a function that makes the table of a random market, whose volatility comes in clusters."""

    def make(n: int = 900, symbols: tuple[str, ...] = ("A",), seed: int = 0) -> pa.Table:
        rng = np.random.default_rng(seed)
        parts = []
        for symbol in symbols:
            volatility = 0.01 * np.exp(0.4 * np.sin(np.arange(n) / 40.0) + 0.2 * rng.normal(size=n))
            close = 100.0 * np.exp(np.cumsum(volatility * rng.normal(size=n)))
            opened = np.append(100.0, close[:-1]) * np.exp(0.1 * volatility * rng.normal(size=n))
            spread = 1.0 + volatility * rng.random(n)
            parts.append(
                pa.table(
                    {
                        "symbol": [symbol] * n,
                        "time": np.datetime64("2020-01-01") + np.arange(n),
                        "open": opened,
                        "high": np.maximum(opened, close) * spread,
                        "low": np.minimum(opened, close) / spread,
                        "close": close,
                        "volume": rng.integers(1_000, 9_000, n),
                    }
                )
            )
        return pa.concat_tables(parts)

    return make


@pytest.fixture(scope="session")
def make_bars(make_table: MakeTable) -> Callable[..., Bars]:
    """Return a function that makes the bars of a random market."""
    return lambda *args, **more: as_bars(make_table(*args, **more))


def momentum_table(n_steady: int, n_drifted: int, *, seed: int = 3, after: float = 0.2) -> pa.Table:
    """Return bars whose returns follow the one before by a half, and from some bar on by `after`.

    What a model learns of the first part it believes in the second one too: there it is too sure of itself.
    """
    rng = np.random.default_rng(seed)
    n = n_steady + n_drifted
    follows = np.where(np.arange(n) < n_steady, 0.5, after)
    moves = 0.01 * rng.normal(size=n)
    for i in range(1, n):
        moves[i] += follows[i] * moves[i - 1]
    close = 100.0 * np.exp(np.cumsum(moves))
    opened = np.append(100.0, close[:-1])
    return pa.table(
        {
            "time": np.datetime64("2000-01-01") + np.arange(n),
            "open": opened,
            "high": np.maximum(opened, close) * 1.001,
            "low": np.minimum(opened, close) / 1.001,
            "close": close,
        }
    )


@pytest.fixture(scope="session")
def make_momentum() -> MakeTable:
    """Return a function that makes bars of which a model knows something, and from some bar on less."""
    return momentum_table
