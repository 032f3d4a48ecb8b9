"""The certificate: bounds that hold whatever the multipliers are, and feasible matrices from any iterate."""

from __future__ import annotations

import numpy as np
import pytest
from exact_matrices import least_cost_at_a_price, nearest

from calibrant.rank_preserving import EpsilonSlack, LambdaPenalty, Nearly, certificate
from calibrant.rank_preserving.certificate import Certificate, RelaxedCertificate
from calibrant.rank_preserving.problem import check_problem, check_rows, largest_violation, unsorted
from calibrant.rank_preserving.result import StoppingCriteria

CRITERIA = StoppingCriteria(tol=1e-8, gap_tol=1e-4, target_gap=1e-7)
RELAXED = (EpsilonSlack(0.05), LambdaPenalty(0.05), LambdaPenalty(0.02, "all"))


def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), 7)
    margins = P.sum(axis=0) * np.exp(0.6 * rng.normal(size=3))
    return P, margins * 7.0 / margins.sum()


def make(P: np.ndarray, margins: np.ndarray, nearly: Nearly | None) -> Certificate:
    columns = check_problem(check_rows(P, None), margins).columns()
    return Certificate(columns, CRITERIA) if nearly is None else RelaxedCertificate(columns, CRITERIA, nearly)


def best_objective(P: np.ndarray, margins: np.ndarray, nearly: Nearly | None) -> float:
    if isinstance(nearly, LambdaPenalty):
        return least_cost_at_a_price(P, margins, nearly.lam, nearly.pairs)
    slack = 0.0 if nearly is None else nearly.eps
    return float(((nearest(P, margins, slack=slack) - P) ** 2).sum())


@pytest.mark.parametrize("nearly", [None, *RELAXED])
def test_no_multipliers_prove_more_than_the_optimum(nearly: Nearly | None) -> None:
    rng = np.random.default_rng(0)
    for seed in range(8):
        P, margins = draw(seed)
        made, best = make(P, margins, nearly), best_objective(P, margins, nearly)
        for scale in (0.0, 0.01, 0.1, 1.0):
            assert (
                made.take_bound((scale * rng.normal(size=7), scale * rng.normal(size=3))) <= best * (1.0 + 1e-7) + 1e-9
            )
        assert made.bound <= best * (1.0 + 1e-7) + 1e-9
        assert made.objective >= best * (1.0 - 1e-9)  # the affine point is feasible


@pytest.mark.parametrize("nearly", RELAXED)
def test_a_relaxed_order_has_a_feasible_matrix_near_any_iterate(nearly: Nearly) -> None:
    rng = np.random.default_rng(1)
    for seed in range(8):
        P, margins = draw(seed)
        made = make(P, margins, nearly)
        for _ in range(5):
            iterate = np.sort(rng.uniform(0.0, 1.0, made.columns.p.shape), axis=1)
            made.check(1, iterate, made.columns, (np.zeros(7), np.zeros(3)))
            q = made.best()
            Q = unsorted(q, made.order)
            assert Q.min() >= 0.0
            np.testing.assert_allclose(Q.sum(axis=1), 1.0, rtol=0, atol=1e-12)
            np.testing.assert_allclose(Q.sum(axis=0), margins, rtol=0, atol=1e-11)
            assert largest_violation(made.columns, q) <= nearly.allowed + 1e-12


def test_projections_that_fail_are_tried_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    P, margins = draw(2)
    made = make(P, margins, None)
    tried: list[int] = []
    monkeypatch.setattr(certificate, "make_feasible", lambda *_, **__: tried.append(check) or False)
    for check in range(1, 200):  # P itself, with a distance and a bound of 0, is near enough to be projected
        made.check(check, made.columns.p.copy(), made.columns, (np.zeros(7), np.zeros(3)))
    assert len(tried) >= 8
    np.testing.assert_array_equal(tried[1:], np.ceil(1.5 * np.array(tried[:-1])))
