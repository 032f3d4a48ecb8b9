"""Penalised logistic regression on rising piecewise linear functions: an interior-point method on banded systems.

What is minimised: sum_i (weight_i softplus(f_i) - target_i f_i) + penalty / 2 sum_j (s_{j+1} - s_j)^2 over values at
the knots that don't fall; f_i is the value at row i, linear between knots, and s_j the slope between two knots.
Steps: each rise between neighbouring knots has a multiplier; one Newton step solves the optimality conditions with the
products rise x multiplier set to a small goal: a tenth of what they are, and less after steps that were not cut. Every
row touches two neighbouring knots and every penalty three, so the system has two bands beside the diagonal and LAPACK
solves it in linear time. Steps are cut where a rise or a multiplier would reach zero. It stops where the sum of these
products and the largest gradient are below the tolerance, or where rounding keeps them from falling.

Curves of several penalties take their steps together, in arrays with a line for each. NumPy needs a fiftieth of the
time for that in which a compiler for loops would be imported.

Source: Wright (1997), Primal-dual interior-point methods, chapter 1, for a strictly convex smooth loss.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calibrant.numerics import BoolArray, FloatArray, IntArray

#: Sum of the products of rises and multipliers, and largest gradient, at which it stops, per unit of weight.
_TOL = 1e-10
_MAX_ITER = 200
#: A multiplier at the start, times the number of knots.
_FIRST_MULTIPLIER = 1e-2
#: The goal of the products, as a share of what they are: after a step that was cut short, and after one that was not.
_CENTRING, _CENTRING_AFTER_FULL = 0.1, 0.01
#: Length of a step that counts as not cut short; share of the way to zero that a rise or multiplier goes at most.
_FULL, _SHARE_OF_WAY = 0.9, 0.99
#: Logits that a value moves by at most, or half of its size: the loss is far from a parabola there.
_REACH = 4.0
#: Share of its diagonal that is added to a system which rounding has made indefinite, and by what it grows until it is
#: none.
_FIRST_LIFT, _LIFT_GROWTH = 1e-16, 10.0


class Place(NamedTuple):
    """Where each of some rising scores lies among the knots: right of knot `left` by `share` of the gap."""

    left: IntArray
    share: FloatArray

    @classmethod
    def of(cls, u: FloatArray, knots: FloatArray) -> Place:
        """Return the places of rising scores among rising knots, those beyond the outer ones in the outer gaps."""
        left = np.clip(np.searchsorted(knots, u, side="right") - 1, 0, knots.size - 2)
        share = (u - knots[left]) / (knots[left + 1] - knots[left])
        return cls(left, np.clip(share, 0.0, 1.0))

    def read(self, curve: FloatArray) -> FloatArray:
        """Return the value of a curve, or of several, shape (m, k), at each score."""
        before, after = (curve.take(at, axis=-1) for at in (self.left, self.left + 1))
        return np.asarray((1.0 - self.share) * before + self.share * after)

    def leverage(self, inverse: FloatArray) -> FloatArray:
        """Return by how much one unit of gradient at each score moves the curve there, from the inverse's bands."""
        t, s = self.share, 1.0 - self.share
        own = s * s * inverse[..., 0, self.left] + 2.0 * s * t * inverse[..., 1, self.left]
        return np.asarray(own + t * t * inverse[..., 0, self.left + 1])


class RisingCurves(NamedTuple):
    """Fits, a line for each penalty: values at the knots, two bands of inverses, duality measures, iterations.

    The bands, shape (m, 2, k), are the diagonal and the next one of the inverse of the last system's matrix, in which a
    rise that is held at zero is stiff.
    """

    values: FloatArray
    inverse: FloatArray
    measure: FloatArray
    n_iter: IntArray


def fit_rising_curves(
    place: Place, weight: FloatArray, target: FloatArray, gap: FloatArray, penalty: FloatArray, start: FloatArray
) -> RisingCurves:
    """Fit the values at three knots or more, for each of m penalties.

    Parameters
    ----------
    place : Place
        Where the n rows lie, in rising order.
    weight, target : ndarray of shape (n,)
        Weights, which sum to one, and weights times targets.
    gap : ndarray of shape (k - 1,)
        Distances of the knots.
    penalty : ndarray of shape (m,)
    start : ndarray of shape (k,)
        A strictly rising curve, the start of each.
    """
    m, k = penalty.size, start.size
    made = RisingCurves(np.empty((m, k)), np.zeros((m, 2, k)), np.empty(m), np.empty(m, np.int64))
    loss = _Loss(place, weight, target, gap)
    steps = _Steps(penalty, start)
    index = np.arange(m)
    for n_iter in range(1, _MAX_ITER + 1):
        is_done, measure = steps.prepare(loss)
        if n_iter == _MAX_ITER:
            is_done[:] = True
        if is_done.any():
            for j in np.flatnonzero(is_done).tolist():
                steps.write_inverse(j, made.inverse[index[j]])
            ended = index[is_done]
            made.values[ended], made.measure[ended], made.n_iter[ended] = steps.curve[is_done], measure[is_done], n_iter
            if is_done.all():
                break
            index = index[~is_done]
            steps.keep(~is_done)
        steps.take()
    return made


class _Loss:
    """What is minimised but for the penalty's factor, with its derivatives."""

    def __init__(self, place: Place, weight: FloatArray, target: FloatArray, gap: FloatArray) -> None:
        self.place, self.weight, self.target = place, weight, target
        t, s = place.share, 1.0 - place.share
        self.shares, self.squares = (s, t), (s * s, t * t, s * t)
        self.first = np.flatnonzero(np.diff(place.left, prepend=-1))  # row right of each knot that has one
        self.knots = place.left[self.first]
        self.steepness = 1.0 / gap
        before, after = self.steepness[:-1], self.steepness[1:]
        self.bend = before, -(before + after), after  # of three neighbours, in the change of slope at the middle one
        self.bend_bands = np.zeros((gap.size + 1, 3))
        for j in range(3):
            for k in range(j, 3):
                self.bend_bands[j : j + before.size, k - j] += self.bend[j] * self.bend[k]

    def derivatives(self, curve: FloatArray, rise: FloatArray, penalty: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradients, shape (m, k), and lower bands of Hessians, (m, k, 3), at curves with these rises."""
        f = self.place.read(curve)
        e = np.exp(-np.abs(f))
        larger = 1.0 / (1.0 + e)
        smaller = e * larger
        r = self.weight * np.where(f >= 0.0, larger, smaller) - self.target
        v = self.weight * (larger * smaller)
        gradient, bands = np.zeros(curve.shape), penalty[:, None, None] * self.bend_bands
        at, after = self.knots, self.knots + 1
        for knots, share, square in zip((at, after), self.shares, self.squares[:2], strict=True):
            gradient[:, knots] += self._sums(share * r)
            bands[:, knots, 0] += self._sums(square * v)
        bands[:, at, 1] += self._sums(self.squares[2] * v)
        change = penalty[:, None] * np.diff(rise * self.steepness)
        for j, part in enumerate(self.bend):
            gradient[:, j : j + change.shape[1]] += part * change
        return gradient, bands

    def _sums(self, rows: FloatArray) -> FloatArray:
        """Return the sums of lines of rows right of each knot that has some."""
        return np.asarray(np.add.reduceat(rows, self.first, axis=1))


class _Steps:
    """Curves on their way, a line for each, with the multipliers of their rises."""

    def __init__(self, penalty: FloatArray, start: FloatArray) -> None:
        m, k = penalty.size, start.size
        self.penalty = penalty
        self.curve, self.rise = np.tile(start, (m, 1)), np.tile(np.diff(start), (m, 1))
        self.multiplier = np.full((m, k - 1), _FIRST_MULTIPLIER / k)
        self.before, self.centring = np.full(m, np.inf), np.full(m, _CENTRING)

    def prepare(self, loss: _Loss) -> tuple[BoolArray, FloatArray]:
        """Set up the systems of the next steps; return which curves are done, and their duality measures."""
        rise, multiplier = self.rise, self.multiplier
        gradient, bands = loss.derivatives(self.curve, rise, self.penalty)
        products = np.einsum("ij,ij->i", rise, multiplier)
        dual = gradient.copy()
        dual[:, 1:] -= multiplier
        dual[:, :-1] += multiplier
        measure = np.maximum(products, np.abs(dual).max(axis=1))
        # where it stops falling near the tolerance, rounding is what is left
        is_done = (measure <= _TOL) | ((measure <= 1e2 * _TOL) & (measure > 0.5 * self.before))
        self.before = measure
        goal = self.centring * np.maximum(products, _TOL) / rise.shape[1]
        self.stiffness, self.push = multiplier / rise, goal[:, None] / rise
        bands[:, :-1, 0] += self.stiffness
        bands[:, 1:, 0] += self.stiffness
        bands[:, :-1, 1] -= self.stiffness
        gradient[:, :-1] += self.push
        gradient[:, 1:] -= self.push
        is_lost = ~np.isfinite(bands[..., 0]).all(axis=1)
        if is_lost.any():  # its numbers would spread to others, which LAPACK solves with it
            bands[is_lost] = (1.0, 0.0, 0.0)
            is_done, measure = is_done | is_lost, np.where(is_lost, np.nan, measure)
        self.gradient, self.factors = gradient, _factored(bands)
        return is_done, measure

    def keep(self, kept: BoolArray) -> None:
        """Go on with some of the curves."""
        for name, value in vars(self).items():
            setattr(self, name, value[kept])

    def write_inverse(self, j: int, out: FloatArray) -> None:
        """Write the diagonal and the next band of the inverse of a curve's system."""
        whole = _solved(self.factors[j], np.eye(self.curve.shape[1]))
        out[0], out[1, :-1] = np.diagonal(whole), np.diagonal(whole, -1)

    def take(self) -> None:
        """Take the steps."""
        rise, multiplier = self.rise, self.multiplier
        step = -_solved(self.factors.reshape(-1, 3), self.gradient.ravel()).reshape(self.curve.shape)
        rising = np.diff(step)
        move = self.push - multiplier - self.stiffness * rising
        reach = np.maximum(_REACH, 0.5 * np.maximum(-self.curve[:, 0], self.curve[:, -1]))
        length = np.minimum(reach / np.maximum(np.abs(step).max(axis=1), reach), _farthest(rise, rising))
        dual_length = np.minimum(1.0, _farthest(multiplier, move))
        self.centring = np.where(np.minimum(length, dual_length) < _FULL, _CENTRING, _CENTRING_AFTER_FULL)
        self.multiplier += dual_length[:, None] * move
        self.rise += length[:, None] * rising
        self.curve += length[:, None] * step


def _farthest(positive: FloatArray, move: FloatArray) -> FloatArray:
    """Return how much of each line's move keeps its positive numbers positive, with some room."""
    fastest = (move / positive).min(axis=1)
    return np.asarray(np.divide(-_SHARE_OF_WAY, fastest, out=np.full(fastest.size, np.inf), where=fastest < 0.0))


def _factored(bands: FloatArray) -> FloatArray:
    """Return Cholesky factors of matrices that are positive definite but for rounding, from lower bands (m, k, 3)."""
    from scipy.linalg import lapack

    lift = np.zeros(bands.shape[0])
    while True:
        lifted = bands.copy()  # one matrix for LAPACK: blocks that don't touch
        lifted[..., 0] *= 1.0 + lift[:, None]
        factors, failed_at = lapack.dpbtrf(lifted.reshape(-1, 3).T, lower=1, overwrite_ab=1)
        if failed_at == 0:
            return np.asarray(factors.T.reshape(bands.shape))
        j = (failed_at - 1) // bands.shape[1]
        lift[j] = max(_LIFT_GROWTH * lift[j], _FIRST_LIFT)


def _solved(factors: FloatArray, b: FloatArray) -> FloatArray:
    """Return the solution x of A x = b, of the Cholesky factor's bands of A, shape (k, 3)."""
    from scipy.linalg import lapack

    return np.asarray(lapack.dpbtrs(factors.T, b, lower=1)[0])
