"""Penalised softmax regression, the strength of its penalty chosen by the evidence.

What is minimised: the weighted mean of log sum_k exp(z_ik) - z_i,y_i plus half a weighted sum of squared deviations of
the parameters from a centre, by L-BFGS whose first matrix is the inverse of a Hessian. With few parameters and rows it
is that of all rows, computed again, as in Newton's method, where a step has cut the decrement, gradient times step, by
too little: a Hessian costs as much as several gradients. With more rows it is that of a sample; of many parameters, its
blocks, about. Steps are halved until the loss falls enough. It stops where the decrement is small.
The strength is the posterior mean of its logarithm under Laplace's approximation of the marginal likelihood; two rounds
of a fit and a choice come before the last fit, which starts with the Hessian of the last choice.

Source: Nocedal and Wright (2006), Numerical optimization, chapters 6 and 7; MacKay (1992), The evidence framework
applied to classification networks, Neural Computation 4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.errors import ConvergenceWarning, warn
from calibrant.numerics import EPS, TINY, FloatArray, dot

_MAX_ITER = 500
#: Newton decrement (about twice what a full step would gain of the mean loss) at which that step is the last: after
#: it, the error is about the square root of this times the rate of convergence, or its square with a new Hessian.
_TOL = 1e-20
_TOL_OF_NEW = 1e-13
#: The same of a fit that only a choice of the strength follows.
_TOL_OF_CHOICE = 1e-12
#: The same of a fit that starts from one to nearly the same rows, such as those of a fold.
_TOL_OF_NEAR = 1e-14
#: The same of many rows, where one more pass costs more than it gains.
_TOL_OF_MANY = 1e-9
#: The same of many parameters, where the decrement is less exact.
_TOL_OF_BLOCKS = 5e-10
#: A step that cuts the decrement by less than this calls for a new Hessian.
_LEAST_CUT = 8.0
#: What rounding may leave of the decrement.
_ACCEPTED = 1e-8
#: Entries of a block's temporaries, which then stay in cache.
_BLOCK_ENTRIES = 1 << 16
#: Most parameters of which a full Hessian is computed, and the multiplications that one may cost.
_DENSE = 700
_HESSIAN_WORK = 1 << 27
#: Least and most rows of a sample that stands for all.
_LEAST_SAMPLE = 2_000
_MOST_SAMPLE = 16_000
_MEMORY = 12
#: Variance of a column as a share of its mean square, at least, for a first matrix whose rounding is small.
_LEAST_VARIANCE = 1e-6
#: Prior of the penalty's strength: median, standard deviation of its logarithm; range and number of values tried.
PRIOR_PENALTY = 2.0
_PRIOR_SPREAD = 1.5
_PRIOR_RANGE = 6.0
_PRIOR_STEPS = 61
#: Fits after each of which the strength is chosen again.
_ROUNDS = 2
#: Total weights are moved between this and its inverse, so that penalties stay in the range of float64.
_LEAST_TOTAL = 1e-100

#: The product of a gradient with the inverse of a Hessian, or about that.
Solve: TypeAlias = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True)
class SoftmaxProblem(ABC):
    """Minimise sum_i w_i (log sum_k exp(z_ik) - z_i,y_i) + sum_j penalty_j (theta_j - centre_j)^2 / 2.

    `x`, of shape (n, K), and `theta` give the logits z; `weight` sums to one. The parameters of a class lie
    along `axis` of theta, its intercept last.
    """

    axis: ClassVar[int]
    x: FloatArray
    codes: npt.NDArray[np.integer[Any]]
    weight: FloatArray
    centre: FloatArray
    penalty: FloatArray

    @abstractmethod
    def logits(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        """Return new logits of rows `x`, shape (K, m): sums over classes, down a column, are fast."""

    @abstractmethod
    def pull_back(self, x: FloatArray, residual: FloatArray) -> FloatArray:
        """Return the gradient over theta where that over the logits is `residual`, shape (K, m)."""

    @abstractmethod
    def curvature(self, x: FloatArray, q: FloatArray, w: FloatArray) -> FloatArray:
        """Return the Hessian over theta flattened, at probabilities `q`, shape (K, m), of rows `x`."""

    @abstractmethod
    def moments(self, x: FloatArray, bend: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return sums of w q (1 - q), `bend`, times what a parameter multiplies, and times its square, as theta."""

    def near_inverse(self, theta: FloatArray) -> Solve:
        """Return the product with the inverse of about each class's own block of the Hessian, for those that are large.

        A block is the sum over rows of w q (1 - q) times x x', where x is what the parameters of the class multiply.
        With m the sum of these weights, u and v the means and variances of x under them, and covariances left out, it
        is m (diag(v) + u u'), whose inverse is that of Sherman and Morrison (1950). Without u u' the search would take
        many steps: the mean of a class's own column is far from 0 under these weights.
        """
        mean, square = np.zeros_like(self.penalty), np.zeros_like(self.penalty)
        for block in self._blocks(1):
            x = self.x[block]
            q = _softmax_in_place(self.logits(x, theta))
            q -= q * q
            q *= self.weight[block]
            for total, more in zip((mean, square), self.moments(x, q), strict=True):
                total += more
        axis = self.axis
        mass = np.maximum(np.take(mean, [-1], axis), TINY)
        mean /= mass
        rest = np.maximum(square - mass * mean * mean, _LEAST_VARIANCE * square) + self.penalty
        along = mean / rest
        share = mass / (1.0 + mass * (mean * along).sum(axis=axis, keepdims=True))
        return lambda g: g / rest - along * (share * (along * g).sum(axis=axis, keepdims=True))

    def value_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient."""
        off = theta - self.centre
        value = 0.5 * float((self.penalty * off * off).sum())
        gradient = self.penalty * off
        for block in self._blocks(1):
            x, w = self.x[block], self.weight[block]
            at = self.codes[block], np.arange(w.size)
            z = self.logits(x, theta)
            z -= z.max(axis=0)
            chosen = z[at]
            np.exp(z, out=z)
            total = z.sum(axis=0)
            value += dot(w, np.log(total) - chosen)
            z *= w / total
            z[at] -= w
            gradient += self.pull_back(x, z)
        return value, gradient

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the Hessian over theta flattened."""
        out = np.diag(self.penalty.ravel())
        for block in self._blocks(theta.size // self.x.shape[1]):
            x = self.x[block]
            out += self.curvature(x, _softmax_in_place(self.logits(x, theta)), self.weight[block])
        return out

    def few(self) -> Self:
        """Return the problem itself, or that of a sample of rows, so many that a Hessian costs little.

        The sample has a fixed seed; it is random since rows may come in any order.
        """
        n = min(max(_HESSIAN_WORK // self.centre.size**2, _LEAST_SAMPLE), _MOST_SAMPLE)
        if self.codes.size <= 2 * n:
            return self
        drawn = np.random.default_rng(0).integers(0, self.codes.size, n)
        w = self.weight[drawn]
        return type(self)(self.x[drawn], self.codes[drawn], w / w.sum(), self.centre, self.penalty)

    def _blocks(self, entries_per_class: int) -> list[slice]:
        n, k = self.x.shape
        size = max(32, _BLOCK_ENTRIES // (k * entries_per_class))
        return [slice(start, start + size) for start in range(0, n, size)]


class MatrixProblem(SoftmaxProblem):
    """Logits z = x W' + b; theta, of shape (K, K + 1), holds W and then b."""

    __slots__ = ()
    axis: ClassVar[int] = 1

    def logits(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        z: FloatArray = theta[:, :-1] @ x.T
        z += theta[:, -1:]
        return z

    def pull_back(self, x: FloatArray, residual: FloatArray) -> FloatArray:
        return np.column_stack((residual @ x, residual.sum(axis=1)))

    def curvature(self, x: FloatArray, q: FloatArray, w: FloatArray) -> FloatArray:
        """Return the Hessian over the rows of (W, b), one after the other.

        The part of one class and another is minus the sum of w q_j q_k times the products of their columns: of all
        classes at once it is a matrix times its own transpose, of which BLAS computes one triangle.
        """
        n, k = x.shape
        ones = np.vstack((x.T, np.ones(n)))
        root = np.sqrt(w)
        spread = ((q * root)[:, None, :] * ones).reshape(-1, n)
        out = spread @ spread.T
        np.negative(out, out=out)
        ones *= root
        for j in range(k):
            own = slice(j * (k + 1), (j + 1) * (k + 1))
            out[own, own] += spread[own] @ ones.T
        return out

    def moments(self, x: FloatArray, bend: FloatArray) -> tuple[FloatArray, FloatArray]:
        total = bend.sum(axis=1)
        return np.column_stack((bend @ x, total)), np.column_stack((bend @ (x * x), total))


class VectorProblem(SoftmaxProblem):
    """Logits z_k = a_k x_k + b_k; theta, of shape (2, K), holds a and b."""

    __slots__ = ()
    axis: ClassVar[int] = 0

    def logits(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        z: FloatArray = x.T * theta[0][:, None]
        z += theta[1][:, None]
        return z

    def pull_back(self, x: FloatArray, residual: FloatArray) -> FloatArray:
        return np.vstack((np.einsum("ki,ki->k", x.T, residual), residual.sum(axis=1)))

    def curvature(self, x: FloatArray, q: FloatArray, w: FloatArray) -> FloatArray:
        """Return the Hessian over a and then b."""
        k = x.shape[1]
        bend = q * w
        spread = np.vstack((x.T * q, q)) * np.sqrt(w)
        out = -(spread @ spread.T)
        at = np.arange(k)
        first = bend * x.T
        out[at, at] += np.einsum("ki,ki->k", first, x.T)
        out[at, k + at] += first.sum(axis=1)
        out[k + at, at] += first.sum(axis=1)
        out[k + at, k + at] += bend.sum(axis=1)
        return out

    def moments(self, x: FloatArray, bend: FloatArray) -> tuple[FloatArray, FloatArray]:
        total, first = bend.sum(axis=1), bend * x.T
        return np.vstack((first.sum(axis=1), total)), np.vstack((np.einsum("ki,ki->k", first, x.T), total))


@dataclass(frozen=True, slots=True)
class StreamedSoftmax:
    """A problem whose rows are read again for each evaluation: `total` sums over problems of all, without a penalty."""

    sample: SoftmaxProblem
    total: Callable[[Callable[[SoftmaxProblem], Any]], Any]
    centre: FloatArray
    penalty: FloatArray

    def value_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient."""
        off = theta - self.centre
        value, gradient = self.total(lambda part: part.value_gradient(theta))
        return value + 0.5 * float((self.penalty * off * off).sum()), gradient + self.penalty * off

    def few(self) -> SoftmaxProblem:
        """Return the problem of the sample, which a Hessian is made of."""
        return replace(self.sample, penalty=self.penalty)


AnyProblem: TypeAlias = SoftmaxProblem | StreamedSoftmax


@dataclass(frozen=True, slots=True)
class SoftmaxFit:
    """The minimiser, the strength of the penalty, and the product with about the inverse of the Hessian there.

    The fit to most of the same rows may start from it.
    """

    theta: FloatArray
    penalty: float
    solve: Solve | None


def fit_softmax(
    problem: AnyProblem, total: float, penalty: float | None, *, what: str, near: SoftmaxFit | None = None
) -> SoftmaxFit:
    """Return the minimiser, and the strength of the penalty: the one given, or the one of most evidence.

    Minimised is `total`, the weight of all rows, times the mean loss plus strength times the problem's own `penalty`,
    which is that of strength 1, in rows. The search starts from its `centre`, or from the fit of a problem that is
    `near`. With a `penalty` of None the strength is chosen; where a Hessian would be too large for that, it is the
    prior's median.
    """
    total = min(max(total, _LEAST_TOTAL), 1.0 / _LEAST_TOTAL)
    unit = problem.penalty / total
    strength = PRIOR_PENALTY if penalty is None else penalty
    theta, solve = (problem.centre, None) if near is None else (near.theta, near.solve)
    if penalty is None and theta.size <= _DENSE:
        for _ in range(_ROUNDS):
            tried = replace(problem, penalty=strength * unit)
            theta, _, _ = _solve(tried, theta, solve, tol=_TOL_OF_CHOICE)
            strength, theta, solve = _most_evidence(tried, theta, unit, total, strength)
    tol = None if near is None else _TOL_OF_NEAR
    theta = minimise(replace(problem, penalty=strength * unit), theta, what=what, solve=solve, tol=tol)
    return SoftmaxFit(theta, strength, solve)


def _most_evidence(
    problem: AnyProblem, theta: FloatArray, unit: FloatArray, total: float, strength: float
) -> tuple[float, FloatArray, Solve]:
    """Return the strength of most evidence, about where it moves `theta`, and the inverse of the Hessian there.

    `theta` is the minimiser of `strength`. Along the axes of the Hessian, in coordinates of unit penalty, with
    curvatures e: if the likelihood is a parabola, the minimiser t of strength s0 moves to u = t (e + s0) / (e + s) with
    strength s.
    """
    from scipy.linalg import eigh

    root = np.sqrt(unit * total).ravel()
    likelihood = total * (problem.few().hessian(theta) - np.diag(problem.penalty.ravel()))
    curvature, axes = eigh(likelihood / np.outer(root, root), overwrite_a=True, check_finite=False)
    curvature = np.maximum(curvature, 0.0)
    t = axes.T @ (root * (theta - problem.centre).ravel())
    logs = np.linspace(np.log(PRIOR_PENALTY) - _PRIOR_RANGE, np.log(PRIOR_PENALTY) + _PRIOR_RANGE, _PRIOR_STEPS)
    s = np.exp(logs)[:, None]
    u = t * (curvature + strength) / (curvature + s)
    loss = -strength * t * (u - t) + 0.5 * curvature * (u - t) ** 2 + 0.5 * s * u * u
    evidence = (0.5 * np.log(s / (curvature + s)) - loss).sum(axis=1)
    evidence -= 0.5 * ((logs - np.log(PRIOR_PENALTY)) / _PRIOR_SPREAD) ** 2
    share = np.exp(evidence - evidence.max())
    chosen = float(np.exp(dot(share, logs) / share.sum()))
    moved = (axes @ (t * (curvature + strength) / (curvature + chosen))) / root

    def solve(g: FloatArray) -> FloatArray:
        along = axes.T @ (g.ravel() / root)
        step = total * (axes @ (along / (curvature + chosen))) / root
        return np.asarray(step.reshape(g.shape))

    return chosen, problem.centre + moved.reshape(theta.shape), solve


def minimise(
    problem: AnyProblem, start: FloatArray, *, what: str, solve: Solve | None = None, tol: float | None = None
) -> FloatArray:
    """Return the minimiser; warn with ConvergenceWarning where the iteration stops short of it.

    `solve` is the product with about the inverse of the Hessian, where it is known.
    """
    theta, decrement, n_iter = _solve(problem, start, solve, tol=tol)
    if decrement > _ACCEPTED:
        warn(
            f"{what}: Newton decrement {decrement:.2e} > tol {_ACCEPTED:.0e} after {n_iter} iterations; "
            "the scores may separate the classes: pass a larger penalty",
            ConvergenceWarning,
        )
    return theta


def _solve(
    problem: AnyProblem, start: FloatArray, solve: Solve | None, *, tol: float | None = None
) -> tuple[FloatArray, float, int]:
    """Run L-BFGS from the inverse Hessian of all rows where it costs little, else from that of a sample or blocks."""
    few = problem.few()
    if start.size > _DENSE:
        return _descend(problem, start, few.near_inverse, None, tol or _TOL_OF_BLOCKS, renews=False)
    is_all = few is problem
    tol = tol or (_TOL if is_all else _TOL_OF_MANY)
    return _descend(problem, start, lambda theta: _solver(few.hessian(theta)), solve, tol, renews=is_all)


def _solver(hessian: FloatArray) -> Solve:
    """Return the solution of systems with a Hessian, which is singular where a shift of all logits has no penalty."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    ridge = 1e-13 * max(float(np.trace(hessian)), 1e-300)
    while True:
        try:
            factor = cho_factor(hessian + ridge * np.eye(hessian.shape[0]), lower=True, check_finite=False)
            return lambda g: np.asarray(cho_solve(factor, g.ravel(), check_finite=False)).reshape(g.shape)
        except LinAlgError:
            ridge *= 100.0


def _descend(
    problem: AnyProblem,
    theta: FloatArray,
    invert: Callable[[FloatArray], Solve],
    solve: Solve | None,
    tol: float,
    *,
    renews: bool,
) -> tuple[FloatArray, float, int]:
    """Return the minimiser, the last decrement and the number of iterations of L-BFGS.

    Its first matrix is `solve`, or that of `invert` at the start; where it `renews` it, it is computed again as soon as
    a step has cut the decrement by too little.
    """
    pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=_MEMORY)
    value, gradient = problem.value_gradient(theta)
    is_new = solve is None
    solve = invert(theta) if solve is None else solve
    decrement = np.inf
    for n_iter in range(1, _MAX_ITER + 1):
        step, before = _two_loops(gradient, pairs, solve), decrement
        decrement = float((gradient * step).sum())
        if renews and not is_new and decrement > tol and decrement * _LEAST_CUT > before:
            solve, is_new = invert(theta), True
            pairs.clear()
            step = solve(gradient)
            decrement = float((gradient * step).sum())
        if decrement <= (max(tol, _TOL_OF_NEW) if is_new and renews else tol):
            return theta - step, decrement, n_iter
        share = 1.0
        while True:
            tried = theta - share * step
            new_value, new_gradient = problem.value_gradient(tried)
            if new_value <= value - 1e-4 * share * decrement + 4.0 * EPS * abs(value):
                break
            share *= 0.5
            if share < 1e-10:  # no descent left beyond rounding
                return theta, decrement, n_iter
        move, change = tried - theta, new_gradient - gradient
        inner = float((move * change).sum())
        if inner > 0.0:
            pairs.append((move, change, inner))
        theta, value, gradient, is_new = tried, new_value, new_gradient, False
    return theta, decrement, _MAX_ITER


def _two_loops(gradient: FloatArray, pairs: deque[tuple[FloatArray, FloatArray, float]], solve: Solve) -> FloatArray:
    """Return the L-BFGS step (Nocedal and Wright 2006, algorithm 7.4) whose first matrix `solve` applies."""
    step = gradient.copy()
    shares = []
    for move, change, inner in reversed(pairs):
        share = float((move * step).sum()) / inner
        step -= share * change
        shares.append(share)
    step = solve(step)
    for (move, change, inner), share in zip(pairs, reversed(shares), strict=True):
        step += (share - float((change * step).sum()) / inner) * move
    return step


def _softmax_in_place(z: FloatArray) -> FloatArray:
    z -= z.max(axis=0)
    np.exp(z, out=z)
    z /= z.sum(axis=0)
    return z
