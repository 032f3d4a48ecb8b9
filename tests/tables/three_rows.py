"""The rows that tests of tables read, as the bytes of each format."""

from __future__ import annotations

import pyarrow as pa

TABLE = pa.table({"id": ["a", "b", "c"], "y": [0, 1, 1], "p": [0.25, 0.5, 0.125]})
CSV = b"id,y,p\na,0,0.25\nb,1,0.5\nc,1,0.125\n"
JSON_LINES = b'{"id": "a", "y": 0, "p": 0.25}\n{"id": "b", "y": 1, "p": 0.5}\n{"id": "c", "y": 1, "p": 0.125}\n'
