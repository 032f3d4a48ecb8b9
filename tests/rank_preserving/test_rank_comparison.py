"""The table of methods: each line is what the method by itself gives, measured by outside means."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import rel_entr
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss, roc_auc_score

import calibrant as cb
from calibrant.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from calibrant.rank_preserving import EpsilonSlack, LambdaPenalty, Nearly, compare, rake, solve

RNG = np.random.default_rng(6)
P = RNG.dirichlet(np.full(3, 2.0), 150)
Y = np.array([RNG.choice(3, p=row) for row in P])
RATES = np.array([0.45, 0.3, 0.25])
TABLE = compare(P, RATES, y=Y, margin_kind="rates")


def test_methods_give_what_they_give_alone() -> None:
    expected = {
        "none": P,
        "rank_preserving": solve(P, RATES, margin_kind="rates").Q,
        "margins_only": solve(P, RATES, margin_kind="rates", nearly=LambdaPenalty(0.0)).Q,
        "raking": rake(P, RATES, margin_kind="rates").Q,
        "isotonic_raking": TABLE["isotonic_raking"].Q,
        "prior_shift": cb.prior.prior_shift(P, old=P.mean(axis=0), new=RATES),
        "isotonic": np.column_stack([IsotonicRegression().fit(P[:, j], Y == j).predict(P[:, j]) for j in range(3)]),
    }
    assert [row.method for row in TABLE.rows] == [*list(expected)[:2], "straight", *list(expected)[2:]]
    for method, Q in expected.items():
        np.testing.assert_allclose(TABLE[method].Q, Q, atol=1e-9, err_msg=method)
    straight = TABLE["straight"].Q
    slope = np.polyfit(P[:, 0], straight[:, 0], 1)[0]
    np.testing.assert_allclose(straight - slope * P, (straight - slope * P)[0] * np.ones((150, 1)), atol=1e-12)


def test_figures_are_those_of_outside_references() -> None:
    for row in TABLE.rows:
        Q = row.Q
        assert row.distance == pytest.approx(math.sqrt(((Q - P) ** 2).sum() / 150))
        if row.row_residual < 1e-7:
            assert row.divergence == pytest.approx(rel_entr(Q, P).sum() / 150, abs=1e-9)
        assert row.margin_residual == pytest.approx(np.abs(Q.mean(axis=0) - RATES).max(), abs=1e-12)
        assert row.row_residual == pytest.approx(np.abs(Q.sum(axis=1) - 1).max(), abs=1e-12)
        broken = max(
            max(0.0, float((q[:, None] - q[None, :])[p[:, None] < p[None, :]].max()))
            for p, q in zip(P.T, Q.T, strict=True)
        )
        assert row.rank_residual == pytest.approx(broken, abs=1e-12)
        change = np.mean([roc_auc_score(Y == j, Q[:, j]) - roc_auc_score(Y == j, P[:, j]) for j in range(3)])
        assert row.auc_change == pytest.approx(change, abs=2e-4 if row.method == "isotonic_raking" else 1e-9)
    for method in ("none", "straight", "raking", "prior_shift"):
        row = TABLE[method]
        assert row.log_loss == pytest.approx(log_loss(Y, row.Q), rel=1e-9)
        assert row.brier == pytest.approx(float(((row.Q - np.eye(3)[Y]) ** 2).sum(axis=1).mean()), rel=1e-12)


def test_each_method_keeps_its_promise_and_is_the_nearest_that_does() -> None:
    for method in ("rank_preserving", "straight", "margins_only", "raking"):
        assert TABLE[method].margin_residual < 1e-7
        assert TABLE[method].row_residual < 1e-7
    for method in ("rank_preserving", "straight", "isotonic_raking"):
        assert TABLE[method].rank_residual < 1e-12
        assert TABLE[method].overtaken == 0.0
    assert TABLE["margins_only"].distance < TABLE["rank_preserving"].distance < TABLE["straight"].distance
    assert TABLE["margins_only"].distance < TABLE["raking"].distance
    assert TABLE["raking"].divergence < TABLE["margins_only"].divergence
    assert TABLE["raking"].divergence < TABLE["isotonic_raking"].divergence
    assert TABLE["straight"].auc_change == 0.0
    assert math.isnan(TABLE["isotonic"].log_loss)


@pytest.mark.parametrize("nearly", [EpsilonSlack(0.02), LambdaPenalty(0.01), LambdaPenalty(1e-4, "all")])
def test_order_that_may_be_broken_is_a_row_between_the_kept_and_the_free_one(nearly: Nearly) -> None:
    margins, methods = [15.0, 90.0, 45.0], ["rank_preserving", "margins_only"]
    table = compare(P, margins, methods=methods, nearly=nearly)
    assert [row.method for row in table.rows] == ["rank_preserving", "nearly", "margins_only"]
    strict, row, free = table.rows
    result = solve(P, margins, nearly=nearly)
    np.testing.assert_array_equal(row.Q, result.Q)
    assert row.rank_residual == pytest.approx(result.rank_residual, abs=1e-15)
    assert strict.rank_residual < 1e-12 < 1e-3 < row.rank_residual < free.rank_residual
    assert strict.distance > row.distance > free.distance
    assert row.margin_residual < 1e-8
    assert "nearly" in str(table)
    assert "nearly" in [each.method for each in compare(P, margins, nearly=nearly).rows]


def test_printed_it_is_a_table_and_plain_it_is_json() -> None:
    lines = str(TABLE).splitlines()
    assert lines[0].split()[:4] == ["method", "converged", "distance", "divergence"]
    assert [line.split()[0] for line in lines[1:9]] == [row.method for row in TABLE.rows]
    assert len({len(line) for line in lines[1:9]}) == 1
    assert max(map(len, lines)) <= 80
    assert list(TABLE.to_frame()["brier"].dropna()) == [row.brier for row in TABLE.rows if np.isfinite(row.brier)]
    document = json.loads(json.dumps(TABLE.to_dict(), allow_nan=False))
    assert document["n_rows"] == 150
    assert document["rows"][-1]["log_loss"] is None
    assert "log loss" not in str(compare(P, RATES, margin_kind="rates", methods=["none", "raking"]))


def test_weight_zero_is_no_row_and_weight_two_is_two() -> None:
    weight = np.where(np.arange(150) < 20, 0.0, np.where(np.arange(150) < 60, 2.0, 1.0))
    rows = np.repeat(np.arange(150), weight.astype(int))
    methods = ["none", "straight", "raking", "prior_shift", "isotonic"]
    one = compare(P, RATES, y=Y, margin_kind="rates", sample_weight=weight, methods=methods)
    two = compare(P[rows], RATES, y=Y[rows], margin_kind="rates", methods=methods)
    for a, b in zip(one.rows, two.rows, strict=True):
        for name in ("distance", "divergence", "overtaken", "auc_change", "log_loss", "brier", "margin_residual"):
            assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-7, abs=1e-9, nan_ok=True), (
                a.method,
                name,
            )


def test_columns_that_are_the_classes_in_another_order_are_found_by_name() -> None:
    y, order = np.array(["a", "b", "c"])[Y], ["c", "a", "b"]
    frame = pd.DataFrame(P, columns=["a", "b", "c"])
    turned = compare(frame[order], dict(zip("abc", RATES, strict=True)), y=y, margin_kind="rates")
    for one, other in zip(TABLE.rows, turned.rows, strict=True):
        for name in ("auc_change", "log_loss", "brier"):
            assert getattr(other, name) == pytest.approx(getattr(one, name), abs=2e-3, nan_ok=True), one.method
    np.testing.assert_allclose(turned["isotonic"].Q, TABLE["isotonic"].Q[:, [2, 0, 1]], atol=1e-12)


def test_methods_that_zeros_rule_out_say_so() -> None:
    table = compare(P, [75.0, 75.0, 0.0])
    assert set(table.left_out) == {"prior_shift"}
    assert "prior_shift left out: new[2] is 0.0. Pass numbers above 0." in str(table)
    assert table["raking"].Q[:, 2].max() == 0.0


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown method 'rakin'. Did you mean 'raking'\?"):
        compare(P, RATES, margin_kind="rates", methods=["rakin"])
    with pytest.raises(InvalidInputError, match=r'"isotonic" is fitted to labels. Pass y'):
        compare(P, RATES, margin_kind="rates", methods=["isotonic"])
    with pytest.raises(InvalidInputError, match=r'"nearly" is the method of a slack or a price. Pass nearly too'):
        compare(P, RATES, margin_kind="rates", methods=["nearly"])
    with pytest.raises(InvalidTypeError, match=r"nearly=0\.1 is no slack"):
        compare(P, RATES, margin_kind="rates", nearly=0.1)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="unknown method 'sigmoid'"):
        TABLE["sigmoid"]
    with pytest.raises(InvalidInputError, match="y has 149"):
        compare(P, RATES, y=Y[1:], margin_kind="rates")
