"""Calibrated probabilities beside the scores of any source, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack, overload

from calibrant.applicable import Applicable
from calibrant.engines.fitted_columns import FittedColumns
from calibrant.engines.spark_columns import with_probabilities, write_probabilities
from calibrant.errors import InvalidInputError
from calibrant.persistence import fingerprint
from calibrant.tables import (
    MISSING_INPUT,
    PART_ROWS,
    Applied,
    FormatLike,
    MissingInput,
    Progress,
    append_columns,
    is_many,
    is_spark,
    name_of,
    open_spark,
)
from calibrant.validation import check_choice, check_integer


class _SparkOptions(TypedDict, total=False):
    score: str | Sequence[str] | None
    group: str | None
    column: str | None
    missing: MissingInput
    table: str | None


class _Options(_SparkOptions, total=False):
    format: FormatLike
    part_rows: int
    progress: Progress | None


@overload
def apply(fitted: Applicable, source: Any, target: str | os.PathLike[str], **options: Unpack[_Options]) -> Applied: ...
@overload
def apply(fitted: Applicable, source: Any, target: None = None, **options: Unpack[_SparkOptions]) -> Any: ...
def apply(
    fitted: Applicable,
    source: Any,
    target: str | os.PathLike[str] | None = None,
    *,
    score: str | Sequence[str] | None = None,
    group: str | None = None,
    column: str | None = None,
    missing: MissingInput = "error",
    format: FormatLike = None,
    table: str | None = None,
    part_rows: int = PART_ROWS,
    progress: Progress | None = None,
) -> Any:
    """Write a source with new columns of calibrated probabilities, in bounded memory.

    Parameters
    ----------
    fitted : Applicable
        What makes probabilities: a calibrator, one by group or of several labels, a shift, a chain. Or a
        SegmentMeanCalibrator, which corrects predictions of a number: their column is `score`.
    source, format, table
        As in `cb.engines.summarise`. Columns of groups and features that were text in the fit are read as text from
        files that don't say of what types columns are, such as CSV.
    target : path-like, optional
        A file, which appears whole or not at all; its suffix says the format. Or a folder, for a source that is a file
        or a folder: the result is then written in parts, and a run that was killed and is started again redoes only
        those that are missing. For a Spark data frame or table, a new folder, where Spark writes Parquet; left out, the
        result is a data frame, for Spark to write as it can.
    score : str or sequence of str, optional
        The columns of the scores, by name or pattern; by default those that it was fitted to. Names that hold the
        classes say which is which, whatever their order.
    group : str, optional
        The column of groups, of what was fitted by group; by default the one that it was fitted to.
    column : str, optional
        Name of the new column, by default "p_calibrated"; of several, what comes before _CLASS. That of a corrected
        number is by default "calibrated".
    missing : {"error", "skip", "keep"}
        What becomes of rows that lack a score, or the group that it takes: null or NaN. "skip" leaves them out of the
        result, "keep" writes them without new values: null, and an empty field in text. A feature may be missing:
        calibration by segments knows what to do with such rows.
    part_rows : int
        Rows of a part of a Parquet file at least.
    progress : callable, optional
        Is told the number of rows done so far.

    Returns
    -------
    Applied, or a Spark data frame
        Numbers of rows and parts; or, without a target, the data frame with the new columns, in Spark's own SQL where
        it can say the map, else by Python on its workers.

    Raises
    ------
    CalibrantError
        If the source can't be read, lacks a column or has the new one already, a score can't be used, or the target
        holds something else. The message says where.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import calibrant as cb
    >>> rows = {"p": [0.1, 0.3, 0.5, 0.7], "y": [0, 1, 0, 1]}
    >>> calibrator = cb.engines.fit(cb.IsotonicCalibrator(), rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = cb.engines.apply(calibrator, rows, pathlib.Path(folder) / "out.csv")
    ...     print((pathlib.Path(folder) / "out.csv").read_text())
    "p","y","p_calibrated"
    0.1,0,0
    0.3,1,0.5
    0.5,0,0.5
    0.7,1,1
    """
    check_integer("part_rows", part_rows, minimum=1)
    check_choice("missing", missing, MISSING_INPUT)
    is_file = isinstance(source, (str, os.PathLike)) and not is_many(source)  # files of a folder name themselves
    where = name_of(os.fspath(source)) if is_file else ""
    columns = FittedColumns.of(fitted, score=score, group=group, where="standard input" if where == "-" else where)
    new = columns.new_columns(column, missing)
    if is_spark(source):
        spark = open_spark(source, table)
        if target is None:
            return with_probabilities(fitted, spark, new, column, columns.group)
        return write_probabilities(fitted, spark, target, new, column, columns.group)
    if target is None:
        raise InvalidInputError("only of a Spark data frame the result can be left to Spark. Name a target to write.")
    return append_columns(
        source,
        target,
        columns=new,
        fingerprint=f"calibrator {fingerprint(fitted)}",
        format=format,
        table=table,
        part_rows=part_rows,
        progress=progress,
    )
