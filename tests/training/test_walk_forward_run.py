"""Runs by walk-forward: the folder, what is said of each window, and that the settings give the run again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from PIL import Image
from run_bytes import repeatable
from sklearn.metrics import log_loss

from calibrant.cli import main
from calibrant.errors import CalibrantError
from calibrant.training.bars import Bars, as_bars
from calibrant.training.config import TrainConfig, read_config
from calibrant.training.run_folder import Run
from calibrant.training.training_run import run_dataset, run_stack, run_training
from calibrant.training.walk_forward import walk_forward
from calibrant.training.walk_forward_pictures import draw_walk_forward, walk_forward_section

CONFIG = TrainConfig(model="logistic", horizon=8, walk_forward="quarter", test=0.5, history="rolling")


@pytest.fixture(scope="module")
def bars(make_bars: Callable[..., Bars]) -> Bars:
    return make_bars(1300)


@pytest.fixture(scope="module")
def run(bars: Bars, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_training(CONFIG, bars=bars, root=tmp_path_factory.mktemp("runs"))


def test_predictions_name_their_window_and_give_its_figures(run: Run) -> None:
    table = pq.read_table(run.path / "predictions.parquet").to_pydict()
    windows = run.metrics["walk_forward"]["windows"]
    number, y = np.array(table["window"]), np.array(table["y"])
    assert sorted(set(number)) == [one["window"] for one in windows] == list(range(1, len(windows) + 1))
    for one in windows:
        own = number == one["window"]
        assert own.sum() == one["n_rows"]
        for name, column in (("raw", "raw"), ("calibrated", "p"), ("class_frequencies", "no_skill")):
            prob = np.column_stack([np.array(table[f"{column}_{label}"])[own] for label in (-1, 0, 1)])
            assert one["log_loss"][name] == pytest.approx(log_loss(y[own], prob, labels=[-1, 0, 1]))
    quarters = {str(when)[:7] for when in table["time"]}
    assert len({(q[:4], (int(q[5:]) - 1) // 3) for q in quarters}) == len(windows)
    assert run.metrics["test"]["n_rows"] == number.size == run.metrics["walk_forward"]["all"]["n_rows"]


def test_what_is_deployed_is_the_last_refit_and_not_the_model_of_a_window(run: Run, bars: Bars) -> None:
    data = run_dataset(CONFIG, bars)
    walk = walk_forward(CONFIG, data)
    latest = data.X[-50:]
    said = run.predict_proba(latest, calibrated=False)
    assert said.tobytes() == walk.deployed.model.predict_proba(latest).tobytes()
    assert said.tobytes() != walk.windows[-1][1].model.predict_proba(latest).tobytes()
    last = run.metrics["walk_forward"]["deployed"]
    assert last["is"] == "the last refit, to the latest rows"
    assert last["fit"] + last["stop"] + last["validation"] < data.n_rows
    assert last["to"] == str(data.label_end.max())
    assert last["fit"] + last["stop"] + last["validation"] + last["purged"] == walk.windows[0][0].test[0]


def test_settings_and_seed_give_the_same_metrics(run: Run, bars: Bars, tmp_path: Path) -> None:
    config = TrainConfig(**read_config(run.path / "config.toml"))
    assert config == CONFIG
    again = run_training(config, bars=bars, root=tmp_path)
    assert repeatable(again.path / "metrics.json") == repeatable(run.path / "metrics.json")
    other = run_training(replace(config, history="expanding"), bars=bars, root=tmp_path)
    assert other.metrics["walk_forward"]["windows"][0] == run.metrics["walk_forward"]["windows"][0]
    assert other.metrics["walk_forward"]["windows"][1] != run.metrics["walk_forward"]["windows"][1]


def test_the_folder_holds_a_picture_and_a_section_on_windows(run: Run) -> None:
    run.check()
    with Image.open(run.path / "plots" / "windows.png") as picture:
        assert picture.width > 500
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 20, "something is drawn"
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert "<h2>Walk-forward</h2>" in page
    assert 'id="windows-title"' in page
    assert "no figure here is measured on it" in page
    assert "refitted to as many rows before it as before the first" in page
    money = run.metrics["walk_forward"]["windows"][0]["money"]
    assert money["calibrated"]["reason"].startswith(("trade above", "do not trade"))
    assert set(money["paths"]) >= {"raw", "calibrated", "buy and hold", "no trade"}


@pytest.mark.rendered
def test_windows_without_interval_and_of_infinite_loss_are_drawn_and_told(run: Run, tmp_path: Path) -> None:
    found: dict[str, Any] = json.loads(json.dumps(run.metrics["walk_forward"]))
    first, second = found["windows"][:2]
    for one in (first, second):
        one["skill"]["calibrated"]["log_loss"] |= {"low": None, "high": None}
        one["calibrated_minus_raw"]["log_loss"] |= {"low": None, "high": None}
    first["skill"]["calibrated"]["log_loss"]["value"] = first["log_loss"]["calibrated"] = None
    first["calibrated_minus_raw"]["log_loss"]["value"], first["is_worse"] = None, True
    first["is_off"] = True
    first["ece"]["calibrated"]["noise_band"] = None  # of a window of one row
    draw_walk_forward(tmp_path / "windows.png", found)
    section = walk_forward_section(found)
    skill, change, money = (block for block in section.blocks if block.kind == "table")
    assert skill.rows[0].cells[3:] == ["infinite", "", ""]
    assert (change.rows[0].cells[1].text, change.rows[0].cells[1].mark) == ("infinite", "outside")  # type: ignore[union-attr]
    assert change.rows[0].cells[4].mark == "outside"  # type: ignore[union-attr]
    assert [row.cells[0] for row in money.rows] == [str(k + 1) for k in range(len(found["windows"]))]
    value = first["money"]["paths"]["calibrated"]["growth"]["value"]
    assert str(money.rows[0].cells[2]).lstrip("+\N{MINUS SIGN}") == f"{abs(value):.4f}"
    for one in found["windows"]:
        one["money"] = {"left_out": "no returns"}
    assert len([block for block in walk_forward_section(found).blocks if block.kind == "table"]) == 2
    (pictures,) = (block for block in section.blocks if block.kind == "pictures")
    assert "log loss infinite, of class frequencies" in pictures.pictures[0].draw()


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_table: Callable[..., pa.Table]) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(make_table(900), "bars.parquet")


def call(*words: str) -> Any:
    return CliRunner().invoke(main, list(words))


@pytest.mark.usefixtures("in_folder")
def test_the_command_shows_windows_in_eighty_columns() -> None:
    words = ["--data", "bars.parquet", "--horizon", "8", "--model", "logistic", "--test", "0.4", "--walk-forward", "3"]
    result = call("train", "--no-gate", *words)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    header = next(k for k, line in enumerate(lines) if line.startswith("window  from"))
    table = lines[header : header + 5]
    assert [line.split()[0] for line in table] == ["window", "1", "2", "3", "all"]
    second = next(k for k, line in enumerate(lines) if line.startswith("window  ") and k > header)
    assert [line.split()[0] for line in lines[second : second + 5]] == ["window", "1", "2", "3", "all"]
    assert max(map(len, [*table, *lines[second : second + 5]])) <= 80
    assert "Calibrated is worse than raw beyond noise in " in result.stdout
    assert "Its ECE is beyond noise in " in result.stdout
    assert "Deployed: the last refit, to " in result.stdout
    assert "| INFO | calibrant.training.walk_forward | Window 3 of 3, " in result.stderr
    shown = call("runs", "show", "last")
    assert "\n".join(table) in shown.stdout
    assert "walk_forward 3, history expanding" in shown.stdout
    document = json.loads(call("runs", "show", "last", "--json").stdout)
    assert document["walk_forward"]["n_windows"] == 3
    (saved,) = Path("experiments/runs").iterdir()
    assert "walk_forward = 3\n" in (saved / "config.toml").read_text()


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--walk-forward", "quarterly"), "is neither a number of windows nor one of 'month', 'quarter', 'year'"),
        (("--walk-forward", "--3"), "--walk-forward '--3' is neither a number of windows nor one of"),
        (("--walk-forward", "\N{SUPERSCRIPT TWO}"), "is neither a number of windows nor one of"),
        (("--walk-forward", "0"), "walk_forward=0 is too small"),
        (("--walk-forward", "-2"), "walk_forward=-2 is too small"),
        (("--walk-forward", "400"), "walk_forward=400 windows don't fit into"),
        (("--walk-forward", "3", "--history", "rollin"), "Did you mean 'rolling'?"),
        (("--history", "rolling"), "Pass walk_forward too"),
        (("--walk-forward", "year", "--test", "0.05"), "no year starts in the last part of the rows"),
    ],
)
def test_windows_that_cannot_be_are_one_line_and_leave_nothing(words: tuple[str, ...], said: str) -> None:
    result = call("train", "--data", "bars.parquet", "--horizon", "8", "--model", "logistic", *words)
    assert result.exit_code == 2
    assert said in result.stderr.splitlines()[-1]
    assert not Path("experiments/runs").exists() or list(Path("experiments/runs").iterdir()) == []


def test_out_of_fold_runs_refuse_windows(bars: Bars, tmp_path: Path) -> None:
    with pytest.raises(CalibrantError, match="walk_forward='quarter' is for one model that is trained"):
        run_stack(CONFIG, ["logistic"], bars=bars, root=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rendered
def test_a_table_with_numbers_for_times_and_no_returns_goes_the_whole_way(tmp_path: Path) -> None:
    n, rng = 900, np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    y = np.array(["a", "b", "c", "d"])[np.clip(np.round(1.5 + x[:, 0] + 0.5 * rng.normal(size=n)), 0, 3).astype(int)]
    table = {"t": 0.5 * np.arange(n), "known": 0.5 * np.arange(n) + 2.0, "y": y, "x0": x[:, 0], "x1": x[:, 1]}
    settings: dict[str, Any] = {"table": "rows", "label": "y", "time": "t", "label_end": "known"}
    config = TrainConfig(model="logistic", walk_forward=3, test=0.4, embargo=4, **settings)
    found = run_training(config, table=pa.table(table), root=tmp_path)
    section = found.metrics["walk_forward"]
    assert section["all"]["is_skilled"]
    assert min(one["skill"]["calibrated"]["log_loss"]["value"] for one in section["windows"]) > 0.3
    assert all(list(one["money"]) == ["left_out"] for one in section["windows"])
    assert section["windows"][0]["from"] == str(0.5 * (n - round(0.4 * n)))
    for one, other in pairwise(section["windows"]):
        assert float(one["fitted_on"]["to"]) + 4 * 0.5 < float(one["from"]) < float(other["from"])
    assert "<h2>Walk-forward</h2>" in (found.path / "report.html").read_text(encoding="utf-8")
    with Image.open(found.path / "plots" / "windows.png") as picture:
        assert picture.width > 500
    with pytest.raises(CalibrantError, match="walk_forward='month' needs dates, and times are float64 values"):
        run_training(replace(config, walk_forward="month"), table=pa.table(table), root=tmp_path)


def test_several_symbols_and_binary_labels_go_the_whole_way(
    make_table: Callable[..., pa.Table], tmp_path: Path
) -> None:
    config = replace(CONFIG, label="binary", walk_forward=3, embargo=5, calibrator="isotonic")
    found = run_training(config, bars=as_bars(make_table(500, ("A", "B"))), root=tmp_path)
    assert found.metrics["walk_forward"]["n_windows"] == 3
    assert "walk-forward over 3 windows" in (found.path / "report.html").read_text(encoding="utf-8")
