"""Before and after a calibrator: the figures of the scores as they were, and what the calibrator changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.dependent_rows import units_of
from calibrant.errors import InvalidInputError
from calibrant.fitted import Fitted
from calibrant.metrics import Estimate, Settings, mean_over_units, row_brier, row_log_loss, verdict
from calibrant.numerics import FloatArray
from calibrant.persistence import check_fitted
from calibrant.phrases import count, difference, interval
from calibrant.report.measured import Measured, of_rows, plain_scores
from calibrant.results import plain
from calibrant.rows import Rows
from calibrant.validation import ArrayLike

_LOSSES = {"log_loss": row_log_loss, "brier": row_brier}


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A fitted calibrator, and the rows with the probabilities that they had before it; None where these are scores."""

    calibrator: Fitted
    before: Rows | None


def apply_to(calibrator: Fitted, y_prob: ArrayLike, groups: ArrayLike | None) -> tuple[FloatArray | None, FloatArray]:
    """Return the probabilities of given scores before a calibrator, None where they are none, and after it."""
    check_fitted(calibrator, Fitted, "report")
    if not calibrator.is_exclusive:
        raise InvalidInputError(
            f"a {type(calibrator).__name__} calibrates several labels at once, but what is measured here is one label "
            "per row. Report on the probabilities of each label against that label."
        )
    rows = calibrator.read(y_prob, groups=groups if calibrator.needs_groups else None, name="y_prob")
    return rows.probabilities(), calibrator.apply(rows)


def measure_before(given: Calibrated, after: Rows, settings: Settings) -> tuple[Measured | None, dict[str, Any] | None]:
    """Measure the rows before, and the paired differences of their losses to those after."""
    if given.before is None:
        return None, None
    change = {
        name: {end: plain(getattr(found, end)) for end in ("value", "low", "high", "note")}
        for name, found in changes(given.before, after, settings.level).items()
    }
    return of_rows(given.before, settings), change


def changes(before: Rows, after: Rows, level: float) -> dict[str, Estimate]:
    """Estimate log loss and Brier score of the same rows after less before, with paired intervals."""
    return {name: _change(loss(after), loss(before), after, level) for name, loss in _LOSSES.items()}


def _change(loss: FloatArray, before: FloatArray, rows: Rows, level: float) -> Estimate:
    with np.errstate(invalid="ignore"):
        each = np.where(loss == before, 0.0, loss - before)  # of two infinite losses neither is more
    if np.isfinite(each).all():
        return mean_over_units(each, rows.weights, units_of(rows), level)
    note = "something happened that had probability 0"
    return Estimate(math.nan, math.nan, math.nan, "none", note)


def summarise_calibrator(
    calibrator: Fitted,
    after: dict[str, Any],
    before: Measured | None,
    curve: dict[str, Any] | None,
    change: dict[str, Any] | None,
    level: float,
) -> dict[str, Any]:
    """Return what a page says of a calibrator, as plain values; `after` is the verdict on what it makes of the rows."""
    found: dict[str, Any] = {"name": type(calibrator).__name__, "n_rows": int(calibrator.n_rows_)}
    if before is None or change is None:
        said = "Not known: the scores before it are no probabilities, which could be compared."
        advice = {"what_to_do": after["what_to_do"], "is_of_verdict": True}
        return {**found, "verdict": said, **advice, "before": None, "change": None}
    was = verdict(before.scores)
    found |= {"verdict": _words_of_change(was.headline, change, level), **_advice(after, was.headline, change)}
    words = {"state": was.state, "headline": was.headline}
    return {**found, "before": {**words, "scores": plain_scores(before.scores), "curve": curve}, "change": change}


def _words_of_change(was: str, change: dict[str, Any], level: float) -> str:
    """Say what the calibrator changed."""
    parts = []
    for name, title in (("log_loss", "log loss"), ("brier", "the Brier score")):
        each = change[name]
        if each["value"] is None:
            parts.append(f"the change of {title} is not defined, as {each['note']}")
            continue
        between = "" if each["low"] is None else f" ({interval(level, each['low'], each['high'])})"
        parts.append(f"{title} changes by {difference(each['value'], sign=True)}{between}")
    said = "; ".join(parts)
    helped = {"better": "Yes", "worse": "No, it did harm", "same": "Not that these rows could show"}[_direction(change)]
    return f"{helped}. Before: {_lower(was)}. {said[:1].upper()}{said[1:]}; after less before, paired by row."


def _advice(after: dict[str, Any], was: str, change: dict[str, Any]) -> dict[str, Any]:
    """Say what to do, and whether that is what the verdict on the rows after the calibrator says."""
    said, direction = after["what_to_do"], _direction(change)
    if direction == "worse":
        return {
            "what_to_do": f"Leave the calibrator out: without it rows are predicted better ({_lower(was)}).",
            "is_of_verdict": False,
        }
    if direction == "better" and after["state"] == "miscalibrated":
        said = f"Use it rather than the scores alone, though an error is left. {said}"
    elif direction == "better":
        more = " Collect more labelled rows to show what error is left." if after["state"] == "unclear" else ""
        return {"what_to_do": f"Use the calibrated probabilities.{more}", "is_of_verdict": False}
    return {"what_to_do": said, "is_of_verdict": True}


def _lower(headline: str) -> str:
    return headline[:1].lower() + headline[1:]


def _direction(change: dict[str, Any]) -> str:
    """Say whether rows are predicted better or worse after: by log loss, or the Brier score where that is infinite."""
    by = change["log_loss"] if change["log_loss"]["value"] is not None else change["brier"]
    if by["low"] is None or by["low"] <= 0.0 <= by["high"]:
        return "same"
    return "better" if by["high"] < 0.0 else "worse"


def words_of_fit(found: dict[str, Any]) -> str:
    """Say what is known of the rows that the calibrator was fitted to."""
    return (
        f"{found['name']}, fitted to {count(found['n_rows'], 'row')}. Which rows these were is not known here: "
        "rows that it was fitted to flatter it, so give rows that it has not seen."
    )
