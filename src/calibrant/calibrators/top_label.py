"""Calibration of the confidence in the top label."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy.typing as npt

from calibrant.calibrators._wrapping import WrappingCalibrator
from calibrant.calibrators.base import BinaryCalibrator, check_columns, named
from calibrant.document_field import DocumentField
from calibrant.errors import DataWarning, InvalidInputError
from calibrant.maps import IDENTITY, BinaryMap, Map, TopLabelMap
from calibrant.numerics import softmax
from calibrant.phrases import quoted
from calibrant.rows import Rows
from calibrant.validation import check_flag

_MOST_NAMED = 10


@named
class TopLabelCalibrator(WrappingCalibrator):
    """Calibrate the confidence in the top label of each row: how often it is right.

    Parameters
    ----------
    calibrator : str or BinaryCalibrator
        The calibrator of the confidence, by name or as an instance, which is left unfitted.
    per_class : bool
        Fit one map for each class that may be on top, to the rows where it is: among the rows that say "cat" with
        0.8, 80% are cats, and not only among all rows that say anything with 0.8. A class that is never on top, or
        always or never rightly, gets the map of all rows, with a DataWarning.

    Notes
    -----
    The top label, of equal probabilities the first, stays on top, and gets its calibrated confidence q. The other
    classes share 1 - q in their old proportions; nothing was measured of them, so only the top label's probability
    is calibrated. Where that would put another class on top, they are drawn towards equal shares, just as far as q
    stays the largest: the label that q is about does not change, so neither does accuracy, nor what q means. That is
    possible down to q = 1 / K, to which a lower q is raised.

    It needs far fewer rows than one map per class, and a top label whose confidence is right is all that a decision
    to trust or to pass on a row asks for. For probabilities of all classes take `OneVsRestCalibrator` or
    `TemperatureCalibrator`. One score, or two columns, are the binary problem itself, which calibrates both labels.

    Where all top labels are right, or all wrong, rows are too few to say how often, and the confidence stays as it
    is, with a DataWarning.

    References
    ----------
    Guo et al. (2017), *On calibration of modern neural networks*, ICML, equation 1, calibration of the confidence.
    Gupta and Ramdas (2022), *Top-label calibration and multiclass-to-binary reductions*, ICLR, for `per_class`.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> P = rng.dirichlet([0.3, 0.3, 0.3], 4_000)
    >>> y = np.where(rng.random(4_000) < 0.3, rng.integers(0, 3, 4_000), P.argmax(axis=1))  # at most 80% right
    >>> cb.TopLabelCalibrator("spline").fit(P, y).predict_proba([[0.9, 0.09, 0.01]]).round(1)
    array([[0.8, 0.2, 0. ]])
    """

    name: ClassVar[str] = "top_label"

    def __init__(self, calibrator: str | BinaryCalibrator = "isotonic", *, per_class: bool = False) -> None:
        self.calibrator = calibrator
        self.per_class = per_class

    def check_params(self) -> None:
        """Raise if an argument can't be used."""
        check_flag("per_class", self.per_class)
        super().check_params()

    def map_of(self, rows: Rows) -> Map:
        """Fit the map of the confidence in the top label, or of one score."""
        inner = self.inner()
        n_classes = rows.n_classes
        if n_classes == 2:
            return inner.map_of(rows)
        is_logit = inner.input == "logit"
        if is_logit:
            rows = rows.with_scores(softmax(rows.scores))
            inner = type(inner)(**{**inner.get_params(), "input": "probability"})
        if inner.input == "score":
            raise InvalidInputError(
                "raw scores of several classes say nothing of the confidence in the largest. Pass probabilities, or "
                'logits with input="logit".'
            )
        top, confidence = rows.scores.argmax(axis=1), rows.top_label()
        pooled = _fit_mixed(inner, confidence)
        own = None
        if self.per_class and pooled is not None:
            own = [_fit_mixed(inner, confidence.take(top == k)) for k in range(n_classes)]
        is_right = bool(confidence.positive[0])
        return top_label_map(rows.classes, pooled, own, is_logit=is_logit, n_rows=rows.n_rows, is_right=is_right)

    def check_map(self, fitted: Map, n_classes: int, field: DocumentField) -> None:
        """Refuse a map that this calibrator can't have produced for so many classes."""
        if not isinstance(fitted, TopLabelMap):
            super().check_map(fitted, n_classes, field)
            return
        if len(fitted.maps) > 1 and not self.per_class:
            field.member("maps").refuse(f"does not go with {self!r}, which fits one map")
        if self.input == "score":
            field.refuse("takes probabilities or logits, not raw scores")
        check_columns(self.inner(), fitted, n_classes, field)


def top_label_map(
    classes: npt.NDArray[Any],
    pooled: BinaryMap | None,
    own: Sequence[BinaryMap | None] | None,
    *,
    is_logit: bool,
    n_rows: int,
    is_right: bool,
) -> TopLabelMap:
    """Make one map of that of all rows and those of each class on top, None where rows are all right or all wrong."""
    n_classes = len(classes)
    if pooled is None:
        _say(
            f"the top label is {'right' if is_right else 'wrong'} in all {n_rows:,} rows: too few to "
            "calibrate its confidence, which stays as it is"
        )
        return TopLabelMap(n_classes, (IDENTITY,), is_logit)
    if own is None:
        return TopLabelMap(n_classes, (pooled,), is_logit)
    left = [label for label, fitted in zip(classes.tolist(), own, strict=True) if fitted is None]
    if left:
        _say(
            f"{len(left):,} of {n_classes:,} classes are never on top, or always or never rightly: "
            f"{quoted(left, most=_MOST_NAMED)}. They get the map of all rows"
        )
    return TopLabelMap(n_classes, tuple(fitted or pooled for fitted in own), is_logit)


def _fit_mixed(inner: BinaryCalibrator, rows: Rows) -> BinaryMap | None:
    """Fit the confidence of rows, or return None where they are not both right and wrong."""
    right = rows.positive
    return None if right.all() or not right.any() else inner.fit_map(rows)


def _say(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=6)  # the caller of fit
