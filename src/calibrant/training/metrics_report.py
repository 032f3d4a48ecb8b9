"""Figures of a run: before and after calibration beside class frequencies, with intervals for labels that overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.metrics.bins import make_bins
from calibrant.metrics.calibration_error import binned_error
from calibrant.metrics.proper_scores import row_brier, row_log_loss
from calibrant.metrics.rows import Rows
from calibrant.numerics import FloatArray, IntArray
from calibrant.splits.times import TimeArray
from calibrant.training.dataset import Dataset
from calibrant.validation import Labels

#: Equal-width bins of the top label's confidence, as in `ProbabilityCalibrator`.
N_BINS = 10
_DRAWS = 1000
_LEVEL = 0.95
BRIER_TARGET, ECE_TARGET = 0.15, 0.05
BEFORE, AFTER, NO_SKILL = "raw", "calibrated", "class_frequencies"


@dataclass(frozen=True, slots=True, eq=False)
class Forecasts:
    """Probabilities of the same rows: of the model, calibrated, and the class frequencies of earlier rows."""

    raw: FloatArray
    calibrated: FloatArray
    class_frequencies: FloatArray

    def named(self) -> dict[str, FloatArray]:
        """Return each under its name."""
        return {BEFORE: self.raw, AFTER: self.calibrated, NO_SKILL: self.class_frequencies}


class _Resampler:
    """Circular block bootstrap over times: all rows of a time stay together, and so do neighbouring times.

    References
    ----------
    Politis and Romano (1992), *A circular block-resampling procedure for stationary data*.
    """

    def __init__(self, time: TimeArray, label_end: TimeArray, seed: int) -> None:
        self.times, self.of_row = np.unique(time, return_inverse=True)
        n = self.times.size
        span = np.searchsorted(self.times, label_end, side="right") - 1 - self.of_row
        self.length = int(np.clip(2 * span.max(), 1, max(n // 5, 1)))
        n_blocks = -(-n // self.length)
        self.starts: IntArray = np.random.default_rng(seed).integers(0, n, (_DRAWS, n_blocks))

    def totals(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of columns over all rows, and over those of each draw, shape (draws, columns)."""
        per_time = np.zeros((self.times.size, columns.shape[1]))
        np.add.at(per_time, self.of_row, columns)
        wrapped = np.concatenate((per_time, per_time[: self.length]))
        running = np.concatenate((np.zeros((1, columns.shape[1])), np.cumsum(wrapped, axis=0)))
        of_block = running[self.length :][: self.times.size] - running[: self.times.size]
        drawn = np.zeros((_DRAWS, columns.shape[1]))
        for starts in self.starts.T:
            drawn += of_block[starts]
        return per_time.sum(axis=0), drawn


def figures(data: Dataset, forecasts: Forecasts, *, seed: int = 0) -> dict[str, Any]:
    """Measure forecasts of the rows, with intervals that allow for labels that overlap.

    Parameters
    ----------
    data : Dataset
        The rows.
    forecasts : Forecasts
    seed : int
        Of the bootstrap.

    Returns
    -------
    dict
        `forecasts`: of each, `log_loss`, `brier`, `ece` and `accuracy` with `value`, `low`, `high` and, but for the
        ECE, `skill`: one minus the loss over that of the class frequencies. `differences`: the calibrated log loss
        less the other two, with standard errors. `ece_noise_band`: the ECE that calibrated probabilities with the
        same confidences would stay below, 95 times in 100.

    Notes
    -----
    The Brier score is the sum over classes. Intervals: percentiles of block-bootstrap draws; for the ECE reflected
    ones, as resampling adds noise to it. The noise band resamples the bins' gaps less their means.
    """
    labels = Labels(data.codes, data.classes)
    resampler = _Resampler(data.time, data.label_end, seed)
    measured = {name: _Measured(Rows(p, labels, None), resampler) for name, p in forecasts.named().items()}
    base = measured[NO_SKILL]
    after = measured[AFTER]
    return {
        "n_rows": data.n_rows,
        "n_independent": round(float(data.weight.sum()), 1),
        "from": str(data.time.min()),
        "to": str(data.label_end.max()),
        "interval": {"level": _LEVEL, "method": "circular block bootstrap", "block_length_in_bars": resampler.length},
        "forecasts": {name: one.as_dict(base) for name, one in measured.items()},
        "differences": {
            f"log_loss_{AFTER}_minus_{name}": after.difference(measured[name]) for name in (BEFORE, NO_SKILL)
        },
        "ece_noise_band": {name: one.noise_band for name, one in measured.items()},
    }


class _Measured:
    """One forecast's scores and their draws."""

    def __init__(self, rows: Rows, resampler: _Resampler) -> None:
        top = rows.top_label()
        log_loss = row_log_loss(rows)
        self.is_finite = bool(np.isfinite(log_loss).all())
        kept = log_loss if self.is_finite else np.zeros_like(log_loss)
        bin_of = np.searchsorted(np.linspace(0.0, 1.0, N_BINS + 1)[1:-1], top.scores, side="left")
        gaps = np.zeros((rows.n_rows, N_BINS))
        gaps[np.arange(rows.n_rows), bin_of] = top.scores - top.positive
        columns = np.column_stack((np.ones(rows.n_rows), kept, row_brier(rows), ~top.positive, gaps))
        total, drawn = resampler.totals(columns)
        self.values = {"log_loss": float(log_loss.mean()), "brier": total[2] / total[0], "error": total[3] / total[0]}
        share = drawn[:, 1:] / drawn[:, :1]
        self.drawn = {"log_loss": share[:, 0], "brier": share[:, 1], "error": share[:, 2]}
        gap = total[4:] / total[0]
        self.values["ece"] = binned_error(make_bins(top.summary(), N_BINS, "uniform"), "l1")
        self.drawn["ece"] = np.abs(share[:, 3:]).sum(axis=1)
        self.noise_band = float(np.quantile(np.abs(share[:, 3:] - gap).sum(axis=1), _LEVEL))

    def as_dict(self, base: _Measured) -> dict[str, Any]:
        """Return the scores with intervals, and their skill over another forecast."""
        found: dict[str, Any] = {}
        for name in ("log_loss", "brier"):
            low, high = self._percentiles(name)
            found[name] = {"value": self.values[name], "low": low, "high": high, "skill": self._skill(name, base)}
        low, high = self._percentiles("ece")
        value = self.values["ece"]
        reflected = {"low": max(2.0 * value - high, 0.0), "high": max(2.0 * value - low, value)}
        found["ece"] = {"value": value, **reflected, "noise_band": self.noise_band}
        low, high = self._percentiles("error")
        value = 1.0 - self.values["error"]
        found["accuracy"] = {"value": value, "low": 1.0 - high, "high": 1.0 - low, "skill": self._skill("error", base)}
        return found

    def difference(self, other: _Measured) -> dict[str, float]:
        """Return how much larger the log loss is than that of another forecast, with its standard error."""
        if not (self.is_finite and other.is_finite):
            return {"value": self.values["log_loss"] - other.values["log_loss"], "standard_error": float("nan")}
        spread = (self.drawn["log_loss"] - other.drawn["log_loss"]).std(ddof=1)
        value = self.values["log_loss"] - other.values["log_loss"]
        return {"value": float(value), "standard_error": float(spread)}

    def _percentiles(self, name: str) -> tuple[float, float]:
        if name == "log_loss" and not self.is_finite:
            return float("nan"), float("nan")
        low, high = np.quantile(self.drawn[name], (0.5 - 0.5 * _LEVEL, 0.5 + 0.5 * _LEVEL))
        return float(low), float(high)

    def _skill(self, name: str, base: _Measured) -> float:
        of_base = base.values[name]
        return 1.0 - self.values[name] / of_base if of_base > 0.0 else float("nan")


def calibration_block(found: dict[str, Any], *, calibrator: str, fitted_on: str, measured_on: str) -> dict[str, Any]:
    """Return the specified figures of a run: the Brier score and the ECE, before and after."""
    before, after = found["forecasts"][BEFORE], found["forecasts"][AFTER]
    return {
        "brier_before": before["brier"]["value"],
        "brier_after": after["brier"]["value"],
        "ece_before": before["ece"]["value"],
        "ece_after": after["ece"]["value"],
        "brier_no_skill": found["forecasts"][NO_SKILL]["brier"]["value"],
        "ece_no_skill": found["forecasts"][NO_SKILL]["ece"]["value"],
        "brier_skill_before": before["brier"]["skill"],
        "brier_skill_after": after["brier"]["skill"],
        "calibrator": calibrator,
        "fitted_on": fitted_on,
        "measured_on": measured_on,
        "definitions": f"Brier: sum over classes. ECE: top label, {N_BINS} equal bins.",
    }


def gates(found: dict[str, Any]) -> dict[str, Any]:
    """Return whether calibration did no harm, and is worth more than class frequencies."""
    passed = {}
    for name in (BEFORE, NO_SKILL):
        gap = found["differences"][f"log_loss_{AFTER}_minus_{name}"]
        is_fine = bool(gap["value"] <= gap["standard_error"])  # not a number where a log loss is infinite: fails
        passed[f"log_loss_at_most_{name}_plus_1_se"] = {**gap, "passed": is_fine}
    error = found["forecasts"][AFTER]["ece"]
    inside = bool(error["value"] <= error["noise_band"])
    passed["ece_within_noise_band"] = {"value": error["value"], "noise_band": error["noise_band"], "passed": inside}
    return passed


def targets(found: dict[str, Any]) -> dict[str, Any]:
    """Return whether the specification's targets are met, and what a calibrated model of this accuracy could reach."""
    after = found["forecasts"][AFTER]
    least = 1.0 - after["accuracy"]["value"]
    return {
        "brier": {
            "target": BRIER_TARGET,
            "value": after["brier"]["value"],
            "met": bool(after["brier"]["value"] < BRIER_TARGET),
            "least_at_this_accuracy": least,
            "note": "a calibrated forecast has a Brier score of at least one minus its accuracy",
        },
        "ece": {
            "target": ECE_TARGET,
            "value": after["ece"]["value"],
            "met": bool(after["ece"]["value"] < ECE_TARGET),
            "note": "a constant forecast meets it too: see the skill",
        },
    }
