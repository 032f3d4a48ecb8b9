"""Small problems to the last digit: an active set where the iteration is slow to find it."""

from __future__ import annotations

import numpy as np

from calibrant.numerics import FloatArray
from calibrant.rank_preserving.problem import Problem

#: Entries of the matrix above which the dense systems take longer than they are worth.
LARGEST = 600


def solve_exactly(problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return the nearest sorted columns and the multipliers of row sums and margins, or None where this fails.

    Ties have to be equal. What comes back is a proposal: whoever takes it up measures and bounds it.

    Notes
    -----
    The unknowns are the levels of the units, the sums are met by moving in their null space from the matrix of equal
    rows, and what is left is a least-distance problem, which non-negative least squares solves by its active set.

    References
    ----------
    Lawson and Hanson (1974), *Solving Least Squares Problems*, chapter 23, algorithm LDP.
    """
    from scipy.linalg import lstsq, null_space
    from scipy.optimize import nnls

    sums, order, mass, mean, start = _system(problem)
    root = np.sqrt(mass)
    basis = null_space(sums / root)
    target = root * mean
    origin = root * start
    middle = origin + basis @ (basis.T @ (target - origin))
    g = (order / root) @ basis
    h = -(order / root) @ middle
    unit = np.append(np.zeros(basis.shape[1]), 1.0)
    system = np.vstack((g.T, h))
    try:
        found, _ = nnls(system, unit, maxiter=50 * h.size)
    except RuntimeError:  # it went round in circles
        return None
    rest = system @ found - unit
    if rest[-1] == 0.0:
        return None
    x = (middle - basis @ (rest[:-1] / rest[-1])) / root
    force = order.T @ (found / -rest[-1]) - mass * (x - mean)
    multiplier, *_ = lstsq(sums.T, force)
    n = problem.weight.size
    q = np.empty(problem.p.shape)
    end = 0
    for j, count in enumerate(problem.n_units):
        levels = np.maximum(np.maximum.accumulate(x[end : end + count]), 0.0)
        q[j] = np.repeat(levels, np.diff(problem.edges(j)))
        end += count
    return q, multiplier[:n] / problem.weight, multiplier[n:]


def _system(problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the sums and the order as rows over units, and of the units their weight, mean and level in equal rows."""
    n_columns, n = problem.p.shape
    n_units = int(problem.n_units.sum())
    sums, order = np.zeros((n + n_columns, n_units)), np.eye(n_units)
    mass, mean, start = np.empty(n_units), np.empty(n_units), np.empty(n_units)
    end = 0
    for j, count in enumerate(problem.n_units):
        edges, units = problem.edges(j), np.arange(end, end + count)
        rows = problem.order[j]
        sums[rows, np.repeat(units, np.diff(edges))] = 1.0
        mass[units] = np.add.reduceat(problem.weight[rows], edges[:-1])
        mean[units] = problem.p[j, edges[:-1]]
        sums[n + j, units] = mass[units]
        start[units] = problem.margins[j] / problem.total
        order[units[1:], units[:-1]] = -1.0
        end += count
    return sums, order, mass, mean, start
