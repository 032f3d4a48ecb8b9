"""Forecasts of several steps ahead: what they are worth at each horizon, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.evaluation import scores_and_judgement, scores_of
from calibrant.forecasts.given_levels import as_interval_level
from calibrant.forecasts.reference import as_reference
from calibrant.forecasts.regions import as_region
from calibrant.forecasts.scores import read_outcomes
from calibrant.forecasts.skill import skill_estimates
from calibrant.phrases import bracketed, count, figure, listed
from calibrant.readable import Readable
from calibrant.results import Scores, scores_as_columns
from calibrant.validation import ArrayLike, as_generator, as_groups, as_weight, check_fraction, check_same_length

#: Columns of the table, where all horizons have them.
_SHOWN = ("crps", "skill", "coverage", "bias", "threshold_calibration_error", "reliability_gap")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HorizonScores(Readable):
    """Scores of forecasts at each horizon.

    Attributes
    ----------
    by_horizon : dict of Scores
        What `evaluate` measures, by horizon in rising order; with a reference also `reference_score`, `difference` and
        `skill`.
    """

    by_horizon: dict[int | str | bool, Scores]

    @property
    def off(self) -> tuple[int | str | bool, ...]:
        """The horizons whose forecasts are found not calibrated."""
        return tuple(h for h, scores in self.by_horizon.items() if scores.verdict.startswith("Not calibrated"))

    @property
    def verdict(self) -> str:
        """What the scores say, in a sentence or two."""
        n = len(self.by_horizon)
        said = f"No gap is beyond chance at any of {count(n, 'horizon')}."
        if self.off:
            said = f"Not calibrated at {len(self.off):,} of {count(n, 'horizon')}: {listed(self.off)}."
        skills = {h: scores["skill"] for h, scores in self.by_horizon.items() if "skill" in scores}
        if skills:
            better = [h for h, score in skills.items() if score.low > 0.0]
            rest = f"at {listed(better)}" if better else "at none"
            said += f" Better than the reference {'at every horizon' if len(better) == n else rest}."
        return said

    def lines(self) -> tuple[list[str], list[list[str]]]:
        """Return a table: its header, and a row of texts for each horizon."""
        first = next(iter(self.by_horizon.values()))
        shown = [name for name in _SHOWN if all(name in scores for scores in self.by_horizon.values())]
        ends = f"{100 * next(iter(first.values())).level:g}% interval"
        header = ["horizon", "n", *(text for name in shown for text in (name, ends))]
        rows = []
        for horizon, scores in self.by_horizon.items():
            cells = [(figure(scores[name].value), bracketed(scores[name].low, scores[name].high)) for name in shown]
            rows.append([str(horizon), f"{scores[shown[0]].n:,}", *(text for pair in cells for text in pair)])
        return header, rows

    def to_dict(self) -> dict[str, Any]:
        """Return verdict and scores of each horizon as plain Python values."""
        return {
            "verdict": self.verdict,
            "horizons": [{"horizon": h, **scores.to_dict()} for h, scores in self.by_horizon.items()],
        }

    def _before(self) -> list[str]:
        return [self.verdict]

    def _columns(self) -> dict[str, Sequence[Any]]:
        return {"horizon": list(self.by_horizon), **scores_as_columns(list(self.by_horizon.values()))}


def evaluate_horizons(
    forecast: Forecast,
    y: ArrayLike,
    horizon: ArrayLike,
    *,
    reference: Forecast | str | None = None,
    history: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    interval_level: float | None = None,
    region: tuple[float | None, float | None] | None = None,
    level: float = 0.95,
    rng: int | np.random.Generator | None = 0,
    evaluated_on: str = "given data",
) -> HorizonScores:
    """Measure what forecasts of several steps ahead are worth at each horizon.

    Parameters
    ----------
    forecast, y, sample_weight, cluster, time, label_end, interval_level, region, level, rng, evaluated_on
        See `evaluate`. Each horizon is measured by itself, with the clusters and times of its rows.
    horizon : array-like of shape (n,)
        How far ahead each row was forecast: integers, or names, which are sorted.
    reference, history
        See `skill`: with a reference, skill against it in CRPS is measured too. Persistence of the row's last known
        outcome is `persistence(last)`.

    Returns
    -------
    HorizonScores

    Raises
    ------
    CalibrantError
        If an argument can't be used, or a horizon has fewer than two rows with weight.

    Notes
    -----
    Intervals and verdicts are of each horizon alone: of twenty calibrated horizons, one may be called off by chance.
    Rows of one origin at several horizons share errors, so that horizons can't be compared as if they were independent.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, evaluate_horizons
    >>> rng = np.random.default_rng(0)
    >>> step = np.repeat([1, 2, 3], 400)
    >>> y = rng.normal(scale=np.sqrt(step))
    >>> found = evaluate_horizons(GaussianForecast(np.zeros(1200), 1.0), y, step)
    >>> found.off
    (2, 3)
    >>> print(found.by_horizon[3]["coverage"])
    coverage 0.7150 [0.6689, 0.7570]
    """
    forecast, level, generator = as_forecast(forecast), check_fraction("level", level), as_generator(rng)
    interval_level = as_interval_level(interval_level, forecast)
    between = None if region is None else as_region(region)
    labels = as_groups(horizon, name="horizon")
    check_same_length(len(forecast), labels.codes.size, "forecast", "horizon")
    weight = as_weight(sample_weight, len(forecast), rows="the forecast")
    rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
    kept = np.arange(len(forecast)) if weight is None else np.flatnonzero(weight)
    codes = labels.codes[kept]
    other = None if reference is None else as_reference(reference, len(forecast), history)[kept]
    found: dict[int | str | bool, Scores] = {}
    for code, name in enumerate(labels.classes.tolist()):
        own = np.flatnonzero(codes == code)
        part = None if own.size < 2 else rows.take(own)
        if part is None or part.dependence.is_one:
            what = count(own.size, "row") if part is None else "rows of one cluster or time"
            raise InvalidInputError(f"horizon {name!r} has {what}. Pass more of them, or leave this horizon out.")
        scores, _ = scores_and_judgement(part, interval_level, level, generator, evaluated_on, between)
        if other is not None:
            more = scores_of(skill_estimates(part, other[own], "crps", level), part, level, evaluated_on)
            scores = Scores([*scores.values(), *more[1:]], verdict=scores.verdict, notes=scores.notes)
        found[name] = scores
    return HorizonScores(found)
