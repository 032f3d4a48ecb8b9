"""Models: five kinds through one interface, saved in formats that run nothing."""

from __future__ import annotations

import pickle
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from calibrant.errors import CalibrantError, DocumentError, InvalidInputError
from calibrant.numerics import FloatArray, IntArray
from calibrant.training.models import MODELS, check_trees, make_model, read_model

Rows = tuple[FloatArray, IntArray]


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Rows of three classes, of which the first two columns say something."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    z = np.column_stack((2.0 * X[:, 0], 2.0 * X[:, 1], np.zeros(600))) + rng.gumbel(size=(600, 3))
    return X, z.argmax(axis=1)


def fitted(name: Any, rows: Rows, seed: int = 0, **more: Any) -> Any:
    X, codes = rows
    return make_model(name, 3, seed=seed, **more).fit(X[:400], codes[:400], stop=(X[400:500], codes[400:500]))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_and_reads_back_bit_for_bit(name: str, rows: Rows, tmp_path: Path) -> None:
    X, codes = rows
    model = fitted(name, rows)
    prob = model.predict_proba(X[500:])
    assert prob.shape == (100, 3)
    np.testing.assert_allclose(prob.sum(axis=1), 1.0, atol=1e-12)
    assert -np.log(prob[np.arange(100), codes[500:]]).mean() < 1.0 < np.log(3.0)
    model.save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [model.file]
    again = read_model(name, 3, tmp_path)
    assert again.predict_proba(X[500:]).tobytes() == prob.tobytes()
    assert again.n_rounds_ == model.n_rounds_


@pytest.mark.parametrize(
    ("name", "own", "other", "value"),
    [
        ("xgboost", "eta", "learning_rate", 0.5),
        ("xgboost", "seed", "random_state", 5),
        ("lightgbm", "learning_rate", "eta", 0.5),
        ("lightgbm", "num_leaves", "max_leaf_nodes", 3),
        ("lightgbm", "bagging_fraction", "subsample", 0.3),
        ("lightgbm", "feature_fraction", "colsample_bytree", 0.3),
        ("lightgbm", "seed", "random_state", 5),
        ("catboost", "learning_rate", "eta", 0.5),
        ("catboost", "depth", "max_depth", 2),
        ("catboost", "iterations", "num_boost_round", 3),
        ("catboost", "random_seed", "random_state", 5),
    ],
)
def test_a_param_counts_under_each_name_that_its_library_has(
    name: str, own: str, other: str, value: float, rows: Rows
) -> None:
    """LightGBM passed over eta beside our learning_rate without a word, and CatBoost refused both."""
    rounds = {} if own == "iterations" else {"iterations" if name == "catboost" else "num_boost_round": 8}
    X, codes = rows
    one, same, usual = (
        make_model(name, 3, params=rounds | params).fit(X[:400], codes[:400]).predict_proba(X)
        for params in ({own: value}, {other: value}, {})
    )
    assert same.tobytes() == one.tobytes()
    assert same.tobytes() != usual.tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_a_seed_repeats_and_another_one_differs(name: str, rows: Rows) -> None:
    X, _ = rows
    params = {"max_features": 0.5} if name == "hist_gradient_boosting" else None
    once, twice, other = (fitted(name, rows, seed, params=params).predict_proba(X) for seed in (1, 1, 2))
    assert once.tobytes() == twice.tobytes()
    if name != "logistic":  # whose optimum is one
        assert once.tobytes() != other.tobytes()


@pytest.mark.parametrize("name", [name for name in MODELS if name != "logistic"])
def test_boosting_stops_where_the_slice_says(name: str, rows: Rows) -> None:
    X, codes = rows
    model = fitted(name, rows)
    assert 0 < model.n_rounds_ < 500
    shuffled = np.random.default_rng(0).permutation(codes[400:500])
    early = make_model(name, 3).fit(X[:400], codes[:400], stop=(X[400:500], shuffled))
    assert early.n_rounds_ < model.n_rounds_
    losses = {}
    for rounds in (model.n_rounds_ - 8, model.n_rounds_, model.n_rounds_ + 8):
        key = {"catboost": "iterations", "hist_gradient_boosting": "max_iter"}.get(name, "num_boost_round")
        prob = make_model(name, 3, params={key: rounds}).fit(X[:400], codes[:400]).predict_proba(X[400:500])
        losses[rounds] = -np.log(prob[np.arange(100), codes[400:500]]).mean()
    assert min(losses, key=lambda rounds: losses[rounds]) == model.n_rounds_


@pytest.mark.parametrize("name", MODELS)
def test_weights_change_the_model_and_their_scale_does_not(name: str, rows: Rows) -> None:
    X, codes = rows
    weight = np.where(codes[:400] == 0, 4.0, 1.0)
    base, heavy, scaled = (
        make_model(name, 3).fit(X[:400], codes[:400], sample_weight=w).predict_proba(X)
        for w in (np.ones(400), weight, 1024.0 * weight)
    )
    assert heavy[:, 0].mean() > base[:, 0].mean() + 0.05
    assert heavy.tobytes() == scaled.tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_a_class_without_training_rows_keeps_its_column(name: str, rows: Rows) -> None:
    X, codes = rows
    some = codes != 1
    prob = make_model(name, 3).fit(X[some], codes[some]).predict_proba(X)
    assert prob.shape == (600, 3)
    assert prob[:, 1].max() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [RandomForestClassifier(5, random_state=3), GaussianNB(), LogisticRegression()])
def test_any_classifier_of_scikit_learn(estimator: Any, rows: Rows, tmp_path: Path) -> None:
    X, _ = rows
    model = fitted(estimator, rows)
    model.save(tmp_path)
    assert read_model("sklearn", 3, tmp_path).predict_proba(X).tobytes() == model.predict_proba(X).tobytes()


class Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return Path.touch, (Path("exploded"),)


def test_a_file_with_code_is_refused_and_not_run(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = fitted("logistic", rows)
    model.model_.steps[1][1].note = np.array([Bomb()], dtype=object)
    with zipfile.ZipFile(tmp_path / "model.skops", "w") as archive:
        archive.writestr("1.pkl", pickle.dumps(Bomb()))
        archive.writestr(
            "schema.json",
            '{"__class__": "touch", "__module__": "pathlib", "__loader__": "FunctionNode", "content": "1.pkl", '
            '"protocol": 2, "_skops_version": "0.16.0"}',
        )
    with pytest.raises(DocumentError, match="which calibrant doesn't load"):
        read_model("logistic", 3, tmp_path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("field", ["left", "right", "feature_idx"])
def test_trees_with_links_out_of_bounds_are_refused(rows: Rows, field: str) -> None:
    model = fitted("hist_gradient_boosting", rows).model_
    check_trees(model, "this")
    nodes = model._predictors[0][0].nodes
    nodes[field][~nodes["is_leaf"].astype(bool)] = 10_000
    with pytest.raises(DocumentError, match="this holds a broken tree"):
        check_trees(model, "this")


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(CalibrantError, match=re.escape("unknown model 'xgbost'. Did you mean 'xgboost'?")):
        make_model("xgbost", 3)
    with pytest.raises(CalibrantError, match="has no predict_proba"):
        make_model(object(), 3)
    with pytest.raises(CalibrantError, match="n_threads=0 is too small"):
        make_model("logistic", 3, n_threads=0)
    with pytest.raises(CalibrantError, match="this xgboost model is not fitted"):
        make_model("xgboost", 3).predict_proba(np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("xgboost", {"max_depth": "deep"}, "the model xgboost can't be fitted (XGBoostError: Invalid Parameter"),
        ("lightgbm", {"num_leaves": "many"}, "the model lightgbm can't be fitted (LightGBMError: Parameter num_leaves"),
        ("xgboost", {"max_dept": 3, "eta": 0.1}, "xgboost knows no param 'max_dept'."),
        (
            "xgboost",
            {"n_estimators": 5},
            "xgboost knows no param 'n_estimators'. Correct it or leave it out; rounds of",
        ),
        ("lightgbm", {"max_dept": 3, "eta": 0.1}, "lightgbm knows no param 'max_dept'. Did you mean 'max_depth'?"),
        ("catboost", {"depth": 99}, "the model catboost can't be fitted (CatBoostError:"),
        ("logistic", {"C": -1}, "the model logistic can't be fitted (InvalidParameterError: The 'C' parameter"),
        (
            "xgboost",
            {"num_class": 6},
            "the model xgboost gives probabilities of shape (200, 3) for 100 rows",
        ),
        ("xgboost", {"num_class": 5}, "the model xgboost can't be asked for probabilities (ValueError: cannot reshape"),
        ("logistic", {"n_classes": 3, "self": 1}, "unknown param of LogisticRegression: 'n_classes'."),
        ("logistic", {"c": 1}, "unknown param of LogisticRegression: 'c'."),
        ("hist_gradient_boosting", {"max_itr": 9}, "'max_itr'. Did you mean 'max_iter'?"),
        ("sklearn.tree:DecisionTreeClassifier", {"depth": 9}, "unknown param of DecisionTreeClassifier: 'depth'. Did"),
    ],
)
def test_params_that_a_library_refuses_are_told(name: str, params: dict[str, Any], said: str, rows: Rows) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        make_model(name, 3, params=params).fit(*rows).predict_proba(rows[0][:100])


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("xgboost", {"booster": "dart", "rate_drop": 0.1, "num_boost_round": 3}),
        ("xgboost", {"learning_rate": 0.1, "reg_alpha": 1.0, "num_boost_round": 3}),
        ("lightgbm", {"n_estimators": 3, "min_child_samples": 5, "reg_lambda": 1.0}),
        ("catboost", {"iterations": 3}),
    ],
)
def test_params_go_by_all_names_that_a_library_has(name: str, params: dict[str, Any], rows: Rows) -> None:
    assert make_model(name, 3, params=params).fit(*rows).n_rounds_ == 3


def test_outputs_that_are_no_probabilities_are_refused(rows: Rows) -> None:
    X, codes = rows
    model = make_model("logistic", 3).fit(X, codes)
    model.model_.steps[1][1].coef_[0, 0] = np.nan
    with pytest.raises(CalibrantError, match="the output of the logistic model row 0"):
        model.predict_proba(X)


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "catboost", None)
    with pytest.raises(CalibrantError, match=r"needs the package catboost.*Install calibrant\[training\]"):
        make_model("catboost", 3)


class ThreadCounter(LogisticRegression):  # type: ignore[misc]
    """Notes of each call how many threads BLAS and OpenMP may use."""

    def predict_proba(self, X: Any) -> Any:
        self.threads_ = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
        return super().predict_proba(X)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_threads_of_all_libraries_are_held_to_the_number_asked_for(n_threads: int, rows: Rows) -> None:
    model = make_model(ThreadCounter(), 3, n_threads=n_threads).fit(*rows)
    with threadpoolctl.threadpool_limits(3 - n_threads):
        model.predict_proba(rows[0][:1])
        assert model.model_.threads_ == {n_threads}
        assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info()} == {3 - n_threads}


def test_libraries_with_threads_are_looked_for_after_imports_only(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for them takes ten times as long as a row's prediction."""
    found = []
    look = threadpoolctl.ThreadpoolController.__init__

    def counted(self: Any) -> None:
        found.append(self)
        look(self)

    model = make_model(LogisticRegression(), 3).fit(*rows)
    monkeypatch.setattr(threadpoolctl.ThreadpoolController, "__init__", counted)
    model.predict_proba(rows[0][:1])
    found.clear()
    model.predict_proba(rows[0][:1])
    assert not found
    monkeypatch.setitem(sys.modules, "a_library_that_was_imported", sys)
    model.predict_proba(rows[0][:1])
    assert len(found) == 1
