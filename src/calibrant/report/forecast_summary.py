"""Measure everything that the report of forecasts states, as one dict of plain values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calibrant._version import __version__
from calibrant.forecasts import (
    Forecast,
    NoiseFloor,
    Outcomes,
    Recalibrator,
    ReliabilityGaps,
    crps_change,
    level_curve,
    pit_histogram,
    read_outcomes,
    reliability_gaps,
    scores_and_floors,
)
from calibrant.report.formats import decimals, percent_level
from calibrant.report.summarise import clean
from calibrant.results import Score
from calibrant.validation import ArrayLike, as_generator, check_fraction

#: The scores that the page shows: title, and what it says.
MEANINGS = {
    "crps": ("CRPS", "Continuous ranked probability score: smaller is better, in the units of the outcome."),
    "log_score": ("Log score", "Mean negative log density at what happened, in nats: smaller is better."),
    "pinball_loss": ("Pinball loss", "Of the median: half its mean absolute error."),
    "interval_score": (
        "Interval score",
        "Width of the intervals and a penalty for outcomes outside: smaller is better.",
    ),
    "coverage": ("Coverage", "Share of outcomes in their central intervals."),
    "sharpness": ("Sharpness", "Mean width of the central intervals."),
    "bias": ("Bias", "Mean forecast less mean outcome."),
    "average_calibration_error": (
        "Average error",
        "Calibration error: mean distance between a level and how often outcomes fall below its quantile.",
    ),
    "threshold_calibration_error": (
        "Threshold error",
        "Calibration error on both sides of a decision by a threshold, added; mean over thresholds.",
    ),
    "max_threshold_calibration_error": ("Its maximum", "Over 50 thresholds and 20 levels."),
    "distribution_calibration_error": (
        "Distribution error",
        "Calibration error among rows with like forecasts, on average over the rows.",
    ),
    "reliability_gap": (
        "Reliability gap",
        "Distance between the loss that a decision promises and the one that comes true, mean over decisions.",
    ),
    "max_reliability_gap": ("Its maximum", "Over 50 thresholds, levels and cost ratios."),
    "decision_loss": ("Decision loss", "Mean realised loss of the best decision for each threshold and cost ratio."),
}
#: Gaps by which forecasts are judged.
_JUDGED = ("average_calibration_error", "threshold_calibration_error", "reliability_gap")


def summarise_forecasts(
    forecast: Forecast,
    y: ArrayLike,
    *,
    recalibrator: Recalibrator | None,
    sample_weight: ArrayLike | None,
    interval_level: float,
    level: float,
    title: str,
    source: str | None,
    rng: int | np.random.Generator | None,
) -> dict[str, Any]:
    """Return what `ForecastReport` says, as dicts, lists, strings and numbers; NaN is None.

    The parameters are those of `ForecastReport`.
    """
    interval_level, level = check_fraction("interval_level", interval_level), check_fraction("level", level)
    generator = as_generator(rng)
    rows = read_outcomes(forecast, y, sample_weight)
    parts = [_measured(rows, "", interval_level, level, generator)]
    change = None
    if recalibrator is not None:
        after = Outcomes(recalibrator.transform(rows.forecast), rows.y, rows.weight)
        parts.append(_measured(after, "after", interval_level, level, generator))
        parts[0]["label"] = "before"
        estimate = crps_change(rows, after, level)
        change = {"value": _plain(estimate.value), "low": _plain(estimate.low), "high": _plain(estimate.high)}
    last = parts[-1]
    return {
        "title": clean(title),
        "version": __version__,
        "state": last["state"],
        "headline": _headline(last, is_after=recalibrator is not None),
        "parts": parts,
        "method": None if recalibrator is None else type(recalibrator).__name__,
        "crps_change": change,
        "advice": _advice(parts, change, level),
        "level": level,
        "interval_level": interval_level,
        "score_names": [name for name in MEANINGS if all(name in part["scores"] for part in parts)],
        "meanings": {name: list(words) for name, words in MEANINGS.items()},
        "data": {
            "source": None if source is None else clean(source),
            "n_rows": len(rows),
            "is_weighted": rows.weight is not None,
            "effective_rows": rows.effective_size,
        },
    }


def _measured(
    rows: Outcomes, label: str, interval_level: float, level: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the figures of one set of forecasts."""
    scores, floors = scores_and_floors(rows, interval_level, level, rng, "given data")
    off = [name for name in _JUDGED if name in floors and scores[name].value > floors[name].high]
    covered = scores["coverage"]
    side = "narrow" if covered.high < interval_level else "wide" if covered.low > interval_level else None
    histogram = pit_histogram(rows.forecast, rows.y, sample_weight=rows.weight, level=level)
    curve = level_curve(rows.forecast, rows.y, sample_weight=rows.weight, level=level, label=label)
    return {
        "label": label,
        "state": "miscalibrated" if off or side else "calibrated",
        "verdict": scores.verdict,
        "off": off,
        "intervals": side,
        "scores": {name: _score(score, floors.get(name), is_off=name in off) for name, score in scores.items()},
        "pit": {
            "edges": histogram.edges.tolist(),
            "density": histogram.density.tolist(),
            **{key: float(getattr(histogram, key)) for key in ("low", "high", "low_all", "high_all")},
            "n": histogram.n,
        },
        "levels": {key: getattr(curve, key).tolist() for key in ("levels", "share", "low", "high")}
        | {"error": curve.error, "n": curve.n},
        "gaps": _gaps(reliability_gaps(rows.forecast, rows.y, sample_weight=rows.weight)),
    }


def _score(score: Score, floor: NoiseFloor | None, *, is_off: bool) -> dict[str, Any]:
    return {
        **{key: _plain(getattr(score, key)) for key in ("value", "low", "high")},
        "is_infinite": math.isinf(score.value),
        "floor": None if floor is None else _plain(floor.mean),
        "is_off": is_off,
        "method": score.method,
    }


def _gaps(gaps: ReliabilityGaps) -> dict[str, Any]:
    """Return the map of gaps, means over losses, and the rule and loss of the greatest."""
    k, a, c = np.unravel_index(int(gaps.values.argmax()), gaps.values.shape)
    return {
        "y0": gaps.y0.tolist(),
        "alpha": gaps.alpha.tolist(),
        "mean_gap": gaps.values.mean(axis=2).tolist(),
        "worst": {
            "y0": float(gaps.y0[k]),
            "alpha": float(gaps.alpha[a]),
            "cost": float(gaps.cost[c]),
            "promised": float(gaps.predicted[k, a, c]),
            "realised": float(gaps.true[k, a, c]),
        },
    }


def _headline(part: dict[str, Any], *, is_after: bool) -> str:
    side = f": intervals are too {part['intervals']}" if part["intervals"] else ""
    said = "Not calibrated" + side if part["state"] == "miscalibrated" else "No gap is beyond chance"
    return f"After recalibration: {said[0].lower()}{said[1:]}" if is_after else said


def _advice(parts: list[dict[str, Any]], change: dict[str, Any] | None, level: float) -> str:
    """Say what to do."""
    if change is None:
        if parts[0]["state"] == "calibrated":
            return "Leave the forecasts as they are: chance gives a forecast that is right as much."
        return (
            "Recalibrate them, by calibrant forecast fit on rows that the forecaster was not trained on, and look at "
            "this report of other rows before and after."
        )
    if change["value"] is None:
        return "The change in CRPS is not defined."
    ends = f"{percent_level(level)} interval {decimals(change['low'])} to {decimals(change['high'])}"
    said = f"CRPS changes by {decimals(change['value'])} ({ends}, paired by row)"
    if change["high"] < 0.0:
        return f"Use the recalibrated forecasts. {said}."
    if change["low"] > 0.0:
        return f"Leave the forecasts as they are, if CRPS is what counts: {said}."
    return f"{said}: no difference that these rows could show."


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
