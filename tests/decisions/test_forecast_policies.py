"""Policies on forecasts in the columns of files and databases: the actions are those of `decide`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant.decisions import Policy, Problem
from calibrant.errors import CalibrantError, InvalidInputError, InvalidTypeError, ShapeError, UnknownNameError
from calibrant.forecasts import AverageRecalibrator, ForecastColumns, GaussianForecast

N = 500
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)


def rows() -> dict[str, np.ndarray]:
    """Return forecasts of three kinds in columns, thresholds and prices."""
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=N), rng.uniform(0.05, 2.0, N)
    quantiles = np.sort(GaussianForecast(mean, std).ppf(np.array([LEVELS])) + 0.1 * rng.normal(size=(N, 7)), axis=1)
    quantiles[:60, 2] = quantiles[:60, 1]  # atoms
    quantiles[:20, :2] = quantiles[:20, 2:3]  # no width at the end
    quantiles[20:30] = quantiles[20:30, :1]  # no width at all
    samples = rng.normal(mean[:, None], std[:, None], (N, 9)).round(1)
    found = {"id": np.arange(N, dtype=float), "mu": mean, "sigma": std, "price": rng.uniform(0.5, 4.0, N)}
    found |= {"low": rng.normal(-0.5, 0.3, N), "gap": rng.random(N)}
    found["high"] = found["low"] + found["gap"]
    found |= {f"q{level:g}": column for level, column in zip(LEVELS, quantiles.T, strict=True)}
    found |= {f"s{k}": column for k, column in enumerate(samples.T)}
    found["samples_at"] = samples[:, 3]  # thresholds that fall on a sample
    return found


ROWS = rows()
Q = [f"q{level:g}" for level in LEVELS]
COLUMNS = {
    "normal": ForecastColumns(mean="mu", std="sigma"),
    "quantiles": ForecastColumns(quantiles=Q[::-1], levels=LEVELS[::-1]),
    "atoms": ForecastColumns(quantiles=Q, levels=LEVELS, tails="atoms"),
    "samples": ForecastColumns(samples=[f"s{k}" for k in range(9)]),
}
TABLE = {
    "few": {"calm": 1.0, "normal": 6.0, "busy": 20.0},
    "some": {"calm": 2.0, "normal": 2.0, "busy": 9.0},
    "all": {"calm": 4.0, "normal": 4.0, "busy": 4.0},
}
DEAR = {"wait": {"calm": 0.0, "busy": 5.0}, "go": {"calm": "price", "busy": 0.5}}
POLICIES = {
    "three ranges": Policy(Problem(TABLE, thresholds=[-0.4, 0.8], abstain=3.5)),
    "thresholds of rows": Policy(Problem(TABLE, thresholds=["low", "high"])),
    "costs of rows": Policy(Problem(DEAR, thresholds="samples_at", do_nothing="wait")),
    "the paper's rule": Policy(
        Problem.two_actions(false_positive=1.0, false_negative=4.0, thresholds=0.3), threshold=0.75
    ),
}


def in_duckdb(sql: str, table: dict[str, Any]) -> list[Any]:
    with duckdb.connect() as base:
        base.register("scores", pa.table(table))
        return [row[1] for row in sorted(base.execute(sql).fetchall())]


def in_sqlite(sql: str, table: dict[str, Any]) -> list[Any]:
    base = sqlite3.connect(":memory:")
    base.execute(f"CREATE TABLE scores ({', '.join(map(repr, table))})")
    values = zip(*(list(column) for column in table.values()), strict=True)
    base.executemany(f"INSERT INTO scores VALUES ({', '.join('?' * len(table))})", values)
    return [row[1] for row in sorted(base.execute(sql).fetchall())]


ENGINES: dict[Any, Callable[[str, dict[str, Any]], list[Any]]] = {"duckdb": in_duckdb, "sqlite": in_sqlite}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("dialect", ENGINES)
def test_sql_gives_the_actions_of_decide(kind: str, name: str, dialect: Any) -> None:
    policy, columns = POLICIES[name], COLUMNS[kind]
    wanted = policy.decide(columns.read(ROWS), costs=ROWS)
    sql = policy.to_sql(dialect, columns=columns, keep=["id"])
    table = {key: column.tolist() for key, column in ROWS.items()}
    assert ENGINES[dialect](sql, table) == wanted.tolist()
    assert len(set(wanted)) > 1


@pytest.mark.parametrize("dialect", ENGINES)
def test_sql_gives_the_probabilities_of_decide_to_the_last_digits(dialect: Any) -> None:
    """Of a policy whose second action loses P(Y <= y0), thresholds a hair beside it tell the probability."""
    at = np.concatenate([np.linspace(-12.0, 12.0, 199), [-30.0, 30.0, 1e-200, 1e90]])
    table = {"id": np.arange(at.size), "mu": np.zeros(at.size), "sigma": np.ones(at.size), "y0": at}
    above = GaussianForecast(np.zeros(at.size), 1.0).sf(at)
    for factor, action in ((1.0 - 1e-13, "yes"), (1.0 + 1e-13, "no")):
        table["fair"] = above * factor + (-1e-15 if action == "yes" else 1e-15)
        problem = Problem({"no": {0: 0.0, 1: 1.0}, "yes": {0: "fair", 1: "fair"}}, thresholds="y0")
        sql = Policy(problem).to_sql(dialect, columns=COLUMNS["normal"], keep=["id"])
        found = ENGINES[dialect](sql, {key: column.tolist() for key, column in table.items()})
        assert found == [action] * at.size


@pytest.mark.parametrize("dialect", ENGINES)
@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("normal", {"sigma": 0.0}),
        ("normal", {"mu": None}),
        ("normal", {"sigma": float("inf")}),
        ("normal", {"low": 2.0, "high": 1.0}),
        ("normal", {"high": None}),
        ("quantiles", {"q0.5": None}),
        ("quantiles", {"q0.5": 1e101}),
        ("samples", {"s4": None}),
    ],
)
def test_sql_gives_null_where_decide_refuses(dialect: Any, kind: str, change: dict[str, Any]) -> None:
    table = {key: [float(column[99])] for key, column in ROWS.items()}
    policy, columns = POLICIES["thresholds of rows"], COLUMNS[kind]
    sql = policy.to_sql(dialect, columns=columns, keep=["id"])
    assert ENGINES[dialect](sql, table) == policy.decide(columns.read(table), costs=table).tolist()
    table |= {key: [value] for key, value in change.items()}
    assert ENGINES[dialect](sql, table) == [None]
    with pytest.raises(CalibrantError):
        policy.decide(columns.read(table), costs=table)


@pytest.mark.parametrize("dialect", ENGINES)
def test_quantiles_that_cross_are_null_in_sql(dialect: Any) -> None:
    table = {key: [float(column[99])] for key, column in ROWS.items()}
    table["q0.5"], table["q0.75"] = table["q0.75"], table["q0.5"]
    sql = POLICIES["three ranges"].to_sql(dialect, columns=COLUMNS["quantiles"], keep=["id"])
    assert ENGINES[dialect](sql, table) == [None]


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "postgres", "bigquery", "snowflake", "sqlite"])
def test_every_dialect_is_written(dialect: Any) -> None:
    for columns in COLUMNS.values():
        assert "SELECT" in POLICIES["three ranges"].to_sql(dialect, columns=columns)


def test_many_quantiles_are_a_tree_that_engines_read() -> None:
    levels = np.arange(1, 100) / 100
    values = GaussianForecast(ROWS["mu"], ROWS["sigma"]).ppf(levels[None, :])
    table = {f"v{k}": values[:, k] for k in range(99)} | {"id": ROWS["id"]}
    columns = ForecastColumns(quantiles=[f"v{k}" for k in range(99)], levels=levels.tolist())
    policy = POLICIES["three ranges"]
    sql = policy.to_sql("duckdb", columns=columns, keep=["id"])
    assert in_duckdb(sql, table) == policy.decide(columns.read(table)).tolist()


# --- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("is_recalibrated", [False, True])
def test_files_get_the_actions_of_decide(tmp_path: Path, suffix: str, kind: str, is_recalibrated: bool) -> None:
    table = pd.DataFrame(ROWS)
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    table.to_parquet(source) if suffix == ".parquet" else table.to_csv(source, index=False)
    columns, forecast = COLUMNS[kind], COLUMNS[kind].read(ROWS)
    recalibrator = None
    if is_recalibrated:
        recalibrator = AverageRecalibrator(n_knots=10).fit(forecast, np.random.default_rng(1).normal(0.5, 2.0, N))
        forecast = recalibrator.transform(forecast)
    for policy in POLICIES.values():
        done = policy.apply(source, target, score=columns, calibrator=recalibrator)
        assert done.n_rows == N
        found = pd.read_parquet(target) if suffix == ".parquet" else pd.read_csv(target)
        assert found["action"].tolist() == policy.decide(forecast, costs=ROWS).tolist()
    if is_recalibrated:
        assert policy.decide(forecast, costs=ROWS).tolist() != policy.decide(columns.read(ROWS), costs=ROWS).tolist()


def order_loss(costs: Any, demand: np.ndarray, order: str) -> np.ndarray:
    return np.asarray(costs["price"] * float(order) + 4.0 * np.maximum(demand - float(order), 0.0))


def test_losses_of_functions_go_with_the_columns_that_are_named(tmp_path: Path) -> None:
    orders = Policy(Problem(order_loss, actions=["-1", "0", "1"]))
    by_class = Policy(
        Problem(lambda costs, label, action: costs["price"] * (label == action), actions=["a", "b"], classes=["a", "b"])
    )
    pq.write_table(pa.table(ROWS | {"p": ROWS["gap"]}), tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    orders.apply(tmp_path / "in.parquet", out, score=COLUMNS["normal"], costs=["price"])
    wanted = orders.decide(COLUMNS["normal"].read(ROWS), costs=ROWS)
    assert pq.read_table(out)["action"].to_pylist() == wanted.tolist()
    by_class.apply(tmp_path / "in.parquet", out, costs=["price"])
    assert pq.read_table(out)["action"].to_pylist() == by_class.decide(ROWS["gap"], costs=ROWS).tolist()


def test_parts_of_a_file_are_decided_as_the_whole(tmp_path: Path) -> None:
    """More rows than are held at once, and row groups that don't fit these parts."""
    rng = np.random.default_rng(2)
    n = 40_000
    table = {"mu": rng.normal(size=n), "sigma": rng.uniform(0.1, 2.0, n), "price": rng.uniform(0.5, 4.0, n)}
    table["samples_at"] = rng.normal(size=n)
    pq.write_table(pa.table(table), tmp_path / "in.parquet", row_group_size=17_001)
    policy = POLICIES["costs of rows"]
    policy.apply(tmp_path / "in.parquet", tmp_path / "out.parquet", score=COLUMNS["normal"])
    wanted = policy.decide(GaussianForecast(table["mu"], table["sigma"]), costs=table)
    assert pq.read_table(tmp_path / "out.parquet")["action"].to_pylist() == wanted.tolist()


def test_rows_that_lack_a_value_are_refused_kept_or_left_out(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("mu,sigma,id\n1.0,1.0,1\n,1.0,2\n-9.0,1.0,3\n")
    policy = POLICIES["the paper's rule"]
    with pytest.raises(InvalidInputError, match="missing"):
        policy.apply(tmp_path / "in.csv", tmp_path / "out.csv", score=COLUMNS["normal"])
    policy.apply(tmp_path / "in.csv", tmp_path / "out.csv", score=COLUMNS["normal"], missing="keep")
    assert (tmp_path / "out.csv").read_text() == "mu,sigma,id,action\n1.0,1.0,1,yes\n,1.0,2,\n-9.0,1.0,3,no\n"


def test_a_folder_of_parts_is_not_continued_by_other_thresholds(tmp_path: Path) -> None:
    pd.DataFrame(ROWS).to_csv(tmp_path / "in.csv", index=False)
    for _ in range(2):
        POLICIES["three ranges"].apply(tmp_path / "in.csv", f"{tmp_path}/out/", score=COLUMNS["normal"])
    other = Policy(Problem(TABLE, thresholds=[-0.4, 0.9], abstain=3.5))
    with pytest.raises(InvalidInputError, match="something else than policy"):
        other.apply(tmp_path / "in.csv", f"{tmp_path}/out/", score=COLUMNS["normal"])


def test_columns_are_read_from_any_table() -> None:
    for kind, columns in COLUMNS.items():
        first, *others = (
            columns.read(table).cdf(0.3) for table in (ROWS, pa.table(ROWS), pd.DataFrame(ROWS), pl.DataFrame(ROWS))
        )
        for other in others:
            np.testing.assert_array_equal(first, other)
        again = ForecastColumns(**columns.to_dict(), tails=columns.tails)
        assert again == columns, kind


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: ForecastColumns(), InvalidInputError, "none of mean, quantiles and samples"),
        (lambda: ForecastColumns(mean="a", std="b", samples=["c", "d"]), InvalidInputError, "mean and samples of"),
        (lambda: ForecastColumns(mean="a"), InvalidInputError, "mean and std go together"),
        (lambda: ForecastColumns(quantiles=["a", "b"]), InvalidInputError, "quantiles and levels go together"),
        (lambda: ForecastColumns(quantiles=["a"], levels=[0.5]), ShapeError, "Name at least two"),
        (lambda: ForecastColumns(quantiles=["a", "b"], levels=[0.5]), ShapeError, "levels"),
        (lambda: ForecastColumns(quantiles=["a", "b"], levels=[0.5, 0.5]), CalibrantError, "doesn't rise"),
        (lambda: ForecastColumns(samples="draws"), InvalidTypeError, "Pass a list of names"),
        (lambda: ForecastColumns(samples=["a", 3]), InvalidTypeError, "3 is no name"),
        (lambda: COLUMNS["normal"].read({"mu": [0.0], "sigm": [1.0]}), UnknownNameError, "'sigma'"),
        (lambda: POLICIES["three ranges"].to_sql(columns=["mu", "sigma"]), InvalidTypeError, "names no forecasts"),
        (lambda: POLICIES["three ranges"].to_sql(), InvalidTypeError, "ForecastColumns"),
        (lambda: POLICIES["three ranges"].apply(ROWS, "out.csv"), InvalidTypeError, "score='p' names no forecasts"),
        (
            lambda: Policy(Problem([[0.0, 1.0], [1.0, 0.0]])).to_sql(columns=COLUMNS["normal"]),
            InvalidTypeError,
            "the losses are of classes",
        ),
        (
            lambda: Policy(Problem(order_loss, actions=["0", "1"])).to_sql(columns=COLUMNS["normal"]),
            InvalidInputError,
            "losses of a function have no form in SQL",
        ),
        (
            lambda: POLICIES["three ranges"].to_sql(
                columns=COLUMNS["normal"],
                calibrator=AverageRecalibrator(),  # type: ignore[arg-type]
            ),
            InvalidTypeError,
            "has no form in SQL",
        ),
        (
            lambda: POLICIES["three ranges"].apply(
                ROWS, "out.csv", score=COLUMNS["normal"], calibrator=cb.BetaCalibrator()
            ),
            InvalidTypeError,
            "Pass a fitted recalibrator",
        ),
        (
            lambda: POLICIES["three ranges"].apply(ROWS, "out.csv", score=COLUMNS["normal"], costs=["price"]),
            InvalidInputError,
            "what a function of losses takes",
        ),
    ],
)
def test_what_names_no_forecasts_is_refused(make: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()
