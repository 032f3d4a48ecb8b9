"""Score sets of models trained here, on scikit-learn's own data and on synthetic tables of its generator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks.score_sets import ScoreSet
from calibrant.numerics import expit, softmax

#: Rows that a model of synthetic data is trained on; it scores the rest.
TRAINED_ON = 3_000
SYNTHETIC_ROWS = 18_000
FOLDS = 5
#: Small data sets, scored out of fold.
SMALL: dict[str, Callable[..., Any]] = {
    "breast_cancer": load_breast_cancer,
    "digits_cv": load_digits,
    "wine": load_wine,
}
SYNTHETIC: dict[str, dict[str, Any]] = {
    "synthetic2": {"n_classes": 2, "n_informative": 6, "n_redundant": 6, "flip_y": 0.05},
    "synthetic2_rare": {"n_classes": 2, "n_informative": 4, "weights": [0.93], "class_sep": 0.7, "flip_y": 0.02},
    "synthetic3": {"n_classes": 3, "n_informative": 6, "n_redundant": 6, "class_sep": 0.8, "flip_y": 0.05},
    "synthetic10": {"n_classes": 10, "n_informative": 10, "n_redundant": 5, "class_sep": 1.2, "flip_y": 0.02},
}


def models() -> dict[str, Callable[[], Any]]:
    """Return the models by name: those of scikit-learn, and of XGBoost and LightGBM where they are installed."""
    found: dict[str, Callable[[], Any]] = {
        "nb": GaussianNB,
        "rf": lambda: RandomForestClassifier(100, random_state=0),
        "hgb": lambda: HistGradientBoostingClassifier(max_iter=60, random_state=0),
        "linear_svm": lambda: make_pipeline(StandardScaler(), LinearSVC(random_state=0)),
    }
    if find_spec("xgboost") is not None:
        from xgboost import XGBClassifier

        found["xgboost"] = lambda: XGBClassifier(n_estimators=60, n_jobs=1, random_state=0)
    if find_spec("lightgbm") is not None:
        from lightgbm import LGBMClassifier

        found["lightgbm"] = lambda: LGBMClassifier(n_estimators=60, n_jobs=1, verbose=-1, random_state=0)
    return found


def trained_sets() -> list[ScoreSet]:
    """Train every model on every table; scores are out of fold on small tables, and of unseen rows on large ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the models, which are not what is measured
        return list(_trained_sets())


def _trained_sets() -> Iterator[ScoreSet]:
    for data, load in SMALL.items():
        x, y = load(return_X_y=True)
        folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(x, y))
        order = np.concatenate([held_out for _, held_out in folds])
        for model, make in models().items():
            parts = [_scores(make().fit(x[rest], y[rest]), x[held_out]) for rest, held_out in folds]
            p, raw = (None if values[0] is None else np.concatenate(values) for values in zip(*parts, strict=True))
            yield ScoreSet(f"{data}/{model}", p, y[order], raw=raw)
    for data, params in SYNTHETIC.items():
        x, y = make_classification(SYNTHETIC_ROWS, 20, random_state=0, **params)
        for model, make in models().items():
            p, raw = _scores(make().fit(x[:TRAINED_ON], y[:TRAINED_ON]), x[TRAINED_ON:])
            yield ScoreSet(f"{data}/{model}", p, y[TRAINED_ON:], raw=raw)


def _scores(model: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return probabilities, of the positive class or of each class, and decision scores where a model has only them."""
    if hasattr(model, "predict_proba"):
        p = np.asarray(model.predict_proba(x), dtype=np.float64)
        return (p[:, 1], None) if p.shape[1] == 2 else (p / p.sum(axis=1, keepdims=True), None)
    raw = np.asarray(model.decision_function(x), dtype=np.float64)
    return (expit(raw), raw) if raw.ndim == 1 else (softmax(raw), raw)
