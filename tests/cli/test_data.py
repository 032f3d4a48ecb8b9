"""What commands read: each file once, checked once, and calibrated by whatever is fitted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import calibrant as cb
from calibrant import rows
from calibrant.cli import data
from calibrant.tables.columnar import ParquetFile
from calibrant.tables.delimited import DelimitedFile
from calibrant.validation import labels, scores

Run = Callable[..., Result]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often sources are read, and scores, labels and weights are checked."""
    counted: Counter[str] = Counter()

    def spy(owner: Any, name: str, called: str = "") -> None:
        function = getattr(owner, name)

        def counting(*arguments: Any, **more: Any) -> Any:
            counted[called or name] += 1
            return function(*arguments, **more)

        monkeypatch.setattr(owner, name, counting)

    for name in ("as_scores", "as_labels", "as_weight"):
        spy(rows, name)
    for kind in (DelimitedFile, ParquetFile):
        spy(kind, "read_table", "passes")
        spy(kind, "scan_tables", "passes")
    # whatever checks anything goes through one of these
    spy(scores, "_as_float")
    spy(labels, "label_values")
    return counted


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "isotonic", "beta"])
def test_fit_reads_the_file_once_and_checks_scores_and_labels_once(
    run: Run, binary: pa.Table, calls: Counter[str], method: str
) -> None:
    result = run(f"fit scores.csv --method {method} -o c.json")
    assert "Out of fold (5 folds" in result.output
    assert calls == {"passes": 1, "as_scores": 1, "as_labels": 1, "as_weight": 1, "_as_float": 1, "label_values": 1}


def test_fit_by_group_and_of_several_classes_checks_once(run: Run, several: pa.Table, calls: Counter[str]) -> None:
    pq.write_table(several.append_column("city", pa.array(np.resize(["Bonn", "Rome"], 600))), "cities.parquet")
    result = run("fit cities.parquet --score p_* --method temperature --group city -o c.json")
    assert "Out of fold (5 folds" in result.output
    assert calls == {"passes": 1, "as_scores": 1, "as_labels": 1, "as_weight": 1, "_as_float": 1, "label_values": 2}


@pytest.mark.parametrize("command", ["evaluate", "compare", "audit", "report"])
def test_measuring_checks_once(run: Run, binary: pa.Table, calls: Counter[str], command: str) -> None:
    pq.write_table(binary.append_column("city", pa.array(np.resize(["Bonn", "Rome"], 600))), "cities.parquet")
    options = {
        "evaluate": "--group city --weight w",
        "compare": "--weight w",
        "audit": "--features city",
        "report": "--group city -o r.html",
    }
    assert run(f"{command} cities.parquet {options[command]}").exit_code == 0
    assert (calls["passes"], calls["as_scores"], calls["as_labels"]) == (1, 1, 1)


def test_calibrated_rows_are_measured_as_python_measures_them(run: Run, several: pa.Table) -> None:
    run("fit several.parquet --score p_* --method temperature -o c.json")
    q = cb.load("c.json").predict_proba(several.select(["p_cat", "p_dog", "p_eel"]))
    document = json.loads(run("evaluate several.parquet --calibrator c.json --json").stdout)
    assert document["scores"] == cb.evaluate(several["y"], q).to_dict()["scores"]
    assert document["calibrator"] == "c.json"
    assert document["columns"]["score"] == ["p_calibrated_cat", "p_calibrated_dog", "p_calibrated_eel"]


def test_groups_of_a_calibrator_that_were_text_are_read_as_text(run: Run, binary: pa.Table) -> None:
    code, p, y = np.resize(["01", "1"], 600), binary["p"].to_numpy(), binary["y"].to_numpy()
    made = cb.GroupedCalibrator("beta", shrinkage=0).fit(p**3, y, groups=code)
    cb.save(made, "c.json")
    rows = "".join(f"{a},{b},{c}\n" for a, b, c in zip(p.tolist(), y, code, strict=True))
    (Path("t.csv")).write_text(f"p,y,city\n{rows}")
    document = json.loads(run("evaluate t.csv --score p --calibrator c.json --group city --json").stdout)
    brier = cb.evaluate(y, made.predict_proba(p, groups=code))["brier"].value
    assert document["scores"]["brier"]["value"] == pytest.approx(brier, rel=1e-12)
    assert {each["group"] for each in document["groups"]["groups"]} == {"01", "1"}


@pytest.mark.slow
def test_a_file_of_too_many_rows_is_calibrated_as_it_is_read(
    run: Run, binary: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(binary.append_column("city", pa.array(np.resize(["Bonn", "Rome"], 600))), "cities.parquet")
    run("fit cities.parquet --method beta --group city -o c.json")
    command = "evaluate cities.parquet --calibrator c.json --group city --weight w --json"
    one = json.loads(run(command).stdout)
    monkeypatch.setattr(data, "MANY", 500)
    many = json.loads(run(command).stdout)
    assert many["scores"].keys() == one["scores"].keys()
    for name, score in one["scores"].items():
        assert many["scores"][name]["value"] == pytest.approx(score["value"], rel=1e-9), name
    assert [g["group"] for g in many["groups"]["groups"]] == [g["group"] for g in one["groups"]["groups"]]


@pytest.mark.slow
def test_rows_that_are_not_independent_are_measured_so(run: Run, binary: pa.Table) -> None:
    times = np.arange(600)
    table = binary.append_column("patient", pa.array(times // 6)).append_column("day", pa.array(times))
    pq.write_table(table.append_column("known", pa.array(times + 20)), "dependent.parquet")
    for options, more in (
        ("--cluster patient", {"cluster": times // 6}),
        ("--time day --label-end known", {"time": times, "label_end": times + 20}),
    ):
        document = json.loads(run(f"evaluate dependent.parquet {options} --json").stdout)
        assert document["scores"] == cb.evaluate(binary["y"], binary["p"], **more).to_dict()["scores"]
        run(f"report dependent.parquet {options} -o r.json")
        expected = cb.Report(
            binary["y"], binary["p"], source="dependent.parquet", label_name="y", score_names=["p"], **more
        )
        assert json.loads(Path("r.json").read_text("utf-8")) == json.loads(expected.json())
    assert "time and label_end go together" in run("evaluate dependent.parquet --time day").stderr


def test_a_time_alone_makes_folds_in_time(run: Run, binary: pa.Table) -> None:
    """Labels are then taken as known at once; figures need to know when, and say so."""
    times = np.random.default_rng(0).permutation(600)
    pq.write_table(binary.append_column("day", pa.array(times)), "timed.parquet")
    fitted = run("fit timed.parquet --time day --method auto -o c.json")
    assert fitted.exit_code == 0, fitted.output
    rows = {"time": times, "label_end": times}
    expected = cb.AutoCalibrator().fit(binary["p"], binary["y"], **rows)
    np.testing.assert_array_equal(
        cb.load("c.json").predict_proba([0.1, 0.5, 0.9]), expected.predict_proba([0.1, 0.5, 0.9])
    )
    ranked = json.loads(run("compare timed.parquet --time day --methods sigmoid --json").stdout)
    assert ranked["methods"] == cb.compare(binary["p"], binary["y"], methods=["sigmoid"], **rows).to_dict()["methods"]


@pytest.mark.slow
def test_dependent_rows_of_a_file_too_large_for_memory_have_the_figures_of_those_in_memory(
    run: Run, binary: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = pa.array(np.arange(600) + 20)
    table = binary.append_column("patient", pa.array(np.arange(600) // 6)).append_column("known", known)
    table = table.append_column("city", pa.array(np.array(["Bonn", "Rome"])[np.arange(600) % 2]))
    pq.write_table(table, "dependent.parquet", row_group_size=97)
    commands = [
        f"{command} {options}"
        for command in ("evaluate dependent.parquet --json", "report dependent.parquet -o r.json")
        for options in ("--cluster patient --group city", "--time row --label-end known")
    ]

    def found(command: str) -> Any:
        result = run(command)
        assert result.exit_code == 0, result.output
        return json.loads(Path("r.json").read_text("utf-8") if "r.json" in command else result.stdout)

    in_memory = [found(command) for command in commands]
    monkeypatch.setattr(data, "MANY", 500)
    for command, expected in zip(commands, in_memory, strict=True):
        document = found(command)
        assert document["scores"].keys() == expected["scores"].keys()
        for name, score in expected["scores"].items():
            for part in ("value", "low", "high", "n_eff"):
                assert document["scores"][name][part] == pytest.approx(score[part], rel=1e-6), (name, part)
        assert document["verdict"] == expected["verdict"]
    assert "design effect" in document["scores"]["brier"]["method"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--calibrator c.json --positive 0", "--positive is what the calibrator says. Leave it out."),
        ("--calibrator c.json --classes 0,1", "--classes is what the calibrator says. Leave it out."),
        ("--calibrator c.json --score q", "scores.parquet has no column 'q'."),
        ("--calibrator no.json", "no.json: No such file or directory"),
        ("--calibrator c.json --label row", "unknown label 2"),
    ],
)
def test_what_a_calibrator_can_not_be_measured_on_is_said(
    run: Run, binary: pa.Table, options: str, message: str
) -> None:
    run("fit scores.parquet --method sigmoid -o c.json")
    result = run(f"evaluate scores.parquet {options}")
    assert result.exit_code == 2
    assert message in result.stderr


def test_one_row_is_counted_as_one(run: Run) -> None:
    Path("one.csv").write_text("y,p,mu,sd\n1,0.5,1,2\n")
    assert "one.csv: 1 row, label 'y'" in run("evaluate one.csv").output
