"""A folder of files as one table; folders in it that are named like `city=Rome` are a column of the files in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from calibrant.errors import InvalidInputError
from calibrant.tables.columnar import TableFile
from calibrant.tables.sources import Batch, RowSource

if TYPE_CHECKING:
    import pyarrow as pa

#: What writers of partitioned folders call a missing value.
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class FolderSource(RowSource):
    """Files of the same columns, in the order of their paths, below a root."""

    def __init__(self, name: str, files: Sequence[TableFile], root: Path) -> None:
        self.name, self.files = name, files
        self.n_bytes = sum(file.n_bytes for file in files)
        self._partitions = [_partition_of(file, root) for file in files]
        first = self._partitions[0]
        odd = next((i for i, found in enumerate(self._partitions) if list(found) != list(first)), None)
        if odd is not None:
            raise InvalidInputError(
                f"the folders of {name} name different columns: {list(first)} of {files[0].name}, "
                f"{list(self._partitions[odd])} of {files[odd].name}. Name them alike."
            )
        self._are_whole = {
            key: all(found[key] is None or _is_whole(found[key]) for found in self._partitions) for key in first
        }

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of the first file, and of its folders."""
        return tuple(dict.fromkeys((*self.files[0].names, *self._partitions[0])))

    @cached_property
    def n_rows(self) -> int | None:
        """The number of rows, where all files say theirs."""
        counts = [count for file in self.files if (count := file.n_rows) is not None]
        return sum(counts) if len(counts) == len(self.files) else None

    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Read the named columns of one file after the other."""
        for file, partition in zip(self.files, self._partitions, strict=True):
            own = file.names if partition else ()
            told = [name for name in columns if name in partition and name not in own]
            stored = [name for name in columns if name not in told] or own[:1]
            for batch in file.scan(stored):
                table = self._with_partition(batch.table, {name: partition[name] for name in told})
                yield Batch(table.select(list(columns)), batch.where, batch.first_row)

    def _with_partition(self, table: pa.Table, told: dict[str, str | None]) -> pa.Table:
        """Return the table with what its folders say: whole numbers, if all folders do."""
        import pyarrow as pa

        for name, text in told.items():
            kind = pa.int64() if self._are_whole[name] else pa.string()
            value = int(text) if text is not None and self._are_whole[name] else text
            table = table.append_column(name, pa.repeat(pa.scalar(value, kind), table.num_rows))
        return table


def _partition_of(file: TableFile, root: Path) -> dict[str, str | None]:
    """Return what the folders between a root and a file say, as Hive and Spark name them; None is a missing value."""
    assert file.file.path is not None  # noqa: S101 - it was found in a folder
    pairs = [part.split("=", 1) for part in file.file.path.relative_to(root).parent.parts if "=" in part]
    return {unquote(key): None if text == _HIVE_NULL else unquote(text) for key, text in pairs}


def _is_whole(text: str | None) -> bool:
    return text is not None and text.isascii() and text.removeprefix("-").isdigit() and str(int(text)) == text
