"""Cells that Spark fills by its own aggregation: those of memory, and no row comes to Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import calibrant as cb
from calibrant.engines import QuantisedSummary, summarise
from calibrant.errors import InvalidLabelError, InvalidProbabilityError, InvalidWeightError
from calibrant.tables import SparkSource

POWERS = 2.0 ** -np.arange(151.0)


def rows() -> pa.Table:
    rng = np.random.default_rng(0)
    ends = [POWERS, np.nextafter(POWERS, 0.0)[:-1], np.nextafter(POWERS, 1.0), 1.0 - POWERS[:53], [0.0, -0.0, 0.5]]
    p = np.concatenate((*ends, rng.random(500), rng.beta(0.1, 0.1, 500)))
    p = p[(np.minimum(p, 1.0 - p) == 0.0) | (np.minimum(p, 1.0 - p) >= POWERS[-1])]
    s = rng.normal(size=p.size) * np.exp2(rng.integers(-45, 45, p.size))
    s[:306] = np.concatenate((POWERS, 1.0 / POWERS, [0.0, 5e-324, -1.7e308, 1.7e308]))
    y = (rng.random(p.size) < p).astype(np.int64)
    w = 0.25 * rng.integers(0, 4, p.size)
    text = pa.array(np.where(y == 1, "yes", "no").tolist())
    return pa.table({"p": p, "single": p.astype(np.float32), "s": s, "y": y, "w": w, "is_y": y == 1, "text": text})


@pytest.fixture
def none_comes_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("rows were sent to Python")

    monkeypatch.setattr(SparkSource, "reduce", refuse)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.bool_()], ids=str)
@pytest.mark.parametrize("odd", [None, 2, -1])
def test_zeros_and_ones_are_known_without_a_search(spark: Any, kind: pa.DataType, odd: int | None) -> None:
    """Where there are other labels, or none of one kind, all are searched."""
    values = [0, 1, 1, 0, *([] if odd is None or kind == pa.bool_() else [odd])]
    table = pa.table({"p": np.linspace(0.1, 0.9, len(values)), "y": pa.array(values).cast(kind)})
    source = SparkSource(spark.createDataFrame(table), "rows")
    assert source.count_missing(["p", "y"]) == {}
    if len(set(values)) == 2:
        source.frame = None  # nothing is asked of Spark
    found = pa.concat_tables(batch.table for batch in source.scan_distinct("y"))
    assert found.schema.field("y").type == kind
    assert sorted(found["y"].to_pylist()) == sorted(set(table["y"].to_pylist()))
    ones = SparkSource(spark.createDataFrame(table.filter(pc.equal(table["y"].cast(pa.int64()), 1))), "rows")
    assert ones.count_missing(["p", "y"]) == {}
    assert [value for batch in ones.scan_distinct("y") for value in batch.table["y"].to_pylist()] == [1]


@pytest.mark.slow
@pytest.mark.usefixtures("none_comes_to_python")
@pytest.mark.parametrize(
    "of",
    [
        {},
        {"weight": "w"},
        {"label": "is_y", "score": "single"},
        {"label": "text", "weight": "y"},
        {"score": "s", "input": "score"},
        {"score": "s", "input": "logit", "weight": "w"},
    ],
    ids=str,
)
def test_cells_are_those_of_memory(spark: Any, of: dict[str, Any]) -> None:
    table = rows()
    found = summarise(spark.createDataFrame(table).repartition(3), exact=False, **of)
    wanted = summarise(table, exact=False, **of)
    assert isinstance(found, QuantisedSummary)
    for name in ("weight", "positives", "low", "high"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    np.testing.assert_array_equal(found.distinct.weight_squared, wanted.distinct.weight_squared)
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-14)
    assert found.n_bits == wanted.n_bits


@pytest.mark.slow
@pytest.mark.usefixtures("none_comes_to_python")
def test_too_many_scores_are_seen_by_an_estimate(spark: Any) -> None:
    table = rows()
    found = summarise(spark.createDataFrame(table), max_distinct=500)
    wanted = summarise(table, exact=False)
    assert isinstance(found, QuantisedSummary)
    np.testing.assert_array_equal(found.weight, wanted.weight)


@pytest.mark.slow
def test_scores_that_fit_stay_exact(spark: Any) -> None:
    """With more rows than may be held, and fewer scores."""
    p = np.tile(np.linspace(0.0, 1.0, 11), 50)
    table = pa.table({"p": p, "y": np.arange(p.size) % 3 == 0})
    found = summarise(spark.createDataFrame(table), max_distinct=200)
    assert not isinstance(found, QuantisedSummary)
    np.testing.assert_array_equal(found.weight, np.full(11, 50.0))


@pytest.mark.slow
def test_rows_of_unusual_kinds_are_read_as_before(spark: Any) -> None:
    """Probabilities in octaves that are counted coarsely, and labels that are numbers of floating point."""
    p = np.array([1e-300, 1e-200, 0.2, 0.4, 0.9, 1.0])
    table = pa.table({"p": p, "y": [0, 1, 0, 1, 1, 0], "number": [0.0, 1.0, 0.0, 1.0, 1.0, 0.0]})
    for label in ("y", "number"):
        found = summarise(spark.createDataFrame(table), label=label, exact=False)
        wanted = summarise(table, label=label, exact=False)
        np.testing.assert_array_equal(found.filled, wanted.filled)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "value", "error"),
    [
        ("p", 1.5, InvalidProbabilityError),
        ("p", -1e-300, InvalidProbabilityError),
        ("y", 2, InvalidLabelError),
        ("w", -1.0, InvalidWeightError),
        ("w", float("inf"), InvalidWeightError),
    ],
)
def test_bad_rows_are_refused_by_the_reader(spark: Any, column: str, value: float, error: type[Exception]) -> None:
    columns: dict[str, list[Any]] = {"p": [0.2, 0.4, 0.6, 0.8], "y": [0, 1, 0, 1], "w": [1.0, 0.0, 1.0, 2.0]}
    columns[column][1] = value
    frame = spark.createDataFrame(pa.table(columns))
    with pytest.raises(error, match=f"column '{column}' of partition"):
        summarise(frame, weight="w", classes=[0, 1], exact=False)


@pytest.mark.slow
def test_isotonic_fits_go_on_from_cells_of_spark(spark: Any) -> None:
    rng = np.random.default_rng(1)
    p = rng.random(3_000)
    table = pa.table({"p": p, "y": rng.random(3_000) < p**2})
    found = cb.engines.fit(cb.IsotonicCalibrator(), spark.createDataFrame(table), max_distinct=200)
    wanted = cb.IsotonicCalibrator().fit(p, table["y"].to_numpy(zero_copy_only=False))
    np.testing.assert_array_equal(found.map_.x, wanted.map_.x)
    np.testing.assert_array_equal(found.map_.y, wanted.map_.y)
