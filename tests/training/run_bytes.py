"""The bytes of a file of a run that the same settings and seed give again."""

from __future__ import annotations

from pathlib import Path


def repeatable(path: Path) -> bytes:
    """Return the bytes of a file, but for the side of its limit on which a time fell."""
    return path.read_bytes().replace(b'"within_limit": false', b'"within_limit": true')
