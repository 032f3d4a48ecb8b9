"""The trainer: fit a model, stop it on its own slice, calibrate on the validation part, judge on the untouched test."""

from __future__ import annotations

import logging
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.numerics import FloatArray
from calibrant.prior import PriorShift
from calibrant.training.calibration import (
    Calibration,
    apply_calibrator,
    calibrate_rows,
    cross_calibrated,
    new_calibrator,
)
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset
from calibrant.training.holdout import Holdout
from calibrant.training.metrics_report import Forecasts
from calibrant.training.models import Model, make_model
from calibrant.training.run_log import LOGGER

_LOG = logging.getLogger(f"{LOGGER}.trainer")
#: Fits of the calibrator that are timed: at most so many, as long as they take less than so many seconds.
_FITS_TIMED, _TIMED_S = 6, 0.05


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model with its calibrator.

    Attributes
    ----------
    model : Model
    shift : PriorShift or None
        Undoes the weights that classes had in training, before calibration.
    calibrator : Calibrator or ProbabilityCalibrator
    """

    model: Model
    shift: PriorShift | None
    calibrator: Any

    def unweighted(self, raw: FloatArray) -> FloatArray:
        """Return the model's probabilities without the effect of class weights."""
        return unweighted(raw, self.shift)

    def calibrate(self, raw: FloatArray) -> FloatArray:
        """Return calibrated probabilities of what the model says."""
        return apply_calibrator(self.calibrator, self.unweighted(raw))


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training gave, and what it predicts for rows that it was not fitted on.

    Attributes
    ----------
    fitted : Fitted
    validation, test : Forecasts
        The calibrated ones of the validation part are cross-fitted: each of five blocks in time by a calibrator that
        saw neither it nor a label that overlaps it.
    calibration : Calibration
        Whether the calibrator was used, and why.
    cpu_s : dict
        Seconds of processor time by step.
    """

    fitted: Fitted
    validation: Forecasts
    test: Forecasts
    calibration: Calibration
    cpu_s: dict[str, float]


def unweighted(raw: FloatArray, shift: PriorShift | None) -> FloatArray:
    """Return probabilities without the effect of class weights that `shift` undoes; as they are, without any."""
    return raw if shift is None else np.asarray(shift.predict_proba(raw))


def training_weight(data: Dataset, *, uniqueness: bool, balanced: bool) -> tuple[FloatArray, PriorShift | None]:
    """Return the weight of each training row, and what undoes the part that classes have in it."""
    weight = data.weight if uniqueness else np.ones(data.n_rows)
    shift = None
    if balanced:
        total = np.bincount(data.codes, weights=weight, minlength=data.classes.size)
        of_class = np.divide(weight.sum(), data.classes.size * total, out=np.ones(total.size), where=total > 0.0)
        weight = weight * of_class[data.codes]
        shift = PriorShift.from_class_weight(dict(zip(data.classes.tolist(), of_class.tolist(), strict=True)))
    return weight, shift


def train_model(config: TrainConfig, data: Dataset, parts: Holdout, *, model: Any = None) -> Trained:
    """Fit, stop, calibrate and predict, each on its own part of the rows.

    Parameters
    ----------
    config : TrainConfig
    data : Dataset
    parts : Holdout
    model : scikit-learn classifier, optional
        Instead of the one that the settings name.

    Notes
    -----
    The labels of the test part are read by nothing here.
    """
    fitted_model = make_model(
        config.model if model is None else model,
        data.classes.size,
        seed=config.seed,
        n_threads=config.n_threads,
        params=config.params,
    )
    rows, stop = data.take(parts.fit), data.take(parts.stop)
    weight, shift = training_weight(rows, uniqueness=config.uniqueness, balanced=config.class_weight == "balanced")
    began = time.process_time()
    fitted_model.fit(rows.X, rows.codes, sample_weight=weight, eval_set=(stop.X, stop.codes))
    cpu_s = {"model_fit": time.process_time() - began}
    _LOG.info("Model fitted: %s, %d rounds, %d rows", config.model, fitted_model.n_rounds_, parts.fit.size)
    validation, test = data.take(parts.validation), data.take(parts.test)
    raw_validation, raw_test = fitted_model.predict_proba(validation.X), fitted_model.predict_proba(test.X)
    uncalibrated = Fitted(fitted_model, shift, None).unweighted(raw_validation)

    def make() -> Any:
        return new_calibrator(config.calibrator, config.seed)

    seconds: list[float] = []
    # the first fit also loads compiled loops; of the others the least counts, as whatever else runs only adds to it
    while len(seconds) < 2 or (len(seconds) < _FITS_TIMED and sum(seconds[1:]) < _TIMED_S):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            began = time.process_time()
            calibration = calibrate_rows(make, uncalibrated, validation, when=config.calibrate)
            seconds.append(time.process_time() - began)
    cpu_s |= {"calibrator_first_fit": seconds[0], "calibrator_fit": min(seconds[1:])}
    for warning in said:
        _LOG.warning("%s calibrator: %s", config.calibrator, warning.message)
    _LOG.info("%s: %s", config.calibrator, calibration.describe())
    fitted = Fitted(fitted_model, shift, calibration.calibrator)
    began = time.process_time()
    calibrated = fitted.calibrate(raw_test)
    cpu_s["calibrator_apply"] = time.process_time() - began
    cross_fitted = cross_calibrated(make, uncalibrated, validation, when=config.calibrate)
    before = data.take(np.concatenate((parts.fit, parts.stop)))
    earlier = data.take(np.concatenate((parts.fit, parts.stop, parts.validation)))
    return Trained(
        fitted,
        Forecasts(raw_validation, cross_fitted, _constant(before, validation.n_rows)),
        Forecasts(raw_test, calibrated, _constant(earlier, test.n_rows)),
        calibration,
        cpu_s,
    )


def overhead(cpu_s: dict[str, float]) -> float:
    """Return the processor time of calibration as a share of that of the model's fit."""
    return (cpu_s["calibrator_fit"] + cpu_s["calibrator_apply"]) / max(cpu_s["model_fit"], 1e-9)


def _constant(data: Dataset, n_rows: int) -> FloatArray:
    """Return the class frequencies of rows as a forecast of others."""
    return np.tile(data.class_rates(), (n_rows, 1))
