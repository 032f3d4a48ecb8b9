"""Calibrators inside a run: made by name, fitted to rows in time, and used only where they help, if asked for that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant.calibrators import (
    Calibrator,
    IsotonicCalibrator,
    TemperatureCalibrator,
    calibrator_kind,
    make_calibrator,
    out_of_fold,
)
from calibrant.chain import Chain
from calibrant.dependent_rows import units_of
from calibrant.errors import InvalidInputError, hold_warnings
from calibrant.fitted import Fitted
from calibrant.maps import BetaMap, SoftmaxMap
from calibrant.metrics import error_over_units, row_log_loss
from calibrant.numerics import FloatArray, own_clip
from calibrant.prior import PriorShift
from calibrant.probability import CalibrationConfig, ProbabilityCalibrator
from calibrant.rows import Rows

#: Whatever calibrates a model in a run.
AnyCalibrator: TypeAlias = Calibrator | ProbabilityCalibrator
When = Literal["auto", "if_better", "always"]
WHEN: tuple[str, ...] = get_args(When)
#: The name under which a run takes `ProbabilityCalibrator`, beside the names of `CALIBRATORS`.
SPECIFIED = "specified"
#: Folds in time by which the use of a calibrator is decided.
_N_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Calibration:
    """A calibrator as a run uses it."""

    #: The fitted one; where that is left out, a temperature of one, which leaves probabilities as they are.
    calibrator: AnyCalibrator
    is_used: bool
    #: By how much the fitted one changes the mean log loss of folds in time that it was not fitted to; None where it is
    #: used whatever that would be. And its standard error, by labels that are independent; None of an infinite one.
    change: float | None
    change_error: float | None
    #: The temperature that was fitted, whether used or not; None for other calibrators.
    temperature: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return what was decided as plain values."""
        return {
            "used": self.is_used,
            "log_loss_change_on_unseen_blocks": self.change,
            "standard_error_of_the_change": self.change_error,
            "temperature": self.temperature,
            "decision": self.describe(),
        }

    def describe(self) -> str:
        """Return what was decided, and why, in a sentence."""
        found = "" if self.temperature is None else f" (temperature {self.temperature:.4g})"
        if self.temperature == math.inf:
            found = " (temperature infinite: the model says nothing of the labels, or its columns are swapped)"
        if self.change is None:
            return f"calibrator used{found}"
        what = "used" if self.is_used else "left out"
        if self.change_error is None:
            which = "without" if self.change < 0.0 else "with"
            return f"calibrator {what}{found}: {which} it the log loss is infinite on blocks that it was not fitted to"
        way = "falls" if self.change < 0.0 else "rises"
        return (
            f"calibrator {what}{found}: on blocks in time that it was not fitted to, the log loss {way} by "
            f"{abs(self.change):.4f} (standard error {self.change_error:.4f})"
        )


def new_calibrator(calibrator: str | Calibrator, seed: int = 0) -> AnyCalibrator:
    """Return an unfitted calibrator of probabilities: by its name, the specified one, or like the one given.

    Isotonic regression and mimic, asked for by name, are bounded: they rule nothing out.
    """
    if calibrator == SPECIFIED:
        return ProbabilityCalibrator(CalibrationConfig(seed=seed))
    made = make_calibrator(calibrator, **_bounded(calibrator) if isinstance(calibrator, str) else {})
    made.check_params()
    if made.input != "probability":
        raise InvalidInputError(
            f"calibrator={made!r} takes scores of input={made.input!r}, but models give probabilities. "
            'Pass one of input="probability".'
        )
    return made


def _bounded(name: str) -> dict[str, Any]:
    """Return the settings by which a calibrator of this name gives neither 0 nor 1, where it has any."""
    taken = calibrator_kind(name).param_names()
    inner = {"calibrator": IsotonicCalibrator(bounded=True)} if "calibrator" in taken else {}
    return {"bounded": True} if "bounded" in taken else inner


def deployed(calibrator: AnyCalibrator, shift: PriorShift | None) -> Fitted:
    """Return what turns a model's output into calibrated probabilities: with class weights, these are undone first."""
    return calibrator if shift is None else Chain([shift, calibrator])


def calibrate_rows(calibrator: AnyCalibrator, rows: Rows, *, when: When) -> Calibration:
    """Fit a new calibrator with the settings of this one to rows, and decide by these alone whether it is used.

    "if_better": used where it lowers the mean log loss of five folds in time, each calibrated by a fit to the others,
    purged. "auto": that for a temperature below one, and always for anything else.

    A temperature below one makes probabilities surer. Being too sure has no bound on its loss, and being too little
    sure costs at most log(K) a row; and labels that overlap are worth few independent ones, so that the temperature
    of a model that was stopped early, and is hardly over-confident, is mostly noise. So surer probabilities have to
    earn their place on folds that the temperature was not fitted to: by more than a standard error of the gain, of
    independent labels. Others that have to be better need only gain.
    """
    if np.count_nonzero(rows.class_weight) < 2:
        raise InvalidInputError(
            f"a calibrator would be fitted to {rows.n_rows:,} rows of one class. Pass more rows or ask for fewer folds."
        )
    fitted = calibrator.fresh().fit_rows(rows)
    temperature = None
    if isinstance(fitted, TemperatureCalibrator):
        slope = fitted.inverse_temperature_
        temperature = 1.0 / slope if slope > 0.0 else float("inf")
    is_surer = temperature is not None and temperature < 1.0
    if when == "always" or (when == "auto" and not is_surer):
        return Calibration(fitted, True, None, None, temperature)
    unseen = rows.with_scores(out_of_fold(calibrator, rows, rows.folds(_N_FOLDS)))
    change, error = _change(row_log_loss(rows), row_log_loss(unseen), rows)
    is_used = change < (-error if error is not None and is_surer else 0.0)
    return Calibration(fitted if is_used else temperature_of_one(rows), is_used, change, error, temperature)


def _change(before: FloatArray, after: FloatArray, rows: Rows) -> tuple[float, float | None]:
    """Return by how much the mean loss changes, with its standard error; of an infinite one there is none."""
    if not np.isfinite(before).all():
        return float("-inf"), None
    change = after - before
    if not np.isfinite(change).all():
        return float("inf"), None
    return float(change.mean()), error_over_units(change, np.ones(change.size), units_of(rows, change)).error.error


def temperature_of_one(rows: Rows) -> TemperatureCalibrator:
    """Return the calibrator that leaves probabilities as they are, but for those too small to have a logarithm.

    Later rows may be surer than all of these. Votes and certainties are what half a vote makes of them (`own_clip`). It
    says that it was fitted to no row.
    """
    made = TemperatureCalibrator()
    if rows.n_classes == 2:
        made.map_ = BetaMap(1.0, 1.0, 0.0, own_clip(rows.scores[:, 1], rows.total_weight))
    else:
        clip = own_clip(rows.scores, rows.total_weight)
        made.map_ = SoftmaxMap(np.array(1.0), np.zeros(rows.n_classes), clip)
    made.classes_, made.n_rows_, made.score_names_ = rows.classes, 0, None
    return made


def cross_calibrated(calibrator: AnyCalibrator, rows: Rows, *, when: When) -> FloatArray:
    """Calibrate each of five folds in time as the others decide: whether by a fit to them, or not at all.

    A row's own label, and those that overlap it, have no part in what it becomes.
    """
    out, folds = np.empty_like(rows.scores), rows.folds(_N_FOLDS)
    with hold_warnings():  # said once, by the fit to all rows
        for fold in range(_N_FOLDS):
            rest, held_out = rows.split(folds, fold)
            out[folds == fold] = calibrate_rows(calibrator, rest, when=when).calibrator.apply(held_out)
    return out
