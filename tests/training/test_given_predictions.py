"""Predictions that exist: calibrated without their own labels, stacked, and written as any run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibrant as cb
from calibrant.cli import main
from calibrant.errors import CalibrantError
from calibrant.tables import open_rows
from calibrant.training.config import TrainConfig
from calibrant.training.given_predictions import find_scores, stack_given
from calibrant.training.run_folder import Run, list_runs, load_run
from calibrant.training.sources import open_source
from calibrant.training.training_run import run_predictions, run_stack, run_training

pytestmark = pytest.mark.usefixtures("undrawn")

LABELS = [f"digit {k}" for k in range(10)]
SCORE = {name: tuple(f"raw_{name}_{label}" for label in LABELS) for name in ("bayes", "logistic")}
CONFIG = TrainConfig(table="rows", label="y", time="t", label_end="known", score=SCORE)


def call(*words: str) -> Any:
    return CliRunner().invoke(main, ["oof", *words])


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Out-of-fold predictions of real digits by scikit-learn; three rows a day, each label known two days later.

    The digits are scanned in the order of their writers, so that neighbouring rows are alike, and folds are blocks.
    """
    X, y = load_digits(return_X_y=True)
    day = pd.Timestamp("2021-05-01") + pd.to_timedelta(np.arange(y.size) // 3, unit="D")
    columns: dict[str, Any] = {"y": [LABELS[k] for k in y], "t": day, "known": day + pd.Timedelta(days=2), "note": "x"}
    made = {"bayes": GaussianNB(var_smoothing=1e-3), "logistic": make_pipeline(StandardScaler(), LogisticRegression())}
    for name, model in made.items():
        prob = cross_val_predict(model, X, y, cv=5, method="predict_proba")
        columns |= {f"raw_{name}_{LABELS[k]}": prob[:, k] for k in range(10)}
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def run(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_predictions(CONFIG, table=table, root=tmp_path_factory.mktemp("runs"))


def columns_of(frame: pd.DataFrame, start: str) -> np.ndarray:
    return frame[[f"{start}_{label}" for label in LABELS]].to_numpy()


def test_a_run_of_predictions_is_a_run(run: Run, table: pd.DataFrame) -> None:
    run.check()
    assert run.config == CONFIG
    assert run.run_id.startswith("oof_predictions_")
    files = {file.relative_to(run.path).as_posix() for file in run.path.rglob("*") if file.is_file()}
    assert {"report.html", "metrics.json", "plots/classes.png", "checkpoints/bayes/calibrator.json"} <= files
    assert set(run.metrics["gates"]) >= {"log_loss_at_most_raw_plus_1_se", "ece_within_noise_band"}
    assert "left_out" in run.metrics["money"]
    assert run.record["overhead"]["share_of_model_fit"] is None
    assert run.found["n_rows"] == len(table)


def test_the_test_part_is_calibrated_by_a_fit_to_the_rows_before_it(run: Run, table: pd.DataFrame) -> None:
    before, test = (pq.read_table(run.path / f"{name}.parquet").to_pandas() for name in ("oof", "predictions"))
    assert before.label_end.max() < test.time.min()
    assert len(test) == round(0.2 * len(table))
    for name in SCORE:
        given = table[list(SCORE[name])].tail(len(test))
        assert (columns_of(test, f"raw_{name}") == given.to_numpy()).all()
        fitted = cb.TemperatureCalibrator().fit(columns_of(before, f"raw_{name}"), before.y)
        # the one that a run fits reads floats of another layout: the same to rounding
        np.testing.assert_allclose(
            fitted.predict_proba(columns_of(test, f"raw_{name}")), columns_of(test, f"p_{name}"), rtol=1e-9
        )
    average = np.mean([columns_of(test, f"p_{name}") for name in SCORE], axis=0)
    np.testing.assert_allclose(columns_of(test, "p"), average, rtol=1e-12)
    measured = run.metrics["test"]["forecasts"]["calibrated"]["log_loss"]["value"]
    assert measured == pytest.approx(log_loss(test.y, columns_of(test, "p"), labels=LABELS), rel=1e-9)
    of_bayes = run.metrics["members"]["bayes"]["test"]["forecasts"]
    assert of_bayes["raw"]["log_loss"]["value"] is None, "it is infinite"
    assert of_bayes["calibrated"]["log_loss"]["value"] < of_bayes["class_frequencies"]["log_loss"]["value"]


def test_new_predictions_are_calibrated_by_the_saved_run(run: Run) -> None:
    test = pq.read_table(run.path / "predictions.parquet").to_pandas()
    names = [name for columns in SCORE.values() for name in columns]
    assert load_run(run.path).predict_proba(test[names[::-1]]).tobytes() == columns_of(test, "p").tobytes()
    raw = load_run(run.path).predict_proba(test[names], calibrated=False, model="bayes")
    assert raw.tobytes() == columns_of(test, "raw_bayes").tobytes()


@pytest.mark.parametrize("calibrator", ["temperature", "isotonic", "specified"])
def test_flipped_labels_leave_their_own_rows_bit_identical(table: pd.DataFrame, calibrator: str) -> None:
    config = TrainConfig(**{**CONFIG.to_dict(), "calibrator": calibrator, "calibrate": "always"})
    flipped = table.y.to_numpy().copy()
    rows = np.arange(400, 430)
    flipped[rows] = [LABELS[(LABELS.index(label) + 1) % 10] for label in flipped[rows]]
    found = []
    for one in (table, table.assign(y=flipped)):
        before, test = open_source(config, one).dataset(config).last(0.2)
        found.append(stack_given(config, before, test).members["bayes"].earlier.calibrated)
    assert found[0][rows].tobytes() == found[1][rows].tobytes()
    assert found[0].tobytes() != found[1].tobytes()


def test_labels_of_the_test_part_change_nothing_but_its_figures(table: pd.DataFrame, run: Run, tmp_path: Path) -> None:
    y = table.y.to_numpy().copy()
    y[-300:] = np.random.default_rng(0).permutation(y[-300:])
    other = run_predictions(CONFIG, table=table.assign(y=y), root=tmp_path)
    for name in ("oof", "predictions"):
        one, two = (pq.read_table(path / f"{name}.parquet").drop(["y"]) for path in (run.path, other.path))
        assert one.equals(two)
    assert run.metrics["test"] != other.metrics["test"]
    assert run.metrics["out_of_fold"] == other.metrics["out_of_fold"]


def test_labels_shifted_in_a_circle_are_worth_nothing(table: pd.DataFrame, tmp_path: Path) -> None:
    shifted = run_predictions(CONFIG, table=table.assign(y=np.roll(table.y, len(table) // 2)), root=tmp_path)
    test = shifted.metrics["test"]["forecasts"]
    assert test["calibrated"]["log_loss"]["value"] > test["class_frequencies"]["log_loss"]["value"] - 0.02
    assert test["calibrated"]["log_loss"]["skill"] < 0.01


def test_columns_in_another_order_are_matched_by_their_names(table: pd.DataFrame, run: Run, tmp_path: Path) -> None:
    mixed = TrainConfig(**{**CONFIG.to_dict(), "score": {name: columns[::-1] for name, columns in SCORE.items()}})
    other = run_predictions(mixed, table=table, root=tmp_path)
    assert other.metrics["test"] == run.metrics["test"]


def test_a_runs_own_predictions_are_read_by_their_names(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = str(run.path / "oof.parquet")
    words = ("--predictions", own, "--label", "y", "--time", "time", "--label-end", "label_end")
    done = call(*words)
    assert done.exit_code in (0, 1), done.output
    (found,), _ = list_runs("experiments/runs")
    assert found.config.score == SCORE
    gates = found.metrics["gates"].values()
    assert done.exit_code == (0 if all(gate["passed"] for gate in gates) else 1)
    assert "No stakes: a table needs a column of returns" in done.stdout
    again = call("--config", str(found.path / "config.toml"), "--no-gate")
    assert again.exit_code == 0, again.output
    shown = CliRunner().invoke(main, ["runs", "show", "last"])
    assert "score bayes logistic" in shown.stdout
    assert "of the model's training time" not in shown.stdout
    texts = [(one.path / "metrics.json").read_bytes() for one in list_runs("experiments/runs")[0]]
    assert texts[0] == texts[1]
    one = call(*words, "--members", "logistic", "--runs", "one", "--no-gate")
    assert one.exit_code == 0, one.output
    assert list_runs("one")[0][0].config.score == {"logistic": SCORE["logistic"]}


@pytest.mark.parametrize("columns", [["p"], ["p_one", "p_two"], ["p_two", "p_one"]])
def test_two_classes_may_have_one_column(columns: list[str], tmp_path: Path) -> None:
    """Chemistry of real wines, of which every third is held out in turn."""
    X, y = load_wine(return_X_y=True)
    X, y = X[y < 2].repeat(4, axis=0), y[y < 2].repeat(4)
    order = np.random.default_rng(0).permutation(y.size)
    X, y = X[order][:, :2], y[order]
    p = cross_val_predict(GaussianNB(), X, y, cv=3, method="predict_proba")
    labels = np.array(["one", "two"])[y]
    frame = pd.DataFrame({"y": labels, "t": np.arange(y.size), "p": p[:, 1], "p_one": p[:, 0], "p_two": p[:, 1]})
    config = TrainConfig(table="wine", label="y", time="t", score={"m": tuple(columns)})
    found = run_predictions(config, table=frame, root=tmp_path)
    test = pq.read_table(found.path / "predictions.parquet").to_pandas()
    assert test[["raw_one", "raw_two"]].to_numpy() == pytest.approx(p[-len(test) :], rel=1e-12)
    expected = log_loss(test.y, test[["p_one", "p_two"]].to_numpy(), labels=["one", "two"])
    assert found.metrics["test"]["forecasts"]["calibrated"]["log_loss"]["value"] == pytest.approx(expected, rel=1e-9)
    document = json.loads((found.path / "checkpoints" / "m" / "columns.json").read_text())
    assert len(document["places"]) == len(columns)
    again = found.predict_proba(frame[columns].iloc[-len(test) :])
    np.testing.assert_array_equal(again, test[["p_one", "p_two"]].to_numpy())


def scores_of(frame: pd.DataFrame, **options: Any) -> dict[str, tuple[str, ...]]:
    return find_scores(open_rows(frame), "y", **options)


def test_models_are_named_by_their_columns(table: pd.DataFrame) -> None:
    assert scores_of(table) == SCORE
    assert scores_of(table, members=["logistic"]) == {"logistic": SCORE["logistic"]}
    assert list(scores_of(table, score=[["raw_bayes_*"], ["raw_logistic_*"]])) == [
        "raw_bayes_digit",
        "raw_logistic_digit",
    ]
    assert list(scores_of(table, score=[["raw_bayes_*"]], members=["mine"])) == ["mine"]
    few = pd.DataFrame({"y": [0, 1], "p": [0.1, 0.9], "q": [0.2, 0.8], "raw_0": [0.5, 0.5], "raw_1": [0.5, 0.5]})
    assert scores_of(few) == {"raw": ("raw_0", "raw_1")}
    assert scores_of(few.drop(columns="raw_0")) == {"p": ("p",)}
    assert scores_of(few, score=[["q"], ["p"]]) == {"q": ("q",), "p": ("p",)}
    assert list(scores_of(few.rename(columns={"q": "q/1"}), score=[["q/1"]])) == ["model1"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"members": ["byes"]}, "has no columns raw_byes_CLASS of a model 'byes' for the classes 'digit 0'"),
        ({"score": [["pp"]]}, "the DataFrame has no column 'pp'."),
        (
            {"score": [["raw_bayes_*"]], "members": ["a", "b"]},
            "members names 2 models, 'a', 'b', and score the",
        ),
        ({"score": [["raw_bayes_*"], ["raw_bayes_*"]]}, "two models are called alike: 'raw_bayes_digit'"),
        ({"score": [[]]}, "score [] names no column"),
    ],
)
def test_predictions_that_are_not_there_are_told(table: pd.DataFrame, options: dict[str, Any], said: str) -> None:
    with pytest.raises(CalibrantError, match=re.escape(said)):
        scores_of(table, **options)
    with pytest.raises(CalibrantError, match="has no columns of predictions that are found by their names"):
        scores_of(table[["y", "t"]])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"score": {"m": SCORE["bayes"][:9]}}, "model 'm' has 9 columns of predictions"),
        ({"score": {"m": ("note",)}}, "has 1 column of no numbers: 'note'"),
        ({"score": {}}, "score names no columns of predictions"),
        ({"features": ("note",)}, "go with no score"),
    ],
)
def test_columns_that_are_no_predictions_are_refused(
    table: pd.DataFrame, change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(CalibrantError, match=re.escape(said)):
        run_predictions(TrainConfig(**{**CONFIG.to_dict(), **change}), table=table, root=tmp_path)
    assert list_runs(tmp_path) == ([], 0)


@pytest.mark.parametrize(
    ("value", "said"),
    [(1.5, "1.5 is outside [0, 1]"), (0.9, "probabilities sum to"), (np.nan, "is not finite")],
)
def test_values_that_are_no_probabilities_are_refused(
    table: pd.DataFrame, value: float, said: str, tmp_path: Path
) -> None:
    column = SCORE["bayes"][2]
    p = table[column].to_numpy().copy()
    p[np.argmin(p > 0.5)] = value
    with pytest.raises(CalibrantError, match=re.escape(said)):
        run_predictions(CONFIG, table=table.assign(**{column: p}), root=tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--score", "p"), "--score and --members are of --predictions. Name the file."),
        (("--predictions", "x.csv", "--table", "y.csv"), "--predictions and --table both name a file. Leave one out."),
        (("--predictions", "x.csv", "--models", "logistic", "--score", "p"), "--models is for models that are trained"),
        (("--predictions", "x.csv", "--folds", "3", "--score", "p"), "--folds is for models that are trained"),
        (("--predictions", "none.csv"), "there is no file none.csv"),
        (("--predictions", "x.csv", "--score", "p", "--label", "y"), "needs the names of two of its columns: label"),
        (("--predictions", "x.csv"), "needs the names of two of its columns: label, and time"),
        (("--predictions", "x.csv", "--config", "time.toml"), "needs the names of two of its columns: label, and time"),
        (("--config", "score.toml", "--members", "m"), "score={'m': ('p',)} is of a table, and none is named."),
    ],
)
def test_what_the_command_cannot_do_is_one_line(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("y,t,p\n0,1,0.5\n1,2,0.5\n")
    Path("time.toml").write_text('time = "t"\n')
    Path("score.toml").write_text('score = {m = ["p"]}\n')
    done = call(*words)
    assert done.exit_code == 2
    assert said in done.stderr.splitlines()[-1]


def test_no_model_is_trained_on_predictions(table: pd.DataFrame, tmp_path: Path) -> None:
    said = re.escape("score names predictions that exist, of 'bayes', 'logistic', and here models are trained.")
    with pytest.raises(CalibrantError, match=said):
        run_training(CONFIG, table=table, root=tmp_path)
    with pytest.raises(CalibrantError, match=said):
        run_stack(CONFIG, ["logistic"], table=table, root=tmp_path)
    assert list_runs(tmp_path) == ([], 0)


def test_a_class_that_only_the_test_part_has_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Class frequencies then rule out what happens: their log loss is infinite, and no finite one is compared to it."""
    monkeypatch.chdir(tmp_path)
    p = np.random.default_rng(0).dirichlet(np.ones(3), 400)
    y = np.array([*"ab" * 180, *"abcc" * 10])
    frame = pd.DataFrame({"y": y, "t": np.arange(400)}).assign(**{f"raw_{c}": p[:, k] for k, c in enumerate("abc")})
    frame.to_parquet("rows.parquet")
    done = call("--predictions", "rows.parquet", "--label", "y", "--time", "t", "--no-gate")
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("class frequencies ")]
    assert line.split()[2] == "infinite"
    (member,) = [line for line in done.stdout.splitlines() if line.startswith("raw, raw ")]
    assert float(member.split()[2]) < 10.0
    assert "[" not in member
    assert CliRunner().invoke(main, ["runs", "show", "last"]).exit_code == 0
    listed = CliRunner().invoke(main, ["runs", "list"]).stdout
    assert "can't be read" not in listed
    assert listed.splitlines()[1].split()[-3] == "infinite"  # of class frequencies
