"""SegmentMeanCalibrator at work on files and streams: what `predict` gives, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant import engines
from calibrant.errors import InvalidInputError, InvalidScoreError, InvalidTypeError
from feature_rows import FEATURES, SOURCES, parquet, rows_of


@pytest.fixture(scope="module")
def corrected() -> cb.SegmentMeanCalibrator:
    """A calibrator of numbers that needs all three features."""
    table = rows_of(8_000)
    p, age, code = (table[name].to_numpy(zero_copy_only=False) for name in ("p", "age", "zip"))
    young = (age < 35) & np.array([city == "Rome" for city in table["city"].to_pylist()])
    y = 10.0 * p + np.where(young, 2.0, np.where(code == "017", -2.0, 0.0))
    y = y + 0.5 * np.random.default_rng(1).normal(size=p.size)
    found = cb.SegmentMeanCalibrator().fit(p, y, features=table.select(FEATURES))
    assert set(found.feature_names) == set(FEATURES)
    return found


@pytest.mark.parametrize("kind", SOURCES)
def test_numbers_of_any_source_are_corrected_as_predict_does(
    corrected: cb.SegmentMeanCalibrator, kind: str, tmp_path: Path
) -> None:
    table = rows_of(2_000, seed=5, missing=0.3)
    source = SOURCES[kind](table, tmp_path)
    target = tmp_path / ("out" if kind == "folder" else "out.parquet")
    done = engines.apply(corrected, source, target, score="p")
    assert (done.n_rows, done.n_missing) == (2_000, 0)
    written = pq.read_table(target)
    np.testing.assert_array_equal(written["calibrated"], corrected.predict(table["p"], features=table))


def test_rows_without_a_prediction_are_told_left_out_or_kept(
    corrected: cb.SegmentMeanCalibrator, tmp_path: Path
) -> None:
    table = rows_of(300, seed=5)
    lacks = np.arange(300) % 7 == 0
    source = parquet(table.set_column(1, "p", pa.array(table["p"].to_numpy(), mask=lacks)), tmp_path)
    with pytest.raises(InvalidScoreError, match=r"column 'p' of .*t\.parquet row 0: missing value"):
        engines.apply(corrected, source, tmp_path / "no.parquet", score="p")
    engines.apply(corrected, source, tmp_path / "keep.parquet", score="p", missing="keep", column="fixed")
    found = pq.read_table(tmp_path / "keep.parquet")["fixed"].to_numpy()
    assert np.isnan(found).tolist() == lacks.tolist()


def test_what_a_calibrator_of_numbers_does_not_do_is_told(corrected: cb.SegmentMeanCalibrator, tmp_path: Path) -> None:
    table = rows_of(300)
    with pytest.raises(InvalidInputError, match="doesn't say which columns it was fitted to"):
        engines.apply(corrected, table, tmp_path / "out.csv")
    with pytest.raises(InvalidInputError, match="Pass one number per row"):
        engines.apply(corrected, table, tmp_path / "out.csv", score=["p", "y"])
    with pytest.raises(InvalidTypeError, match="can't fit a SegmentMeanCalibrator to a stream of rows, only a"):
        engines.fit(cb.SegmentMeanCalibrator(), table, features=FEATURES)  # type: ignore[type-var]
    with pytest.raises(InvalidTypeError, match="SegmentMeanCalibrator, which makes no probabilities of scores"):
        engines.evaluate(table, calibrator=corrected)
    with pytest.raises(InvalidTypeError, match="SegmentMeanCalibrator"):
        cb.Chain([corrected, cb.prior.PriorShift([1.0, 2.0], classes=[0, 1])])


def test_spark_corrects_numbers_as_predict_does(corrected: cb.SegmentMeanCalibrator, spark: Any) -> None:
    table = rows_of(500, seed=6, missing=0.3)
    table = table.append_column("id", pa.array(range(500)))
    found = engines.apply(corrected, spark.createDataFrame(table).repartition(3), score="p")
    written = found.toArrow().sort_by("id")["calibrated"].to_numpy()
    np.testing.assert_allclose(written, corrected.predict(table["p"], features=table), rtol=1e-13, atol=1e-13)
