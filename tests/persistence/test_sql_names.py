"""Names that mean something in SQL stay names: run on every engine that runs here, parsed for the other two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sqlglot
from export_cases import CASES, fitted_calibrator
from sql_engines import BIGQUERY_WORDS, SNOWFLAKE_WORDS, Engine

from calibrant.errors import InvalidInputError
from calibrant.maps import StepMap
from calibrant.persistence import to_sql

#: Quotes of every dialect, what ends a statement or begins a comment, line breaks, placeholders, letters of all kinds.
HOSTILE = [
    'a"b',
    'a""b',
    '"',
    "a`b",
    "``",
    "a'b",
    "''",
    "a]b",
    "[a]",
    "a\\",
    "a\\`b",
    'a\\"b',
    "a\\nb",
    "a\nb",
    "a\n\n  b",
    "a\r\nb",
    "a\tb",
    "\n",
    " ",
    " a ",
    "a.b",
    "a.b.c",
    ".",
    "a;b",
    "a; DROP TABLE scores; --",
    'x" FROM scores; DROP TABLE scores; --',
    "x` FROM scores; DROP TABLE scores; --",
    "a--b",
    "a/*b",
    "*/ b",
    "/*+ b */",
    "#b",
    "?",
    "?1",
    ":a",
    "@a",
    "$1",
    "$$",
    "%s",
    "%(a)s",
    "{}",
    "{{ a }}",
    "$a",
    "${",
    "{a}",
    "*",
    "(a)",
    "a, b",
    "1",
    "1e5",
    "-",
    "NULL",
    "U&b",
    "e\\x41",
    "\u00e9",
    "e\u0301",
    "\u4e2d\u6587",
    "\u05d0\u05d1",
    "\U0001f600",
    "\u202eb",
    "a\u00a0b",
    "\u2028",
    "\ufeffb",
    "\x01",
    "\x1b[31m",
    "\x7f",
    "cal_1",
    "cal_stage_0",
    "cal_knots_1",
    "__SQLGLOT__LB__",
]
#: What Spark replaces by the value of a variable, or by nothing, before it reads a query; it can't be quoted.
VARIABLES = ["${a}", "x${env:HOME}y"]
WORDS = {"bigquery": BIGQUERY_WORDS.split(), "snowflake": SNOWFLAKE_WORDS.split()}
on_each_engine = pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgres", "spark"], indirect=True)


def of_a_score() -> Any:
    return fitted_calibrator("probability", StepMap(np.array([0.5]), np.array([0.25, 0.75])))


@on_each_engine
def test_every_keyword_of_the_engine_is_a_name_to_keep(engine: Engine) -> None:
    words = sorted(set(engine.words()))
    assert {"select", "from", "order", "group", "case"} <= set(words)
    assert len(words) > 100
    table = {name: [i] for i, name in enumerate(words)} | {"cal_score": [0.3]}
    found = engine.run(to_sql(of_a_score(), engine.name, columns="cal_score", keep=words, output="cal_out"), table)
    assert found.names == [*words, "cal_out"]
    assert found.rows == [(*range(len(words)), 0.25)]


@pytest.mark.slow
@on_each_engine
def test_every_keyword_of_the_engine_names_a_score_a_result_and_a_table(engine: Engine) -> None:
    calibrator = of_a_score()
    words = sorted(set(engine.words()))
    for word in words if engine.name != "spark" else words[::8]:  # each query takes Spark most of a second
        sql = to_sql(calibrator, engine.name, columns=word, output=word, table=engine.table_name(word))
        found = engine.run(sql, {word: [0.3], "other": [1]}, word)
        assert found.names == [word]
        assert found.rows == [(0.25,)]


@on_each_engine
def test_hostile_names_are_names(engine: Engine) -> None:
    """All of them are kept at once, and each is a score's, a result's or a table's name in turn."""
    calibrator = of_a_score()
    table: dict[str, Any] = {name: [i] for i, name in enumerate(HOSTILE)}
    found = engine.run(to_sql(calibrator, engine.name, keep=HOSTILE), {**table, "score": [0.3]})
    assert found.names == [*HOSTILE, "p_calibrated"]
    assert found.rows == [(*range(len(HOSTILE)), 0.25)]
    for name in HOSTILE if engine.name != "spark" else HOSTILE[::8]:
        sql = to_sql(calibrator, engine.name, columns=name, keep=["id"], output=name)
        found = engine.run(sql, {"id": [7], name: [0.3]})
        assert found.names == ["id", name]
        assert found.rows == [(7, 0.25)]


@on_each_engine
def test_table_whose_name_is_in_quotes(engine: Engine) -> None:
    names = ["order", "a b", "\u00e9", 'a"b', "a`b", "a\nb"]
    if engine.name != "spark":  # which makes no views of these names
        names += ["a.b", "x; DROP TABLE y"]
    for named in names:
        sql = to_sql(of_a_score(), engine.name, table=engine.table_name(named))
        assert engine.run(sql, {"score": [0.3]}, named).rows == [(0.25,)]


@on_each_engine
def test_hostile_labels_are_parts_of_names(engine: Engine) -> None:
    calibrator = fitted_calibrator("probability", CASES["softmax of probabilities"][1])
    columns = [f"s{k}" for k in range(4)]
    for start in range(0, len(HOSTILE) - 3, 4 if engine.name != "spark" else 20):
        calibrator.classes_ = np.array(HOSTILE[start : start + 4], dtype=object)
        found = engine.run(to_sql(calibrator, engine.name, columns=columns), {name: [0.25] for name in columns})
        assert found.names == [f"p_calibrated_{label}" for label in calibrator.classes_]


@on_each_engine
@pytest.mark.parametrize("letter", ["a", "\u00e9", "\U0001f600"])
def test_names_of_sixty_three_bytes_and_more(engine: Engine, letter: str) -> None:
    """PostgreSQL cuts them off, in the table and in the query alike; the others keep them."""
    for n_bytes in (60, 63, 64, 100, 200):
        name = letter * (n_bytes // len(letter.encode())) + "x" * (n_bytes % len(letter.encode()))
        sql = to_sql(of_a_score(), engine.name, columns=name, keep=["id"], output=f"p{name}")
        found = engine.run(sql, {"id": [1], name: [0.3]})
        whole = f"p{name}"
        cut = whole.encode()[:63].decode(errors="ignore") if engine.name == "postgres" else whole
        assert found.names == ["id", cut]


def test_names_that_postgres_would_take_for_one_are_refused() -> None:
    same = "m" * 63
    with pytest.raises(InvalidInputError, match=r"two columns named 'm+y': postgres takes it for 'm+x', of 63 bytes"):
        to_sql(of_a_score(), "postgres", keep=[f"{same}x", f"{same}y"])
    several = fitted_calibrator("probability", CASES["softmax of probabilities"][1])
    with pytest.raises(InvalidInputError, match=r"the scores would have two columns .* under a shorter name"):
        to_sql(several, "postgres", columns=[f"{same}{k}" for k in range(4)])
    assert to_sql(several, "duckdb", columns=[f"{same}{k}" for k in range(4)])
    several.classes_ = np.array([f"{same}{k}" for k in range(4)], dtype=object)
    with pytest.raises(InvalidInputError, match="the result would have two columns"):
        to_sql(several, "postgres", columns=["a", "b", "c", "d"])


@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("name", VARIABLES)
def test_variables_in_names_are_names_but_where_they_are_replaced(engine: Engine, name: str) -> None:
    found = engine.run(to_sql(of_a_score(), engine.name, keep=[name]), {name: [7], "score": [0.3]})
    assert (found.names, found.rows) == ([name, "p_calibrated"], [(7, 0.25)])
    for given in ({"keep": [name]}, {"columns": name}, {"output": name}):
        with pytest.raises(InvalidInputError, match=r"spark reads a part of the name .* as a variable"):
            to_sql(of_a_score(), "spark", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a\udfffb"])
@pytest.mark.parametrize("argument", ["columns", "keep", "output"])
def test_names_that_are_no_text_are_refused(name: str, argument: str) -> None:
    given: Any = {argument: [name] if argument == "keep" else name}
    with pytest.raises(InvalidInputError, match="a name that no text of SQL can hold"):
        to_sql(of_a_score(), **given)


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake"])
def test_reserved_words_and_hostile_names_are_read_as_names(dialect: Any) -> None:
    """The dialect's parser finds the name, in quotes, and one statement."""
    for name in [*WORDS[dialect], *HOSTILE]:
        if dialect == "bigquery" and "." in name:
            continue  # its columns hold no dots, and its parser reads them as paths
        sql = to_sql(of_a_score(), dialect, columns="s", keep=[name], output="p")
        (parsed,) = sqlglot.parse(sql, dialect=dialect)
        assert parsed is not None
        written = name.upper() if dialect == "snowflake" and name.isidentifier() and name.isascii() else name
        found = [part for part in parsed.find_all(sqlglot.exp.Identifier) if part.name == written]
        assert len(found) >= 2
        assert all(part.quoted for part in found)
        assert [column.alias_or_name for column in parsed.selects] == [written, "P" if dialect == "snowflake" else "p"]
