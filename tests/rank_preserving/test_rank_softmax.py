"""Confident outputs of networks: rows near the corners, where the order leaves least room."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from calibrant import kernels
from calibrant.errors import ConvergenceWarning
from calibrant.rank_preserving import RankPreservingResult, projection, solve, splitting
from calibrant.rank_preserving.certificate import Certificate
from calibrant.rank_preserving.problem import affine_feasible_point, check_problem, check_rows, unsorted
from calibrant.rank_preserving.projection import approach, mix_in
from calibrant.rank_preserving.result import StoppingCriteria
from calibrant.rank_preserving.splitting import split


def confident(n: int, k: int = 10, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of a confident network of which 9% of the classes are others, and their counts."""
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=n)
    z = rng.normal(0.0, 1.5, (n, k))
    z[np.arange(n), y] += rng.gamma(4.0, 2.2, n)
    others = rng.random(n) < 0.09
    y[others] = rng.integers(k, size=int(others.sum()))
    return softmax(z, axis=1), np.bincount(y, minlength=k).astype(float)


def assert_feasible(result: RankPreservingResult, P: np.ndarray, margins: np.ndarray) -> None:
    Q = result.Q
    assert Q.min() >= 0.0
    assert np.abs(Q.sum(axis=1) - 1.0).max() <= 1e-9
    assert np.abs(Q.sum(axis=0) - margins).max() <= 1e-9 * len(P)
    for p, q in zip(P.T, Q.T, strict=True):
        assert (np.diff(q[np.argsort(p, kind="stable")]) >= -1e-12).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [100, 300, 1_000])
def test_confident_rows_converge(n: int, seed: int) -> None:
    P, counts = confident(n, seed=seed)
    for margins in (counts, np.full(10, n / 10)):
        result = solve(P, margins)
        assert result.converged, result.stuck
        assert result.gap <= 1e-4
        assert_feasible(result, P, margins)


@pytest.mark.slow
def test_three_thousand_confident_rows_converge() -> None:
    P, counts = confident(3_000)
    result = solve(P, counts)
    assert result.converged, result.stuck
    assert_feasible(result, P, counts)


@pytest.mark.parametrize("seed", range(2))
def test_a_small_gap_on_request(seed: int) -> None:
    P, counts = confident(300, seed=seed)
    assert solve(P, counts, gap_tol=1e-6, max_iter=50_000).gap <= 1e-6


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_recomputed_in_rationals_is_below_every_feasible_objective(seed: int) -> None:
    """The least value of the Lagrangian at the multipliers, by pooling in exact arithmetic."""
    P, counts = confident(12, 4, seed)
    problem = check_problem(check_rows(P, None), counts)
    columns = problem.columns()
    certificate = Certificate(columns, StoppingCriteria(1e-9, 1e-6, 1e-6))
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    take = certificate.take_bound
    certificate.take_bound = lambda m: (seen.append(m), take(m))[1]  # type: ignore[method-assign]
    split(columns, certificate, max_iter=500, by_row=True)
    best = solve(P, counts, gap_tol=1e-9, max_iter=50_000)
    for rows, prices in seen[-5:]:
        off = 2.0 * (np.abs(rows).sum() * best.row_residual + 12.0 * np.abs(prices).sum() * best.margin_residual)
        assert lagrangian(P, counts, rows, prices) <= Fraction(best.objective + off) + Fraction(1, 10**14)


def lagrangian(P: np.ndarray, margins: np.ndarray, rows: np.ndarray, prices: np.ndarray) -> Fraction:
    """Return the least of |Q - P|^2 + 2 y (row sums - 1) + 2 v (totals - margins) over rising Q >= 0."""
    y, v = [Fraction(a) for a in rows.tolist()], [Fraction(a) for a in prices.tolist()]
    value = -2 * sum(y) - 2 * sum(a * Fraction(m) for a, m in zip(v, margins.tolist(), strict=True))
    for j in range(P.shape[1]):
        blocks: list[list[Fraction | int]] = []
        order = np.argsort(P[:, j], kind="stable")
        for i in order:
            blocks.append([Fraction(P[i, j]) - y[i] - v[j], 1])
            while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
                total, count = blocks.pop()
                blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + count]
        levels = [max(total / count, Fraction(0)) for total, count in blocks for _ in range(int(count))]
        for i, q in zip(order, levels, strict=True):
            value += (q - Fraction(P[i, j])) ** 2 + 2 * (y[i] + v[j]) * q
    return value


def real(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and labels of a real model."""
    folder = os.environ.get("CALIBRANT_DATA")
    if folder is None:
        pytest.skip("CALIBRANT_DATA doesn't name a folder with scores/cifar10_vgg16.parquet and others")
    import pandas as pd

    data = pd.read_parquet(Path(folder) / "scores" / f"{name}.parquet")
    if "model" in data:
        data = data[data["model"] == "logreg"]
    logs = [column for column in data if column.startswith("logp")]
    P = np.exp(data[logs].to_numpy(float)) if logs else data.filter(regex="^p").to_numpy(float)
    return P / P.sum(axis=1, keepdims=True), data["y"].to_numpy().astype(int)


@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("cifar10_vgg16", 300),
        ("cifar10_vgg16", 1_000),
        ("hpc_cv_4class", 3_467),
        ("tabular_models_digits_10class", 1_000),
        ("tabular_models_fetal_health_3class", 1_000),
        ("cifar100_wideresnet_16_4", 300),
    ],
)
@pytest.mark.parametrize("target", ["counts", "equal", "far"])
def test_real_outputs_converge(name: str, n: int, target: str) -> None:
    P, y = real(name)
    rows = np.random.default_rng(0).permutation(len(P))[:n]
    P, y = P[rows], y[rows]
    k = P.shape[1]
    margins = {
        "counts": np.bincount(y, minlength=k).astype(float),
        "equal": np.full(k, n / k),
        "far": P.sum(axis=0) * np.exp(0.8 * np.random.default_rng(1).normal(size=k)),
    }[target]
    margins *= n / margins.sum()
    result = solve(P, margins)
    assert result.converged, result.stuck
    assert_feasible(result, P, margins)


def test_steps_find_a_feasible_matrix_near_an_iterate() -> None:
    """On rows with little room, at an iterate that is a little off and has some of the affine point mixed in."""
    P, counts = confident(200)
    columns = check_problem(check_rows(P, None), counts).columns()
    work = kernels.Workspace.of(columns)
    best = solve(P, counts)
    mixed = np.sort(0.999 * best.Q + 0.001 * P, axis=0).T.copy()
    mix_in(mixed, columns, affine_feasible_point(columns), 0.01)
    near = columns.replace(p=mixed.copy())
    assert approach(near, work, tol=5e-10)
    Q = unsorted(near.p, columns.order)
    np.testing.assert_allclose(Q.sum(axis=1), 1.0, rtol=0, atol=5e-10)
    np.testing.assert_allclose(Q.sum(axis=0), counts, rtol=0, atol=5e-10 * 200)
    assert near.p.min() >= 0.0
    assert (np.diff(near.p, axis=1) >= 0.0).all()
    assert best.bound <= float(((near.p - columns.p) ** 2).sum()) < 1.1 * best.objective
    room = np.linspace(-3.0, 4.0, mixed.size).reshape(mixed.shape)
    held, again = room.astype(np.float32), columns.replace(p=mixed.copy())
    assert approach(again, work, tol=5e-10, room=room)
    np.testing.assert_array_equal(again.p, near.p)
    np.testing.assert_array_equal(room, held)
    assert not approach(columns.replace(p=mixed), work, tol=1e-18, room=room)
    np.testing.assert_array_equal(room, held)


def test_a_gap_that_is_out_of_reach_leaves_no_larger_one_than_the_default() -> None:
    P, counts = confident(600)
    by_default = solve(P, counts, gap_tol=1e-4)
    with pytest.warns(ConvergenceWarning, match="above gap_tol=1e-12"):
        result = solve(P, counts, gap_tol=1e-12, max_iter=by_default.n_iter + 200)
    assert result.gap <= 1e-4
    assert_feasible(result, P, counts)


@pytest.mark.parametrize("is_large", [False, True])
def test_it_converges_where_newton_steps_always_fail(is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    P, counts = confident(600)
    monkeypatch.setattr(projection, "project", lambda *_, **__: False)
    monkeypatch.setattr(splitting, "_LARGE", 0 if is_large else P.size + 1)
    result = solve(P, counts)
    assert result.converged, result.stuck
    assert_feasible(result, P, counts)
