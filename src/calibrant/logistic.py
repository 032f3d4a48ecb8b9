"""Weighted logistic regression on one to three columns: Newton's method with a line search.

What is minimised: sum_i w_i (log(1 + exp(z_i)) - t_i z_i), where z is linear in the columns and t_i a target in [0, 1].
Each step solves the Newton system, columns in units of their size. Far from the minimum a step is halved until the loss
falls enough; near it full steps are taken without computing the loss, as long as the decrement falls as it should.
It stops where the decrement (the mean squared change of the logits that a full step would make) is below a tolerance.
Rows of one score are gathered into cells of equal width first: where cells are narrow, their moments tell the minimiser
of all rows, and otherwise a start. Other problems of many rows start from the minimiser of a sample.

Source: Boyd and Vandenberghe (2004), Convex optimization, section 9.5. Platt (1999), section 2.2, for the targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant import kernels
from calibrant.errors import ConvergenceWarning, warn
from calibrant.numerics import LARGEST, TINY, FloatArray, clip_from_data, clip_open, dot, expit, logit, softplus
from calibrant.quantised import QuantisedSummary
from calibrant.row_stream import RowStream
from calibrant.summary import TiedScores
from calibrant.validation import InputKind

_MAX_ITER = 100
#: Decrement at which a step is the last one: convergence is quadratic there.
_TOL = 1e-13
#: The same of many rows, where one more pass costs more than it gains.
_TOL_OF_MANY = 1e-9
#: The same of a smaller problem, whose minimum is only a start.
_TOL_OF_COARSE = 1e-6
#: Gain of the loss per unit of weight that counts as none.
_NEGLIGIBLE = 1e-15
#: What rounding may leave of the decrement in a badly conditioned system.
_ACCEPTED = 1e-8
#: Below this decrement full steps are tried without a line search.
_NO_SEARCH = 0.5
#: They must at least divide the decrement by this, or the line search comes back.
_LEAST_FALL = 4.0
#: Logits below minus this have a rate of zero, but for 1e-304.
_SURE = 700.0
#: Rows per block: its temporaries stay in cache, and products of it have the same bits on any number of threads.
_BLOCK = 1 << 13
#: Share of the variation of a column that a line must leave, or the scores count as two points.
_STRAIGHT = 1e-8
#: Scores larger than this, or closer together than its inverse, are brought to another unit first.
_LARGE = 1e100
#: From this many rows the first steps are taken on a sample, of so many times fewer rows.
_WARM_START_FROM = 1 << 15
_THINNING = 8
#: Cells that rows of one score are gathered into instead: at most; from how many rows; rows per cell at least.
_CELLS = 1 << 13
_GATHER_FROM = 1 << 12
_LEAST_PER_CELL = 8
#: Change of the logit within a cell up to which moments of four orders tell its rows' rates to 1e-9.
_NARROW = 1.0 / 64.0


@dataclass(frozen=True, slots=True)
class LogisticProblem:
    """Minimise sum_i w_i (log(1 + exp(z_i)) - t_i z_i) over theta, z = theta @ columns.

    `columns` has shape (d, n); `target_weight` is w_i t_i.
    """

    columns: FloatArray
    weight: FloatArray
    target_weight: FloatArray

    def value(self, theta: FloatArray) -> float:
        """Return the loss at `theta`."""
        total = 0.0
        for block in _blocks(self.weight.size):
            z = theta @ self.columns[:, block]
            total += dot(self.weight[block], softplus(z)) - dot(self.target_weight[block], z)
        return total

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return gradient, shape (d,), Hessian, shape (d, d), and the sum of w_i q_i (1 - q_i), at `theta`."""
        d = len(self.columns)
        sums, spread = np.zeros((d + 1, d)), 0.0
        for block in _blocks(self.weight.size):
            x = self.columns[:, block]
            z = -theta @ x
            np.minimum(z, _SURE, out=z)
            np.exp(z, out=z)
            z += 1.0
            q = np.reciprocal(z, out=z)
            rate = self.weight[block] * q
            parts = np.empty((d + 1, rate.size))
            np.subtract(rate, self.target_weight[block], out=parts[d])
            np.subtract(1.0, q, out=q)
            curvature = np.multiply(rate, q, out=rate)
            spread += float(curvature.sum())
            np.multiply(x, curvature, out=parts[:d])
            sums += parts @ x.T
        return sums[d], sums[:d], spread

    def units(self) -> FloatArray:
        """Return the size of each column, in which systems are solved: its root mean square."""
        return np.array([math.sqrt(dot(column, column) / column.size) or 1.0 for column in self.columns])

    def thin(self, times: int) -> LogisticProblem:
        """Return the problem of so many times fewer rows, drawn with a fixed seed, since rows may come in any order."""
        n = self.weight.size
        drawn = np.random.default_rng(0).integers(0, n, n // times)
        return LogisticProblem(self.columns[:, drawn], self.weight[drawn], self.target_weight[drawn])


def on_logits(ties: TiedScores, input: InputKind) -> tuple[TiedScores, float | None]:
    """Return ties of logits, and the clip of the probabilities; None for other scores, which stay as they are."""
    if input != "probability":
        return ties, None
    clip = clip_from_data(ties.scores, float(ties.weight.sum()))
    return TiedScores(logit(clip_open(ties.scores, clip)), ties.weight, ties.positives), clip


def base_logit(ties: TiedScores) -> float:
    """Return the logit of the share of positives: all that can be fitted to constant scores."""
    positives = float(ties.positives.sum())
    return float(np.log(positives) - np.log(float(ties.weight.sum()) - positives))


def platt_rates(ties: TiedScores) -> tuple[float, float]:
    """Return Platt's targets of negative and positive rows, 1/(n0 + 2) and (n1 + 1)/(n1 + 2).

    They are the posterior means of a uniform prior, and keep the fit finite where the classes separate.
    """
    n_positive = float(ties.positives.sum())
    n_negative = float(ties.weight.sum()) - n_positive
    return 1.0 / (n_negative + 2.0), (n_positive + 1.0) / (n_positive + 2.0)


def platt_targets(ties: TiedScores, rates: tuple[float, float] | None = None) -> FloatArray:
    """Return the target weight of each tie under Platt's targets, by default those of the ties themselves."""
    low, high = platt_rates(ties) if rates is None else rates
    targets = ties.positives * (high - low)
    is_one_number = ties.weight.strides == (0,)  # weights of one, as a broadcast that takes no memory
    targets += low * float(ties.weight[0]) if is_one_number else low * ties.weight
    return targets


def separates(ties: TiedScores, *, either_way: bool = False) -> bool:
    """Say whether no negative row scores above any positive row, so that rising slopes have no finite optimum.

    `either_way`: or none below any, so that falling ones have none. A constant score has no slope, so it doesn't.
    """
    if float(ties.scores.min()) == float(ties.scores.max()):
        return False
    negative, positive = ties.scores[ties.positives < ties.weight], ties.scores[ties.positives > 0.0]
    if float(negative.max()) <= float(positive.min()):
        return True
    return either_way and float(positive.max()) <= float(negative.min())


@dataclass(frozen=True, slots=True)
class _StreamedProblem(LogisticProblem):
    """A problem whose rows are read again for each evaluation; its own arrays are those of cells of them."""

    total: Callable[[Callable[[LogisticProblem], Any]], Any]

    def value(self, theta: FloatArray) -> float:
        return float(self.total(lambda part: part.value(theta)))

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        sums: tuple[FloatArray, FloatArray, float] = self.total(lambda part: part.derivatives(theta))
        return sums


def minimise_streamed(
    stream: RowStream, cells: QuantisedSummary, problem: Callable[[TiedScores], LogisticProblem], *, what: str
) -> FloatArray:
    """Return the minimiser over the rows of a stream, from that of their cells; `problem` is made of rows or cells."""
    coarse = problem(cells.tied())
    streamed = _StreamedProblem(
        coarse.columns,
        coarse.weight,
        coarse.target_weight,
        lambda find: stream.total(lambda rows: find(problem(rows.tied()))),
    )
    return minimise(streamed, what=what, coarse=coarse)


def minimise(
    problem: LogisticProblem,
    *,
    what: str,
    coarse: LogisticProblem | None = None,
    start: FloatArray | None = None,
) -> FloatArray:
    """Return the minimiser, shape (d,); warn with ConvergenceWarning where the iteration stops short of it.

    `coarse` is a small problem with nearly the same minimiser, which is found first, from `start` where it is given.
    """
    theta, decrement, n_iter = _coarse_to_fine(problem, problem.units(), coarse, start)
    if decrement > _ACCEPTED:
        warn(
            f"{what}: Newton decrement {decrement:.2e} > tol {_ACCEPTED:.0e} after {n_iter} iterations; "
            "the scores may separate the classes, or be nearly constant",
            ConvergenceWarning,
        )
    return theta


def rising_slope(problem: LogisticProblem, *, what: str) -> tuple[float, float, float]:
    """Return loss, slope and intercept of a problem of one column, perhaps with ones, whose slope is not negative."""
    theta = minimise(problem, what=what)
    if theta[0] < 0.0:
        ones = problem.columns[1:]
        theta = np.append(0.0, minimise(replace(problem, columns=ones), what=what)) if len(ones) else np.zeros(1)
    return problem.value(theta), float(theta[0]), float(theta[1:].sum())


def apart_from_line(
    column: FloatArray, t: FloatArray, weight: FloatArray, *, through_zero: bool = False
) -> tuple[FloatArray | None, float, float]:
    """Return what a line in t leaves of a column, and the line: slope and intercept; None where it leaves nothing.

    Two distinct scores have no bend; a column without its line keeps a fit well conditioned near that case. A line
    through zero has no intercept.
    """
    total = float(weight.sum())
    mean, level = (0.0, 0.0) if through_zero else (dot(weight, t) / total, dot(weight, column) / total)
    first, second = t - mean, column - level
    variance = dot(weight, first * first)
    slope = dot(weight, first * second) / variance if variance > 0.0 else 0.0
    rest = second - slope * first
    least = _STRAIGHT * max(dot(weight, second * second), _STRAIGHT * total)  # all may vary by rounding only
    is_line = dot(weight, rest * rest) <= least or variance == 0.0
    return None if is_line else rest, slope, level - slope * mean


def fit_slope_intercept(
    ties: TiedScores,
    rates: tuple[float, float] | None = None,
    *,
    what: str = "sigmoid fit",
    start: tuple[float, float] | None = None,
) -> tuple[float, float]:
    """Fit a logistic regression on one score, to the targets of negative and positive rows; by default to Platt's.

    `start` is a guess of slope and intercept.
    """
    s = ties.scores
    low, high = float(s.min()), float(s.max())
    if low == high:
        return 0.0, base_logit(ties)
    unit = 1.0
    if max(high, -low) > _LARGE or high - low < 1.0 / _LARGE:
        unit = float(2.0 ** np.frexp(np.abs(s).max())[1].clip(max=1023))  # exact, and squares of the rest are in range
        s = s / unit
    in_unit = TiedScores(s, ties.weight, ties.positives)
    cells = _Cells.gather(in_unit, low / unit, high / unit, rates) if s.size >= _GATHER_FROM else None
    centre = dot(ties.weight, s) / float(ties.weight.sum()) if cells is None else cells.centre
    theta = None if start is None else np.array([start[0] * unit, start[1] + start[0] * unit * centre])
    theta, is_found = (theta, False) if cells is None else cells.solve(theta)
    if theta is None or not is_found:
        columns = np.stack((s - centre, np.ones(s.size)))
        problem = LogisticProblem(columns, ties.weight, platt_targets(ties, rates))
        theta = minimise(problem, what=what, start=theta)
    slope, intercept = theta.tolist()
    # the slope of scores that lie very close together may overflow
    return min(max(slope / unit, -LARGEST), LARGEST), intercept - slope * centre


@dataclass(frozen=True, slots=True)
class _Cells(LogisticProblem):
    """The problem of one score and an intercept, with its rows gathered into cells of equal width.

    What the rows of a cell add up to is a Taylor series around their mean score, in the cell's moments. `columns` are
    the mean score of each cell, shape (n_cells,), less `centre`, and ones. `spread` and `skew` are the sums of
    w (x - mean)^2 and w (x - mean)^3 in each cell, `tilt` is the sum of w t (x - mean) over all rows.
    """

    centre: float
    spread: FloatArray
    skew: FloatArray
    tilt: float
    width: float

    @classmethod
    def gather(cls, ties: TiedScores, low: float, high: float, rates: tuple[float, float] | None) -> _Cells:
        """Gather rows into cells of equal width from the lowest score to the highest; `rates` are the targets."""
        n_cells = min(_CELLS, ties.scores.size // _LEAST_PER_CELL)
        width = (high - low) / n_cells
        sums = np.zeros((n_cells, 6))
        weight = np.empty(0) if ties.weight.strides == (0,) else ties.weight
        kernels.sum_cells(ties.scores, weight, ties.positives, low, n_cells / (high - low), sums)
        is_filled = sums[:, 0] > 0.0
        w, first, second, third, positives, positive_first = sums[is_filled].T.copy()
        mean = first / w
        x = width * (np.flatnonzero(is_filled) + 0.5 + mean)  # less the lowest: scores may be close and far from zero
        centre = low + dot(w, x) / float(w.sum())
        spread = second - mean * first
        skew = third - mean * (second + 2.0 * spread)
        cells = TiedScores(x, w, positives)
        rates = platt_rates(cells) if rates is None else rates
        return cls(
            columns=np.stack((x - (centre - low), np.ones(w.size))),
            weight=w,
            target_weight=platt_targets(cells, rates),
            centre=centre,
            spread=width**2 * spread,
            skew=width**3 * skew,
            tilt=(rates[1] - rates[0]) * width * float((positive_first - mean * positives).sum()),
            width=width,
        )

    def solve(self, start: FloatArray | None) -> tuple[FloatArray, bool]:
        """Return the minimiser, and whether it is that of all rows; if not, it is near it."""
        points, units = LogisticProblem(self.columns, self.weight, self.target_weight), self.units()
        theta, _, _ = _newton(points, np.zeros(2) if start is None else start, units, tol=_TOL_OF_COARSE)
        if not self._are_narrow(theta):
            return theta, False
        theta, decrement, _ = _newton(self, theta, units)
        return theta, decrement <= _ACCEPTED and self._are_narrow(theta)

    def _are_narrow(self, theta: FloatArray) -> bool:
        """Say whether the logit changes so little within a cell that its moments tell all of its rows."""
        return abs(float(theta[0])) * self.width <= _NARROW

    def value(self, theta: FloatArray) -> float:
        a, z = float(theta[0]), theta @ self.columns
        q = expit(z)
        within = q * (1.0 - q) * (0.5 * a**2 * self.spread + (1.0 - 2.0 * q) * a**3 / 6.0 * self.skew)
        return dot(self.weight, softplus(z)) + float(within.sum()) - dot(self.target_weight, z) - a * self.tilt

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return the gradient, and nearly the Hessian and the sum of w q (1 - q), which steer the steps only."""
        x, a, q = self.columns[0], float(theta[0]), expit(theta @ self.columns)
        first = q * (1.0 - q)
        second, third = first * (1.0 - 2.0 * q), first * (1.0 - 6.0 * first)
        rate = self.weight * q + 0.5 * a**2 * second * self.spread + a**3 / 6.0 * third * self.skew - self.target_weight
        rate_off = a * first * self.spread + 0.5 * a**2 * second * self.skew  # times the distance from the mean
        gradient = np.array([dot(x, rate) + float(rate_off.sum()) - self.tilt, float(rate.sum())])
        curvature = self.weight * first
        total, mixed = float(curvature.sum()), dot(x, curvature)
        twice = dot(x * x, curvature) + dot(first, self.spread)
        return gradient, np.array([[twice, mixed], [mixed, total]]), total


def _coarse_to_fine(
    problem: LogisticProblem,
    scale: FloatArray,
    coarse: LogisticProblem | None = None,
    start: FloatArray | None = None,
) -> tuple[FloatArray, float, int]:
    """Run Newton from the minimiser of a smaller problem: the one given, or, of many rows, a sample."""
    zeros = np.zeros(scale.size)
    if coarse is not None:
        start, _, _ = _newton(coarse, zeros if start is None else start, scale, tol=_TOL_OF_COARSE)
    elif start is None and problem.weight.size >= _WARM_START_FROM:
        start, _, _ = _coarse_to_fine(problem.thin(_THINNING), scale)
    if start is not None:
        found = _newton(problem, start, scale)
        if found[1] <= _ACCEPTED:
            return found  # otherwise a bad start: the classes may separate in the sample
    return _newton(problem, zeros, scale)


def _newton(
    problem: LogisticProblem, theta: FloatArray, scale: FloatArray, *, tol: float | None = None
) -> tuple[FloatArray, float, int]:
    """Return the minimiser, the last Newton decrement, and the number of iterations.

    Columns are in units of `scale` when the system is solved.
    """
    total = float(problem.weight.sum())
    if tol is None:
        tol = _TOL if problem.weight.size < _GATHER_FROM else _TOL_OF_MANY
    last, last_decrement = theta, np.inf
    may_skip = True
    decrement = np.inf
    loss: float | None = None  # at theta, where the line search has found it
    for n_iter in range(1, _MAX_ITER + 1):
        gradient, hessian, spread = problem.derivatives(theta)
        step, slope = _step(gradient, hessian, scale)
        decrement = slope / max(spread, TINY)
        if slope <= _NEGLIGIBLE * total:  # also where the optimum is at infinity
            return theta - (step if decrement <= _NO_SEARCH else 0.0), min(decrement, slope / total), n_iter
        if decrement <= tol:
            return theta - step, decrement, n_iter
        if may_skip and decrement * _LEAST_FALL > last_decrement:  # the last step, without a search, was a bad one
            theta, last_decrement, may_skip, loss = last, np.inf, False, None
            continue
        if may_skip and decrement <= _NO_SEARCH:
            last, last_decrement = theta, decrement
            theta, loss = theta - step, None
            continue
        value = problem.value(theta) if loss is None else loss
        share = 1.0
        while share > 1e-10:
            tried = theta - share * step
            loss = problem.value(tried)
            if loss <= value - 1e-4 * share * slope:
                break
            share *= 0.5
        else:  # no descent left beyond rounding
            return theta, min(decrement, slope / total), n_iter
        theta = tried
    return theta, decrement, _MAX_ITER


def _step(gradient: FloatArray, hessian: FloatArray, scale: FloatArray) -> tuple[FloatArray, float]:
    """Return the Newton step, and its product with the gradient."""
    if scale.size == 2:  # by hand: numbers of Python take a fifth of the time of arrays of two
        s, t = scale.tolist()
        (a, b), (_, c) = hessian.tolist()
        u, v = gradient.tolist()
        a, b, c, u, v = a / s / s, b / s / t, c / t / t, u / s, v / t
        ridge = _ridge(a + c)
        a += ridge
        second = (v - u * b / a) / max(c + ridge - b * b / a, ridge)
        first = (u - b * second) / a
        return np.array([first / s, second / t]), u * first + v * second
    gradient, hessian = gradient / scale, hessian / np.outer(scale, scale)
    step = np.linalg.solve(hessian + _ridge(float(hessian.trace())) * np.eye(scale.size), gradient)
    return step / scale, float(gradient @ step)


def _ridge(trace: float) -> float:
    """Return what is added to the diagonal of a matrix of this trace, so that rounding leaves it invertible."""
    return 1e-14 * max(trace, 1e-300)


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, n, _BLOCK)]
