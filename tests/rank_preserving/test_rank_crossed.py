"""Several sets of totals at once: against an interior-point solver, and what contradicts itself by name."""

from __future__ import annotations

import re
from typing import Any

import clarabel
import numpy as np
import pandas as pd
import pytest
from exact_matrices import order_rows
from hypothesis import given, strategies as st
from scipy import sparse
from scipy.optimize import linprog

from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.rank_preserving import EpsilonSlack, LambdaPenalty, Margins, RankPreservingResult, solve

Groups = dict[str, np.ndarray]


def draw(seed: int, n: int = 24, k: int = 3, spread: float = 0.3) -> tuple[np.ndarray, Groups, np.ndarray]:
    """Return rows, two crossed sets of groups, and a matrix whose totals are asked for."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(k), n)
    groups = {"region": np.array(["n", "s", "w"])[np.arange(n) % 3], "age": rng.permutation(np.arange(n) % 2)}
    wanted = P * np.exp(spread * rng.normal(size=(n, k)) + rng.normal(size=k) * spread)
    return P, groups, wanted / wanted.sum(axis=1, keepdims=True)


def totals_of(Q: np.ndarray, groups: Groups, weight: np.ndarray | None = None) -> dict[str, dict[Any, np.ndarray]]:
    w = np.ones(len(Q)) if weight is None else weight
    return {
        name: {group: (w[of == group, None] * Q[of == group]).sum(axis=0) for group in np.unique(of).tolist()}
        for name, of in groups.items()
    }


def indicators(groups: Groups, weight: np.ndarray) -> np.ndarray:
    return np.array([np.where(of == group, weight, 0.0) for of in groups.values() for group in np.unique(of).tolist()])


def least(
    P: np.ndarray,
    groups: Groups,
    wanted: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    tolerance: float = 0.0,
    slack: float = 0.0,
    floor: float = 0.0,
) -> tuple[float, np.ndarray]:
    """Return the least squared distance and its matrix by Clarabel, with orders within cells alone."""
    n, k = P.shape
    w = np.ones(n) if weight is None else weight
    cell = np.unique(
        np.column_stack([np.unique(of, return_inverse=True)[1] for of in groups.values()]), axis=0, return_inverse=True
    )[1].reshape(-1)
    order = []
    for c in np.unique(cell):
        at = np.flatnonzero(cell == c)
        inside = order_rows(P[at])
        spread = np.zeros((len(inside), n * k))
        spread[:, (at[:, None] * k + np.arange(k)).ravel()] = inside
        order.append(spread)
    rows = np.kron(np.eye(n), np.ones(k))
    sums = np.kron(indicators(groups, w), np.eye(k))
    middle = sums @ wanted.ravel()
    orders = np.vstack(order)
    if tolerance == 0.0:
        used = np.linalg.matrix_rank(np.vstack((rows, sums)))
        equal = np.vstack((rows, sums))
        assert used < len(equal)
    system = np.vstack((rows, sums, -sums, -np.eye(n * k), -orders))
    small = 1e-9 if tolerance == 0.0 else 0.0  # sums that depend on each other leave no interior
    limits = np.concatenate(
        (
            np.ones(n),
            middle + tolerance + small,
            small + tolerance - middle,
            np.full(n * k, -floor),
            np.full(len(orders), slack),
        )
    )
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    each = np.repeat(w, k)
    found = clarabel.DefaultSolver(
        sparse.diags(2.0 * each).tocsc(),
        -2.0 * each * P.ravel(),
        sparse.csc_matrix(system),
        limits,
        [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(len(limits) - n)],
        settings,
    ).solve()
    Q = np.array(found.x).reshape(n, k)
    return float((w[:, None] * (Q - P) ** 2).sum()), Q


def assert_is_best(result: RankPreservingResult, best: float, Q: np.ndarray) -> None:
    assert result.converged
    assert result.bound <= best * (1.0 + 1e-6) + 1e-9
    assert result.objective == pytest.approx(best, rel=2e-5, abs=1e-8)
    np.testing.assert_allclose(result.Q, Q, rtol=0, atol=2e-2)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("weighted", [False, True])
def test_two_crossed_sets_give_the_matrix_of_the_exact_solver(seed: int, weighted: bool) -> None:
    P, groups, wanted = draw(seed)
    weight = np.random.default_rng(seed).integers(1, 4, len(P)).astype(float) if weighted else None
    margins = totals_of(wanted, groups, weight)
    result = solve(P, margins, groups=groups, sample_weight=weight, gap_tol=1e-6)
    assert_is_best(result, *least(P, groups, wanted, weight=weight))
    found = totals_of(result.Q, groups, weight)
    for name, of in margins.items():
        for group, totals in of.items():
            np.testing.assert_allclose(found[name][group], totals, rtol=0, atol=1e-7)
    assert result.objective == pytest.approx(
        float((np.ones(len(P)) if weight is None else weight) @ ((result.Q - P) ** 2).sum(axis=1)), rel=1e-9
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", [{"tolerance": 0.1}, {"tolerance": 0.6}, {"slack": 0.03}, {"floor": 0.01}])
def test_room_slack_and_a_floor_give_the_matrix_of_the_exact_solver(seed: int, options: dict[str, float]) -> None:
    P, groups, wanted = draw(seed)
    wanted = np.maximum(wanted, 0.05) / np.maximum(wanted, 0.05).sum(axis=1, keepdims=True)
    margins: Any = totals_of(wanted, groups)
    if "tolerance" in options:
        margins = {
            name: {group: Margins(totals, tolerance=options["tolerance"]) for group, totals in of.items()}
            for name, of in margins.items()
        }
    nearly = EpsilonSlack(options["slack"]) if "slack" in options else None
    result = solve(P, margins, groups=groups, nearly=nearly, floor=options.get("floor", 0.0), gap_tol=1e-5)
    assert_is_best(result, *least(P, groups, wanted, **options))
    assert result.Q.min() >= options.get("floor", 0.0) - 1e-12
    if "floor" in options:
        free, _ = least(P, groups, wanted)
        assert result.floor_price == pytest.approx(result.objective / free - 1.0, abs=1e-4)
    if "tolerance" in options:
        assert result.sets is not None
        prices = np.concatenate([each.prices.ravel() for each in result.sets.values()])
        off = np.concatenate([(each.used - each.given).ravel() for each in result.sets.values()])
        inside = np.abs(off) < options["tolerance"] - 1e-3
        assert np.abs(prices[inside]).max(initial=0.0) < 2e-3
        assert result.binds.size == prices.size


def test_nested_sets_three_sets_and_a_price_of_order() -> None:
    rng = np.random.default_rng(3)
    n = 300
    P = rng.dirichlet(np.ones(4), n)
    district = rng.integers(0, 6, n)
    groups = {"district": district, "region": district // 2, "age": rng.integers(0, 3, n)}
    wanted = P * np.exp(0.4 * rng.normal(size=4))
    margins = totals_of(wanted / wanted.sum(axis=1, keepdims=True), groups)
    result = solve(P, margins, groups=groups)
    assert result.converged
    assert result.sets is not None
    for name, each in result.sets.items():
        np.testing.assert_allclose(each.used, np.array(list(margins[name].values())), rtol=0, atol=1e-6)
        np.testing.assert_allclose(each.given, np.array(list(margins[name].values())), rtol=1e-12)
    assert result.groups is not None
    for (of_district, _, of_age), part in result.groups.items():
        at = (district == of_district) & (groups["age"] == of_age)
        np.testing.assert_array_equal(part.Q, result.Q[at])
        for p, q in zip(P[at].T, part.Q.T, strict=True):
            assert (np.diff(q[np.argsort(p)]) >= 0.0).all()
    cheaper = solve(P, margins, groups=groups, nearly=LambdaPenalty(0.01))
    assert cheaper.converged
    assert float(((cheaper.Q - P) ** 2).sum()) < result.objective


def test_one_set_is_what_groups_are() -> None:
    P, groups, wanted = draw(5, n=90)
    region = groups["region"]
    margins = totals_of(wanted, {"region": region})
    one = solve(P, margins, groups={"region": region}, gap_tol=1e-6)
    plain = solve(P, margins["region"], groups=region, gap_tol=1e-6)
    assert one.objective == pytest.approx(plain.objective, rel=3e-6)
    np.testing.assert_allclose(one.Q, plain.Q, rtol=0, atol=1e-3)


def test_frames_of_groups_and_of_totals_are_matched_by_name() -> None:
    P, groups, wanted = draw(6, n=60)
    columns = ["a", "b", "c"]
    margins = {
        name: pd.DataFrame(of, index=columns).T[["c", "a", "b"]].iloc[::-1]
        for name, of in reversed(totals_of(wanted, groups).items())
    }
    frame = pd.DataFrame(P, columns=columns)
    expected = solve(P, totals_of(wanted, groups), groups=groups)
    result = solve(frame, margins, groups=pd.DataFrame(groups))
    np.testing.assert_array_equal(result.Q.to_numpy(), expected.Q)
    assert list(result.sets or ()) == ["region", "age"]
    assert (result.sets or {})["region"].groups == ("n", "s", "w")


def test_rows_without_weight_and_groups_without_rows_are_left_out() -> None:
    P, groups, wanted = draw(7, n=60)
    weight = np.ones(60)
    weight[groups["region"] == "w"] = 0.0
    margins = totals_of(wanted, groups, weight)
    result = solve(P, margins, groups=groups, sample_weight=weight)
    assert result.converged
    assert np.isnan(result.Q[weight == 0.0]).all()
    kept = weight > 0.0
    fewer = {name: of[kept] for name, of in groups.items()}
    alone = solve(P[kept], totals_of(wanted[kept], fewer), groups=fewer)
    np.testing.assert_array_equal(result.Q[kept], alone.Q)


def test_totals_that_sum_to_different_things_are_named() -> None:
    P, groups, wanted = draw(1)
    margins = totals_of(wanted, groups)
    margins["age"][0] = margins["age"][0] + np.array([0.5, -0.5, 0.0])
    with pytest.raises(InvalidInputError, match=r"has these 5 totals at once, though it has all but any one") as error:
        solve(P, margins, groups=groups)
    named = re.findall(r"column (\d) of (\w+) ('?\w+'?)", str(error.value))
    assert len({column for column, *_ in named}) == 1
    assert {of for _, of, _ in named} == {"region", "age"}
    within = {
        name: {group: Margins(totals, tolerance=0.11) for group, totals in of.items()} for name, of in margins.items()
    }
    assert solve(P, within, groups=groups).converged
    too_near = {
        name: {group: Margins(totals, tolerance=0.09) for group, totals in of.items()} for name, of in margins.items()
    }
    with pytest.raises(InvalidInputError, match=r"these 5 totals at once.* to .* of 8 rows"):
        solve(P, too_near, groups=groups)


def test_totals_that_contradict_each_other_are_named_as_given_with_a_floor_too() -> None:
    P, groups = draw(1)[0][:6], {"region": list("nnnsss"), "age": list("yyyooo")}
    margins: dict[str, Any] = {"region": {"n": [2.0, 0.5, 0.5], "s": [0.5, 1.25, 1.25]}}
    margins["age"] = {"y": [1.0, 1.0, 1.0], "o": [1.5, 0.75, 0.75]}
    text = r"with entries of at least 0\.1 has .*region 's' 0\.5 of 3 rows, column 0 of age 'o' 1\.5 of 3 rows"
    with pytest.raises(InvalidInputError, match=text):
        solve(P, margins, groups=groups, floor=0.1)
    margins["region"] = {group: Margins(totals, tolerance=0.1) for group, totals in margins["region"].items()}
    with pytest.raises(InvalidInputError, match=r"region 's' 0\.4 to 0\.6 of 3 rows"):
        solve(P, margins, groups=groups, floor=0.1)


def has_matrix(sums: np.ndarray, totals: np.ndarray, chosen: np.ndarray, n: int, k: int) -> bool:
    """Say by a linear programme over the entries whether a matrix has the chosen totals."""
    rows = np.kron(np.eye(n), np.ones(k))
    found = linprog(
        np.zeros(n * k), A_eq=np.vstack((rows, sums[chosen])), b_eq=np.concatenate((np.ones(n), totals[chosen]))
    )
    return bool(found.status == 0)


@given(seed=st.integers(0, 10**6))
def test_the_contradiction_that_is_named_is_one_and_the_smallest(seed: int) -> None:
    """Each named total is needed, none smaller is to be found by trying, and what is not refused is met."""
    rng = np.random.default_rng(seed)
    n, k = 10, 2
    P = rng.dirichlet(np.ones(k), n)
    groups = {"region": np.arange(n) % 2, "age": rng.permutation(np.arange(n) % 3 > 0).astype(int)}
    margins = {
        name: {
            g: np.array([part, (of == g).sum() - part])
            for g in (0, 1)
            for part in [rng.integers(0, (of == g).sum() + 1)]
        }
        for name, of in groups.items()
    }
    sums = np.kron(indicators(groups, np.ones(n)), np.eye(k))
    totals = np.concatenate([margins[name][g] for name in groups for g in (0, 1)]).astype(float)
    if has_matrix(sums, totals, np.arange(8), n, k):
        result = solve(P, margins, groups=groups)
        assert max(result.row_residual, result.margin_residual) <= 1e-9
        return
    with pytest.raises(InvalidInputError, match="no matrix of these rows has") as error:
        solve(P, margins, groups=groups)
    named = re.findall(r"column (\d) of (\w+) (\d)", str(error.value))
    place = {(name, g): 2 * i for i, (name, g) in enumerate((name, str(g)) for name in groups for g in (0, 1))}
    chosen = np.array([place[name, g] + int(column) for column, name, g in named])
    assert not has_matrix(sums, totals, chosen, n, k)
    for left_out in chosen:
        assert has_matrix(sums, totals, chosen[chosen != left_out], n, k)
    smaller = [s for s in range(256) if s.bit_count() < len(chosen)]
    for subset in smaller:
        assert has_matrix(sums, totals, np.flatnonzero([subset >> i & 1 for i in range(8)]), n, k)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"margins": [1.0, 2.0, 3.0]}, r"margins is a list, and groups has region, age\. Pass a dict"),
        ({"margins": {"region": {}, "ages": {}}}, "margins.*age"),
        ({"groups": {}}, "groups is an empty mapping"),
        ({"groups": {"region": ["n"] * 23, "age": [0] * 24}}, r"24.*23|23.*24"),
        ({"method": "dykstra"}, "takes one set of groups"),
        ({"floor": 0.3}, "region 's': margins of column 1"),
    ],
)
def test_what_can_not_be_solved_is_refused(change: dict[str, Any], text: str) -> None:
    P, groups, wanted = draw(2)
    arguments: dict[str, Any] = {"margins": totals_of(wanted, groups), "groups": groups} | change
    with pytest.raises(CalibrantError, match=text):
        solve(P, **arguments)


def test_a_price_of_totals_is_for_one_set() -> None:
    P, groups, wanted = draw(2)
    margins: Any = totals_of(wanted, groups)
    margins["age"][1] = Margins(margins["age"][1], penalty=1.0)
    with pytest.raises(InvalidInputError, match="age 1: margins at a price are for one set of groups"):
        solve(P, margins, groups=groups)


def test_cells_that_other_totals_leave_nothing_are_solved_too() -> None:
    """The young of the south all have to be of class 1, and so no old one elsewhere is, though no total says so."""
    P, groups, wanted = draw(8, n=48)
    is_south, is_young = groups["region"] == "s", groups["age"] == 0
    wanted[is_south & is_young] = [0.0, 1.0, 0.0]
    wanted[~is_south & ~is_young, 1] = 0.0
    wanted /= wanted.sum(axis=1, keepdims=True)
    margins = totals_of(wanted, groups)
    assert min(totals.min() for of in margins.values() for totals in of.values()) > 0.5
    result = solve(P, margins, groups=groups, gap_tol=1e-5)
    assert_is_best(result, *least(P, groups, wanted))
    assert result.Q[is_south & is_young, 1].min() > 1.0 - 1e-6
    assert result.Q[~is_south & ~is_young, 1].max() < 1e-6
