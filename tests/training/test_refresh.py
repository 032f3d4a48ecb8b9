"""Refreshed calibrators: fitted to rows that came since, judged on later ones, and kept beside the old run."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.optimize import minimize_scalar

import calibrant as cb
from calibrant.chain import Chain
from calibrant.cli.refresh import closing_text
from calibrant.errors import CalibrantError, ColumnOrderError, DocumentError, InvalidLabelError
from calibrant.training import TrainConfig, as_bars, load_run, refresh_run, run_stack, run_training
from calibrant.training.bars import Bars
from calibrant.training.refresh_gate import RefreshGate, newest_rows
from calibrant.training.run_folder import Run
from calibrant.training.sources import TableSource, open_source
from calibrant.training.training_run import run_dataset, run_predictions

pytestmark = pytest.mark.usefixtures("undrawn")

CONFIG = TrainConfig(model="logistic", horizon=1, label="binary")
STEADY, DRIFTED = 1200, 600


@pytest.fixture(scope="module")
def table(make_momentum: Callable[..., pa.Table]) -> pa.Table:
    return make_momentum(STEADY, DRIFTED)


@pytest.fixture(scope="module")
def run(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_training(CONFIG, bars=as_bars(table[:STEADY]), root=tmp_path_factory.mktemp("runs"))


def bytes_of(run: Run) -> dict[str, bytes]:
    files = (file for file in run.path.rglob("*") if file.is_file())
    return {file.relative_to(run.path).as_posix(): file.read_bytes() for file in files}


def labelled_after(run: Run, table: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return time, features and labels of the rows after the last label of the run's test part."""
    last = pq.read_table(run.path / "predictions.parquet")["label_end"].to_numpy().max()
    data = run_dataset(run.config, as_bars(table))
    new = data.time > last
    return data.time[new], data.X[new], data.y[new]


def temperature_by_scipy(prob: np.ndarray, y: np.ndarray) -> float:
    z = np.log(prob[:, 1] / prob[:, 0])

    def loss(slope: float) -> float:
        return float(np.logaddexp(0.0, np.where(y == 1, -slope * z, slope * z)).mean())

    return 1.0 / float(minimize_scalar(loss, bounds=(1e-4, 10.0), method="bounded", options={"xatol": 1e-10}).x)


def test_a_model_that_has_become_too_sure_is_refreshed(run: Run, table: pa.Table) -> None:
    before = bytes_of(run)
    result = refresh_run(run, table)
    assert (result.status, result.parent) == ("refreshed", run.run_id)
    assert bytes_of(run) == before, "the old run stays as it is"
    new = load_run(run.path.parent / str(result.run_id))
    new.check()
    assert (new.path / "checkpoints/model.skops").read_bytes() == before["checkpoints/model.skops"]
    assert new.found["refreshed_from"] == new.record["refreshed_from"] == run.run_id
    assert re.fullmatch(r"logistic_h1_refreshed_\d{8}_\d{6}_\d{6}_[0-9a-f]{4}", new.run_id)
    for suffix in ("json", "pkl"):
        assert cb.load(new.path / f"checkpoints/calibrator.{suffix}").predict_proba([0.7]) < 0.65


def test_the_deployed_temperature_is_that_of_all_new_rows_and_the_judged_one_that_of_the_earlier(
    run: Run, table: pa.Table
) -> None:
    result = refresh_run(run, table)
    new = load_run(run.path.parent / str(result.run_id))
    _, X, y = labelled_after(run, table)
    assert (result.n_rows, result.n_later) == (y.size, round(y.size / 2))
    assert result.n_fit == y.size - result.n_later - 1, "a label reaches into the later part"
    raw = run.model.predict_proba(X)
    expected = temperature_by_scipy(raw, y)
    assert 1.0 / new.calibrator.inverse_temperature_ == pytest.approx(expected, rel=1e-5)
    judged = temperature_by_scipy(raw[: result.n_fit], y[: result.n_fit])
    assert result.decision == f"calibrator used (temperature {judged:.4g})"
    assert judged != pytest.approx(expected, rel=1e-3)
    assert f"{result.n_fit:,} rows" in new.metrics["calibration"]["fitted_on"]
    assert f"{result.n_rows:,} rows" in new.metrics["calibration"]["deployed"]


def test_differences_are_those_of_the_written_probabilities(run: Run, table: pa.Table) -> None:
    result = refresh_run(run, table)
    rows = pq.read_table(run.path.parent / str(result.run_id) / "predictions.parquet").to_pandas()
    loss = {
        name: -np.log(np.where(rows.y == 1, rows[f"{name}_1"], rows[f"{name}_0"])) for name in ("raw", "in_use", "p")
    }
    for name, other in (("in_use", "in_use"), ("none", "raw")):
        paired = loss["p"] - loss[other]
        gap = result.differences[name]
        assert gap["value"] == pytest.approx(paired.mean(), abs=1e-12)
        # labels of a single bar touch the next one: blocks differ little from independent rows
        assert gap["standard_error"] == pytest.approx(paired.std(ddof=1) / len(rows) ** 0.5, rel=0.4)
        assert gap["low"] < gap["value"] < gap["high"]


def test_later_labels_have_no_part_in_the_candidate(run: Run, table: pa.Table) -> None:
    bars = as_bars(table)
    newest = newest_rows(run, run_dataset(run.config, bars), "bars")
    gates = []
    for y in (newest.y, np.where(np.arange(newest.n_rows) < newest.n_rows / 2, newest.y, 1 - newest.y)):
        gate = RefreshGate.of(run, replace(newest, y=y), 0.5)
        gate.decide()
        gates.append(gate)
    one, other = gates
    assert one.decision() == other.decision()
    assert one.beside["none"].calibrated.tobytes() == other.beside["none"].calibrated.tobytes()
    assert one.differences != other.differences


def test_no_label_of_the_earlier_part_reaches_into_the_later_one(
    make_bars: Callable[..., Bars], tmp_path: Path
) -> None:
    bars = make_bars(900)
    run = run_training(TrainConfig(model="logistic", horizon=8), bars=first(bars, 600), root=tmp_path)
    newest = newest_rows(run, run_dataset(run.config, bars), "bars")
    gate = RefreshGate.of(run, newest, 0.4)
    known = pq.read_table(run.path / "predictions.parquet")["label_end"].to_numpy().max()
    assert known < newest.time.min()
    assert gate.fit.label_end.max() < gate.judge.time.min()
    assert 0 < newest.n_rows - gate.fit.n_rows - gate.judge.n_rows <= 8


def test_a_label_that_outlasts_the_later_part_is_not_used(tmp_path: Path) -> None:
    """The next refresh begins after the last label of those that judged: none of the deployed map may end later."""
    rng = np.random.default_rng(2)
    n, steady, late = 1_400, 800, 1_099  # of the 600 new rows the last 300 judge
    x, at = rng.normal(size=n), np.arange(n)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-np.where(at < steady, 1.5, 0.3) * x))).astype(int)
    known = np.where(at == late, n + 500, at)
    table = pa.table({"x": x, "y": y, "at": at, "known": known})
    config = TrainConfig(model="logistic", table="rows.parquet", label="y", time="at", label_end="known")
    run = run_training(config, table=table[:steady], root=tmp_path)
    flipped = table.set_column(1, "y", pa.array(np.where(at == late, 1 - y, y)))
    made = [load_run(tmp_path / str(refresh_run(run, data).run_id)) for data in (table, flipped)]
    one, other = (new.predict_proba(pa.table({"x": x})) for new in made)
    assert one.tobytes() == other.tobytes()
    gate = RefreshGate.of(run, newest_rows(run, run_dataset(config, table), "rows"), 0.5)
    assert gate.newest.label_end.max() <= gate.judge.label_end.max()
    assert (late in gate.newest.time.tolist(), late - 2 in gate.newest.time.tolist()) == (False, True)


def first(bars: Bars, n: int) -> Bars:
    columns = {name: getattr(bars, name)[:n] for name in ("time", "open", "high", "low", "close", "volume")}
    return as_bars(pa.table(columns))


def test_what_later_rows_show_a_loss_of_is_refused_and_nothing_is_written(
    run: Run, make_momentum: Callable[..., pa.Table]
) -> None:
    """Returns turn against the model while the candidate is fitted, and follow it again afterwards."""
    turned = make_momentum(STEADY, 200, after=-0.5)
    again = make_momentum(0, 200, seed=5, after=0.5)
    factor = turned["close"].to_numpy()[-1] / again["open"].to_numpy()[0]
    prices = {
        name: np.concatenate((turned[name], factor * again[name].to_numpy()))
        for name in ("open", "high", "low", "close")
    }
    days = np.datetime64("2000-01-01") + np.arange(STEADY + 400)
    there = set(run.path.parent.iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = refresh_run(run, pa.table({"time": days, **prices}))
    assert (result.status, result.run_id, result.is_refused) == ("refused", None, True)
    assert result.reason.startswith("later rows show a loss: the log loss of the refit is more than a standard")
    gap = result.differences["in_use"]
    assert gap["value"] > gap["standard_error"] > 0.0
    assert set(run.path.parent.iterdir()) == there


def test_the_last_of_the_new_rows_can_be_asked_for(run: Run, table: pa.Table) -> None:
    _, X, y = labelled_after(run, table)
    result = refresh_run(run, table, rows=400, later=0.25)
    new = load_run(run.path.parent / str(result.run_id))
    assert (result.n_rows, result.n_fit, result.n_later) == (400, 299, 100)
    raw = run.model.predict_proba(X)
    assert 1.0 / new.calibrator.inverse_temperature_ == pytest.approx(
        temperature_by_scipy(raw[-400:], y[-400:]), rel=1e-5
    )
    with pytest.raises(CalibrantError, match="rows"):
        refresh_run(run, table, rows=0)


def test_a_dry_run_judges_and_writes_nothing(run: Run, table: pa.Table) -> None:
    there = set(run.path.parent.iterdir())
    result = refresh_run(run, table, dry_run=True)
    assert (result.status, result.run_id) == ("passed", None)
    assert set(run.path.parent.iterdir()) == there
    assert result.differences == refresh_run(run, table).differences


@pytest.mark.parametrize(
    ("n_more", "said"),
    [
        (0, "no row with a finished label came after 2003-04-14"),
        (
            40,
            (
                r"39 rows with a finished label, taken from after .*: 1\d rows of the classes 0, 1 to fit to, "
                "and at least 30"
            ),
        ),
    ],
)
def test_too_few_new_rows_are_nothing_to_do(run: Run, table: pa.Table, n_more: int, said: str) -> None:
    result = refresh_run(run, table[: STEADY + n_more])
    assert (result.status, result.run_id, result.differences) == ("nothing_to_do", None, {})
    assert re.match(said, result.reason)


def test_rows_worth_few_independent_labels_are_nothing_to_do(make_bars: Callable[..., Bars], tmp_path: Path) -> None:
    bars = make_bars(900)
    config = TrainConfig(model="logistic", horizon=20)
    run = run_training(config, bars=first(bars, 750), root=tmp_path)
    result = refresh_run(run, bars)
    assert result.status == "nothing_to_do"
    assert re.search(r"\d+ rows to judge by are worth \d\.\d independent labels, and at least 10", result.reason)


def test_a_refreshed_run_is_refreshed_again_on_rows_that_it_has_not_seen(
    run: Run, table: pa.Table, make_momentum: Callable[..., pa.Table]
) -> None:
    longer = make_momentum(STEADY, 2 * DRIFTED)
    assert longer[: STEADY + DRIFTED].equals(table)
    once = load_run(run.path.parent / str(refresh_run(run, table).run_id))
    gate = refresh_run(once, longer, dry_run=True)
    assert gate.parent == once.run_id
    assert gate.n_rows == DRIFTED - 1, "a row of which the last label has no span"
    assert newest_rows(once, run_dataset(CONFIG, as_bars(longer)), "x").time.min() > np.datetime64("2004-12-04")


def test_the_average_of_several_models_is_judged_and_each_is_refreshed(table: pa.Table, tmp_path: Path) -> None:
    config = replace(CONFIG, calibrator="sigmoid", class_weight="balanced")
    run = run_stack(config, ["logistic", "xgboost"], n_folds=3, bars=as_bars(table[:STEADY]), root=tmp_path)
    result = refresh_run(run, table)
    assert result.status == "refreshed"
    new = load_run(tmp_path / str(result.run_id))
    new.check()
    assert new.found["models"] == ["logistic", "xgboost"]
    assert not (new.path / "checkpoints/meta_learner.json").exists()
    rows = pq.read_table(new.path / "predictions.parquet").to_pandas()
    _, X, _ = labelled_after(run, table)
    later = X[-len(rows) :]
    in_use = np.mean([run.predict_proba(later, model=name) for name in run.models], axis=0)
    assert rows[["in_use_0", "in_use_1"]].to_numpy() == pytest.approx(in_use, abs=1e-15)
    for name, calibrator in new.calibrators.items():
        assert isinstance(calibrator, Chain)
        assert calibrator.steps[0].describe() == run.calibrators[name].steps[0].describe(), "class weights are undone"
        assert calibrator.steps[1].describe() != run.calibrators[name].steps[1].describe()
    assert result.decision.count("calibrator used") == 2


def test_a_refit_that_changes_nothing_is_nothing_to_do(make_momentum: Callable[..., pa.Table], tmp_path: Path) -> None:
    """A temperature that earns its place neither before nor now is left out on both occasions."""
    table = make_momentum(STEADY, DRIFTED, after=0.5)
    run = run_training(replace(CONFIG, calibrate="if_better"), bars=as_bars(table[:STEADY]), root=tmp_path)
    assert not run.metrics["calibration"]["used"]
    result = refresh_run(run, table)
    assert "calibrator left out" in result.decision
    assert (result.status, result.reason) == ("nothing_to_do", "the refit gives what the calibrator in use gives.")
    assert list(tmp_path.iterdir()) == [run.path]


def test_data_of_another_kind_are_refused(run: Run, table: pa.Table, make_bars: Callable[..., Bars]) -> None:
    lacking = replace(run_dataset(CONFIG, as_bars(table)), names=("x",) * 12)
    with pytest.raises(ColumnOrderError, match=r"bars lacks 'return_1', .*: the features of logistic_h1_"):
        newest_rows(run, lacking, "bars")
    other = run_dataset(replace(CONFIG, label="sign"), as_bars(table))
    with pytest.raises(InvalidLabelError, match=r"bars holds the labels -1, and logistic_h1_.* was trained on 0, 1"):
        newest_rows(run, other, "bars")
    with pytest.raises(CalibrantError, match="later"):
        refresh_run(run, table, later=1.5)
    for later in (0.0, 1.0, "a"):
        with pytest.raises(CalibrantError, match="later"):
            refresh_run(run, table, later=later)


def test_a_run_that_was_changed_is_not_refreshed(table: pa.Table, tmp_path: Path) -> None:
    run = run_training(CONFIG, bars=as_bars(table[:STEADY]), root=tmp_path)
    with (run.path / "checkpoints/calibrator.json").open("ab") as file:
        file.write(b" ")
    with pytest.raises(DocumentError, match="is missing or was changed after the run"):
        refresh_run(load_run(run.path), table)


def test_a_run_of_a_table_is_refreshed_by_the_newest_rows_of_one(tmp_path: Path) -> None:
    """Columns may stand in another order, beside others, and times are whole numbers."""
    rng = np.random.default_rng(0)
    n, steady = 2_000, 1_400
    x = rng.normal(size=(n, 2))
    believed = np.where(np.arange(n) < steady, 1.5, 0.4)
    label = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-believed * x[:, 0])), "up", "down")
    columns = {"x": x[:, 0], "z": x[:, 1], "label": label, "at": np.arange(n), "known": np.arange(n) + 2}
    table = pa.table(columns)
    pq.write_table(table[:steady], tmp_path / "rows.parquet")
    names = {"label": "label", "time": "at", "label_end": "known"}
    config = TrainConfig(model="logistic", table=str(tmp_path / "rows.parquet"), **names)
    run = run_training(config, root=tmp_path / "runs")
    turned = table.select(["known", "z", "label", "at", "x"])[1_000:].append_column("more", pa.array(["a"] * 1_000))
    result = refresh_run(run, turned)
    assert result.status == "refreshed"
    assert 1_400 - 2 <= n - result.n_rows <= 1_404, "rows that the run has seen are left out"
    new = load_run(tmp_path / "runs" / str(result.run_id))
    one = pa.table({"x": [3.0], "z": [0.0]})
    assert run.predict_proba(one)[0, 1] > 0.95 > 0.85 > new.predict_proba(one)[0, 1] > 0.65
    with pytest.raises(CalibrantError, match="x"):
        refresh_run(run, turned.drop_columns(["x"]))
    odd = turned.set_column(2, "label", pa.array(["flat", *turned["label"].to_pylist()[1:]]))
    with pytest.raises(InvalidLabelError, match=r"holds the labels 'flat', and .* was trained on 'down', 'up'"):
        refresh_run(run, odd)


def test_rows_of_a_table_without_a_label_yet_are_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 1_600
    x = rng.normal(size=n)
    frame = pd.DataFrame({"x": x, "at": np.arange(n), "known": np.arange(n) + 2.0})
    frame["y"] = (rng.random(n) < 1.0 / (1.0 + np.exp(-np.where(np.arange(n) < 1_000, 1.5, 0.4) * x))).astype(float)
    frame["gain"] = 0.01
    names = {"label": "y", "time": "at", "label_end": "known", "price_return": "gain"}
    run = run_training(TrainConfig(model="logistic", table="own", **names), table=frame[:1_000], root=tmp_path)
    newest = frame.drop(columns="gain")
    newest.loc[n - 7 :, "y"] = np.nan
    newest.loc[n - 4 :, "known"] = np.nan
    result, without = refresh_run(run, newest), refresh_run(run, frame[: n - 7])
    assert (result.status, result.n_left_out, without.n_left_out) == ("refreshed", 7, 0)
    assert result.differences == without.differences
    opened = open_source(run.config, newest)
    assert refresh_run(run, opened, dry_run=True).n_left_out == 7
    assert isinstance(opened, TableSource)
    assert opened.config is run.config, "what was given stays as it is"
    assert "(7 rows without a label left out)" in closing_text(result)
    with pytest.raises(CalibrantError, match="y"):
        run_training(run.config, table=newest.assign(gain=0.0), root=tmp_path)
    newest.loc[[3, 1_200], "y"] = np.nan
    newest.loc[1_201, "x"] = np.inf
    with pytest.raises(CalibrantError, match="column 'x' of the DataFrame row 1,201: inf is not finite"):
        refresh_run(run, newest)


def test_raw_probabilities_of_a_refreshed_run_are_those_of_the_model(table: pa.Table, tmp_path: Path) -> None:
    """As in a run that was trained, class weights are in them; "none" is paired without."""
    config = replace(CONFIG, class_weight="balanced", calibrator="sigmoid")
    run = run_training(config, bars=as_bars(table[:STEADY]), root=tmp_path)
    result = refresh_run(run, table)
    new = load_run(tmp_path / str(result.run_id))
    rows = pq.read_table(new.path / "predictions.parquet").to_pandas()
    _, X, _ = labelled_after(run, table)
    raw, none = new.model.predict_proba(X[-len(rows) :]), new.calibrator.steps[0].predict_proba(rows.raw_1.to_numpy())
    assert rows[["raw_0", "raw_1"]].to_numpy().tobytes() == raw.tobytes()
    assert raw[:, 1] != pytest.approx(none, abs=1e-4)
    measured = new.metrics["test"]["forecasts"]["raw"]["log_loss"]["value"]
    assert measured == pytest.approx(-np.log(np.where(rows.y == 1, rows.raw_1, rows.raw_0)).mean(), abs=1e-12)
    of_candidate = -np.log(np.where(rows.y == 1, rows.p_1, rows.p_0))
    of_none = -np.log(np.where(rows.y == 1, none, 1.0 - none))
    assert result.differences["none"]["value"] == pytest.approx((of_candidate - of_none).mean(), abs=1e-12)


def test_predictions_of_models_trained_elsewhere_are_refreshed(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n, steady = 1_600, 1_000
    logit = rng.normal(size=n)
    believed = np.where(np.arange(n) < steady, 1.0, 0.2)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-believed * logit))).astype(int)
    table = pa.table({"p": 1.0 / (1.0 + np.exp(-logit)), "y": y, "at": np.arange(n), "known": np.arange(n) + 1})
    names = {"label": "y", "time": "at", "label_end": "known"}
    config = TrainConfig(table="rows.parquet", score={"p": ("p",)}, calibrator="sigmoid", **names)
    run = run_predictions(config, table=table[:steady], root=tmp_path)
    result = refresh_run(run, table)
    assert result.status == "refreshed"
    new = load_run(tmp_path / str(result.run_id))
    slope = np.diff(np.log(new.calibrator.predict_proba([0.5, 0.8]) / (1.0 - new.calibrator.predict_proba([0.5, 0.8]))))
    assert slope[0] / np.log(4.0) == pytest.approx(0.2, abs=0.15)
    assert (
        new.predict(table[-5:]).prob[:, 1].tobytes()
        == new.calibrator.predict_proba(table["p"].to_numpy()[-5:]).tobytes()
    )


@pytest.mark.slow
def test_refits_after_a_drift_pass_and_those_without_one_cost_little(run: Run, table: pa.Table) -> None:
    """Labels are drawn: by the calibrator in use, which is then right, and by one that is much less sure."""
    newest = newest_rows(run, run_dataset(run.config, as_bars(table)), "bars")
    in_use = run.predict_proba(newest.X)[:, 1]
    logit = np.log(in_use / (1.0 - in_use))
    n_drawn, n_passed, cost = 30, {}, {}
    for slope in (1.0, 0.2):
        truth = 1.0 / (1.0 + np.exp(-slope * logit))
        n_passed[slope], lost = 0, []
        for seed in range(n_drawn):
            y = (np.random.default_rng(seed).random(newest.n_rows) < truth).astype(np.int64)
            gate = RefreshGate.of(run, replace(newest, y=y), 0.5)
            passed = gate.decide()[0] == "passed"
            n_passed[slope] += passed
            p = (
                gate.final(run.bundle.members[0]).predict_proba(run.model.predict_proba(newest.X))[:, 1]
                if passed
                else in_use
            )
            lost.append(float(np.mean(truth * np.log(in_use / p) + (1.0 - truth) * np.log((1.0 - in_use) / (1.0 - p)))))
        cost[slope] = float(np.mean(lost))
    assert n_passed[0.2] >= 0.9 * n_drawn
    assert cost[0.2] < -0.01, "what is expected of new rows falls"
    assert cost[1.0] < 0.002
    assert n_passed[1.0] >= 0.5 * n_drawn
