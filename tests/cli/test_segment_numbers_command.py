"""calibrant segments and audit with --numbers: predictions of a number from files, as in Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import calibrant as cb
from calibrant import persistence
from calibrant.cli import data
from calibrant.metrics import audit

Run = Callable[..., Result]
FEATURES = ["age", "zip"]
COLUMNS = "--label cost --score guess"


@pytest.fixture
def claims(folder: Path) -> pa.Table:
    """Predictions right but for the young in zip 007, as claims.parquet and claims.csv; some ages are missing."""
    return _claims(folder, "claims", seed=0)


@pytest.fixture
def others(folder: Path) -> pa.Table:
    """New rows of the same kind."""
    return _claims(folder, "others", seed=1)


def _claims(folder: Path, name: str, seed: int, n: int = 1_500) -> pa.Table:
    rng = np.random.default_rng(seed)
    guess, age, zip_ = rng.gamma(2.0, 100.0, n), rng.integers(18, 80, n), rng.choice(["007", "010", "123"], n)
    cost = guess * np.where((age < 40) & (zip_ == "007"), 1.5, 1.0) + rng.normal(0.0, 30.0, n)
    table = pa.table({"cost": cost, "guess": guess, "age": pa.array(age, mask=rng.random(n) < 0.03), "zip": zip_})
    table = table.append_column("w", [rng.integers(0, 3, n)]).append_column("who", [rng.integers(0, 400, n)])
    pq.write_table(table, folder / f"{name}.parquet")
    pc.write_csv(table, folder / f"{name}.csv")
    return table


def fitted_to(table: pa.Table, **more: object) -> cb.SegmentMeanCalibrator:
    return cb.SegmentMeanCalibrator().fit(table["guess"], table["cost"], features=table.select(FEATURES), **more)


def document(fitted: cb.SegmentMeanCalibrator) -> dict[str, object]:
    return persistence.to_document(fitted)


def same(first: dict[str, object], second: dict[str, object]) -> bool:
    return all(first[name] == second[name] for name in ("slope", "intercept", "scale", "columns", "trees", "report"))


def test_fit_saves_the_librarys_calibrator_and_says_what_changes(run: Run, claims: pa.Table) -> None:
    result = run(f"segments fit claims.parquet --numbers {COLUMNS} --features age,zip -o c.json")
    assert result.exit_code == 0, result.output
    wanted = fitted_to(claims)
    assert same(persistence.read_document("c.json"), document(wanted))
    said = result.output
    assert "claims.parquet: 1,500 rows, label 'cost', score 'guess'; predictions of a number\n" in said
    assert "features: age (number), zip (category of 3 levels). Needed from now on: age, zip." in said
    assert str(wanted.report_).split("\n")[0] in said
    assert "Changed: half the squared error falls" in said
    assert "log loss" not in said
    assert "Out of fold (5 folds; each row corrected by a fit that has not seen it):" in said
    assert re.search(r"^mse +before +[\d,.]+ .*\nmse +after +[\d,.]+ .* -[\d,.]+ +\[-", said, re.MULTILINE)
    assert "The mean squared error is lower by" in said
    assert re.search(r"^age .*, zip = 007 +\d+ +[\d.]+ +[\d.]+ +-\d+", said, re.MULTILINE)
    kept = persistence.load("c.json").provenance_.out_of_fold
    assert list(kept.after) == ["mse", "mean_error"]
    assert kept.after["mse"][0] < kept.before["mse"][0]


def test_what_fit_says_comes_next_works(run: Run, claims: pa.Table, others: pa.Table, folder: Path) -> None:
    said = run(f"segments fit claims.csv --numbers {COLUMNS} --features age,zip --categorical zip -o c.json").output
    (folder / "new.csv").write_text((folder / "others.csv").read_text())
    commands = [line.split("calibrant ", 1)[1] for line in said.split("\n") if re.match(r"(Next:)? +calibrant ", line)]
    assert len(commands) == 2
    for command in commands:
        result = run(command)
        assert result.exit_code == 0, result.output
    after = persistence.load("c.json").predict(others["guess"], features=others)
    np.testing.assert_allclose(pc.read_csv("out.csv")["calibrated"], after, rtol=1e-12)


def test_a_file_beyond_memory_is_fitted_in_passes_to_the_same_document(
    run: Run, claims: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = f"segments fit claims.parquet --numbers {COLUMNS} --features age,zip --weight w --cluster who -o "
    held = run(f"{command} held.json")
    monkeypatch.setattr(data, "MANY", 1_000)
    result = run(f"{command} c.json")
    assert (held.exit_code, result.exit_code) == (0, 0), held.output + result.output
    assert "No out-of-fold figures of so many rows." in result.output
    assert "label 'cost', score 'guess', weight 'w'; predictions of a number\n" in result.output
    assert same(persistence.read_document("c.json"), persistence.read_document("held.json"))
    assert same(
        persistence.read_document("c.json"),
        document(fitted_to(claims, sample_weight=claims["w"], cluster=claims["who"])),
    )
    first, second = (persistence.load(name).provenance_ for name in ("c.json", "held.json"))
    assert (first.rows_sha256, first.n_rows) == (second.rows_sha256, second.n_rows)
    assert first.n_rows == (claims["w"].to_numpy() > 0).sum()


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_evaluate_measures_a_saved_calibrator_as_python_does(
    run: Run, claims: pa.Table, others: pa.Table, suffix: str
) -> None:
    fitted = fitted_to(claims)
    persistence.save(fitted, "c.json")
    result = run(f"segments evaluate others.{suffix} --calibrator c.json {COLUMNS} --json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    after = fitted.predict(others["guess"], features=others)
    for when, values in (("before", others["guess"]), ("after", after)):
        wanted = audit(others["cost"], values, features=others.select(FEATURES), target="number")
        shown = found["segments"][when]["findings"]
        assert [each["segment"] for each in shown[:5]] == [each.label for each in wanted.findings[:5]]
        np.testing.assert_allclose([each["sigma"] for each in shown], [each.sigma for each in wanted.findings])
        mse = found["models"][when]["scores"][0]
        assert mse["value"] == pytest.approx(np.mean((np.asarray(values) - others["cost"].to_numpy()) ** 2))
    shown = run(f"segments evaluate others.{suffix} --calibrator c.json {COLUMNS} --features age --weight w").output
    assert "zip" not in shown
    assert "The mean squared error is lower by" in shown


def test_evaluate_out_of_fold_and_audit_take_numbers(run: Run, claims: pa.Table) -> None:
    result = run(f"segments evaluate claims.parquet --numbers {COLUMNS} --features age,zip")
    assert result.exit_code == 0, result.output
    assert "out of 5 folds, each corrected by a fit to the others" in result.output
    assert re.search(r"\d+ segments were off before, (none|\d+) (is|are) after\.", result.output)
    result = run(f"audit claims.parquet --numbers {COLUMNS} --features age,zip --json")
    found = json.loads(result.stdout)
    wanted = audit(claims["cost"], claims["guess"], features=claims.select(FEATURES), target="number")
    assert found["target"] == "number"
    assert found["findings"][0]["segment"] == wanted.findings[0].label
    assert found["findings"][0]["p_value"] == wanted.findings[0].p_value


def test_folds_of_few_clusters_are_as_many_as_it_says(run: Run, claims: pa.Table, folder: Path) -> None:
    pq.write_table(claims.append_column("city", [np.arange(len(claims)) % 3]), folder / "cities.parquet")
    said = run(f"segments fit cities.parquet --numbers {COLUMNS} --features age --cluster city -o c.json").output
    assert "Out of fold (3 folds;" in said
    assert persistence.load("c.json").provenance_.out_of_fold.n_folds == 3


def test_mistakes_are_refused_with_their_fix(run: Run, claims: pa.Table, folder: Path) -> None:
    persistence.save(fitted_to(claims), "c.json")
    few = claims.slice(0, 11)
    pq.write_table(few, folder / "few.parquet")
    pq.write_table(few.slice(0, 8), folder / "fewer.parquet")
    gap = claims.set_column(0, "cost", pa.array([None, *claims["cost"].to_pylist()[1:]]))
    pq.write_table(gap, folder / "gap.parquet")
    numbers = f"claims.csv --numbers {COLUMNS} --features age"
    for command, said in {
        f"segments fit {numbers} --method beta -o d.json": "--method is of classes, and labels that are numbers have",
        f"segments fit {numbers} --input logit -o d.json": "--input is of classes",
        f"segments fit {numbers} --classes 0,1 -o d.json": "--classes is of classes",
        f"segments evaluate {numbers} --method beta": "--method is of classes",
        f"segments evaluate {numbers} --calibrator c.json --input logit": "--input is of classes",
        f"audit {numbers} --positive 1": "--positive is of classes",
        f"audit {numbers} --calibrator c.json": "by calibrant segments evaluate.",
        f"segments fit {numbers},zip --score guess,w -o d.json": "--score names 'guess', 'w'",
        f"segments fit {numbers} --label who2 -o d.json": "has no column 'who2'. Did you mean 'who'?",
        f"segments fit claims.csv --numbers {COLUMNS} -o d.json": "Missing option '--features'",
        f"segments fit claims.csv --numbers {COLUMNS} --features cost -o d.json": "the column of the labels",
        f"segments fit claims.csv --numbers {COLUMNS} --features age -o claims.csv": "is the file that is read",
        f"segments evaluate claims.csv --numbers {COLUMNS}": "name the columns of features, --features age,region",
        f"segments fit gap.parquet --numbers {COLUMNS} --features age -o d.json": "column 'cost' of gap.parquet",
        f"segments fit fewer.parquet --numbers {COLUMNS} --features age -o d.json": "Pass 10 at least.",
        f"segments evaluate few.parquet --numbers {COLUMNS} --features age": "too few for 5 folds. Pass 20 at least.",
        f"segments report claims.csv {COLUMNS} --calibrator c.json -o page.html": "holds a calibrator of numbers",
    }.items():
        result = run(command)
        assert result.exit_code == 2, (command, result.output)
        assert said in result.output, (command, result.output)
    result = run(f"segments fit few.parquet --numbers {COLUMNS} --features age -o few.json")
    assert "No out-of-fold figures: there are too few rows." in result.output
    skipped = run(f"segments fit gap.parquet --numbers {COLUMNS} --features age --missing skip -o gap.json")
    assert skipped.exit_code == 0
    assert persistence.load("gap.json").n_rows_ == len(claims) - 1
