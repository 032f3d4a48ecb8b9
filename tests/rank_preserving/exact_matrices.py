"""The nearest matrices of small problems by other people's solvers of quadratic programmes.

quadprog (Goldfarb and Idnani's active set) is exact to rounding; Clarabel (interior point) takes objectives with
auxiliary variables, as order violations at a price need them.
"""

from __future__ import annotations

import clarabel
import numpy as np
import quadprog
from scipy import sparse


def pairs_in_order(P: np.ndarray, ties: str = "equal") -> list[tuple[int, int, int]]:
    """Return (column, a, b) wherever the order of P says that Q_a is to be at most Q_b."""
    n, k = P.shape
    return [
        (j, a, b)
        for j in range(k)
        for a in range(n)
        for b in range(n)
        if a != b and (P[a, j] <= P[b, j] if ties == "equal" else P[a, j] < P[b, j])
    ]


def order_rows(P: np.ndarray, ties: str = "equal") -> np.ndarray:
    """Return the rows r of r . vec(Q) >= 0 that say that Q keeps the order of P (K minor)."""
    n, k = P.shape
    found = pairs_in_order(P, ties)
    rows = np.zeros((len(found), n * k))
    for row, (j, a, b) in zip(rows, found, strict=True):
        row[a * k + j], row[b * k + j] = -1.0, 1.0
    return rows


def sum_rows(n: int, k: int, weight: np.ndarray) -> np.ndarray:
    """Return the rows r of r . vec(Q) = sums: those of the rows of Q, and of its columns under the weights."""
    return np.vstack((np.kron(np.eye(n), np.ones(k)), np.kron(weight, np.eye(k))))


def nearest(
    P: np.ndarray, margins: np.ndarray, *, weight: np.ndarray | None = None, ties: str = "equal", slack: float = 0.0
) -> np.ndarray:
    """Return the nearest Q >= 0 with row sums 1, column totals `margins` and the order of P broken by `slack`."""
    n = len(P)
    used = margins > 0.0  # entries of the other columns are 0
    p, k = P[:, used], int(used.sum())
    w = np.ones(n) if weight is None else weight
    sums = sum_rows(n, k, w)[:-1]  # the last margin follows from the others
    order = order_rows(p, ties)
    rows = np.vstack((sums, np.eye(n * k), order))
    limits = np.concatenate((np.ones(n), margins[used][:-1], np.zeros(n * k), np.full(len(order), -slack)))
    each = np.repeat(w, k)
    found = quadprog.solve_qp(np.diag(each), each * p.ravel(), rows.T, limits, meq=len(sums))[0]
    q = np.zeros(P.shape)
    q[:, used] = found.reshape(n, k)
    return q


def least_cost_at_a_price(
    P: np.ndarray, margins: np.ndarray, lam: float, pairs: str, *, weight: np.ndarray | None = None, share: float = 1.0
) -> float:
    """Return the least of share x sum_i w_i |Q_i - P_i|^2 + lam x violations; "neighbours" takes no equal entries."""
    n, k = P.shape
    w = np.ones(n) if weight is None else weight
    found = pairs_in_order(P)
    if pairs == "neighbours":
        place = np.argsort(np.argsort(P, axis=0), axis=0)
        found = [(j, a, b) for j, a, b in found if place[b, j] == place[a, j] + 1]
        price = np.full(len(found), lam)
    else:
        price = lam * np.array([w[a] * w[b] for _, a, b in found])
    m, size = len(found), n * k
    violations = np.zeros((m, size))
    for row, (j, a, b) in zip(violations, found, strict=True):
        row[a * k + j], row[b * k + j] = 1.0, -1.0
    sums = sum_rows(n, k, w)[:-1]
    each = share * np.repeat(w, k)
    system = sparse.csc_matrix(
        np.block(
            [
                [sums, np.zeros((len(sums), m))],
                [violations, -np.eye(m)],
                [-np.eye(size + m)],
            ]
        )
    )
    limits = np.concatenate((np.ones(n), margins[:-1], np.zeros(2 * m + size)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    solution = clarabel.DefaultSolver(
        sparse.diags(np.concatenate((2.0 * each, np.zeros(m)))).tocsc(),
        np.concatenate((-2.0 * each * P.ravel(), price)),
        system,
        limits,
        [clarabel.ZeroConeT(len(sums)), clarabel.NonnegativeConeT(2 * m + size)],
        settings,
    ).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved")
    return float(solution.obj_val + each @ P.ravel() ** 2)
