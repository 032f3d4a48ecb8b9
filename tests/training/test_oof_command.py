"""calibrant oof, as a user calls it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from run_bytes import repeatable

from calibrant.cli import main
from calibrant.training.config import TrainConfig
from calibrant.training.run_folder import list_runs


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(main, [*arguments])


def oof(*arguments: str) -> Any:
    return invoke("oof", "--no-gate", *arguments)


def test_command_prints_stack_thresholds_and_sizing(
    make_table: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(make_table(700), "bars.parquet")
    done = oof("--models", "logistic", "--horizon", "10", "--data", "bars.parquet", "--folds", "3")
    assert done.exit_code == 0, done.output
    for text in ("meta-learner, calibrated", "log loss, calibrated less raw", "Trades on calibrated", "Sizing error"):
        assert text in done.output
    for text in (
        "Chosen before it: ",
        "buy and hold",
        "no trade",
        "Returns a year, calibrated",
        "30 to 50% less sizing",
    ):
        assert text in done.output
    assert "5 to 10% less log loss of the meta-learner. Found: " in done.output
    (found,), n_partial = list_runs("experiments/runs")
    assert n_partial == 0
    assert found.run_id.startswith("oof_h10_")
    shown = invoke("runs", "show", "last")
    assert shown.exit_code == 0, shown.output


@pytest.mark.slow
def test_command_takes_the_settings_of_a_file_and_options_win(
    make_table: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(make_table(600), "bars.parquet")
    Path("given.toml").write_text(
        'model = "catboost"\nhorizon = 7\ndata = "bars.parquet"\ntest = 0.3\nseed = 4\nclass_weight = "balanced"\n'
        "[params]\nC = 0.5\n"
    )
    done = oof("--models", "logistic", "--config", "given.toml", "--folds", "3", "--seed", "5")
    assert done.exit_code == 0, done.output
    (found,), _ = list_runs("experiments/runs")
    assert found.config == TrainConfig(
        model="logistic", horizon=7, data="bars.parquet", test=0.3, seed=5, class_weight="balanced", params={"C": 0.5}
    )
    again = oof("--models", "logistic", "--config", str(found.path / "config.toml"), "--folds", "3")
    assert again.exit_code == 0, again.output
    metrics = [repeatable(one.path / "metrics.json") for one in list_runs("experiments/runs")[0]]
    assert len(metrics) == 2
    assert metrics[0] == metrics[1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--models", "xgbost"], "Did you mean 'xgboost'"),
        (["--models", ","], "unknown model ''"),
        (["--variant", "nest"], "Did you mean 'nested'"),
        (["--cost-bp", "-1"], "cost_bp=-1.0 is outside [0, 10000]"),
        (["--stakes", "kely"], "Did you mean 'kelly'"),
        (["--models", "logistic", "--folds", "2"], "--folds 2 is too small. Pass an integer of at least 3"),
    ],
)
def test_command_refuses(
    arguments: list[str], text: str, make_table: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(make_table(300), "bars.parquet")
    done = invoke("oof", "--data", "bars.parquet", *arguments)
    assert done.exit_code == 2
    assert text in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--models a:Mine,b:Mine", "models 'a:Mine', 'b:Mine' are of classes of one name, 'Mine'"),
        ("--models logistic --folds 2", "Error: --folds 2 is too small. Pass an integer of at least 3."),
        (
            "--models logistic --folds 1 --variant blocks",
            "Error: --folds 1 is too small. Pass an integer of at least 2",
        ),
    ],
)
def test_what_no_rows_can_mend_is_told_before_they_are_read(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = oof(*words.split(), "--data", "nowhere.parquet")
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
