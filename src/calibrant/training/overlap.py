"""Reliability of rows whose labels overlap: intervals of independent rows, widened as block-bootstrap draws ask for."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.dependence import block_draws, block_length
from calibrant.numerics import FloatArray
from calibrant.report.words import verdict
from calibrant.results import Curve
from calibrant.rows import Rows
from calibrant.training.dataset import Dataset
from calibrant.validation import Labels

_DRAWS = 500
#: Scores that can be below zero, and those that can be above one.
_SIGNED = ("mean_gap", "top_gap", "slope", "intercept")
_UNBOUNDED = ("log_loss", "brier", "slope", "intercept")
#: Debiased errors, of which the widened noise has to be taken once more: too little of it was.
_DEBIASED = ("ece_debiased", "marginal_calibration_error")
#: Bins of `calibrant.metrics.evaluate`.
_ERROR_BINS = 15
_METHOD = "widened for labels that overlap"


def width_factor(data: Dataset, prob: FloatArray, *, seed: int = 0) -> float:
    """Return how many times wider intervals have to be than those of independent rows, at least 1.

    Parameters
    ----------
    data : Dataset
        The rows, in the order of time.
    prob : ndarray of shape (n, K)
    seed : int
        Of the bootstrap.

    Notes
    -----
    The largest ratio of the standard errors of mean gaps, between probability and outcome, by the circular block
    bootstrap and as if rows were independent: of the most probable class and of each class. All rows of a time are
    drawn together, with their neighbours in time.
    """
    rows = Rows(np.ascontiguousarray(prob), Labels(data.codes, data.classes), None)
    top = rows.top_label()
    gaps = np.column_stack((top.scores - top.positive, prob - np.eye(data.classes.size)[data.codes]))
    alone = gaps.std(axis=0) / np.sqrt(data.n_rows)
    times, time_of_row = np.unique(data.time, return_inverse=True)
    known = np.maximum.reduceat(data.label_end, np.searchsorted(data.time, times))
    summed = np.zeros((times.size, 1 + gaps.shape[1]))
    np.add.at(summed, time_of_row, np.column_stack((np.ones(data.n_rows), gaps)))
    drawn = block_draws(summed, block_length(times, known), _DRAWS, np.random.default_rng(seed))
    together = (drawn[:, 1:] / drawn[:, :1]).std(axis=0, ddof=1)
    ratios = np.divide(together, alone, out=np.ones_like(alone), where=alone > 0.0)
    return float(max(1.0, ratios.max()))


def widened_curve(curve: Curve, factor: float) -> Curve:
    """Return a reliability curve with wider intervals."""
    low = np.clip(curve.y - factor * (curve.y - curve.low), 0.0, 1.0)
    high = np.clip(curve.y + factor * (curve.high - curve.y), 0.0, 1.0)
    return replace(curve, low=low, high=high)


def widened_summary(summary: dict[str, Any], factor: float) -> dict[str, Any]:
    """Return what a report says, with wider intervals and the words that go with these.

    Parameters
    ----------
    summary : dict
        As `calibrant.report.Report.summary` returns it; left as it is.
    factor : float
        As `width_factor` returns it.

    Notes
    -----
    Ends go away from the value by the factor. Debiased errors lose the noise of independent rows already; that of
    rows whose labels overlap is larger by the square of the factor, and the difference is taken from them here, their
    ends being widened as squares.
    """
    found = copy.deepcopy(summary)
    n = found["data"]["n_rows"]
    rates = found["scores"] if "base_rate" in found["scores"] else found["top_label_scores"]
    variance = {"ece_debiased": _variance(rates["base_rate"]["value"])}
    variance["marginal_calibration_error"] = float(
        np.mean([_variance(row["share"]) for row in found["data"]["classes"]])
    )
    for name in _DEBIASED:
        if name in found["scores"]:
            _debias(found["scores"][name], variance[name] / n, factor)
    for row in (found["classes"] or {}).get("rows", []):
        _debias(row["ece_debiased"], _variance(row["base_rate"]["value"]) / n, factor)
    _widen_scores(found, factor)
    curves = [found["curve"], *found["class_curves"], *((found["groups"] or {}).get("curves", []))]
    for curve in curves:
        for row in curve["bins"]:
            row["low"], row["high"] = _ends(row["observed"], row["low"], row["high"], factor, 0.0, 1.0)
            if row["band_low"] is not None:
                middle = row["predicted"]
                row["band_low"], row["band_high"] = _ends(middle, row["band_low"], row["band_high"], factor, 0.0, 1.0)
            row["is_outside"] = not row["low"] <= row["predicted"] <= row["high"]
    _judge(found["classes"], "class", "classes")
    if found["groups"] is not None:
        for row in found["groups"]["rows"]:
            row["low"], row["high"] = _ends(row["mean_gap"], row["low"], row["high"], factor, -1.0, 1.0)
            if row["ece_debiased"] is not None:
                noise = variance["ece_debiased"] / row["n"]
                row["ece_debiased"] = _less_noise(row["ece_debiased"] ** 2, noise, factor) ** 0.5
        _judge(found["groups"], "group", "groups")
    evidence = {**found["scores"], **found["top_label_scores"]}
    words = verdict(
        evidence,
        found["scores"]["auc"],
        found["curve"],
        found["data"]["classes"],
        found["classes"],
        is_multiclass=found["kind"] == "multiclass",
    )
    found["verdict"] = {**words, "in_short": f"{words['headline']}. {words['is_it_calibrated']}"}
    return found


def _variance(rate: float | None) -> float:
    return 0.0 if rate is None else rate * (1.0 - rate)


def _less_noise(square: float, noise: float, factor: float) -> float:
    """Return a debiased mean squared gap without the noise that overlap adds to it."""
    return max(square - (factor**2 - 1.0) * _ERROR_BINS * noise, 0.0)


def _debias(score: dict[str, Any], noise: float, factor: float) -> None:
    """Take the noise that overlap adds to the mean squared gap of bins, and widen the ends as squares."""
    if None in (score["value"], score["low"], score["high"]):
        return
    value, low, high = (score[name] ** 2 for name in ("value", "low", "high"))
    new = _less_noise(value, noise, factor)
    ends = new, max(new - factor**2 * (value - low), 0.0), min(new + factor**2 * (high - value), 1.0)
    score["value"], score["low"], score["high"] = (float(np.sqrt(end)) for end in ends)
    score["method"] = f"{score['method']}, {_METHOD}"


def _widen_scores(part: Any, factor: float) -> None:
    """Widen every score in nested dicts and lists."""
    if isinstance(part, list):
        for entry in part:
            _widen_scores(entry, factor)
    elif isinstance(part, dict) and {"name", "value", "low", "high"} <= set(part):
        if part["name"] not in _DEBIASED and None not in (part["value"], part["low"], part["high"]):
            least = -np.inf if part["name"] in _SIGNED else 0.0
            most = np.inf if part["name"] in _UNBOUNDED else 1.0
            part["low"], part["high"] = _ends(part["value"], part["low"], part["high"], factor, least, most)
            part["method"] = f"{part['method']}, {_METHOD}"
    elif isinstance(part, dict):
        for entry in part.values():
            _widen_scores(entry, factor)


def _ends(
    value: float | None, low: float | None, high: float | None, factor: float, least: float, most: float
) -> tuple[float | None, float | None]:
    """Return the ends of an interval that is wider by a factor on either side, within bounds."""
    if value is None or low is None or high is None:
        return low, high
    down, up = max(value - low, 0.0), max(high - value, 0.0)
    return min(max(value - factor * down, least), low), max(min(value + factor * up, most), high)


def _judge(section: dict[str, Any] | None, one: str, several: str) -> None:
    """Say anew which classes or groups are off, by their wider intervals of mean gaps."""
    if section is None:
        return
    for row in section["rows"]:
        if one == "class":
            row["is_share_off"], row["is_top_off"] = (_excludes_zero(row[name]) for name in ("mean_gap", "top_gap"))
            row["is_off"] = row["is_share_off"] or row["is_top_off"]
        else:
            row["is_off"] = _excludes_zero(row)
        if "words" in row and not row["is_off"]:
            row["words"] = "Not found off."
    off = [str(row.get("label", row.get("group"))) for row in section["rows"] if row["is_off"]]
    if "n_off" in section:
        section["n_off"] = len(off)
    found = f"Off: {', '.join(off)}." if off else f"No {one} found off."
    n = len(section["rows"])
    section["verdict"] = (
        f"{found} {n:,} {several} are looked at, at the level {100.0 * section['level']:.6g}% each; intervals are "
        f"{_METHOD}."
    )


def _excludes_zero(interval: dict[str, Any]) -> bool:
    low, high = interval["low"], interval["high"]
    return low is not None and high is not None and bool(low > 0.0 or high < 0.0)
