"""Totals of a census: by name, with a tolerance or at a price, rows that were rounded, and a least entry."""

from __future__ import annotations

import clarabel
import numpy as np
import pandas as pd
import pytest
from exact_matrices import order_rows
from scipy import sparse

import calibrant as cb
from calibrant.errors import (
    CalibrantError,
    ColumnOrderError,
    DataWarning,
    InvalidInputError,
    InvalidProbabilityError,
)
from calibrant.rank_preserving import EpsilonSlack, Margins, margins_from_labels, solve


def draw(seed: int, n: int = 12, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(k), n)
    margins = P.sum(axis=0) * np.exp(0.6 * rng.normal(size=k)) + 1e-3
    return P, margins * n / margins.sum()


def least(
    P: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    floor: float = 0.0,
    penalty: float = 0.0,
    wanted: np.ndarray | None = None,
    slack: float = 0.0,
) -> tuple[float, np.ndarray]:
    """Return the least squared distance, with the cost of totals, and the matrix, by an interior-point solver."""
    n, k = P.shape
    rows, columns = np.kron(np.eye(n), np.ones(k)), np.kron(np.ones(n), np.eye(k))
    square, slope = 2.0 * np.eye(n * k), -2.0 * P.ravel()
    if wanted is not None:
        square += 2.0 * penalty / n * columns.T @ columns
        slope -= 2.0 * penalty / n * columns.T @ wanted
        low, high = np.zeros(k), np.full(k, float(n))
    system = np.vstack((rows, -columns, columns, -np.eye(n * k), -order_rows(P)))
    limits = np.concatenate((np.ones(n), -low, high, np.full(n * k, -floor), np.full(len(order_rows(P)), slack)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(len(limits) - n)]
    found = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(square)), slope, sparse.csc_matrix(system), limits, cones, settings
    ).solve()
    Q = np.array(found.x).reshape(n, k)
    cost = float(((Q - P) ** 2).sum())
    return cost + (0.0 if wanted is None else penalty / n * float(((Q.sum(axis=0) - wanted) ** 2).sum())), Q


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tolerance", [0.05, 0.5, 2.0])
def test_totals_within_a_tolerance_give_the_matrix_of_the_exact_solver(seed: int, tolerance: float) -> None:
    P, margins = draw(seed)
    result = solve(P, Margins(margins, tolerance=tolerance), gap_tol=1e-7)
    best, Q = least(P, np.maximum(margins - tolerance, 0.0), margins + tolerance)
    assert result.converged
    assert result.objective == pytest.approx(best, rel=1e-5, abs=1e-9)
    assert result.bound <= best * (1.0 + 1e-7) + 1e-10
    np.testing.assert_allclose(result.Q, Q, rtol=0, atol=2e-3)
    assert np.abs(result.Q.sum(axis=0) - margins).max() <= tolerance + 1e-7
    np.testing.assert_allclose(result.margins_used, result.Q.sum(axis=0), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(result.margins_given, margins)


@pytest.mark.parametrize("penalty", [0.1, 10.0, 1_000.0])
def test_totals_at_a_price_give_the_matrix_of_the_exact_solver(penalty: float) -> None:
    P, margins = draw(11)
    result = solve(P, Margins(margins, penalty=penalty), gap_tol=1e-5)
    best, _ = least(P, margins, margins, penalty=penalty, wanted=margins)
    assert result.objective == pytest.approx(best, rel=1e-4)
    assert result.bound <= best * (1.0 + 1e-7)
    assert result.margin_residual == 0.0


@pytest.mark.parametrize("penalty", [0.5, 20.0])
@pytest.mark.parametrize("slack", [0.02, 0.1])
def test_totals_at_a_price_go_with_slack(penalty: float, slack: float) -> None:
    for seed in (11, 12, 13):
        P, margins = draw(seed)
        result = solve(P, Margins(margins, penalty=penalty), nearly=EpsilonSlack(slack), gap_tol=1e-5)
        best, _ = least(P, margins, margins, penalty=penalty, wanted=margins, slack=slack)
        assert result.converged
        assert result.bound <= best * (1.0 + 1e-7)
        assert result.objective == pytest.approx(best, rel=2e-5)


@pytest.mark.parametrize("penalty", [1.0, 100.0])
@pytest.mark.parametrize("slack", [0.0, 0.02])
def test_totals_at_a_price_may_be_wanted_below_the_floor(penalty: float, slack: float) -> None:
    P, _ = draw(11)
    wanted, floor = np.array([0.1, 6.0, 5.9]), 0.05
    result = solve(P, Margins(wanted, penalty=penalty), floor=floor, nearly=EpsilonSlack(slack), gap_tol=1e-6)
    best, _ = least(P, wanted, wanted, penalty=penalty, wanted=wanted, slack=slack, floor=floor)
    of_totals = penalty / len(P) * ((result.Q.sum(axis=0) - wanted) ** 2).sum()
    assert result.converged
    assert result.objective == pytest.approx(((result.Q - P) ** 2).sum() + of_totals, rel=1e-9)
    assert result.objective == pytest.approx(best, rel=5e-6)


@pytest.mark.parametrize("n", [10, 100])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0, 10_000.0])
def test_totals_at_any_price_need_few_iterations(n: int, penalty: float) -> None:
    rng = np.random.default_rng(n)
    P = rng.dirichlet([0.05, 0.05, 0.05], n)
    result = solve(P / P.sum(axis=1, keepdims=True), Margins(rng.dirichlet(np.ones(3)) * n, penalty=penalty))
    assert result.converged
    assert result.gap < 1e-7
    assert result.n_iter < 2_000


def test_a_price_leads_from_the_matrix_itself_to_exact_totals() -> None:
    P, margins = draw(3, 200)
    off = [np.abs(solve(P, Margins(margins, penalty=c)).margins_used - margins).max() for c in (1e-3, 1.0, 1e3)]
    assert off[0] > 10.0 * off[2]
    assert off[0] > off[1] > off[2]
    assert off[2] < 0.1


def test_intervals_hold_and_prices_say_which_ends_bind() -> None:
    P, margins = draw(5, 200)
    low, high = margins * [0.9, 0.5, 0.9], margins * [1.02, 1.5, 1.3]
    result = solve(P, Margins(low=low, high=high))
    totals = result.Q.sum(axis=0)
    assert (totals >= low - 1e-7).all()
    assert (totals <= high + 1e-7).all()
    inside = (totals > low + 1e-3) & (totals < high - 1e-3)
    assert inside.any()
    assert not inside.all()
    assert np.abs(result.margin_prices[inside]).max() < 1e-6
    assert np.abs(result.margin_prices[~inside]).min() > 1e-4
    np.testing.assert_array_equal(result.binds, ~inside)


def test_a_price_is_what_a_unit_of_the_total_costs() -> None:
    P, margins = draw(8, 150)
    low, high = margins - 3.0, margins + 3.0
    prices = solve(P, Margins(low=low, high=high), gap_tol=1e-9).margin_prices
    j, step = int(np.abs(prices).argmax()), 0.02
    moved = step * (np.arange(3) == j)
    more, less = (solve(P, Margins(low=low + s * moved, high=high + s * moved), gap_tol=1e-9) for s in (1.0, -1.0))
    assert (more.objective - less.objective) / (2.0 * step) == pytest.approx(prices[j], rel=0.02)


def test_intervals_may_reach_beyond_the_rows() -> None:
    P, _ = draw(4)
    low, high = np.array([7.0, 0.0, 0.0]), np.array([40.0, 4.0, 100.0])
    result = solve(P, Margins(low=low, high=high))
    best, _ = least(P, low, np.minimum(high, len(P)))
    assert result.objective == pytest.approx(best, rel=1e-6)
    assert solve(P, Margins([20.0, 3.0, 3.0], tolerance=13.0)).margins_used[0] >= 7.0 - 1e-9
    with pytest.raises(InvalidInputError, match=r"column 0: 13\.0 is above 12, the weight of all rows"):
        solve(P, Margins(low=[13.0, 0.0, 0.0], high=[14.0, 1.0, 1.0]))


def test_room_for_the_totals_that_p_has_leaves_it_as_it_is() -> None:
    P, _ = draw(2, 50)
    result = solve(P, Margins(P.sum(axis=0) + np.array([0.3, -0.2, 0.4]), tolerance=0.5))
    np.testing.assert_allclose(result.Q, P, rtol=0, atol=1e-12)


def test_a_tolerance_goes_with_slack_weights_and_rates() -> None:
    P, margins = draw(4, 60)
    w = np.random.default_rng(1).integers(1, 4, 60).astype(float)
    rates = Margins(margins / 60, tolerance=0.01)
    result = solve(P, rates, margin_kind="rates", sample_weight=w, nearly=EpsilonSlack(0.02))
    assert result.converged
    assert np.abs(np.average(result.Q, axis=0, weights=w) - margins / 60).max() <= 0.01 + 1e-8
    repeated = solve(np.repeat(P, w.astype(int), axis=0), rates, margin_kind="rates", nearly=EpsilonSlack(0.02))
    assert repeated.objective == pytest.approx(result.objective, rel=1e-3)


def test_intervals_of_an_estimate_are_asked_for_as_they_are() -> None:
    P, _ = draw(9, 300)
    estimate = margins_from_labels(np.random.default_rng(0).choice(3, 80, p=[0.5, 0.3, 0.2]))
    result = solve(P, estimate.within())
    rates = result.Q.mean(axis=0)
    assert (rates >= estimate.low - 1e-9).all()
    assert (rates <= estimate.high + 1e-9).all()
    assert result.objective < solve(P, estimate).objective


def test_margins_by_name_whatever_holds_the_names() -> None:
    P, _ = draw(6, 40)
    frame = pd.DataFrame(P, columns=["c", "a", "b"])
    wanted = {"a": 10.0, "b": 12.0, "c": 18.0}
    expected = solve(P, [18.0, 10.0, 12.0]).Q
    for margins in (wanted, pd.Series(wanted), pd.DataFrame([wanted])):
        np.testing.assert_array_equal(solve(frame, margins).Q, expected)
    within = solve(frame, Margins(wanted, tolerance={"b": 0.5, "a": 0.0, "c": 1.0}))
    assert within.margins_used[1] == pytest.approx(10.0, abs=1e-7)
    with pytest.raises(ColumnOrderError, match=r"Did you mean|cc"):
        solve(frame, {"a": 10.0, "b": 12.0, "cc": 18.0})
    two = pd.DataFrame({"c": [9.0, 9.0], "a": [5.0, 5.0], "b": [6.0, 6.0]}, index=["north", "south"])
    grouped = solve(frame, two, groups=["north"] * 20 + ["south"] * 20)
    np.testing.assert_allclose(grouped.Q[:20].sum(axis=0), [9.0, 5.0, 6.0], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "a tolerance, or low and high, or a penalty"),
        ({"tolerance": 1.0, "penalty": 1.0}, "Pass one of the three"),
        ({"low": [1.0, 1.0, 1.0]}, "Pass one of the three"),
        ({"penalty": 0.0}, "penalty"),
    ],
)
def test_margins_that_say_nothing_or_two_things_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        Margins([4.0, 4.0, 4.0], **options)


def test_what_no_total_can_meet_is_refused_with_both_sums() -> None:
    P, margins = draw(1)
    with pytest.raises(InvalidInputError, match=r"sum to between 8\.7 and 9\.3 .* the rows to 12"):
        solve(P, Margins([3.0, 3.0, 3.0], tolerance=0.1))
    with pytest.raises(InvalidInputError, match="low=5 is above high=4"):
        solve(P, Margins(low=[5.0, 1.0, 1.0], high=[4.0, 9.0, 9.0]))
    with pytest.raises(InvalidInputError, match="negative"):
        solve(P, Margins(margins, tolerance=[1.0, -1.0, 1.0]))
    with pytest.raises(InvalidInputError, match="exact totals alone"):
        solve(P, Margins(margins, tolerance=0.5), method="dykstra")
    with pytest.raises(InvalidInputError, match="for solve alone"):
        cb.rank_preserving.rake(P, Margins(margins, tolerance=0.5))
    with pytest.raises(InvalidInputError, match=r"sum to 9, and each of the rows to 1, 12 in all.*Margins with a tol"):
        solve(P, [3.0, 3.0, 3.0])


def test_a_large_rescaling_warns_and_the_result_has_both() -> None:
    P, margins = draw(1)
    with pytest.warns(DataWarning, match=r"margins sum to 24 and the rows to 12: .* multiplied by 0\.5"):
        result = solve(P, 2.0 * margins, on_mismatch="rescale")
    np.testing.assert_allclose(result.margins_given, 2.0 * margins, rtol=1e-15)
    np.testing.assert_allclose(result.margins_used, margins, rtol=0, atol=1e-8)
    solve(P, 1.005 * margins, on_mismatch="rescale")  # a small one does not


@pytest.mark.parametrize("seed", range(4))
def test_a_floor_gives_the_matrix_of_the_exact_solver_and_its_price(seed: int) -> None:
    P, margins = draw(seed)
    floor = 0.5 * margins.min() / len(P)
    result = solve(P, margins, floor=floor, gap_tol=1e-7)
    best, _ = least(P, margins, margins, floor=floor)
    assert result.converged
    assert result.Q.min() >= floor - 1e-12
    assert result.objective == pytest.approx(best, rel=1e-5)
    assert result.objective == pytest.approx(float(((result.Q - P) ** 2).sum()), rel=1e-9)
    free = solve(P, margins, gap_tol=1e-7).objective
    assert result.floor_price == pytest.approx(best / free - 1.0, abs=1e-4)
    within, _ = least(P, margins - 0.2, margins + 0.2, floor=floor)
    with_room = solve(P, Margins(margins, tolerance=0.2), floor=floor, gap_tol=1e-7)
    assert with_room.objective == pytest.approx(within, rel=1e-5)


def test_a_floor_keeps_log_loss_finite() -> None:
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.full(4, 0.1), 300)
    y = np.array([rng.choice(4, p=p) for p in P])
    counts = np.roll(np.bincount(y, minlength=4), 1).astype(float)
    without, with_floor = solve(P, counts).Q, solve(P, counts, floor=1e-4).Q
    assert (without == 0.0).any()
    assert with_floor.min() >= 1e-4 - 1e-12
    assert np.isfinite(-np.log(with_floor[np.arange(300), y])).all()


def test_a_floor_that_leaves_nothing_is_refused() -> None:
    P, margins = draw(0)
    with pytest.raises(InvalidInputError, match=r"floor=0\.4 leaves nothing of a row of 3 entries"):
        solve(P, margins, floor=0.4)
    with pytest.raises(InvalidInputError, match=r"of column 1: 1 is below the 3\.6 that floor=0\.3 gives"):
        solve(P, [10.0, 1.0, 1.0], floor=0.3)
    named = pd.DataFrame(P, columns=["a", "b", "c"])
    with pytest.raises(InvalidInputError, match=r"of column 'b': 2 is below .* a floor of at most 0\.166667"):
        solve(named, Margins(low=[1.0, 1.0, 3.0], high=[8.0, 2.0, 9.0]), floor=0.3)
    with pytest.raises(InvalidInputError, match="of column 'c': low=5 is above high=4"):
        solve(named, Margins(low=[1.0, 1.0, 5.0], high=[8.0, 2.0, 4.0]))


def test_rows_of_float32_pass_and_decimals_pass_on_request() -> None:
    P, margins = draw(7, 500)
    exact = solve(P, margins)
    frame = pd.DataFrame(P.astype(np.float32))
    swapped = P.astype(np.float32).astype(np.dtype(np.float32).newbyteorder("S"))
    for single in (P.astype(np.float32), swapped, frame, frame.astype("Float32"), frame.astype("float[pyarrow]")):
        found = solve(single, margins)
        np.testing.assert_allclose(np.asarray(found.Q), exact.Q, rtol=0, atol=1e-3)
        np.testing.assert_allclose(np.asarray(found.Q).sum(axis=1), 1.0, rtol=0, atol=1e-8)
    with pytest.raises(InvalidProbabilityError, match="Pass normalise=True"):
        solve(P.round(3), margins)
    rounded = solve(P.round(3), margins, normalise=True)
    assert rounded.objective == pytest.approx(exact.objective, rel=0.01)
    np.testing.assert_allclose(rounded.Q.sum(axis=1), 1.0, rtol=0, atol=1e-9)
    with pytest.raises(InvalidProbabilityError, match=r"P row 1: all probabilities are 0 \(1 of 2 rows\)"):
        solve([[0.5, 0.5], [0.0, 0.0]], [1.0, 1.0], normalise=True)


def test_a_given_penalty_is_kept_and_reaches_the_same_matrix() -> None:
    P, margins = draw(2, 300)
    default = solve(P, margins, gap_tol=1e-6)
    given = solve(P, margins, gap_tol=1e-6, rho=5.0, method="admm")
    assert given.converged
    assert given.objective == pytest.approx(default.objective, rel=3e-6)
    with pytest.raises(InvalidInputError, match="rho is the penalty of a splitting"):
        solve(P, margins, rho=5.0, method="dykstra")


def test_history_has_residuals_of_sums_and_of_multipliers_that_fall() -> None:
    P, margins = draw(2, 300)
    history = solve(P, margins, gap_tol=1e-6).history
    assert history[-1].residual < 1e-3 * history[0].residual
    assert 0.0 < history[-1].dual_residual < 1e-2 * history[0].dual_residual


def test_a_stalled_run_says_what_is_stuck() -> None:
    P, margins = draw(2, 300)
    with pytest.warns(cb.errors.ConvergenceWarning, match=r"both still move\. Raise max_iter"):
        assert "the bound is" in solve(P, margins, max_iter=30).stuck
    with pytest.warns(cb.errors.ConvergenceWarning, match='method="auto" does not'):
        solve(P, margins, max_iter=5, method="dykstra")
    assert solve(P, margins).stuck == ""


@pytest.mark.parametrize("order_tol", [1e-6, 1e-3, 0.05])
def test_orders_within_a_window_are_free_and_all_others_kept(order_tol: float) -> None:
    P, margins = draw(3, 120)
    result = solve(P, margins, order_tol=order_tol)
    assert result.converged
    assert result.objective == pytest.approx(float(((result.Q - P) ** 2).sum()), rel=1e-9)
    assert result.objective <= solve(P, margins).objective * (1.0 + 1e-4)
    for p, q in zip(P.T, result.Q.T, strict=True):
        apart = p[:, None] >= p[None, :] + order_tol
        assert (q[:, None] - q[None, :])[apart].min(initial=0.0) >= -1e-12
    assert (result.n_freed > 0) == (order_tol > 1e-5)


def test_alternating_projections_free_the_same_orders() -> None:
    P, _ = draw(3, 120)
    margins = P.sum(axis=0) + np.array([15.0, -9.0, -6.0])
    expected = solve(P, margins, order_tol=0.01, gap_tol=1e-6)
    found = solve(P, margins, order_tol=0.01, gap_tol=1e-6, method="dykstra", max_iter=100_000)
    assert found.converged
    assert found.n_freed == expected.n_freed > 0
    assert found.objective == pytest.approx(expected.objective, rel=3e-6)
    assert found.history[-1].objective == pytest.approx(found.objective, rel=1e-5)  # of the rows in their free order
    assert found.objective < solve(P, margins).objective * 0.999
    np.testing.assert_allclose(found.Q, expected.Q, rtol=0, atol=1e-3)


def test_every_order_is_free_in_one_window() -> None:
    P, margins = draw(3, 30)
    result = solve(P, margins, order_tol=2.0, gap_tol=1e-7)
    assert result.n_freed == 3 * 29
    free = solve(P, margins, nearly=EpsilonSlack(1.0), gap_tol=1e-7)
    assert result.objective == pytest.approx(free.objective, rel=1e-6)
    with pytest.raises(InvalidInputError, match="order_tol"):
        solve(P, margins, order_tol=0.1, nearly=EpsilonSlack(0.1))


def test_a_floor_that_is_a_margin_but_for_rounding_is_taken() -> None:
    rng = np.random.default_rng(7)
    P = rng.dirichlet(np.ones(3), 6)
    for seed in range(30):
        weight = np.random.default_rng(seed).exponential(size=6)
        floor = 0.1
        least = floor * weight.sum()
        margins = np.array([least, 0.4 * weight.sum(), 0.5 * weight.sum()])
        order = np.random.default_rng(seed).permutation(6)
        result = solve(P[order], margins, sample_weight=weight[order], floor=floor)
        assert result.Q.min() >= floor - 1e-12
