"""Tables as the bytes of files."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq


def parquet_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def feather_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pf.write_feather(table, sink)
    return sink.getvalue()
