"""calibrant apply: the library's probabilities, in the right columns, and nothing else changed."""

from __future__ import annotations

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
from calibrant.tables import formats

Run = Callable[..., Result]


@pytest.fixture
def fitted(run: Run, binary: pa.Table) -> cb.IsotonicCalibrator:
    """c.json, fitted to scores.csv."""
    assert run("fit scores.csv --method isotonic -o c.json").exit_code == 0
    loaded = persistence.load("c.json")
    assert isinstance(loaded, cb.IsotonicCalibrator)
    return loaded


@pytest.mark.parametrize("block", [1 << 22, 50])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "tsv", "jsonl"])
def test_probabilities_are_the_librarys_to_the_bit(
    run: Run, binary: pa.Table, fitted: cb.IsotonicCalibrator, suffix: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "CHUNK_BYTES", block)
    result = run(f"apply c.json scores.csv -o out.{suffix}")
    assert result.output == f"Wrote out.{suffix}: 600 rows with p_calibrated\n"
    out = cb.engines.read_columns(f"out.{suffix}")
    assert out.drop(["p_calibrated"]).equals(binary)
    assert out["p_calibrated"].to_pylist() == fitted.predict_proba(binary["p"]).to_pylist()


def test_rest_of_a_csv_stays_to_the_byte(run: Run, fitted: cb.IsotonicCalibrator) -> None:
    Path("new.csv").write_bytes(b'id,p,note\r\n007,0.50,"a, ""b""\r\nc"\r\n\r\n008,1e-1, x ')
    low, high = (repr(q) for q in fitted.predict_proba(np.array([0.5, 0.1])).tolist())
    expected = f'id,p,note,p_calibrated\r\n007,0.50,"a, ""b""\r\nc",{low}\r\n\r\n008,1e-1, x ,{high}'
    assert run("apply c.json new.csv -o out.csv").exit_code == 0
    assert Path("out.csv").read_bytes() == expected.encode()
    assert run("apply c.json new.csv -o -").stdout_bytes == expected.encode()
    assert run("apply c.json - -o -", stdin=Path("new.csv").read_bytes()).stdout_bytes == expected.encode()
    assert run("apply c.json new.csv -o new.csv").exit_code == 0
    assert Path("new.csv").read_bytes() == expected.encode()


def test_other_columns_can_be_named(run: Run, binary: pa.Table, fitted: cb.IsotonicCalibrator) -> None:
    pc.write_csv(binary.rename_columns(["row", "y", "prob", "w"]), "new.csv")
    assert "Did you mean 'prob'?" not in run("apply c.json new.csv -o out.csv").stderr
    assert run("apply c.json new.csv --score prob --column q -o out.csv").output == "Wrote out.csv: 600 rows with q\n"
    out = cb.engines.read_columns("out.csv")
    assert out["q"].to_pylist() == fitted.predict_proba(binary["p"]).to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("score", ["", "--score p_*", "--score p_dog,p_cat,p_eel"])
def test_several_columns_come_out_by_class(run: Run, several: pa.Table, score: str) -> None:
    run("fit several.parquet --score p_* -o c.json")
    result = run(f"apply c.json several.parquet {score} -o out.parquet")
    names = [f"p_calibrated_{label}" for label in ("cat", "dog", "eel")]
    assert result.output == f"Wrote out.parquet: 600 rows with {', '.join(names)}\n"
    out = pq.read_table("out.parquet")
    assert out.drop(names).equals(several)
    scores = np.column_stack([several[name].to_numpy() for name in ("p_cat", "p_dog", "p_eel")])
    found = np.column_stack([out[name].to_numpy() for name in names])
    np.testing.assert_array_equal(found, persistence.load("c.json").predict_proba(scores))
    checked = run("evaluate out.parquet --score p_calibrated_*")
    assert "classes by name: p_calibrated_cat = 'cat'" in checked.output


@pytest.mark.slow
def test_columns_that_were_named_by_classes_keep_that_order(run: Run, several: pa.Table) -> None:
    swapped = several.rename_columns(["y", "p_cat", "p_eel", "p_dog"])
    pq.write_table(swapped, "swapped.parquet")
    run("fit swapped.parquet --score p_cat,p_eel,p_dog --classes eel,cat,dog -o c.json")
    run("apply c.json swapped.parquet -o out.parquet")
    run("fit several.parquet --score p_* -o d.json")
    run("apply d.json several.parquet -o expected.parquet")
    names = [f"p_calibrated_{label}" for label in ("cat", "dog", "eel")]
    assert pq.read_table("out.parquet").select(names).equals(pq.read_table("expected.parquet").select(names))


def test_two_columns_of_two_classes(run: Run, binary: pa.Table) -> None:
    pq.write_table(binary.append_column("n", pa.array(1.0 - binary["p"].to_numpy())), "two.parquet")
    run("fit two.parquet --score n,p --method isotonic -o c.json")
    assert (
        run("apply c.json two.parquet -o out.csv").output
        == "Wrote out.csv: 600 rows with p_calibrated_0, p_calibrated_1\n"
    )
    out = cb.engines.read_columns("out.csv")
    expected = cb.IsotonicCalibrator().fit(binary["p"], binary["y"]).predict_proba(binary["p"].to_numpy())
    assert out["p_calibrated_1"].to_pylist() == expected.tolist()


def test_probability_calibrator_takes_rows_of_any_sum(run: Run, several: pa.Table) -> None:
    columns = ["p_cat", "p_dog", "p_eel"]
    calibrator = cb.ProbabilityCalibrator()
    calibrator.fit(several["y"], several.select(columns))
    calibrator.save("c.json")
    halves = pa.table({name: several[name].to_numpy() / 2 for name in columns})
    pq.write_table(halves, "halves.parquet")
    assert run("apply c.json halves.parquet -o out.parquet").exit_code == 0
    out = pq.read_table("out.parquet")
    expected = np.asarray(calibrator.calibrate(np.column_stack([halves[name].to_numpy() for name in columns])))
    for j, name in enumerate(columns):
        assert out[name.replace("p_", "p_calibrated_")].to_pylist() == expected[:, j].tolist()


def test_calibrator_saved_from_python_needs_its_columns_named(run: Run, binary: pa.Table) -> None:
    cb.save(cb.IsotonicCalibrator().fit(binary["p"].to_numpy(), binary["y"].to_numpy()), "c.pkl")
    result = run("apply c.pkl scores.csv -o out.csv")
    assert result.exit_code == 2
    assert "this IsotonicCalibrator doesn't say which columns it was fitted to. Name them with --score" in result.stderr
    assert run("apply c.pkl scores.csv --score p -o out.csv").exit_code == 0


def test_file_without_rows_gets_the_column(run: Run, fitted: cb.IsotonicCalibrator) -> None:
    Path("new.csv").write_bytes(b"p,x\n")
    assert run("apply c.json new.csv -o out.csv").output == "Wrote out.csv: 0 rows with p_calibrated\n"
    assert Path("out.csv").read_bytes() == b"p,x,p_calibrated\n"


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("p\n0.5\nx\n", "", "column 'p' of new.csv line 3: 'x' is not a number"),
        ("p\n0.5\n1.5\n", "", "column 'p' of new.csv line 3: 1.5 is outside [0, 1]"),
        ("p\n0.5\nNA\n", "", "column 'p' of new.csv line 3: missing value"),
        ("prob\n0.5\n", "", "new.csv has no column 'p'."),
        (
            "p,p_calibrated\n0.5,1\n",
            "",
            "new.csv already has a column 'p_calibrated'. Choose another name with --column",
        ),
        ("p\n0.5\n", "--column p", "new.csv already has a column 'p'."),
        ("p,q\n0.5,1\n", "--score p,q,p2", "has no column 'p2'."),
        (
            "p0,p1,p2\n0.5,0.25,0.25\n",
            "--score p*",
            "new.csv has 3 columns, but this calibrator was fitted for the 2 classes 0, 1. Pass one column.",
        ),
    ],
)
def test_what_can_not_be_applied_is_said_and_the_old_file_stays(
    run: Run, fitted: cb.IsotonicCalibrator, data: str, options: str, message: str
) -> None:
    Path("new.csv").write_text(data)
    Path("out.csv").write_text("old")
    before = sorted(path.name for path in Path.cwd().iterdir())
    result = run(f"apply c.json new.csv {options} -o out.csv")
    assert result.exit_code == 2
    assert message in result.stderr
    assert Path("out.csv").read_text() == "old"
    assert sorted(path.name for path in Path.cwd().iterdir()) == before


def test_calibrator_is_not_written_over(run: Run, fitted: cb.IsotonicCalibrator) -> None:
    before = Path("c.json").read_bytes()
    result = run("apply c.json scores.csv -o ./c.json")
    assert result.exit_code == 2
    assert "-o ./c.json is the file that is read" in result.stderr
    assert Path("c.json").read_bytes() == before


def test_file_that_is_no_calibrator_is_refused(run: Run, fitted: cb.IsotonicCalibrator) -> None:
    assert "scores.csv: not JSON" in run("apply scores.csv c.json -o out.csv").stderr
    assert run("apply nowhere.json scores.csv -o out.csv").stderr == "Error: nowhere.json: No such file or directory\n"
    assert "doesn't say what to write" in run("apply c.json scores.csv -o out.xlsx").stderr
    assert "there is no folder" in run("apply c.json scores.csv -o no/out.csv").stderr


def test_messages_of_corrected_numbers_speak_of_no_probabilities(run: Run, folder: Path) -> None:
    rng = np.random.default_rng(0)
    guess, zone = rng.normal(size=100), np.arange(100) % 2
    cb.save(cb.SegmentMeanCalibrator().fit(guess, guess + zone, features={"zone": zone}), folder / "mean.json")
    (folder / "in.csv").write_text("guess,zone\n1.5,0\n,1\n3,1\n")
    refused = run("apply mean.json in.csv -o out.csv --score guess")
    assert refused.exit_code == 2
    told = (
        "line 3: missing value (1 of 3 rows). Pass --missing keep (missing='keep' in Python) to leave the new columns"
    )
    assert told in " ".join(refused.output.split())
    done = run("apply mean.json in.csv -o out.csv --score guess --missing keep")
    assert done.output == "Wrote out.csv: 3 rows with calibrated; 1 row without a prediction, without a corrected one\n"
    skipped = run("apply mean.json in.csv -o out.csv --score guess --missing skip")
    assert skipped.output == "Wrote out.csv: 2 rows with calibrated; 1 row without a prediction, left out\n"
    for result in (refused, done, skipped):
        assert "probability" not in result.output
