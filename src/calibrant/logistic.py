"""Weighted logistic regression on one to three columns: Newton with a line search, from groups of rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant import kernels
from calibrant.errors import ConvergenceWarning
from calibrant.numerics import TINY, FloatArray, clip_from_data, clip_open, dot, logit, softplus
from calibrant.summary import TiedScores
from calibrant.validation import InputKind

_MAX_ITER = 100
#: Newton decrement (mean squared change of the logits that a full step would make) at which that step is the last:
#: convergence is quadratic there.
_TOL = 1e-13
#: The same where a pass over the rows costs more than it brings.
_TOL_OF_MANY = 1e-9
#: The same of a coarse problem, whose minimum is only a start.
_TOL_OF_COARSE = 1e-6
#: Gain of the loss per unit of weight that is none.
_NEGLIGIBLE = 1e-15
#: What rounding may leave of the decrement in a badly conditioned system.
_ACCEPTED = 1e-8
#: Below this decrement full steps are tried without a line search.
_NO_SEARCH = 1e-4
#: They must at least divide the decrement by this, or the search is taken up again.
_LEAST_FALL = 4.0
#: Rows per block: what a block's temporaries need stays in cache.
_BLOCK = 1 << 14
#: Scores larger than this, or closer together than its inverse, are brought to another unit first.
_LARGE = 1e100
#: From this many rows the first steps are taken on a thinned problem, of so many times fewer rows.
_WARM_START_FROM = 1 << 15
_THINNING = 8
#: Cells that the rows of one score are gathered into instead, from how many rows, and rows per cell at least.
_CELLS = 1 << 13
_GATHER_FROM = 1 << 12
_LEAST_PER_CELL = 8


@dataclass(frozen=True, slots=True)
class LogisticProblem:
    """Minimise sum_i w_i (log(1 + exp(z_i)) - t_i z_i) over theta, z = columns @ theta.

    `columns` are d arrays of shape (n,); `target_weight` is w_i t_i.
    """

    columns: Sequence[FloatArray] | FloatArray
    weight: FloatArray
    target_weight: FloatArray

    def value(self, theta: FloatArray) -> float:
        """Return the loss at `theta`."""
        total = 0.0
        for block in _blocks(self.weight.size):
            z = _combine(theta, [column[block] for column in self.columns])
            total += dot(self.weight[block], softplus(z)) - dot(self.target_weight[block], z)
        return total

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return gradient, shape (d,), Hessian, shape (d, d), and the sum of w_i q_i (1 - q_i), at `theta`."""
        d = len(self.columns)
        gradient, hessian, spread = np.zeros(d), np.zeros((d, d)), 0.0
        for block in _blocks(self.weight.size):
            x, w = [column[block] for column in self.columns], self.weight[block]
            z = _combine(theta, x)
            np.negative(z, out=z)
            with np.errstate(over="ignore"):  # far below zero the rate is zero
                np.exp(z, out=z)
            z += 1.0
            q = np.reciprocal(z, out=z)
            rate = w * q
            residual = rate - self.target_weight[block]
            np.subtract(1.0, q, out=q)
            curvature = np.multiply(rate, q, out=rate)
            spread += float(curvature.sum())
            for i in range(d):
                gradient[i] += dot(x[i], residual)
                bent = x[i] * curvature
                for j in range(i + 1):
                    hessian[i, j] += dot(bent, x[j])
        hessian += np.tril(hessian, -1).T
        return gradient, hessian, spread

    def thin(self, times: int) -> LogisticProblem:
        """Return the problem of so many times fewer rows, drawn with a fixed seed: rows may come in any pattern."""
        n = self.weight.size
        drawn = np.random.default_rng(0).integers(0, n, n // times)
        columns = [column[drawn] for column in self.columns]
        return LogisticProblem(columns, self.weight[drawn], self.target_weight[drawn])


def on_logits(groups: TiedScores, input: InputKind) -> tuple[TiedScores, float | None]:
    """Return groups of logits, and the clip that probabilities went through; other scores stay as they are."""
    if input != "probability":
        return groups, None
    clip = clip_from_data(groups.scores, float(groups.weight.sum()))
    return TiedScores(logit(clip_open(groups.scores, clip)), groups.weight, groups.positives), clip


def base_logit(groups: TiedScores) -> float:
    """Return the logit of the share of positives: all that can be fitted to constant scores."""
    positives = float(groups.positives.sum())
    return float(np.log(positives) - np.log(float(groups.weight.sum()) - positives))


def platt_targets(groups: TiedScores) -> FloatArray:
    """Return the target weight of each group under Platt's targets (n1 + 1)/(n1 + 2) and 1/(n0 + 2).

    They are the posterior means of a uniform prior, and keep the fit finite where the classes separate.

    References
    ----------
    Platt (1999), *Probabilistic outputs for support vector machines*, section 2.2.
    """
    n_positive = float(groups.positives.sum())
    n_negative = float(groups.weight.sum()) - n_positive
    high, low = (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0)
    targets = groups.positives * (high - low)
    is_one_number = groups.weight.strides == (0,)  # the unit weights of rows, which take no memory
    targets += low * float(groups.weight[0]) if is_one_number else low * groups.weight
    return targets


def separates(groups: TiedScores) -> bool:
    """Say whether no negative row scores above any positive row, so that rising slopes have no finite optimum.

    A constant score doesn't separate: it has no slope.
    """
    if float(groups.scores.min()) == float(groups.scores.max()):
        return False
    has_negative = groups.positives < groups.weight
    has_positive = groups.positives > 0.0
    return float(groups.scores[has_negative].max()) <= float(groups.scores[has_positive].min())


def minimise(problem: LogisticProblem, *, what: str, coarse: LogisticProblem | None = None) -> FloatArray:
    """Return the minimiser, shape (d,); warn with ConvergenceWarning where the iteration stops short of it.

    `coarse` is a small problem with nearly the same minimiser, to start from.
    """
    scale = np.sqrt([dot(column, column) / column.size for column in problem.columns])
    scale[scale == 0.0] = 1.0
    theta, decrement, n_iter = _coarse_to_fine(problem, scale, coarse)
    if decrement > _ACCEPTED:
        warnings.warn(
            f"{what}: Newton decrement {decrement:.2e} > tol {_ACCEPTED:.0e} after {n_iter} iterations; "
            "the scores may separate the classes, or be nearly constant",
            ConvergenceWarning,
            stacklevel=6,
        )
    return theta


def fit_slope_intercept(
    groups: TiedScores, target_weight: FloatArray | None = None, *, what: str = "sigmoid fit"
) -> tuple[float, float]:
    """Fit a logistic regression on one score; by default with Platt's targets."""
    s, w = groups.scores, groups.weight
    if float(s.min()) == float(s.max()):
        return 0.0, base_logit(groups)
    unit = 1.0
    if max(float(s.max()), -float(s.min())) > _LARGE or float(np.ptp(s)) < 1.0 / _LARGE:
        unit = float(2.0 ** np.frexp(np.abs(s).max())[1].clip(max=1023))  # exact, and squares of the rest are in range
        s = s / unit
    centre = dot(w, s) / float(w.sum())
    columns = (s - centre, np.broadcast_to(1.0, s.shape))
    targets = platt_targets(groups) if target_weight is None else target_weight
    problem = LogisticProblem(columns, w, targets)
    slope, intercept = minimise(problem, what=what, coarse=_gather(problem)).tolist()
    largest = np.finfo(np.float64).max  # scores may lie closer than any slope can part
    return float(np.clip(slope / float(unit), -largest, largest)), intercept - slope * centre


def _gather(problem: LogisticProblem) -> LogisticProblem | None:
    """Gather the rows of a problem of one score and an intercept into equal cells of the score; None for few rows."""
    x, one = problem.columns
    low, high = float(x.min()), float(x.max())
    if x.size < _GATHER_FROM or not high - low > 1.0 / _LARGE:
        return None
    n_cells = min(_CELLS, x.size // _LEAST_PER_CELL)
    scale = n_cells / (high - low)
    sums = np.zeros((n_cells, 3))
    weight = np.empty(0) if problem.weight.strides == (0,) else problem.weight
    kernels.sum_cells(x, weight, problem.target_weight, low, scale, sums)
    w, wx, target_weight = np.ascontiguousarray(sums[sums[:, 0] > 0.0].T)
    return LogisticProblem((wx / w, one[: w.size]), w, target_weight)


def _coarse_to_fine(
    problem: LogisticProblem, scale: FloatArray, coarse: LogisticProblem | None = None
) -> tuple[FloatArray, float, int]:
    """Run Newton from the minimiser of a coarse problem: the one given, or a thinned one, which is found likewise."""
    if coarse is not None:
        start, _, _ = _newton(coarse, np.zeros(scale.size), scale, tol=_TOL_OF_COARSE)
    elif problem.weight.size < _WARM_START_FROM:
        return _newton(problem, np.zeros(scale.size), scale)
    else:
        start, _, _ = _coarse_to_fine(problem.thin(_THINNING), scale)
    found = _newton(problem, start, scale)
    if found[1] <= _ACCEPTED:
        return found
    return _newton(problem, np.zeros(scale.size), scale)  # the thinned problem led astray: it may have separated


def _newton(
    problem: LogisticProblem, theta: FloatArray, scale: FloatArray, *, tol: float | None = None
) -> tuple[FloatArray, float, int]:
    """Return the minimiser, the last Newton decrement, and the number of iterations.

    Columns are in units of `scale` when the system is solved. The loss itself is looked at only where the decrement
    is large, or doesn't fall as it does near the minimum.
    """
    total = float(problem.weight.sum())
    tol = _tol(problem) if tol is None else tol
    last, last_decrement = theta, np.inf
    may_skip = True
    decrement = np.inf
    for n_iter in range(1, _MAX_ITER + 1):
        gradient, hessian, spread = problem.derivatives(theta)
        gradient, hessian = gradient / scale, hessian / np.outer(scale, scale)
        ridge = 1e-14 * max(float(np.trace(hessian)), 1e-300)
        step = np.linalg.solve(hessian + ridge * np.eye(theta.size), gradient)
        slope = float(gradient @ step)
        decrement, step = slope / max(spread, TINY), step / scale
        if slope <= _NEGLIGIBLE * total:  # also where the optimum is at infinity
            return theta - (step if decrement <= _NO_SEARCH else 0.0), min(decrement, slope / total), n_iter
        if decrement <= tol:
            return theta - step, decrement, n_iter
        if may_skip and decrement * _LEAST_FALL > last_decrement:  # the unsearched step before went wrong
            theta, last_decrement, may_skip = last, np.inf, False
            continue
        if may_skip and decrement <= _NO_SEARCH:
            last, last_decrement = theta, decrement
            theta = theta - step
            continue
        value = problem.value(theta)
        share = 1.0
        while share > 1e-10:
            tried = theta - share * step
            if problem.value(tried) <= value - 1e-4 * share * slope:
                break
            share *= 0.5
        else:  # no descent left beyond rounding
            return theta, min(decrement, slope / total), n_iter
        theta = tried
    return theta, decrement, _MAX_ITER


def _tol(problem: LogisticProblem) -> float:
    return _TOL if problem.weight.size < _GATHER_FROM else _TOL_OF_MANY


def _combine(theta: FloatArray, columns: Sequence[FloatArray]) -> FloatArray:
    z: FloatArray = theta[0] * columns[0]
    for slope, column in zip(theta[1:], columns[1:], strict=True):
        z += slope * column
    return z


def _blocks(n: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, n, _BLOCK)]
