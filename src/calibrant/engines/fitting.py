"""Calibrators fitted to any source of rows, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from calibrant.calibrators import Calibrator
from calibrant.engines.rows import RowReader
from calibrant.engines.streams import MAX_DISTINCT, Exact, SourceStream
from calibrant.tables import FormatLike, Missing, open_rows
from calibrant.validation import check_both_classes

C = TypeVar("C", bound=Calibrator)


def fit(
    calibrator: C,
    source: Any,
    *,
    score: str | Sequence[str] = "p",
    label: str = "y",
    weight: str | None = None,
    classes: Sequence[Any] | None = None,
    missing: Missing = "error",
    exact: Exact = "auto",
    max_distinct: int = MAX_DISTINCT,
    format: FormatLike = None,
    table: str | None = None,
) -> C:
    """Fit a calibrator to any source of rows, in bounded memory.

    Parameters
    ----------
    calibrator : Calibrator
        Its `input` says what the scores are.
    source, score, label, weight, classes, missing, format, table
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
        If the source can't be read, a row can't be used, or `exact=True` asks for what the method can't give.

    Notes
    -----
    Where the distinct scores fit, the fit is the one of `fit_summary` of the rows, bit for bit. Where they don't, fits
    take several passes, so the source must be one that can be read again:

    - isotonic: exact, by range partitions: the same blocks as in memory, bit for bit where rows have no weights;
    - sigmoid, beta, temperature, vector, matrix, Dirichlet and ensemble temperature: to the minimum of the same loss,
      from sums of gradients and Hessians over the rows, one pass for each evaluation;
    - one-vs-rest and top label: each of their scores as the method of that score is fitted;
    - auto of several classes: weights from a sample of the rows, each part fitted to all of them;
    - any other method of one score: a fit to a summary of cells, whose bounds a DataWarning says.

    Examples
    --------
    >>> import calibrant as cb
    >>> rows = {"p": [0.1, 0.3, 0.5, 0.7], "y": [0, 1, 0, 1]}
    >>> cb.engines.fit(cb.IsotonicCalibrator(), rows).predict_proba([0.2, 0.4, 0.6])
    array([0.25, 0.5 , 0.75])
    """
    calibrator.check_params()
    rows = open_rows(source, format=format, table=table)
    of: dict[str, Any] = {"score": score, "label": label, "weight": weight, "input": calibrator.input}
    reader = RowReader(rows, classes=classes, missing=missing, **of)
    stream = SourceStream.of(
        reader,
        exact="auto" if exact is True else exact,  # cells of a first pass may lead to an exact fit
        max_distinct=max_distinct,
        takes_cells=exact is not True,
    )
    held = None if calibrator.takes_summary(stream) else stream.materialise(max_distinct)
    if held is not None:
        check_both_classes(held.checked_labels(), stream.labels)
        calibrator.fit_rows(held)
    else:
        calibrator.map_, calibrator.n_rows_ = calibrator.map_of_stream(stream), stream.count()
    reader.warn_of_skipped()
    calibrator.classes_ = stream.classes
    calibrator.score_names_ = tuple(stream.reader.score)
    return calibrator
