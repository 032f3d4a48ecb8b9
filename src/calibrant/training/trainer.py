"""The trainer: fit a model, stop it on rows of its own, calibrate on the validation part, predict the test part."""

from __future__ import annotations

import logging
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import persistence
from calibrant.fitted import Fitted
from calibrant.numerics import FloatArray
from calibrant.prior import PriorShift
from calibrant.rows import Rows
from calibrant.training.calibration import Calibration, calibrate_rows, cross_calibrated, deployed, new_calibrator
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset, Holdout
from calibrant.training.metrics_report import Forecasts
from calibrant.training.models import Model, make_model
from calibrant.training.run_log import LOGGER

_LOG = logging.getLogger(f"{LOGGER}.trainer")
#: Fits of the calibrator that are timed: at most so many, as long as they take less than so many seconds.
_FITS_TIMED, _TIMED_S = 6, 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A model with its calibrator, and what both say of rows that they were not fitted on."""

    model: Model
    #: Whether the calibrator is used, and why.
    calibration: Calibration
    #: What turns the model's output into calibrated probabilities: the calibrator, before which a chain undoes the
    #: weights that classes had in training.
    calibrator: Fitted
    #: Of the rows before the test part, by fits that saw neither these rows nor labels that overlap theirs.
    earlier: Forecasts
    test: Forecasts
    #: Seconds of processor time by step.
    cpu_s: dict[str, float]

    def save(self, folder: Path, metadata: dict[str, Any]) -> None:
        """Write the model and its calibrator, with what was decided about it, into a new folder."""
        folder.mkdir(parents=True)
        self.model.save(folder)
        save_calibrator(self.calibrator, folder, {"decision": self.calibration.describe(), **metadata})


def save_calibrator(calibrator: Fitted, folder: Path, metadata: dict[str, Any]) -> None:
    """Write what turns a model's output into calibrated probabilities beside the model."""
    for suffix in ("json", "pkl"):
        persistence.save(calibrator, folder / f"calibrator.{suffix}", metadata=metadata)


def training_weight(data: Dataset, *, uniqueness: bool, balanced: bool) -> tuple[FloatArray, PriorShift | None]:
    """Return the weight of each training row, and what undoes the part that classes have in it."""
    weight = data.weight if uniqueness else np.ones(data.n_rows)
    if not balanced:
        return weight, None
    total = np.bincount(data.codes, weights=weight, minlength=data.classes.size)
    of_class = np.divide(weight.sum(), data.classes.size * total, out=np.ones(total.size), where=total > 0.0)
    shift = PriorShift.from_class_weight(dict(zip(data.classes.tolist(), of_class.tolist(), strict=True)))
    return weight * of_class[data.codes], shift


def unweighted(raw: FloatArray, shift: PriorShift | None) -> FloatArray:
    """Return probabilities without the effect of class weights that `shift` undoes; as they are, without any."""
    return raw if shift is None else shift.apply_values(raw)


def train_model(config: TrainConfig, data: Dataset, parts: Holdout, *, model: Any = None) -> Trained:
    """Fit, stop, calibrate and predict, each on its own part of the rows; nothing here reads labels of the test part.

    `model` is a classifier of scikit-learn, in place of the model that the settings name.
    """
    fitted = make_model(config.model if model is None else model, data.classes.size, **config.of_library())
    rows, stop = data.take(parts.fit), data.take(parts.stop)
    weight, shift = training_weight(rows, uniqueness=config.uniqueness, balanced=config.class_weight == "balanced")
    began = time.process_time()
    fitted.fit(rows.X, rows.codes, sample_weight=weight, stop=(stop.X, stop.codes))
    model_s = time.process_time() - began
    _LOG.info("Model fitted: %s, %d rounds, %d rows", config.model, fitted.n_rounds_, parts.fit.size)
    validation, test = data.take(parts.validation), data.take(parts.test)
    raw, raw_test = fitted.predict_proba(validation.X), fitted.predict_proba(test.X)
    to_calibrate = validation.rows(unweighted(raw, shift))
    calibration, first_s, fit_s = _timed_calibration(config, to_calibrate)
    calibrator = deployed(calibration.calibrator, shift)
    calibrated = calibrator.apply(Rows(raw_test))  # this first time also loads compiled loops
    began = time.process_time()
    calibrator.apply(Rows(raw_test))
    apply_s = time.process_time() - began
    unused = new_calibrator(config.calibrator, config.seed)
    cross_fitted = cross_calibrated(unused, to_calibrate, when=config.calibrate)
    before = np.concatenate((parts.fit, parts.stop))
    earlier = Forecasts.beside_rates(raw, cross_fitted, data.take(before))
    on_test = Forecasts.beside_rates(raw_test, calibrated, data.take(np.concatenate((before, parts.validation))))
    cpu_s = {"model_fit": model_s, "calibrator_first_fit": first_s, "calibrator_fit": fit_s}
    return Trained(fitted, calibration, calibrator, earlier, on_test, cpu_s | {"calibrator_apply": apply_s})


def overhead(cpu_s: dict[str, float]) -> float:
    """Return the processor time of calibration as a share of that of the model's fit."""
    return (cpu_s["calibrator_fit"] + cpu_s["calibrator_apply"]) / max(cpu_s["model_fit"], 1e-9)


def _timed_calibration(config: TrainConfig, rows: Rows) -> tuple[Calibration, float, float]:
    """Calibrate, and return the seconds of the first fit, which also loads compiled loops, and of a later one.

    Of the later fits the least counts, as whatever else the machine does only adds to it.
    """
    seconds: list[float] = []
    while len(seconds) < 2 or (len(seconds) < _FITS_TIMED and sum(seconds[1:]) < _TIMED_S):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            began = time.process_time()
            calibrator = new_calibrator(config.calibrator, config.seed)
            found = calibrate_rows(calibrator, rows, when=config.calibrate)
            seconds.append(time.process_time() - began)
    for warning in said:
        _LOG.warning("%s calibrator: %s", config.calibrator, warning.message)
    _LOG.info("%s: %s", config.calibrator, found.describe())
    return found, seconds[0], min(seconds[1:])
