"""Calibrators fitted to any source of rows, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.engines.passes import Passes
from calibrant.engines.rows import CheckedRows, RowReader
from calibrant.engines.summarise import MAX_DISTINCT, Exact, check_exact
from calibrant.errors import InvalidLabelError
from calibrant.rows import Rows
from calibrant.tables import open_rows
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
    check_exact(exact)
    check_integer("max_distinct", max_distinct, minimum=1)
    calibrator.check_params()
    reader = RowReader(
        open_rows(source, format=format, table=table),
        score=score,
        label=label,
        weight=weight,
        input=calibrator.input,
        classes=classes,
    )
    passes = Passes(reader, exact, max_distinct)
    held = None if passes.takes_summary(calibrator) else _materialise(reader, max_distinct)
    if held is not None:
        calibrator.fit_rows(held)
    else:
        calibrator.map_, calibrator.n_rows_ = passes.fit(calibrator)
    calibrator.classes_ = reader.classes
    calibrator.score_names_ = tuple(reader.score)
    return calibrator


def _materialise(reader: RowReader, max_rows: int) -> Rows | None:
    """Return all rows where they fit; a source that can be read once only, or is elsewhere, is not tried in vain."""
    if not reader.source.is_repeatable and reader.is_binary:
        return None
    if (reader.source.n_rows or 0) > max_rows:
        return None
    held: list[CheckedRows] = []
    n_rows = 0
    for rows in reader:
        held.append(rows)
        n_rows += len(rows.scores)
        if n_rows > max_rows:
            return None
    return _joined(held, reader) if held else None


def _joined(held: list[CheckedRows], reader: RowReader) -> Rows:
    codes = np.concatenate([rows.codes for rows in held])
    if (codes == codes[0]).all():
        raise InvalidLabelError(
            f"column {reader.label!r} of {reader.source.name} holds one class only: "
            f"{reader.classes.tolist()[codes[0]]!r}. Pass rows of at least two classes."
        )
    weight = None
    if any(rows.weight is not None for rows in held):
        weight = np.concatenate([np.ones(len(r.scores)) if r.weight is None else r.weight for r in held])
    return Rows(
        np.concatenate([rows.scores for rows in held]), Labels(codes, reader.classes), weight, input=reader.input
    )
