"""SegmentMeanCalibrator at work on files and streams: the fit in memory, what `predict` gives, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant import engines
from calibrant.errors import (
    CalibrantError,
    DataWarning,
    InvalidInputError,
    InvalidLabelError,
    InvalidScoreError,
    InvalidTypeError,
)
from feature_rows import FEATURES, SOURCES, in_parts, parquet, rows_of


def numbers(n: int = 8_000, seed: int = 0) -> pa.Table:
    """Return rows whose number `y` is above ten times `p` for the young in Rome, below it for one code of digits."""
    table = rows_of(n, seed)
    p, age, code = (table[name].to_numpy(zero_copy_only=False) for name in ("p", "age", "zip"))
    young = (age < 35) & np.array([city == "Rome" for city in table["city"].to_pylist()])
    y = 10.0 * p + np.where(young, 2.0, np.where(code == "017", -2.0, 0.0))
    y = y + 0.5 * np.random.default_rng(1).normal(size=p.size)
    return table.set_column(0, "y", pa.array(y))


def in_memory(table: pa.Table, **more: Any) -> cb.SegmentMeanCalibrator:
    return cb.SegmentMeanCalibrator().fit(table["p"], table["y"], features=table.select(FEATURES), **more)


def document(fitted: cb.SegmentMeanCalibrator) -> Any:
    return cb.persistence.to_document(fitted)


@pytest.fixture(scope="module")
def corrected() -> cb.SegmentMeanCalibrator:
    """A calibrator of numbers that needs all three features."""
    table = numbers()
    found = in_memory(table)
    assert set(found.feature_names) == set(FEATURES)
    return found


@pytest.mark.parametrize("kind", SOURCES)
def test_a_fit_to_any_source_is_the_fit_in_memory_bit_for_bit(kind: str, tmp_path: Path) -> None:
    table = numbers(2_500)
    found = engines.fit(cb.SegmentMeanCalibrator(), SOURCES[kind](table, tmp_path), features=FEATURES)
    wanted = in_memory(table)
    assert wanted.trees_ is not None
    assert document(found) == document(wanted)


def test_weights_clusters_and_times_reach_the_fit() -> None:
    table = numbers(3_000)
    n = table.num_rows
    known = {"start": pa.array(np.arange(n) // 3), "end": pa.array(np.arange(n) // 3 + 2)}
    for name, column in known.items():
        table = table.append_column(name, column)
    usual, source = document(in_memory(table)), in_parts(table)
    for columns, more in (
        ({"weight": "w", "cluster": "patient"}, {"sample_weight": table["w"], "cluster": table["patient"]}),
        ({"time": "start", "label_end": "end"}, {"time": table["start"], "label_end": table["end"]}),
    ):
        found = engines.fit(cb.SegmentMeanCalibrator(), source, features=FEATURES, **columns)
        assert document(found) == document(in_memory(table, **more)) != usual


def test_rows_without_an_outcome_are_told_or_left_out(tmp_path: Path) -> None:
    table = numbers(2_500)
    lacks = np.arange(2_500) % 7 == 0
    source = parquet(table.set_column(0, "y", pa.array(table["y"].to_numpy(), mask=lacks)), tmp_path)
    with pytest.raises(InvalidLabelError, match=r"column 'y' of .*t\.parquet row 0: missing label"):
        engines.fit(cb.SegmentMeanCalibrator(), source, features=FEATURES)
    with pytest.warns(DataWarning, match="358"):
        found = engines.fit(cb.SegmentMeanCalibrator(), source, features=FEATURES, missing="skip")
    assert document(found) == document(in_memory(table.filter(pa.array(~lacks))))


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        ({"y": ["a", "b"] * 50}, {}, "column 'y' of .* row 0: 'a' is not a number"),
        ({"y": [np.inf] * 100}, {}, "column 'y' of .* row 0: inf"),
        ({"p": [np.inf] * 100}, {}, "column 'p' of .* row 0: inf"),
        ({"p": [], "q": [], "y": []}, {}, "the columns has no rows. Pass at least one"),
        ({}, {"score": ["p", "q"]}, "'p', 'q' are named as one prediction. Name one column."),
        ({}, {"features": None}, "a SegmentMeanCalibrator is fitted to features"),
        ({}, {"features": ["q", "y"]}, "column 'y' is the label"),
        ({}, {"classes": [0, 1]}, "the labels of a SegmentMeanCalibrator are numbers. Leave classes out."),
    ],
)
def test_what_no_number_is_fitted_to_is_refused(change: Any, more: Any, message: str) -> None:
    rng = np.random.default_rng(0)
    columns = {"p": rng.normal(size=100), "q": rng.normal(size=100), "y": rng.normal(size=100), **change}
    with pytest.raises(CalibrantError, match=message):
        engines.fit(cb.SegmentMeanCalibrator(), columns, **{"features": ["q"], **more})


def test_too_few_rows_are_refused_where_they_stand() -> None:
    table = numbers(9)
    with pytest.raises(InvalidInputError, match="column 'y' of the columns has 9 rows"):
        engines.fit(cb.SegmentMeanCalibrator(), table.to_pydict(), features=FEATURES)
    with pytest.raises(InvalidInputError, match="predictions has 9 rows"):
        in_memory(table)
    with pytest.raises(InvalidInputError, match="predictions has 9 rows to fit to"):  # of 20, the others without weight
        in_memory(numbers(20), sample_weight=np.arange(20) < 9)


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
    with pytest.raises(InvalidTypeError, match="SegmentMeanCalibrator, which makes no probabilities of scores"):
        engines.evaluate(table, calibrator=corrected)
    with pytest.raises(InvalidTypeError, match="SegmentMeanCalibrator"):
        cb.Chain([corrected, cb.prior.PriorShift([1.0, 2.0], classes=[0, 1])])


def test_spark_fits_and_corrects_numbers_as_memory_does(corrected: cb.SegmentMeanCalibrator, spark: Any) -> None:
    table = rows_of(500, seed=6, missing=0.3)
    table = table.append_column("id", pa.array(range(500)))
    found = engines.apply(corrected, spark.createDataFrame(table).repartition(3), score="p")
    written = found.toArrow().sort_by("id")["calibrated"].to_numpy()
    np.testing.assert_allclose(written, corrected.predict(table["p"], features=table), rtol=1e-13, atol=1e-13)
    rows = numbers(1_500)
    fitted = engines.fit(cb.SegmentMeanCalibrator(), spark.createDataFrame(rows).coalesce(1), features=FEATURES)
    assert document(fitted) == document(in_memory(rows))
