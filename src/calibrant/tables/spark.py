"""Spark as a source, whose partitions are reduced where they are. PySpark is an extra, imported when it is used.

A reduction runs in `mapInArrow`: a worker pickles what it makes of its partition, and cuts the bytes into rows of
bounded size; the driver puts the rows of each partition together again and merges the results in partition order.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial as bind
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.tables.sources import BATCH_ROWS, Batch, RowSource, StreamSource, numbered, plain_table

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
#: Bytes of a row that carries part of a result: rows of a batch must stay below 2 GB together.
_PIECE_BYTES = 1 << 24
#: Bytes of results that the driver takes at once.
_MOST_BYTES = 1 << 26
#: Bytes that a result has at most for each value that it is made of.
_BYTES_PER_VALUE = 64
_STATE = "part int, piece int, state binary"
#: Distinct values of a column that are read: more than any number of classes that is accepted.
_MOST_VALUES = 1 << 16
#: Types of zeros and ones, as Spark and as pyarrow call them.
_WHOLE = {"byte": "int8", "short": "int16", "integer": "int32", "long": "int64", "boolean": "bool_"}


def is_spark(source: object) -> bool:
    """Say whether this is a data frame or a session of Spark, without importing PySpark."""
    return any(
        kind.__name__ in ("DataFrame", "SparkSession") and kind.__module__.startswith("pyspark.sql.")
        for kind in type(source).__mro__
    )


def open_spark(source: Any, table: str | None = None) -> SparkSource:
    """Open a data frame, or the named table of a session."""
    if hasattr(source, "columns"):
        if table is not None:
            raise InvalidInputError(f"table={table!r} is for a session or a database. Leave it out for a data frame.")
        if source.isStreaming:
            raise InvalidInputError(
                "the Spark data frame is an endless stream. Pass one batch of it, as foreachBatch gives them."
            )
        return SparkSource(source, "the Spark data frame")
    if table is None:
        raise InvalidInputError("the source is a Spark session. Name a table of it with table=, or pass a data frame.")
    if not source.catalog.tableExists(table):
        raise InvalidInputError(f"the Spark session knows no table {table!r}. Name one of its catalogue, or a view.")
    return SparkSource(source.table(table), f"the Spark table {table}")


class SparkSource(RowSource):
    """A data frame of Spark, classic or over Spark Connect.

    Each pass runs the frame's plan for the columns that it reads, so cache a frame that is costly, or random. Workers
    must be able to import calibrant: run them in the same environment as the driver.
    """

    is_distributed = True

    def __init__(self, frame: Any, name: str) -> None:
        self.frame, self.name = frame, name
        self._n_rows: int | None = None
        self._zero_and_one: dict[str, str] = {}  # columns that hold both, and nothing else, with their types

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.frame.columns)

    @property
    def n_rows(self) -> int:
        if self._n_rows is None:
            self._n_rows = int(self.frame.count())
        return self._n_rows

    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Bring the named columns to the driver, partition by partition."""
        return numbered(self._tables(columns), columns, self.name)

    def _tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        import pyarrow as pa

        for row in mapped(self._select(columns), _as_bytes, "rows binary").toLocalIterator(prefetchPartitions=True):
            yield pa.ipc.open_stream(bytes(row[0])).read_all()

    def scan_distinct(self, column: str) -> Iterator[Batch]:
        if column in self._zero_and_one:
            import pyarrow as pa

            values = pa.array([0, 1]).cast(getattr(pa, self._zero_and_one[column])())
            return iter([Batch(pa.table({column: values}), self.name, 0)])
        found = self._select([column]).distinct().limit(_MOST_VALUES).toArrow()
        return iter([Batch(plain_table(found, [column]), self.name, 0)] if found.num_rows else [])

    def count_missing(self, columns: Sequence[str]) -> dict[str, int]:
        """Count missing values and NaN of the columns that have any, and all rows, in one query.

        Zeros and ones are counted too: of a column that holds both, and nothing else, `scan_distinct` knows the values.
        """
        whole = {name: self._kind(name) for name in columns if self._kind(name) in _WHOLE}
        values = {name: (False, True) if kind == "boolean" else (0, 1) for name, kind in whole.items()}
        is_value = [column_of(name) == value for name in whole for value in values[name]]
        found = self.count_where([*(self.is_missing(name) for name in columns), *is_value])
        missing, counts = found[: len(columns)], found[len(columns) :]
        self._zero_and_one = {
            name: _WHOLE[kind]
            for (name, kind), n0, n1 in zip(whole.items(), counts[::2], counts[1::2], strict=True)
            if n0 and n1 and n0 + n1 == self._n_rows
        }
        return {name: count for name, count in zip(columns, missing, strict=True) if count}

    def count_where(self, conditions: Sequence[Any]) -> list[int]:
        """Count the rows for which each condition holds, and all rows, in one query."""
        from pyspark.sql import functions as sf

        counts = [sf.count(sf.when(condition, sf.lit(1))) for condition in (sf.lit(True), *conditions)]
        self._n_rows, *found = (int(count) for count in self.frame.agg(*counts).collect()[0])
        return found

    def is_missing(self, name: str) -> Any:
        """Return the condition that a column has no value, or NaN."""
        from pyspark.sql import functions as sf

        column = column_of(name)
        is_float = self._kind(name) in ("float", "double")
        return column.isNull() | sf.isnan(column) if is_float else column.isNull()

    def count_distinct(self, column: str) -> int:
        return int(self._select([column]).distinct().count())

    def reduce(
        self,
        columns: Sequence[str],
        partial: Callable[[RowSource], T],
        merge: Callable[[T, T], T],
        *,
        is_large: bool = False,
    ) -> T:
        """Run `partial` on each partition, where Spark's workers are; merge the results here, in their order.

        Results that may be large wait on the workers' disks, and come one by one. What is refused there is raised
        here: of several refusals that of the first partition.
        """
        found = mapped(self._select(columns), bind(_run, partial, tuple(columns), self.name), _STATE)
        can_be_large = is_large and self.n_rows * len(columns) * _BYTES_PER_VALUE > _MOST_BYTES
        total: T | None = None
        for _, pieces in groupby(_from_disk(found) if can_be_large else _collected(found), key=lambda row: row[0]):
            value = pickle.loads(b"".join(piece[2] for piece in pieces))  # noqa: S301 - what our workers wrote
            if isinstance(value, CalibrantError):
                raise value
            total = value if total is None else merge(total, value)
        return partial(StreamSource(self.name, columns, lambda _: ())) if total is None else total

    def _kind(self, name: str) -> str:
        """Return what Spark calls the type of a column."""
        return str(self.frame.schema[name].dataType.typeName())

    def _select(self, columns: Sequence[str]) -> Any:
        return self.frame.select(*map(column_of, columns))


def _collected(found: Any) -> list[Any]:
    """Return all rows of results in order."""
    return sorted(found.collect(), key=lambda row: row[:2])


def _from_disk(found: Any) -> Iterator[Any]:
    """Yield the rows of results in order; where they are large, they wait on the workers' disks."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as sf

    kept = found.persist(StorageLevel.DISK_ONLY)
    try:
        size = kept.agg(sf.sum(sf.length("state"))).collect()[0][0]  # all are made, side by side
        yield from _collected(kept) if (size or 0) <= _MOST_BYTES else kept.toLocalIterator()
    finally:
        kept.unpersist()


def _run(
    partial: Callable[[RowSource], Any], names: Sequence[str], name: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a partition to `partial`; yield its result, or what it raised, as pieces of bytes.

    Rows that are refused are a result too: to Spark an exception is a fault, to be tried again.
    """
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    part = 0 if context is None else context.partitionId()
    try:
        value = partial(StreamSource(f"partition {part} of {name}", names, lambda _: gathered(batches)))
    except CalibrantError as error:
        value = error
    state = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    for i, start in enumerate(range(0, len(state), _PIECE_BYTES)):
        piece = state[start : start + _PIECE_BYTES]
        columns = {"part": pa.array([part], pa.int32()), "piece": pa.array([i], pa.int32()), "state": [piece]}
        yield pa.record_batch(columns)


def _as_bytes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack rows into bytes, which Spark hands to the driver as they are."""
    import pyarrow as pa

    for batch in gathered(batches):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.record_batch({"rows": [sink.getvalue().to_pybytes()]})


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put the small batches of Spark together to larger ones."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in batches:
        if waiting and n_rows + batch.num_rows > BATCH_ROWS:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, n_rows = [], 0
        if batch.num_rows:
            waiting.append(batch)
            n_rows += batch.num_rows
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def column_of(name: str) -> Any:
    """Return the column of that very name."""
    from pyspark.sql import functions as sf

    escaped = name.replace("`", "``")
    return sf.col(f"`{escaped}`")


def mapped(frame: Any, make: Callable[..., Iterator[pa.RecordBatch]], schema: Any) -> Any:
    """Return the data frame of the record batches that `make` makes of those of each partition."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)  # not used here
        return frame.mapInArrow(make, schema)
