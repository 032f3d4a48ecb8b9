"""Policies: least expected loss, stated ties, capacities at the least total loss, in every container and engine."""

from __future__ import annotations

import sqlite3
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import linear_sum_assignment

import calibrant as cb
from calibrant.decisions import Policy, Problem
from calibrant.decisions.choosing import choose
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError, UnknownNameError

YES_NO = Problem.two_actions(false_positive=1.0, false_negative=4.0)
THREE = Problem(
    {
        "none": {"a": 0.0, "b": 5.0, "c": 9.0},
        "drug": {"a": 2.0, "b": 1.0, "c": 6.0},
        "cut": {"a": 7.0, "b": 5.0, "c": 0},
    },
    abstain=2.5,
)


def test_decisions_of_one_score_are_those_of_elkans_threshold() -> None:
    p = np.random.default_rng(0).random(1_000)
    assert (Policy(YES_NO).decide(p) == "yes").tolist() == (p > YES_NO.threshold).tolist()
    own = Policy(YES_NO, threshold=0.7).decide(np.append(p, 0.7))
    assert (own == "yes").tolist() == [*(p >= 0.7).tolist(), True]


def test_ties_go_to_the_first_action() -> None:
    same = Problem([[1.0, 1.0], [1.0, 1.0]], actions=["x", "y"])
    assert Policy(same).decide([0.0, 0.3, 1.0]).tolist() == ["x"] * 3
    named = Problem([[1.0, 1.0], [1.0, 1.0]], actions=["x", "y"], do_nothing="y")
    assert Policy(named).decide([0.0, 0.3, 1.0]).tolist() == ["y"] * 3


def test_no_action_of_a_row_would_have_been_expected_to_cost_less() -> None:
    p = np.random.default_rng(1).dirichlet([1.0, 1.0, 1.0], 500)
    losses = p @ THREE.table.T
    decided = Policy(THREE).decide(p)
    chosen = losses[np.arange(500), [THREE.actions.index(a) for a in decided]]
    np.testing.assert_allclose(chosen, losses.min(axis=1), atol=1e-12)
    assert Policy(THREE).choose(losses).tolist() == decided.tolist()


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_frames_go_by_names_and_give_back_a_series_with_their_index(order: list[int]) -> None:
    p = np.random.default_rng(2).dirichlet([1.0, 1.0, 1.0], 50)
    plain = Policy(THREE).decide(p).tolist()
    columns = {f"p_{'abc'[k]}": p[:, k] for k in order}
    of_pandas = Policy(THREE).decide(pd.DataFrame(columns, index=range(100, 150)))
    assert isinstance(of_pandas, pd.Series)
    assert of_pandas.index.tolist() == list(range(100, 150))
    of_polars = Policy(THREE).decide(pl.DataFrame(columns))
    assert isinstance(of_polars, pl.Series)
    of_arrow = Policy(THREE).decide(pa.table(columns))
    assert plain == of_pandas.tolist() == of_polars.to_list() == of_arrow.to_pylist()
    assert Policy(YES_NO).decide(pa.array([0.1, 0.9])).to_pylist() == ["no", "yes"]


def assigned(losses: np.ndarray, room: dict[int, int]) -> float:
    """Return the least total loss, by SciPy's assignment of rows to as many copies of an action as there is room."""
    slots = [a for a in range(losses.shape[1]) for _ in range(room.get(a, len(losses)))]
    rows, columns = linear_sum_assignment(losses[:, slots])
    return float(losses[:, slots][rows, columns].sum())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_capacities_are_kept_at_the_least_total_loss(data: st.DataObject) -> None:
    n, n_actions = data.draw(st.integers(1, 12)), data.draw(st.integers(2, 4))
    limited = data.draw(st.lists(st.integers(0, n_actions - 1), unique=True, min_size=1, max_size=n_actions - 1))
    room = {a: data.draw(st.integers(0, 4)) for a in limited}
    values = data.draw(st.lists(st.integers(-8, 8), min_size=n * n_actions, max_size=n * n_actions))
    losses = np.array(values, dtype=float).reshape(n, n_actions)
    found = choose(losses, room)
    assert all((found == a).sum() <= most for a, most in room.items())
    assert losses[np.arange(n), found].sum() == assigned(losses, room)


def test_capacities_of_many_rows_are_kept_at_the_least_total_loss() -> None:
    losses = np.random.default_rng(3).normal(size=(400, 4))
    room = {1: 30, 2: 50, 3: 7}
    found = choose(losses, room)
    assert [(found == a).sum() for a in (1, 2, 3)] == [30, 50, 7]
    assert losses[np.arange(400), found].sum() == pytest.approx(assigned(losses, room), abs=1e-9)


def test_a_single_limited_action_goes_to_the_rows_that_gain_most() -> None:
    problem = Problem({"call": {0: 1.0, 1: -9.0}}, do_nothing="wait", capacity={"call": 2})
    assert Policy(problem).decide([0.2, 0.9, 0.3, 0.9, 0.9]).tolist() == ["wait", "call", "wait", "call", "wait"]
    assert Policy(problem).decide([0.01, 0.02, 0.9]).tolist() == ["wait", "wait", "call"], "none that loses by it"


def test_capacities_hold_for_each_day_as_if_it_were_alone() -> None:
    rng = np.random.default_rng(4)
    p, day = rng.random(300), rng.choice(["mon", "tue", "wed"], 300)
    problem = Problem(
        {"call": {0: 1.0, 1: -9.0}, "mail": {0: 0.1, 1: -1.0}}, do_nothing="-", capacity={"call": 20, "mail": 9}
    )
    found = Policy(problem).decide(p, per=day)
    for name in np.unique(day):
        np.testing.assert_array_equal(found[day == name], Policy(problem).decide(p[day == name]))
    with pytest.raises(InvalidInputError, match="no action has one"):
        Policy(YES_NO).decide(p, per=day)


# --- SQL ---------------------------------------------------------------------------------------------------------

COSTLY = Problem({"no": {0: 0.0, 1: "amount"}, "yes": {0: 5.0, 1: 0.0}}, abstain=3.0)
ROWS = {"id": np.arange(400), "amount": np.random.default_rng(6).integers(0, 40, 400).astype(float)}
ROWS["p"] = np.random.default_rng(5).random(400)
ROWS |= {
    f"p_{c}": column for c, column in zip("cab", np.random.default_rng(7).dirichlet([1, 1, 1], 400).T, strict=True)
}


def in_duckdb(sql: str) -> list[Any]:
    with duckdb.connect() as base:
        base.register("scores", pa.table(ROWS))
        return [row[1] for row in sorted(base.execute(sql).fetchall())]


def in_sqlite(sql: str) -> list[Any]:
    base = sqlite3.connect(":memory:")
    base.execute(f"CREATE TABLE scores ({', '.join(ROWS)})")
    rows = zip(*(column.tolist() for column in ROWS.values()), strict=True)
    base.executemany(f"INSERT INTO scores VALUES ({', '.join('?' * len(ROWS))})", rows)
    return [row[1] for row in sorted(base.execute(sql).fetchall())]


ENGINES = {"duckdb": in_duckdb, "sqlite": in_sqlite}


@pytest.mark.parametrize("dialect", ENGINES)
@pytest.mark.parametrize("case", ["one score", "threshold", "three classes", "costs", "calibrator"])
def test_sql_gives_the_same_actions(dialect: Any, case: str) -> None:
    run, classes = ENGINES[dialect], ["p_b", "p_c", "p_a"]
    match case:
        case "one score":
            sql, wanted = Policy(YES_NO).to_sql(dialect, keep=["id"]), Policy(YES_NO).decide(ROWS["p"])
        case "threshold":
            policy = Policy(YES_NO, threshold=0.55)
            sql, wanted = policy.to_sql(dialect, keep=["id"]), policy.decide(ROWS["p"])
        case "three classes":
            sql = Policy(THREE).to_sql(dialect, columns=classes, keep=["id"])
            wanted = Policy(THREE).decide(pd.DataFrame({name: ROWS[name] for name in classes}))
        case "costs":
            sql = Policy(COSTLY).to_sql(dialect, keep=["id"])
            wanted = Policy(COSTLY).decide(ROWS["p"], costs=pd.DataFrame(ROWS))
        case _:
            calibrator = cb.BetaCalibrator().fit(ROWS["p"], ROWS["p"] ** 2 > 0.3 + 0.2 * np.sin(ROWS["id"]))
            sql = Policy(YES_NO).to_sql(dialect, columns="p", calibrator=calibrator, keep=["id"])
            wanted = Policy(YES_NO).decide(calibrator.predict_proba(ROWS["p"]))
    assert run(sql) == list(wanted)
    assert len(set(wanted)) > 1


@pytest.mark.parametrize("dialect", ENGINES)
def test_sql_gives_null_where_decide_refuses(dialect: Any) -> None:
    sql = Policy(COSTLY).to_sql(dialect, keep=["id"], table="(SELECT 1 AS id, 1.5 AS p, 3.0 AS amount) AS t")
    assert ENGINES[dialect](sql) == [None]
    sql = Policy(COSTLY).to_sql(dialect, keep=["id"], table="(SELECT 1 AS id, 0.5 AS p, NULL AS amount) AS t")
    assert ENGINES[dialect](sql) == [None]


def test_sql_refuses_what_no_column_can_say() -> None:
    limited = Problem({"call": {0: 1.0, 1: -9.0}}, do_nothing="wait", capacity={"call": 2})
    with pytest.raises(InvalidInputError, match="compares rows with each other"):
        Policy(limited).to_sql()
    function = Problem(lambda *_: 0.0, actions=["x", "y"], classes=[0, 1])
    with pytest.raises(InvalidInputError, match="have no form in SQL"):
        Policy(function).to_sql()
    with pytest.raises(ShapeError, match="losses of 3"):
        Policy(THREE).to_sql(columns="p")


# --- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("of_calibrator", [False, True])
def test_files_get_a_column_of_actions(tmp_path: Path, suffix: str, of_calibrator: bool) -> None:
    table = pa.table(ROWS)
    pq.write_table(table, tmp_path / "in.parquet")
    if suffix == ".csv":
        pyarrow.csv.write_csv(table, tmp_path / "in.csv")
    if suffix == ".jsonl":
        (tmp_path / "in.jsonl").write_text(
            pd.DataFrame(ROWS).to_json(orient="records", lines=True, double_precision=15)
        )
    problem = Problem({'"so,":\n': {0: 0.0, 1: "amount"}, "yes": {0: 5.0, 1: 0.0}}, abstain=3.0)
    calibrator = cb.SigmoidCalibrator().fit(ROWS["p"], ROWS["p"] > 0.5) if of_calibrator else None
    done = Policy(problem).apply(tmp_path / f"in{suffix}", tmp_path / f"out{suffix}", calibrator=calibrator)
    assert done.n_rows == 400
    p = ROWS["p"] if calibrator is None else calibrator.predict_proba(ROWS["p"])
    wanted = Policy(problem).decide(p, costs=ROWS)
    out = tmp_path / f"out{suffix}"
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".jsonl": lambda f: pd.read_json(f, lines=True)}
    found = read[suffix](out)
    assert found["action"].tolist() == wanted.tolist()
    assert found["id"].tolist() == list(range(400))


def test_a_calibrator_by_group_takes_its_column_of_groups(tmp_path: Path) -> None:
    group = np.where(ROWS["id"] % 3 == 0, "x", "y")
    calibrator = cb.GroupedCalibrator("sigmoid").fit(ROWS["p"], (ROWS["p"] > 0.5) ^ (group == "x"), groups=group)
    pq.write_table(pa.table(ROWS | {"kind": group}), tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    Policy(COSTLY).apply(tmp_path / "in.parquet", out, calibrator=calibrator, group="kind")
    wanted = Policy(COSTLY).decide(calibrator.predict_proba(ROWS["p"], groups=group), costs=ROWS)
    assert pq.read_table(out)["action"].to_pylist() == wanted.tolist()
    with pytest.raises(InvalidInputError, match="doesn't say which column names its groups"):
        Policy(COSTLY).apply(tmp_path / "in.parquet", out, calibrator=calibrator)
    with pytest.raises(InvalidInputError, match="group= names what a calibrator was fitted by"):
        Policy(COSTLY).apply(tmp_path / "in.parquet", out, group="kind")


def test_groups_of_a_calibrator_that_were_text_are_read_as_text(tmp_path: Path) -> None:
    group = np.where(ROWS["id"] % 3 == 0, "01", "1")
    calibrator = cb.GroupedCalibrator("sigmoid").fit(ROWS["p"], (ROWS["p"] > 0.5) ^ (group == "01"), groups=group)
    pd.DataFrame(ROWS | {"kind": group}).to_csv(tmp_path / "in.csv", index=False)
    Policy(COSTLY).apply(tmp_path / "in.csv", tmp_path / "out.csv", calibrator=calibrator, group="kind")
    wanted = Policy(COSTLY).decide(calibrator.predict_proba(ROWS["p"], groups=group), costs=ROWS)
    assert pd.read_csv(tmp_path / "out.csv")["action"].tolist() == wanted.tolist()


def test_a_column_may_be_score_and_cost_at_once(tmp_path: Path) -> None:
    problem = Problem({"no": {0: 0.0, 1: "p"}, "yes": {0: 0.3, 1: 0.0}})
    pq.write_table(pa.table(ROWS), tmp_path / "in.parquet")
    Policy(problem).apply(tmp_path / "in.parquet", tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")["action"].to_pylist()
    assert found == Policy(problem).decide(ROWS["p"], costs=ROWS).tolist()
    assert len(set(found)) == 2


def test_rows_that_lack_a_score_are_refused_kept_without_action_or_left_out(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("p,id\n0.9,1\n,2\n0.1,3\n")
    policy = Policy(YES_NO)
    with pytest.raises(InvalidInputError, match="missing"):
        policy.apply(tmp_path / "in.csv", tmp_path / "out.csv")
    policy.apply(tmp_path / "in.csv", tmp_path / "out.csv", missing="keep")
    assert (tmp_path / "out.csv").read_text() == "p,id,action\n0.9,1,yes\n,2,\n0.1,3,no\n"
    done = policy.apply(tmp_path / "in.csv", tmp_path / "out.csv", missing="skip")
    assert (tmp_path / "out.csv").read_text() == "p,id,action\n0.9,1,yes\n0.1,3,no\n"
    assert done.n_missing == 1
    policy.apply(tmp_path / "in.csv", tmp_path / "out.parquet", missing="keep")
    assert pq.read_table(tmp_path / "out.parquet")["action"].to_pylist() == ["yes", None, "no"]


def test_rows_that_lack_a_cost_are_refused_as_those_without_a_score(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("p,fee\n0.9,1\n0.5,\n0.1,3\n")
    policy = Policy(Problem({"no": {0: 0.0, 1: 4.0}, "yes": {0: "fee", 1: 0.0}}))
    with pytest.raises(InvalidInputError, match=r"column 'fee' row 1: missing value.*missing='skip'"):
        policy.apply(tmp_path / "in.csv", tmp_path / "out.csv")
    policy.apply(tmp_path / "in.csv", tmp_path / "out.csv", missing="keep")
    assert (tmp_path / "out.csv").read_text() == "p,fee,action\n0.9,1,yes\n0.5,,\n0.1,3,no\n"


def test_streams_refuse_capacities_and_unnamed_costs(tmp_path: Path) -> None:
    limited = Problem({"call": {0: 1.0, 1: -9.0}}, do_nothing="wait", capacity={"call": 2})
    with pytest.raises(InvalidInputError, match="a stream of rows can't"):
        Policy(limited).apply({"p": [0.5]}, tmp_path / "out.csv")
    given_rows = Problem.two_actions(false_positive=[1.0], false_negative=2.0)
    with pytest.raises(InvalidInputError, match="Name columns of costs"):
        Policy(given_rows).apply({"p": [0.5]}, tmp_path / "out.csv")


def test_a_folder_of_parts_is_not_continued_by_another_policy(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("p\n0.9\n0.1\n")
    Policy(YES_NO).apply(tmp_path / "in.csv", f"{tmp_path}/out/")
    Policy(YES_NO).apply(tmp_path / "in.csv", f"{tmp_path}/out/")
    with pytest.raises(InvalidInputError, match="something else than policy"):
        Policy(YES_NO, threshold=0.95).apply(tmp_path / "in.csv", f"{tmp_path}/out/")


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Policy("x"), InvalidTypeError, "problem is a str"),  # type: ignore[arg-type]
        (lambda: Policy(THREE, threshold=0.5), InvalidInputError, "two actions and two classes"),
        (lambda: Policy(YES_NO, threshold=1.5), InvalidInputError, "threshold=1.5 is outside"),
        (lambda: Policy(YES_NO).choose([[1.0, 2.0, 3.0]]), ShapeError, "a column for each of"),
        (lambda: Policy(YES_NO, threshold=0.5).choose([[1.0, 2.0]]), InvalidInputError, "goes by a threshold"),
        (lambda: Policy(YES_NO).read_actions(["yes", "maybe"], 2), UnknownNameError, "'maybe'"),
    ],
)
def test_what_is_no_policy_is_refused(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_every_pair_of_equal_losses_is_decided_alike_in_sql_and_python() -> None:
    """Ties of floating-point sums fall alike, since both add in the same order."""
    table = np.array([[0.1, 0.7, 0.3], [0.3, 0.1, 0.7], [0.7, 0.3, 0.1]])
    problem = Problem(table, actions=["x", "y", "z"])
    p = np.array([q for q in product(np.arange(11) / 10, repeat=3) if abs(sum(q) - 1) < 1e-9])
    with duckdb.connect() as base:
        base.register("scores", pa.table({"id": np.arange(len(p)), **{f"p{k}": p[:, k].copy() for k in range(3)}}))
        sql = Policy(problem).to_sql("duckdb", columns=["p0", "p1", "p2"], keep=["id"])
        found = [row[1] for row in sorted(base.execute(sql).fetchall())]
    assert found == Policy(problem).decide(p).tolist()


def test_sql_behind_a_calibrator_by_segments_reads_its_features() -> None:
    rng = np.random.default_rng(30)
    p, age = rng.random(2_000), rng.uniform(20.0, 80.0, 2_000)
    y = (rng.random(2_000) < np.where(age < 40.0, p**3, p)).astype(int)
    fitted = cb.SegmentCalibrator("sigmoid").fit(p, y, features={"${age}": age})
    policy = Policy(Problem({"act": {0: 1.0, 1: 0.0}, "leave": {0: 0.0, 1: 2.0}}))
    rows = pa.table({"p": p, "${age}": [None if i % 7 == 0 else value for i, value in enumerate(age.tolist())]})
    expected = policy.decide(fitted.predict_proba(p, features=rows))
    with duckdb.connect() as base:
        base.register("scores", rows)
        found = base.execute(policy.to_sql("duckdb", columns="p", calibrator=fitted)).fetchall()
    assert [row[0] for row in found] == expected.tolist()
    with pytest.raises(InvalidInputError, match=r"spark reads a part of the name .* as a variable"):
        policy.to_sql("spark", columns="p", calibrator=fitted)
