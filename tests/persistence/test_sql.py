"""SQL says what `predict_proba` says: run on DuckDB, SQLite and PostgreSQL, parsed in every dialect."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import sqlglot
from export_cases import CASES, fitted_calibrator, is_likelihood, scores_of
from sql_engines import Engine, OnDuckdb

import calibrant as cb
from calibrant.errors import (
    InvalidInputError,
    InvalidTypeError,
    MissingPackageError,
    NotFittedError,
    ShapeError,
    UnknownNameError,
)
from calibrant.maps import StepMap
from calibrant.numerics import FloatArray
from calibrant.persistence import to_onnx, to_sql
from calibrant.persistence.dialects import dialect_of

TOLERANCE = 1e-12
IN_SQL = [name for name, (_, fitted) in CASES.items() if not is_likelihood(fitted)]
LITERALS = [
    0.0,
    -0.0,
    1.0,
    0.1,
    -0.3,
    5e-324,
    -1e-310,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    1e22,
    1e-5,
    2.0**60,
]


def names_of(scores: FloatArray) -> list[str]:
    return ["score"] if scores.ndim == 1 else [f"s{k}" for k in range(scores.shape[1])]


on_each_engine = pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgres"], indirect=True)


def run(engine: Engine, sql: str, scores: FloatArray) -> FloatArray:
    """Return the columns of probabilities, in the order of the rows."""
    columns = scores[:, None] if scores.ndim == 1 else scores
    table = {"id": np.arange(len(scores)), **dict(zip(names_of(scores), columns.T, strict=True))}
    found = np.array(engine.run(sql, table).rows, dtype=np.float64)
    assert len(found) == len(scores), "each row once"
    return found[np.argsort(found[:, 0])][:, 1:]


@pytest.mark.parametrize("largest_case", [128, 3], ids=["trees", "tables"])
@on_each_engine
@pytest.mark.parametrize("name", IN_SQL)
def test_every_map_in_sql_gives_what_predict_proba_gives(name: str, engine: Engine, largest_case: int) -> None:
    kind, fitted = CASES[name]
    calibrator, scores = fitted_calibrator(kind, fitted), scores_of(kind, fitted)
    assert len(scores) >= 10_000
    sql = to_sql(calibrator, engine.name, columns=names_of(scores), keep=["id"], largest_case=largest_case)
    expected = calibrator.predict_proba(scores).reshape(len(scores), -1)
    assert np.abs(run(engine, sql, scores) - expected).max() <= TOLERANCE


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"], indirect=True)
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_automatic_calibration_for_sql_gives_there_what_predict_proba_gives(n_classes: int, engine: Engine) -> None:
    rng = np.random.default_rng(n_classes)
    truth = rng.dirichlet(np.ones(n_classes), 3000)
    y = (truth.cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1)
    bent = np.clip(truth + 0.12 * np.sin(9.0 * truth), 0.01, None)
    scores = bent / bent.sum(axis=1, keepdims=True)
    scores = scores[:, 1].copy() if n_classes == 2 else scores
    calibrator = cb.AutoCalibrator(exportable="sql").fit(scores, y)
    assert calibrator.report_.chosen == "blend"
    sql = to_sql(calibrator, engine.name, columns=names_of(scores), keep=["id"])
    expected = calibrator.predict_proba(scores).reshape(len(scores), -1)
    assert np.abs(run(engine, sql, scores) - expected).max() <= 1e-12


@pytest.mark.parametrize("dialect", ["spark", "bigquery", "snowflake"])
@pytest.mark.parametrize("name", [name for name in IN_SQL if "large" not in name])
def test_every_map_is_valid_in_every_dialect_and_means_the_same_there(name: str, dialect: Any) -> None:
    """What one dialect says, translated to DuckDB by sqlglot, gives the same probabilities."""
    kind, fitted = CASES[name]
    calibrator, scores = fitted_calibrator(kind, fitted), scores_of(kind, fitted)[:100]
    sql = to_sql(calibrator, dialect, columns=names_of(scores), keep=["id"], largest_case=30)
    (translated,) = sqlglot.transpile(sql, read=dialect, write="duckdb")
    expected = calibrator.predict_proba(scores).reshape(len(scores), -1)
    assert np.abs(run(OnDuckdb(), translated, scores) - expected).max() <= TOLERANCE


@on_each_engine
@pytest.mark.parametrize("value", LITERALS)
def test_numbers_are_read_as_the_very_float64(engine: Engine, value: float) -> None:
    drawn = np.random.default_rng(1).integers(0, 2**63 - 2**53, 300, dtype=np.int64).view(np.float64)
    numbers = [value, *drawn[np.isfinite(drawn)].tolist(), *(-np.random.default_rng(2).random(300)).tolist()]
    texts = [dialect_of(engine.name).double(number) for number in numbers]
    (found,) = engine.run(f"SELECT {', '.join(texts)} FROM scores", {"id": [1]}).rows
    assert list(map(type, found)) == [float] * len(numbers)
    assert np.array_equal(np.array(found), np.array(numbers))


@on_each_engine
def test_what_predict_proba_refuses_is_null(engine: Engine) -> None:
    calibrator = fitted_calibrator("probability", StepMap(np.array([0.5]), np.array([0.25, 0.75])))
    bad: list[Any] = [None, -5e-324, 1.0000000000000002, np.nan, np.inf, -np.inf]
    scores = [0.2, 0.9, *bad, *(["0.2", b"0.2"] if engine.name == "sqlite" else [])]
    found = engine.run(to_sql(calibrator, engine.name), {"score": scores})
    assert [row[0] for row in found.rows] == [0.25, 0.75] + [None] * (len(scores) - 2)


@on_each_engine
@pytest.mark.parametrize(("input", "good"), [("probability", [0.2, 0.3, 0.5, 0.0]), ("logit", [1.0, 2.0, -3.0, 0.0])])
def test_row_with_one_bad_column_is_null_in_all(engine: Engine, input: str, good: list[float]) -> None:
    name = {"probability": "softmax of probabilities", "logit": "softmax of logits"}[input]
    calibrator = fitted_calibrator(input, CASES[name][1])
    rows: list[list[Any]] = [good, [*good[:3], None], [np.inf, *good[1:]]]
    rows += [[0.5, 0.5, 0.5, 0.0], [0.2, 0.2, 0.2, 0.2]] if input == "probability" else []
    columns = [f"s{k}" for k in range(4)]
    table = dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
    found = engine.run(to_sql(calibrator, engine.name, columns=columns), table).rows
    assert np.abs(np.array(found[0]) - calibrator.predict_proba([good])[0]).max() <= TOLERANCE
    assert found[1:] == [(None,) * 4] * (len(rows) - 1)


def test_decimal_text_and_float32_columns_are_read_as_float64() -> None:
    calibrator = fitted_calibrator("probability", CASES["beta of a probability"][1])
    for kind in ("DECIMAL(9, 4)", "REAL", "VARCHAR", "INTEGER"):
        score = "1" if kind == "INTEGER" else "0.25"
        source = f"(SELECT CAST('{score}' AS {kind}) AS score) AS one"
        ((got,),) = OnDuckdb().run(to_sql(calibrator, "duckdb", table=source), {"score": [0.0]}).rows
        assert got == pytest.approx(calibrator.predict_proba([float(score)])[0], abs=TOLERANCE)


@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "spark"], indirect=True)
def test_text_that_is_no_number_is_null_and_does_not_fail_the_batch(engine: Engine) -> None:
    calibrator = fitted_calibrator("probability", CASES["beta of a probability"][1])
    sql = to_sql(calibrator, engine.name, columns="s0", keep=["id"])
    found = dict(engine.run(sql, {"id": [0, 1, 2, 3], "s0": ["abc", "", None, "0.25"]}).rows)
    assert found[0] is found[1] is found[2] is None
    if engine.name != "sqlite":  # where text is no number, whatever it holds
        assert found[3] == pytest.approx(calibrator.predict_proba([0.25])[0], abs=TOLERANCE)


def test_dates_are_null_in_duckdb() -> None:
    calibrator = fitted_calibrator("probability", CASES["beta of a probability"][1])
    sql = to_sql(calibrator, "duckdb", table="(SELECT DATE '2024-01-01' AS score) AS one")
    assert OnDuckdb().run(sql, {"score": [0.0]}).rows == [(None,)]


@pytest.mark.parametrize(
    ("dialect", "cast"),
    [
        ("bigquery", "SAFE_CAST(`score` AS FLOAT64)"),
        ("postgres", 'CAST("score" AS DOUBLE PRECISION)'),
        ("snowflake", 'CAST("SCORE" AS DOUBLE)'),  # whose TRY_CAST takes text only
    ],
)
def test_casts_of_engines_that_do_not_run_here(dialect: Any, cast: str) -> None:
    sql = to_sql(fitted_calibrator("probability", CASES["beta of a probability"][1]), dialect)
    assert f"WHEN {cast} BETWEEN" in sql
    assert sqlglot.parse_one(sql, dialect=dialect)


@pytest.mark.parametrize("input", ["probability", "logit"])
def test_two_columns_of_two_classes(input: str) -> None:
    calibrator = fitted_calibrator(
        input, CASES["beta of a probability" if input == "probability" else "logistic of a score"][1]
    )
    p = np.random.default_rng(3).random(100)
    scores = np.column_stack((1.0 - p, p)) if input == "probability" else np.column_stack((p, -2.0 * p))
    sql = to_sql(calibrator, "duckdb", columns=["s0", "s1"], keep=["id"])
    assert np.abs(run(OnDuckdb(), sql, scores) - calibrator.predict_proba(scores)).max() <= TOLERANCE
    assert '"p_calibrated_False"' in sql


def test_other_kinds_of_calibrators() -> None:
    rng = np.random.default_rng(4)
    p = rng.dirichlet([1.0, 1.0, 1.0], 300)
    y = np.array([rng.choice(3, p=row) for row in p])
    names = ["s0", "s1", "s2"]
    facade = cb.ProbabilityCalibrator(cb.CalibrationConfig(cv=2, min_samples=50))
    facade.fit(y, p)
    shift = cb.prior.PriorShift([1.0, 2.0, 0.5])
    labels = cb.MultilabelCalibrator("isotonic").fit(p, np.column_stack((y == 0, y == 1, y > 0)))
    for calibrator in (facade, shift, labels):
        apply = getattr(calibrator, "calibrate", None) or calibrator.predict_proba
        sql = to_sql(calibrator, "duckdb", columns=names, keep=["id"])
        assert np.abs(run(OnDuckdb(), sql, p) - np.asarray(apply(p))).max() <= TOLERANCE, type(calibrator)


@on_each_engine
def test_prior_shift_keeps_0_and_1_and_what_is_near_them(engine: Engine) -> None:
    p = np.array([0.0, 1e-300, 1e-20, 1e-12, 0.3, 1.0 - 1e-13, 1.0 - 2.0**-53, 1.0])
    for weight in (1e6, 1e-6, 1e30, 1e-30):
        shift = cb.prior.PriorShift.from_class_weight({0: 1.0, 1: weight})
        for scores in (p, np.column_stack((1.0 - p, p))):
            sql = to_sql(shift, engine.name, columns=names_of(scores), keep=["id"])
            expected = shift.predict_proba(scores).reshape(len(p), -1)
            np.testing.assert_allclose(run(engine, sql, scores), expected, rtol=1e-14, atol=1e-307)
    wide = cb.prior.PriorShift([1.0, 1e-299])
    found = run(engine, to_sql(wide, engine.name, keep=["id"]), p)  # products below the smallest number are no error
    np.testing.assert_allclose(found[:, 0], wide.predict_proba(p), rtol=1e-14, atol=1e-307)


@pytest.mark.slow
@on_each_engine
@pytest.mark.parametrize("n_classes", [30, 100])
def test_hundred_classes_stay_short_enough_to_run(engine: Engine, n_classes: int) -> None:
    """Stages keep engines from writing sums of sums out: a matrix of 100 classes has 10,000 weights, not 10^8."""
    rng = np.random.default_rng(5)
    weight = 1.0 if n_classes == 100 else np.eye(n_classes) + rng.normal(0.0, 0.1, (n_classes, n_classes))
    fitted = cb.TemperatureCalibrator(input="logit")
    fitted.map_ = type(CASES["softmax of logits"][1])(np.array(weight), rng.normal(size=n_classes), None)  # type: ignore[call-arg]
    fitted.classes_, fitted.n_rows_, fitted.score_names_ = np.arange(n_classes), 1, None
    scores = rng.normal(0.0, 2.0, (50, n_classes))
    sql = to_sql(fitted, engine.name, columns=names_of(scores), keep=["id"])
    assert np.abs(run(engine, sql, scores) - fitted.predict_proba(scores)).max() <= TOLERANCE


def test_name_without_capitals_means_in_snowflake_what_it_means_without_quotes() -> None:
    calibrator = fitted_calibrator("probability", CASES["beta of a probability"][1])
    assert to_sql(calibrator, "snowflake", columns="SCORE") == to_sql(calibrator, "snowflake", columns="score")
    assert to_sql(calibrator, "snowflake", columns="Score").count('"Score"') == 2
    assert to_sql(calibrator, "postgres", columns="score").count('"score"') == 2


@on_each_engine
def test_column_that_is_not_there_is_an_error_and_no_text(engine: Engine) -> None:
    calibrator = fitted_calibrator("probability", CASES["beta of a probability"][1])
    with pytest.raises(Exception, match=r"column.*nothing|nothing.*not found"):
        engine.run(to_sql(calibrator, engine.name, keep=["nothing"]), {"score": [0.5]})


def test_columns_are_matched_to_those_of_the_fit_by_name() -> None:
    calibrator = fitted_calibrator("probability", CASES["softmax, matrix of probabilities"][1])
    calibrator.score_names_ = ("s_one", "s_two", "s_three", "s_four")
    in_order = to_sql(calibrator)
    assert to_sql(calibrator, columns=["s_four", "s_two", "s_one", "s_three"]) == in_order
    others = ["a", "b", "c", "d"]
    assert to_sql(calibrator, columns=others) != in_order
    assert to_sql(calibrator, columns=others) != to_sql(calibrator, columns=others[::-1])


def test_columns_of_the_fit_are_the_default() -> None:
    named = fitted_calibrator("probability", CASES["beta of a probability"][1])
    named.score_names_ = ("p",)
    assert 'TRY_CAST("p" AS DOUBLE)' in to_sql(named)
    assert 'TRY_CAST("score" AS DOUBLE)' in to_sql(fitted_calibrator("probability", CASES["beta of a probability"][1]))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"dialect": "duckbd"}, UnknownNameError, "unknown dialect 'duckbd'. Did you mean 'duckdb'"),
        (
            {"columns": ["a", "b", "c"]},
            ShapeError,
            "columns=['a', 'b', 'c'] has 3 columns, but this calibrator was fitted for the 2 cl",
        ),
        ({"columns": 3}, InvalidTypeError, "columns=3 is a int. Pass a list of names"),
        ({"keep": "id"}, InvalidTypeError, "keep='id' is a str. Pass a list of names"),
        ({"keep": ["id", ""]}, InvalidTypeError, "keep holds '', which is no name"),
        ({"keep": ["p_calibrated"]}, InvalidInputError, "two columns named 'p_calibrated'. Leave it out of keep"),
        (
            {"keep": ["a", "A"]},
            InvalidInputError,
            "two columns named 'A': duckdb takes it for 'a'. Leave it",
        ),
        ({"table": "a b c ("}, InvalidInputError, "table='a b c (' is no single source that duckdb takes after FROM"),
        ({"table": "a JOIN b ON a.i = b.i"}, InvalidInputError, "is no single source"),
        ({"table": "scores; DROP TABLE scores"}, InvalidInputError, "table='scores; DROP TABLE scores' is no single"),
        ({"table": "(SELECT 1; DROP TABLE a) AS b"}, InvalidInputError, "is no single source"),
        ({"table": "(DELETE FROM a RETURNING *) AS b"}, InvalidInputError, "is no single source"),
        ({"table": "a WHERE x > 1"}, InvalidInputError, "is no single source"),
        ({"table": 3}, InvalidTypeError, "table=3 is a int"),
        ({"largest_case": 0}, InvalidInputError, "largest_case=0 is too small"),
        ({"largest_case": 2.5}, InvalidTypeError, "largest_case=2.5 is not a whole number"),
        ({"output": 1}, InvalidTypeError, "output holds 1, which is no name"),
    ],
)
def test_arguments_are_refused_by_name(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    calibrator = fitted_calibrator("probability", CASES["beta of a probability"][1])
    with pytest.raises(error) as raised:
        to_sql(calibrator, **arguments)
    assert text in str(raised.value)


def test_what_can_not_be_exported_says_the_way_out() -> None:
    likelihood = fitted_calibrator("probability", CASES["one_vs_rest, likelihood of probabilities"][1])
    with pytest.raises(InvalidInputError, match=r"coupling='likelihood' has no closed form.*'normalise'.*ONNX"):
        to_sql(likelihood, columns=[f"s{k}" for k in range(4)])
    with pytest.raises(InvalidInputError, match="columns: the calibrator doesn't say which columns"):
        to_sql(likelihood)
    with pytest.raises(NotFittedError, match="this SigmoidCalibrator is not fitted"):
        to_sql(cb.SigmoidCalibrator())
    with pytest.raises(InvalidTypeError, match=r"can't export 3 of type int\. Pass a fitted calibrator"):
        to_sql(3)
    p = np.linspace(0.0, 1.0, 40)
    grouped = cb.GroupedCalibrator("sigmoid").fit(p, p > np.resize([0.3, 0.7], 40), groups=np.arange(40) % 2)
    with pytest.raises(InvalidInputError, match="a GroupedCalibrator has one map for each group"):
        to_sql(grouped)
    score = fitted_calibrator("score", CASES["logistic of a score"][1])
    with pytest.raises(ShapeError, match=r"columns=\['a', 'b'\] has 2 columns"):
        to_sql(score, columns=["a", "b"])


@pytest.mark.parametrize(("package", "export", "extra"), [("sqlglot", to_sql, "sql"), ("onnx", to_onnx, "onnx")])
def test_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, export: Any, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"{package}: pip install 'calibrant\[{extra}\]'"):
        export(fitted_calibrator("probability", CASES["beta of a probability"][1]))
