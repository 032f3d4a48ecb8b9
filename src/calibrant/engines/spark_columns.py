"""Calibrated probabilities as columns of a Spark data frame: in Spark's own SQL where it can say the map."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from calibrant.applicable import Applicable
from calibrant.engines.rows import missing_message
from calibrant.errors import CalibrantError, InvalidInputError, InvalidScoreError, MissingPackageError
from calibrant.numerics import ROW_SUM_TOLERANCE
from calibrant.persistence import to_sql
from calibrant.tables import KEEP_HINT, Applied, NewColumns, SparkSource, column_of, gathered

if TYPE_CHECKING:
    import pyarrow as pa

#: Steps of one tree of cases: Java compiles no code that is much longer.
_LARGEST_CASE = 32
#: Numbers in a map up to which Spark is as fast with SQL.
_MOST_NUMBERS = 2_048
_NUMBERS = ("float", "double", "byte", "short", "integer", "long")


def with_probabilities(
    fitted: Applicable, source: SparkSource, new: NewColumns, prefix: str | None, group: str | None
) -> Any:
    """Return the data frame with new columns, which Spark computes when they are asked for.

    `group` is the column of groups, of what was fitted by group: all other required inputs are scores. One query over
    these comes first: it counts the rows that `predict_proba` refuses.

    Maps of at most 2,048 numbers are SQL, which Spark compiles. Larger ones, which it would search more slowly than it
    sends rows to Python and back, and classes coupled by likelihood, which SQL can't say, run in Python, which is sent
    the inputs alone. SQL equals `predict_proba` to 1e-12, Python bit for bit.
    """
    new = new.of(source.names, source.name)
    _refuse_rows(fitted, source, new, group)
    lacks_some = reduce(operator.or_, map(source.is_missing, new.required))
    if new.missing == "skip":
        source = SparkSource(source.frame.filter(~lacks_some), source.name)
    sql = _as_sql(fitted, source, new, prefix)
    if sql is not None:
        frame = source.frame.sparkSession.sql(sql, rows=source.frame)
        return _without_values(frame, lacks_some, new.outputs) if new.missing == "keep" else frame
    return source.frame.withColumns(_in_python(new))


def write_probabilities(
    fitted: Applicable,
    source: SparkSource,
    target: str | os.PathLike[str],
    new: NewColumns,
    prefix: str | None,
    group: str | None,
) -> Applied:
    """Write the data frame with new columns as a folder of Parquet files; Spark marks it by _SUCCESS when it is whole.

    The folder may hold what a killed run left behind, and nothing else.
    """
    name = os.fspath(target)
    folder = Path(target)
    if folder.is_file():
        raise InvalidInputError(f"{name} is a file. Spark writes a folder: pass the name of a new one.")
    there = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    if any(path[0] != "." and path != "_temporary" for path in there):
        raise InvalidInputError(f"the folder {name} is not empty: it holds {min(there)}. Pass a new folder.")
    frame = with_probabilities(fitted, source, new, prefix, group)
    frame.write.mode("overwrite" if folder.is_dir() else "error").parquet(name)
    n_parts, n_missing = len(frame.sparkSession.read.parquet(name).inputFiles()), 0
    if new.missing != "error":
        inputs = new.of(source.names, source.name).required
        (n_missing,) = source.count_where([reduce(operator.or_, map(source.is_missing, inputs))])
    n_left = n_missing if new.missing == "skip" else 0
    return Applied(source.n_rows - n_left, n_parts, n_missing=n_missing)


def _without_values(frame: Any, where: Any, names: Sequence[str]) -> Any:
    """Return the frame with nulls in the named columns where a condition holds."""
    from pyspark.sql import functions as sf

    return frame.withColumns({name: sf.when(~where, column_of(name)) for name in names})


def _refuse_rows(fitted: Applicable, source: SparkSource, new: NewColumns, group: str | None) -> None:
    """Raise where `predict_proba` would, of all rows at once."""
    from pyspark.sql import functions as sf

    inputs = new.required

    def gate(frame: Any) -> None:
        new.values(frame.select(*map(column_of, new.inputs)).toArrow())

    if not all(source.frame.schema[name].dataType.typeName() in _NUMBERS for name in inputs):
        is_missing = reduce(operator.or_, map(source.is_missing, inputs))
        gate(source.frame.filter(~is_missing).limit(1))  # which knows why it refuses that type
    low, high = fitted.score_range
    columns = [column_of(name).cast("double") for name in inputs if name != group]
    is_usable = sf.lit(True)
    for column in columns:
        is_usable = is_usable & column.between(sf.lit(low), sf.lit(high))
    if fitted.sums_to_one and len(columns) > 1:
        is_usable = is_usable & (sf.abs(sum(columns[1:], columns[0]) - sf.lit(1.0)) <= sf.lit(ROW_SUM_TOLERANCE))
    has_all = reduce(operator.and_, (~source.is_missing(name) for name in inputs))
    is_refused = has_all & ~is_usable
    *missing, n_refused = source.count_where([*map(source.is_missing, inputs), is_refused])
    if any(missing) and new.missing == "error":
        counts = {name: n for name, n in zip(inputs, missing, strict=True) if n}
        raise InvalidScoreError(missing_message(source, counts, KEEP_HINT))
    if n_refused:
        try:
            gate(source.frame.filter(is_refused).limit(1))
        except CalibrantError as error:
            count = f"{n_refused:,} of {source.n_rows:,} rows of {source.name}"
            raise type(error)(f"{error} (That is one of {count} that are refused.)") from None


def _as_sql(fitted: Applicable, source: SparkSource, new: NewColumns, prefix: str | None) -> str | None:
    """Return the query that adds the columns to `rows`, or None where Python does better."""
    if fitted.n_numbers > _MOST_NUMBERS:
        return None
    table = "calibrant_rows"
    while any(table in name.lower() for name in (*source.names, *new.outputs)):
        table += "_"
    try:
        sql = to_sql(
            fitted,
            "spark",
            columns=new.required,
            table=table,
            keep=source.names,
            output=prefix,
            largest_case=_LARGEST_CASE,
        )
    except (MissingPackageError, InvalidInputError):  # no sqlglot, or no form in SQL
        return None
    return sql.replace("{", "{{").replace("}", "}}").replace(table, "{rows}")


def _in_python(new: NewColumns) -> dict[str, Any]:
    """Return the new columns as Spark's expressions: Python on its workers makes all of them at once."""
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.types import DoubleType, StructField, StructType

    def make(inputs: Any) -> Any:
        return _made(new, inputs)

    # Spark sees by these that it is called once for all batches of a partition
    make.__annotations__ = {"inputs": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
    names = new.outputs
    kind = DoubleType() if len(names) == 1 else StructType([StructField(name, DoubleType()) for name in names])
    made = cast("Any", arrow_udf)(make, kind)(*map(column_of, new.inputs))
    return {names[0]: made} if len(names) == 1 else {name: made.getField(name) for name in names}


def _made(new: NewColumns, inputs: Iterator[pa.Array | tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
    """Yield the new column, or a struct of several, of batches of input columns."""
    import pyarrow as pa

    columns = (each if isinstance(each, tuple) else (each,) for each in inputs)
    for batch in gathered(pa.record_batch(list(each), names=new.inputs) for each in columns):
        table = pa.Table.from_batches([batch])
        made = new.append_to(table, new.values(table)).select(new.outputs).combine_chunks()
        yield made.column(0).chunk(0) if len(new.outputs) == 1 else made.to_struct_array().chunk(0)
