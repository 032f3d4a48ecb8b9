"""A table whose columns are made of another's as rows are read."""

from __future__ import annotations

from calibrant.tables.sources import RowSource


class DerivedSource(RowSource):
    """A table with the rows of another."""

    def __init__(self, source: RowSource) -> None:
        self.source = source
        self.name, self.is_repeatable, self.n_bytes = source.name, source.is_repeatable, source.n_bytes

    @property
    def n_rows(self) -> int | None:
        return self.source.n_rows

    @property
    def n_skipped(self) -> int:
        return self.source.n_skipped

    @property
    def skipped(self) -> str:
        return self.source.skipped

    @property
    def names(self) -> tuple[str, ...]:
        return self.source.names
