"""Calibration of the confidence in the top label."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy.typing as npt

from calibrant.calibrators.base import BinaryCalibrator, check_columns, named
from calibrant.calibrators.wrapping import WrappingCalibrator
from calibrant.document_field import DocumentField
from calibrant.errors import DataWarning, InvalidInputError, warn
from calibrant.maps import IDENTITY, BinaryMap, Map, TopLabelMap
from calibrant.numerics import softmax
from calibrant.phrases import quoted
from calibrant.row_stream import RowStream
from calibrant.rows import Rows
from calibrant.validation import check_flag


@named("top_label")
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
    classes share 1 - q in their old proportions; only the top label's probability is calibrated. Where that would put
    another class on top, the others are moved towards equal shares, just as far as q stays the largest, so that the top
    label, accuracy and the meaning of q don't change. A q below 1 / K is raised to it.

    It needs far fewer rows than one map per class, and a decision to trust a row or to pass it on needs no more than
    the confidence in its top label. For probabilities of all classes take `OneVsRestCalibrator` or
    `TemperatureCalibrator`. One score, or two columns, are the binary problem itself, which calibrates both labels.

    Where all top labels are right, or all wrong, the confidence stays as it is, with a DataWarning.

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

    def __init__(self, calibrator: str | BinaryCalibrator = "isotonic", *, per_class: bool = False) -> None:
        self.calibrator = calibrator
        self.per_class = per_class

    def check_params(self) -> None:
        check_flag("per_class", self.per_class)
        super().check_params()

    def map_of(self, rows: Rows) -> Map:
        inner = self.inner()
        if rows.n_classes == 2:
            return inner.map_of(rows)
        if inner.input == "logit":
            rows = rows.with_scores(softmax(rows.scores))
            inner = inner.of_probabilities()
        _refuse_raw(inner)
        top, confidence = rows.scores.argmax(axis=1), rows.top_label()

        def fit(only: int | None) -> BinaryMap | None:
            part = confidence if only is None else confidence.take(top == only)
            return None if part.positive.all() or not part.positive.any() else inner.fit_map(part)

        return self._map_of_fits(fit, rows.classes, rows.n_rows, is_right=bool(confidence.positive[0]))

    def map_of_stream(self, stream: RowStream) -> Map:
        inner = self.inner()
        if len(stream.classes) == 2:
            return inner.map_of_stream(stream)
        _refuse_raw(inner)
        inner = inner.of_probabilities() if inner.input == "logit" else inner
        confidence = stream.top_label()
        summary, labels = confidence.summary(), stream.classes.tolist()
        by_class = cache(stream.top_summaries)  # one pass, if any

        def fit(only: int | None) -> BinaryMap | None:
            found = summary if only is None else by_class().get(labels[only])
            if found is None or not 0.0 < found.total_positives < found.total_weight:
                return None
            return inner.fit_score(confidence if only is None else stream.top_label(only), found)

        return self._map_of_fits(fit, stream.classes, stream.count(), is_right=summary.total_positives > 0.0)

    def _map_of_fits(
        self, fit: Callable[[int | None], BinaryMap | None], classes: npt.NDArray[Any], n_rows: int, *, is_right: bool
    ) -> TopLabelMap:
        """Fit all rows, and those with each class on top; `fit` gives None where they are all right or all wrong."""
        n_classes, is_logit, pooled = len(classes), self.input == "logit", fit(None)
        if pooled is None:
            warn(
                f"the top label is {'right' if is_right else 'wrong'} in all {n_rows:,} rows: too few to "
                "calibrate its confidence, which stays as it is",
                DataWarning,
            )
            return TopLabelMap(n_classes, (IDENTITY,), is_logit)
        if not self.per_class:
            return TopLabelMap(n_classes, (pooled,), is_logit)
        own = [fit(k) for k in range(n_classes)]
        left = [label for label, fitted in zip(classes.tolist(), own, strict=True) if fitted is None]
        if left:
            warn(
                f"{len(left):,} of {n_classes:,} classes are never on top, or always or never rightly: "
                f"{quoted(left, most=10)}. They get the map of all rows",
                DataWarning,
            )
        return TopLabelMap(n_classes, tuple(fitted or pooled for fitted in own), is_logit)

    def check_map(self, fitted: Map, n_classes: int, field: DocumentField) -> None:
        if not isinstance(fitted, TopLabelMap):
            super().check_map(fitted, n_classes, field)
            return
        if len(fitted.maps) > 1 and not self.per_class:
            field.member("maps").refuse(f"does not go with {self!r}, which fits one map")
        if self.input == "score":
            field.refuse("takes probabilities or logits, not raw scores")
        check_columns(self.inner(), fitted, n_classes, field)


def _refuse_raw(inner: BinaryCalibrator) -> None:
    if inner.input == "score":
        raise InvalidInputError(
            "raw scores of several classes say nothing of the confidence in the largest. Pass probabilities, or "
            'logits with input="logit".'
        )
