"""Rows with scores and features, and the sources of all kinds that they come from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

FEATURES = ("age", "city", "zip")
CITIES = ("Bonn", "Kyiv", "Rome")


def rows_of(n: int = 2_500, seed: int = 0, missing: float = 0.05) -> pa.Table:
    """Return scores that are too high for the young in Rome, and for one code of digits."""
    rng = np.random.default_rng(seed)
    p, age = rng.random(n), rng.uniform(18, 80, n).round(1)
    city, code = rng.choice(CITIES, n), rng.choice(["001", "017", "A20"], n)
    truth = np.where((age < 35) & (city == "Rome"), p**3, np.where(code == "017", p**2, p))
    lacks = rng.random((2, n)) < missing
    return pa.table(
        {
            "y": (rng.random(n) < truth).astype(np.int64),
            "p": p,
            "age": pa.array(age, mask=lacks[0]),
            "city": pa.array(city, mask=lacks[1]),
            "zip": code,
            "w": rng.integers(0, 3, n),
            "patient": rng.integers(0, n // 4, n),
        }
    )


def in_parts(table: pa.Table, size: int = 700) -> Callable[[], Any]:
    """Return a source of many batches, which can be read again."""
    return lambda: table.to_reader(size)


def parquet(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "t.parquet", row_group_size=900)
    return folder / "t.parquet"


def csv(table: pa.Table, folder: Path) -> Any:
    pc.write_csv(table, folder / "t.csv")
    return folder / "t.csv"


def json_lines(table: pa.Table, folder: Path) -> Any:
    (folder / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    return folder / "t.jsonl"


def many_files(table: pa.Table, folder: Path) -> Any:
    (folder / "parts").mkdir()
    for i, start in enumerate(range(0, table.num_rows, 1_500)):
        pq.write_table(table.slice(start, 1_500), folder / "parts" / f"{i}.parquet")
    return folder / "parts"


SOURCES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "mapping": lambda table, _: dict(zip(table.column_names, table.columns, strict=True)),
    "pandas": lambda table, _: table.to_pandas(),
    "polars": lambda table, _: pl.from_arrow(table),
    "batches": lambda table, _: in_parts(table),
    "parquet": parquet,
    "csv": csv,
    "jsonl": json_lines,
    "folder": many_files,
}
