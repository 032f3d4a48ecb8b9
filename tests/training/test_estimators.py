"""Classifiers of one's own: found by module:Class, trained again by the settings of a run, loaded only if trusted."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from calibrant.cli import main
from calibrant.errors import CalibrantError, DocumentError
from calibrant.training.config import TrainConfig
from calibrant.training.estimators import import_estimator, setting_of, short_name
from calibrant.training.models import SklearnModel, make_model
from calibrant.training.run_folder import list_runs, load_run
from calibrant.training.training_run import run_training

pytestmark = pytest.mark.usefixtures("undrawn")

OWN = '''
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

class Frequencies(ClassifierMixin, BaseEstimator):
    """Says the share of each class, and a little more for that of the first feature's sign."""

    def __init__(self, more=0.1):
        self.more = more

    def fit(self, X, y, sample_weight=None):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.share_ = counts / counts.sum()
        return self

    def predict_proba(self, X):
        p = np.tile(self.share_, (len(X), 1))
        p[:, 0] += self.more * (X[:, 0] > 15.0)
        return p / p.sum(axis=1, keepdims=True)

def tuned():
    return Frequencies(more=0.3)

def needs(a):
    return a

class Changed(Frequencies):
    def __init__(self, k=(3,)):
        self.k = list(k)

class NoClassifier:
    pass

class NoParameters:
    def predict_proba(self, X):
        return X

class Stops(Frequencies):
    def __init__(self):
        raise ValueError("not today")

class Unfit(Frequencies):
    def fit(self, X, y, sample_weight=None):
        raise RuntimeError("diverged")

class Unnamed(Frequencies):
    def fit(self, X, y, sample_weight=None):
        return self

class Narrow(Frequencies):
    def predict_proba(self, X):
        return super().predict_proba(X)[:, :1]
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of one's own in the working directory, where Python doesn't look."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    (tmp_path / "own_models.py").write_text(OWN)
    (tmp_path / "own_broken.py").write_text("{}['here']")
    yield tmp_path
    sys.modules.pop("own_models", None)


def cancer() -> pd.DataFrame:
    """Real measurements, whose rows are a day apart in the order of scikit-learn's file."""
    data = load_breast_cancer(as_frame=True).frame
    y = np.where(data.pop("target") == 1, "benign", "malignant")
    return data.assign(y=y, t=pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(data)), unit="D"))


def call(*words: str) -> Any:
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sklearn.naive_bayes:GaussianNB", GaussianNB),
        ("sklearn.ensemble:RandomForestClassifier", RandomForestClassifier),
        ("sklearn.neighbors:KNeighborsClassifier", KNeighborsClassifier),
    ],
)
def test_names_find_classes_and_classes_their_names(name: str, kind: type) -> None:
    assert type(import_estimator(name)) is kind
    assert setting_of(kind()) == (name, {})
    assert short_name(name) == kind.__name__


def test_what_differs_from_the_defaults_is_named() -> None:
    forest = RandomForestClassifier(50, max_depth=3, random_state=8)
    assert setting_of(forest) == ("sklearn.ensemble:RandomForestClassifier", {"n_estimators": 50, "max_depth": 3})
    assert setting_of(make_pipeline(StandardScaler(), GaussianNB())) is None
    assert setting_of(LogisticRegression(class_weight={0: 2.0})) is None


def test_a_classifier_that_has_probabilities_by_its_params_trains_again_by_its_settings(tmp_path: Path) -> None:
    """What `SGDClassifier()` lacks, and has by its loss, was refused before its params were set."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=400)
    table = pd.DataFrame({"x": x, "t": np.arange(400), "y": x + rng.normal(size=400) > 0})
    config = TrainConfig(
        model="sklearn", table="rows", label="y", time="t", validation=np.float64(0.25), seed=np.int64(3)
    )  # type: ignore[arg-type]
    model = SGDClassifier(loss="log_loss", alpha=np.float64(0.01))
    first = run_training(config, table=table, model=model, root=tmp_path / "a")
    assert first.config.params == {"loss": "log_loss", "alpha": 0.01}
    assert (first.config.validation, first.config.seed) == (0.25, 3)
    again = run_training(first.config, table=table, root=tmp_path / "b")
    assert again.metrics["test"] == first.metrics["test"]
    with pytest.raises(CalibrantError, match=r"SGDClassifier\(alpha=0.1\) has no predict_proba"):
        make_model("sklearn.linear_model:SGDClassifier", 2, params={"alpha": 0.1})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "nowhere.models:X",
            "model='nowhere.models:X': No module named 'nowhere'. Name an installed module, or one in",
        ),
        ("own_models:Frequency", "own_models has no 'Frequency'. Did you mean 'Frequencies'?"),
        ("own_models:needs", "can't be made without arguments (needs() missing 1 required positional argument"),
        ("own_models:NoClassifier", "has no predict_proba. Pass a classifier of scikit-learn"),
        ("own_models:NoParameters", "has no get_params. Pass a classifier of scikit-learn"),
        (
            "own_models:Changed",
            "the model Changed can't be copied (RuntimeError: Cannot clone object Changed(k=[3]), as",
        ),
        ("sklearn", "model='sklearn' doesn't say which classifier."),
        ("own_models:", "unknown model 'own_models:'"),
        ("own..models:X", "unknown model 'own..models:X'"),
        ("own_models:Stops", "model='own_models:Stops' can't be made without arguments (not today)."),
        ("own_broken:X", "own_broken can't be imported (KeyError: 'here'). Mend the module; python -c 'import own_b"),
    ],
)
def test_names_that_find_nothing_are_told(name: str, said: str, own: Path) -> None:
    with pytest.raises(CalibrantError, match=re.escape(said)):
        make_model(name, 2)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "Unfit",
            "the model Unfit can't be fitted (RuntimeError: diverged). Change its params, its code",
        ),
        ("Unnamed", "the model Unnamed can't be asked for probabilities (AttributeError: 'Unnamed' object has no attr"),
        ("Narrow", "predict_proba of Narrow gives shape (256, 1) for 256 rows and 2 classes."),
    ],
)
def test_faults_of_ones_own_code_are_no_faults_of_calibrant(name: str, said: str, own: Path) -> None:
    cancer().to_csv("rows.csv", index=False)
    done = call("train", "--table", "rows.csv", "--label", "y", "--time", "t", "--model", f"own_models:{name}")
    assert done.exit_code == 2
    assert said in done.stderr.splitlines()[-1]


def test_a_module_of_the_working_directory_is_trained_by_the_command_and_again_by_its_settings(own: Path) -> None:
    cancer().to_csv("rows.csv", index=False)
    words = ("--table", "rows.csv", "--label", "y", "--time", "t", "--model", "own_models:tuned")
    done = call("train", "--no-gate", *words)
    assert done.exit_code == 0, done.output
    (first,) = list_runs("experiments/runs")[0]
    assert first.run_id.startswith("tuned_table_")
    assert call("train", "--no-gate", "--config", str(first.path / "config.toml")).exit_code == 0
    again, other = (run.metrics["test"] for run in list_runs("experiments/runs")[0])
    assert again == other


def test_all_classes_that_a_model_is_made_of_are_named_at_once(tmp_path: Path) -> None:
    """One was named at a time, and each had to be added to a command that then named the next."""
    x = np.random.default_rng(0).normal(size=(500, 2))
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "t": np.arange(500), "y": x[:, 0] > 0})
    config = TrainConfig(model="sklearn.neighbors:KNeighborsClassifier", table="rows", label="y", time="t")
    run = run_training(config, table=table, root=tmp_path)
    with pytest.raises(DocumentError, match=r"the types '.*', '.*', which calibrant doesn't load") as refused:
        _ = run.models
    named = re.search(r"--trust (\S+), or", str(refused.value))
    assert named is not None
    assert load_run(run.path, trusted=named[1].split(",")).models


def test_classes_of_ones_own_are_loaded_only_where_they_are_trusted(own: Path) -> None:
    config = TrainConfig(model="own_models:Frequencies", table="rows", label="y", time="t", params={"more": 0.2})
    run = run_training(config, table=cancer(), root="runs")
    X = cancer()[run.found["features"]]
    sys.modules.pop("own_models")
    with pytest.raises(
        DocumentError, match=re.escape("of type 'own_models.Frequencies', which calibrant doesn't load")
    ):
        run.predict_proba(X)
    assert "own_models" not in sys.modules, "nothing of the file ran"
    for trusted in ("own_models.Frequencies", "own_models:Frequencies"):
        loaded = load_run(run.path, trusted=[trusted])
        assert loaded.model.model_.more == 0.2
        assert loaded.predict_proba(X).shape == (569, 2)
    cancer().drop(columns="y").to_csv("new.csv", index=False)
    words = ("predict", "last", "--runs", "runs", "--data", "new.csv", "-o", "p.csv")
    sys.modules.pop("own_models")
    refused = call(*words)
    assert refused.exit_code == 2
    assert "If it is your own: --trust own_models.Frequencies, or" in refused.stderr
    assert "own_models" not in sys.modules
    to_onnx = call("runs", "export", "last", "--runs", "runs", "--onnx", "p.onnx")
    assert "a model 'Frequencies' has no form in ONNX here" in to_onnx.stderr, "no trust would help"
    assert "own_models" not in sys.modules
    done = call(*words, "--trust", "own_models.Frequencies")
    assert done.exit_code == 0, done.output
    assert (pd.read_csv("p.csv")["p_benign"].to_numpy() == loaded.predict_proba(X)[:, 0]).all()
    with pytest.raises(CalibrantError, match=re.escape("trusted='own_model.Frequencies': No module named 'own_model'")):
        _ = load_run(run.path, trusted=["own_models.Frequencies", "own_model.Frequencies"]).models


@pytest.mark.slow
def test_a_classifier_given_from_python_is_trained_again_by_the_settings_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cancer().to_csv("rows.csv", index=False)
    config = TrainConfig(model="sklearn", table="rows.csv", label="y", time="t")
    run = run_training(config, model=RandomForestClassifier(12, max_depth=4, random_state=9), root="experiments/runs")
    assert run.config.model == "sklearn.ensemble:RandomForestClassifier"
    assert run.config.params == {"n_estimators": 12, "max_depth": 4}
    assert list(run.models) == ["RandomForestClassifier"]
    assert call("train", "--no-gate", "--config", str(run.path / "config.toml")).exit_code == 0
    again, other = (one.metrics["test"] for one in list_runs("experiments/runs")[0])
    assert again == other


def test_a_classifier_that_no_file_can_name_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = TrainConfig(model="sklearn", table="rows", label="y", time="t")
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    run = run_training(config, model=pipeline, table=cancer(), root=tmp_path)
    assert run.config.model == "sklearn"
    assert "Pipeline can't be named in config.toml" in caplog.text
    done = call("train", "--no-gate", "--config", str(run.path / "config.toml"), "--runs", str(tmp_path))
    assert done.exit_code == 2
    assert "Error: there is no file rows." in done.stderr


@pytest.mark.parametrize(
    ("estimator", "takes_missing", "takes_weight"),
    [
        (GaussianNB(), False, True),
        (KNeighborsClassifier(), False, False),
        (RandomForestClassifier(), True, True),
        (make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()), True, True),
        (make_pipeline(StandardScaler(), LogisticRegression()), False, True),
        (make_pipeline(StandardScaler(), RandomForestClassifier()), True, True),
    ],
    ids=str,
)
def test_what_a_classifier_takes_is_known_before_it_is_fitted(
    estimator: Any, takes_missing: bool, takes_weight: bool
) -> None:
    model = SklearnModel(2, estimator=estimator)
    assert (model.takes_missing, model.takes_weight) == (takes_missing, takes_weight)
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    X[3, 1] = np.nan if takes_missing else 0.0
    model.fit(X, y, sample_weight=np.linspace(0.5, 1.5, 40))
    assert model.predict_proba(X).shape == (40, 2)
    if not takes_missing:  # as scikit-learn says itself
        X[3, 1] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            model.fit(X, y)


def test_weights_that_are_ignored_are_said_and_those_of_classes_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = cancer()
    data = data.assign(known=data.t + pd.to_timedelta(np.arange(len(data)) % 4, unit="D"))
    named: dict[str, Any] = {"table": "rows", "label": "y", "time": "t", "label_end": "known"}
    config = TrainConfig(model="sklearn.neighbors:KNeighborsClassifier", calibrator="isotonic", **named)
    run_training(config, table=data, root=tmp_path)
    assert "Weights: fit of KNeighborsClassifier takes no sample_weight, so all rows count alike" in caplog.text
    balanced = TrainConfig(model=config.model, class_weight="balanced", **named)
    with pytest.raises(
        CalibrantError, match="class_weight='balanced', and fit of KNeighborsClassifier takes no sample_w"
    ):
        run_training(balanced, table=data, root=tmp_path)


def test_a_model_that_no_file_can_hold_is_told(own: Path) -> None:
    (own / "own_models.py").write_text(OWN.replace("return self\n", "self.rows = iter(y)\n        return self\n", 1))
    config = TrainConfig(model="own_models:Frequencies", table="rows", label="y", time="t")
    with pytest.raises(CalibrantError, match="the fitted Frequencies can't be saved by skops"):
        run_training(config, table=cancer(), root="runs")
    assert list_runs("runs") == ([], 0)


def test_a_model_that_would_not_be_read_again_is_told(tmp_path: Path) -> None:
    class Local(GaussianNB):  # type: ignore[misc]
        """A class that no module has by its name."""

    config = TrainConfig(model="sklearn", table="rows", label="y", time="t")
    with pytest.raises(CalibrantError, match="the fitted Local can't be saved by skops"):
        run_training(config, model=Local(), table=cancer(), root=tmp_path)
    assert list_runs(tmp_path) == ([], 0)
