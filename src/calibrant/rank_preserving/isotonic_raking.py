"""The nearest matrix in Kullback-Leibler divergence with its margins and its order, by the dual problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant.numerics import FloatArray, IntArray, dot
from calibrant.rank_preserving.problem import Problem

#: Passes of the last steps: per step at most, and how well its system is to be solved.
_MOST_INNER, _INNER_SHARE, _RIDGE, _SHORTEST = 500, 1e-3, 1e-10, 1e-3


def rake_in_order(p: FloatArray, problem: Problem, tol: float, max_iter: int) -> tuple[FloatArray, int, float]:
    """Return the matrix, the number of passes, and a proven lower bound of the divergence of every feasible matrix.

    Its columns rise and have their sums; rows sum to 1 as nearly as was reached.

    Notes
    -----
    For given multipliers u of the row sums, the nearest column that rises and has its sum is known: isotonic
    regression of log P + u, whose levels then get one factor. What the multipliers prove is a concave function with
    the row sums for its slope, and a quasi-Newton method climbs it. Where it comes to the end of its digits, steps of
    Newton's method on the pooled blocks as they are go on, which only look at the slope.
    """
    from scipy.optimize import minimize

    dual = _Dual(p, problem)
    root = np.sqrt(problem.weight)

    def climb(scaled: FloatArray) -> tuple[float, FloatArray]:
        value, slope = dual.measure(scaled / root)
        return -value, -slope / root

    def stop(_: FloatArray) -> None:
        if dual.residual <= tol or dual.n_passes >= max_iter:
            raise StopIteration

    found = minimize(
        climb,
        np.zeros(len(p)),
        jac=True,
        method="L-BFGS-B",
        callback=stop,
        options={"maxiter": max_iter, "maxfun": max_iter, "ftol": 0.0, "gtol": 0.0},
    )
    multiplier = found.x / root
    dual.measure(multiplier)
    while dual.residual > tol and dual.n_passes < max_iter:
        better = _newton_step(dual, multiplier, max_iter)
        if better is None:
            break
        multiplier = better
    return dual.matrix(), dual.n_passes, max(dual.value, 0.0)


def _newton_step(dual: _Dual, multiplier: FloatArray, max_iter: int) -> FloatArray | None:
    """Return multipliers whose row sums are nearer to 1, or None; the dual stays where it was measured last."""
    slope, before = dual.slope, dual.squared
    step = dual.solve(slope, max_iter)
    length = 1.0
    while length > _SHORTEST:
        tried: FloatArray = multiplier + length * step
        dual.measure(tried)
        if dual.squared < before:
            return tried
        length *= 0.5
    dual.measure(multiplier)
    return None


@dataclass(frozen=True, slots=True)
class _Column:
    """A column whose margin is above 0: its rows of positive probability, sorted, and the units of equal ones."""

    j: int
    order: IntArray
    first: IntArray
    count: IntArray
    weight: FloatArray
    unit_weight: FloatArray
    log_p: FloatArray
    margin: float

    @classmethod
    def of(cls, p: FloatArray, problem: Problem, j: int) -> _Column:
        order = problem.order[j][problem.p[j] > 0.0].astype(np.int64)
        value = p[order, j]
        first = np.flatnonzero(np.append(True, value[1:] > value[:-1]))
        weight = problem.weight[order]
        return cls(
            j,
            order,
            first,
            np.diff(np.append(first, value.size)),
            weight,
            np.add.reduceat(weight, first),
            np.log(value[first]),
            float(problem.margins[j]),
        )


class _Dual:
    """The dual function: its value, slope and blocks where it was measured last."""

    value: float
    slope: FloatArray
    residual: float
    squared: float

    def __init__(self, p: FloatArray, problem: Problem) -> None:
        self.shape = p.shape
        self.weight = problem.weight
        self.columns = [_Column.of(p, problem, j) for j in np.flatnonzero(problem.margins > 0.0).tolist()]
        self.levels: list[FloatArray] = []
        self.blocks: list[npt.NDArray[np.int64]] = []
        self.n_passes = 0

    def measure(self, multiplier: FloatArray) -> tuple[float, FloatArray]:
        """Return the least Lagrangian at these multipliers, and its slope: weight x (1 - row sum)."""
        from scipy.optimize import isotonic_regression

        self.n_passes += 1
        value = dot(self.weight, multiplier)
        row = np.zeros(self.shape[0])
        self.levels, self.blocks = [], []
        for c in self.columns:
            lift = np.add.reduceat(c.weight * multiplier[c.order], c.first) / c.unit_weight
            pooled = isotonic_regression(c.log_p + lift, weights=c.unit_weight)
            top = float(pooled.x[-1])
            share = np.exp(pooled.x - top)
            total = dot(c.unit_weight, share)
            value += c.margin * (np.log(c.margin / total) - top)
            level = share * (c.margin / total)
            row[c.order] += np.repeat(level, c.count)
            self.levels.append(level)
            self.blocks.append(pooled.blocks)
        slope: FloatArray = self.weight * (1.0 - row)
        self.value, self.slope = float(value), slope
        self.residual = float(np.abs(row - 1.0).max())
        self.squared = dot(slope, slope)
        return self.value, slope

    def matrix(self) -> FloatArray:
        """Return the columns as a matrix."""
        q = np.zeros(self.shape)
        for c, level in zip(self.columns, self.levels, strict=True):
            q[c.order, c.j] = np.repeat(level, c.count)
        return q

    def bend(self, step: FloatArray) -> FloatArray:
        """Return the change of the slope, sign reversed, where multipliers move by `step` and no block changes."""
        change = np.zeros(self.shape[0])
        for c, level, block in zip(self.columns, self.levels, self.blocks, strict=True):
            of_unit = np.add.reduceat(c.weight * step[c.order], c.first)
            mass = np.add.reduceat(c.unit_weight, block[:-1])
            lift = np.add.reduceat(of_unit, block[:-1]) / mass
            height = level[block[:-1]]
            lift -= dot(height * mass, lift) / c.margin
            change[c.order] += np.repeat(np.repeat(height * lift, np.diff(block)), c.count)
        bent: FloatArray = self.weight * change
        return bent

    def diagonal(self) -> FloatArray:
        """Return the diagonal of `bend`, but for the part of the margins."""
        share = np.zeros(self.shape[0])
        for c, level, block in zip(self.columns, self.levels, self.blocks, strict=True):
            mass = np.add.reduceat(c.unit_weight, block[:-1])
            share[c.order] += np.repeat(np.repeat(level[block[:-1]] / mass, np.diff(block)), c.count)
        found: FloatArray = self.weight**2 * share
        return found

    def solve(self, slope: FloatArray, max_iter: int) -> FloatArray:
        """Return the step that takes the slope to 0 as far as the blocks hold, by conjugate gradients."""
        scale = self.diagonal() + _RIDGE * self.weight
        step, rest = np.zeros(slope.size), slope.copy()
        eased = rest / scale
        way, product = eased.copy(), dot(rest, eased)
        enough = _INNER_SHARE**2 * dot(rest, rest)
        for _ in range(_MOST_INNER):
            bent = self.bend(way) + _RIDGE * self.weight * way
            curvature = dot(way, bent)
            if curvature <= 0.0 or self.n_passes >= max_iter:
                break
            self.n_passes += 1
            length = product / curvature
            step += length * way
            rest -= length * bent
            if dot(rest, rest) <= enough:
                break
            eased = rest / scale
            product, last = dot(rest, eased), product
            way = eased + (product / last) * way
        return step
