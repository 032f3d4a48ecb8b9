"""The report of forecasts of a number: how good they are, where they are off, and what recalibration changes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calibrant._version import __version__
from calibrant.errors import InvalidTypeError
from calibrant.forecasts import (
    Forecast,
    Outcomes,
    Recalibrator,
    ReliabilityGaps,
    crps_change,
    forecast_verdict,
    gaps_off,
    level_curve,
    pit_histogram,
    read_outcomes,
    reliability_gaps,
    scores_and_floors,
)
from calibrant.phrases import clean, percent_level
from calibrant.report import pages
from calibrant.report.forecast_sections import MEANINGS, forecast_sections, heading
from calibrant.results import plain
from calibrant.validation import ArrayLike, as_generator, check_fraction


class ForecastReport(pages.PageReport):
    """Report of forecasts of a number and what came of them, as a page.

    Says whether the forecasts are calibrated and which way their intervals err; then shows the scores, each gap
    beside what chance gives a forecast that is right, the histogram of PIT values, the reliability of all levels,
    and the gap between promised and realised losses of threshold decisions.

    Parameters
    ----------
    forecast : Forecast
    y : array-like of shape (n,)
        What happened.
    recalibrator : Recalibrator, optional
        A fitted one: everything is then shown before and after it. Give rows that it was not fitted to.
    interval_level : float
        Level of the central intervals that are scored.
    sample_weight, level, title, source, rng
        As in `Report`.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> cb.ForecastReport(cb.forecasts.GaussianForecast(np.zeros(500), 0.5), y)
    <ForecastReport: Not calibrated: intervals are too narrow, n = 500 rows>
    """

    name = "Forecast report"

    def __init__(
        self,
        forecast: Forecast,
        y: ArrayLike,
        *,
        recalibrator: Recalibrator | None = None,
        sample_weight: ArrayLike | None = None,
        interval_level: float = 0.9,
        level: float = 0.95,
        title: str = "Forecast report",
        source: str | None = None,
        rng: int | np.random.Generator | None = 0,
    ) -> None:
        if recalibrator is not None and not isinstance(recalibrator, Recalibrator):
            raise InvalidTypeError(
                f"recalibrator is a {type(recalibrator).__name__}. Pass a fitted one, such as "
                "ThresholdRecalibrator().fit(forecast, y)."
            )
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
            change = {end: plain(getattr(estimate, end)) for end in ("value", "low", "high")}
        headline = parts[-1]["headline"]
        if recalibrator is not None:
            headline = f"After recalibration: {headline[0].lower()}{headline[1:]}"
        self._summary = {
            "title": clean(title),
            "version": __version__,
            "state": parts[-1]["state"],
            "headline": headline,
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

    def page(self) -> pages.Page:
        found = self._summary
        answers = [pages.Answer(heading(part, "Are they calibrated?"), part["verdict"]) for part in found["parts"]]
        answers.append(pages.Answer("What to do?", found["advice"]))
        return pages.Page(found["title"], found["state"], found["headline"], answers, forecast_sections(found))

    def __repr__(self) -> str:
        return f"<ForecastReport: {self._summary['headline']}, n = {self._summary['data']['n_rows']:,} rows>"


def _measured(
    rows: Outcomes, label: str, interval_level: float, level: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the figures of one set of forecasts."""
    scores, floors = scores_and_floors(rows, interval_level, level, rng, "given data")
    gaps = reliability_gaps(rows.forecast, rows.y, sample_weight=rows.weight)
    found, off = forecast_verdict(scores, floors, interval_level), gaps_off(scores, floors)
    histogram = pit_histogram(rows.forecast, rows.y, sample_weight=rows.weight, level=level)
    curve = level_curve(rows.forecast, rows.y, sample_weight=rows.weight, level=level, label=label)
    return {
        "label": label,
        "state": found.state,
        "headline": found.headline,
        "verdict": str(found),
        "scores": {
            name: {
                **{key: plain(getattr(score, key)) for key in ("value", "low", "high", "method")},
                "is_infinite": math.isinf(score.value),
                "floor": plain(floors[name].mean) if name in floors else None,
                "is_off": name in off,
            }
            for name, score in scores.items()
        },
        "pit": {
            "edges": histogram.edges.tolist(),
            "density": histogram.density.tolist(),
            **{key: float(getattr(histogram, key)) for key in ("low", "high", "low_all", "high_all")},
            "n": histogram.n,
        },
        "levels": {key: getattr(curve, key).tolist() for key in ("levels", "share", "low", "high")}
        | {"error": curve.error, "n": curve.n},
        "gaps": _gaps(gaps),
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
    ends = f"{percent_level(level)} interval {pages.decimals(change['low'])} to {pages.decimals(change['high'])}"
    said = f"CRPS changes by {pages.decimals(change['value'])} ({ends}, paired by row)"
    if change["high"] < 0.0:
        return f"Use the recalibrated forecasts. {said}."
    if change["low"] > 0.0:
        return f"Leave the forecasts as they are, if CRPS is what counts: {said}."
    return f"{said}: no difference that these rows could show."
