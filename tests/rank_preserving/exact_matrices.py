"""The nearest rank-preserving matrix of small problems by another road: an active set, in exact arithmetic's stead.

A projection onto a polyhedron is a least-distance problem, and that is one call of non-negative least squares (Lawson
and Hanson, Solving Least Squares Problems, chapter 23).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import nnls


def order_rows(P: np.ndarray, ties: str = "equal") -> np.ndarray:
    """Return the rows a of a . vec(Q) >= 0 that say that Q keeps the order of P (K minor)."""
    n, k = P.shape
    rows = []
    for j in range(k):
        for a in range(n):
            for b in range(n):
                if a != b and (P[a, j] <= P[b, j] if ties == "equal" else P[a, j] < P[b, j]):
                    row = np.zeros((n, k))
                    row[a, j], row[b, j] = -1.0, 1.0
                    rows.append(row.ravel())
    return np.array(rows).reshape(-1, n * k)


def nearest(
    P: np.ndarray, margins: np.ndarray, *, weight: np.ndarray | None = None, ties: str = "equal", slack: float = 0.0
) -> np.ndarray:
    """Return the nearest Q >= 0 with row sums 1, column totals `margins` and the order of P broken by `slack`."""
    n, k = P.shape
    w = np.ones(n) if weight is None else weight
    root = np.repeat(np.sqrt(w), k)
    sums = np.vstack((np.kron(np.eye(n), np.ones(k)), np.kron(w, np.eye(k))))
    order = order_rows(P, ties)
    inequalities = np.vstack((np.eye(n * k), order))
    limits = np.concatenate((np.zeros(n * k), np.full(len(order), -slack)))
    start = np.tile(margins / w.sum(), (n, 1)).ravel()  # equal rows: feasible
    basis = null_space(sums / root)  # in z = root x the objective is a plain distance
    middle = basis @ (basis.T @ (root * (P.ravel() - start))) + root * start
    g = (inequalities / root) @ basis
    h = limits - (inequalities / root) @ middle
    if not len(g) or not g.size:
        return (middle / root).reshape(n, k)
    system = np.vstack((g.T, h))
    u, _ = nnls(system, np.append(np.zeros(basis.shape[1]), 1.0), maxiter=200 * len(h))
    r = system @ u - np.append(np.zeros(basis.shape[1]), 1.0)
    y = -r[:-1] / r[-1]
    return ((middle + basis @ y) / root).reshape(n, k)
