"""Runs: the folder, its figures, and that nothing of the test part reaches what is fitted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from run_bytes import repeatable

import calibrant as cb
from calibrant.chain import Chain
from calibrant.errors import CalibrantError
from calibrant.metrics import log_loss
from calibrant.training.bars import Bars
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset
from calibrant.training.outcome import measure, money_of, outcome_of_several
from calibrant.training.run_folder import Run, list_runs, write_json
from calibrant.training.stacking import fit_stack
from calibrant.training.training_run import run_dataset, run_stack

MakeBars = Callable[..., Bars]
CONFIG = TrainConfig(model="logistic", horizon=10)
MODELS = ["logistic", "lightgbm"]


@pytest.fixture(scope="module")
def bars(make_bars: MakeBars) -> Bars:
    return make_bars(900)


@pytest.fixture(scope="module")
def run(bars: Bars, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_stack(CONFIG, MODELS, n_folds=3, bars=bars, root=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def parts(bars: Bars) -> tuple[Dataset, Dataset]:
    return run_dataset(CONFIG, bars).last(0.2)


def metrics_of(config: TrainConfig, before: Dataset, test: Dataset) -> dict[str, Any]:
    stack = fit_stack(config, MODELS, before, test, n_folds=3)
    outcome = outcome_of_several(config, stack, variant="nested", n_folds=3)
    return measure(config, outcome, money_of(config, outcome))


@pytest.mark.slow
def test_folder_holds_all_that_was_asked_for(run: Run) -> None:
    files = {path.relative_to(run.path).as_posix() for path in run.path.rglob("*") if path.is_file()}
    assert files >= {
        "config.toml",
        "metrics.json",
        "oof.parquet",
        "predictions.parquet",
        "equity.parquet",
        "plots/money.png",
        "report.html",
        "log.jsonl",
        "run.json",
        "plots/reliability.png",
        "checkpoints/meta_learner.json",
        "checkpoints/logistic/calibrator.pkl",
        "checkpoints/lightgbm/model.txt",
    }
    run.check()
    assert run.config == CONFIG
    assert run.found["models"] == MODELS
    log = (run.path / "log.jsonl").read_text(encoding="utf-8")
    assert "Calibration complete: Brier 0." in log
    assert "lightgbm, folds 2 and 3 of 3: training on" in log


@pytest.mark.slow
def test_out_of_fold_table_gives_the_figures_of_metrics_json(run: Run, parts: tuple[Dataset, Dataset]) -> None:
    table = pq.read_table(run.path / "oof.parquet").to_pydict()
    before, _ = parts
    assert table["y"] == before.y.tolist()
    for name, column in (("raw", "raw"), ("calibrated", "p")):
        prob = np.column_stack([table[f"{column}_lightgbm_{label}"] for label in (-1, 0, 1)])
        stated = run.metrics["members"]["lightgbm"]["out_of_fold"]["forecasts"][name]["log_loss"]["value"]
        assert log_loss(before.y, prob, classes=[-1, 0, 1]) == pytest.approx(stated)
    average = np.mean([table["p_lightgbm_0"], table["p_logistic_0"]], axis=0)
    np.testing.assert_allclose(table["p_0"], average, atol=1e-15)


@pytest.mark.slow
def test_test_predictions_come_from_the_saved_models_and_calibrators(run: Run, parts: tuple[Dataset, Dataset]) -> None:
    table = pq.read_table(run.path / "predictions.parquet").to_pydict()
    _, test = parts
    calibrator = cb.load(run.path / "checkpoints" / "lightgbm" / "calibrator.json")
    raw = np.column_stack([table[f"raw_lightgbm_{label}"] for label in (-1, 0, 1)])
    stored = np.column_stack([table[f"p_lightgbm_{label}"] for label in (-1, 0, 1)])
    assert calibrator.predict_proba(raw).tobytes() == stored.tobytes()
    assert table["y"] == test.y.tolist()


def test_no_label_before_the_test_part_ends_in_it(parts: tuple[Dataset, Dataset]) -> None:
    before, test = parts
    assert before.label_end.max() < test.time.min()


@pytest.mark.slow
def test_permuted_test_labels_leave_all_that_is_fitted_byte_identical(parts: tuple[Dataset, Dataset]) -> None:
    before, test = parts
    permuted = replace(test, y=np.random.default_rng(0).permutation(test.y))
    one, two = (fit_stack(CONFIG, MODELS, before, rows, n_folds=3) for rows in (test, permuted))
    for name, prob in one.predictions.items():
        assert prob.tobytes() == two.predictions[name].tobytes()
    first, second = (
        outcome_of_several(CONFIG, stack, variant="nested", n_folds=3).sections["out_of_fold"] for stack in (one, two)
    )
    assert json.dumps(first) == json.dumps(second)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_metrics_and_another_seed_others(run: Run, parts: tuple[Dataset, Dataset]) -> None:
    texts = []
    for seed in (0, 1):
        metrics = metrics_of(replace(CONFIG, seed=seed), *parts)
        write_json(run.path.parent / "again.json", metrics)
        texts.append(repeatable(run.path.parent / "again.json"))
    assert texts[0] == repeatable(run.path / "metrics.json")
    assert json.loads(texts[0])["calibration"] != json.loads(texts[1])["calibration"]


@pytest.mark.slow
def test_shifted_labels_give_no_better_test_loss_than_the_entropy_of_the_test_labels(make_bars: MakeBars) -> None:
    gains: dict[str, list[float]] = {}
    for seed in range(6):
        data = run_dataset(CONFIG, make_bars(1000, seed=seed))
        data = replace(data, y=np.roll(data.y, data.n_rows // 2))
        before, test = data.last(0.2)
        rates = test.class_rates()
        entropy = -float(rates @ np.log(rates))
        for method in fit_stack(CONFIG, ["logistic"], before, test, n_folds=3).compare().methods:
            gains.setdefault(method.name, []).append(entropy - method.log_loss)
    for name, gain in gains.items():
        assert np.mean(gain) < 0.0, name
        assert max(gain) < 0.03, name


@pytest.mark.slow
def test_metrics_say_what_stacking_and_trading_gave(run: Run) -> None:
    metrics = run.metrics
    assert set(metrics["calibration"]) >= {"brier_before", "brier_after", "ece_before", "ece_after"}
    assert [m["name"] for m in metrics["stacking"]["methods"]][-2:] == ["meta-learner, raw", "meta-learner, calibrated"]
    assert set(metrics["stacking"]["differences"]) == {*MODELS, "average", "meta-learner"}
    assert [one["what"] for one in metrics["stacking"]["specified"]] == [
        "log loss of the models' average",
        "log loss of the meta-learner",
    ]
    for name in ("raw", "calibrated"):
        assert set(metrics["money"][name]) == {"sizing_error", "chosen", "reason", "validation", "test", "returns"}
    assert metrics["money"]["calibrated"]["reason"].startswith(("trade above", "do not trade"))
    equity = pq.read_table(run.path / "equity.parquet")
    finals = {name.replace(" ", "_"): path["final"]["value"] for name, path in metrics["money"]["paths"].items()}
    assert {name: equity[name][-1].as_py() for name in finals} == finals


@pytest.mark.slow
def test_nothing_is_left_of_a_run_that_fails(bars: Bars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("calibrant.training.training_run.write_page", fail)
    with pytest.raises(OSError, match="no space left"):
        run_stack(CONFIG, ["logistic"], n_folds=3, bars=bars, root=tmp_path)
    assert list_runs(tmp_path) == ([], 0)


def test_a_model_twice_and_no_model_are_refused(parts: tuple[Dataset, Dataset]) -> None:
    for models, said in (
        ([], "models names none"),
        (["logistic", "logistic"], "models names 'logistic' twice"),
        (["a:Mine", "b:Mine", "b:Mine"], "models names 'b:Mine' twice"),
        (["a:Mine", "xgboost", "b:Mine"], "models 'a:Mine', 'b:Mine' are of classes of one name, 'Mine'"),
    ):
        with pytest.raises(CalibrantError, match=said):
            fit_stack(CONFIG, models, *parts)


def test_class_weights_are_undone_before_calibration(parts: tuple[Dataset, Dataset]) -> None:
    before, test = (
        replace(data, y=np.where((data.y == 1) & (np.arange(data.n_rows) % 6 > 0), 0, data.y)) for data in parts
    )
    share = before.class_rates()[2]
    assert share < 0.1
    weighted = fit_stack(replace(CONFIG, class_weight="balanced"), ["logistic"], before, test, n_folds=3)
    member = weighted.members["logistic"]
    assert isinstance(member.calibrator, Chain)
    plain = fit_stack(CONFIG, ["logistic"], before, test, n_folds=3).members["logistic"]
    assert isinstance(plain.calibrator, cb.TemperatureCalibrator)
    for one, other in ((member.test, plain.test), (member.earlier, plain.earlier)):
        assert one.raw[:, 2].mean() > 2.5 * share
        assert one.calibrated[:, 2].mean() == pytest.approx(other.calibrated[:, 2].mean(), abs=0.02)
        assert one.calibrated[:, 2].mean() < 0.5 * one.raw[:, 2].mean()
    losses = [log_loss(before.y, one.earlier.calibrated, classes=before.classes) for one in (member, plain)]
    assert losses[0] == pytest.approx(losses[1], abs=0.03)


@pytest.mark.slow
def test_a_stack_with_class_weights_reads_back(bars: Bars, tmp_path: Path) -> None:
    config = replace(CONFIG, class_weight="balanced")
    found = run_stack(config, MODELS, n_folds=3, bars=bars, root=tmp_path)
    check_reads_back(found, run_dataset(config, bars).last(0.2)[1])
    assert all(isinstance(calibrator, Chain) for calibrator in found.calibrators.values())


@pytest.mark.slow
def test_models_and_predictions_read_back(run: Run, parts: tuple[Dataset, Dataset]) -> None:
    check_reads_back(run, parts[1])
    with pytest.raises(CalibrantError, match=r"holds 2 models: logistic, lightgbm\. Take one of its models, as in"):
        _ = run.model
    with pytest.raises(CalibrantError, match=r"run\.calibrators\['logistic'\]"):
        _ = run.calibrator
    with pytest.raises(CalibrantError, match="Did you mean 'lightgbm'"):
        run.predict_proba(parts[1].X, model="lightgb")


def check_reads_back(run: Run, test: Dataset) -> None:
    table = pq.read_table(run.path / "predictions.parquet").to_pydict()
    assert list(run.models) == list(run.calibrators) == MODELS
    columns = {None: ("raw", "p"), **{name: (f"raw_{name}", f"p_{name}") for name in MODELS}}
    for model, names in columns.items():
        for name, calibrated in zip(names, (False, True), strict=True):
            stored = np.column_stack([table[f"{name}_{label}"] for label in (-1, 0, 1)])
            assert run.predict_proba(test.X, calibrated=calibrated, model=model).tobytes() == stored.tobytes()


def test_settings_of_a_library_are_for_one_model(parts: tuple[Dataset, Dataset]) -> None:
    with pytest.raises(CalibrantError, match="are those of one library, and there are 2 models"):
        fit_stack(replace(CONFIG, params={"C": 1.0}), MODELS, *parts)
