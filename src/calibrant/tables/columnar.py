"""One file as a table: what files of all formats share; and the formats that store columns, Parquet and Arrow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

from calibrant.tables.formats import FileBytes
from calibrant.tables.sources import BATCH_ROWS, Batch, RowSource, explained, numbered, plain_table, select_columns
from calibrant.tables.writing import NewColumns, Progress, Written, write_tables

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

#: Rows of a row group that are copied at a time.
_COPIED_ROWS = 1 << 20


class TableFile(RowSource):
    """A table in a file, which `tables` reads with its own types; formats that can do better than that say how."""

    #: The row groups of a Parquet file that it is limited to; None is all of the file.
    row_groups: range | None = None

    def __init__(self, file: FileBytes) -> None:
        self.file, self.name = file, file.name
        self.is_repeatable = file.stream is None
        self.n_bytes = file.n_bytes

    @cached_property
    def names(self) -> tuple[str, ...]:
        with explained(self.name):
            return tuple(next(self.tables()).column_names)

    @abstractmethod
    def tables(self) -> Iterator[pa.Table]:
        """Read all columns with the types of the file; the first table may be empty."""

    def without_rows(self) -> pa.Table:
        return next(self.tables()).slice(0, 0)

    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        return numbered(self.scan_tables(list(columns)), columns, self.name)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        names = self.select(self.names if columns is None else columns)
        with explained(self.name):
            return plain_table(self.read_table(names), names)

    def append(self, out: BinaryIO, new: NewColumns, progress: Progress) -> Written:
        """Write the table with new columns in its own format; count the rows."""
        return write_tables(self.tables(), out, self.file.format, new, self.name, progress)

    def split(self, part_rows: int) -> Sequence[TableFile]:  # noqa: ARG002
        """Return parts of at least so many rows that can be read without the others; here, the file itself."""
        return [self]

    def scan_tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """Read at least the named columns, which are still to be looked for, a few rows at a time."""
        select_columns(columns, self.names, self.name)
        yield from self.tables()

    def read_table(self, columns: list[str]) -> pa.Table:  # noqa: ARG002
        """Read at least the named columns, which exist."""
        import pyarrow as pa

        return pa.concat_tables(self.tables())


class ArrowFile(TableFile):
    """A file of Arrow record batches, which Feather (version 2) is too."""

    @cached_property
    def n_rows(self) -> int | None:
        import pyarrow as pa

        if not (self.is_repeatable and self.names):
            return None
        with explained(self.name):
            types = next(self.tables()).schema.types
            widths = [kind.bit_width if pa.types.is_primitive(kind) else 1 << 16 for kind in types]
            narrowest = self.names[widths.index(min(widths))]
            return int(sum(table.num_rows for table in self._tables([narrowest])))

    def tables(self) -> Iterator[pa.Table]:
        return self._tables()

    def scan_tables(self, columns: list[str]) -> Iterator[pa.Table]:
        return self._tables(select_columns(columns, self.names, self.name))

    def read_table(self, columns: list[str]) -> pa.Table:
        import pyarrow as pa

        return pa.concat_tables(self._tables(columns))

    def _tables(self, columns: Sequence[str] = ()) -> Iterator[pa.Table]:
        """Read the named columns, or all, the first table being empty."""
        import pyarrow as pa

        options = pa.ipc.IpcReadOptions(included_fields=[self.names.index(name) for name in columns])
        with pa.ipc.open_file(self.file.open_arrow(), options=options) as opened:
            yield opened.schema.empty_table()
            for i in range(opened.num_record_batches):
                yield pa.Table.from_batches([opened.get_batch(i)])


class ParquetFile(TableFile):
    """A Parquet file, or some of its row groups."""

    def __init__(self, file: FileBytes, row_groups: range | None = None) -> None:
        super().__init__(file)
        self.row_groups = row_groups

    @cached_property
    def n_rows(self) -> int:
        return sum(self._group_sizes())

    def tables(self) -> Iterator[pa.Table]:
        with self._open() as opened:
            yield opened.schema_arrow.empty_table()
            yield from self._batches(opened, self._groups(opened))

    def split(self, part_rows: int) -> list[ParquetFile]:
        with explained(self.name), self._open() as opened:
            parts = list(self._runs(opened, self._groups(opened), part_rows))
        return [ParquetFile(self.file, part) for part in parts] if len(parts) > 1 else [self]

    def append(self, out: BinaryIO, new: NewColumns, progress: Progress) -> Written:
        """Write the row groups with new columns; types, metadata, codec and row groups up to 2^20 rows stay."""
        import pyarrow.parquet as pq

        n_rows, written = 0, Written()
        with self._open() as opened:
            new = new.of(opened.schema_arrow.names, self.name)
            schema = new.schema_of(opened.schema_arrow.empty_table())
            with pq.ParquetWriter(out, schema, compression=_codec(opened.metadata)) as writer:
                for group in self._groups(opened):
                    for table in self._batches(opened, range(group, group + 1), _COPIED_ROWS):
                        values = new.values(table, n_rows)
                        writer.write_table(new.append_to(table, values), row_group_size=table.num_rows)
                        written = written.with_rows(values, new.missing)
                        n_rows += table.num_rows
                        progress(n_rows)
        return written

    def scan_tables(self, columns: list[str]) -> Iterator[pa.Table]:
        with self._open() as opened:
            names = select_columns(columns, opened.schema_arrow.names, self.name)
            yield from self._batches(opened, self._groups(opened), columns=names)

    def read_table(self, columns: list[str]) -> pa.Table:
        with self._open() as opened:
            return opened.read_row_groups(self._groups(opened), columns=columns)

    def _open(self) -> pq.ParquetFile:
        import pyarrow.parquet as pq

        return pq.ParquetFile(self.file.open_arrow())

    def _groups(self, opened: pq.ParquetFile) -> range:
        return range(opened.num_row_groups) if self.row_groups is None else self.row_groups

    def _group_sizes(self) -> list[int]:
        with explained(self.name), self._open() as opened:
            return [opened.metadata.row_group(i).num_rows for i in self._groups(opened)]

    @classmethod
    def _batches(
        cls, opened: pq.ParquetFile, row_groups: range, n_rows: int = BATCH_ROWS, columns: list[str] | None = None
    ) -> Iterator[pa.Table]:
        import pyarrow as pa

        for run in cls._runs(opened, row_groups, n_rows):  # Arrow reads ahead to the end of what it is asked for
            for batch in opened.iter_batches(n_rows, run, columns):
                yield pa.Table.from_batches([batch])

    @staticmethod
    def _runs(opened: pq.ParquetFile, row_groups: range, n_rows: int) -> Iterator[range]:
        """Yield neighbouring row groups that hold so many rows together, or more; the last may hold fewer."""
        start, size = row_groups.start, 0
        for group in row_groups:
            size += opened.metadata.row_group(group).num_rows
            if size >= n_rows or group == row_groups.stop - 1:
                yield range(start, group + 1)
                start, size = group + 1, 0


def _codec(metadata: pq.FileMetaData) -> str:
    """Return the codec of the first column, as pyarrow's writer calls it."""
    if metadata.num_row_groups == 0 or metadata.num_columns == 0:
        return "snappy"
    codec = str(metadata.row_group(0).column(0).compression).lower()
    return {"uncompressed": "none", "lz4_raw": "lz4"}.get(codec, codec)
