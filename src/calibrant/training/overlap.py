"""Reliability of rows whose labels overlap: intervals of independent rows, widened as block-bootstrap draws ask for."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.metrics.rows import Rows
from calibrant.numerics import FloatArray
from calibrant.report.words import verdict
from calibrant.results import Curve
from calibrant.training.dataset import Dataset
from calibrant.training.paired import block_draws, block_length
from calibrant.validation import Labels

_DRAWS = 500
#: Scores that can be below zero, and those that can be above one.
_SIGNED = ("mean_gap", "top_gap", "slope", "intercept")
_UNBOUNDED = ("log_loss", "brier", "slope", "intercept")
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
    """
    found = copy.deepcopy(summary)
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


def _widen_scores(part: Any, factor: float) -> None:
    """Widen every score in nested dicts and lists."""
    if isinstance(part, list):
        for entry in part:
            _widen_scores(entry, factor)
    elif isinstance(part, dict) and {"name", "value", "low", "high"} <= set(part):
        if None not in (part["value"], part["low"], part["high"]):
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
