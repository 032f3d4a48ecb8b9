"""Quadratic logistic calibration, kept from falling."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.logistic import (
    LogisticProblem,
    apart_from_line,
    base_logit,
    minimise,
    on_logits,
    platt_targets,
    rising_slope,
)
from calibrant.maps import BinaryMap, QuadraticMap
from calibrant.numerics import FloatArray
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary


@named("quadratic")
class QuadraticCalibrator(BinaryCalibrator):
    """Quadratic logistic calibration: logit(q) = c + a z + b z^2 of the logit or score z, not falling over the data.

    Parameters
    ----------
    input : {"probability", "logit", "score"}
        What the scores are. Probabilities enter as logits, 0 and 1 clipped by `calibrant.numerics.clip_from_data`.

    Notes
    -----
    The maximum-likelihood fit to Platt's targets under the two constraints that the slope a + 2 b z is not negative
    at the lowest and at the highest score. The slope is linear in z, so the parabola then rises between them too;
    beyond them it is held flat. The problem is convex: where the free optimum breaks a constraint, the best of the
    faces on which one slope is zero is the optimum. Constant scores give the base rate.

    References
    ----------
    Platt (1999), *Probabilistic outputs for support vector machines*, section 2.2, for the targets.
    Cox (1958), *Two further applications of a model for binary regression*, Biometrika 45, for the model without
    its square.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.QuadraticCalibrator(input="score").fit([-2.0, -1.0, 0.0, 1.0, 2.0], [0, 1, 0, 1, 1])
    >>> calibrator.predict_proba([-2.0, 0.0, 2.0]).round(3)
    array([0.363, 0.58 , 0.797])
    """

    map_kinds = (QuadraticMap,)

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        ties, clip = on_logits(data.tied(), self.input)
        z, w = ties.scores, ties.weight
        low, high = float(z.min()), float(z.max())
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        if half == 0.0:
            return QuadraticMap(0.0, 0.0, base_logit(ties), low, low, clip)
        t = (z - middle) / half
        one = np.ones_like(t)
        target_weight = platt_targets(ties)

        def of(*columns: FloatArray) -> LogisticProblem:
            return LogisticProblem(np.vstack((*columns, one)), w, target_weight)

        bend, of_line, of_one = apart_from_line(t * t, t, w)
        if bend is None:
            _, slope, c = rising_slope(of(t), what="quadratic fit")
            return QuadraticMap(slope, 0.0, c, low, high, clip)
        slope, b, level = minimise(of(t, bend), what="quadratic fit")
        a, b, c = float(slope - b * of_line), float(b), float(level - b * of_one)
        if 2.0 * abs(b) > a:  # it falls at one end: let the slope there be 0
            faces = []
            for sign in (1.0, -1.0):
                loss, slope, level = rising_slope(of(t + 0.5 * sign * t * t), what="quadratic fit")
                faces.append((loss, slope, 0.5 * sign * slope, level))
            _, a, b, c = min(faces)
        return QuadraticMap(a, b, c, low, high, clip)
