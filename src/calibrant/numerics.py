"""Elementary functions and the one place that decides what 0 and 1 mean on the logit scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

TINY = float(np.finfo(np.float64).tiny)
EPS = float(np.finfo(np.float64).eps)
LARGEST = float(np.finfo(np.float64).max)
#: Smallest clip that `clip_from_data` gives: below it 1 - clip is not far from rounding to 1.
SMALLEST_CLIP = 1e-12
#: Largest distance from 1 of a row sum of probabilities: rows stored as float16 come this close.
ROW_SUM_TOLERANCE = 1e-2
_FEW_COLUMNS = 16


def expit(z: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-z)) without overflow."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0, 1.0, e) / (1.0 + e)


def softplus(z: FloatArray) -> FloatArray:
    """Return log(1 + exp(z)) without overflow."""
    return np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))


def logit(p: FloatArray) -> FloatArray:
    """Return log(p / (1 - p)) of probabilities strictly inside (0, 1)."""
    return np.log(p) - np.log1p(-p)


def clip_open(p: FloatArray, clip: float) -> FloatArray:
    """Move probabilities into [clip, 1 - clip], so that their logits are finite."""
    return np.clip(p, clip, 1.0 - clip)


def clip_from_data(p: FloatArray, n: float) -> float:
    """Return the clip that probabilities `p` of `n` rows (their total weight) support.

    Half of the smallest distance to 0 or 1 that the data show without touching either, at most
    1 / (2 n + 2) and at least `SMALLEST_CLIP`. A forest's zero votes so come to lie just outside its smallest
    vote, and not at the logit of a tiny constant, where they would be outliers that bend a logistic fit.
    """
    largest = 1.0 / (2.0 * n + 2.0)
    low, high = float(p.min()), float(p.max())
    if low == 0.0 or high == 1.0:
        inner = p[(p > 0.0) & (p < 1.0)]
        if inner.size == 0:
            return largest
        low, high = float(inner.min()), float(inner.max())
    nearest = min(low, 1.0 - high)
    return min(largest, max(0.5 * nearest, SMALLEST_CLIP))


def least_output(total_weight: float) -> float:
    """Return 1 / (n + 2), how close to 0 and 1 the rate of n rows is taken to lie, where it is no extreme itself."""
    return max(1.0 / (max(total_weight, 1.0) + 2.0), SMALLEST_CLIP)


def dot(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product of two vectors, the same bits on any number of threads.

    BLAS, behind `@`, splits long vectors over threads: its sums then depend on their number, and on a busy machine
    it waits for them.
    """
    return float(np.einsum("i,i->", a, b))


def kish_size(weight: FloatArray) -> float:
    """Return Kish's effective number of rows, (sum w)^2 / sum w^2: that of equal weights which says as much."""
    return float(weight.sum()) ** 2 / dot(weight, weight)


def mean_and_error(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the weighted mean and its standard error, by Kish's effective number of rows."""
    mean = float(np.average(values, weights=weight))
    size = kish_size(weight)
    return mean, float(np.sqrt(np.average((values - mean) ** 2, weights=weight) / max(size - 1.0, 1.0)))


def row_sum(values: FloatArray) -> FloatArray:
    """Return the sum of each row, shape (n,): column by column where columns are few, which is 5 times faster."""
    if values.shape[1] > _FEW_COLUMNS:
        total: FloatArray = values.sum(axis=1)
        return total
    total = values[:, 0].copy()
    for k in range(1, values.shape[1]):
        total += values[:, k]
    return total


def row_max(values: FloatArray) -> FloatArray:
    """Return the largest value of each row, shape (n,)."""
    if values.shape[1] > _FEW_COLUMNS:
        largest: FloatArray = values.max(axis=1)
        return largest
    largest = values[:, 0].copy()
    for k in range(1, values.shape[1]):
        np.maximum(largest, values[:, k], out=largest)
    return largest


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


def normalise_rows(p: FloatArray) -> FloatArray:
    """Divide each row of non-negative `p`, shape (n, K), by its sum; a row of zeros becomes uniform."""
    total = row_sum(p)[:, None]
    out = np.full_like(p, 1.0 / p.shape[1])
    np.divide(p, total, out=out, where=total > 0.0)
    return out


def project_simplex(v: FloatArray) -> FloatArray:
    """Return the nearest vector to `v` with no negative entry and sum one.

    References
    ----------
    Held, Wolfe and Crowder (1974), *Validation of subgradient optimization*, Mathematical Programming 6.
    """
    falling = np.sort(v)[::-1]
    excess = np.cumsum(falling) - 1.0
    rank = np.arange(1, v.size + 1)
    kept = np.flatnonzero(falling * rank > excess)[-1]
    projected: FloatArray = np.maximum(v - excess[kept] / rank[kept], 0.0)
    return projected


def minimise_on_simplex(
    gradient: Callable[[FloatArray], FloatArray], start: FloatArray, *, step: float, tol: float, max_iter: int
) -> FloatArray:
    """Return the vector with no negative entry and sum one that minimises a smooth convex function.

    Accelerated projected gradient: each step goes down the gradient from a point ahead of the last two, and back to
    the simplex. It stops where no entry moves by `tol` any more, or after `max_iter` steps. `step` is at most one over
    the largest curvature.

    References
    ----------
    Beck and Teboulle (2009), *A fast iterative shrinkage-thresholding algorithm for linear inverse problems*, SIAM
    Journal on Imaging Sciences 2, section 4.
    """
    found, ahead, momentum = start, start, 1.0
    for _ in range(max_iter):
        moved = project_simplex(ahead - step * gradient(ahead))
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        change = moved - found
        ahead = moved + (momentum - 1.0) / following * change
        found, momentum = moved, following
        if float(np.abs(change).max()) < tol:
            break
    return found


def normal_quantile(level: float) -> float:
    """Return z such that a standard normal lies within [-z, z] with probability `level`."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + 0.5 * level)
