"""Files of any bytes, and a table of many types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str, bytes], str]:
    def write(name: str, data: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


@pytest.fixture
def rich_table() -> pa.Table:
    """Return a table of many types, with metadata."""
    stamps = pa.array([dt.datetime(2020, 1, 1, 12), None, dt.datetime(2021, 1, 1)], pa.timestamp("ns", "Europe/Paris"))
    schema_metadata = {b"origin": b"a test", b"empty": b""}
    fields = {
        "p": pa.array([0.75, 1.5, 3.0], pa.float32()),
        "kind": pa.array(["b", None, "b"]).dictionary_encode(),
        "at": stamps,
        "day": pa.array([dt.date(2020, 1, 1)] * 3),
        "list": pa.array([[1, 2], [], None], pa.list_(pa.int16())),
        "nested": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": []}]),
        "money": pa.array([Decimal("1.10"), None, Decimal("-2.00")], pa.decimal128(7, 2)),
        "raw": pa.array([b"\xff", b"", None]),
        "small": pa.array([1, 2, None], pa.uint8()),
        "text": pa.array(["007", "\u00e9", ""], pa.large_string()),
        "nan": pa.array([float("nan"), None, -0.0]),
    }
    table = pa.table(fields).replace_schema_metadata(schema_metadata)
    at = table.schema.get_field_index("small")
    return table.set_column(at, table.schema.field("small").with_metadata({b"unit": b"kg"}), table.column("small"))
