"""Penalised logistic regression on rising piecewise linear functions: an interior-point method on banded systems.

What is minimised: sum_i (weight_i softplus(f_i) - target_i f_i) + penalty / 2 sum_j (s_{j+1} - s_j)^2 over values at
the knots that don't fall; f_i is the value at row i, linear between knots, and s_j the slope between two knots.
Steps: each rise between neighbouring knots has a multiplier; one Newton step solves the optimality conditions with the
products rise x multiplier set to a small goal: a tenth of what they are, and less after steps that were not cut. Every
row touches two neighbouring knots and every penalty three, so the system has two bands beside the diagonal and LAPACK
solves it in linear time. Steps are cut where a rise or a multiplier would reach zero. It stops where the sum of these
products and the largest gradient are below the tolerance, or where rounding keeps them from falling.

Curves of several penalties, and of several problems such as the classes of one-vs-rest, take their steps together, in
arrays with a line for each. NumPy needs a fiftieth of the time for that in which a compiler for loops would be
imported. Lines of problems with fewer rows or knots end in rows without weight and in knots that stay at zero.

Source: Wright (1997), Primal-dual interior-point methods, chapter 1, for a strictly convex smooth loss.
"""

from __future__ import annotations

from collections.abc import Sequence
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
#: Entries, curves by rows, that problems are taken together up to: more, up to 2^19, saved no time and take memory.
_MOST_TOGETHER = 1 << 15


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


class CurveProblem(NamedTuple):
    """What curves are fitted to: n rows in rising order, k >= 3 knots, m penalties.

    The weights, shape (n,), sum to one, and `target` holds weights times targets; `gap`, shape (k - 1,), are the
    distances of the knots, `penalty` has shape (m,), and `start`, shape (k,), is a strictly rising curve.
    """

    place: Place
    weight: FloatArray
    target: FloatArray
    gap: FloatArray
    penalty: FloatArray
    start: FloatArray


class RisingCurves(NamedTuple):
    """Fits, a line for each penalty: values at the knots, two bands of inverses, duality measures, iterations.

    The bands, shape (m, 2, k), are the diagonal and the next one of the inverse of the last system's matrix, in which a
    rise that is held at zero is stiff.
    """

    values: FloatArray
    inverse: FloatArray
    measure: FloatArray
    n_iter: IntArray


def fit_rising_curves(problems: Sequence[CurveProblem]) -> list[RisingCurves]:
    """Fit the values at the knots of each problem, for each of its penalties."""
    found: list[RisingCurves] = []
    while len(found) < len(problems):
        rest = problems[len(found) :]
        entries = np.cumsum([each.penalty.size * each.weight.size for each in rest])
        found += _fit_together(rest[: max(1, int(np.searchsorted(entries, _MOST_TOGETHER, side="right")))])
    return found


def _fit_together(problems: Sequence[CurveProblem]) -> list[RisingCurves]:
    """Fit all curves of some problems in one array, each curve until it is done."""
    k = max(each.start.size for each in problems)
    loss, steps = _Loss(problems, k), _Steps(problems, k)
    m = steps.penalty.size
    values, factors, measures, n_iters = np.empty((m, k)), np.empty((m, k, 3)), np.empty(m), np.empty(m, np.int64)
    index = np.arange(m)
    for n_iter in range(1, _MAX_ITER + 1):
        is_done, measure = steps.prepare(loss)
        if n_iter == _MAX_ITER:
            is_done[:] = True
        if is_done.any():
            done = index[is_done]
            values[done], factors[done] = steps.curve[is_done], steps.factors[is_done]
            measures[done], n_iters[done] = measure[is_done], n_iter
            if is_done.all():
                break
            index = index[~is_done]
            steps.keep(~is_done)
            loss.keep(~is_done)
        steps.take()
    inverse = _inverse_bands(factors)
    of = np.cumsum([0, *(each.penalty.size for each in problems)]).tolist()
    return [
        RisingCurves(values[a:b, :knots], inverse[a:b, :, :knots], measures[a:b], n_iters[a:b])
        for a, b, knots in zip(of, of[1:], (each.start.size for each in problems), strict=False)
    ]


class _Lines:
    """Arrays with a line for each curve that is not done, or with a single line that is the same for all curves."""

    def keep(self, kept: BoolArray) -> None:
        """Go on with some of the curves."""
        for name, value in vars(self).items():
            if len(value) > 1:
                setattr(self, name, value[kept])


class _Loss(_Lines):
    """What is minimised but for the penalty's factor, with its derivatives, at curves of k knots.

    Each line of rows ends in at least one row without weight, so that sums over no rows have a row to begin at.
    """

    def __init__(self, problems: Sequence[CurveProblem], k: int) -> None:
        n_problems, n = len(problems), 1 + max(each.weight.size for each in problems)
        self.weight, self.target, self.share = np.zeros((3, n_problems, n))
        self.left, self.first = np.empty((n_problems, n), np.int64), np.empty((n_problems, k), np.int64)
        self.steepness, self.bend_bands = np.zeros((n_problems, k - 1)), np.zeros((n_problems, k, 3))
        self.bend = np.zeros((n_problems, 3, k - 2))  # of three neighbours, in the change of slope at the middle one
        for line, each in enumerate(problems):
            rows, knots = slice(each.weight.size), each.start.size
            self.weight[line, rows], self.target[line, rows] = each.weight, each.target
            self.share[line, rows] = each.place.share
            self.left[line], self.left[line, rows] = knots - 2, each.place.left
            self.first[line] = np.searchsorted(each.place.left, np.arange(k))  # the row right of each knot
            steepness = self.steepness[line, : knots - 1] = 1.0 / each.gap
            before, after = steepness[:-1], steepness[1:]
            bend = self.bend[line, :, : knots - 2] = before, -(before + after), after
            for i in range(3):
                for j in range(i, 3):
                    self.bend_bands[line, i : i + knots - 2, j - i] += bend[i] * bend[j]
            self.bend_bands[line, knots:, 0] = 1.0  # so that these knots stay where they are
        self.has_rows = np.diff(self.first, append=n) > 0
        if n_problems > 1:
            sizes = [each.penalty.size for each in problems]
            for name, value in vars(self).items():
                setattr(self, name, value.repeat(sizes, axis=0))

    def derivatives(self, curve: FloatArray, rise: FloatArray, penalty: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradients, shape (m, k), and lower bands of Hessians, (m, k, 3), at curves with these rises."""
        (m, k), n = curve.shape, self.share.shape[1]
        line = np.arange(m)[:, None]
        left, first = self.left + k * line, (self.first + n * line).ravel()

        def sums(rows: FloatArray) -> FloatArray:
            """Return the sums of rows right of each knot."""
            return np.asarray(np.add.reduceat(rows.ravel(), first).reshape(m, k) * self.has_rows)

        q = curve.take(left)  # all else in place: new arrays of this size cost more than what is done with them
        left += 1
        v = curve.take(left)
        v -= q
        v *= self.share
        q += v
        np.negative(q, out=q)
        with np.errstate(over="ignore"):
            np.exp(q, out=q)
        q += 1.0
        np.reciprocal(q, out=q)
        np.subtract(1.0, q, out=v)
        v *= q
        v *= self.weight
        q *= self.weight
        q -= self.target
        gradient, curvature = sums(q), sums(v)
        q *= self.share
        v *= self.share
        on_right, mixed = sums(q), sums(v)
        v *= self.share
        squared = sums(v)
        gradient -= on_right
        gradient[:, 1:] += on_right[:, :-1]
        change = penalty[:, None] * np.diff(rise * self.steepness)
        for j in range(3):
            gradient[:, j : j + k - 2] += self.bend[:, j] * change
        bands = penalty[:, None, None] * self.bend_bands
        bands[..., 0] += curvature - 2.0 * mixed + squared
        bands[..., 1] += mixed - squared
        bands[:, 1:, 0] += squared[:, :-1]
        return gradient, bands


class _Steps(_Lines):
    """Curves on their way, with the multipliers of their rises."""

    def __init__(self, problems: Sequence[CurveProblem], k: int) -> None:
        self.curve, (self.multiplier, self.is_rise) = np.zeros((len(problems), k)), np.zeros((2, len(problems), k - 1))
        self.rise = np.ones((len(problems), k - 1))
        for line, each in enumerate(problems):
            k_own = each.start.size
            self.curve[line, :k_own], self.rise[line, : k_own - 1] = each.start, np.diff(each.start)
            self.multiplier[line, : k_own - 1], self.is_rise[line, : k_own - 1] = _FIRST_MULTIPLIER / k_own, 1.0
        sizes = [each.penalty.size for each in problems]
        for name, value in vars(self).items():
            setattr(self, name, value.repeat(sizes, axis=0))
        self.penalty = np.concatenate([each.penalty for each in problems])
        self.before, self.centring = np.full(self.penalty.size, np.inf), np.full(self.penalty.size, _CENTRING)

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
        goal = self.centring * np.maximum(products, _TOL) / self.is_rise.sum(axis=1)
        self.stiffness, self.push = multiplier / rise, goal[:, None] * self.is_rise / rise
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

    def take(self) -> None:
        """Take the steps."""
        rise, multiplier = self.rise, self.multiplier
        step = -_solved(self.factors.reshape(-1, 3), self.gradient.ravel()).reshape(self.curve.shape)
        rising = np.diff(step) * self.is_rise
        move = self.push - multiplier - self.stiffness * rising
        reach = np.maximum(_REACH, 0.5 * np.abs(self.curve).max(axis=1))
        length = np.minimum(reach / np.maximum(np.abs(step).max(axis=1), reach), _farthest(rise, rising))
        dual_length = np.minimum(1.0, _farthest(multiplier + (1.0 - self.is_rise), move))
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


def _inverse_bands(factors: FloatArray) -> FloatArray:
    """Return the diagonal and the next band, shape (m, 2, k), of the inverses of matrices with these Cholesky factors.

    From the last column to the first: with l the two entries below the diagonal d of a factor's column, in units of d,
    and Z the block of the inverse right below, the column of the inverse is -Z l below its diagonal 1 / d^2 + l' Z l
    (Takahashi, Fagan and Chen 1973).
    """
    m, k = factors.shape[:2]
    inverse = np.zeros((k + 1, 2, m))
    diagonal = np.ascontiguousarray(factors[..., 0].T)
    below = np.ascontiguousarray(factors[..., 1:].transpose(1, 2, 0)) / diagonal[:, None]
    pivot = 1.0 / (diagonal * diagonal)
    block = np.zeros((2, 2, m))
    for j in range(k - 1, -1, -1):
        column = np.add.reduce(block * below[j], axis=1)
        block[1, 1] = block[0, 0]
        block[0, 1] = block[1, 0] = inverse[j, 1] = -column[0]
        block[0, 0] = inverse[j, 0] = pivot[j] + np.add.reduce(column * below[j], axis=0)
    return np.asarray(inverse[:k].transpose(2, 1, 0))
