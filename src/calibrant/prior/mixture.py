"""Shares of known components in a mixture: maximum likelihood by Newton's method on the simplex, certified.

Maximised is the mean log of sum_k u_k f_k over shares u >= 0 that sum to one: concave, and greater by log c where all
shares grow by c. So its maximum over the simplex is that of itself less the sum of the shares over all u >= 0, and each
quadratic model is a small non-negative least-squares problem, to whose solution a line search goes; where it doesn't
rise, a step of EM does. A few steps of EM come first. It stops where the certificate is small: for any shares u*,
value(u*) - value(u) <= log(max_k g_k) with g the gradient at u, by Jensen's inequality.

Kim, Carbonetto, Stephens and Anitescu (2020), *A fast algorithm for maximum likelihood estimation of mixture
proportions using sequential quadratic programming*, JCGS 29, sections 3.1 and 3.3. Lindsay (1983), *The geometry of
mixture likelihoods*, Annals of Statistics 11, theorem 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrant.numerics import EPS, TINY, FloatArray, dot

#: Least density that derivatives are taken at: so low that no step goes that way, its square an ordinary number.
_FLOOR = 1e-150
#: Share of the curvature's trace that is added to it, so that equal components have a solution.
_RIDGE = 1e-12
#: Gain that a full step promises below which the likelihood only has to stay, for it shows no smaller gains.
_NO_SEARCH = 1e-9


@dataclass(frozen=True, slots=True)
class Mixture:
    """Maximise the mean, by `weight`, of log(sum_k u_k columns[k]) over shares u >= 0 that sum to one.

    `columns` has shape (K, n), and the largest of each row is 1; `weight` sums to one.
    """

    columns: FloatArray
    weight: FloatArray

    def density(self, u: FloatArray) -> FloatArray:
        """Return the mixture at each row, shape (n,), of an impossible one what counts as that."""
        return np.maximum(self._sum(u), _FLOOR)

    def value(self, u: FloatArray) -> float:
        """Return the mean log-likelihood of shares `u`: minus infinity where a row is impossible, however light."""
        total = self._sum(u)
        if not total.all():
            return -np.inf
        return dot(self.weight, np.log(np.maximum(total, _FLOOR, out=total)))

    def _sum(self, u: FloatArray) -> FloatArray:
        total: FloatArray = u[0] * self.columns[0]
        for share, column in zip(u[1:], self.columns[1:], strict=True):
            total += share * column
        return total

    def gradient(self, u: FloatArray) -> FloatArray:
        """Return the derivative by each share, shape (K,); its mean by `u` is one."""
        pull = self.weight / self.density(u)
        return np.array([dot(column, pull) for column in self.columns])

    def curvature(self, u: FloatArray) -> FloatArray:
        """Return minus the second derivatives, shape (K, K)."""
        scaled = self.columns * (np.sqrt(self.weight) / self.density(u))
        k = len(scaled)
        out = np.empty((k, k))
        for i in range(k):
            out[i, : i + 1] = out[: i + 1, i] = np.einsum("ji,i->j", scaled[: i + 1], scaled[i])
        return out


class Shares(NamedTuple):
    """Shares, their mean log-likelihood, what it can lack of the largest at most, and the iterations it took."""

    shares: FloatArray
    value: float
    gap: float
    n_iter: int


def maximise(
    problem: Mixture, start: FloatArray, *, tol: float, max_iter: int, basis: FloatArray | None = None, n_em: int = 5
) -> Shares:
    """Return the most likely shares, from a positive start that sums to one, to a gap of at most `tol`.

    With `basis`, of shape (K, m), its columns summing to one, shares are ``basis @ v`` with v on the simplex, and the
    answer is v. The first `n_em` steps are of EM, which are better far from the optimum; `max_iter` counts them too.
    """
    if basis is None:
        basis = np.eye(start.size)
    v = start
    value = problem.value(basis @ v)
    best = Shares(v, value, np.inf, 0)
    for n_iter in range(max_iter + 1):
        u = basis @ v
        gradient = basis.T @ problem.gradient(u)
        best = Shares(v, value, float(np.log(max(gradient.max(), 1.0))), n_iter)
        if best.gap <= tol or n_iter == max_iter:
            break
        found = None
        if n_iter >= n_em:
            found = _search(problem, basis, v, value, gradient, _newton(problem, basis, u, gradient) - v)
        if found is None:
            v = v * gradient / float(v @ gradient)  # a step of EM, which never lowers the likelihood
            value = problem.value(basis @ v)
        else:
            v, value = found
    return best


def _newton(problem: Mixture, basis: FloatArray, u: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return the shares that are best for the quadratic model at shares `u`."""
    from scipy.optimize import nnls

    curvature = basis.T @ problem.curvature(u) @ basis
    curvature += _RIDGE * float(np.trace(curvature)) * np.eye(len(curvature))
    root = np.linalg.cholesky(curvature)
    shares: FloatArray = nnls(root.T, np.linalg.solve(root, 2.0 * gradient - 1.0))[0]
    return shares / max(float(shares.sum()), TINY)


def _search(
    problem: Mixture, basis: FloatArray, v: FloatArray, value: float, gradient: FloatArray, step: FloatArray
) -> tuple[FloatArray, float] | None:
    """Go along a step as far as the likelihood rises enough; None where it doesn't."""
    slope = float(gradient @ step)
    rounding = 4.0 * EPS * (1.0 + abs(value)) if slope <= _NO_SEARCH else 0.0
    length = 1.0
    while length * slope > 0.0 and length > 1e-6:
        tried = v + length * step
        tried /= tried.sum()
        reached = problem.value(basis @ tried)
        if reached >= value + 1e-4 * length * slope - rounding:
            return tried, reached
        length *= 0.5
    return None
