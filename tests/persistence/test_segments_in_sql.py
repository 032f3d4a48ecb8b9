"""Trees on features in SQL give what `predict_proba` gives: run on every engine that runs here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sqlglot
from segment_documents import COLUMNS, N, features, mean_calibrator, predictions, scores_of, segment_calibrator
from sql_engines import Engine, OnDuckdb

import calibrant as cb
from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray
from calibrant.persistence import dialects, to_sql
from calibrant.segments import FeatureColumn

TOLERANCE = 1e-14
on_each_engine = pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgres", "spark"], indirect=True)


def table_of(scores: FloatArray, table: dict[str, list[Any]]) -> dict[str, Any]:
    columns = scores.reshape(N, -1).T
    return {"id": list(range(N)), **{f"s{k}": column for k, column in enumerate(columns)}, **table}


def check(engine: Engine, calibrator: Any, width: int, sql: str | None = None) -> None:
    scores, table = scores_of(width), features()
    if engine.name == "sqlite":  # which keeps NaN as NULL
        assert table["order"][0] != table["order"][0]
    sql = sql or to_sql(calibrator, engine.name, columns=[f"s{k}" for k in range(width)], keep=["id", "age"])
    found = sorted(engine.run(sql, table_of(scores, table)).rows)
    assert [row[0] for row in found] == list(range(N)), "each row once"
    expected = calibrator.predict_proba(scores, features=table).reshape(N, -1)
    assert np.ptp(expected, axis=0).min() > 0.5, "trees that do something"
    assert np.abs(np.array([row[2:] for row in found], dtype=np.float64) - expected).max() <= TOLERANCE


@pytest.mark.parametrize("width", [1, 2, 3])
@on_each_engine
def test_trees_in_sql_give_what_predict_proba_gives(engine: Engine, width: int) -> None:
    check(engine, segment_calibrator(max(width, 2)), width)


@on_each_engine
def test_chain_of_segments_reads_each_column_once(engine: Engine) -> None:
    shift = cb.prior.PriorShift([1.0, 2.0], classes=[0, 1])
    own = segment_calibrator(2, n_trees=4)
    chain = cb.Chain([own, shift, segment_calibrator(2, n_trees=5)])
    check(engine, chain, 1)
    sql = to_sql(chain, "duckdb", columns="s0")
    assert sql.count('"age"') == 2, "the range check and the value"


@on_each_engine
def test_hundreds_of_trees_run(engine: Engine) -> None:
    check(engine, segment_calibrator(2, n_trees=200, leaves=16), 1)


@pytest.mark.parametrize("n_trees", [30, 0])
@on_each_engine
def test_corrected_numbers_in_sql_are_those_of_predict(engine: Engine, n_trees: int) -> None:
    calibrator, table = mean_calibrator(n_trees=n_trees), features()
    sql = to_sql(calibrator, engine.name, columns="s0", keep=["id"])
    result = engine.run(sql, table_of(predictions(), table))
    assert result.names == ["id", "calibrated"]
    found = np.array([row[1] for row in sorted(result.rows)], dtype=np.float64)
    np.testing.assert_allclose(found, calibrator.predict(predictions(), features=table), rtol=1e-13, atol=1e-12)


@on_each_engine
def test_predictions_that_are_no_numbers_and_huge_ones_are_null_and_no_error(engine: Engine) -> None:
    calibrator = mean_calibrator()
    calibrator.slope_, calibrator.scale_ = 3.0, 1e-100
    given = table_of(np.resize([np.nan, np.inf, -np.inf, 1e308, -1e308, 5.0], N), features())
    found = sorted(engine.run(to_sql(calibrator, engine.name, columns="s0", keep=["id"]), given).rows)
    assert all((row[1] is None) == (i % 6 < 5) for i, row in enumerate(found)), "as predict refuses them"
    with np.errstate(over="ignore"):
        expected = calibrator.predict(given["s0"][5:6], features={name: c[5:6] for name, c in features().items()})
    assert found[5][1] == pytest.approx(expected[0], rel=1e-13)


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake"])
def test_other_dialects_mean_the_same_of_numbers(dialect: Any) -> None:
    calibrator = mean_calibrator(n_trees=6)
    (translated,) = sqlglot.transpile(to_sql(calibrator, dialect, keep=["id"]), read=dialect, write="duckdb")
    given = table_of(predictions(), features())
    given["score"] = given.pop("s0")
    found = [row[1] for row in sorted(OnDuckdb().run(translated, given).rows)]
    np.testing.assert_allclose(found, calibrator.predict(predictions(), features=features()), rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake"])
def test_other_dialects_mean_the_same(dialect: Any) -> None:
    calibrator = segment_calibrator(2, n_trees=6)
    sql = to_sql(calibrator, dialect, columns="s0", keep=["id", "age"])
    (translated,) = sqlglot.transpile(sql, read=dialect, write="duckdb")
    names = {"s0": "S0"} if dialect == "snowflake" else {}
    assert names.get("s0", "s0") in sql
    check(OnDuckdb(), calibrator, 1, translated)


@on_each_engine
def test_whole_numbers_text_and_infinity_in_a_column(engine: Engine) -> None:
    """Whole numbers are numbers and levels; infinity is missing, as the text says."""
    calibrator = segment_calibrator(2)
    table = features(has_missing=False)
    table["age"] = [int(x) if abs(x) < 1e9 else 7 for x in table["age"]]
    given = table_of(scores_of(1), table)
    given["order"] = [float("inf"), float("-inf"), *table["order"][2:]]
    found = sorted(engine.run(to_sql(calibrator, engine.name, columns="s0", keep=["id"]), given).rows)
    table["order"][:2] = [None, None]
    expected = calibrator.predict_proba(scores_of(1), features=table)
    assert np.abs(np.array([row[1] for row in found]) - expected).max() <= TOLERANCE


@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "spark"], indirect=True)
def test_text_that_is_no_number_is_a_missing_value_of_a_feature(engine: Engine) -> None:
    calibrator, table = segment_calibrator(2), features(has_missing=False)
    kinds = [None if c.levels is None else c.levels.dtype.kind for c in calibrator.columns_]
    for column, kind in zip(calibrator.columns_, kinds, strict=True):
        if kind in (None, "i", "b"):
            given = table_of(scores_of(1), table | {column.name: ["abc"] * N})
            found = sorted(engine.run(to_sql(calibrator, engine.name, columns="s0", keep=["id"]), given).rows)
            expected = calibrator.predict_proba(scores_of(1), features=table | {column.name: [None] * N})
            assert np.abs(np.array([row[1] for row in found]) - expected).max() <= TOLERANCE
    assert {None, "i", "b"} <= set(kinds)


def test_names_that_a_dialect_takes_for_one_are_refused() -> None:
    calibrator = segment_calibrator(2, n_trees=8)
    calibrator.columns_ = (*COLUMNS[:4], FeatureColumn("AGE"))
    with pytest.raises(InvalidInputError, match=r"the table would have two columns named 'AGE': duckdb takes it for"):
        to_sql(calibrator, "duckdb")
    assert to_sql(calibrator, "postgres")
    calibrator.columns_ = (*COLUMNS[:4], FeatureColumn("${x}"))
    with pytest.raises(InvalidInputError, match=r"spark reads a part of the name '\$\{x\}' as a variable"):
        to_sql(calibrator, "spark")


def test_a_score_may_be_a_feature_too() -> None:
    calibrator = segment_calibrator(2, n_trees=8)
    calibrator.columns_ = (*COLUMNS[:4], FeatureColumn("s0"))
    table = features()
    del table["order"]
    scores = scores_of(1)
    found = sorted(OnDuckdb().run(to_sql(calibrator, columns="s0", keep=["id"]), table_of(scores, table)).rows)
    expected = calibrator.predict_proba(scores, features=table | {"s0": scores})
    assert np.abs(np.array([row[1] for row in found]) - expected).max() <= TOLERANCE


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake"])
def test_a_query_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch, dialect: Any) -> None:
    known = dialects.dialect_of(dialect)
    assert known.longest_text == 2**20
    monkeypatch.setitem(dialects._KNOWN, dialect, replace(known, longest_text=9_000))
    assert to_sql(segment_calibrator(2, n_trees=2), dialect, columns="s0")
    with pytest.raises(InvalidInputError, match=rf"{dialect} takes queries of 9,000 bytes, and this one has"):
        to_sql(segment_calibrator(2, n_trees=30), dialect, columns="s0")
