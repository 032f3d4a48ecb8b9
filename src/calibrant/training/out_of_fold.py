"""Out-of-fold predictions of rows in time, calibrated without their own labels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.dependence import CombinatorialPurgedKFold, PurgedKFold
from calibrant.errors import DataWarning, InvalidInputError, hold_warnings
from calibrant.numerics import FloatArray, IntArray
from calibrant.prior import PriorShift
from calibrant.rows import Rows
from calibrant.training.calibration import WHEN, AnyCalibrator, Calibration, When, calibrate_rows, new_calibrator
from calibrant.training.config import ClassWeight
from calibrant.training.dataset import Dataset
from calibrant.training.models import Model, make_model
from calibrant.training.trainer import training_weight, unweighted
from calibrant.validation import check_choice, check_integer

#: Of the rows to train on and to predict, and a name: probabilities, as they are and without class weights.
_Predict: TypeAlias = Callable[[IntArray, IntArray, str], tuple[FloatArray, FloatArray]]
Variant: TypeAlias = Literal["nested", "blocks", "specified"]
VARIANTS: tuple[str, ...] = get_args(Variant)
#: Rows of each training set that early stopping is decided on: the last ones.
STOPPING_SHARE = 0.15
_SPECIFIED_SHARE = 0.3
_LEAST_FOLDS = {"nested": 3, "blocks": 2, "specified": 2}
_LEAST_STOPPING_ROWS = 20


@dataclass(frozen=True, slots=True, eq=False)
class OutOfFold:
    """Predictions of every row by models, and calibrators, that have not seen it.

    Attributes
    ----------
    raw, calibrated : ndarray of shape (n, K)
        Probabilities of the classes, before and after calibration.
    fold : ndarray of shape (n,)
        The fold of each row, from 0.
    calibration : Calibration
        Fitted to `raw` of all rows, without the effect of class weights: for what a model that is fitted to all of
        them says of new rows. Whether it is used was decided for each fold by the other folds alone.
    variant : str
    n_models : int
        Number of models that were fitted.
    train_s, calibrate_s : float
        Processor time of fitting and predicting, and of calibration.
    """

    raw: FloatArray
    calibrated: FloatArray
    fold: IntArray
    calibration: Calibration
    variant: str
    n_models: int
    train_s: float
    calibrate_s: float


def out_of_fold_predictions(
    data: Dataset,
    model: Any = "xgboost",
    *,
    calibrator: str | Calibrator = "temperature",
    variant: Variant = "nested",
    n_folds: int = 5,
    embargo: int | None = None,
    seed: int = 0,
    n_threads: int = 1,
    params: dict[str, Any] | None = None,
    uniqueness: bool = True,
    class_weight: ClassWeight = "none",
    calibrate: When = "auto",
    progress: Callable[[str], None] | None = None,
) -> OutOfFold:
    """Predict every row by a model trained without it, and calibrate it without its label.

    Parameters
    ----------
    data : Dataset
    model : str or scikit-learn classifier
        As for `make_model`.
    calibrator : str or Calibrator
        A name, an unfitted instance, or "specified" for `ProbabilityCalibrator`.
    variant : {"nested", "blocks", "specified"}
        "nested": the calibrator of a fold is fitted to predictions of the other folds by models that were trained
        without it. "blocks": fitted to the other folds' out-of-fold predictions, whose models did see the fold.
        "specified": one calibrator, fitted to a random 30% of the rows and applied to all, these among them.
    n_folds : int
        Folds, next to each other in time: at least three for "nested", else two.
    embargo : int, optional
        Rows that start within so many bars, or usual steps between bars, after a fold's last label are not trained on;
        the horizon by default.
    seed, n_threads, params
        As for `make_model`.
    uniqueness : bool
        Weigh training rows by how little their labels overlap others.
    class_weight : {"none", "balanced"}
        "balanced" gives all classes the same weight in training, which is undone before calibration.
    calibrate : {"auto", "if_better", "always"}
        When the calibrator is used; see `calibrant.training.calibration.calibrate_rows`.
    progress : callable, optional
        Told of each model in a line.

    Returns
    -------
    OutOfFold

    Raises
    ------
    CalibrantError
        If an argument can't be used, or folds leave nothing to train on.

    Warns
    -----
    DataWarning
        For the variant "specified", which is optimistic.

    Notes
    -----
    A row's label can reach its own calibrated prediction by three ways: a model trained on the row or on labels that
    overlap it (purging by label ends closes this), a calibrator fitted to the row (fitting it to the other folds
    closes this), and a calibrator fitted to predictions of models that were trained on the row. Only "nested"
    closes the third one, at the price of a model for each pair of folds besides one for each fold: K (K + 1) / 2
    for K folds.

    References
    ----------
    López de Prado (2018), *Advances in financial machine learning*, chapter 7.
    Stone (1974), *Cross-validatory choice and assessment of statistical predictions*, JRSS B 36: nesting.
    """
    n_folds = check_folds(n_folds, variant)
    check_choice("class_weight", class_weight, get_args(ClassWeight))
    check_choice("calibrate", calibrate, WHEN)
    if n_folds > data.n_rows:
        raise InvalidInputError(f"n_folds={n_folds} is more than the {data.n_rows:,} rows. Ask for fewer folds.")
    unused = new_calibrator(calibrator, seed)
    gap = data.horizon_bars if embargo is None else check_integer("embargo", embargo, minimum=0)
    spans = {"times": data.time, "label_end": data.label_end}

    def predicted(train: IntArray, test: IntArray, which: str) -> tuple[FloatArray, FloatArray]:
        """Return what a model fitted to some rows says of others: as it is, and without the effect of class weights."""
        if progress is not None:
            progress(f"{which}: training on {train.size:,} rows")
        made = make_model(model, data.classes.size, seed=seed, n_threads=n_threads, params=params)
        fitted, shift = fit_stopped(made, data, train, uniqueness=uniqueness, class_weight=class_weight)
        said = fitted.predict_proba(data.X[test])
        return said, unweighted(said, shift)

    started = time.process_time()
    raw, even = np.empty((2, data.n_rows, data.classes.size))
    fold = np.empty(data.n_rows, dtype=np.int64)
    trains = []
    for k, (purged, test) in enumerate(PurgedKFold(n_folds, **spans).split(data.X)):
        train = _embargoed(data, purged, [test], gap)
        raw[test], even[test] = predicted(train, test, f"fold {k + 1} of {n_folds}")
        fold[test] = k
        trains.append(train)
    sources = _pair_predictions(data, fold, gap, n_folds, predicted) if variant == "nested" else [even] * n_folds
    trained = time.process_time()
    final = _fitted(unused, data.rows(even), calibrate)
    if variant == "specified":
        warnings.warn(
            f"variant='specified' fits the calibrator to a random {_SPECIFIED_SHARE:.0%} of the rows and then "
            "calibrates these rows too, and rows whose labels overlap theirs: their calibrated figures are optimistic. "
            "Use variant='nested' for figures that hold on new rows.",
            DataWarning,
            stacklevel=2,
        )
        n = data.n_rows
        chosen = np.random.default_rng(seed).choice(n, max(2, round(_SPECIFIED_SHARE * n)), replace=False)
        found = _fitted(unused, data.rows(even).take(np.sort(chosen)), calibrate)
        calibrated = found.calibrator.apply(Rows(even))
    else:
        calibrated = np.empty_like(raw)
        for k, train in enumerate(trains):
            found = _fitted(unused, data.rows(sources[k]).take(train), calibrate)
            calibrated[fold == k] = found.calibrator.apply(Rows(even[fold == k]))
    n_models = n_folds * (n_folds + 1) // 2 if variant == "nested" else n_folds
    seconds = (trained - started, time.process_time() - trained)
    return OutOfFold(raw, calibrated, fold, final, variant, n_models, *seconds)


def check_folds(n_folds: int, variant: Variant) -> int:
    """Return a number of folds that is enough for a variant."""
    check_choice("variant", variant, VARIANTS)
    return check_integer("n_folds", n_folds, minimum=_LEAST_FOLDS[variant])


def fit_stopped(
    model: Model, data: Dataset, train: IntArray, *, uniqueness: bool = True, class_weight: ClassWeight = "none"
) -> tuple[Model, PriorShift | None]:
    """Fit a model to some rows, its early stopping to the last of them; return it, and what undoes class weights.

    `train` holds the numbers of the rows, rising. The last 15% stop boosting, purged, unless these are too few rows.
    """
    kept, stop = train, np.empty(0, dtype=np.int64)
    n_stop = int(STOPPING_SHARE * train.size)
    if n_stop >= _LEAST_STOPPING_ROWS:
        kept, stop = train[:-n_stop], train[-n_stop:]
        kept = kept[data.label_end[kept] < data.time[stop].min()]
    if np.unique(data.y[kept]).size < 2:
        raise InvalidInputError(
            f"a training set of {kept.size:,} rows holds fewer than two classes. Pass more rows or ask for fewer folds."
        )
    codes = data.codes
    watched = (data.X[stop], codes[stop]) if stop.size else None
    weight, shift = training_weight(data.take(kept), uniqueness=uniqueness, balanced=class_weight == "balanced")
    return model.fit(data.X[kept], codes[kept], sample_weight=weight, stop=watched), shift


def _embargoed(data: Dataset, train: IntArray, blocks: list[IntArray], embargo: int) -> IntArray:
    """Return the purged training rows without those that start within the embargo after a block that is predicted."""
    for block in blocks:
        is_later = data.time[train] > data.label_end[block].max()
        later = data.starts_after(train[is_later], data.label_end[block].max(), embargo)
        train = np.concatenate((train[~is_later], later))
    if train.size == 0:
        raise InvalidInputError(
            f"an embargo of {embargo:,} bars leaves a fold no row to train on. Pass more rows, ask for fewer folds "
            "or, from Python, for a shorter embargo."
        )
    return np.sort(train)


def _pair_predictions(
    data: Dataset, fold: IntArray, embargo: int, n_folds: int, predicted: _Predict
) -> list[FloatArray]:
    """Return, for each fold, predictions of the other folds by models trained without both; its own rows stay NaN."""
    sources = [np.full((data.n_rows, data.classes.size), np.nan) for _ in range(n_folds)]
    splits = CombinatorialPurgedKFold(n_folds, 2, times=data.time, label_end=data.label_end).split(data.X)
    for (j, k), (purged, test) in zip(combinations(range(n_folds), 2), splits, strict=True):
        train = _embargoed(data, purged, [test[fold[test] == each] for each in (j, k)], embargo)
        _, even = predicted(train, test, f"folds {j + 1} and {k + 1} of {n_folds}")
        of_j = fold[test] == j
        sources[k][test[of_j]] = even[of_j]
        sources[j][test[~of_j]] = even[~of_j]
    return sources


def _fitted(unused: AnyCalibrator, rows: Rows, calibrate: When) -> Calibration:
    with hold_warnings():  # such as a class that a fold lacks
        return calibrate_rows(unused, rows, when=calibrate)
