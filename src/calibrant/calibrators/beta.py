"""Beta calibration."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from typing import Literal, get_args

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.errors import DataWarning, warn
from calibrant.logistic import (
    LogisticProblem,
    apart_from_line,
    fit_slope_intercept,
    minimise,
    minimise_streamed,
    platt_rates,
    platt_targets,
    rising_slope,
    separates,
)
from calibrant.maps import BetaMap, BinaryMap
from calibrant.numerics import FloatArray, clip_from_data, clip_open
from calibrant.quantised import QuantisedSummary
from calibrant.row_stream import RowStream
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary, TiedScores
from calibrant.validation import InputKind, check_choice

BetaForm = Literal["abm", "am", "ab", "a"]
_LOG_2 = np.log(2.0)


@named("beta")
class BetaCalibrator(BinaryCalibrator):
    """Beta calibration: q = expit(a log(p) - b log(1 - p) + c) with a, b >= 0.

    Parameters
    ----------
    form : {"abm", "am", "ab", "a"}
        Which parameters are free, as in the paper: "abm" all three; "am" one slope a = b and the intercept; "ab" two
        slopes with c = (a - b) log 2, so that 1/2 stays 1/2; "a" one slope and c = 0, which is temperature scaling.

    Notes
    -----
    The maximum-likelihood fit under a, b >= 0: it never reverses an order. The problem is convex, so where the
    free optimum has a negative slope, the best of the faces a = 0 and b = 0 is the optimum. Where scores are too few or
    too near each other to tell the slopes apart, as two distinct scores are, the slopes are equal. Where the scores
    separate the classes no finite optimum exists: Platt's targets are used instead, with a DataWarning. Zeros and
    ones are moved inward by a clip that the data set (`calibrant.numerics.clip_from_data`).

    References
    ----------
    Kull, Silva Filho and Flach (2017), *Beta calibration: a well-founded and easily implemented improvement on
    logistic calibration for binary classifiers*, AISTATS.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.BetaCalibrator(form="am").fit([0.2, 0.6, 0.4, 0.9], [0, 0, 1, 1])
    >>> calibrator.predict_proba([0.5]).round(3)
    array([0.466])
    """

    map_kinds = (BetaMap,)
    input: InputKind = "probability"

    def __init__(self, *, form: BetaForm = "abm") -> None:
        self.form = form

    def check_params(self) -> None:
        super().check_params()
        check_choice("form", self.form, get_args(BetaForm))

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        ties = data.tied()
        clip = clip_from_data(ties.scores, float(ties.weight.sum()))
        p = clip_open(ties.scores, clip)
        log_p, log_rest = self._logarithms(p)
        target_weight = ties.positives
        if separates(ties):
            message = "the scores separate the classes: beta's optimum is not finite, so Platt's targets are used"
            warn(message, DataWarning)
            target_weight = platt_targets(ties)
        ones = [np.ones_like(p)] if "m" in self.form else []

        def of(*columns: FloatArray) -> LogisticProblem:
            return LogisticProblem(np.vstack((*columns, *ones)), ties.weight, target_weight)

        if ones and float(p.min()) == float(p.max()):
            _, c = fit_slope_intercept(ties)
            return BetaMap(0.0, 0.0, c, clip)
        line, rest = log_p + log_rest, log_p - log_rest
        if "b" not in self.form or apart_from_line(rest, line, ties.weight, through_zero=not ones)[0] is None:
            _, a, c = rising_slope(of(line), what="beta fit")
            return self._map(a, a, c, clip)
        a, b, c = (*minimise(of(log_p, log_rest), what="beta fit").tolist(), 0.0)[:3]
        if a < 0.0 or b < 0.0:
            one, other = (rising_slope(of(column), what="beta fit") for column in (log_p, log_rest))
            _, a, b, c = min((one[0], one[1], 0.0, one[2]), (other[0], 0.0, other[1], other[2]))
        return self._map(a, b, c, clip)

    def fit_streamed(self, stream: RowStream, cells: QuantisedSummary) -> BinaryMap:
        """Fit to the rows themselves, with those parameters free that are free in the fit to their cells."""
        start = self.fit_map(cells)
        assert isinstance(start, BetaMap)  # noqa: S101 - for the type checker: there are no others
        clip = cells.clip
        is_free = (start.a != 0.0, start.b != 0.0)
        if not any(is_free):
            return replace(start, clip=clip)
        is_one_slope = "b" not in self.form or start.a == start.b
        rates = platt_rates(cells.tied()) if separates(cells.tied()) else (0.0, 1.0)

        def problem(ties: TiedScores) -> LogisticProblem:
            p = clip_open(ties.scores, clip)
            log_p, log_rest = self._logarithms(p)
            columns = [log_p + log_rest] if is_one_slope else [*compress((log_p, log_rest), is_free)]
            columns += [np.ones_like(p)] if "m" in self.form else []
            return LogisticProblem(np.stack(columns), ties.weight, platt_targets(ties, rates))

        theta = minimise_streamed(stream, cells, problem, what="beta fit").tolist()
        c = theta.pop() if "m" in self.form else 0.0
        if min(theta) < 0.0:  # at the edge of what is allowed, to rounding
            return replace(start, clip=clip)
        a, b = (theta[0], theta[0]) if is_one_slope else (theta.pop(0) if free else 0.0 for free in is_free)
        return self._map(a, b, c, clip)

    def _logarithms(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log p and -log(1 - p); without a free intercept those of 2p and 2(1 - p), which are zero at 1/2."""
        at_half = 0.0 if "m" in self.form else _LOG_2
        return np.log(p) + at_half, -np.log1p(-p) - at_half

    def _map(self, a: float, b: float, c: float, clip: float) -> BetaMap:
        return BetaMap(a, b, c if "m" in self.form else float((a - b) * _LOG_2), clip)
