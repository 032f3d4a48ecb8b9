"""Platt scaling."""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError
from calibrant.logistic import (
    LogisticProblem,
    fit_slope_intercept,
    minimise_streamed,
    on_logits,
    platt_rates,
    platt_targets,
)
from calibrant.maps import BetaMap, BinaryMap, LogisticMap, Map, line_map
from calibrant.numerics import FloatArray, clip_open, logit
from calibrant.quantised import QuantisedSummary
from calibrant.row_stream import RowStream
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary, TiedScores
from calibrant.validation import InputKind, check_choice


@named("sigmoid")
class SigmoidCalibrator(BinaryCalibrator):
    """Platt scaling: a logistic regression of the labels on the score, with Platt's targets.

    Parameters
    ----------
    input : {"probability", "logit", "score"}
        What the scores are. Probabilities enter as their logits, with 0 and 1 moved inward by a clip that the
        data set (`calibrant.numerics.clip_from_data`); a logistic curve over the probability itself can't even
        express the identity.
    on : {"logit", "probability"}, optional
        What the curve of probabilities is over; by default their logit. "probability" gives the numbers of
        scikit-learn's sigmoid for classifiers without a decision function.

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

    map_kinds = (BetaMap, LogisticMap)
    later_settings = ("on",)

    def __init__(self, *, input: InputKind = "probability", on: Literal["logit", "probability"] | None = None) -> None:
        super().__init__(input=input)
        self.on = on

    def check_params(self) -> None:
        super().check_params()
        if self.on is not None:
            check_choice("on", self.on, ("logit", "probability"))
            if self.input != "probability":
                raise InvalidInputError(f"on={self.on!r} is for probabilities, but input={self.input!r}. Leave on out.")

    @property
    def _line_over(self) -> InputKind:
        """What the line is over: "score" for the scores as they are."""
        return "score" if self.on == "probability" else self.input

    def check_values(self, fitted: Map, input: InputKind, field: DocumentField) -> None:
        super().check_values(fitted, "score" if self.on == "probability" else input, field)

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        ties, clip = on_logits(data.tied(), self._line_over)
        slope, intercept = fit_slope_intercept(ties)
        return line_map(slope, intercept, clip)

    def fit_streamed(self, stream: RowStream, cells: QuantisedSummary) -> BinaryMap:
        """Fit to scores in the middle of [-1, 1], from the fit to their cells, by Newton's method."""
        clip, rates = cells.clip if self._line_over == "probability" else None, platt_rates(cells.tied())

        def on_line(s: FloatArray) -> FloatArray:
            return s if clip is None else logit(clip_open(s, clip))

        low, high = on_line(cells.low[:1]).item(), on_line(cells.high[-1:]).item()
        if low == high:
            return self.fit_map(cells)
        unit, middle = 0.5 * high - 0.5 * low, 0.5 * high + 0.5 * low

        def problem(ties: TiedScores) -> LogisticProblem:
            columns = np.stack(((on_line(ties.scores) - middle) / unit, np.ones(ties.scores.size)))
            return LogisticProblem(columns, ties.weight, platt_targets(ties, rates))

        slope, intercept = minimise_streamed(stream, cells, problem, what="sigmoid fit").tolist()
        slope /= unit
        return line_map(slope, intercept - slope * middle, clip)
