"""calibrant segments, and the other commands with calibrators by segments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import calibrant as cb
from calibrant import persistence
from calibrant.cli import data
from calibrant.metrics import multicalibration_error

Run = Callable[..., Result]
FEATURES = ["age", "city"]


@pytest.fixture
def people(folder: Path) -> pa.Table:
    """Scores right but for the young in Rome, as people.parquet and people.csv; some ages and cities are missing."""
    return _people(folder, "people", seed=0)


@pytest.fixture
def others(folder: Path) -> pa.Table:
    """New rows of the same kind, as others.parquet and others.csv."""
    return _people(folder, "others", seed=1)


def _people(folder: Path, name: str, seed: int, n: int = 1_600) -> pa.Table:
    rng = np.random.default_rng(seed)
    p, age, city = rng.random(n), rng.integers(18, 80, n), rng.choice(["Bonn", "Kyiv", "Rome"], n)
    y = (rng.random(n) < np.where((age < 40) & (city == "Rome"), p**4, p)).astype(np.int64)
    lacks = rng.random((2, n)) < 0.03
    columns = {"y": y, "p": p, "age": pa.array(age, mask=lacks[0]), "city": pa.array(city, mask=lacks[1])}
    table = pa.table({**columns, "zip": rng.integers(0, 3, n), "w": rng.integers(1, 3, n)})
    pq.write_table(table, folder / f"{name}.parquet")
    pc.write_csv(table, folder / f"{name}.csv")
    return table


def fitted_to(table: pa.Table, **more: object) -> cb.SegmentCalibrator:
    return cb.SegmentCalibrator("sigmoid").fit(table["p"], table["y"], features=table.select(FEATURES), **more)


def save(table: pa.Table, name: str = "c.json") -> cb.SegmentCalibrator:
    """Fit to rows of a file as the command does, and save it."""
    found = fitted_to(table)
    found.score_names_ = ("p",)
    persistence.save(found, name)
    return found


def test_numbers_are_corrected_by_apply_and_export(run: Run, people: pa.Table) -> None:
    y = 20.0 * people["p"].to_numpy() + people["zip"].to_numpy()
    mean = cb.SegmentMeanCalibrator().fit(people["p"], y, features=people.select(["zip"]))
    persistence.save(mean, "mean.json")
    result = run("apply mean.json people.parquet --score p -o out.parquet")
    assert result.output == "Wrote out.parquet: 1,600 rows with calibrated\n"
    wanted = mean.predict(people["p"], features=people)
    np.testing.assert_array_equal(pq.read_table("out.parquet")["calibrated"], wanted)
    sql = run("export mean.json --to sql --score p --table", "'people.parquet'").stdout
    assert np.abs(duckdb.sql(sql).fetchnumpy()["calibrated"] - wanted).max() < 1e-12
    assert run("export mean.json --to onnx -o mean.onnx").output == "Wrote mean.onnx\n"
    assert "calibrant apply mean.json new.csv --score PREDICTION -o out.csv" in run("inspect mean.json").output
    told = run("evaluate people.parquet --calibrator mean.json").output
    assert "mean.json holds a calibrator of numbers (SegmentMeanCalibrator), not a calibrator of probabilities." in told
    assert "Use it so: calibrant apply mean.json new.csv --score PREDICTION -o out.csv" in told


def test_labels_that_are_numbers_hear_of_what_corrects_numbers(run: Run, people: pa.Table) -> None:
    pq.write_table(people.append_column("visits", people["p"]), "numbers.parquet")
    told = run("segments fit numbers.parquet --label visits --features age -o c.json")
    assert told.exit_code == 2
    assert "Of predictions of a number, pass --numbers." in told.output
    pq.write_table(people.append_column("half", people["city"]), "text.parquet")
    told = run("segments fit text.parquet --label half --features age -o c.json")
    assert "--numbers" not in told.output


@pytest.mark.parametrize("file", ["people.parquet", "people.csv"])
def test_fit_saves_the_librarys_calibrator_and_says_what_changes(run: Run, people: pa.Table, file: str) -> None:
    result = run(f"segments fit {file} --features age,city --method sigmoid -o c.json")
    assert result.exit_code == 0, result.output
    loaded, wanted = persistence.load("c.json"), fitted_to(people)
    assert persistence.read_document("c.json")["trees"] == persistence.to_document(wanted)["trees"]
    assert (loaded.score_names_, loaded.feature_names) == (("p",), ("age", "city"))
    assert loaded.metadata_ == {"label": "y"}
    assert "features: age (number), city (category of 3 levels). Needed from now on: age, city." in result.output
    assert str(wanted.report_).split("\n")[0] in result.output
    assert "Out of fold (5 folds; each row calibrated by a fit that has not seen it):" in result.output
    before, after = re.search(r"log_loss +([\d.]+) .*? ([\d.]+)  \[", result.output).groups()  # type: ignore[union-attr]
    assert float(after) < float(before)
    assert re.search(r"^Multicalibration error, the worst of \d+ segments:$", result.output, re.MULTILINE)
    assert re.search(r"^age .*, city = Rome +\d+ +[\d.]+ +[\d.]+ +\+0\.\d+", result.output, re.MULTILINE)
    assert "segments evaluate new" in result.output
    assert f"Next:  calibrant apply c.json new{Path(file).suffix} -o out{Path(file).suffix}\n" in result.output


def test_fit_names_the_command_that_lists_all_segments(
    run: Run, people: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrant.cli.segment_changes._MOST_SEGMENTS", 1)
    of = "people.parquet --features age,city --method sigmoid"
    assert re.search(
        r"more segments?: see calibrant segments evaluate --json$",
        run(f"segments fit {of} -o c.json").output,
        re.MULTILINE,
    )
    assert re.search(r"more segments?: see --json$", run(f"segments evaluate {of}").output, re.MULTILINE)


def test_where_nothing_is_off_fit_says_none(run: Run, folder: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(800)
    table = pa.table({"y": (rng.random(800) < p).astype(np.int64), "p": p, "sex": rng.choice(["f", "m"], 800)})
    pq.write_table(table, folder / "t.parquet")
    result = run("segments fit t.parquet --features sex --method sigmoid -o c.json")
    assert result.exit_code == 0
    assert "Left alone: log loss would change" in result.output
    assert "Needed from now on: none." in result.output
    assert "No segment found whose predictions are off" in result.output
    pq.write_table(table.drop_columns(["sex"]), folder / "new.parquet")
    assert run("apply c.json new.parquet -o out.parquet").exit_code == 0


def test_numbers_that_are_names_are_categories_if_said_so(run: Run, people: pa.Table) -> None:
    result = run("segments fit people.parquet --features city,zip --categorical zip --method sigmoid -o c.json")
    assert result.exit_code == 0
    assert "zip (category of 3 levels)" in result.output
    assert [column.kind for column in persistence.load("c.json").columns_] == ["category", "category"]


def test_a_file_beyond_memory_is_fitted_in_passes_to_the_same_trees(
    run: Run, people: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MANY", 1_000)
    result = run("segments fit people.parquet --features age,city --method sigmoid -o c.json")
    assert result.exit_code == 0, result.output
    assert "in passes over people.parquet" in result.output
    assert persistence.read_document("c.json")["trees"] == persistence.to_document(fitted_to(people))["trees"]


@pytest.mark.parametrize(
    "command",
    [
        "segments evaluate people.parquet --features age,city",
        "report people.parquet --features age,city -o page.html",
    ],
)
def test_segments_are_not_searched_among_more_rows_than_are_held(
    run: Run, people: pa.Table, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MANY", 3 * len(people) - 1)  # the score and two features
    result = run(command)
    assert result.exit_code == 2
    assert "segments are found among rows in memory, and people.parquet has too many." in result.stderr
    assert not Path("page.html").exists()


def test_a_search_says_what_it_takes_where_rows_are_many(
    run: Run, people: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = run("audit people.parquet --features age,city")
    assert "memory" not in quiet.output
    monkeypatch.setattr("calibrant.cli.audit._MANY_ROWS", len(people))
    result = run("audit people.parquet --features age,city")
    assert re.match(r"Segments are found among [\d,]+ rows in memory, about \d MB: take a sample", result.stderr)
    assert result.stdout == quiet.stdout


def test_evaluate_measures_out_of_fold_or_a_saved_calibrator(run: Run, people: pa.Table, others: pa.Table) -> None:
    fitted = save(people)
    found = json.loads(run("segments evaluate others.parquet --calibrator c.json --json").stdout)
    q = fitted.predict_proba(others["p"], features=others)
    for when, prob in (("before", others["p"]), ("after", q)):
        error = multicalibration_error(others["y"], prob, features=others.select(FEATURES))
        worst = found["segments"][when]["findings"][0]
        assert (worst["segment"], worst["sigma"], worst["p_value"]) == (error.segment, error.sigma, error.p_value)
    assert (
        found["segments"]["before"]["findings"][0]["sigma"] > 2.0 * found["segments"]["after"]["findings"][0]["sigma"]
    )
    shown = run("segments evaluate others.parquet --calibrator c.json").output
    assert re.search(r"\d+ segments were off before, (none|\d+) (is|are) after\.", shown)
    assert "log_loss" in shown
    own = run("segments evaluate others.parquet --features age,city --method sigmoid").output
    assert "out of 5 folds, each calibrated by a fit to the others" in own


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_apply_and_evaluate_find_the_columns_of_features(
    run: Run, people: pa.Table, others: pa.Table, suffix: str
) -> None:
    fitted = save(people)
    assert run(f"apply c.json others.{suffix} -o out.parquet").exit_code == 0, suffix
    q = fitted.predict_proba(others["p"], features=others)
    np.testing.assert_array_equal(pq.read_table("out.parquet")["p_calibrated"], q)
    found = json.loads(run(f"evaluate others.{suffix} --calibrator c.json --json").stdout)
    assert found["scores"]["brier"]["value"] == cb.evaluate(others["y"], q)["brier"].value


def test_inspect_report_and_monitor_take_it(run: Run, people: pa.Table, others: pa.Table) -> None:
    save(people)
    shown = run("inspect c.json").output
    assert "age (number), city (category of 3 levels)" in shown
    assert re.search(r"splits by .*city", shown)
    assert run("report others.parquet --calibrator c.json -o page.html").exit_code == 0
    assert "SegmentCalibrator" in Path("page.html").read_text()
    result = run("monitor others.parquet --calibrator c.json")
    assert result.exit_code in (0, 1), result.output
    assert run("segments report others.parquet --calibrator c.json -o segments.html").exit_code == 0
    assert "city = Rome" in Path("segments.html").read_text()


def test_mistakes_are_refused_with_their_fix(run: Run, people: pa.Table, folder: Path) -> None:
    save(people)
    for command, said in {
        "segments fit people.csv --features agge -o d.json": "people.csv has no column 'agge'. Did you mean 'age'?",
        "segments fit people.csv --features y,age -o d.json": "--features names 'y', the column of the labels",
        "segments fit people.csv -o d.json": "Missing option '--features'",
        "segments fit people.csv --features age --categorical city -o d.json": "--categorical: 'city'",
        "segments fit people.csv --features age --method sigmoyd -o d.json": "Did you mean 'sigmoid'?",
        "segments fit people.csv --features age -o people.csv": "-o people.csv is the file that is read",
        "segments evaluate people.csv": "name the columns of features, --features age,region",
        "segments report people.csv -o page.html": "name the columns of features, --features age,region",
        "segments report people.csv --calibrator c.json -o page.txt": "doesn't say what to write",
    }.items():
        result = run(command)
        assert result.exit_code == 2, command
        assert said in result.output, result.output
    pc.write_csv(people.drop_columns(["city"]), folder / "less.csv")
    for command in (
        "apply c.json less.csv -o out.csv",
        "evaluate less.csv --calibrator c.json",
        "segments evaluate less.csv --calibrator c.json",
    ):
        result = run(command)
        assert result.exit_code == 2, command
        assert "less.csv has no column 'city'" in result.output
    pc.write_csv(people.set_column(2, "age", pa.array(["old"] * people.num_rows)), folder / "text.csv")
    result = run("apply c.json text.csv -o out.csv")
    assert result.exit_code == 2
    assert "column 'age' of text.csv holds text, 'old', where numbers are needed" in result.output
    run("fit people.csv --method sigmoid -o plain.json")
    result = run("segments evaluate people.csv --calibrator plain.json")
    assert "holds a SigmoidCalibrator, which doesn't say what features rows have" in result.output
    assert run("segments evaluate people.csv --calibrator plain.json --features city").exit_code == 0
