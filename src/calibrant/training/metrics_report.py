"""Figures of a run: before and after calibration beside class frequencies, with intervals for labels that overlap."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.dependence import Units
from calibrant.dependent_rows import units_of
from calibrant.metrics import UnitError, binned_error, error_over_units, make_bins, row_brier, row_log_loss
from calibrant.numerics import FloatArray
from calibrant.rows import Rows
from calibrant.training.dataset import Dataset
from calibrant.validation import as_generator

#: Equal-width bins of the top label's confidence, as in `ProbabilityCalibrator`.
N_BINS = 10
_DRAWS = 2000
LEVEL, INTERVALS = 0.95, "Student's t by Hall's transformation"
#: Standard errors between the parts from which more than chance is suspected: markets change, and runs are many.
_SUSPICIOUS = 4
#: Skill that no honest model of market bars is likely to have.
_TOO_GOOD = 0.3
BRIER_TARGET, ECE_TARGET = 0.15, 0.05
#: Share of the model's fit that calibration may cost.
OVERHEAD_LIMIT = 0.05
#: Differences of mean losses that are rounding: a calibrator that leaves all as it is takes a logarithm and back.
ROUNDING = 1e-12
#: What the figures of `calibration_figures` mean.
DEFINITIONS = (
    f"Brier: sum over classes. ECE: top label, {N_BINS} equal bins. Skill: 1 less the loss over that of class "
    "frequencies; an ECE has none, as class frequencies have hardly any: compare its noise band, below which the ECE "
    "of perfect probabilities stays 95 times in 100. Intervals of report.html are those of calibrant evaluate, made as "
    "it says: their ends differ from these."
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

    @classmethod
    def joined(cls, several: Sequence[Forecasts]) -> Forecasts:
        """Return the forecasts of rows that follow each other."""
        parts = ([getattr(one, name) for one in several] for name in ("raw", "calibrated", "class_frequencies"))
        return cls(*map(np.concatenate, parts))

    def named(self) -> dict[str, FloatArray]:
        """Return each under its name."""
        return {BEFORE: self.raw, AFTER: self.calibrated, NO_SKILL: self.class_frequencies}

    def columns(self) -> dict[str, FloatArray]:
        """Return each under the start of the names of its columns in files."""
        return {"raw": self.raw, "p": self.calibrated, "no_skill": self.class_frequencies}


def figures(data: Dataset, forecasts: Forecasts, *, rng: int | np.random.Generator | None = 0) -> dict[str, Any]:
    """Measure forecasts of the rows, with intervals that allow for labels that overlap.

    `forecasts`: of each, `log_loss`, `brier`, `ece` and `accuracy` with `value`, `low`, `high` and, but for the ECE,
    `skill`: one minus the loss over that of the class frequencies. `differences`: of log losses and Brier scores, and
    the calibrated ECE less the raw one, with standard errors and intervals. `ece_noise_band`: the ECE that calibrated
    probabilities with the same confidences would stay below, 95 times in 100. `is_constant`: whether each says the same
    of all rows.

    All rows of a time, and of a block of neighbouring times, are one unit: labels that overlap, and symbols that move
    together, count for less than as many independent rows. Intervals are Student's t over the units' sums, by Hall's
    transformation that removes skewness, cut to what the score can be. Of the ECE, the bins' gaps are moved as chance
    moves them, and the percentiles reflected, as chance only adds to it; the noise band is what chance alone makes of
    gaps of zero.

    The Brier score is the sum over classes.
    """
    (units,) = units_of(data.rows(forecasts.raw))
    measured = {name: _Measured(data.rows(p), units) for name, p in forecasts.named().items()}
    chance = units.chance(np.hstack([one.gaps for one in measured.values()]), _DRAWS, as_generator(rng))
    for one, of_one in zip(measured.values(), np.split(chance, len(measured), axis=1), strict=True):
        one.take_chance(of_one)
    base = measured[NO_SKILL]
    pairs = ((AFTER, BEFORE), (AFTER, NO_SKILL), (BEFORE, NO_SKILL))
    return {
        "n_rows": data.n_rows,
        "n_independent": round(float(data.weight.sum()), 1),
        "from": str(data.time.min()),
        "to": str(data.label_end.max()),
        "interval": {"level": LEVEL, "method": f"{INTERVALS}, over {units.words}"},
        "forecasts": {name: one.as_dict(base) for name, one in measured.items()},
        "differences": {
            **{
                f"{loss}_{one}_minus_{other}": measured[one].difference(measured[other], loss)
                for loss in ("log_loss", "brier")
                for one, other in pairs
            },
            f"ece_{AFTER}_minus_{BEFORE}": measured[AFTER].ece_difference(measured[BEFORE]),
        },
        "ece_noise_band": {name: one.noise_band for name, one in measured.items()},
        "is_constant": {name: bool(np.ptp(p, axis=0).max() <= ROUNDING) for name, p in forecasts.named().items()},
    }


class _Measured:
    """One forecast's scores, with what is needed of each row for their intervals and for those of differences."""

    def __init__(self, rows: Rows, units: Units) -> None:
        self._units = units
        top = rows.top_label()
        bin_of = np.searchsorted(np.linspace(0.0, 1.0, N_BINS + 1)[1:-1], top.scores, side="left")
        self.gaps = np.zeros((rows.n_rows, N_BINS))
        self.gaps[np.arange(rows.n_rows), bin_of] = top.scores - top.positive
        self.losses = {"log_loss": row_log_loss(rows), "brier": row_brier(rows), "error": (~top.positive).astype(float)}
        self.values = {name: float(each.mean()) for name, each in self.losses.items()}
        self.ece = binned_error(make_bins(top.summary(), N_BINS, "uniform"), "l1")

    def take_chance(self, chance: FloatArray) -> None:
        """Keep what chance makes of the ECE: draws of what it adds to the mean gap of each bin."""
        self.moved = np.abs(self.gaps.mean(axis=0) + chance).sum(axis=1)
        self.noise_band = float(np.quantile(np.abs(chance).sum(axis=1), LEVEL))

    def as_dict(self, base: _Measured) -> dict[str, Any]:
        """Return the scores with intervals, and their skill over another forecast."""
        found: dict[str, Any] = {}
        for name, most in (("log_loss", math.inf), ("brier", 2.0)):
            low, high = np.clip(self._ends(self.losses[name]), 0.0, most).tolist()
            found[name] = {"value": self.values[name], "low": low, "high": high, "skill": self._skill(name, base)}
        value = self.ece
        low, high = np.quantile(self.moved, (0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL)).astype(float)
        reflected = {"low": max(2.0 * value - high, 0.0), "high": max(2.0 * value - low, value)}
        found["ece"] = {"value": value, **reflected, "noise_band": self.noise_band}
        low, high = np.clip(self._ends(self.losses["error"]), 0.0, 1.0).tolist()
        value = 1.0 - self.values["error"]
        found["accuracy"] = {"value": value, "low": 1.0 - high, "high": 1.0 - low, "skill": self._skill("error", base)}
        return found

    def difference(self, other: _Measured, loss: str) -> dict[str, float]:
        """Return how much larger a mean loss is than that of another, with its standard error and interval."""
        with np.errstate(invalid="ignore"):  # of two infinite losses: not a number, and told so
            each = self.losses[loss] - other.losses[loss]
        low, high = self._ends(each)
        error = self._error(each).error.error if math.isfinite(low) else math.nan
        value = self.values[loss] - other.values[loss]
        return {"value": value, "standard_error": error, "low": low, "high": high}

    def ece_difference(self, other: _Measured) -> dict[str, float]:
        """Return how much larger the ECE is than that of another: both are moved by the same chance."""
        value, moved = self.ece - other.ece, self.moved - other.moved
        low, high = (2.0 * value - np.quantile(moved, (0.5 + 0.5 * LEVEL, 0.5 - 0.5 * LEVEL))).tolist()
        error = float(moved.std(ddof=1))
        return {"value": value, "standard_error": error, "low": min(low, value), "high": max(high, value)}

    def _error(self, each: FloatArray) -> UnitError:
        return error_over_units(each, np.ones(each.size), (self._units,))

    def _ends(self, each: FloatArray) -> tuple[float, float]:
        if not np.isfinite(each).all():
            return math.nan, math.nan
        return self._error(each).error.ends(float(each.mean()), LEVEL)

    def _skill(self, name: str, base: _Measured) -> float:
        of_base = base.values[name]
        return 1.0 - self.values[name] / of_base if of_base > 0.0 else math.nan


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


def overhead_verdict(share: float | None) -> dict[str, Any]:
    """Return whether calibration kept within its share of the training time: no seconds, which never repeat.

    Where no model was trained, there is no share, and it is within no limit.
    """
    return {
        "of": "processor time of calibration, over that of the model's fit",
        "limit": OVERHEAD_LIMIT,
        "within_limit": None if share is None else bool(share < OVERHEAD_LIMIT),
        "share_measured_in": "run.json",
    }


def gates(found: dict[str, Any]) -> dict[str, Any]:
    """Return whether calibration did no harm, whether the model has skill at all, and whether what it says holds.

    The first passes where the calibrated log loss is at most a standard error above the raw one; the second where the
    whole interval of the skill over class frequencies is above 0, which of a model without skill it is one time in 40;
    the third where the ECE is within its noise band, which of right probabilities it is 95 times in 100.
    """
    harm, gain = (found["differences"][f"log_loss_{AFTER}_minus_{name}"] for name in (BEFORE, NO_SKILL))
    error = found["forecasts"][AFTER]["ece"]
    inside = bool(error["value"] <= error["noise_band"])
    return {
        f"log_loss_at_most_{BEFORE}_plus_1_se": {**harm, "passed": is_no_worse(harm)},
        f"skill_over_{NO_SKILL}": {**gain, "passed": has_skill(found, AFTER)},
        "ece_within_noise_band": {"value": error["value"], "noise_band": error["noise_band"], "passed": inside},
    }


def is_no_worse(gap: Mapping[str, Any]) -> bool:
    """Say whether a mean loss is above that of another forecast by a standard error of their difference at most.

    Where one of the losses is infinite there is no standard error: the forecast is no worse where only the other's is.
    """
    if gap["value"] == -math.inf:
        return True
    error = gap["standard_error"]  # not a number where a loss is infinite, and none in what was written
    return error is not None and bool(gap["value"] <= error + ROUNDING)


def has_skill(found: dict[str, Any], name: str) -> bool:
    """Say whether the raw or the calibrated forecast is worth more than class frequencies, beyond chance.

    One that says the same of all rows has none: where it gains, class frequencies have changed.
    """
    if found.get("is_constant", {}).get(name):  # not in runs of before
        return False
    high = found["differences"][f"log_loss_{name}_minus_{NO_SKILL}"].get("high")  # not in runs of before
    return high is not None and bool(high < 0.0)


def targets(found: dict[str, Any]) -> dict[str, Any]:
    """Return whether the specification's targets are met, and what a calibrated model of this accuracy could reach."""
    after = found["forecasts"][AFTER]

    def target(score: str, limit: float, note: str, **more: float) -> dict[str, Any]:
        value = after[score]["value"]
        return {"target": limit, "value": value, "met": bool(value < limit), **more, "note": note}

    least = 1.0 - after["accuracy"]["value"]
    of_brier = "of a calibrated forecast a Brier score of one minus its accuracy is expected at least"
    return {
        "brier": target("brier", BRIER_TARGET, of_brier, least_at_this_accuracy=least),
        "ece": target("ece", ECE_TARGET, "a constant forecast meets it too: see the skill"),
    }


def leak_warnings(on_test: dict[str, Any], on_earlier: dict[str, Any], *, is_market: bool = True) -> list[str]:
    """Return what is too good to be true, of the figures of the test part and of rows before it.

    With `is_market` false, there is no skill that is too good.

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
    if is_market and after["brier"]["skill"] > _TOO_GOOD:
        found.append(
            f"leak? The Brier score of the test part is {100.0 * after['brier']['skill']:.0f} % better than that of "
            "class frequencies: of a market, features that see the future would explain it"
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
