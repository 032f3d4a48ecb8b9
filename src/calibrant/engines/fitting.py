"""Calibrators fitted to any source of rows, in bounded memory."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from calibrant.calibrators import (
    BetaCalibrator,
    BinaryCalibrator,
    Calibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    TemperatureCalibrator,
)
from calibrant.calibrators.softmax_family import SoftmaxCalibrator
from calibrant.engines.batches import open_rows
from calibrant.engines.partitions import Column, pooled_summary
from calibrant.engines.quantised import QuantisedSummary
from calibrant.engines.rows import CheckedRows, RowReader
from calibrant.engines.streaming import stream_beta, stream_sigmoid, stream_softmax, stream_temperature
from calibrant.engines.summarise import MAX_DISTINCT, Exact, check_exact, fold_summaries
from calibrant.errors import DataWarning, InvalidInputError, InvalidLabelError
from calibrant.maps import BinaryMap, Map, OneVsRestMap
from calibrant.summary import ScoreSummary
from calibrant.validation import Labels, check_integer

C = TypeVar("C", bound=Calibrator)


def fit(
    calibrator: C,
    source: Any,
    *,
    score: str | Sequence[str] = "p",
    label: str = "y",
    weight: str | None = None,
    classes: Sequence[Any] | None = None,
    exact: Exact = "auto",
    max_distinct: int = MAX_DISTINCT,
    format: str | None = None,
    table: str | None = None,
) -> C:
    """Fit a calibrator to any source of rows, in bounded memory.

    Parameters
    ----------
    calibrator : Calibrator
        Its `input` says what the scores are.
    source, score, label, weight, classes, format, table
        As in `cb.engines.summarise`.
    exact : bool or "auto"
        What happens where there are more distinct scores than fit in memory. "auto": the best that the method can,
        with a DataWarning where that is a summary of cells; True: an error in that case; False: cells at once, in one
        pass and without a warning.
    max_distinct : int
        Distinct scores (rows, for a calibrator of several columns) that may be held in memory.

    Returns
    -------
    Calibrator
        The one that was given, fitted.

    Raises
    ------
    CalibrantError
        If the source can't be read, a row can't be used, or the method needs all rows in memory and they don't fit.

    Notes
    -----
    Where the distinct scores fit, the fit is the one of `fit_summary` of the rows, bit for bit. Where they don't, fits
    take several passes, so the source must be one that can be read again:

    - isotonic: exact, by range partitions: the same blocks as in memory, bit for bit where rows have no weights;
    - sigmoid, beta, temperature, vector, matrix and Dirichlet: to the minimum of the same loss, from sums of gradients
      and Hessians over the rows, one pass for each evaluation;
    - any other method of one score: a fit to a summary of cells, whose bounds a DataWarning says.

    Examples
    --------
    >>> import calibrant as cb
    >>> rows = {"p": [0.1, 0.3, 0.5, 0.7], "y": [0, 1, 0, 1]}
    >>> cb.engines.fit(cb.IsotonicCalibrator(), rows).predict_proba([0.2, 0.4, 0.6])
    array([0.25, 0.5 , 0.75])
    """
    check_exact(exact)
    check_integer("max_distinct", max_distinct, minimum=1)
    calibrator._check_params()
    reader = RowReader(
        open_rows(source, format=format, table=table),
        score=score,
        label=label,
        weight=weight,
        input=calibrator.input,
        classes=classes,
    )
    if isinstance(calibrator, BinaryCalibrator) and (reader.is_binary or len(reader.classes) > 2):
        _fit_summaries(calibrator, reader, exact, max_distinct)
    else:
        _fit_rows(calibrator, reader, max_distinct)
    calibrator.classes_ = reader.classes
    calibrator.score_names_ = tuple(reader.score)
    return calibrator


def _fit_summaries(calibrator: BinaryCalibrator, reader: RowReader, exact: Exact, max_distinct: int) -> None:
    found = fold_summaries(reader, exact="auto" if exact is True else exact, max_distinct=max_distinct)
    if isinstance(found, ScoreSummary):
        _check_both(found, reader)
        calibrator.map_ = _fit_column(calibrator, Column(reader), found, exact, max_distinct)
        calibrator.n_rows_ = round(found.total_weight)
        return
    inner = calibrator
    if calibrator.input == "logit":
        inner = type(calibrator)(**{**calibrator.get_params(), "input": "probability"})
    maps: list[BinaryMap] = []
    for k, summary in enumerate(found.values()):
        _check_both(summary, reader)
        maps.append(_fit_column(inner, Column(reader, k), summary, exact, max_distinct))
    calibrator.map_ = OneVsRestMap(tuple(maps), calibrator.input == "logit")
    calibrator.n_rows_ = round(next(iter(found.values())).total_weight)


def _fit_column(
    calibrator: BinaryCalibrator, column: Column, summary: ScoreSummary, exact: Exact, max_distinct: int
) -> BinaryMap:
    if not isinstance(summary, QuantisedSummary) or exact is False:
        return calibrator.fit_map(summary)
    if isinstance(calibrator, IsotonicCalibrator):
        return calibrator.fit_map(pooled_summary(column, max_rows=max_distinct, start=summary))
    if isinstance(calibrator, SigmoidCalibrator):
        return stream_sigmoid(calibrator, column, summary)
    if isinstance(calibrator, BetaCalibrator):
        return stream_beta(calibrator, column, summary)
    what = f"there are more than {max_distinct:,} distinct scores, and {calibrator.name} has no fit in several passes"
    if exact is True:
        raise InvalidInputError(f"{what}. Pass a larger max_distinct, exact='auto', or another method.")
    warnings.warn(f"{what}: it is fitted to cells of neighbouring scores ({summary.bounds})", DataWarning, stacklevel=5)
    return calibrator.fit_map(summary)


def _fit_rows(calibrator: Calibrator, reader: RowReader, max_distinct: int) -> None:
    """Fit to rows in memory where they fit, else in passes where the method can."""
    held: list[CheckedRows] = []
    n_rows = 0
    known = reader.source.n_rows or 0
    for rows in () if known > max_distinct else reader:  # rows that are elsewhere are not brought here in vain
        held.append(rows)
        n_rows += len(rows.scores)
        if n_rows > max_distinct:
            held.clear()
            break
    if held:
        calibrator.fit_checked(*_joined(held, reader))
        return
    if n_rows == 0 and not known:
        raise InvalidInputError(f"{reader.source.name} has no row with weight. Give at least one a positive weight.")
    fitted: Map
    if len(reader.classes) > 2 and isinstance(calibrator, TemperatureCalibrator):
        fitted = stream_temperature(reader)
    elif len(reader.classes) > 2 and isinstance(calibrator, SoftmaxCalibrator):
        fitted = stream_softmax(calibrator, reader)
    else:
        raise InvalidInputError(
            f"there are more than {max_distinct:,} rows, and {calibrator.name} needs all of them in memory for "
            f"{len(reader.score)} score columns. Pass a larger max_distinct, or another method such as isotonic."
        )
    calibrator.map_ = fitted
    calibrator.n_rows_ = reader.total(lambda rows: len(rows.scores))


def _joined(held: list[CheckedRows], reader: RowReader) -> tuple[Any, Labels, Any]:
    codes = np.concatenate([rows.codes for rows in held])
    if (codes == codes[0]).all():
        raise InvalidLabelError(
            f"column {reader.label!r} of {reader.source.name} holds one class only: "
            f"{reader.classes.tolist()[codes[0]]!r}. Pass rows of at least two classes."
        )
    weight = None
    if any(rows.weight is not None for rows in held):
        weight = np.concatenate([np.ones(len(r.scores)) if r.weight is None else r.weight for r in held])
    return np.concatenate([rows.scores for rows in held]), Labels(codes, reader.classes), weight


def _check_both(summary: ScoreSummary, reader: RowReader) -> None:
    if not 0.0 < summary.total_positives < summary.total_weight:
        raise InvalidLabelError(
            f"column {reader.label!r} of {reader.source.name} shows a class in none or all of its rows "
            f"({summary.total_positives:g} of {summary.total_weight:g}). Pass rows of at least two classes."
        )
