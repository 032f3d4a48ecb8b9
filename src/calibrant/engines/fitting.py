"""Calibrators fitted to any source of rows, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from calibrant.calibrators import Calibrator
from calibrant.engines.rows import RowReader
from calibrant.engines.streams import MAX_DISTINCT, Exact, SourceStream
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.row_stream import RowStream
from calibrant.tables import FormatLike, Missing, open_rows
from calibrant.validation import FeatureKind, InputKind, check_both_classes


class FeatureCalibrator(Protocol):
    """What is fitted to features of rows besides their scores: SegmentCalibrator and SegmentMeanCalibrator."""

    takes_features: bool
    takes_numbers: ClassVar[bool]
    score_names_: tuple[str, ...] | None

    @property
    def input(self) -> InputKind:
        """What the scores are."""

    def check_params(self) -> None:
        """Raise if a constructor argument can't be used."""

    def named_kinds(self) -> dict[str, FeatureKind]:
        """Return the kinds of the features that its constructor names."""

    def fit_stream(self, stream: RowStream) -> object:
        """Fit to rows with features."""


C = TypeVar("C", bound=Calibrator | FeatureCalibrator)


def fit(
    calibrator: C,
    source: Any,
    *,
    score: str | Sequence[str] = "p",
    label: str = "y",
    weight: str | None = None,
    classes: Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    cluster: str | None = None,
    time: str | None = None,
    label_end: str | None = None,
    missing: Missing = "error",
    exact: Exact = "auto",
    max_distinct: int = MAX_DISTINCT,
    format: FormatLike = None,
    table: str | None = None,
) -> C:
    """Fit a calibrator to any source of rows, in bounded memory.

    Parameters
    ----------
    calibrator : Calibrator, SegmentCalibrator or SegmentMeanCalibrator
        Its `input` says what the scores are.
    source, score, label, weight, classes, missing, format, table
        As in `cb.engines.summarise`. A feature that a row lacks is no missing value. For a SegmentMeanCalibrator
        `score` is the column of predictions, and `label` that of the numbers that came.
    features : sequence of str, optional
        For a calibrator by segments: the columns of features, names or patterns, beside those that it names itself,
        whose kinds it says. Of the others text and truth values are categories, numbers are numbers; a categorical of a
        data frame is what its values are.
    cluster, time, label_end : str, optional
        For a calibrator by segments: the columns of what its `fit` takes under these names.
    exact : bool or "auto"
        What happens where there are more distinct scores than fit in memory. "auto": the best that the method can,
        with a DataWarning where that is a summary of cells; True: an error in that case; False: cells at once, in one
        pass and without a warning.
    max_distinct : int
        Distinct scores (rows, for a calibrator of several columns) that may be held in memory. Calibrators
        by segments are always fitted exactly, and hold all rows, as below.

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

    Calibrators by segments take two passes: one for the levels of categories and the edges of bins, one that keeps each
    value of a feature as one byte, and scores and labels as they are. The fit is then that in memory, bit for bit. With
    boosting's own arrays it was measured to take 420 bytes a row for 10 features and a sigmoid of one score, between
    500,000 and 1,000,000 rows, beside 0.4 GB of libraries and batches: some 4.6 GB for 10 million rows.

    Examples
    --------
    >>> import calibrant as cb
    >>> rows = {"p": [0.1, 0.3, 0.5, 0.7], "y": [0, 1, 0, 1]}
    >>> cb.engines.fit(cb.IsotonicCalibrator(), rows).predict_proba([0.2, 0.4, 0.6])
    array([0.25, 0.5 , 0.75])
    """
    if not (isinstance(calibrator, Calibrator) or hasattr(type(calibrator), "fit_stream")):
        raise InvalidTypeError(
            f"can't fit a {type(calibrator).__name__} to a stream of rows, only a Calibrator, a SegmentCalibrator or a "
            "SegmentMeanCalibrator. Read the rows, and pass them to its fit."
        )
    calibrator.check_params()
    rows = open_rows(source, format=format, table=table)
    of: dict[str, Any] = {"score": score, "label": label, "weight": weight, "input": calibrator.input}
    beside = {"cluster": cluster, "time": time, "label_end": label_end}
    if not isinstance(calibrator, Calibrator):
        kinds = calibrator.named_kinds()
        of |= {**beside, "features": list(dict.fromkeys([*(features or ()), *kinds])), "feature_kinds": kinds}
        if calibrator.takes_numbers and classes is not None:
            raise InvalidInputError(f"the labels of a {type(calibrator).__name__} are numbers. Leave classes out.")
        of["label_is_number"] = calibrator.takes_numbers
        _fit_features(calibrator, RowReader(rows, classes=classes, missing=missing, **of))
        return calibrator
    if named := next((name for name, value in {"features": features, **beside}.items() if value is not None), None):
        raise InvalidInputError(
            f"{named} goes with a SegmentCalibrator. Pass cb.SegmentCalibrator({calibrator.name!r}), which calibrates "
            "by these scores and features, or leave it out."
        )
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


def _fit_features(calibrator: FeatureCalibrator, reader: RowReader) -> None:
    if not reader.features:
        raise InvalidInputError(
            f"a {type(calibrator).__name__} is fitted to features. Name their columns: features=['age', 'region']."
        )
    calibrator.fit_stream(SourceStream.of(reader))
    reader.warn_of_skipped()
    if not calibrator.takes_numbers:  # whose file has no place for them
        calibrator.score_names_ = tuple(reader.score)
