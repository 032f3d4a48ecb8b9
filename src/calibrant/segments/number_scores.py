"""How far predictions of a number are off, before they are corrected and after it, on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from calibrant.dependent_rows import units_of
from calibrant.metrics import Estimate, excludes, mean_over_units, named_scores
from calibrant.numerics import FloatArray, kish_size
from calibrant.phrases import difference, interval
from calibrant.results import Score
from calibrant.rows import Rows


@dataclass(frozen=True, slots=True, eq=False)
class NumberComparison:
    """Scores before and after a correction, and how the mean squared error changes: after less before, paired."""

    before: Mapping[str, Score]
    after: Mapping[str, Score]
    change: Score

    @property
    def verdict(self) -> str:
        """Whether squared errors fall, in words."""
        low, high = self.change.low, self.change.high
        scale = max(abs(low), abs(high))
        if not excludes(self.change):
            by = difference(self.change.value, sign=True, scale=scale)
            ends = interval(self.change.level, low, high)
            return f"No difference of the mean squared error that these rows show (after less before {by}, {ends})."
        way = "lower" if high < 0.0 else "higher"
        size = interval(self.change.level, *sorted((abs(low), abs(high))))
        return f"The mean squared error is {way} by {difference(abs(self.change.value), scale=scale)} ({size})."

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain Python values; what is not finite becomes None."""
        models = {
            when: {"scores": [score.to_dict() for score in scores.values()]}
            for when, scores in (("before", self.before), ("after", self.after))
        }
        differences = {"after": {"scores": [self.change.to_dict()]}}
        return {"verdict": self.verdict, "level": self.change.level, "models": models, "differences": differences}


def compare_numbers(rows: Rows, after: FloatArray, *, level: float, evaluated_on: str) -> NumberComparison:
    """Measure predictions, the scores of checked rows with outcomes, and what a correction made of them: `after`."""
    corrected = rows.with_scores(after, input="score")
    known: dict[str, Any] = {"level": level, "n": rows.n_rows, "n_eff": kish_size(rows.weights)}
    known["evaluated_on"] = evaluated_on

    def mean(values: FloatArray) -> Estimate:
        return mean_over_units(values, rows.weights, units_of(rows, values), level)

    def scores(residuals: FloatArray) -> dict[str, Score]:
        mse = mean(residuals**2)
        found = {"mse": replace(mse, low=max(mse.low, 0.0)), "mean_error": mean(-residuals)}
        return named_scores(found, **known)

    change = mean(corrected.residuals**2 - rows.residuals**2).to_score("mse_difference", **known)
    return NumberComparison(scores(rows.residuals), scores(corrected.residuals), change)
