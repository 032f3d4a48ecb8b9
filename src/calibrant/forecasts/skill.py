"""Skill: how much lower the score of a forecast is than that of a reference, with a paired interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from calibrant.errors import unknown_name
from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.evaluation import scores_of
from calibrant.forecasts.given_levels import checked_interval_level
from calibrant.forecasts.ordered import skill_estimate, skill_verdict
from calibrant.forecasts.reference import as_reference
from calibrant.forecasts.scores import Outcomes, read_outcomes, row_interval_score, row_pinball
from calibrant.forecasts.weighted_intervals import interval_levels, row_weighted_interval_score
from calibrant.metrics import Estimate
from calibrant.numerics import FloatArray
from calibrant.results import Scores
from calibrant.validation import ArrayLike, as_weight, check_fraction

#: Scores of each row that skill can be of; those of intervals take the levels that the forecast gives.
_SCORES: dict[str, Callable[[Outcomes, Forecast], FloatArray]] = {
    "crps": lambda rows, _: rows.forecast.crps(rows.y),
    "pinball_loss": lambda rows, _: row_pinball(rows, 0.5),
    "interval_score": lambda rows, own: row_interval_score(rows, checked_interval_level(None, own)),
    "weighted_interval_score": lambda rows, own: row_weighted_interval_score(rows, interval_levels(own)),
}


def skill(
    forecast: Forecast,
    y: ArrayLike,
    reference: Forecast | str = "climatology",
    *,
    score: str = "crps",
    history: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    level: float = 0.95,
    evaluated_on: str = "given data",
) -> Scores:
    """Measure by how much a forecast's score is lower than that of a reference, with an interval paired by row.

    Parameters
    ----------
    forecast, y, sample_weight, cluster, time, label_end, level, evaluated_on
        See `evaluate`.
    reference : Forecast or "climatology"
        What to compare with, a forecast of the same rows: `persistence(last)`, `climatology(history, n)` or any other.
        "climatology" is the distribution of `history`.
    score : {"crps", "pinball_loss", "interval_score", "weighted_interval_score"}
        The score, of which smaller is better and 0 is perfect.
    history : array-like of shape (m,), optional
        Outcomes from before the rows, for "climatology".

    Returns
    -------
    Scores
        The score under its name, `reference_score`, `difference` (the score less that of the reference) and `skill`
        (one less their ratio: 1 is perfect, 0 no better, below 0 worse).

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The interval of `skill` is of the linearised ratio of both means (delta method), from differences of the same row.
    It is Student's t with Hall's transformation, and respects clusters and time as those of `evaluate` do. Skill
    against a weak reference says little: climatology of the same season, or persistence, are hard to beat at some
    horizons.

    References
    ----------
    Murphy (1988), *Skill scores based on the mean square error*, Monthly Weather Review 116. Gneiting and Raftery
    (2007), section 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, skill
    >>> rng = np.random.default_rng(0)
    >>> past, mean = rng.normal(0.0, 1.4, 500), rng.normal(size=500)
    >>> scores = skill(GaussianForecast(mean, 1.0), mean + rng.normal(size=500), history=past)
    >>> print(scores.verdict)
    Better than climatology: the score is 25.5% lower.
    >>> print(scores["skill"])
    skill 0.2552 [0.2107, 0.3003]
    """
    level = check_fraction("level", level)
    if score not in _SCORES:
        raise unknown_name("score", score, _SCORES)
    rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
    weight = as_weight(sample_weight, len(as_forecast(forecast)))
    other = as_reference(reference, len(rows) if weight is None else weight.size, history)
    other = other if weight is None else other[weight > 0.0]
    found = skill_estimates(rows, other, score, level)
    name = reference if isinstance(reference, str) else "the reference"
    verdict = skill_verdict(found["skill"].low, found["skill"].high, found["skill"].value, name)
    return Scores(scores_of(found, rows, level, evaluated_on), verdict=verdict)


def skill_estimates(rows: Outcomes, reference: Forecast, score: str, level: float) -> dict[str, Estimate]:
    """Return what `skill` measures of checked rows and a reference of the same rows."""
    of = _SCORES[score]
    values = of(rows, rows.forecast)
    others = of(replace(rows, forecast=reference), rows.forecast)
    return {
        score: rows.mean_estimate(values, level, least=0.0),
        "reference_score": rows.mean_estimate(others, level, least=0.0),
        "difference": rows.mean_estimate(values - others, level),
        "skill": skill_estimate(values, others, rows.weights, lambda each: rows.mean_estimate(each, level, most=1.0)),
    }
