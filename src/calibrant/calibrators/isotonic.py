"""Isotonic calibration."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.maps import BinaryMap, InterpolatedMap
from calibrant.numerics import FloatArray
from calibrant.rows import Rows
from calibrant.summary import Blocks, ScoreSummary
from calibrant.validation import InputKind, check_flag


@named
class IsotonicCalibrator(BinaryCalibrator):
    """Isotonic regression of the labels on the scores: the best fit among all rising maps.

    Parameters
    ----------
    bounded : bool
        Keep outputs inside [1 / (n + 2), 1 - 1 / (n + 2)], n the total weight: an event unseen in n rows may still
        happen. Costs nothing in Brier score and saves the log loss of a wrong 0 or 1. By default outputs equal
        those of `sklearn.isotonic.IsotonicRegression(out_of_bounds="clip")`.
    input : {"probability", "logit", "score"}
        What the scores are; only their order matters.

    Notes
    -----
    Interpolates linearly between the first and last score of each pooled block and is flat outside them. Scores
    are compared exactly: two that differ in the last bit are two scores.

    References
    ----------
    Zadrozny and Elkan (2002), *Transforming classifier scores into accurate multiclass probability estimates*, KDD.
    Ayer et al. (1955), *An empirical distribution function for sampling with incomplete information*.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.IsotonicCalibrator().fit([0.1, 0.3, 0.5, 0.7], [0, 1, 0, 1])
    >>> calibrator.predict_proba([0.2, 0.4, 0.6])
    array([0.25, 0.5 , 0.75])
    """

    name: ClassVar[str] = "isotonic"
    rises: ClassVar[bool] = True

    def __init__(self, *, bounded: bool = False, input: InputKind = "probability") -> None:
        self.bounded = bounded
        self.input = input

    def check_params(self) -> None:
        """Raise if a constructor argument can't be used."""
        super().check_params()
        check_flag("bounded", self.bounded)

    def map_kinds(self, input: InputKind) -> tuple[type[BinaryMap], ...]:  # noqa: ARG002
        """Return the kinds of map that a fit to scores of kind `input` can give."""
        return (InterpolatedMap,)

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        """Pool the rows or their summary into an interpolated map."""
        summary = data.summary()
        blocks = summary.isotonic_blocks()
        rate = blocks.rate
        if self.bounded:
            least = 1.0 / (summary.total_weight + 2.0)
            rate = np.clip(rate, least, 1.0 - least)
        return InterpolatedMap(*block_knots(blocks, rate))


def block_knots(blocks: Blocks, rate: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return knots at both ends of every block, one where the ends coincide."""
    x = np.column_stack((blocks.first, blocks.last)).reshape(-1)
    kept = np.ones(x.size, dtype=bool)
    kept[1::2] = blocks.first != blocks.last
    return x[kept], np.repeat(rate, 2)[kept]
