"""A folder of Parquet files of any number of rows: `python -m benchmarks.scale_rows FOLDER [ROWS]`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

#: Rows of a file, and of a row group.
FILE_ROWS, GROUP_ROWS = 10_000_000, 1_000_000


def write_rows(folder: Path, n: int) -> None:
    """Write scores p with all their digits, and labels y that are drawn with a rate that p is too high for."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.schema({"p": pa.float64(), "y": pa.int8()})
    for first in range(0, n, FILE_ROWS):
        path = folder / f"{first // FILE_ROWS:05d}.parquet"
        with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
            for start in range(first, min(first + FILE_ROWS, n), GROUP_ROWS):
                rng = np.random.default_rng(start)
                size = min(GROUP_ROWS, n - start)
                p = rng.beta(1.0, 3.0, size)
                y = (rng.random(size) < p**1.2).astype(np.int8)
                writer.write_table(pa.table([p, y], schema=schema), row_group_size=GROUP_ROWS)


if __name__ == "__main__":
    write_rows(Path(sys.argv[1]), int(float(sys.argv[2])) if len(sys.argv) > 2 else 100_000_000)
