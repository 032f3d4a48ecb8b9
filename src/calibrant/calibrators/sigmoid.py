"""Platt scaling."""

from __future__ import annotations

from typing import ClassVar

from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.logistic import fit_slope_intercept, on_logits
from calibrant.maps import BetaMap, BinaryMap, LogisticMap
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import InputKind


@named
class SigmoidCalibrator(BinaryCalibrator):
    """Platt scaling: a logistic regression of the labels on the score, with Platt's targets.

    Parameters
    ----------
    input : {"probability", "logit", "score"}
        What the scores are. Probabilities enter as their logits, with 0 and 1 moved inward by a clip that the
        data set (`calibrant.numerics.clip_from_data`); a logistic curve over the probability itself can't even
        express the identity.

    Notes
    -----
    Fits q = expit(a s + c) by Newton's method; the optimum is finite for any data. Where scores run against the
    labels the slope is negative. Constant scores give the base rate.

    References
    ----------
    Platt (1999), *Probabilistic outputs for support vector machines and comparisons to regularized likelihood
    methods*. Lin, Lin and Weng (2007), *A note on Platt's probabilistic outputs for support vector machines*.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.SigmoidCalibrator(input="score").fit([-2.0, -1.0, 0.5, 1.0], [0, 1, 0, 1])
    >>> calibrator.predict_proba([0.0]).round(3)
    array([0.525])
    """

    name: ClassVar[str] = "sigmoid"

    def __init__(self, *, input: InputKind = "probability") -> None:
        self.input = input

    def map_kinds(self, input: InputKind) -> tuple[type[BinaryMap], ...]:
        """Return the kinds of map that a fit to scores of kind `input` can give."""
        return (BetaMap,) if input == "probability" else (LogisticMap,)

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        """Fit the logistic map to checked rows or their summary."""
        groups, clip = on_logits(data.tied(), self.input)
        slope, intercept = fit_slope_intercept(groups)
        if clip is None:
            return LogisticMap(slope, intercept)
        return BetaMap(slope, slope, intercept, clip)
