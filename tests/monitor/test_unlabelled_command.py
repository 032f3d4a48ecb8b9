"""calibrant monitor --no-labels: figures of the library, drift against a reference, states, and clear refusals."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import calibrant as cb
from calibrant.cli import main
from calibrant.monitor import DriftMonitor

Run = Callable[..., Result]
WATCHED = "--reference old.parquet --columns age,city"


@pytest.fixture
def run() -> Run:
    def invoke(command: str) -> Result:
        result = CliRunner().invoke(main, ["monitor", *command.split()])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return invoke


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, pa.Table]:
    """Rows from before, and ten days of which the last five have higher scores; and three classes. No labels."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)

    def rows(n: int, shift: float) -> dict[str, Any]:
        age = rng.normal(40.0, 10.0, n)
        age[::17] = np.nan
        return {
            "p": 1.0 / (1.0 + np.exp(-rng.normal(-1.0 + shift, 1.0, n))),
            "age": pa.array(age, from_pandas=True),
            "city": rng.choice(["a", "b"], n),
            "w": rng.integers(1, 3, n),
        }

    days = [pa.table(rows(200, 0.0 if day < 5 else 0.6)) for day in range(10)]
    new = pa.concat_tables(days).append_column("day", pa.array(np.repeat(np.arange(10), 200)))
    dates = [f"2026-11-{day + 1:02d}" for day in np.asarray(new["day"])]
    new = new.set_column(4, "day", pa.array(dates))
    old = pa.table(rows(2000, 0.0))
    p = rng.dirichlet([1.0, 2.0, 3.0], 900)
    classes = pa.table({f"p_{k}": p[:, k] for k in range(3)})
    for name, table in {"new": new, "old": old, "classes": classes}.items():
        pq.write_table(table, f"{name}.parquet")
    return {"new": new, "old": old, "classes": classes}


def test_figures_are_those_of_the_library(run: Run, files: dict[str, pa.Table]) -> None:
    result = run("new.parquet --no-labels --date day --json --weight w --threshold 0.3")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert "no concept shift" in document["assumption"]
    assert len(document["windows"]) == 10
    for window in document["windows"]:
        rows = files["new"].filter(pc.equal(files["new"]["day"], window["name"]))
        expected = cb.metrics.expected_scores(rows["p"], sample_weight=rows["w"], threshold=0.3)
        assert window["scores"] == expected.to_dict()["scores"]
        assert window["drift"] is None


def test_drift_is_found_where_it_is_and_exits_one(run: Run, files: dict[str, pa.Table]) -> None:
    quiet = run(f"old.parquet --no-labels {WATCHED} --rows 400")
    assert quiet.exit_code == 0
    assert "No drift found; accuracy" in quiet.output
    result = run(f"new.parquet --no-labels {WATCHED} --date day -o page.html")
    assert result.exit_code == 1
    assert "Drift of p: alarm in 2026-11-0" in result.output
    assert "no concept shift" in result.output
    lines = {line.split()[0]: line for line in result.output.splitlines() if line.startswith("2026")}
    assert [name for name, line in lines.items() if line.endswith("alarm")][-1] == "2026-11-10"
    assert not lines["2026-11-05"].endswith("alarm")
    assert all(len(line) <= 80 for line in lines.values())
    page = Path("page.html").read_text("utf-8")
    assert "Drift of p: alarm in" in page
    assert "no concept shift" in page
    assert "src=" not in page
    watched = {name: files["old"][name] for name in ("p", "age", "city")}
    monitor = DriftMonitor(watched)
    for name in sorted(set(files["new"]["day"].to_pylist())):
        monitor.update(files["new"].filter(pc.equal(files["new"]["day"], name)).select(list(watched)), name=name)
    document = json.loads(run(f"new.parquet --no-labels {WATCHED} --date day --json").stdout)
    assert [window["drift"] for window in document["windows"]] == [window.to_dict() for window in monitor.windows]
    assert document["first_alarm"] == monitor.first_alarm


def test_days_that_come_one_by_one_with_a_state_give_what_all_give(run: Run, files: dict[str, pa.Table]) -> None:
    whole = json.loads(run(f"new.parquet --no-labels {WATCHED} --date day --json").stdout)["windows"]
    found, codes = [], []
    for name in sorted(set(files["new"]["day"].to_pylist())):
        pq.write_table(files["new"].filter(pc.equal(files["new"]["day"], name)), "day.parquet")
        result = run(f"day.parquet --no-labels {WATCHED} --date day --state state.json --json")
        codes.append(result.exit_code)
        found += json.loads(result.stdout)["windows"]
    assert found == whole
    assert codes == [int(window["drift"]["drifted"] != []) for window in whole]
    before = Path("state.json").read_bytes()
    again = run(f"day.parquet --no-labels {WATCHED} --date day --state state.json")
    assert "2026-11-10 counted before, and passed over." in again.output
    assert again.exit_code == 1
    assert Path("state.json").read_bytes() == before
    Path("old.parquet").unlink()  # which the state has read
    assert run(f"day.parquet --no-labels {WATCHED} --date day --state state.json").exit_code == 1
    without = WATCHED.replace("--reference old.parquet ", "")
    assert run(f"day.parquet --no-labels {without} --date day --state state.json").output == again.output


def test_windows_of_rows_go_on_by_number_and_count_once(run: Run, files: dict[str, pa.Table]) -> None:
    pq.write_table(files["old"].slice(0, 600), "a.parquet")
    pq.write_table(files["old"].slice(600, 500), "b.parquet")
    options = "--no-labels --reference old.parquet --rows 300 --state state.json --json"
    names = [
        [window["name"] for window in json.loads(run(f"{file}.parquet {options}").stdout)["windows"]] for file in "aba"
    ]
    assert names == [["window 1", "window 2"], ["window 3", "window 4"], ["window 1", "window 2"]]


def test_files_of_a_folder_are_windows(run: Run, files: dict[str, pa.Table]) -> None:
    Path("days").mkdir()
    for i in range(3):
        pq.write_table(files["new"].slice(200 * i, 200), f"days/{i}.parquet")
    document = json.loads(run("days --no-labels --json").stdout)
    assert [window["name"] for window in document["windows"]] == ["0.parquet", "1.parquet", "2.parquet"]


def test_classes_and_calibrators(run: Run, files: dict[str, pa.Table]) -> None:
    document = json.loads(run("classes.parquet --no-labels --score p_* --reference classes.parquet --json").stdout)
    (window,) = document["windows"]
    assert list(window["scores"]) == ["accuracy", "brier", "log_loss"]
    assert document["watched"] == ["p_0", "p_1", "p_2"]
    y = np.random.default_rng(1).random(2000) < np.asarray(files["old"]["p"]) ** 2
    fitted = cb.SigmoidCalibrator().fit(files["old"]["p"], y)
    cb.save(fitted, "c.json")
    document = json.loads(
        run("new.parquet --no-labels --calibrator c.json --score p --reference old.parquet --json").stdout
    )
    expected = cb.metrics.expected_scores(fitted.predict_proba(np.asarray(files["new"]["p"])))
    assert document["windows"][0]["scores"] == expected.to_dict()["scores"]
    assert document["watched"] == ["p_calibrated"]


def test_rows_without_a_score_are_refused_or_left_out(run: Run, files: dict[str, pa.Table]) -> None:
    p = files["new"]["p"].to_pylist()
    p[3] = None
    pq.write_table(files["new"].set_column(0, "p", pa.array(p)), "gaps.parquet")
    assert run("gaps.parquet --no-labels").exit_code == 2
    document = json.loads(run("gaps.parquet --no-labels --missing skip --json").stdout)
    assert document["windows"][0]["scores"]["brier"]["n"] == 1999
    assert "1 row left out for missing values." in document["notes"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("new.parquet --reference old.parquet", "--reference is for --no-labels"),
        ("new.parquet --columns age", "--columns is for --no-labels"),
        ("new.parquet --threshold 0.3", "--threshold is for --no-labels"),
        ("new.parquet --no-labels --columns age", "--columns are compared with those of --reference"),
        ("new.parquet --no-labels --state s.json", "--state keeps evidence of drift from --reference"),
        ("new.parquet --no-labels --alpha 0.1", "--alpha is the chance of a false alarm of drift"),
        ("new.parquet --no-labels --cluster city", "--no-labels takes rows as independent. Leave --cluster out"),
        ("new.parquet --no-labels --missing wait", "--missing wait is for labels"),
        ("new.parquet --no-labels --date when", "has no column 'when'"),
        ("new.parquet --no-labels --score q", "has no column 'q'"),
        ("new.parquet --no-labels --score age", "column 'age' of new.parquet row 0: missing value (120 of 2,000 rows)"),
        ("new.parquet --no-labels --score age --missing skip", "is outside [0, 1]"),
        ("new.parquet --no-labels --threshold 1.5", "threshold=1.5 is outside"),
        ("new.parquet --no-labels --reference none.parquet", "there is no file none.parquet"),
        ("new.parquet --no-labels --reference classes.parquet", "has no column 'p'"),
        ("new.parquet --no-labels --reference old.parquet --columns day", "has no column 'day'"),
        ("new.parquet --no-labels --reference old.parquet -o old.parquet", "doesn't say what to write"),
        ("new.parquet --no-labels --reference old.parquet --state old.parquet", "is the file that is read"),
        ("new.parquet --no-labels --date day --rows 5", "--date and --rows both say what a window is"),
    ],
)
def test_wrong_calls_are_refused(run: Run, command: str, message: str) -> None:
    result = run(command)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not Path("s.json").exists()


def test_a_state_of_something_else_is_refused(run: Run) -> None:
    options = "--no-labels --reference old.parquet --state s.json"
    assert run(f"new.parquet {options}").exit_code == 1
    before = Path("s.json").read_bytes()
    for command, message in (
        (f"new.parquet {options} --alpha 0.2", "--alpha 0.2, but s.json was begun with 0.01"),
        (f"new.parquet {options} --columns age", "s.json watches p, and these options name p, age"),
        ("new.parquet --label city --state s.json", "this is not the state of a monitor"),
    ):
        result = run(command)
        assert result.exit_code == 2
        assert message in result.stderr
        assert Path("s.json").read_bytes() == before


@pytest.mark.slow
def test_real_polls_of_another_kind_drift(run: Run) -> None:
    folder = os.environ.get("CALIBRANT_DATA")
    if folder is None:
        pytest.skip("CALIBRANT_DATA doesn't name a folder with scores/fivethirtyeight_binary.parquet")
    table = pq.read_table(Path(folder, "scores", "fivethirtyeight_binary.parquet"), columns=["source", "p"])
    sources = pc.value_counts(table["source"]).to_pylist()
    first, second = sorted(sources, key=lambda each: -each["counts"])[:2]
    one = table.filter(pc.equal(table["source"], first["values"]))
    one = one.take(np.random.default_rng(0).permutation(one.num_rows))
    pq.write_table(one.slice(0, 3000), "before.parquet")
    pq.write_table(one.slice(3000, 3000), "same.parquet")
    pq.write_table(table.filter(pc.equal(table["source"], second["values"])).slice(0, 3000), "other.parquet")
    assert run("same.parquet --no-labels --reference before.parquet --rows 500").exit_code == 0
    assert run("other.parquet --no-labels --reference before.parquet --rows 500").exit_code == 1
