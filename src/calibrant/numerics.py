"""Elementary functions and the one place that decides what 0 and 1 mean on the logit scale."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import reduce
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

TINY = float(np.finfo(np.float64).tiny)
EPS = float(np.finfo(np.float64).eps)
LARGEST = float(np.finfo(np.float64).max)
#: The smallest positive number.
LEAST = float(np.finfo(np.float64).smallest_subnormal)
#: Least distance to 1 that probabilities keep before logarithms: nearer, 1 - p has lost most of its digits.
SMALLEST_CLIP = 1e-12
#: Numbers of steps from 0 to 1 by which scores may be votes: shares of so many trees, neighbours or raters.
_STEPS = np.arange(1.0, 1_001.0)
#: How far a vote may be from a whole number of steps, as a share of it: votes may be stored as float32.
_VOTE_ROUNDING = float(np.finfo(np.float32).eps)
#: Largest distance from 1 of a row sum of probabilities: rows stored as float16 come this close.
ROW_SUM_TOLERANCE = 1e-2
_FEW_COLUMNS = 16
#: Up to this many values BLAS takes an inner product on one thread.
_SHORT = 1 << 12
#: Below this many values, calling a function of NumPy costs more than its work on them.
FEW_VALUES = 1 << 10


def rows_of_codes(codes: npt.NDArray[np.integer[Any]], stop: int) -> Iterator[tuple[int, IntArray]]:
    """Yield each code from 0 to before `stop` that rows have, and the numbers of these rows, rising."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(stop + 1))
    for code, (low, high) in enumerate(pairwise(bounds.tolist())):
        if high > low:
            yield code, order[low:high]


def expit(z: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-z)) without overflow."""
    e = np.exp(-np.abs(z))
    upper = np.exp(np.minimum(z, 0.0)) if e.size < FEW_VALUES else np.where(z >= 0, 1.0, e)  # the same bits
    return upper / (1.0 + e)


def softplus(z: FloatArray) -> FloatArray:
    """Return log(1 + exp(z)) without overflow."""
    return np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))


def logit(p: FloatArray) -> FloatArray:
    """Return log(p / (1 - p)) of probabilities strictly inside (0, 1)."""
    return np.log(p) - np.log1p(-p)


def open_expit(z: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-z)), the nearest numbers inside (0, 1) where it would round to 0 or 1."""
    return clip_between(expit(z), LEAST, 1.0 - 0.5 * EPS)


def clip_between(values: FloatArray, low: float | FloatArray, high: float | FloatArray) -> FloatArray:
    """Return what `np.clip` returns; for few values by two functions whose calls cost less."""
    return np.minimum(np.maximum(values, low), high) if values.size < FEW_VALUES else np.clip(values, low, high)


def open_ends(clip: float) -> tuple[float, float]:
    """Return the least and the largest probability that `clip` leaves: near 0 every number has a logarithm."""
    return clip, 1.0 - max(clip, SMALLEST_CLIP)


def clip_open(p: FloatArray, clip: float) -> FloatArray:
    """Move probabilities into [clip, 1 - clip], at most 1 - `SMALLEST_CLIP`, so that their logits are finite.

    One probability that lies there comes back as the array that it came in.
    """
    low, high = open_ends(clip)
    if p.shape == (1,) and low <= p.item() <= high:  # one row, as in a server
        return p
    return clip_between(p, low, high)


def clip_from_data(p: FloatArray, n: float) -> float:
    """Return the clip of a fit to the logits of probabilities `p` of `n` rows (their total weight).

    Half a step where the probabilities are votes: whole numbers of one step, of at most 1,000 from 0 to 1. Otherwise
    half of the smallest distance to 0 or 1 that the data show without touching either, where distances to 1 below
    `SMALLEST_CLIP` count as that; 1 / (2 n + 2) where all are 0 or 1. A forest's zero votes so come to lie just outside
    its smallest vote, and not at the logit of a tiny constant, where they would be outliers that bend a logistic fit.
    Low probabilities keep their order down to the smallest positive number.
    """
    return clip_of_ends(p, n, np.flatnonzero(fitting_steps(p)))


def clip_of_ends(p: FloatArray, n: float, fitting: IntArray) -> float:
    """Return the clip of data of which `p` holds the outermost values, and the places in `fitting_steps` are known."""
    inner = p[(p > 0.0) & (p < 1.0)]
    if inner.size == 0:
        return 1.0 / (2.0 * n + 2.0)
    low, high = float(inner.min()), float(inner.max())
    steps = _STEPS[fitting]
    steps = steps[steps * min(low, 1.0 - high) > 0.5]  # with fewer steps the outermost would be votes of 0 or 1
    if steps.size:
        return 0.5 / float(steps[0])
    return max(0.5 * min(low, max(1.0 - high, 2.0 * SMALLEST_CLIP)), LEAST)


def fitting_steps(p: FloatArray) -> BoolArray:
    """Say for 1, 2, ..., 1,000 steps from 0 to 1 whether all probabilities are whole numbers of them, to rounding."""
    p, fits = p.reshape(-1), np.zeros(_STEPS.size, dtype=np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):  # logits may be as large as numbers are
        at = np.flatnonzero(_are_votes(p[:1], _STEPS))
        if at.size:
            at = at[_are_votes(p[:8], _STEPS[at])]
        if at.size and p.size > 8:
            distinct = np.unique(p)
            at = at[[_are_votes(distinct, _STEPS[k : k + 1])[0] for k in at]]  # few are left, or there are few values
    fits[at] = True
    return fits


def _are_votes(p: FloatArray, steps: FloatArray) -> BoolArray:
    votes = np.multiply.outer(p, steps)
    return np.asarray((np.abs(votes - np.rint(votes)) <= _VOTE_ROUNDING * votes).all(axis=0))


def clip_as_given(p: FloatArray, n: float) -> float:
    """Return the clip of probabilities that are taken as they are: `clip_from_data`, and at most 1 / (2 n + 2)."""
    return min(clip_from_data(p, n), 1.0 / (2.0 * n + 2.0))


def own_clip(p: FloatArray, n: float) -> float:
    """Return what zeros count as in probabilities of `n` rows that are left alone: half a vote, where they are votes.

    Of a forest's votes the next may be unanimous, though none of these was. Where some are 0 or 1 it is what the data
    show, by `clip_from_data`, and otherwise too little to change what they do.
    """
    is_certain = not 0.0 < float(p.min()) <= float(p.max()) < 1.0
    if is_certain or fitting_steps(p).any():
        return clip_from_data(p, n)
    return min(clip_as_given(p, n), SMALLEST_CLIP)


def least_output(total_weight: float) -> float:
    """Return 1 / (n + 2): the least rate that n rows allow, by one more row with the event and one without."""
    return max(1.0 / (max(total_weight, 1.0) + 2.0), SMALLEST_CLIP)


def dot(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product of two vectors, the same bits on any number of threads.

    BLAS splits long vectors over threads: its sums depend on their number, and it waits for the slowest. Short ones it
    takes as they are, in half the time; of its functions `np.vdot` alone does not warn where a product overflows.
    """
    return float(np.vdot(a, b) if a.size <= _SHORT else np.einsum("i,i->", a, b))


def kish_size(weight: FloatArray) -> float:
    """Return Kish's effective number of rows, (sum w)^2 / sum w^2: rows of equal weight that say as much."""
    return float(weight.sum()) ** 2 / dot(weight, weight)


def mean_and_error(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the weighted mean and its standard error, by Kish's effective number of rows."""
    mean = float(np.average(values, weights=weight))
    size = kish_size(weight)
    return mean, float(np.sqrt(np.average((values - mean) ** 2, weights=weight) / max(size - 1.0, 1.0)))


def row_sum(values: FloatArray) -> FloatArray:
    """Return the sum of each row, shape (n,): column by column where columns are few, which is 5 times faster."""
    if values.shape[0] == 1 and values.shape[1] <= _FEW_COLUMNS:  # one row, as in a server: the same bits
        return np.array([reduce(operator.add, values[0].tolist())])
    return _by_row(np.add, values)


def row_max(values: FloatArray) -> FloatArray:
    """Return the largest value of each row, shape (n,)."""
    return _by_row(np.maximum, values)


def _by_row(operation: np.ufunc, values: FloatArray) -> FloatArray:
    if values.shape[1] > _FEW_COLUMNS:
        return np.asarray(operation.reduce(values, axis=1))
    if values.size < FEW_VALUES:
        return np.asarray(operation.accumulate(values, axis=1)[:, -1].copy())  # in the same order: the same bits
    out: FloatArray = values[:, 0].copy()
    for k in range(1, values.shape[1]):
        operation(out, values[:, k], out=out)
    return out


def log_softmax(z: FloatArray) -> FloatArray:
    """Return the log-probabilities, shape (n, K), of logits `z`, shape (n, K)."""
    with np.errstate(over="ignore"):  # minus infinity is right: no probability is left
        shifted: FloatArray = z - row_max(z)[:, None]
    shifted -= np.log(row_sum(np.exp(shifted)))[:, None]
    return shifted


def softmax(z: FloatArray) -> FloatArray:
    """Return the probabilities, shape (n, K), of logits `z`, shape (n, K)."""
    with np.errstate(over="ignore"):  # minus infinity is right: no probability is left
        e: FloatArray = np.exp(z - row_max(z)[:, None])
    e /= row_sum(e)[:, None]
    return e


def two_columns(p: FloatArray) -> FloatArray:
    """Return probabilities of one column, of the positive class, as those of both classes; others as they are."""
    return np.column_stack((1.0 - p, p)) if p.ndim == 1 else p


def normalise_rows(p: FloatArray) -> FloatArray:
    """Divide each row of non-negative `p`, shape (n, K), by its sum; a row of zeros becomes uniform."""
    total = row_sum(p)[:, None]
    if total.size == 1 and total.item() > 0.0:
        return p / total
    out = np.empty_like(p)
    out.fill(1.0 / p.shape[1])
    np.divide(p, total, out=out, where=total > 0.0)
    return out


def project_simplex(v: FloatArray) -> FloatArray:
    """Return the nearest vector to `v` with no negative entry and sum one (Held, Wolfe and Crowder 1974)."""
    falling = np.sort(v)[::-1]
    excess = np.cumsum(falling) - 1.0
    rank = np.arange(1, v.size + 1)
    kept = np.flatnonzero(falling * rank > excess)[-1]
    projected: FloatArray = np.maximum(v - excess[kept] / rank[kept], 0.0)
    return projected


def normal_quantile(level: float) -> float:
    """Return z such that a standard normal lies within [-z, z] with probability `level`."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + 0.5 * level)


def root_between(function: Callable[[float], float], first: float, second: float, *, tol: float) -> float:
    """Return a root of a continuous function between two arguments where its signs differ, at most `tol` off.

    A secant first, then inverse quadratic interpolation where it is safe, and bisection elsewhere (Chandrupatla
    1997): what SciPy's `brentq` does, whose import takes longer than all of an evaluation of small data.
    """
    a, b, fa, fb = first, second, function(first), function(second)
    if fa * fb > 0.0:
        raise ValueError(f"the function has one sign at {first!r} and {second!r}")
    share = fa / (fa - fb) if fa != fb else 0.5
    while True:
        best, value = (a, fa) if abs(fa) < abs(fb) else (b, fb)
        least = (0.5 * tol + 2.0 * EPS * abs(best)) / abs(b - a) if a != b else 1.0
        if value == 0.0 or least > 0.5:
            return best
        x = a + min(max(share, least), 1.0 - least) * (b - a)
        fx = function(x)
        if (fx > 0.0) == (fa > 0.0):
            c, fc = a, fa
        else:
            c, fc, b, fb = b, fb, a, fa
        a, fa = x, fx
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        share = 0.5
        if phi * phi < xi and (1.0 - phi) ** 2 < 1.0 - xi:  # the three points lie on one rising inverse parabola
            share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)


def chi_squared_tail(x: float, dof: float) -> float:
    """Return the probability that a chi-squared variable of `dof` degrees of freedom, any number above 0, exceeds x.

    By the power series of the lower incomplete gamma function below its mean, and the continued fraction of the upper
    one above (NIST Digital Library of Mathematical Functions, 8.7.1 and 8.9.2, by Lentz's method): for the few dozen
    degrees of freedom of a test, whose p-value SciPy's functions take longer to import than to compute.
    """
    a, y = 0.5 * dof, 0.5 * x
    if not y > 0.0:
        return 1.0
    front = math.exp(a * math.log(y) - y - math.lgamma(a))
    if front == 0.0:  # further out than the smallest number
        return 0.0 if y > a else 1.0
    if y < a + 1.0:
        term = total = 1.0 / a
        while term > 0.25 * EPS * total:
            a += 1.0
            term *= y / a
            total += term
        return max(1.0 - front * total, 0.0)
    b = y + 1.0 - a
    c, d, k = 1.0 / TINY, 1.0 / b, 0
    found, factor = d, 0.0
    while abs(factor - 1.0) > EPS:
        k += 1
        step, b = k * (a - k), b + 2.0
        d, c = 1.0 / (step * d + b), b + step / c
        factor = c * d
        found *= factor
    return front * found
