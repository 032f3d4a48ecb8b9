"""Raking: against SciPy's general solver, the form of the answer, and the isotonic version."""

from __future__ import annotations

import contextlib
import os
import warnings
from pathlib import Path

import clarabel
import numpy as np
import pandas as pd
import pytest
from exact_matrices import order_rows, sum_rows
from scipy import sparse
from scipy.optimize import linprog, minimize

from calibrant.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError
from calibrant.rank_preserving import rake


def least_divergence(P: np.ndarray, margins: np.ndarray, weight: np.ndarray, *, keep_order: bool) -> np.ndarray:
    """Return the nearest matrix in Kullback-Leibler divergence, by sequential quadratic programming."""
    n, k = P.shape
    w = np.repeat(weight, k)
    sums = np.vstack((np.kron(np.eye(n), np.ones(k)), np.kron(weight, np.eye(k))[:-1]))
    target = np.concatenate((np.ones(n), margins[:-1]))
    p = P.ravel()
    constraints = [{"type": "eq", "fun": lambda q: sums @ q - target, "jac": lambda _: sums}]
    if keep_order:
        rows = order_rows(P)
        constraints.append({"type": "ineq", "fun": lambda q: rows @ q, "jac": lambda _: rows})
    found = minimize(
        lambda q: float(np.sum(w * (q * np.log(q / p) - q + p))),
        np.tile(margins / weight.sum(), (n, 1)).ravel(),
        jac=lambda q: w * np.log(q / p),
        bounds=[(1e-12, 1.0)] * p.size,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 2_000},
    )
    assert found.success, found.message
    return found.x.reshape(n, k)


def least_divergence_of_cones(P: np.ndarray, margins: np.ndarray) -> float:
    """Return the least divergence with the order of P kept, by Clarabel's exponential cones (Q, and bounds t of it)."""
    n, k = P.shape
    m = n * k
    sums = np.hstack((sum_rows(n, k, np.ones(n))[:-1], np.zeros((n + k - 1, m))))
    entry = np.arange(m).reshape(n, k)
    steps = []
    for j in range(k):
        by_size = entry[np.argsort(P[:, j]), j]
        rows = np.zeros((n - 1, 2 * m))
        rows[np.arange(n - 1), by_size[:-1]] = 1.0
        rows[np.arange(n - 1), by_size[1:]] = -1.0
        steps.append(rows)
    cones = np.zeros((3 * m, 2 * m))  # (-t, q, p): q exp(-t / q) <= p
    cones[3 * np.arange(m), m + np.arange(m)] = 1.0
    cones[3 * np.arange(m) + 1, np.arange(m)] = -1.0
    limits = np.zeros(3 * m)
    limits[2::3] = P.ravel()
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((2 * m, 2 * m)),
        np.repeat([0.0, 1.0], m),
        sparse.csc_matrix(np.vstack((sums, *steps, cones))),
        np.concatenate((np.ones(n), margins[:-1], np.zeros((n - 1) * k), limits)),
        [clarabel.ZeroConeT(n + k - 1), clarabel.NonnegativeConeT((n - 1) * k), *[clarabel.ExponentialConeT()] * m],
        settings,
    ).solve()
    assert str(solution.status) == "Solved"
    return float(solution.obj_val)


def softmax_outputs(n: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return confident predictions of `k` classes, as networks make them, and the classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    z = rng.normal(0.0, 1.5, (n, k))
    z[np.arange(n), y] += rng.gamma(4.0, 2.2, n)
    P = np.exp(z - z.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True), y


def margins_of(P: np.ndarray, y: np.ndarray, target: str) -> np.ndarray:
    """Return the counts of the classes, equal ones, or ones far from what P sums to."""
    n, k = P.shape
    if target == "true":
        return np.bincount(y, minlength=k).astype(float)
    if target == "uniform":
        return np.full(k, n / k)
    far = P.sum(axis=0) * np.exp(0.8 * np.random.default_rng(77).normal(size=k))
    return far * (n / far.sum())


def assert_nearest_in_order(P: np.ndarray, margins: np.ndarray) -> None:
    """Assert that `rake` meets the sums to its `tol`, keeps the order exactly, and proves its divergence to 0.01%."""
    found = rake(P, margins, keep_order=True, on_mismatch="rescale")
    assert found.converged
    assert max(found.row_residual, found.margin_residual) <= 1e-8
    assert found.divergence - found.bound <= max(1e-4 * found.divergence, 1e-8 * len(P))
    for p, q in zip(P.T, found.Q.T, strict=True):
        order = np.argsort(p, kind="stable")
        assert (np.diff(q[order]) >= 0.0).all()
        assert (np.diff(q[order])[np.diff(p[order]) == 0.0] == 0.0).all()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("keep_order", [False, True])
def test_answer_is_scipys(seed: int, keep_order: bool) -> None:
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(3, 7)), int(rng.integers(2, 4))
    P = rng.dirichlet(np.full(k, 2.0), n)
    if seed % 2:
        P[1] = P[0]  # equal entries stay equal
    weight = rng.integers(1, 4, n).astype(float) if seed % 3 else np.ones(n)
    margins = rng.dirichlet(np.full(k, 5.0)) * weight.sum()
    found = rake(P, margins, keep_order=keep_order, sample_weight=weight, tol=1e-9, max_iter=50_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # SciPy's, of steps that it cuts at its bounds
        expected = least_divergence(P, margins, weight, keep_order=keep_order)
    assert found.converged
    np.testing.assert_allclose(found.Q, expected, atol=2e-5)
    divergence = float(np.sum(weight[:, None] * expected * np.log(expected / P)))
    assert found.divergence == pytest.approx(divergence, rel=1e-5, abs=1e-8)
    if keep_order:
        assert (order_rows(P) @ found.Q.ravel() >= -1e-12).all()


@pytest.mark.parametrize("keep_order", [False, True])
def test_bound_is_proven_and_met(keep_order: bool) -> None:
    rng = np.random.default_rng(11)
    for seed in range(6):
        P = rng.dirichlet(np.full(3, 1.0), 6)
        weight = rng.integers(1, 4, 6).astype(float)
        margins = rng.dirichlet(np.full(3, 5.0)) * weight.sum()
        least = rake(P, margins, keep_order=keep_order, sample_weight=weight, tol=1e-10, max_iter=20_000)
        assert least.bound == pytest.approx(least.divergence, rel=1e-7, abs=1e-9), seed
        early = []
        for max_iter in (1, 2, 4):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                early.append(rake(P, margins, keep_order=keep_order, sample_weight=weight, max_iter=max_iter).bound)
        assert max(early) <= least.divergence * (1.0 + 1e-9)


@pytest.mark.parametrize(("n", "k"), [(200, 3), (1_000, 3), (1_000, 10)])
def test_order_is_kept_at_the_optimum_of_larger_matrices_too(n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    P = np.exp(rng.normal(size=(n, k)))
    P /= P.sum(axis=1, keepdims=True)
    rates = P.mean(axis=0) * np.exp(0.5 * rng.normal(size=k))
    found = rake(P, rates / rates.sum(), margin_kind="rates", keep_order=True, tol=1e-6)
    assert found.converged
    assert found.divergence == pytest.approx(found.bound, rel=1e-4)
    for j in range(k):
        assert (np.diff(found.Q[np.argsort(P[:, j]), j]) >= 0.0).all()
    np.testing.assert_allclose(found.Q.mean(axis=0), rates / rates.sum(), rtol=1e-12)


@pytest.mark.parametrize("target", ["true", "uniform"])  # Clarabel fails at margins that are far
@pytest.mark.parametrize("k", [3, 6])
def test_bound_and_divergence_of_softmax_outputs_enclose_the_optimum_of_clarabel(k: int, target: str) -> None:
    P, y = softmax_outputs(40, k, seed=k)
    margins = margins_of(P, y, target)
    found = rake(P, margins, keep_order=True)
    expected = least_divergence_of_cones(P, margins)
    assert found.converged
    assert found.bound <= expected * (1.0 + 1e-5)
    assert found.divergence == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("n", "k", "target"),
    [(300, 10, "true"), (300, 10, "uniform"), (300, 10, "far"), (500, 4, "uniform"), (500, 4, "far")],
)
def test_order_is_kept_at_the_optimum_of_softmax_outputs(n: int, k: int, target: str) -> None:
    P, y = softmax_outputs(n, k, seed=1)
    assert_nearest_in_order(P, margins_of(P, y, target))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["true", "uniform", "far"])
@pytest.mark.parametrize(
    ("file", "model"),
    [("hpc_cv_4class", None), ("tabular_models_fetal_health_3class", "logreg"), ("cifar10_vgg16", None)],
)
def test_order_is_kept_at_the_optimum_of_real_outputs(file: str, model: str | None, target: str) -> None:
    folder = os.environ.get("CALIBRANT_DATA")
    if not folder:
        pytest.skip(f"CALIBRANT_DATA doesn't name a folder with scores/{file}.parquet and others")
    table = pd.read_parquet(Path(folder) / "scores" / f"{file}.parquet")
    table = table if model is None else table[table["model"] == model]
    P = table.filter(regex=r"^(log)?p_?\w*$").to_numpy(dtype=float)
    P = np.exp(P) if "logp0" in table else P
    rows = np.random.default_rng(0).permutation(len(P))[: 500 if file == "cifar10_vgg16" else None]
    P, y = P[rows] / P[rows].sum(axis=1, keepdims=True), table["y"].to_numpy(dtype=int)[rows]
    assert_nearest_in_order(P, margins_of(P, y, target))


def test_too_few_iterations_leave_a_feasible_matrix_and_its_gap() -> None:
    P, y = softmax_outputs(200, 4, seed=2)
    with pytest.warns(ConvergenceWarning, match="after 100 passes the divergence, .* proven to be at least .* only"):
        found = rake(P, margins_of(P, y, "uniform"), keep_order=True, max_iter=100)
    assert not found.converged
    assert max(found.row_residual, found.margin_residual) <= 1e-8
    assert 0.0 < found.bound < found.divergence


def test_odds_of_all_rows_change_by_the_same_factor() -> None:
    P = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    q = rake(P, [25.0, 15.0, 10.0]).Q
    odds = (q[:, 0] / q[:, 1]) / (P[:, 0] / P[:, 1])
    np.testing.assert_allclose(odds, odds[0], rtol=1e-10)


def test_feasible_matrix_stays_as_it_is() -> None:
    P = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    for keep_order in (False, True):
        found = rake(P, P.sum(axis=0), keep_order=keep_order)
        np.testing.assert_allclose(found.Q, P, atol=1e-12)
        assert found.divergence < 1e-12


def test_zeros_stay_and_a_margin_of_zero_empties_its_column() -> None:
    P = np.array([[0.0, 0.4, 0.6], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    for keep_order in (False, True):
        q = rake(P, [0.6, 2.4, 0.0], keep_order=keep_order).Q
        assert q[0, 0] == 0.0
        assert (q[:, 2] == 0.0).all()
        np.testing.assert_allclose(q.sum(axis=0), [0.6, 2.4, 0.0], atol=1e-7)


def test_weight_two_equals_two_rows_and_zero_none() -> None:
    P = np.random.default_rng(1).dirichlet(np.ones(3), 20)
    frame = pd.DataFrame(np.vstack((P, P[:1])), columns=["a", "b", "c"])
    weight = np.array([1.0] + [2.0] * 19 + [0.0])
    repeated = np.vstack((P[:1], np.repeat(P[1:], 2, axis=0)))
    q = rake(frame, {"c": 9.0, "a": 20.0, "b": 10.0}, sample_weight=weight).Q
    assert q.iloc[-1].isna().all()
    expected = rake(repeated, [20.0, 10.0, 9.0]).Q
    np.testing.assert_allclose(q.iloc[1:20], expected[1::2], atol=1e-9)


@pytest.mark.slow
def test_columns_that_zeros_keep_from_their_margins_are_those_of_a_linear_programme() -> None:
    rng = np.random.default_rng(12)
    n_refused = 0
    for _ in range(60):
        n, k = int(rng.integers(3, 8)), int(rng.integers(2, 5))
        P = np.where(rng.random((n, k)) < 0.5, 0.0, rng.random((n, k)))
        P[P.sum(axis=1) == 0.0, 0] = 1.0
        P[rng.integers(n, size=k), np.arange(k)] += 0.2  # no column of zeros alone
        P /= P.sum(axis=1, keepdims=True)
        margins = rng.dirichlet(np.ones(k)) * n
        sums = np.vstack((np.kron(np.eye(n), np.ones(k)), np.kron(np.ones(n), np.eye(k))))
        bounds = [(0.0, 1.0 if p > 0.0 else 0.0) for p in P.ravel()]
        is_possible = linprog(np.zeros(n * k), A_eq=sums, b_eq=np.append(np.ones(n), margins), bounds=bounds).success
        n_refused += not is_possible
        refused = pytest.raises(InvalidInputError, match="raking leaves zeros")
        with warnings.catch_warnings(), contextlib.nullcontext() if is_possible else refused:
            warnings.simplefilter("ignore", ConvergenceWarning)
            rake(P, margins, max_iter=3_000)
    assert 10 < n_refused < 50


def test_what_cannot_be_reached_is_named() -> None:
    with pytest.raises(
        InvalidInputError, match=r"P row 1: all of its probability is in columns whose margin is 0 \(1 of"
    ):
        rake([[0.5, 0.5], [1.0, 0.0]], [0.0, 2.0])
    with pytest.raises(InvalidInputError, match=r"margins of column 0: P is 0 in all of its rows"):
        rake([[0.0, 1.0], [0.0, 1.0]], [1.0, 1.0])
    for keep_order in (False, True):
        text = (
            r"margins of columns \[1\] sum to 1.5, and the 1 of 2 rows where P is not 0 in all of them weigh 1; raking"
        )
        with pytest.raises(InvalidInputError, match=text):
            rake([[1.0, 0.0], [0.5, 0.5]], [0.5, 1.5], max_iter=200, keep_order=keep_order)
    # rows (0, a, 1 - a) and (1 - a, a, 0): the outer columns have the same sum
    with pytest.raises(InvalidInputError, match="no matrix with them keeps both the order of P and its zeros"):
        rake([[0.0, 0.5, 0.5], [0.5, 0.5, 0.0]], [0.9, 0.4, 0.7], keep_order=True)
    with pytest.warns(ConvergenceWarning, match="after 1 passes row sums are .* off, above tol=1e-08. Raise max_iter"):
        assert not rake([[0.7, 0.3], [0.5, 0.5]], [0.5, 1.5], max_iter=1).converged
    with pytest.raises(InvalidTypeError, match="keep_order=1 is "):
        rake([[0.5, 0.5], [0.2, 0.8]], [1.0, 1.0], keep_order=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"tol=0.0 is "):
        rake([[0.5, 0.5], [0.2, 0.8]], [1.0, 1.0], tol=0.0)
    with pytest.raises(InvalidTypeError, match="tol='x' is not a number"):
        rake([[0.5, 0.5], [0.2, 0.8]], [1.0, 1.0], tol="x")  # type: ignore[arg-type]
