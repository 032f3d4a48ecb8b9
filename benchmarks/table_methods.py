"""What the benchmark of tables compares: the methods of the benchmark of quality, and calibrators by boosted trees.

netcal's BBQ and ENIR are run up to the numbers of rows that `peers` has for them. Left out of probmetrics: what takes
about a second in each run (matrix scaling without a penalty, softplus, kernels), and what it wraps of other packages.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np

from benchmarks.peers import binary_peers, both_columns, like, multiclass_peers, peer, probmetrics_peers
from benchmarks.quality_methods import CLIP, Method, Predict, binary_methods, multiclass_methods
from benchmarks.score_sets import ScoreSet
from calibrant.numerics import softmax

#: Boosting stops when the log loss of this share of the rows has not fallen for so many rounds.
HELD_SHARE, PATIENCE, MOST_ROUNDS = 0.2, 20, 300
#: probmetrics's methods that the benchmark of quality leaves out.
_MORE_BINARY = (
    ("temperature with mixing", "ts-mix", "temperature"),
    ("ETS", "ETSCalibrator", "ensemble_temperature"),
    ("CDF spline", "CDFSplineCalibrator", "spline"),
    ("histogram", "BinaryHistogramBinningCalibrator", "histogram"),
)
_MORE_MULTICLASS = (("vector scaling", "VectorScalingCalibrator", "vector"),)


def methods_of(kind: str) -> list[Method]:
    """Return every method of ours and of peers for "binary" or "multiclass"."""
    if kind == "binary":
        found = [*binary_methods(), *binary_peers(), *probmetrics_peers(_MORE_BINARY)]
    else:
        found = [*multiclass_methods(), *multiclass_peers(), *probmetrics_peers(_MORE_MULTICLASS)]
    return [*found, *_boosted()]


def _boosted() -> Iterator[Method]:
    if find_spec("catboost") is not None:
        yield peer("catboost on logits", _fit_catboost, "")
    if find_spec("lightgbm") is not None:
        yield peer("lightgbm from logits", _fit_lightgbm, "")


def _fit_catboost(calibration: ScoreSet) -> Predict:
    from catboost import CatBoostClassifier

    n_classes = both_columns(calibration.p).shape[1]
    model = CatBoostClassifier(
        iterations=MOST_ROUNDS,
        depth=3,
        early_stopping_rounds=PATIENCE,
        loss_function="Logloss" if n_classes == 2 else "MultiClass",
        classes_count=None if n_classes == 2 else n_classes,
        thread_count=1,
        random_seed=0,
        verbose=False,
        allow_writing_files=False,
    )
    z, is_held = logits(calibration.p), _held_out(calibration.y)
    model.fit(z[~is_held], calibration.y[~is_held], eval_set=(z[is_held], calibration.y[is_held]))
    return lambda score_set: like(model.predict_proba(logits(score_set.p)), score_set.p)


def _fit_lightgbm(calibration: ScoreSet) -> Predict:
    """Boost from the given logits on, so that no round leaves them as they are."""
    import lightgbm

    z, y, is_held = logits(calibration.p), calibration.y, _held_out(calibration.y)
    task = {"objective": "binary"} if z.shape[1] == 1 else {"objective": "multiclass", "num_class": z.shape[1]}
    settings = {**task, "learning_rate": 0.05, "num_leaves": 8, "num_threads": 1, "verbose": -1, "seed": 0}
    data = [
        lightgbm.Dataset(z[rows], y[rows], init_score=z[rows].ravel(order="F"), free_raw_data=False)
        for rows in (~is_held, is_held)
    ]
    stopping = lightgbm.early_stopping(PATIENCE, verbose=False)
    model = lightgbm.train(settings, data[0], MOST_ROUNDS, valid_sets=data[1:], callbacks=[stopping])

    def predict(score_set: ScoreSet) -> np.ndarray:
        z = logits(score_set.p)
        raised = z + model.predict(z, raw_score=True).reshape(z.shape)
        whole = np.column_stack((np.zeros(len(z)), raised)) if z.shape[1] == 1 else raised
        return like(softmax(whole), score_set.p)

    return predict


def logits(p: np.ndarray) -> np.ndarray:
    """Return a column of logits, or of more classes each log probability less the mean of its row."""
    if p.ndim == 1:
        p = np.clip(p, CLIP, 1.0 - CLIP)
        return (np.log(p) - np.log1p(-p))[:, None]
    z = np.log(np.clip(p, CLIP, 1.0))
    return z - z.mean(axis=1, keepdims=True)


def _held_out(y: np.ndarray) -> np.ndarray:
    """Hold a share of the rows of each class out, so that boosted trees see every class of two rows."""
    rng = np.random.default_rng(0)
    is_held = np.zeros(y.size, dtype=bool)
    for each in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == each))
        is_held[rows[: round(HELD_SHARE * rows.size)]] = True
    return is_held
