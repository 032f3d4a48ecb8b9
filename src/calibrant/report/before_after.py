"""Before and after a calibrator: the figures of the scores as they were, and what the calibrator changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calibrant.errors import InvalidInputError
from calibrant.fitted import Fitted
from calibrant.metrics import COMPARED, Settings, compare_model_rows, verdict
from calibrant.numerics import FloatArray
from calibrant.persistence import check_fitted
from calibrant.phrases import capitalised, clean, count, difference, interval, uncapitalised
from calibrant.provenance import RowHash
from calibrant.report import pages
from calibrant.report.measured import ON, Measured, of_rows, plain_scores
from calibrant.rows import Rows
from calibrant.validation import ArrayLike

_BEFORE, _AFTER = "before", "after"
#: What is said where the rows are those that the calibrator was fitted to.
_FLATTERED = {
    "verdict": "Not to be told from these rows, which it was fitted to: all figures after it flatter it.",
    "what_to_do": "Judge the calibrator on rows that it was not fitted to.",
    "is_of_verdict": False,
}


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A fitted calibrator, and the rows that are reported with the scores that it takes."""

    calibrator: Fitted
    rows: Rows

    @property
    def before(self) -> Rows | None:
        """The rows with the probabilities that they had before it; None where their scores are none."""
        found = self.rows.probabilities()
        return None if found is None else self.rows.with_scores(found)

    @property
    def is_of_these_rows(self) -> bool:
        """Whether it is known to have been fitted to these rows."""
        said = self.calibrator.provenance_
        return said is not None and said.rows_sha256 == RowHash().update(self.rows).hexdigest()


def apply_to(
    calibrator: Fitted, y_prob: ArrayLike, groups: ArrayLike | None, features: object = None
) -> tuple[FloatArray, FloatArray]:
    """Return the checked scores that a calibrator takes, and the probabilities that it makes of them."""
    check_fitted(calibrator, Fitted, "report")
    if not calibrator.is_exclusive:
        raise InvalidInputError(
            f"a {type(calibrator).__name__} calibrates several labels at once, but what is measured here is one label "
            "per row. Report on the probabilities of each label against that label."
        )
    rows = calibrator.read(
        y_prob,
        groups=groups if calibrator.needs_groups else None,
        features=features if calibrator.takes_features else None,
        name="y_prob",
    )
    return rows.scores, calibrator.apply(rows)


@dataclass(frozen=True, slots=True)
class Both:
    """The rows measured before a calibrator and after it, and how the scores after differ, paired by row.

    `direction` says whether rows are predicted "better" or "worse" after it, or "same" where neither is shown.
    """

    before: Measured
    after: Measured
    change: dict[str, dict[str, Any]]
    direction: str


def measure_both(before: Rows, after: Rows, settings: Settings) -> Both:
    """Measure the same rows with the probabilities that they had before a calibrator and after it."""
    found = compare_model_rows({_BEFORE: before, _AFTER: after}, settings, ON)
    sides = [of_rows(rows, settings, found.models[name]) for name, rows in ((_BEFORE, before), (_AFTER, after))]
    differences = plain_scores(found.differences[_AFTER])
    change = {name: differences[f"{name}_difference"] for name in COMPARED}
    direction = "better" if found.better else "worse" if found.worse else "same"
    return Both(sides[0], sides[1], change, direction)


def summarise_calibrator(
    given: Calibrated, after: dict[str, Any], both: Both | None, curve: dict[str, Any] | None
) -> dict[str, Any]:
    """Return what a page says of a calibrator, as plain values.

    `after` is the verdict on what it makes of the rows, and `curve` that of the rows before it.
    """
    calibrator, said = given.calibrator, given.calibrator.provenance_
    found: dict[str, Any] = {"name": type(calibrator).__name__, "n_rows": int(calibrator.n_rows_)}
    found["fitted_to"] = None if said is None else {"source": clean(said.source), "fitted_at": said.fitted_at}
    found["is_of_these_rows"] = given.is_of_these_rows
    return found | _compared(after, both, curve) | (_FLATTERED if found["is_of_these_rows"] else {})


def _compared(after: dict[str, Any], both: Both | None, curve: dict[str, Any] | None) -> dict[str, Any]:
    """Return what is said of the scores before the calibrator, of what it changed, and of what to do."""
    if both is None:
        said = "Not known: the scores before it are no probabilities, which could be compared."
        advice = {"what_to_do": after["what_to_do"], "is_of_verdict": True}
        return {"verdict": said, **advice, "before": None, "change": None}
    was = verdict(both.before.scores)
    found = {"verdict": _words_of_change(was.headline, both), **_advice(after, was.headline, both.direction)}
    words = {"state": was.state, "headline": was.headline}
    before = {**words, "scores": plain_scores(both.before.scores), "curve": curve}
    return found | {"before": before, "change": both.change}


def _words_of_change(was: str, both: Both) -> str:
    """Say what the calibrator changed."""
    parts = []
    for name, title in (("log_loss", "log loss"), ("brier", "the Brier score")):
        each = both.change[name]
        if each["value"] is None:
            parts.append(f"the change of {title} is {each['note']}")
            continue
        between = "" if each["low"] is None else f" ({interval(each['level'], each['low'], each['high'])})"
        parts.append(f"{title} changes by {difference(each['value'], sign=True)}{between}")
    said = "; ".join(parts)
    helped = {"better": "Yes", "worse": "No, it did harm", "same": "Not that these rows could show"}[both.direction]
    return f"{helped}. Before: {uncapitalised(was)}. {capitalised(said)}; after less before, paired by row."


def _advice(after: dict[str, Any], was: str, direction: str) -> dict[str, Any]:
    """Say what to do, and whether that is what the verdict on the rows after the calibrator says."""
    said = after["what_to_do"]
    if direction == "worse":
        return {
            "what_to_do": f"Leave the calibrator out: without it rows are predicted better ({uncapitalised(was)}).",
            "is_of_verdict": False,
        }
    if direction == "better" and after["state"] == "miscalibrated":
        said = f"Use it rather than the scores alone, though an error is left. {said}"
    elif direction == "better":
        more = " Collect more labelled rows to show what error is left." if after["state"] == "unclear" else ""
        return {"what_to_do": f"Use the calibrated probabilities.{more}", "is_of_verdict": False}
    return {"what_to_do": said, "is_of_verdict": True}


def words_of_fit(found: dict[str, Any]) -> str:
    """Say what is known of the rows that the calibrator was fitted to."""
    said = f"{found['name']}, fitted to {count(found['n_rows'], 'row')}"
    if found["is_of_these_rows"]:
        return f"{said}: these, by their hash. That flatters it, so give rows that it has not seen."
    if found["fitted_to"] is None:
        flatter = "rows that it was fitted to flatter it, so give rows that it has not seen"
        return f"{said}. Which rows these were is not known here: {flatter}."
    source = f" of {pages.name(found['fitted_to']['source'])}" if found["fitted_to"]["source"] else ""
    at = found["fitted_to"]["fitted_at"]
    return f"{said}{source}, at {at}. Those of them that are among the rows here flatter it."
