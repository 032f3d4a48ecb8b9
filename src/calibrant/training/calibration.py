"""Calibrators inside a run: made by name, fitted to rows in time, and used only where they help, if asked for that."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from calibrant.calibrators import TemperatureCalibrator, make_calibrator
from calibrant.dependence import PurgedKFold
from calibrant.errors import CalibrantWarning, InvalidInputError
from calibrant.maps import BetaMap, SoftmaxMap
from calibrant.metrics import row_log_loss
from calibrant.numerics import FloatArray
from calibrant.probability import CalibrationConfig, ProbabilityCalibrator
from calibrant.rows import Rows
from calibrant.training.dataset import Dataset
from calibrant.validation import Labels

When = Literal["auto", "if_better", "always"]
WHEN: tuple[str, ...] = get_args(When)
#: The name under which a run takes `ProbabilityCalibrator`, beside the names of `CALIBRATORS`.
SPECIFIED = "specified"
#: Blocks in time of a cross-fit.
BLOCKS = 5


@dataclass(frozen=True, slots=True)
class Calibration:
    """A calibrator as a run uses it.

    Attributes
    ----------
    calibrator : Calibrator or ProbabilityCalibrator
        Where the fitted one is left out: a temperature of one, which leaves probabilities as they are.
    is_used : bool
        Whether it is the fitted one.
    change : float or None
        By how much it changes the mean log loss of blocks in time that it was not fitted to; None where it is used
        without being asked.
    temperature : float or None
        The temperature that was fitted, whether used or not; None for other calibrators.
    """

    calibrator: Any
    is_used: bool
    change: float | None
    temperature: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return what was decided as plain values."""
        return {
            "used": self.is_used,
            "log_loss_change_on_unseen_blocks": self.change,
            "temperature": self.temperature,
            "decision": self.describe(),
        }

    def describe(self) -> str:
        """Return what was decided, and why, in a sentence."""
        found = "" if self.temperature is None else f" (temperature {self.temperature:.4g})"
        if self.change is None:
            return f"calibrator used{found}"
        what = "used" if self.is_used else "left out"
        way = "falls" if self.change < 0.0 else "rises"
        return (
            f"calibrator {what}{found}: on blocks in time that it was not fitted to, the log loss {way} by "
            f"{abs(self.change):.4f}"
        )


def new_calibrator(name: str, seed: int) -> Any:
    """Return an unfitted calibrator: of the registry, or the specified one."""
    if name == SPECIFIED:
        return ProbabilityCalibrator(CalibrationConfig(seed=seed))
    return make_calibrator(name)


def fit_calibrator(calibrator: Any, prob: FloatArray, data: Dataset) -> Any:
    """Fit a calibrator, of either kind, to the labels of rows."""
    return calibrator.fit_rows(Rows(np.ascontiguousarray(prob), Labels(data.codes, data.classes)))


def apply_calibrator(calibrator: Any, prob: FloatArray) -> FloatArray:
    """Apply a calibrator of either kind."""
    return np.asarray(calibrator.predict_proba(prob), dtype=np.float64)


def calibrate_rows(make: Callable[[], Any], prob: FloatArray, data: Dataset, *, when: When) -> Calibration:
    """Fit a calibrator to rows, and decide by these rows alone whether it is used.

    Parameters
    ----------
    make : callable
        Returns an unfitted calibrator.
    prob : ndarray of shape (n, K)
    data : Dataset
        Its labels are those of the rows of `prob`.
    when : {"auto", "if_better", "always"}
        "if_better": used where it lowers the mean log loss of five blocks in time, each calibrated by a fit to the
        others, purged. "auto": that for a temperature below one, and always for anything else.

    Notes
    -----
    A temperature below one makes probabilities surer. Being too sure has no bound on its loss, and being too little
    sure costs at most log(K) a row; and labels that overlap are worth few independent ones, so that the temperature
    of a model that was stopped early, and is hardly over-confident, is mostly noise. So surer probabilities have to
    earn their place on blocks that the temperature was not fitted to: one sign, without a threshold to choose.
    """
    fitted = fit_calibrator(make(), prob, data)
    temperature = None
    if isinstance(fitted, TemperatureCalibrator):
        slope = fitted.inverse_temperature_
        temperature = 1.0 / slope if slope > 0.0 else float("inf")
    is_sharper = temperature is not None and temperature < 1.0
    if when == "always" or (when == "auto" and not is_sharper):
        return Calibration(fitted, True, None, temperature)
    labels = Labels(data.codes, data.classes)
    before, after = (
        float(row_log_loss(Rows(np.ascontiguousarray(p), labels, None)).mean())
        for p in (prob, _cross_fitted(make, prob, data))
    )
    change = after - before if np.isfinite(before) else float("-inf")
    is_used = change < 0.0
    if is_used:
        return Calibration(fitted, is_used, change, temperature)
    left = without_effect(fitted) if isinstance(fitted, TemperatureCalibrator) else leave_alone(prob, data)
    return Calibration(left, is_used, change, temperature)


def leave_alone(prob: FloatArray, data: Dataset) -> TemperatureCalibrator:
    """Return the calibrator that leaves probabilities as they are, but for those too small to have a logarithm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # of the temperature, which is replaced
        return without_effect(TemperatureCalibrator().fit(prob, data.y, classes=data.classes))


def without_effect(calibrator: TemperatureCalibrator) -> TemperatureCalibrator:
    """Set the temperature of a fitted calibrator to one, and return it."""
    match calibrator.map_:
        case SoftmaxMap() as fitted:
            calibrator.map_ = replace(fitted, weight=np.array(1.0))
        case BetaMap() as single:
            calibrator.map_ = replace(single, a=1.0, b=1.0)
        case other:
            raise AssertionError(f"a temperature is no {type(other).__name__}")
    return calibrator


def _cross_fitted(make: Callable[[], Any], prob: FloatArray, data: Dataset) -> FloatArray:
    """Calibrate each of five blocks in time by a fit to the others, purged; without two classes there, leave it.

    Where labels are so long that purging leaves a block no row at all, nothing can be judged, and all is left.
    """
    out, codes = prob.copy(), data.codes
    try:
        folds = list(PurgedKFold(min(BLOCKS, data.n_rows), times=data.time, label_end=data.label_end).split(prob))
    except InvalidInputError:
        return out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # said once, by the fit to all rows
        for fit, held_out in folds:
            part = Labels(codes[fit], data.classes)
            if np.count_nonzero(part.counts()) > 1:
                out[held_out] = _fitted_elsewhere(make(), prob[fit], part, prob[held_out])
    return out


def _fitted_elsewhere(calibrator: Any, prob: FloatArray, labels: Labels, held_out: FloatArray) -> FloatArray:
    """Fit to rows that a fit to more of them has checked already, and apply to others of these."""
    fitted: FloatArray = calibrator.fit_rows(Rows(prob, labels)).apply_values(held_out)
    return fitted


def cross_calibrated(make: Callable[[], Any], prob: FloatArray, data: Dataset, *, when: When) -> FloatArray:
    """Calibrate each of five blocks in time as the others decide: whether by a fit to them, or not at all.

    A row's own label, and those that overlap it, have no part in what it becomes.
    """
    out = np.empty_like(prob)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)  # said once, by the fit to all rows
        for fit, held_out in PurgedKFold(BLOCKS, times=data.time, label_end=data.label_end).split(prob):
            found = calibrate_rows(make, prob[fit], data.take(fit), when=when)
            out[held_out] = apply_calibrator(found.calibrator, prob[held_out])
    return out
