"""Problems: losses of any kind are read alike, by their names, and what is no loss is refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.decisions import Policy, Problem, evaluate, expected_loss
from calibrant.errors import (
    CalibrantError,
    ColumnOrderError,
    InvalidInputError,
    InvalidTypeError,
    ShapeError,
    UnknownNameError,
)
from calibrant.forecasts import GaussianForecast

TABLE = {"call": {"buys": -55.0, "stays": 5.0}, "wait": {"buys": 2.0, "stays": 0.0}}
PROB = np.array([[0.3, 0.7], [0.05, 0.95], [0.0, 1.0]])


def test_mapping_frames_and_arrays_of_the_same_losses_are_the_same_problem() -> None:
    frame = pd.DataFrame(TABLE).T[["stays", "buys"]]
    columns = {"action": ["call", "wait"], "stays": [5.0, 0.0], "buys": [-55.0, 2.0]}
    array = np.array([[-55.0, 5.0], [2.0, 0.0]])
    problems = [
        Problem(TABLE),
        Problem(frame),
        Problem(pl.DataFrame(columns)),
        Problem(array, actions=["call", "wait"], classes=["buys", "stays"]),
        Problem(array[:, ::-1], actions=["call", "wait"], classes=["stays", "buys"]),
    ]
    for problem in problems:
        assert problem.actions == ("call", "wait")
        assert problem.classes == ("buys", "stays")
        np.testing.assert_array_equal(problem.table, array)


def test_losses_of_rows_equal_a_table_where_rows_are_alike() -> None:
    costs = pd.DataFrame({"phone": [5.0, 5.0, 5.0], "won": [-55.0, -55.0, -55.0]})
    by_name = Problem({"call": {"buys": "won", "stays": "phone"}, "wait": {"buys": 2.0, "stays": 0.0}})
    by_array = Problem({"call": {"buys": np.full(3, -55.0), "stays": 5.0}, "wait": {"buys": 2.0, "stays": 0.0}})

    def loss(costs: pd.DataFrame, label: str, action: str) -> object:
        return costs["won" if label == "buys" else "phone"] if action == "call" else 2.0 * (label == "buys")

    function = Problem(loss, actions=["call", "wait"], classes=["stays", "buys"])
    expected = Problem(TABLE).expected_losses(PROB)
    np.testing.assert_array_equal(by_name.expected_losses(PROB, costs=costs), expected)
    np.testing.assert_array_equal(by_name.expected_losses(PROB, costs=pl.from_pandas(costs)), expected)
    np.testing.assert_array_equal(by_name.expected_losses(PROB, costs=dict(costs)), expected)
    np.testing.assert_array_equal(by_array.expected_losses(PROB), expected)
    np.testing.assert_array_equal(function.expected_losses(PROB, costs=costs), expected)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 99), min_size=1, max_size=8),
    st.lists(st.lists(st.integers(-20, 20), min_size=2, max_size=2), min_size=2, max_size=4),
)
def test_expected_losses_are_those_of_exact_fractions(percent: list[int], table: list[list[int]]) -> None:
    p = np.array(percent) / 128.0  # so that 1 - p and all products are exact
    found = Problem(np.array(table, dtype=float)).expected_losses(p)
    for i, share in enumerate(percent):
        q = Fraction(share, 128)
        exact = [float((1 - q) * row[0] + q * row[1]) for row in table]
        assert found[i].tolist() == exact


def test_doing_nothing_comes_first_and_costs_nothing_unless_it_is_named() -> None:
    assert Problem(TABLE, do_nothing="sleep").actions == ("sleep", "call", "wait")
    assert Problem(TABLE, do_nothing="sleep").table[0].tolist() == [0.0, 0.0]
    assert Problem(TABLE, do_nothing="wait", abstain=1.0).actions == ("wait", "call", "abstain")
    assert Problem(TABLE, do_nothing="wait", abstain=1.0).table.tolist() == [[2.0, 0.0], [-55.0, 5.0], [1.0, 1.0]]


def test_a_problem_survives_its_document() -> None:
    problem = Problem(TABLE, do_nothing="wait", abstain=1.0, capacity={"call": 3})
    again = Problem.from_dict(problem.to_dict())
    assert (again.actions, again.classes, again.capacity) == (problem.actions, problem.classes, problem.capacity)
    np.testing.assert_array_equal(again.table, problem.table)


@pytest.mark.parametrize(("fp", "fn", "tp", "tn"), [(1, 4, 0, 0), (2, 3, 5, 1), (1, 0, 3, 0)])
def test_elkans_threshold_is_where_both_actions_cost_the_same(fp: int, fn: int, tp: int, tn: int) -> None:
    problem = Problem.two_actions(
        false_positive=fp, false_negative=fn, true_positive_benefit=tp, true_negative_benefit=tn
    )
    c00, c01, c10, c11 = map(Fraction, (-tn, fn, fp, -tp))
    exact = (c10 - c00) / (c10 - c00 + c01 - c11)  # Elkan 2001, equation 2
    assert problem.threshold == pytest.approx(float(exact), rel=1e-15)
    no, yes = problem.expected_losses([problem.threshold])[0]
    assert no == pytest.approx(yes, abs=1e-12)


def test_costs_of_two_actions_may_be_of_each_row() -> None:
    problem = Problem.two_actions(false_positive=[1.0, 1.0], false_negative=np.array([4.0, 40.0]))
    assert Policy(problem).decide([0.1, 0.1]).tolist() == ["no", "yes"]


def test_classes_of_a_file_are_matched_to_labels_as_text() -> None:
    problem = Problem({"a": {"2": 1.0, "10": 5.0}, "b": {"2": 2.0, "10": 3.0}})
    assert problem.classes == ("10", "2")
    typed, classes = problem.for_labels([10, 2, 2], 2)
    assert classes == [2, 10]
    np.testing.assert_array_equal(typed.table, [[1.0, 5.0], [2.0, 3.0]])
    with pytest.raises(CalibrantError, match="row 1: unknown label 7"):
        problem.for_labels([10, 7], 2)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Problem({}), ShapeError, "losses is empty"),
        (lambda: Problem({"a": {0: 1.0, 1: 0.0}}), ShapeError, "there is one action, 'a'"),
        (lambda: Problem({"a": 1.0}), InvalidTypeError, "losses\\['a'\\] is 1.0"),
        (lambda: Problem({"a": {0: 1.0, 1: 2.0}, "b": {0: 1.0}}), InvalidInputError, "1 is in one only"),
        (lambda: Problem({"a": {0: float("nan"), 1: 2.0}, "b": {0: 1.0, 1: 1.0}}), InvalidInputError, "a.*0.*nan"),
        (lambda: Problem([[0.0, np.inf], [1.0, 0.0]], actions=["x", "y"]), InvalidInputError, "'x', class 1: inf"),
        (lambda: Problem([0.0, 1.0]), ShapeError, r"shape \(2,\)"),
        (lambda: Problem([[0.0], [1.0]]), ShapeError, "two classes"),
        (lambda: Problem("no"), InvalidTypeError, "losses='no' holds no table of numbers"),
        (lambda: Problem([[0.0, 1.0], [1.0, 0.0]], actions=["x"]), ShapeError, "names 1 action for losses of 2"),
        (lambda: Problem([[0.0, 1.0], [1.0, 0.0]], actions=["x", "x"]), InvalidInputError, "'x' twice"),
        (lambda: Problem(TABLE, actions=["x", "y"]), InvalidInputError, "names its actions"),
        (lambda: Problem(lambda *_: 0.0), InvalidInputError, "losses is a function"),
        (lambda: Problem(TABLE, capacity={"cal": 5}), UnknownNameError, "'cal'.*call"),
        (lambda: Problem(TABLE, capacity={"call": -1}), InvalidInputError, "too small"),
        (lambda: Problem(TABLE, capacity={"call": 1, "wait": 1}), InvalidInputError, "every action has a capacity"),
        (lambda: Problem(TABLE, abstain=float("inf")), InvalidInputError, "abstain=inf"),
        (lambda: Problem.two_actions(false_positive=-1.0, false_negative=2.0), InvalidInputError, "false_positive=-1"),
        (
            lambda: Problem.two_actions(false_positive=[1.0, -2.0], false_negative=1.0),
            InvalidInputError,
            "false_positive row 1: -2.0 is negative",
        ),
        (lambda: Problem.from_dict({"losses": TABLE, "capacities": {}}), UnknownNameError, "capacities.*capacity"),
        (lambda: Problem(TABLE, do_nothing="wait").threshold, InvalidInputError, "no threshold"),
        (lambda: Problem(TABLE, abstain=1.0).threshold, InvalidInputError, r"shape \(3, 2\)"),
        (lambda: Problem(TABLE).expected_losses([[0.2, 0.3, 0.5]]), ShapeError, "of 3 classes, and the losses of 2"),
        (lambda: Problem(TABLE).expected_losses([0.2, np.nan]), CalibrantError, "row 1"),
        (
            lambda: Problem({"a": {0: "fee", 1: 0.0}, "b": {0: 0.0, 1: 1.0}}).expected_losses([0.5]),
            InvalidInputError,
            "'fee'. Pass costs=",
        ),
        (
            lambda: Problem({"a": {0: "fee", 1: 0.0}, "b": {0: 0.0, 1: 1.0}}).expected_losses(
                [0.5], costs={"fees": [1.0]}
            ),
            UnknownNameError,
            "'fee'.*'fees'",
        ),
        (
            lambda: Problem({"a": {0: np.ones(3), 1: 0.0}, "b": {0: 0.0, 1: 1.0}}).expected_losses([0.5]),
            ShapeError,
            "losses has 3 rows and predictions has 1",
        ),
    ],
)
def test_what_is_no_problem_is_refused_by_name(make: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()  # type: ignore[operator]


def test_names_may_come_in_an_array_as_scikit_learn_has_its_classes() -> None:
    array = np.array([[-55.0, 5.0], [2.0, 0.0]])
    for names in (np.array, pd.Index, pd.Series, pl.Series, lambda each: (label for label in each)):
        problem = Problem(array, actions=names(["call", "wait"]), classes=names(["buys", "stays"]))
        assert (problem.actions, problem.classes) == (("call", "wait"), ("buys", "stays"))
        np.testing.assert_array_equal(problem.table, array)
    assert Problem(array, classes=np.array([0, 1])).classes == (0, 1)


def test_columns_of_a_frame_may_be_labels_that_are_numbers() -> None:
    problem = Problem(pd.DataFrame([[0.0, 4.0], [1.0, 0.0]], index=["no", "yes"], columns=[0, 1]))
    assert problem.classes == (0, 1)
    assert problem.table.tolist() == [[0.0, 4.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Problem(np.eye(2), classes=[1, 1]), "classes names a class twice: 1, 1"),
        (lambda: Problem(np.eye(2), classes=[1, True]), "classes names a class twice"),
        (lambda: Problem({"no": {"a": 1.0}, "yes": {"a": 0.0}}), "losses are of one class, 'a'"),
        (lambda: Problem(np.eye(2), actions="no"), "actions='no' is no list"),
        (lambda: Problem(max, actions=["no", "yes"], classes=5), "classes=5 is no list"),
        (lambda: Problem(max, actions=[], classes=[0, 1]), "Name actions=.* that it knows"),
        (lambda: Problem(max, actions=[]), "Name the actions that it knows"),
        (
            lambda: Problem(pd.DataFrame(np.eye(2), index=["no", "yes"], columns=["a", "a"])),
            "losses has 2 columns 'a'",
        ),
    ],
)
def test_names_that_are_none_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(CalibrantError, match=message):
        make()


@pytest.mark.parametrize(
    ("value", "what"),
    [("x", "'x'"), ([1.0, 2.0], r"\[1.0, 2.0\]"), (np.ones((3, 1)), r"shape \(3, 1\)"), (np.full(3, 1j), "of complex")],
)
def test_a_function_that_gives_no_numbers_is_told_so(value: object, what: str) -> None:
    of_classes = Problem(lambda costs, label, action: value, actions=["no", "yes"], classes=[0, 1])  # noqa: ARG005
    of_number = Problem(lambda costs, y, action: value, actions=["no", "yes"])  # noqa: ARG005
    for problem, given_ in ((of_classes, [0.2, 0.5, 0.7]), (of_number, GaussianForecast([0.0, 1.0, 2.0], 1.0))):
        with pytest.raises(ShapeError, match=f"losses gives .*{what}.* action 'no'"):
            Policy(problem).decide(given_)


def test_names_in_another_order_are_no_order_of_classes() -> None:
    """Where losses name no classes, columns are in sorted order: decisions by the order given would be the reverse."""
    problem = Problem.two_actions(false_positive=1.0, false_negative=4.0)
    p = np.array([0.1, 0.5, 0.9])
    right, wrong = pd.DataFrame({"0": 1.0 - p, "1": p}), pd.DataFrame({"1": p, "0": 1.0 - p})
    assert Policy(problem).decide(right).tolist() == ["no", "yes", "yes"]
    names = [f"p{k}" for k in range(11)]
    Policy(Problem(np.eye(11))).decide(pd.DataFrame(np.full((3, 11), 1.0 / 11.0), columns=names))
    for use in (
        lambda: Policy(problem).decide(wrong),
        lambda: expected_loss(wrong, problem),
        lambda: Policy(problem).to_sql(columns=["1", "0"]),
    ):
        with pytest.raises(ColumnOrderError, match=r"\['1', '0'\], and no classes are named"):
            use()
    named = Problem({"no": {"0": 0.0, "1": 4.0}, "yes": {"0": 1.0, "1": 0.0}})
    assert Policy(named).decide(wrong).tolist() == ["no", "yes", "yes"]
    assert evaluate([0, 1, 1], wrong, problem)["realised"].value == 0.0  # the labels name the classes
