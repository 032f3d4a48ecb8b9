"""Weighted logistic regression on one to three columns: Newton with a line search, from groups of rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from calibrant.errors import ConvergenceWarning
from calibrant.numerics import FloatArray, dot, expit, softplus
from calibrant.summary import Groups

_MAX_ITER = 100
#: Newton decrement per unit of weight at which one more full step is the last: convergence is quadratic there.
_TOL = 1e-13
#: Below this decrement the loss differs by its rounding only: full steps are taken without a line search.
_NO_SEARCH = 1e-8
#: Rows per block: what a block's temporaries need stays in cache.
_BLOCK = 1 << 14
#: From this many rows the first steps are taken on every k-th row.
_WARM_START_FROM = 1 << 17


@dataclass(frozen=True, slots=True)
class LogisticProblem:
    """Minimise sum_i w_i (log(1 + exp(z_i)) - t_i z_i) over theta, z = columns @ theta.

    `columns` has shape (d, n); `target_weight` is w_i t_i.
    """

    columns: FloatArray
    weight: FloatArray
    target_weight: FloatArray

    def value(self, theta: FloatArray) -> float:
        """Return the loss at `theta`."""
        total = 0.0
        for block in _blocks(self.weight.size):
            z = _combine(theta, self.columns[:, block])
            total += dot(self.weight[block], softplus(z)) - dot(self.target_weight[block], z)
        return total

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gradient, shape (d,), and Hessian, shape (d, d), at `theta`."""
        d = self.columns.shape[0]
        gradient, hessian = np.zeros(d), np.zeros((d, d))
        for block in _blocks(self.weight.size):
            x, w = self.columns[:, block], self.weight[block]
            q = expit(_combine(theta, x))
            residual = w * q - self.target_weight[block]
            curvature = w * q * (1.0 - q)
            for i in range(d):
                gradient[i] += dot(x[i], residual)
                bent = x[i] * curvature
                for j in range(i + 1):
                    hessian[i, j] += dot(bent, x[j])
        hessian += np.tril(hessian, -1).T
        return gradient, hessian

    def thin(self, step: int) -> LogisticProblem:
        """Return the problem of every `step`-th row."""
        return LogisticProblem(
            np.ascontiguousarray(self.columns[:, ::step]), self.weight[::step], self.target_weight[::step]
        )


def platt_targets(groups: Groups) -> FloatArray:
    """Return the target weight of each group under Platt's targets (n1 + 1)/(n1 + 2) and 1/(n0 + 2).

    They are the posterior means of a uniform prior, and keep the fit finite where the classes separate.

    References
    ----------
    Platt (1999), *Probabilistic outputs for support vector machines*, section 2.2.
    """
    n_positive = float(groups.positives.sum())
    n_negative = float(groups.weight.sum()) - n_positive
    high, low = (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0)
    return groups.positives * (high - low) + groups.weight * low


def separates(groups: Groups) -> bool:
    """Say whether no negative row scores above any positive row, so that rising slopes have no finite optimum.

    A constant score doesn't separate: it has no slope.
    """
    if float(groups.scores.min()) == float(groups.scores.max()):
        return False
    has_negative = groups.positives < groups.weight
    has_positive = groups.positives > 0.0
    return float(groups.scores[has_negative].max()) <= float(groups.scores[has_positive].min())


def minimise(problem: LogisticProblem, *, what: str) -> FloatArray:
    """Return the minimiser, shape (d,); warn with ConvergenceWarning where the iteration stops short of it."""
    scale = np.sqrt((problem.columns**2).mean(axis=1))
    scale[scale == 0.0] = 1.0
    scaled = LogisticProblem(problem.columns / scale[:, None], problem.weight, problem.target_weight)
    theta = np.zeros(scale.size)
    n = problem.weight.size
    if n >= _WARM_START_FROM:
        theta, _, _ = _newton(scaled.thin(n // (_WARM_START_FROM // 8)), theta)
    theta, decrement, n_iter = _newton(scaled, theta)
    if decrement > _TOL:
        warnings.warn(
            f"{what}: Newton decrement {decrement:.2e} > tol {_TOL:.0e} after {n_iter} iterations; "
            "the scores may separate the classes, or be nearly constant",
            ConvergenceWarning,
            stacklevel=6,
        )
    result: FloatArray = theta / scale
    return result


def _newton(problem: LogisticProblem, theta: FloatArray) -> tuple[FloatArray, float, int]:
    """Return the minimiser, the last Newton decrement per unit of weight, and the number of iterations."""
    total = float(problem.weight.sum())
    value = problem.value(theta)
    decrement = np.inf
    for n_iter in range(1, _MAX_ITER + 1):
        gradient, hessian = problem.derivatives(theta)
        ridge = 1e-14 * max(float(np.trace(hessian)), 1e-300)
        step = np.linalg.solve(hessian + ridge * np.eye(theta.size), gradient)
        slope = float(gradient @ step)
        decrement = slope / total
        if decrement <= _TOL:
            return theta - step, decrement, n_iter
        if decrement <= _NO_SEARCH:
            theta = theta - step
            value = problem.value(theta)
            continue
        share = 1.0
        while share > 1e-10:
            tried = theta - share * step
            reached = problem.value(tried)
            if reached <= value - 1e-4 * share * slope:
                break
            share *= 0.5
        else:  # no descent left beyond rounding
            return theta, decrement, n_iter
        theta, value = tried, reached
    return theta, decrement, _MAX_ITER


def _combine(theta: FloatArray, columns: FloatArray) -> FloatArray:
    z: FloatArray = theta[0] * columns[0]
    for slope, column in zip(theta[1:], columns[1:], strict=True):
        z += slope * column
    return z


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, n, _BLOCK)]
