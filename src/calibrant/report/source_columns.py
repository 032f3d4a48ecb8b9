"""Which columns of a source a report is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """Which columns of a source a report is about, and how the source is read; see `Report.from_source`."""

    score: str | Sequence[str]
    label: str
    weight: str | None
    group: str | None
    classes: Sequence[Any] | None
    pos_label: object
    format: str | None
    table: str | None
