"""The engine that a test names as its parameter, started where it has to be."""

from __future__ import annotations

from typing import Any

import pytest
from sql_engines import Engine, OnDuckdb, OnPostgres, OnSpark, OnSqlite


@pytest.fixture
def engine(request: Any) -> Engine:
    """Give the engine of that name."""
    match request.param:
        case "duckdb":
            return OnDuckdb()
        case "sqlite":
            return OnSqlite()
        case "postgres":
            return OnPostgres(request.getfixturevalue("postgres"))
        case _:
            return OnSpark(request.getfixturevalue("spark"))
