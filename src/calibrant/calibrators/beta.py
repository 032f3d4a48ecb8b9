"""Beta calibration."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import ClassVar, Literal, get_args

import numpy as np

from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.errors import DataWarning
from calibrant.logistic import LogisticProblem, fit_slope_intercept, minimise, platt_targets, separates
from calibrant.maps import BetaMap, BinaryMap
from calibrant.numerics import FloatArray, clip_from_data, clip_open, dot, softplus
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import InputKind, check_choice

BetaForm = Literal["abm", "am", "ab", "a"]


@named
class BetaCalibrator(BinaryCalibrator):
    """Beta calibration: q = expit(a log(p) - b log(1 - p) + c) with a, b >= 0.

    Parameters
    ----------
    form : {"abm", "am", "ab", "a"}
        Which parameters are free: "abm" all three; "am" one slope a = b and the intercept; "ab" two slopes with
        c = 0, so that 1/2 stays where the slopes balance; "a" one slope, which is temperature scaling.

    Notes
    -----
    The maximum-likelihood fit under a, b >= 0: it never turns an order round. The problem is convex, so where the
    free optimum has a negative slope, the best of the faces a = 0 and b = 0 is the optimum. Where the scores
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

    name: ClassVar[str] = "beta"
    input: InputKind = "probability"

    def __init__(self, *, form: BetaForm = "abm") -> None:
        self.form = form

    def check_params(self) -> None:
        """Raise if a constructor argument can't be used."""
        super().check_params()
        check_choice("form", self.form, get_args(BetaForm))

    def map_kinds(self, input: InputKind) -> tuple[type[BinaryMap], ...]:  # noqa: ARG002
        """Return the kinds of map that a fit to scores of kind `input` can give."""
        return (BetaMap,)

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        """Fit the beta map to checked rows or their summary."""
        groups = data.tied()
        clip = clip_from_data(groups.scores, float(groups.weight.sum()))
        p = clip_open(groups.scores, clip)
        log_p, log_rest = np.log(p), -np.log1p(-p)
        one = np.ones_like(p)
        target_weight = groups.positives
        if separates(groups):
            warnings.warn(
                "the scores separate the classes: beta's optimum is not finite, so Platt's targets are used",
                DataWarning,
                stacklevel=4,
            )
            target_weight = platt_targets(groups)

        def fit(*columns: FloatArray) -> tuple[FloatArray, float]:
            problem = LogisticProblem(np.vstack(columns), groups.weight, target_weight)
            theta = minimise(problem, what="beta fit")
            return theta, problem.value(theta)

        has_intercept = "m" in self.form
        extra = (one,) if has_intercept else ()
        if has_intercept and float(p.min()) == float(p.max()):
            _, c = fit_slope_intercept(groups)
            return BetaMap(0.0, 0.0, c, clip)
        if "b" not in self.form:
            a, c = _one_slope(fit, log_p + log_rest, one, has_intercept=has_intercept)
            return BetaMap(a, a, c, clip)
        theta, _ = fit(log_p, log_rest, *extra)
        a, b = theta[:2].tolist()
        c = float(theta[2]) if has_intercept else 0.0
        if a >= 0.0 and b >= 0.0:
            return BetaMap(a, b, c, clip)
        faces = []
        for column, is_a in ((log_p, True), (log_rest, False)):
            slope, intercept = _one_slope(fit, column, one, has_intercept=has_intercept)
            z = slope * column + intercept
            loss = dot(groups.weight, softplus(z)) - dot(target_weight, z)
            faces.append((loss, slope if is_a else 0.0, 0.0 if is_a else slope, intercept))
        _, a, b, c = min(faces)
        return BetaMap(a, b, c, clip)


def _one_slope(
    fit: Callable[..., tuple[FloatArray, float]], column: FloatArray, one: FloatArray, *, has_intercept: bool
) -> tuple[float, float]:
    """Fit one slope that is not negative, with or without an intercept; return both."""
    theta, _ = fit(column, one) if has_intercept else fit(column)
    if theta[0] < 0.0:
        theta = np.concatenate(([0.0], fit(one)[0])) if has_intercept else np.zeros(1)
    return float(theta[0]), float(theta[1]) if has_intercept else 0.0
