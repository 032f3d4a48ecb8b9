"""New class priors from predictions alone, by maximum likelihood: what Saerens, Latinne and Decaestecker's EM finds.

The rates are the shares of the classes' likelihoods in a mixture, which `mixture.maximise` finds. The interval of one
rate is where its profile likelihood, that of the best other rates, has fallen by the quantile of chi-squared: each end
is a root, found by Newton's method on the root of the deviance, which is nearly linear in the rate, and by bisection
where that leaves the bracket. It stops within a thousandth of the quantile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import ConvergenceWarning, ShapeError, warn
from calibrant.numerics import TINY, FloatArray, kish_size, normal_quantile
from calibrant.prior.mixture import Mixture, maximise
from calibrant.prior.shift import PriorEstimate, by_class, class_labels, rates, read_columns
from calibrant.validation import (
    ArrayLike,
    as_probabilities,
    as_weight,
    check_fraction,
    check_integer,
    check_number,
    places_either_way,
)

#: An end of an interval is found when the root of its deviance is this close, relative, to the quantile; steps at most.
_END_TOL, _MAX_END_STEPS = 1e-3, 60
#: None of the other shares starts at zero, from where EM can't move it.
_LEAST_START = 1e-6


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LikelihoodEstimate(PriorEstimate):
    """What `estimate_prior` found; see `PriorEstimate` for the other attributes.

    Attributes
    ----------
    n_iter : int
        Iterations of the maximiser.
    converged : bool
        Whether `gap` is at most the tolerance.
    gap : float
        What the mean log-likelihood of `new` can lack of the largest at most: a certificate, not an estimate.
    log_likelihood : float
        Mean log-likelihood of `new` over that of `old`; `statistic` is twice this times the effective number of rows.
    """

    n_iter: int
    converged: bool
    gap: float
    log_likelihood: float


def estimate_prior(
    probabilities: ArrayLike,
    *,
    old: ArrayLike,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    level: float = 0.95,
    tol: float = 1e-10,
    max_iter: int = 200,
) -> LikelihoodEstimate:
    """Estimate the base rates of rows without labels from probabilities that were calibrated for other base rates.

    Parameters
    ----------
    probabilities : array-like of shape (n,) or (n, K)
        Probability of the positive class, or of each class, of the new rows: as predicted, not yet corrected.
    old : float, or array-like, Series or mapping of K numbers
        Base rates that the probabilities are calibrated for: for one column that of the positive class, or of both
        classes; else of each class, summing to one. None may be 0 or 1. Names of classes are matched to `classes`
        and to those of the columns.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none; intervals and the test use Kish's effective
        number of rows.
    classes : sequence of shape (K,), optional
        The labels, sorted; by default the names of `old`, or 0 to K - 1.
    level : float
        Coverage of the intervals.
    tol, max_iter : float, int
        The mean log-likelihood is found to this much, with a certificate, in so many iterations at most.

    Returns
    -------
    LikelihoodEstimate
        Its method `shift` gives the correction, to be applied and saved as a calibrator is.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` iterations did not reach `tol`.

    Notes
    -----
    Under label shift (the distribution of features within each class is the same as before) a row's likelihood is
    proportional to sum_k new_k p_k / old_k, if p is calibrated for `old`. The EM algorithm of Saerens, Latinne and
    Decaestecker climbs the sum of its logarithms, which is concave, slowly; here Newton's method finds the same
    maximum. Probabilities that are not calibrated give other rates: calibrate them first, on rows with the rates
    `old` (Alexandari, Kundaje and Shrikumar). `estimate_prior_bbse` needs no calibration, but labelled rows.

    Intervals are profile-likelihood ones: the rates of a class for which twice the log-likelihood, maximised over
    the other classes, lies within the quantile of chi-squared of its maximum. They stay in [0, 1], may touch 0 where
    a class may be absent, and there cover with more than `level`. `old` and the calibration are taken for known.
    Of few rows and classes that overlap much they are a little short: with 50 rows and three such classes 95% ones
    covered 91 to 95%. They take about 6 K steps of Newton, of n K^2 operations each: many classes take long.

    References
    ----------
    Saerens, Latinne and Decaestecker (2002), *Adjusting the outputs of a classifier to new a priori probabilities:
    a simple procedure*, Neural Computation 14, sections 2.2 and 4 (the test). Alexandari, Kundaje and Shrikumar
    (2020), *Maximum likelihood with bias-corrected calibration is hard-to-beat at label shift adaptation*, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.prior import estimate_prior
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(2_000) < 0.2
    >>> p = 1 / (1 + np.exp(-2 * rng.normal(np.where(y, 1.0, -1.0), 1.0)))  # calibrated for a base rate of 1/2
    >>> estimate = estimate_prior(p, old=0.5)
    >>> print(estimate)
    level 95%, n 2,000, method maximum likelihood, profile-likelihood intervals,
    statistic 389.2004, p value < 0.001, n iter 8, converged yes, gap ..., log
    likelihood 0.0973
    classes     old     new      95% interval
          0  0.5000  0.7898  [0.7639, 0.8146]
          1  0.5000  0.2102  [0.1854, 0.2361]
    >>> estimate.shift().predict_proba(p).mean().round(4)  # the corrected probabilities bear it out
    np.float64(0.2102)
    """
    from scipy.special import gammaincc

    level = check_fraction("level", level)
    max_iter = check_integer("max_iter", max_iter, minimum=1)
    tol = check_number("tol", tol, minimum=0.0, is_open=True, example="1e-10")
    checked = as_probabilities(probabilities, name="probabilities")
    columns = read_columns(probabilities)
    (before,), named = by_class({"old": old}, rates, classes, columns=columns)
    if before.size != max(checked.n_columns, 2):
        raise ShapeError(
            f"probabilities has {checked.n_columns} columns and old {before.size} base rates. Pass one each."
        )
    before = before / before.sum()
    labels = class_labels(named, before.size)
    p = checked.ordered(None if named is None else places_either_way(named, columns)).values
    problem, n, size = _problem(p, before, as_weight(sample_weight, len(p), rows="probabilities"))
    found = maximise(problem, before, tol=tol, max_iter=max_iter)
    if found.gap > tol:
        warn(
            f"the priors' log-likelihood may be {found.gap:.2e} per row below its maximum, more than tol={tol:.0e}, "
            f"after {found.n_iter} iterations. Raise max_iter.",
            ConvergenceWarning,
        )
    low, high = _intervals(problem, found.shares, found.value, size, level)
    gain = max(found.value - problem.value(before), 0.0)
    statistic = 2.0 * size * gain
    return LikelihoodEstimate(
        classes=labels,
        old=before,
        new=found.shares,
        low=low,
        high=high,
        level=level,
        n=n,
        method="maximum likelihood, profile-likelihood intervals",
        statistic=statistic,
        p_value=float(gammaincc(0.5 * (before.size - 1), 0.5 * statistic)),
        n_iter=found.n_iter,
        converged=found.gap <= tol,
        gap=found.gap,
        log_likelihood=gain,
    )


def _problem(p: FloatArray, old: FloatArray, weight: FloatArray | None) -> tuple[Mixture, int, float]:
    """Return the mixture whose shares are the new rates, the number of rows, and their effective number."""
    if weight is not None:
        p, weight = p[weight > 0.0], weight[weight > 0.0]
    columns = np.stack((1.0 - p, p)) if p.ndim == 1 else np.array(p.T, order="C")
    with np.errstate(divide="ignore"):  # on the scale of logarithms no ratio overflows
        np.log(columns, out=columns)
    columns -= np.log(old)[:, None]
    columns -= columns.max(axis=0)
    np.exp(columns, out=columns)
    n = columns.shape[1]
    share = np.ones(n) if weight is None else weight / weight.max()
    return Mixture(columns, share / float(share.sum())), n, kish_size(share)


def _intervals(
    problem: Mixture, shares: FloatArray, value: float, size: float, level: float
) -> tuple[FloatArray, FloatArray]:
    z = normal_quantile(level)
    directions = np.eye(shares.size)[:, 1:] - np.eye(shares.size)[:, :1]  # in which shares keep summing to one
    information = directions.T @ problem.curvature(shares) @ directions
    covariance = directions @ np.linalg.pinv(information) @ directions.T / size
    profiles = [_Profile(problem, shares, value, size, k, covariance[k]) for k in range(shares.size)]
    ends = np.array([[profile.end(side, z) for side in (-1.0, 1.0)] for profile in profiles])
    return ends[:, 0], ends[:, 1]


class _Profile:
    """The likelihood of one share, maximised over the others."""

    def __init__(
        self, problem: Mixture, shares: FloatArray, value: float, size: float, k: int, covariance: FloatArray
    ) -> None:
        self.problem, self.shares, self.value, self.size, self.k = problem, shares, value, size, k
        variance = max(float(covariance[k]), TINY)
        self.best, self.error = float(shares[k]), math.sqrt(min(variance, 1.0))
        self.direction = covariance / variance  # in which all shares move with this one, to first order
        self.others = np.delete(np.eye(shares.size), k, axis=1)

    def start(self, share: float) -> FloatArray:
        """Return where the other shares are about best."""
        moved = np.delete(self.shares + (share - self.best) * self.direction, self.k)
        moved = np.maximum(moved, _LEAST_START / moved.size)
        moved /= moved.sum()
        return moved

    def at(self, share: float) -> tuple[float, float]:
        """Return the root of the deviance at a share, and its derivative there."""
        basis = (1.0 - share) * self.others
        basis[self.k] = share
        v = self.start(share)
        if v.size > 1 and share < 1.0:
            tol = 0.1 * _END_TOL / self.size
            v = maximise(self.problem, v, tol=tol, max_iter=_MAX_END_STEPS, basis=basis, n_em=0).shares
        u = basis @ v
        value = self.problem.value(u)
        root = math.sqrt(max(2.0 * self.size * (self.value - value), 0.0))
        if root == 0.0:
            return root, 0.0
        gradient = self.problem.gradient(u)
        slope = float(gradient[self.k]) - float(v @ np.delete(gradient, self.k))
        return root, -self.size * slope / root

    def end(self, side: float, z: float) -> float:
        """Return the share below (`side` -1) or above (1) the best at which the root of the deviance is `z`."""
        inner, outer = self.best, (0.0 if side < 0.0 else 1.0)
        if inner == outer or self.at(outer)[0] <= z:
            return outer
        share = inner + side * z * self.error
        for _ in range(_MAX_END_STEPS):
            if not min(inner, outer) < share < max(inner, outer):
                share = 0.5 * (inner + outer)
            root, slope = self.at(share)
            if abs(root - z) <= _END_TOL * z or abs(outer - inner) <= 1e-12 * (inner + outer):
                break
            if root < z:
                inner = share
            else:
                outer = share
            share = share - (root - z) / slope if slope * side > 0.0 else outer if root < z else inner
        return share
