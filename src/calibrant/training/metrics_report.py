"""Figures of a run: before and after calibration beside class frequencies, with intervals for labels that overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.dependence import block_draws, block_length
from calibrant.metrics import binned_error, make_bins, row_brier, row_log_loss
from calibrant.numerics import FloatArray
from calibrant.rows import Rows
from calibrant.training.dataset import Dataset
from calibrant.validation import as_generator

#: Equal-width bins of the top label's confidence, as in `ProbabilityCalibrator`.
N_BINS = 10
_DRAWS = 1000
_LEVEL = 0.95
#: Standard errors between the parts from which more than chance is suspected: markets change, and runs are many.
_SUSPICIOUS = 4
#: Skill that no honest model of market bars is likely to have.
_TOO_GOOD = 0.3
BRIER_TARGET, ECE_TARGET = 0.15, 0.05
#: Share of the model's fit that calibration may cost.
OVERHEAD_LIMIT = 0.05
#: Differences of mean losses that are rounding: a calibrator that leaves all as it is takes a logarithm and back.
_ROUNDING = 1e-12
#: What the figures of `calibration_figures` mean.
DEFINITIONS = (
    f"Brier: sum over classes. ECE: top label, {N_BINS} equal bins. Skill: 1 less the loss over that of class "
    "frequencies; an ECE has none, as class frequencies have hardly any: compare its noise band, below which the ECE "
    "of perfect probabilities stays 95 times in 100."
)
BEFORE, AFTER, NO_SKILL = "raw", "calibrated", "class_frequencies"


@dataclass(frozen=True, slots=True, eq=False)
class Forecasts:
    """Probabilities of the same rows: of the model, calibrated, and the class frequencies of earlier rows."""

    raw: FloatArray
    calibrated: FloatArray
    class_frequencies: FloatArray

    @classmethod
    def beside_rates(cls, raw: FloatArray, calibrated: FloatArray, earlier: Dataset) -> Forecasts:
        """Put probabilities beside the class frequencies of earlier rows."""
        return cls(raw, calibrated, np.tile(earlier.class_rates(), (len(raw), 1)))

    @classmethod
    def average(cls, several: Sequence[Forecasts]) -> Forecasts:
        """Return the plain average of forecasts of the same rows, with the class frequencies of the first."""
        raw, calibrated = (np.mean([getattr(one, name) for one in several], axis=0) for name in ("raw", "calibrated"))
        return cls(raw, calibrated, several[0].class_frequencies)

    def named(self) -> dict[str, FloatArray]:
        """Return each under its name."""
        return {BEFORE: self.raw, AFTER: self.calibrated, NO_SKILL: self.class_frequencies}

    def columns(self) -> dict[str, FloatArray]:
        """Return each under the start of the names of its columns in files."""
        return {"raw": self.raw, "p": self.calibrated, "no_skill": self.class_frequencies}


def figures(data: Dataset, forecasts: Forecasts, *, rng: int | np.random.Generator | None = 0) -> dict[str, Any]:
    """Measure forecasts of the rows, with intervals that allow for labels that overlap.

    `forecasts`: of each, `log_loss`, `brier`, `ece` and `accuracy` with `value`, `low`, `high` and, but for the ECE,
    `skill`: one minus the loss over that of the class frequencies. `differences`: the calibrated log loss less the
    other two, with standard errors. `ece_noise_band`: the ECE that calibrated probabilities with the same confidences
    would stay below, 95 times in 100.

    All rows of a time are resampled together, with its neighbours in time: labels that overlap, and symbols that move
    together, count for less than as many independent rows.

    The Brier score is the sum over classes. Intervals: percentiles of block-bootstrap draws; for the ECE reflected
    ones, as resampling adds noise to it. The noise band resamples the bins' gaps less their means.
    """
    times, time_of_row = np.unique(data.time, return_inverse=True)
    known = np.maximum.reduceat(data.label_end, np.searchsorted(data.time, times))
    block = block_length(times, known)
    measured = {name: _Measured(data.rows(p)) for name, p in forecasts.named().items()}
    table = np.column_stack((np.ones(data.n_rows), *(one.per_row for one in measured.values())))
    per_time = np.zeros((times.size, table.shape[1]))
    np.add.at(per_time, time_of_row, table)
    drawn = block_draws(per_time, block, _DRAWS, as_generator(rng))
    for one, share in zip(measured.values(), np.split(drawn[:, 1:] / drawn[:, :1], len(measured), axis=1), strict=True):
        one.take_draws(share)
    base = measured[NO_SKILL]
    return {
        "n_rows": data.n_rows,
        "n_independent": round(float(data.weight.sum()), 1),
        "from": str(data.time.min()),
        "to": str(data.label_end.max()),
        "interval": {"level": _LEVEL, "method": "circular block bootstrap", "block_length_in_bars": block},
        "forecasts": {name: one.as_dict(base) for name, one in measured.items()},
        "differences": {
            f"log_loss_{one}_minus_{other}": measured[one].difference(measured[other])
            for one, other in ((AFTER, BEFORE), (AFTER, NO_SKILL), (BEFORE, NO_SKILL))
        },
        "ece_noise_band": {name: one.noise_band for name, one in measured.items()},
    }


class _Measured:
    """One forecast's scores and their bootstrap draws.

    `per_row` is what is summed of each row: its log loss, its Brier score, whether the top label was wrong, and the
    gap between confidence and outcome in the column of its bin.
    """

    def __init__(self, rows: Rows) -> None:
        top, log_loss = rows.top_label(), row_log_loss(rows)
        self.is_finite = bool(np.isfinite(log_loss).all())
        bin_of = np.searchsorted(np.linspace(0.0, 1.0, N_BINS + 1)[1:-1], top.scores, side="left")
        gaps = np.zeros((rows.n_rows, N_BINS))
        gaps[np.arange(rows.n_rows), bin_of] = top.scores - top.positive
        kept = log_loss if self.is_finite else np.zeros_like(log_loss)
        self.per_row = np.column_stack((kept, row_brier(rows), ~top.positive, gaps))
        mean = self.per_row.mean(axis=0)
        self.values = {"log_loss": float(log_loss.mean()), "brier": float(mean[1]), "error": float(mean[2])}
        self.values["ece"] = binned_error(make_bins(top.summary(), N_BINS, "uniform"), "l1")

    def take_draws(self, share: FloatArray) -> None:
        """Keep the scores of bootstrap draws, of which `share` holds the means of `per_row`."""
        gaps = share[:, 3:]
        self.drawn = {"log_loss": share[:, 0], "brier": share[:, 1], "error": share[:, 2]}
        self.drawn["ece"] = np.abs(gaps).sum(axis=1)
        # resampled gaps less their means: what is left of the ECE where probabilities are right
        self.noise_band = float(np.quantile(np.abs(gaps - self.per_row[:, 3:].mean(axis=0)).sum(axis=1), _LEVEL))

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
        value, error = self.values["log_loss"] - other.values["log_loss"], float("nan")
        if self.is_finite and other.is_finite:
            error = float((self.drawn["log_loss"] - other.drawn["log_loss"]).std(ddof=1))
        return {"value": value, "standard_error": error}

    def _percentiles(self, name: str) -> tuple[float, float]:
        if name == "log_loss" and not self.is_finite:
            return float("nan"), float("nan")
        low, high = np.quantile(self.drawn[name], (0.5 - 0.5 * _LEVEL, 0.5 + 0.5 * _LEVEL))
        return float(low), float(high)

    def _skill(self, name: str, base: _Measured) -> float:
        of_base = base.values[name]
        return 1.0 - self.values[name] / of_base if of_base > 0.0 else float("nan")


def calibration_figures(found: dict[str, Any]) -> dict[str, float]:
    """Return the specified figures of a run: the Brier score and the ECE, before and after, and what they compare to.

    `found` is what `figures` says of the test part.
    """
    of, when = found["forecasts"], {"before": BEFORE, "after": AFTER}
    parts = (("brier", "skill"), ("log_loss", "skill"), ("ece", "noise_band"))
    return {
        **{f"{score}_{at}": of[name][score]["value"] for score in ("brier", "ece") for at, name in when.items()},
        **{f"{score}_no_skill": of[NO_SKILL][score]["value"] for score in ("brier", "ece")},
        **{f"{score}_{part}_{at}": of[name][score][part] for score, part in parts for at, name in when.items()},
    }


def overhead_verdict(share: float) -> dict[str, Any]:
    """Return whether calibration kept within its share of the training time: no seconds, which never repeat."""
    return {
        "of": "processor time of calibration, over that of the model's fit",
        "limit": OVERHEAD_LIMIT,
        "within_limit": bool(share < OVERHEAD_LIMIT),
        "share_measured_in": "run.json",
    }


def gates(found: dict[str, Any]) -> dict[str, Any]:
    """Return whether calibration did no harm, and is worth more than class frequencies."""
    passed = {}
    for name in (BEFORE, NO_SKILL):
        gap = found["differences"][f"log_loss_{AFTER}_minus_{name}"]
        passed[f"log_loss_at_most_{name}_plus_1_se"] = {**gap, "passed": _is_no_worse(gap)}
    error = found["forecasts"][AFTER]["ece"]
    inside = bool(error["value"] <= error["noise_band"])
    passed["ece_within_noise_band"] = {"value": error["value"], "noise_band": error["noise_band"], "passed": inside}
    return passed


def _is_no_worse(gap: dict[str, Any]) -> bool:
    # where a log loss is infinite, the standard error is not a number, or none in what was written
    error = gap["standard_error"]
    return error is not None and bool(gap["value"] <= error + _ROUNDING)


def beats_no_skill(found: dict[str, Any], name: str) -> bool:
    """Say whether the raw or the calibrated forecast is worth more than class frequencies, to one standard error."""
    return _is_no_worse(found["differences"][f"log_loss_{name}_minus_{NO_SKILL}"])


def targets(found: dict[str, Any]) -> dict[str, Any]:
    """Return whether the specification's targets are met, and what a calibrated model of this accuracy could reach."""
    after = found["forecasts"][AFTER]

    def target(score: str, limit: float, note: str, **more: float) -> dict[str, Any]:
        value = after[score]["value"]
        return {"target": limit, "value": value, "met": bool(value < limit), **more, "note": note}

    least = 1.0 - after["accuracy"]["value"]
    of_brier = "a calibrated forecast has a Brier score of at least one minus its accuracy"
    return {
        "brier": target("brier", BRIER_TARGET, of_brier, least_at_this_accuracy=least),
        "ece": target("ece", ECE_TARGET, "a constant forecast meets it too: see the skill"),
    }


def leak_warnings(on_test: dict[str, Any], on_earlier: dict[str, Any]) -> list[str]:
    """Return what is too good to be true, of the figures of the test part and of rows before it.

    A row whose probabilities p are right has the expected Brier score 1 - sum(p^2), which is at least 1 - max(p):
    on average one minus the accuracy. What stays below it by more than chance was told the labels.
    """
    found = []
    after = on_test["forecasts"][AFTER]
    if after["brier"]["high"] < 1.0 - after["accuracy"]["high"]:
        found.append(
            f"leak? The Brier score of the test part, {after['brier']['value']:.4f}, is below what its accuracy of "
            f"{after['accuracy']['value']:.4f} allows"
        )
    if after["brier"]["skill"] > _TOO_GOOD:
        found.append(
            f"leak? The Brier score of the test part is {100.0 * after['brier']['skill']:.0f} % better than that of "
            "class frequencies: of market bars, features that see the future would explain it"
        )
    gain, earlier = (part["differences"][f"log_loss_{AFTER}_minus_{NO_SKILL}"] for part in (on_test, on_earlier))
    chance = math.hypot(gain["standard_error"], earlier["standard_error"])
    if gain["value"] - earlier["value"] > _SUSPICIOUS * chance:
        found.append(
            f"leak? Before the test part the log loss is {-earlier['value']:.4f} better than that of class "
            f"frequencies, and in it {-gain['value']:.4f}: more than {_SUSPICIOUS} standard errors "
            "apart. Labels leaked, or times have changed"
        )
    return found
