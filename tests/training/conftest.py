"""Bars of a random market, as the tests of the pipeline need them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from calibrant.training.bars import Bars, as_bars

MakeTable = Callable[..., pa.Table]


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
