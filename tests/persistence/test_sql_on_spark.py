"""SQL says what `predict_proba` says, run on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from export_cases import CASES, fitted_calibrator, is_likelihood, scores_of

from calibrant.persistence import to_sql

TOLERANCE = 1e-12
IN_SQL = [name for name, (_, fitted) in CASES.items() if not is_likelihood(fitted)]


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_SQL)
def test_every_map_on_spark_gives_what_predict_proba_gives(spark: Any, tmp_path: Path, name: str) -> None:
    """Large maps by joined tables, which others are too where a tree of 30 is the largest."""
    of, fitted = CASES[name]
    calibrator, scores = fitted_calibrator(of, fitted), scores_of(of, fitted)
    columns = scores[:, None] if scores.ndim == 1 else scores
    names = ["score"] if scores.ndim == 1 else [f"s{k}" for k in range(columns.shape[1])]
    path = tmp_path / "scores.parquet"
    pq.write_table(pa.table({"id": np.arange(len(scores)), **dict(zip(names, columns.T, strict=True))}), path)
    sql = to_sql(calibrator, "spark", columns=names, keep=["id"], table=f"parquet.`{path}`", largest_case=30)
    found = spark.sql(sql).toArrow().sort_by("id")
    assert len(found) == len(scores), "each row once"
    got = np.column_stack([found.column(k) for k in range(1, found.num_columns)])
    assert np.abs(got - calibrator.predict_proba(scores).reshape(len(scores), -1)).max() <= TOLERANCE


def test_what_predict_proba_refuses_is_null_on_spark(spark: Any) -> None:
    calibrator = fitted_calibrator("probability", CASES["beta of a probability"][1])
    values = (
        "(CAST(NULL AS DOUBLE)), (CAST('NaN' AS DOUBLE)), (CAST('Infinity' AS DOUBLE)), (-1e-300D), (1.5D), (0.25D)"
    )
    sql = to_sql(calibrator, "spark", table=f"(SELECT * FROM VALUES {values} AS v(score)) AS rows")
    found = [row[0] for row in spark.sql(sql).collect()]
    assert found[:-1] == [None] * 5
    assert abs(found[-1] - calibrator.predict_proba([0.25])[0]) <= TOLERANCE
