"""The solvers against an outside reference, against each other, and against the laws of the problem."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from exact_matrices import nearest
from hypothesis import given, strategies as st

from calibrant.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError
from calibrant.rank_preserving import Progress, margins_from_labels, solve

METHODS = ("adaptive", "admm", "dykstra")


def draw(seed: int, n: int, k: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and margins of one kind of problem."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(k), n)
    if kind == "ties":
        P = (
            np.diff(np.sort(np.column_stack((np.zeros(n), rng.integers(0, 5, (n, k - 1)), np.full(n, 4)))), axis=1)
            / 4.0
        )
    if kind == "sharp":
        z = np.exp(3.0 * rng.normal(size=(n, k)))
        P = z / z.sum(axis=1, keepdims=True)
    margins = P.sum(axis=0) * np.exp(rng.normal(size=k) * (0.05 if kind == "near" else 0.8))
    if kind == "tight":
        margins[0] = 0.0
    return P, margins * n / margins.sum()


def assert_feasible(Q: np.ndarray, P: np.ndarray, margins: np.ndarray, weight: np.ndarray | None = None) -> None:
    w = np.ones(len(P)) if weight is None else weight
    assert Q.min() >= 0.0
    np.testing.assert_allclose(Q.sum(axis=1), 1.0, rtol=0, atol=1e-8)
    np.testing.assert_allclose(w @ Q, margins, rtol=0, atol=1e-8 * w.sum())
    for j in range(P.shape[1]):
        rising = np.argsort(P[:, j], kind="stable")
        assert (np.diff(Q[rising, j]) >= 0.0).all()


def distance(Q: np.ndarray, P: np.ndarray, weight: np.ndarray | None = None) -> float:
    return float((((Q - P) ** 2).sum(axis=1) * (1.0 if weight is None else weight)).sum())


@pytest.mark.parametrize("kind", ["far", "near", "ties", "sharp", "tight"])
def test_optimum_of_small_problems_is_that_of_an_exact_solver(kind: str) -> None:
    for seed in range(40):
        n, k = 3 + seed % 7, 2 + seed % 3
        P, margins = draw(seed, n, k, kind)
        result = solve(P, margins, gap_tol=1e-7, max_iter=100_000)
        assert_feasible(result.Q, P, margins)
        best = distance(nearest(P, margins), P)
        assert result.objective == pytest.approx(distance(result.Q, P), rel=1e-9, abs=1e-14)
        assert result.objective <= best * (1.0 + 1e-6) + 1e-12
        assert result.bound <= best * (1.0 + 1e-9) + 1e-12


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ties", ["equal", "free"])
def test_every_method_reaches_the_optimum_with_weights_and_either_way_with_ties(method: str, ties: str) -> None:
    for seed in range(6):
        P, _ = draw(seed, 7, 3, "ties")
        weight = np.random.default_rng(seed).integers(1, 5, 7) / 2.0
        margins = weight @ P * np.array([0.6, 1.0, 1.7])
        margins *= weight.sum() / margins.sum()
        result = solve(P, margins, method=method, ties=ties, sample_weight=weight, gap_tol=1e-5, max_iter=50_000)
        best = distance(nearest(P, margins, weight=weight, ties=ties), P, weight)
        assert result.converged
        assert result.rank_residual == 0.0
        assert result.bound <= best * (1.0 + 1e-9)
        assert best * (1.0 - 1e-8) <= result.objective <= best * (1.0 + 1.1e-5)
        np.testing.assert_allclose(weight @ result.Q, margins, rtol=0, atol=1e-7)


@given(seed=st.integers(0, 10_000), n=st.integers(2, 60), k=st.integers(2, 5))
def test_the_gap_is_proven_and_the_matrix_feasible(seed: int, n: int, k: int) -> None:
    kind = ("far", "near", "ties", "sharp", "tight")[seed % 5]
    P, margins = draw(seed, n, k, kind)
    result = solve(P, margins, gap_tol=1e-3, max_iter=20_000)
    assert result.converged
    assert_feasible(result.Q, P, margins)
    assert result.objective - result.bound <= 1e-3 * max(result.objective, n * k * 1e-16)
    for j in range(k):  # equal entries of P are equal in Q
        for value in np.unique(P[:, j]):
            assert np.ptp(result.Q[P[:, j] == value, j]) == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_a_feasible_matrix_is_its_own_answer(method: str) -> None:
    P, _ = draw(1, 50, 4, "far")
    result = solve(P, P.sum(axis=0), method=method)
    np.testing.assert_allclose(result.Q, P, rtol=0, atol=1e-12)
    assert result.converged
    assert result.n_iter == 0


def test_rows_and_columns_in_another_order_get_the_same_answer() -> None:
    P, margins = draw(3, 40, 4, "far")
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(40), rng.permutation(4)
    one = solve(P, margins, gap_tol=1e-9, max_iter=100_000).Q
    other = solve(P[rows][:, columns], margins[columns], gap_tol=1e-9, max_iter=100_000).Q
    np.testing.assert_allclose(other, one[rows][:, columns], rtol=0, atol=2e-5)


def test_weight_two_is_two_rows_and_weight_zero_none() -> None:
    P, margins = draw(4, 20, 3, "far")
    weight = np.array([2.0, 1.0, 0.0, 1.0] * 5)
    copies = np.repeat(np.arange(20), weight.astype(int))
    total = margins * weight.sum() / 20.0
    weighted = solve(P, total, sample_weight=weight, gap_tol=1e-9, max_iter=100_000)
    repeated = solve(P[copies], total, gap_tol=1e-9, max_iter=100_000)
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-8)
    np.testing.assert_allclose(weighted.Q[copies], repeated.Q, rtol=0, atol=2e-5)
    assert np.isnan(weighted.Q[weight == 0.0]).all()


def test_same_input_gives_the_same_bits() -> None:
    P, margins = draw(5, 300, 3, "near")
    assert np.array_equal(solve(P, margins).Q, solve(P, margins).Q)


@pytest.mark.parametrize("method", METHODS)
def test_an_early_stop_is_feasible_and_says_so(method: str) -> None:
    P, margins = draw(6, 2_000, 3, "near")
    with pytest.warns(ConvergenceWarning, match=rf"{method} stopped after 40 iterations with a gap of .* is feasible"):
        result = solve(P, margins, method=method, max_iter=40, gap_tol=1e-6)
    assert not result.converged
    assert 1e-6 < result.gap < 1.0
    assert_feasible(result.Q, P, margins)


def test_bounds_rise_and_the_callback_sees_every_check() -> None:
    P, margins = draw(7, 500, 3, "far")
    seen: list[Progress] = []
    result = solve(P, margins, callback=seen.append)
    assert tuple(seen) == result.history
    bounds = [check.bound for check in seen]
    assert bounds == sorted(bounds)
    assert seen[-1].n_iter == result.n_iter
    assert all(check.bound <= result.objective for check in seen)


# --- groups --------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(3)
TABLE = RNG.dirichlet(np.ones(3), 120)
BY = np.array(["north", "south", "south"] * 40)


def test_groups_are_problems_of_their_own() -> None:
    targets = {"north": [16.0, 12.0, 12.0], "south": [16.0, 24.0, 40.0]}
    weight = RNG.integers(1, 3, 120).astype(float)
    targets = {g: np.array(t) / np.sum(t) for g, t in targets.items()}
    whole = solve(TABLE, targets, groups=BY, margin_kind="rates", sample_weight=weight)
    assert whole.groups is not None
    assert list(whole.groups) == ["north", "south"]
    for group, target in targets.items():
        own = BY == group
        alone = solve(TABLE[own], target, margin_kind="rates", sample_weight=weight[own])
        np.testing.assert_array_equal(whole.Q[own], alone.Q)
        assert whole.groups[group].objective == alone.objective
    parts = list(whole.groups.values())
    assert whole.converged
    assert whole.objective == pytest.approx(sum(part.objective for part in parts), rel=1e-14)
    assert whole.bound == pytest.approx(sum(part.bound for part in parts), rel=1e-14)
    assert whole.gap == pytest.approx((whole.objective - whole.bound) / whole.objective, rel=1e-12)
    assert whole.row_residual == max(part.row_residual for part in parts)
    assert whole.n_iter == sum(part.n_iter for part in parts)


def test_margins_of_groups_may_be_of_any_kind_and_keep_the_container() -> None:
    frame = pd.DataFrame(TABLE, columns=["a", "b", "c"], index=np.arange(120) + 7)
    targets = {"north": margins_from_labels(["c"] * 5 + ["a"] * 3 + ["b"] * 2), "south": {"c": 40, "a": 16, "b": 24}}
    q = solve(frame, targets, groups=pd.Series(BY)).Q
    assert list(q.index) == list(frame.index)
    np.testing.assert_allclose(q[BY == "north"].mean(axis=0), [0.3, 0.2, 0.5], atol=1e-8)
    np.testing.assert_allclose(q[BY == "south"].sum(axis=0), [16.0, 24.0, 40.0], atol=1e-6)


def test_rows_are_checked_once_and_counted_in_the_whole_matrix() -> None:
    broken = TABLE.copy()
    broken[7] *= 1.001
    with pytest.raises(InvalidInputError, match=r"^P row 7: the 3 probabilities sum to 1.001"):
        solve(broken, {"north": [16, 12, 12], "south": [16, 24, 40]}, groups=BY)


def test_group_without_weight_is_left_out() -> None:
    weight = (BY == "south").astype(float)
    result = solve(TABLE, {"north": [1, 0, 0], "south": [16, 24, 40]}, groups=BY, sample_weight=weight)
    assert result.groups is not None
    assert list(result.groups) == ["south"]
    assert np.isnan(result.Q[BY == "north"]).all()
    assert not np.isnan(result.Q[BY == "south"]).any()


def test_groups_that_do_not_converge_are_counted_and_named() -> None:
    with pytest.warns(ConvergenceWarning, match=r"2 of 2 groups did not converge, the first 'north' with a gap of"):
        result = solve(
            TABLE, {"north": [16, 12, 12], "south": [16, 24, 40]}, groups=BY, method="dykstra", max_iter=1, gap_tol=1e-9
        )
    assert not result.converged
    assert result.row_residual <= 1e-8


@pytest.mark.parametrize(
    ("margins", "groups", "message"),
    [
        ([40, 40, 40], BY, r"margins is a list without names of groups, and there are groups. Pass a dict of the"),
        (
            {"north": [16, 12, 12]},
            BY,
            r"margins has the names \['north'\], and groups \['north', 'south'\]. Give both the same names",
        ),
        ({"north": [1], "south": [1], "x": [1]}, BY, r"margins has the names .*'x'\], and groups \['north', 'south'\]"),
        ({"north": [16, 12, 12], "south": [1, 2, 3]}, BY, r"group 'south': margins \(totals\) sum to 6, and each"),
        ({"north": [16, 12, 12], "south": [1, 2, 3]}, BY[:-1], r"P has 120 rows and groups has 119"),
    ],
)
def test_wrong_groups_are_named(margins: object, groups: object, message: str) -> None:
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        solve(TABLE, margins, groups=groups)  # type: ignore[arg-type]
