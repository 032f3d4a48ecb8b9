"""Run folders: all of a run or nothing, whenever it is killed; the same bytes for the same seed."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from child_runs import in_child, killed_at, without_space
from run_bytes import repeatable
from sklearn.ensemble import RandomForestClassifier

import calibrant as cb
from calibrant.chain import Chain
from calibrant.errors import CalibrantError, ColumnOrderError, DocumentError
from calibrant.training.bars import Bars
from calibrant.training.config import TrainConfig
from calibrant.training.run_folder import Run, find_run, git_commit, list_runs, load_run, new_run, provenance
from calibrant.training.sources import BarSource
from calibrant.training.training_run import run_dataset, run_parts, run_training

CONFIG = TrainConfig(model="logistic", horizon=8)
FILES = {
    "checkpoints/calibrator.json",
    "checkpoints/calibrator.pkl",
    "checkpoints/model.skops",
    "config.toml",
    "equity.parquet",
    "log.jsonl",
    "metrics.json",
    "oof.parquet",
    "plots/classes.png",
    "plots/money.png",
    "plots/reliability.png",
    "predictions.parquet",
    "report.html",
    "run.json",
}


@pytest.fixture(scope="module")
def bars(make_bars: Callable[..., Bars]) -> Bars:
    return make_bars(700, ("A", "B"))


@pytest.fixture(scope="module")
def run(bars: Bars, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_training(CONFIG, bars=bars, root=tmp_path_factory.mktemp("runs"))


def files(run: Run) -> set[str]:
    return {file.relative_to(run.path).as_posix() for file in run.path.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_a_run_holds_every_file_and_reads_back(run: Run, bars: Bars) -> None:
    assert files(run) == FILES
    run.check()
    assert run.config == CONFIG
    assert run.found["data_sha256"] == bars.sha256()
    block = run.metrics["calibration"]
    assert {"brier_before", "brier_after", "ece_before", "ece_after", "measured_on"} <= set(block)
    assert "untouched test part" in block["measured_on"]
    assert re.fullmatch(r"logistic_h8_\d{8}_\d{6}_\d{6}_[0-9a-f]{4}", run.run_id)
    assert run.record["overhead"]["within_limit"] == (run.record["overhead"]["share_of_model_fit"] < 0.05)
    assert block["overhead"]["within_limit"] == run.record["overhead"]["within_limit"]
    assert block["used"] == (block["temperature"] > 1.0 or block["log_loss_change_on_unseen_blocks"] < 0.0)
    assert block["decision"] in (run.path / "log.jsonl").read_text(encoding="utf-8")
    assert (run.models.keys(), run.calibrators.keys()) == ({"logistic"}, {"logistic"})


@pytest.mark.slow
def test_the_log_ends_with_the_specified_line(run: Run) -> None:
    entries = [json.loads(line) for line in (run.path / "log.jsonl").read_text().splitlines()]
    assert all(set(entry) == {"time", "level", "name", "message"} for entry in entries)
    block = run.metrics["calibration"]
    shown = [f"{block[key]:.4f}" for key in ("brier_before", "brier_after", "ece_before", "ece_after")]
    line = "Calibration complete: Brier {} -> {}, ECE {} -> {}".format(*shown)
    assert [entry["level"] for entry in entries if entry["message"] == line] == ["INFO"]


@pytest.mark.slow
def test_predictions_are_those_of_the_saved_model_and_calibrator(run: Run, bars: Bars) -> None:
    table = pq.read_table(run.path / "predictions.parquet").to_pandas()
    data = run_dataset(CONFIG, bars)
    rows = data.take(run_parts(CONFIG, data).test)
    assert run.predict_proba(rows.X).tobytes() == table[["p_-1", "p_0", "p_1"]].to_numpy().tobytes()
    raw = run.predict_proba(rows.X, calibrated=False)
    assert raw.tobytes() == table[["raw_-1", "raw_0", "raw_1"]].to_numpy().tobytes()
    assert table.y.tolist() == rows.y.tolist()
    assert (table.label_end.to_numpy() == rows.label_end).all()
    pickled = cb.load(run.path / "checkpoints" / "calibrator.pkl")
    assert pickled.predict_proba(raw).tobytes() == run.calibrator.predict_proba(raw).tobytes()
    with pytest.raises(CalibrantError, match=re.escape("X has shape (2, 3), and this model has 13 features")):
        run.predict_proba(np.zeros((2, 3)))


def test_features_are_matched_by_name(run: Run) -> None:
    names = run.found["features"]
    X = np.random.default_rng(0).normal(size=(20, len(names)))
    expected = run.predict_proba(X)
    frame = pd.DataFrame(X, columns=names)
    for container in (frame, pl.DataFrame(frame), pa.Table.from_pandas(frame)):
        assert run.predict_proba(container).tobytes() == expected.tobytes()
    shuffled = frame[names[::-1]]
    assert run.predict_proba(shuffled).tobytes() == expected.tobytes()
    assert run.predict_proba(shuffled.to_numpy()).tobytes() != expected.tobytes()
    for wrong, said in (
        (frame.drop(columns="range"), "X lacks 'range'. The features of"),
        (frame.assign(spread=0.0), "X has 'spread' besides. The features of"),
        (frame.rename(columns={"gap": "jump"}), "X lacks 'gap' and has 'jump' besides"),
    ):
        with pytest.raises(ColumnOrderError, match=re.escape(said)):
            run.predict_proba(wrong)


@pytest.mark.slow
def test_figures_of_the_specified_calibrator_are_those_of_purged_blocks_in_time(bars: Bars, tmp_path: Path) -> None:
    run = run_training(replace(CONFIG, calibrator="specified"), bars=bars, root=tmp_path)
    data = run_dataset(CONFIG, bars)
    rows = data.take(run_parts(CONFIG, data).validation)
    raw = run.predict_proba(rows.X, calibrated=False)
    fitted = cb.ProbabilityCalibrator().fit_rows(rows.rows(raw))
    assert isinstance(run.calibrator, cb.ProbabilityCalibrator)
    assert run.calibrator.metrics_ == fitted.metrics_
    shuffled = cb.ProbabilityCalibrator().fit(rows.y, raw)
    assert fitted.metrics_.brier_after != shuffled.brier_after


@pytest.mark.slow
@pytest.mark.rendered
def test_the_same_seed_gives_the_same_bytes(run: Run, bars: Bars, tmp_path: Path) -> None:
    again = run_training(CONFIG, bars=bars, root=tmp_path)
    assert again.run_id != run.run_id
    for name in sorted(FILES - {"run.json", "log.jsonl", "checkpoints/model.skops"}):
        assert repeatable(again.path / name) == repeatable(run.path / name), name


@pytest.mark.slow
def test_another_seed_gives_other_figures(bars: Bars, tmp_path: Path) -> None:
    config = TrainConfig(model="lightgbm", horizon=8)
    runs = [run_training(config, bars=bars, root=tmp_path)]
    runs.append(run_training(TrainConfig(model="lightgbm", horizon=8, seed=1), bars=bars, root=tmp_path))
    losses = [one.metrics["test"]["forecasts"]["raw"]["log_loss"]["value"] for one in runs]
    assert losses[0] != losses[1]
    assert [one.run_id for one in list_runs(tmp_path)[0]] == [one.run_id for one in runs]


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", ["temperature", "specified"])
def test_the_saved_calibrator_of_a_balanced_run_undoes_the_weights_too(
    calibrator: str, bars: Bars, tmp_path: Path
) -> None:
    config = TrainConfig(model="logistic", horizon=8, class_weight="balanced", calibrator=calibrator)
    run = run_training(config, bars=bars, root=tmp_path)
    assert files(run) == FILES
    table = pq.read_table(run.path / "predictions.parquet").to_pandas()
    raw, calibrated = (table[[f"{name}_{label}" for label in (-1, 0, 1)]] for name in ("raw", "p"))
    for suffix in ("json", "pkl"):
        saved = cb.load(run.path / "checkpoints" / f"calibrator.{suffix}")
        assert isinstance(saved, Chain)
        assert saved.predict_proba(raw.to_numpy()).tobytes() == calibrated.to_numpy().tobytes()
    assert np.abs(saved.steps[1].predict_proba(raw.to_numpy()) - calibrated.to_numpy()).max() > 0.01
    data = run_dataset(config, bars)
    rows = data.take(run_parts(config, data).test)
    expected = table[["p_-1", "p_0", "p_1"]].to_numpy()
    assert run.predict_proba(rows.X).tobytes() == expected.tobytes()


def trained(root: str, bars: Bars) -> None:
    run_training(CONFIG, bars=bars, root=root)


@pytest.mark.parametrize("n_events", [1, 2, 3, 5, 7, 9, 10, 12, 14, 16, 21, 28, 44, 58, 59, 60, 99])
def test_a_run_that_is_killed_leaves_all_or_nothing(n_events: int, bars: Bars, tmp_path: Path) -> None:
    code = in_child(killed_at, n_events, str(tmp_path), trained, str(tmp_path), bars)
    runs, n_partial = list_runs(tmp_path)
    assert code == (0 if n_events == 99 else -signal.SIGKILL)
    assert (len(runs), n_partial) == {1: (0, 0), 2: (0, 0), 60: (1, 0), 99: (1, 0)}.get(n_events, (0, 1))
    for run in runs:
        run.check()
        assert files(run) == FILES
    for entry in tmp_path.iterdir():
        if entry.name.startswith("."):
            with pytest.raises(CalibrantError, match="holds no finished run"):
                load_run(entry)


@pytest.mark.parametrize("seed", range(5))
def test_a_run_that_is_killed_at_any_time_leaves_all_or_nothing(seed: int, bars: Bars, tmp_path: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=trained, args=(str(tmp_path), bars))
    child.start()
    child.join(np.random.default_rng(seed).uniform(0.05, 0.8))
    child.kill()
    child.join()
    for run in list_runs(tmp_path)[0]:
        run.check()
        assert files(run) == FILES


@pytest.mark.parametrize("most_bytes", [0, 700, 3_000, 9_000, 30_000])
def test_a_disk_that_is_full_leaves_nothing(most_bytes: int, bars: Bars, tmp_path: Path) -> None:
    assert in_child(without_space, most_bytes, trained, str(tmp_path), bars) == 7
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> None:
        with new_run(tmp_path, "x", {}) as folder:
            (folder / "metrics.json").write_text("{}")
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        broken()
    assert list(tmp_path.iterdir()) == []


def test_ids_never_clash_and_sort_by_time(tmp_path: Path) -> None:
    for _ in range(50):
        with new_run(tmp_path, "x", {}):
            pass
    runs, n_partial = list_runs(tmp_path)
    assert (len(runs), n_partial) == (50, 0)
    started = [run.path.stat().st_mtime_ns for run in runs]
    assert started == sorted(started)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["checkpoints/calibrator.json", "checkpoints/model.skops"])
def test_checkpoints_that_were_changed_are_refused(name: str, bars: Bars, tmp_path: Path) -> None:
    run = run_training(CONFIG, bars=bars, root=tmp_path)
    with (run.path / name).open("ab") as file:
        file.write(b" ")
    with pytest.raises(DocumentError, match="is missing or was changed after the run"):
        load_run(run.path).predict_proba(np.zeros((1, 13)))


def test_a_record_without_hashes_is_refused(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / run.run_id
    shutil.copytree(run.path, folder)
    for record in ("{}", '{"files": []}'):
        (folder / "run.json").write_text(record)
        with pytest.raises(DocumentError, match="notes no hash of the run's files"):
            load_run(folder).check()


@pytest.mark.slow
def test_any_classifier_of_scikit_learn_can_be_trained(bars: Bars, tmp_path: Path) -> None:
    config = TrainConfig(model="sklearn", horizon=8, params={"max_depth": 3})
    forest = RandomForestClassifier(10, random_state=5)
    run = run_training(config, bars=bars, model=forest, root=tmp_path)
    table = pq.read_table(run.path / "predictions.parquet").to_pandas()
    data = run_dataset(config, bars)
    rows = data.take(run_parts(config, data).test)
    assert run.predict_proba(rows.X).tobytes() == table[["p_-1", "p_0", "p_1"]].to_numpy().tobytes()
    assert not hasattr(forest, "estimators_")


@pytest.mark.slow
def test_out_of_fold_rows_are_the_validation_part(run: Run, bars: Bars) -> None:
    table = pq.read_table(run.path / "oof.parquet").to_pandas()
    data = run_dataset(CONFIG, bars)
    rows = data.take(run_parts(CONFIG, data).validation)
    assert table.y.tolist() == rows.y.tolist()
    raw = run.predict_proba(rows.X, calibrated=False)
    assert table[["raw_-1", "raw_0", "raw_1"]].to_numpy().tobytes() == raw.tobytes()
    assert (table[["p_-1", "p_0", "p_1"]].to_numpy() != run.predict_proba(rows.X)).any()


@pytest.mark.slow
def test_runs_are_found_by_part_of_their_id(run: Run) -> None:
    root = run.path.parent
    for name in (run.run_id, run.run_id[-4:], "last", str(run.path)):
        assert find_run(name, root).run_id == run.run_id
    with pytest.raises(CalibrantError, match=r"no run in .* is called 'catboost'"):
        find_run("catboost", root)


def test_the_commit_is_that_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_commit() == ""
    git = shutil.which("git")
    if git is None:
        return
    Path("model.txt").write_text("one")
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "model.txt"), (*name, "commit", "-q", "-m", "one")):
        subprocess.run([git, *words], check=True)
    os.utime("model.txt", (1.0, 1.0))  # git would write its index anew, under a lock that outlives a killed run
    index = Path(".git/index").read_bytes()
    assert re.fullmatch(r"[0-9a-f]{40}", git_commit())
    assert Path(".git/index").read_bytes() == index
    Path("model.txt").write_text("two")
    assert git_commit().endswith("-dirty")


def test_versions_of_the_library_and_the_hash_of_the_bars_are_noted(make_bars: Callable[..., Bars]) -> None:
    bars = make_bars(200)
    data = run_dataset(TrainConfig(), bars)
    found = provenance(BarSource(bars).provenance(), data, "lightgbm")
    assert found["lightgbm"] == version("lightgbm")
    assert found["data_sha256"] == bars.sha256() != make_bars(200, seed=1).sha256()
    assert found["classes"] == [-1, 0, 1]
    assert (found["n_bars"], found["symbols"], found["features"]) == (200, ["A"], list(data.names))
