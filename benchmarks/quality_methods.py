"""What the benchmark of quality compares: our methods, and combinations that no package ships."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import calibrant as cb
from benchmarks.score_sets import ScoreSet
from calibrant.calibrators import BINARY_CALIBRATORS, CALIBRATORS, Calibrator, make_calibrator
from calibrant.dependence import stratified_folds
from calibrant.numerics import softmax

#: A probability of exactly 0 or 1 that is wrong costs this much log loss and no more, so that means exist.
CLIP = 1e-15
UNCALIBRATED = "none"
AUTO = "auto"
PICKED = (UNCALIBRATED, "temperature", "sigmoid", "beta", "quadratic", "venn_abers")
BLENDED = ("beta", "venn_abers", "temperature")
Predict = Callable[[ScoreSet], np.ndarray]


@dataclass(frozen=True)
class Method:
    """A method: `fit` takes calibration rows and gives what predicts probabilities of others.

    `most_classes` and `most_rows` are the numbers of classes and rows up to which it is run. `rival` is the method of
    ours that does the same, where `is_peer` says that this is another package's.
    """

    name: str
    fit: Callable[[ScoreSet], Predict]
    rival: str = ""
    most_classes: int = 1_000
    most_rows: int = 20_000
    is_peer: bool = False


def binary_methods() -> list[Method]:
    """Return every method for two classes, then combinations of them."""
    names = (*BINARY_CALIBRATORS, "temperature", *_more())
    methods = [Method(UNCALIBRATED, lambda _: lambda s: s.p), *(_ours(name) for name in names)]
    methods.append(Method("isotonic, bounded", _fit_of(lambda kind: cb.IsotonicCalibrator(bounded=True, input=kind))))
    methods.append(Method("X mean logit of beta, Venn-Abers, temperature", _fit_mean))
    methods.append(Method("X choice by 5-fold cross-validation", lambda s: _ours(pick(s)).fit(s)))
    return methods


def multiclass_methods() -> list[Method]:
    """Return every method for more classes; those of two classes are applied one-vs-rest."""
    whole = [_ours(name) for name in CALIBRATORS if name not in BINARY_CALIBRATORS or name == AUTO]
    by_column = [Method(f"{name} one-vs-rest", _ours(name).fit) for name in BINARY_CALIBRATORS if name != AUTO]
    return [Method(UNCALIBRATED, lambda _: lambda s: s.p), *whole, *by_column]


def _more() -> Iterator[str]:
    """Name the other methods that can be fitted to one score."""
    return (name for name in CALIBRATORS if name in ("ensemble_temperature",))


def _ours(name: str) -> Method:
    if name == UNCALIBRATED:
        return Method(name, lambda _: lambda s: s.p)
    takes_input = "input" in type(make_calibrator(name)).__init__.__annotations__
    return Method(name, _fit_of(lambda kind: make_calibrator(name, **({"input": kind} if takes_input else {}))))


def _fit_of(make: Callable[..., Calibrator]) -> Callable[[ScoreSet], Predict]:
    """Return the fit to decision scores where there are some and the method takes them, else to probabilities.

    Groups are declared to the method that takes them.
    """

    def fit(calibration: ScoreSet) -> Predict:
        calibrator = make("probability" if calibration.raw is None else "score")
        is_raw = calibrator.input == "score"

        def values(score_set: ScoreSet) -> np.ndarray:
            return score_set.raw if is_raw and score_set.raw is not None else score_set.p

        n_classes = 2 if calibration.p.ndim == 1 else calibration.p.shape[1]
        groups = calibration.group
        is_declared = isinstance(calibrator, cb.AutoCalibrator) and groups is not None and np.unique(groups).size > 1
        declared = {"cluster": groups} if is_declared else {}
        calibrator.fit(values(calibration), calibration.y, classes=np.arange(n_classes), **declared)
        return lambda score_set: np.asarray(calibrator.predict_proba(values(score_set)))

    return fit


def pick(calibration: ScoreSet) -> str:
    """Return the method of least out-of-fold log loss."""
    folds = stratified_folds(calibration.y, 5, 0)
    losses = dict.fromkeys(PICKED, 0.0)
    for fold in range(5):
        rest, held_out = (calibration.take(folds != fold), calibration.take(folds == fold))
        for name in PICKED:
            losses[name] += float(log_losses(_ours(name).fit(rest)(held_out), held_out.y).sum())
    return min(losses, key=lambda name: losses[name])


def _fit_mean(calibration: ScoreSet) -> Predict:
    parts = [_ours(name).fit(calibration) for name in BLENDED]

    def predict(score_set: ScoreSet) -> np.ndarray:
        outputs = [np.clip(part(score_set), CLIP, 1.0 - CLIP) for part in parts]
        z = np.mean([np.log(q) - np.log1p(-q) for q in outputs], axis=0)
        return softmax(np.column_stack((np.zeros_like(z), z)))[:, 1]

    return predict


def log_losses(q: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the log loss of each row, with probabilities moved inside [CLIP, 1 - CLIP]."""
    if q.ndim == 1:
        q = np.clip(q, CLIP, 1.0 - CLIP)
        return np.where(y == 1, -np.log(q), -np.log1p(-q))
    return -np.log(np.clip(q[np.arange(y.size), y], CLIP, 1.0))
