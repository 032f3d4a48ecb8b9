"""SegmentCalibrator at work on files and streams: the fit in memory, features by name, and what may be missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant import engines
from calibrant.errors import (
    DataWarning,
    InvalidInputError,
    InvalidLabelError,
    InvalidScoreError,
    UnknownNameError,
)
from calibrant.segments import binning
from calibrant.segments.binning import Binning, EdgeSample
from calibrant.validation import match_levels
from feature_rows import FEATURES, SOURCES, csv, in_parts, json_lines, parquet, rows_of


def in_memory(table: pa.Table, calibrator: Any = None, **more: Any) -> cb.SegmentCalibrator:
    made = cb.SegmentCalibrator("sigmoid") if calibrator is None else calibrator
    return made.fit(table["p"], table["y"], features=table.select(FEATURES), **more)


def assert_same(found: cb.SegmentCalibrator, wanted: cb.SegmentCalibrator) -> None:
    assert found.report_ == wanted.report_
    assert found.trees_ is not None
    assert wanted.trees_ is not None
    assert found.trees_.encode().keys() == wanted.trees_.encode().keys()
    for name, value in found.trees_.encode().items():
        np.testing.assert_array_equal(value, wanted.trees_.encode()[name], err_msg=name)
    assert [c.to_dict() for c in found.columns_] == [c.to_dict() for c in wanted.columns_]
    assert found.n_rows_ == wanted.n_rows_


def connect(table: pa.Table) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = true")
    connection.register("t", table)
    return connection


@pytest.mark.parametrize("kind", SOURCES)
def test_a_fit_to_any_source_is_the_fit_in_memory_bit_for_bit(kind: str, tmp_path: Path) -> None:
    table = rows_of()
    source = SOURCES[kind](table, tmp_path)
    found = engines.fit(cb.SegmentCalibrator("sigmoid"), source, features=FEATURES)
    assert_same(found, in_memory(table))
    assert found.score_names_ == ("p",)
    assert found.classes_.tolist() == [0, 1]
    assert [(c.name, c.kind) for c in found.columns_] == [("age", "number"), ("city", "category"), ("zip", "category")]


def test_a_duckdb_relation_is_fitted_and_applied(tmp_path: Path) -> None:
    table = rows_of()
    with connect(table) as connection:
        relation = connection.table("t")
        found = engines.fit(cb.SegmentCalibrator("sigmoid"), relation, features=FEATURES)
        assert_same(found, in_memory(table))
        engines.apply(found, relation, tmp_path / "out.parquet")
    written = pq.read_table(tmp_path / "out.parquet")["p_calibrated"]
    np.testing.assert_array_equal(written, found.predict_proba(table["p"], features=table))


@pytest.mark.parametrize("base", ["auto", "isotonic"])
def test_weights_and_clusters_reach_the_fit(base: str) -> None:
    table = rows_of(4_000)
    found = engines.fit(cb.SegmentCalibrator(base), in_parts(table), features=FEATURES, weight="w", cluster="patient")
    kept = {"sample_weight": table["w"], "cluster": table["patient"]}
    assert_same(found, in_memory(table, cb.SegmentCalibrator(base), **kept))


def test_several_classes_are_fitted_and_evaluated_from_parts() -> None:
    rng = np.random.default_rng(0)
    n = 4_000
    truth, sex = rng.dirichlet([1.0, 1.0, 1.0], n), rng.choice(["f", "m"], n)
    tilted = np.where(sex[:, None] == "f", truth, truth ** [1.0, 1.0, 2.0])
    tilted /= tilted.sum(axis=1, keepdims=True)
    y = np.array(["a", "b", "c"])[(rng.random(n)[:, None] > tilted.cumsum(axis=1)).sum(axis=1)]
    table = pa.table({"y": y, "sex": sex, **{f"p_{k}": truth[:, j] for j, k in enumerate("abc")}})
    of: dict[str, Any] = {"score": ["p_c", "p_a", "p_b"], "features": ["sex"]}
    found = engines.fit(cb.SegmentCalibrator("temperature"), in_parts(table), **of)
    wanted = cb.SegmentCalibrator("temperature").fit(truth, y, features={"sex": sex})
    assert_same(found, wanted)
    assert found.score_names_ == ("p_a", "p_b", "p_c")
    scores = engines.evaluate(in_parts(table), calibrator=found)
    q = found.predict_proba(truth, features={"sex": sex})
    assert scores["log_loss"].value == pytest.approx(cb.evaluate(y, q)["log_loss"].value, abs=1e-12)


def test_edges_of_many_rows_are_those_of_memory_whatever_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binning, "LOOKED_AT", 100)
    rng = np.random.default_rng(0)
    for n in (99, 100, 101, 200, 201, 399, 400, 401, 3_333):
        values = rng.normal(size=n)
        (wanted,) = Binning.of(values[:, None], [False]).edges
        for _ in range(3):
            sample = EdgeSample()
            for part in np.split(values, np.sort(rng.integers(0, n, 7))):
                sample.add(part)
            (found,) = Binning.of_samples([sample]).edges
            np.testing.assert_array_equal(found, wanted)


def test_of_many_rows_the_first_fold_says_how_many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant.segments import choice

    table = rows_of()
    usual = in_memory(table)
    monkeypatch.setattr(choice, "_VERY_MANY_ROWS", 1_000)
    found = in_memory(table)
    of_first = min(found.report_.tried, key=lambda tried: tried.loss)
    assert found.report_.n_rounds == round(1.25 * of_first.n_rounds)  # of the fit to all rows
    assert found.report_.tried == usual.report_.tried
    assert found.report_.chosen == "segments"


def test_of_many_rows_three_folds_are_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant.segments import choice

    table = rows_of()
    usual = in_memory(table)
    assert (usual.report_.decision.n_folds, usual.report_.decision.n_rows) == (5, len(table))
    monkeypatch.setattr(choice, "_FEWER_FOLDS_FROM", len(table))
    found = in_memory(table)
    assert found.report_.decision.n_folds == 3
    assert found.report_.decision.n_rows == pytest.approx(0.6 * len(table), abs=3)
    assert found.report_.tried == usual.report_.tried  # on the first fold
    assert found.report_.chosen == "segments"
    score = {"features": {name: table[name] for name in FEATURES}}
    first, second = (np.asarray(each.predict_proba(table["p"], **score)) for each in (found, usual))
    assert np.abs(first - second).mean() < 0.01


# --- applying and measuring ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> cb.SegmentCalibrator:
    """A calibrator that needs all three features."""
    found = in_memory(rows_of(8_000))
    found.score_names_ = ("p",)
    assert set(found.feature_names) == set(FEATURES)
    return found


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_apply_reads_features_by_name_and_takes_missing_ones(
    fitted: cb.SegmentCalibrator, suffix: str, tmp_path: Path
) -> None:
    table = rows_of(2_000, seed=5, missing=0.3).select(["zip", "w", "city", "age", "p"])
    source = {"parquet": parquet, "csv": csv, "jsonl": json_lines}[suffix](table, tmp_path)
    done = engines.apply(fitted, source, tmp_path / f"out.{suffix}")
    assert (done.n_rows, done.n_missing) == (2_000, 0)
    wanted = fitted.predict_proba(table["p"], features=table)
    np.testing.assert_array_equal(_column(tmp_path / f"out.{suffix}"), wanted)


def _column(path: Path) -> Any:
    read = {".parquet": pq.read_table, ".csv": pc.read_csv, ".jsonl": pj.read_json}[path.suffix]
    return read(path)["p_calibrated"].to_numpy()


def test_missing_says_what_becomes_of_rows_without_a_score_not_of_those_without_a_feature(
    fitted: cb.SegmentCalibrator, tmp_path: Path
) -> None:
    table = rows_of(500, seed=5, missing=0.3)
    lacks = np.arange(500) % 7 == 0
    table = table.set_column(1, "p", pa.array(table["p"].to_numpy(), mask=lacks))
    source = parquet(table, tmp_path)
    with pytest.raises(InvalidScoreError, match=r"column 'p' of .*t\.parquet row 0: missing value"):
        engines.apply(fitted, source, tmp_path / "no.parquet")
    kept = engines.apply(fitted, source, tmp_path / "keep.parquet", missing="keep")
    assert (kept.n_rows, kept.n_missing) == (500, lacks.sum())
    assert np.isnan(_column(tmp_path / "keep.parquet")).tolist() == lacks.tolist()
    left = engines.apply(fitted, source, tmp_path / "skip.parquet", missing="skip")
    assert left.n_rows == (~lacks).sum()
    with pytest.warns(
        DataWarning, match=f"{lacks.sum()} rows left out for missing values: {lacks.sum()} in column 'p'"
    ):
        found = engines.fit(cb.SegmentCalibrator("sigmoid"), source, features=FEATURES, missing="skip")
    assert found.n_rows_ == (~lacks).sum()
    scores = engines.evaluate(source, calibrator=fitted, missing="skip")
    assert scores.n_skipped == lacks.sum()
    assert scores["brier"].n == (~lacks).sum()


def test_codes_that_text_files_make_numbers_of_are_the_levels_of_the_fit(
    fitted: cb.SegmentCalibrator, tmp_path: Path
) -> None:
    """A file whose codes are all of digits is read as numbers: 017 as 17."""
    table = rows_of(900, seed=7)
    table = table.filter(pa.compute.not_equal(table["zip"], "A20"))
    assert pc.read_csv(csv(table, tmp_path))["zip"].type == pa.int64()
    engines.apply(fitted, tmp_path / "t.csv", tmp_path / "out.csv")
    np.testing.assert_array_equal(_column(tmp_path / "out.csv"), fitted.predict_proba(table["p"], features=table))


CODES = np.array(["01", "1", "2", "x"], dtype=object)


def calibrators_by_code(codes: Any) -> dict[str, Any]:
    """Return calibrators whose answers differ by the code of a row, among them one that hands scores on."""
    rng = np.random.default_rng(0)
    p, city = pd.Series(rng.random(4_000), name="p"), pd.Series(np.resize(codes, 4_000), name="city")
    y = rng.random(4_000) < p ** np.resize([4.0, 0.3, 1.0, 2.0], 4_000)
    segments = cb.SegmentCalibrator("sigmoid", categorical=["city"]).fit(p, y, features={"city": city})
    return {
        "segments": segments,
        "chain": cb.Chain([segments, cb.prior.PriorShift.from_priors(old=0.5, new=0.5, classes=[False, True])]),
        "groups": cb.GroupedCalibrator("sigmoid").fit(p, y, groups=city),
    }


@pytest.mark.parametrize("codes", [CODES, np.array([3, 1, 2, 7])], ids=["text", "whole numbers"])
@pytest.mark.parametrize("kind", ["segments", "chain", "groups"])
@pytest.mark.parametrize("target", ["o.csv", "o.parquet", "parts/"])
@pytest.mark.filterwarnings("ignore:.*that fit has not seen")
def test_other_rows_of_a_text_file_change_nothing_of_a_row(kind: str, codes: Any, target: str, tmp_path: Path) -> None:
    """A column of digits alone would be read as numbers, and `01` as 1; one other row made it text."""
    made = calibrators_by_code(codes)[kind]
    found = []
    for i, more in enumerate(["", "0.5,x\n"]):
        (tmp_path / f"{i}.csv").write_text(f"p,city\n0.5,01\n0.5,1\n0.5,2\n{more}")
        (tmp_path / str(i)).mkdir()
        out = f"{tmp_path}/{i}/{target}"
        engines.apply(made, tmp_path / f"{i}.csv", out)
        found.append(_column(Path(out) / f"{i}.csv" if target == "parts/" else Path(out))[:3].tolist())
    assert found[0] == found[1]
    if codes is CODES:
        given = {"groups": codes[:3]} if kind == "groups" else {"features": {"city": codes[:3]}}
        assert found[0] == made.predict_proba([0.5] * 3, **given).tolist()
        assert len(set(found[0])) == 3


@pytest.mark.parametrize("kind", ["segments", "groups"])
def test_evaluate_reads_codes_of_the_fit_as_text(kind: str, tmp_path: Path) -> None:
    made = calibrators_by_code(CODES)[kind]
    rng = np.random.default_rng(1)
    p, y, code = rng.random(300), rng.random(300) < 0.5, np.resize(CODES[:3], 300)
    rows = "".join(f"{a},{int(b)},{c}\n" for a, b, c in zip(p, y, code, strict=True))
    (tmp_path / "t.csv").write_text(f"p,y,city\n{rows}")
    q = made.predict_proba(p, **({"groups": code} if kind == "groups" else {"features": {"city": code}}))
    found = engines.evaluate(tmp_path / "t.csv", calibrator=made)
    assert found["brier"].value == pytest.approx(cb.evaluate(y, q)["brier"].value, rel=1e-12)


def test_levels_of_other_types_are_matched_as_text() -> None:
    assert match_levels([17, 1, 20], ["001", "017", "A20"]) == pytest.approx([1.0, 0.0, np.nan], nan_ok=True)
    assert match_levels([7], ["007", "7"]) == [1.0]
    assert match_levels(["7", "x"], [5, 7]) == pytest.approx([1.0, np.nan], nan_ok=True)
    assert match_levels(["TRUE", "false"], [False, True]) == [1.0, 0.0]
    assert match_levels([], ["a"]) == []


def test_truth_values_are_the_numbers_zero_and_one() -> None:
    assert match_levels([True, False], [0, 1]) == [1.0, 0.0]
    assert match_levels([1, 0, 2], [False, True]) == pytest.approx([1.0, 0.0, np.nan], nan_ok=True)


def test_text_is_the_number_or_truth_value_that_it_spells() -> None:
    """So a field of a text file means the same whether the fields below it are numbers or text."""
    assert match_levels(["01", "1.0", " 1", "-2.", "1_0", "x"], [-2, 1, 10]) == pytest.approx(
        [1.0, 1.0, 1.0, 0.0, np.nan, np.nan], nan_ok=True
    )
    assert match_levels(["1", "0", "True"], [False, True]) == [1.0, 0.0, 1.0]


def test_a_column_of_codes_whose_parts_differ_in_type_is_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    table = rows_of(6_000)
    for i, part in enumerate([table.filter(pa.compute.not_equal(table["zip"], "A20")), table]):
        pc.write_csv(part, tmp_path / "t" / f"{i}.csv")
    with pytest.raises(InvalidInputError, match=r"column 'zip' holds numbers in some parts .* Name it in categorical"):
        engines.fit(cb.SegmentCalibrator("sigmoid"), tmp_path / "t", features=FEATURES)
    found = engines.fit(cb.SegmentCalibrator("sigmoid", categorical=["zip"]), tmp_path / "t", features=FEATURES)
    assert found.columns_[2].levels is not None
    assert found.columns_[2].levels.tolist() == ["001", "017", "A20"]


@pytest.mark.parametrize("by", [None, "city"])
def test_evaluate_measures_what_a_calibrator_makes(fitted: cb.SegmentCalibrator, by: str | None) -> None:
    table = rows_of(3_000, seed=9, missing=0.1 if by is None else 0.0)
    q = fitted.predict_proba(table["p"], features=table)
    found: Any = engines.evaluate(in_parts(table), calibrator=fitted, group=by)
    if by is None:
        wanted: Any = cb.evaluate(table["y"], q)
        assert found["log_loss"] == wanted["log_loss"]
        before = engines.evaluate(in_parts(table))
        assert found["log_loss"].value < before["log_loss"].value
        return
    wanted = cb.metrics.evaluate_groups(table["y"], q, groups=table["city"])
    assert {group: scores["mean_gap"] for group, scores in found.groups.items()} == {
        group: scores["mean_gap"] for group, scores in wanted.groups.items()
    }


def test_evaluate_takes_every_kind_of_calibrator() -> None:
    table = rows_of(2_000)
    by_group = cb.GroupedCalibrator("sigmoid").fit(table["p"], table["y"], groups=pd.Series(table["zip"], name="zip"))
    found = engines.evaluate(in_parts(table), calibrator=by_group, score="p")
    q = by_group.predict_proba(table["p"], groups=table["zip"])
    assert found["brier"] == cb.evaluate(table["y"], q)["brier"]


@pytest.mark.slow
def test_a_spark_frame_is_fitted_measured_and_applied(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant.engines import spark_columns

    table = rows_of(1_500)
    frame = spark.createDataFrame(table).repartition(3).cache()
    here = frame.toArrow()
    found = engines.fit(cb.SegmentCalibrator("sigmoid"), frame, features=FEATURES)
    assert_same(found, in_memory(here))
    wanted = found.predict_proba(here["p"], features=here)
    assert engines.evaluate(frame, calibrator=found)["brier"].value == pytest.approx(
        cb.evaluate(here["y"], wanted)["brier"].value, abs=1e-12
    )
    monkeypatch.setattr(spark_columns, "_MOST_NUMBERS", 0)
    applied = engines.apply(found, frame).toArrow()
    np.testing.assert_array_equal(applied["p_calibrated"], found.predict_proba(applied["p"], features=applied))


# --- what is refused -------------------------------------------------------------------------------------------------


def test_mistakes_are_told_with_their_fix(fitted: cb.SegmentCalibrator, tmp_path: Path) -> None:
    table = rows_of(300)
    source, segments = in_parts(table), cb.SegmentCalibrator("sigmoid")
    with pytest.raises(UnknownNameError, match=r"no column 'citty'\. Did you mean 'city'\?"):
        engines.fit(segments, source, features=["citty"])
    with pytest.raises(InvalidInputError, match=r"column 'y' is the label, which new rows don't have\. Leave it out"):
        engines.fit(segments, source, features=["age", "y"])
    with pytest.raises(InvalidInputError, match=r"a SegmentCalibrator is fitted to features\. Name their columns"):
        engines.fit(segments, source)
    with pytest.raises(InvalidInputError, match=r"features goes with a SegmentCalibrator\. Pass cb\.SegmentCalibrator"):
        engines.fit(cb.AutoCalibrator(), source, features=["age"])
    with pytest.raises(InvalidInputError, match=r"cluster goes with a SegmentCalibrator"):
        engines.fit(cb.SigmoidCalibrator(), source, cluster="patient")
    with pytest.raises(InvalidInputError, match=r'target="share" takes rows in memory only'):
        engines.fit(cb.SegmentCalibrator(target="share"), source, features=["age"])
    with pytest.raises(InvalidLabelError, match=r"one class|holds 1 class"):
        engines.fit(segments, in_parts(table.filter(pa.compute.equal(table["y"], 1))), features=["age"])
    with pytest.raises(UnknownNameError, match=r"t\.parquet has no column 'zip'"):
        engines.apply(fitted, parquet(table.drop_columns(["zip"]), tmp_path), tmp_path / "out.parquet")
    with pytest.raises(UnknownNameError, match="has no column 'age'"):
        engines.evaluate(in_parts(table.drop_columns(["age"])), calibrator=fitted)


def test_a_source_that_changes_between_passes_is_refused() -> None:
    table, reads = rows_of(2_000), []

    def source() -> Any:
        reads.append(1)
        return table.slice(len(reads)).to_reader(700)

    with pytest.raises(InvalidInputError, match=r"changed while they were read: 1,\d+ at first, 1,\d+ then"):
        engines.fit(cb.SegmentCalibrator("sigmoid"), source, features=FEATURES)


def test_a_feature_that_is_the_score_too_is_read_once() -> None:
    table = rows_of(3_000)
    found = engines.fit(cb.SegmentCalibrator("sigmoid"), in_parts(table), features=["p", "city", "age"])
    assert (found.score_names_, found.columns_[0].name) == (("p",), "p")
    scores = engines.evaluate(in_parts(table), calibrator=found)
    assert scores["brier"].n == 3_000
