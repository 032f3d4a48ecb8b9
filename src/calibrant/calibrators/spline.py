"""Calibration by a rising smoothing spline on the logit."""

from __future__ import annotations

import warnings
from typing import ClassVar, NamedTuple

import numpy as np

from calibrant import kernels
from calibrant.calibrators.base import BinaryCalibrator, named
from calibrant.errors import ConvergenceWarning
from calibrant.logistic import base_logit, fit_slope_intercept, on_logits, platt_targets
from calibrant.maps import BinaryMap, LogitInterpolatedMap
from calibrant.numerics import TINY, FloatArray, IntArray, dot, expit, softplus
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary, TiedScores
from calibrant.validation import InputKind, check_integer

#: Penalties on the squared change of slope at a knot, scores in units of their standard deviation.
_PENALTIES = np.logspace(4.0, -1.0, 11)
#: TiedScores that more distinct scores are gathered into.
_MAX_GROUPS = 1 << 11
#: Smallest distance of knots in standard deviations of the scores: closer ones spoil the system's condition.
_LEAST_GAP = 0.01
#: Smallest standard deviation of scores between -1 and 1 that is taken for their unit.
_LEAST_SPREAD = 1e-3
#: Penalties per unit of weight beyond which a curve is all data, or all straight, to the last digits that matter.
_LEAST_SHARE, _LARGEST_SHARE = 1e-8, 1e6
_TOL = 1e-10
#: Duality measure per unit of weight that the rounding of the stiffest systems may leave.
_ACCEPTED = 1e-6
_MAX_ITER = 200
#: The start is Platt's line, made to rise by this much per standard deviation and to end within these logits.
_LEAST_START, _FARTHEST_START = 0.2, 8.0
#: Least share of a row's own pull that the others are taken to oppose.
_LEAST_REST = 1e-3
#: What its inverse, times the square of a number near one, leaves finite.
_LEAST_CURVATURE = TINY**0.5


@named
class SplineCalibrator(BinaryCalibrator):
    """A smooth rising curve: logit(q) = f(z) of the logit or score z, as straight as cross-validation finds best.

    Parameters
    ----------
    n_knots : int
        Number of knots asked for; few or tied scores leave fewer. Smoothness comes from the penalty, not from few
        knots.
    input : {"probability", "logit", "score"}
        What the scores are. Probabilities enter as their logits, with 0 and 1 moved inward by a clip that the data
        set (`calibrant.numerics.clip_from_data`).

    Notes
    -----
    f is linear between knots, which lie half by the scores' ranks and half by their range, and goes on straight
    beyond the outer ones. For each of 11 penalties, f minimises the logistic loss to Platt's targets plus penalty
    times the sum of squared changes of slope, among the curves that don't fall. The twelfth curve is the best
    straight line, which is Platt scaling: what an infinite penalty gives.

    Each curve's leave-one-out log loss is estimated without refitting, by one Newton step from the fit to all rows
    (the approximation behind generalised approximate cross-validation). f is the mean of the curves, weighted by
    exp(-excess of the leave-one-out log loss of all rows): pseudo-Bayesian model averaging. On the 18 binary score
    sets of the benchmarks the mean has a lower held-out log loss than the single best curve has, most of all at 100
    and 300 rows.

    More than 2,048 distinct scores are first gathered into as many groups. Rows that are few or separable are
    safe: the targets keep f finite. Constant scores give the base rate.

    References
    ----------
    O'Sullivan, Yandell and Raynor (1986), *Automatic smoothing of regression functions in generalized linear
    models*, JASA 81, and Xiang and Wahba (1996), *A generalized approximate cross validation for smoothing splines
    with non-Gaussian data*, Statistica Sinica 6, for the leave-one-out loss. Yao, Vehtari, Simpson and Gelman (2018),
    *Using stacking to average Bayesian predictive distributions*, Bayesian Analysis 13, section 3.4, for the weights.
    Lucena (2018), *Spline-based probability calibration*, arXiv:1809.07751, for splines without the constraint.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> p = np.linspace(0.01, 0.99, 200)
    >>> y = np.random.default_rng(0).random(200) < p**2
    >>> cb.SplineCalibrator().fit(p, y).predict_proba([0.2, 0.5, 0.8]).round(2)
    array([0.08, 0.25, 0.53])
    """

    name: ClassVar[str] = "spline"

    def __init__(self, *, n_knots: int = 64, input: InputKind = "probability") -> None:
        self.n_knots = n_knots
        self.input = input

    def check_params(self) -> None:
        """Raise if a constructor argument can't be used."""
        super().check_params()
        check_integer("n_knots", self.n_knots, minimum=2)

    def map_kinds(self, input: InputKind) -> tuple[type[BinaryMap], ...]:  # noqa: ARG002
        """Return the kinds of map that a fit to scores of kind `input` can give."""
        return (LogitInterpolatedMap,)

    def fit_map(self, data: Rows | ScoreSummary) -> BinaryMap:
        """Fit the curve to checked rows or their summary."""
        groups, clip = on_logits(data.summary().tied(), self.input)
        low, high = float(groups.scores[0]), float(groups.scores[-1])
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        if half == 0.0:
            return LogitInterpolatedMap(groups.scores[:1].copy(), np.array([base_logit(groups)]), clip)
        groups = gather(TiedScores((groups.scores - middle) / half, groups.weight, groups.positives), _MAX_GROUPS)
        mean, spread = _moments(groups)
        groups = TiedScores((groups.scores - mean) / spread, groups.weight, groups.positives)
        with np.errstate(over="ignore"):  # beyond the largest number; clipped to the scores' range
            places = middle + half * (mean + spread * _place_knots(groups, self.n_knots))
        x = np.unique(np.clip(places, low, high))
        path = fit_path(groups, ((x - middle) / half - mean) / spread)
        weights = np.exp(path.loss.min() - path.loss)
        y = np.einsum("i,ij->j", weights / weights.sum(), path.curves)
        return LogitInterpolatedMap(x, np.maximum.accumulate(y), clip)


class SplinePath(NamedTuple):
    """The candidate curves, from the straight line to the least penalty: values at the knots, leave-one-out loss."""

    curves: FloatArray
    loss: FloatArray


def fit_path(groups: TiedScores, knots: FloatArray) -> SplinePath:
    """Fit the straight line and a curve for each penalty, and estimate the leave-one-out log loss of each.

    Parameters
    ----------
    groups : TiedScores
        In rising order of their scores, which have mean 0 and standard deviation 1.
    knots : ndarray of shape (k,)
        From the lowest score to the highest.
    """
    u, w = groups.scores, groups.weight
    target_weight = platt_targets(groups)
    slope, intercept = fit_slope_intercept(groups)
    level = float(np.log(target_weight.sum()) - np.log((w - target_weight).sum()))
    if slope < 0.0:
        slope, intercept = 0.0, level
    line = slope * u + intercept
    curves = [slope * knots + intercept]
    losses = [leave_one_out(groups, line, _line_leverage(line, groups, has_slope=slope > 0.0))]
    if knots.size > 2:
        steepest = _FARTHEST_START / max(-float(knots[0]), float(knots[-1]))
        start = min(max(slope, _LEAST_START), steepest) * knots + level
        place = _Place.of(u, knots)
        for penalty in _PENALTIES:
            curve, inverse = _fit_curve(place, groups, target_weight, knots, start, float(penalty))
            curves.append(curve)
            losses.append(leave_one_out(groups, place.read(curve), place.leverage(inverse)))
    return SplinePath(np.vstack(curves), np.array(losses))


def gather(groups: TiedScores, n_groups: int) -> TiedScores:
    """Return at most `n_groups` groups at their mean scores, of more groups in rising order.

    Cells are even in the mean of rank and range, so that the tails, where a curve bends on few rows, stay fine.
    """
    if groups.scores.size <= n_groups:
        return groups
    cell = np.minimum((n_groups * _evenly(groups)).astype(np.int64), n_groups - 1)
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    weight = np.add.reduceat(groups.weight, first)
    scores = np.add.reduceat(groups.weight * groups.scores, first) / weight
    return TiedScores(np.maximum.accumulate(scores), weight, np.add.reduceat(groups.positives, first))


def _evenly(groups: TiedScores) -> FloatArray:
    """Return the mean of rank and place in the range, from 0 to 1, of each score."""
    u, w = groups.scores, groups.weight
    rank = np.cumsum(w) - 0.5 * w
    mean: FloatArray = 0.5 * (rank - rank[0]) / (rank[-1] - rank[0]) + 0.5 * (u - u[0]) / (u[-1] - u[0])
    return mean


class _Place(NamedTuple):
    """Where each group lies among the knots: right of knot `left` by `share` of the gap."""

    left: IntArray
    share: FloatArray

    @classmethod
    def of(cls, u: FloatArray, knots: FloatArray) -> _Place:
        left = np.clip(np.searchsorted(knots, u, side="right") - 1, 0, knots.size - 2)
        share = (u - knots[left]) / (knots[left + 1] - knots[left])
        return cls(left, np.clip(share, 0.0, 1.0))

    def read(self, curve: FloatArray) -> FloatArray:
        """Return the curve's value at each group."""
        values: FloatArray = (1.0 - self.share) * curve[self.left] + self.share * curve[self.left + 1]
        return values

    def leverage(self, inverse: FloatArray) -> FloatArray:
        """Return what one unit of gradient at each group moves the curve there, by the inverse's bands."""
        t, s = self.share, 1.0 - self.share
        moved: FloatArray = (
            s * s * inverse[0, self.left] + 2.0 * s * t * inverse[1, self.left] + t * t * inverse[0, self.left + 1]
        )
        return moved


def _moments(groups: TiedScores) -> tuple[float, float]:
    """Return mean and standard deviation of scores between -1 and 1; outliers don't make the latter tiny."""
    total = float(groups.weight.sum())
    mean = dot(groups.weight, groups.scores) / total
    deviation = groups.scores - mean
    return mean, max(float(np.sqrt(dot(groups.weight, deviation * deviation) / total)), _LEAST_SPREAD)


def _place_knots(groups: TiedScores, n_knots: int) -> FloatArray:
    """Return knots from the lowest score to the highest, even in the mean of rank and range but for those too close."""
    u = groups.scores
    knots = [float(u[0])]
    for knot in np.interp(np.linspace(0.0, 1.0, n_knots)[1:-1], _evenly(groups), u).tolist():
        if knot - knots[-1] >= _LEAST_GAP and u[-1] - knot >= _LEAST_GAP:
            knots.append(knot)
    return np.array([*knots, float(u[-1])])


def _fit_curve(
    place: _Place, groups: TiedScores, target_weight: FloatArray, knots: FloatArray, start: FloatArray, penalty: float
) -> tuple[FloatArray, FloatArray]:
    """Return the curve of one penalty at the knots, and the bands of the inverse of its system."""
    curve, inverse = start.copy(), np.empty((3, knots.size))
    total = float(groups.weight.sum())
    weight, target = groups.weight / total, target_weight / total
    share = min(max(penalty / total, _LEAST_SHARE), _LARGEST_SHARE)
    measure, n_iter = kernels.fit_rising_curve(
        place.left, place.share, weight, target, np.diff(knots), share, _TOL, _MAX_ITER, curve, inverse
    )
    inverse /= total
    if measure > _ACCEPTED:
        warnings.warn(
            f"spline fit at penalty {penalty:g}: duality measure {measure:.2e} > tol {_ACCEPTED:.0e} after "
            f"{n_iter} iterations",
            ConvergenceWarning,
            stacklevel=6,
        )
    return curve, inverse


def _line_leverage(f: FloatArray, groups: TiedScores, *, has_slope: bool) -> FloatArray:
    q = expit(f)
    v = groups.weight * q * (1.0 - q)
    total = max(float(v.sum()), _LEAST_CURVATURE)
    if not has_slope:
        return np.full(f.size, 1.0 / total)
    deviation = groups.scores - dot(v, groups.scores) / total
    leverage: FloatArray = 1.0 / total + deviation**2 / max(dot(v, deviation**2), _LEAST_CURVATURE)
    return leverage


def leave_one_out(groups: TiedScores, f: FloatArray, leverage: FloatArray) -> float:
    """Return the log loss of all rows, each predicted by one Newton step from the fit to the fit without it.

    A row counts as one unit of weight: it leaves a group of more, and takes all of a group of less.
    """
    w, positives = groups.weight, groups.positives
    n1 = float(positives.sum())
    n0 = float(w.sum()) - n1
    q = expit(f)
    unit = np.minimum(w, 1.0)
    move = unit * leverage / np.maximum(1.0 - unit * leverage * q * (1.0 - q), _LEAST_REST)
    without_positive = f + move * (q - (n1 + 1.0) / (n1 + 2.0))
    without_negative = f + move * (q - 1.0 / (n0 + 2.0))
    return dot(positives, softplus(-without_positive)) + dot(w - positives, softplus(without_negative))
