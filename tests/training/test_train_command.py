"""calibrant train and calibrant runs, as a user calls them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from scipy.signal import lfilter

from calibrant.cli import main
from calibrant.cli.run_text import gate_lines


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_table: Callable[..., pa.Table]) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(make_table(700), "bars.parquet")


def call(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def train(*words: str) -> Result:
    result = call("train", "--no-gate", "--data", "bars.parquet", "--horizon", "8", *words)
    assert result.exit_code == 0, result.output
    return result


def test_train_prints_the_log_the_figures_and_where_they_are() -> None:
    result = train("--model", "logistic")
    line = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \| INFO \| calibrant\.training \| "
    number = r"\d\.\d{4}"
    specified = rf"{line}Calibration complete: Brier {number} -> {number}, ECE {number} -> {number}\n"
    assert re.search(specified, result.stderr)
    assert re.search(
        r"^ +raw +calibrated +95% interval +no skill +skill raw +skill calibrated$", result.stdout, re.MULTILINE
    )
    assert re.search(r"^(pass|FAIL)  skill over class frequencies$", result.stdout, re.MULTILINE)
    assert re.search(r"^ece .* chance \d\.\d+ +chance \d\.\d+$", result.stdout, re.MULTILINE)
    assert re.search(r"^Calibrator (used|left out) \(temperature \d", result.stdout, re.MULTILINE)
    assert "brier, sum over classes, target 0.15: not met: of a calibrated forecast of this accuracy" in result.stdout
    (run,) = Path("experiments/runs").iterdir()
    assert f"Saved {run}" in result.stdout


def test_a_failed_gate_is_exit_code_1_and_the_run_is_there() -> None:
    """A random market: no skill is shown, whatever the two other gates say."""
    words = ("--data", "bars.parquet", "--horizon", "8", "--model", "logistic")
    failed, looked = call("train", *words), call("train", "--no-gate", *words)
    assert (failed.exit_code, looked.exit_code) == (1, 0)
    for result in (failed, looked):
        assert "FAIL  skill over class frequencies" in result.stdout
        assert "No demonstrable skill over class frequencies on the test part (log loss less theirs: [" in result.stdout
    assert len(list(Path("experiments/runs").iterdir())) == 2


def test_calibration_that_held_before_the_test_part_alone_is_told_with_what_mends_it() -> None:
    train("--model", "logistic")
    metrics = json.loads(call("runs", "show", "last", "--json").stdout)
    before, now = (metrics[part]["forecasts"]["calibrated"]["ece"] for part in ("validation", "test"))
    before |= {"value": 0.01, "noise_band": 0.02}
    for value, is_told in ((0.01, False), (0.03, True)):
        now |= {"value": value, "noise_band": 0.02}
        text = "\n".join(gate_lines(metrics))
        assert (
            "held on earlier rows that it was not fitted to (ECE 0.0100, by chance up to 0.0200)" in text
        ) == is_told
        assert ("--walk-forward shows what refits give" in text) == is_told
    metrics["walk_forward"] = {}
    assert "Refit more often; in production, calibrant refresh does it" in "\n".join(gate_lines(metrics))
    before["value"] = 0.03
    assert "held on earlier rows" not in "\n".join(gate_lines(metrics))


def test_a_market_that_can_be_forecast_passes_all_gates(make_table: Callable[..., pa.Table]) -> None:
    """Prices that fall back from where they are: the next move is against the last."""
    rng, n = np.random.default_rng(0), 3000
    away = lfilter([1.0], [1.0, -0.5], rng.normal(size=n))
    close = 100.0 * np.exp(0.01 * away)
    table = make_table(n).drop(["open", "high", "low", "close"])
    for name, values in {"open": close, "high": close * 1.001, "low": close * 0.999, "close": close}.items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, "falling_back.parquet")
    result = call("train", "--data", "falling_back.parquet", "--horizon", "2", "--model", "logistic")
    assert result.exit_code == 0, result.stdout
    assert result.stdout.count("\npass  ") == 3
    assert "demonstrable" not in result.stdout


@pytest.mark.slow
def test_options_win_over_the_settings_of_a_file() -> None:
    train("--model", "logistic", "--seed", "3", "--calibrator", "beta")
    (first,) = Path("experiments/runs").iterdir()
    result = call(
        *("train", "--no-gate", "--config", str(first / "config.toml"), "--calibrator", "specified", "--runs", "again")
    )
    assert result.exit_code == 0, result.output
    (second,) = Path("again").iterdir()
    changed = set((second / "config.toml").read_text().splitlines()) ^ set(
        (first / "config.toml").read_text().splitlines()
    )
    assert changed == {'calibrator = "beta"', 'calibrator = "specified"'}


@pytest.mark.slow
def test_surer_probabilities_are_left_out_unless_told() -> None:
    """On a random market with few rows, those of the last fifth but one are matched by chance."""
    for when in ("auto", "if_better", "always"):
        result = train("--model", "logistic", "--calibrate", when, "--runs", when)
        block = json.loads(next(Path(when).glob("*/metrics.json")).read_text())["calibration"]
        assert block["decision"][1:] in result.stdout
        change = block["log_loss_change_on_unseen_blocks"]
        if when == "always":
            assert block["used"]
            assert change is None
        else:
            assert (change is None) == (when == "auto" and block["temperature"] > 1.0)
            surer = block["temperature"] < 1.0
            least = block["standard_error_of_the_change"] if surer else 0.0
            assert block["used"] == (change is None or change < -least)


@pytest.mark.slow
def test_runs_are_listed_shown_and_compared() -> None:
    assert "No finished run in experiments/runs. Next:  calibrant train" in call("runs", "list").stdout
    train("--model", "logistic")
    train("--model", "logistic", "--seed", "1", "--calibrator", "isotonic")
    (Path("experiments/runs") / ".x.partial-1").mkdir()
    listed = call("runs", "list").stdout
    assert listed.count("logistic_h8_") == 2
    assert "1 run running, or ended before the finish" in listed
    shown = call("runs", "show", "last")
    assert "calibrator isotonic" in shown.stdout
    assert "of the model's training time" in shown.stdout
    names = [run["run"] for run in json.loads(call("runs", "list", "--json").stdout)["runs"]]
    compared = call("runs", "compare", *names).stdout
    assert "calibrator: temperature | isotonic" in compared
    assert "seed: 0 | 1" in compared
    assert "can't be compared" not in compared
    document = json.loads(call("runs", "show", names[0], "--json").stdout)
    assert document["config"]["horizon"] == 8
    train("--model", "logistic", "--test", "0.3")
    last = json.loads(call("runs", "list", "--json").stdout)["runs"][-1]["run"]
    others = "were not measured on the same rows and labels"
    assert others in call("runs", "compare", names[0], last).stdout


def test_runs_are_compared_by_the_rows_and_labels_of_their_test_parts() -> None:
    """Runs of other barriers counted as comparable, and those of fewer columns of one table as not."""

    def compared(*names: str) -> tuple[str, bool]:
        result = call("runs", "compare", *names)
        assert result.exit_code == 0, result.output
        document = json.loads(call("runs", "compare", *names, "--json").stdout)
        return result.stdout, document["same_test_labels"]

    wide, near = train("--model", "logistic"), train("--model", "logistic", "--profit", "0.3")
    ids = [result.stdout.split("calibrant runs show ")[1].strip() for result in (wide, near)]
    text, is_same = compared(*ids)
    assert not is_same
    assert "not measured on the same rows and labels: their figures can't be compared" in text

    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 2))
    y = (x[:, 0] + rng.normal(size=600) > 0.0).astype(int)
    pq.write_table(pa.table({"t": np.arange(600), "x": x[:, 0], "z": x[:, 1], "y": y}), "rows.parquet")
    ids = []
    for more in ([], ["--features", "x"]):
        words = ("--table", "rows.parquet", "--label", "y", "--time", "t", "--model", "logistic", "--no-gate")
        result = call("train", *words, *more)
        ids.append(result.stdout.split("calibrant runs show ")[1].strip())
    text, is_same = compared(*ids)
    assert is_same
    assert "can't be compared" not in text

    hours = pa.array(np.datetime64("2020-01-01", "us") + np.arange(601) * np.timedelta64(3_600_000_000, "us"))
    ids = []
    for times in (hours[:600], hours[:600].cast(pa.timestamp("us", tz="UTC")), hours[1:]):
        pq.write_table(pa.table({"t": times, "x": x[:, 0], "y": y}), "rows.parquet")
        result = call("train", *words)
        ids.append(result.stdout.split("calibrant runs show ")[1].strip())
    assert compared(*ids[:2])[1], "times without a zone are UTC"
    assert not compared(*ids[1:])[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train", "--model", "xgbost"), "unknown model 'xgbost'. Did you mean 'xgboost'?"),
        (("train", "--data", "none.parquet"), "none.parquet"),
        (("train", "--config", "none.toml"), "none.toml: No such file or directory"),
        (("train", "--data", "bars.parquet", "--horizon", "690"), "none of 700 bars has both a finished label"),
        (("runs", "show", "x"), "no run in experiments/runs is called 'x'. See: calibrant runs list."),
        (("runs", "compare", "x"), "one run, 'x', is named. Name two or more."),
    ],
)
def test_what_cannot_be_done_is_one_line_and_leaves_nothing(words: tuple[str, ...], said: str) -> None:
    result = call(*words)
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert said in last
    assert not Path("experiments/runs").exists() or list(Path("experiments/runs").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lightgbm", "catboost"])
def test_each_library_trains(model: str) -> None:
    result = train("--model", model)
    assert "| INFO | calibrant.training | Calibration complete: Brier 0." in result.stderr
    (run,) = Path("experiments/runs").iterdir()
    assert run.name.startswith(f"{model}_h8_")


@pytest.mark.slow
def test_the_script_is_the_command() -> None:
    script = Path(__file__).parents[2] / "scripts" / "train_model.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    words = ["--model", "xgboost", "--horizon", "20", "--data", "bars.parquet", "--no-gate"]
    result = subprocess.run(
        [sys.executable, script, *words], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert "| INFO | calibrant.training | Calibration complete: Brier 0." in result.stderr
    (run,) = Path("experiments/runs").iterdir()
    assert run.name.startswith("xgboost_h20_")
