"""Scores of models on the tables that packages ship, in CalArena's protocol and file layout.

`python -m benchmarks.table_scores FOLDER` trains every model on every table and writes FOLDER/parts/{table}.h5, then
FOLDER/tables-{binary,multiclass}.h5 with `{dataset}/{model}/{probas_cal, labels_cal, probas_test, labels_test}` and the
index beside it. A table that is there already is skipped, so that an interrupted run goes on where it ended.

Of each table a random 60% of the rows, or of the groups, are for training and the rest are test rows. Calibration rows
are the out-of-fold predictions of the training part by 5 folds; test rows are predicted by a model of the whole
training part. Nothing is tuned. Three models of each table are good already (`kind` "good"): a greedy ensemble of the
eight (Caruana et al. 2004), the mean of the best three, and boosted trees with early stopping, whose test rows are
predicted by the mean of the folds' models.
"""

from __future__ import annotations

import csv
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.real_tables import TABLES, Table, TableRows, halves, is_installed, load, shuffled

TRAINED_SHARE = 0.6
FOLDS = 5
ENSEMBLE_ROUNDS = 50
BEST_OF_MEAN = 3
#: Early stopping: rounds at most, rounds without improvement, and the share of rows that are held out for it.
MOST_ROUNDS, PATIENCE, STOPPING_SHARE = 400, 20, 0.15
#: A probability of 0 that came true counts as this one where ensembles are chosen.
_LEAST = 1e-6
PARTS = ("cal", "test")
INDEX = ("dataset", "model", "cal_size", "test_size", "kind", "half", "source")


@dataclass(frozen=True)
class Scores:
    """One model's probabilities of calibration and of test rows, shape (n, K)."""

    cal: np.ndarray
    test: np.ndarray
    kind: str = "plain"


@dataclass(frozen=True)
class Fold:
    """Rows that a model is trained on, and rows that it predicts."""

    trained: np.ndarray
    predicted: np.ndarray


def models() -> dict[str, Callable[[], Any]]:
    """Return the eight families, of modest size."""
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    def scaled(model: ClassifierMixin) -> Any:
        return make_pipeline(SimpleImputer(), StandardScaler(), model)

    one = {"n_jobs": 1, "random_state": 0}
    return {
        "catboost": lambda: CatBoostClassifier(
            iterations=150, depth=5, thread_count=1, random_seed=0, verbose=False, allow_writing_files=False
        ),
        "extra_trees": lambda: ExtraTreesClassifier(150, **one),
        "lightgbm": lambda: LGBMClassifier(n_estimators=100, verbose=-1, **one),
        "linear": lambda: scaled(LogisticRegression(max_iter=300)),
        "mlp": lambda: scaled(MLPClassifier((64,), learning_rate_init=3e-3, max_iter=100, random_state=0)),
        "random_forest": lambda: RandomForestClassifier(150, **one),
        "xgboost": lambda: XGBClassifier(n_estimators=100, **one),
        "knn": lambda: scaled(KNeighborsClassifier(15, n_jobs=1)),
    }


def write_scores(folder: str, *, tables: tuple[Table, ...] = TABLES) -> None:
    """Train on every table that is not there yet, and assemble the files after each.

    The order is that of a hash, so that what an interrupted run leaves is a fair sample of all tables.
    """
    parts = Path(folder) / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    for table in shuffled(tables):
        part = parts / f"{table.name}.h5"
        if part.exists():
            continue
        if not is_installed(table):
            print(f"{table.name}: skipped, as its package is not installed", flush=True)
            continue
        begun = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the models, which are not what is measured
            n_rows, n_classes = train_table(table, part)
        took = time.perf_counter() - begun
        print(f"{table.name}: {n_rows:,} rows, {n_classes} classes, {took:.0f} s", flush=True)
        assemble(folder)
    assemble(folder)


def train_table(table: Table, path: Path) -> tuple[int, int]:
    """Train every model on a table and write its file in one step; return the numbers of rows and of classes."""
    rows = load(table)
    is_training = split(rows)
    training = TableRows(rows.x[is_training], rows.y[is_training], _at(rows.group, is_training))
    folds = list(folds_of(training))
    x_test, y_test = rows.x[~is_training], rows.y[~is_training]
    n_classes = int(rows.y.max()) + 1
    scores = {
        name: Scores(_out_of_fold(make, training, folds, n_classes), _predict(_fit(make, training), x_test, n_classes))
        for name, make in models().items()
    }
    scores |= good_scores(scores, training.y)
    scores["tuned"] = _early_stopped(training, folds, x_test, n_classes)
    _write_part(path, table, scores, (training.y, y_test), (training.group, _at(rows.group, ~is_training)))
    return rows.y.size, n_classes


def split(rows: TableRows) -> np.ndarray:
    """Say which rows are for training: a random share of the rows, or of the groups until so many rows are reached."""
    rng = np.random.default_rng(1)
    n = rows.y.size
    if rows.group is None:
        is_training = np.zeros(n, dtype=bool)
        is_training[rng.permutation(n)[: round(TRAINED_SHARE * n)]] = True
        return is_training
    codes = np.unique(rows.group, return_inverse=True)[1]
    order = rng.permutation(codes.max() + 1)
    n_rows = np.bincount(codes)[order].cumsum()
    return np.isin(codes, order[: np.searchsorted(n_rows, TRAINED_SHARE * n) + 1])


def folds_of(training: TableRows) -> Iterator[Fold]:
    """Deal the training rows into stratified folds, by whole groups where there are some."""
    kind = StratifiedKFold if training.group is None else StratifiedGroupKFold
    dealt = kind(FOLDS, shuffle=True, random_state=2).split(training.x, training.y, training.group)
    return (Fold(trained, predicted) for trained, predicted in dealt)


@dataclass(frozen=True)
class _Fitted:
    model: Any
    classes: np.ndarray


def _fit(make: Callable[[], Any], rows: TableRows) -> _Fitted:
    """Fit to the classes that are there: a fold may lack a rare one, and XGBoost wants codes without a hole."""
    classes, codes = np.unique(rows.y, return_inverse=True)
    return _Fitted(make().fit(rows.x, codes), classes)


def _predict(fitted: _Fitted, x: np.ndarray, n_classes: int) -> np.ndarray:
    """Return probabilities of all classes; one that the model has not seen has 0."""
    p = np.zeros((len(x), n_classes))
    p[:, fitted.classes] = fitted.model.predict_proba(x)
    return p / p.sum(axis=1, keepdims=True)


def _take(rows: TableRows, at: np.ndarray) -> TableRows:
    return TableRows(rows.x[at], rows.y[at], _at(rows.group, at))


def _at(values: np.ndarray | None, at: np.ndarray) -> np.ndarray | None:
    return None if values is None else values[at]


def _out_of_fold(make: Callable[[], Any], training: TableRows, folds: list[Fold], n_classes: int) -> np.ndarray:
    p = np.zeros((training.y.size, n_classes))
    for fold in folds:
        fitted = _fit(make, _take(training, fold.trained))
        p[fold.predicted] = _predict(fitted, training.x[fold.predicted], n_classes)
    return p


def good_scores(scores: dict[str, Scores], y: np.ndarray) -> dict[str, Scores]:
    """Combine the models by their out-of-fold log loss."""
    weights = greedy_weights(np.array([s.cal for s in scores.values()]), y)
    losses = {name: _log_loss(s.cal, y) for name, s in scores.items()}
    best = sorted(losses, key=lambda name: losses[name])[:BEST_OF_MEAN]
    equal = np.array([name in best for name in scores], dtype=np.float64) / BEST_OF_MEAN
    cal, test = (np.array([getattr(s, part) for s in scores.values()]) for part in PARTS)
    return {
        name: Scores(np.tensordot(w, cal, 1), np.tensordot(w, test, 1), "good")
        for name, w in (("ensemble", weights), ("stack_mean", equal))
    }


def greedy_weights(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the weights of a greedy selection with replacement among probabilities of shape (models, n, K)."""
    own = p[:, np.arange(y.size), y]
    counts, total = np.zeros(len(p)), np.zeros(y.size)
    for n_chosen in range(1, ENSEMBLE_ROUNDS + 1):
        losses = -np.log(np.maximum((total + own) / n_chosen, _LEAST)).mean(axis=1)
        chosen = int(losses.argmin())
        counts[chosen] += 1.0
        total += own[chosen]
    return counts / counts.sum()


def _log_loss(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.maximum(p[np.arange(y.size), y], _LEAST)).mean())


def _early_stopped(training: TableRows, folds: list[Fold], x_test: np.ndarray, n_classes: int) -> Scores:
    """Boost until the log loss of rows within each fold's training rows stops falling; average the folds' models."""
    cal, test = np.zeros((training.y.size, n_classes)), np.zeros((len(x_test), n_classes))
    for number, fold in enumerate(folds):
        fitted = _fit_stopped(_take(training, fold.trained), number)
        cal[fold.predicted] = _predict(fitted, training.x[fold.predicted], n_classes)
        test += _predict(fitted, x_test, n_classes) / len(folds)
    return Scores(cal, test, "good")


def _fit_stopped(rows: TableRows, seed: int) -> _Fitted:
    from lightgbm import LGBMClassifier, early_stopping

    rng = np.random.default_rng([3, seed])
    unit = np.arange(rows.y.size) if rows.group is None else np.unique(rows.group, return_inverse=True)[1]
    is_held = (rng.random(unit.max() + 1) < STOPPING_SHARE)[unit]
    classes, codes = np.unique(rows.y[~is_held], return_inverse=True)
    is_known = is_held & np.isin(rows.y, classes)
    model = LGBMClassifier(
        n_estimators=MOST_ROUNDS, learning_rate=0.05, num_leaves=15, verbose=-1, n_jobs=1, random_state=0
    )
    held = [(rows.x[is_known], np.searchsorted(classes, rows.y[is_known]))]
    stopping = [early_stopping(PATIENCE, verbose=False)]
    return _Fitted(model.fit(rows.x[~is_held], codes, eval_set=held, callbacks=stopping), classes)


def _write_part(
    path: Path,
    table: Table,
    scores: dict[str, Scores],
    labels: tuple[np.ndarray, np.ndarray],
    groups: tuple[np.ndarray | None, np.ndarray | None],
) -> None:
    import h5py

    partial = path.with_suffix(".partial")
    with h5py.File(partial, "w") as file:
        file.attrs["source"] = table.source
        for name, of_model in scores.items():
            at = file.create_group(f"{table.name}/{name}")
            at.attrs["kind"] = of_model.kind
            for part, y, group in zip(PARTS, labels, groups, strict=True):
                p = getattr(of_model, part)
                at[f"probas_{part}"] = p[:, 1] if p.shape[1] == 2 else p
                at[f"labels_{part}"] = y
                if group is not None:
                    at[f"groups_{part}"] = group
    partial.replace(path)


def assemble(folder: str) -> None:
    """Write one file and one index of all tables with two classes, and of all with more, from what is there."""
    found: dict[str, list[Path]] = {"binary": [], "multiclass": []}
    for path in sorted((Path(folder) / "parts").glob("*.h5")):
        found["binary" if _is_binary(path) else "multiclass"].append(path)
    for kind, paths in found.items():
        if paths:
            _assemble_kind(Path(folder), f"tables-{kind}", paths)


def _is_binary(path: Path) -> bool:
    import h5py

    with h5py.File(path, "r") as file:
        model = next(iter(file[path.stem].values()))
        return model["probas_cal"].ndim == 1


def _assemble_kind(folder: Path, name: str, paths: list[Path]) -> None:
    import h5py

    half, index = halves(), []
    rows, table = folder / f"{name}.h5", folder / f"{name}-experiments.csv"
    with h5py.File(rows.with_suffix(".partial"), "w") as whole:
        for path in paths:
            with h5py.File(path, "r") as part:
                part.copy(path.stem, whole)
                source = part.attrs["source"]
            for model, held in whole[path.stem].items():
                sizes = (len(held["labels_cal"]), len(held["labels_test"]))
                index.append((path.stem, model, *sizes, held.attrs["kind"], half.get(path.stem, "A"), source))
    with table.with_suffix(".partial").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([INDEX, *index])
    rows.with_suffix(".partial").replace(rows)
    table.with_suffix(".partial").replace(table)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    write_scores(*sys.argv[1:2])
