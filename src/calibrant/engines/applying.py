"""Calibrated probabilities beside the scores of any source, in bounded memory."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from functools import partial
from typing import Any, overload

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.engines.spark_columns import with_probabilities, write_probabilities
from calibrant.errors import InvalidInputError, NotFittedError, ShapeError
from calibrant.numerics import FloatArray
from calibrant.tables import PART_ROWS, Applied, NewColumns, Progress, append_columns, is_spark, open_spark
from calibrant.validation import as_scores, check_integer


@overload
def apply(
    calibrator: Calibrator,
    source: Any,
    target: str | os.PathLike[str],
    *,
    score: str | Sequence[str] | None = ...,
    column: str = ...,
    format: str | None = ...,
    table: str | None = ...,
    part_rows: int = ...,
    progress: Progress | None = ...,
) -> Applied: ...


@overload
def apply(
    calibrator: Calibrator,
    source: Any,
    target: None = ...,
    *,
    score: str | Sequence[str] | None = ...,
    column: str = ...,
    table: str | None = ...,
) -> Any: ...


def apply(
    calibrator: Calibrator,
    source: Any,
    target: str | os.PathLike[str] | None = None,
    *,
    score: str | Sequence[str] | None = None,
    column: str = "p_calibrated",
    format: str | None = None,
    table: str | None = None,
    part_rows: int = PART_ROWS,
    progress: Progress | None = None,
) -> Any:
    """Write a source with new columns of calibrated probabilities, in bounded memory.

    Parameters
    ----------
    calibrator : Calibrator
        A fitted one.
    source : path-like, frame, mapping of columns, Arrow stream, DuckDB relation, Spark data frame, or callable
        As in `cb.engines.summarise`.
    target : path-like, optional
        A file, which appears whole or not at all; its suffix says the format. Or a folder, for a source that is a file
        or a folder: the result is then written in parts, and a run that was killed and is started again redoes only
        those that are missing. For a Spark data frame or table, a new folder, where Spark writes Parquet; left out, the
        result is a data frame, for Spark to write as it can.
    score : str or sequence of str, optional
        The columns of the scores; by default those that the calibrator was fitted to.
    column : str
        Name of the new column; of several, what comes before _CLASS.
    format : {"parquet", "arrow", "csv", "tsv", "jsonl"}, optional
        What source files are, whatever their names say.
    table : str, optional
        Which table of a DuckDB database.
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
    if not hasattr(calibrator, "map_"):
        raise NotFittedError(f"this {type(calibrator).__name__} is not fitted. Call fit(scores, y) first.")
    inputs = [score] if isinstance(score, str) else list(score or calibrator.score_names_ or ())
    if not inputs:
        raise InvalidInputError("the calibrator doesn't say which columns it was fitted to. Name them with score=.")
    outputs = _outputs(calibrator, inputs, column)

    new = NewColumns(inputs, outputs, partial(_calibrate, calibrator))
    if is_spark(source):
        spark = open_spark(source, table)
        if target is None:
            return with_probabilities(calibrator, spark, new, column)
        return write_probabilities(calibrator, spark, target, new, column)
    if target is None:
        raise InvalidInputError("only of a Spark data frame the result can be left to Spark. Name a target to write.")
    return append_columns(
        source,
        target,
        columns=new,
        fingerprint=f"calibrator {fingerprint(calibrator)}",
        format=format,
        table=table,
        part_rows=part_rows,
        progress=progress,
    )


def fingerprint(calibrator: Calibrator) -> str:
    """Return a hash of what a calibrator answers: its map, its classes and what its scores are."""
    digest = hashlib.sha256()
    _add_to(digest, (calibrator.input, calibrator.classes_.tolist(), calibrator.map_))
    return digest.hexdigest()


def _add_to(digest: Any, value: object) -> None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        digest.update(f"{type(value).__name__}(".encode())
        for field in dataclasses.fields(value):
            digest.update(f"{field.name}=".encode())
            _add_to(digest, getattr(value, field.name))
    elif isinstance(value, np.ndarray):
        digest.update(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, (tuple, list)):
        digest.update(f"[{len(value)}:".encode())
        for item in value:
            _add_to(digest, item)
    else:
        digest.update(f"{value!r};".encode())


def _outputs(calibrator: Calibrator, inputs: Sequence[str], column: str) -> list[str]:
    is_pattern = any(c in "*?[" for c in "".join(inputs))
    if calibrator.takes_one and len(inputs) == 1 and not is_pattern:
        return [column]
    return [f"{column}_{label}" for label in calibrator.classes_.tolist()]


def _calibrate(calibrator: Calibrator, found: Any) -> FloatArray:
    names = found.column_names
    n_wanted = (1, 2) if calibrator.takes_one else (len(calibrator.classes_),)
    if len(names) not in n_wanted:
        raise ShapeError(
            f"the calibrator was fitted for the {len(calibrator.classes_)} classes "
            f"{calibrator.classes_.tolist()[:20]!r}, and score names {len(names)} columns. Name one column per class."
        )
    columns = [as_scores(found.column(name).combine_chunks(), name=f"column {name!r}").values for name in names]
    if len(columns) == 1:
        values = as_scores(columns[0], name=f"column {names[0]!r}", input=calibrator.input).values
    else:
        values = as_scores(np.column_stack(columns), name="the scores", input=calibrator.input).values
    return calibrator.apply_values(values)
