"""The public functions of forecasts, as functions of outcomes, parameters and weights that give back numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from calibrant import forecasts

#: Metrics of forecasts and outcomes, with the thresholds that they need, and where their answers end.
METRICS: dict[str, tuple[Callable[..., Any], tuple[float, float]]] = {
    "crps": (forecasts.crps, (0.0, np.inf)),
    "log_score": (forecasts.log_score, (-np.inf, np.inf)),
    "pinball_loss": (forecasts.pinball_loss, (0.0, np.inf)),
    "interval_score": (forecasts.interval_score, (0.0, np.inf)),
    "coverage": (forecasts.coverage, (0.0, 1.0)),
    "average_calibration_error": (forecasts.average_calibration_error, (0.0, 0.5)),
    "threshold_calibration_error": (
        lambda f, y, **options: forecasts.threshold_calibration_error(f, y, 0.1, 0.5, **options),
        (0.0, 1.0),
    ),
    "threshold_calibration_errors": (
        lambda f, y, **options: np.nansum(forecasts.threshold_calibration_errors(f, y, min_rows=1, **options).values),
        (-np.inf, np.inf),
    ),
    "distribution_calibration_error": (forecasts.distribution_calibration_error, (0.0, 0.5)),
    "reliability_gap": (
        lambda f, y, **options: forecasts.reliability_gap(f, y, (0.1, 0.5), ((0.0, 4.0), (1.0, 0.0)), **options),
        (0.0, 4.0),
    ),
    "reliability_gaps": (lambda f, y, **options: forecasts.reliability_gaps(f, y, **options).values, (0.0, 10.0)),
    "decision_loss": (
        lambda f, y, **options: forecasts.decision_loss(f, y, (0.1, 0.5), ((0.0, 4.0), (1.0, 0.0)), **options),
        (0.0, 4.0),
    ),
    "pit_histogram": (lambda f, y, **options: forecasts.pit_histogram(f, y, **options).density, (0.0, np.inf)),
    "level_curve": (lambda f, y, **options: forecasts.level_curve(f, y, **options).share, (0.0, 1.0)),
    "pit_test": (forecasts.pit_test, (0.0, np.inf)),
    "weighted_interval_score": (forecasts.weighted_interval_score, (0.0, np.inf)),
    "threshold_weighted_crps": (
        lambda f, y, **options: forecasts.threshold_weighted_crps(f, y, low=0.3, **options),
        (0.0, np.inf),
    ),
    "coverage_by_level": (
        lambda f, y, **options: [found.value for found in forecasts.coverage_by_level(f, y, **options).below],
        (0.0, 1.0),
    ),
    "skill": (
        lambda f, y, **options: forecasts.skill(f, y, forecasts.persistence(f.mean()), **options),
        (-np.inf, np.inf),
    ),
    "forecasts.evaluate": (forecasts.evaluate, (-np.inf, np.inf)),
    "evaluate_rule": (
        lambda f, y, **options: forecasts.evaluate_rule(f, y, (0.1, 0.5), ((0.0, 4.0), (1.0, 0.0)), **options),
        (-np.inf, np.inf),
    ),
}


def subjects(n: int, make: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield subjects of `n` rows, each made by `make(run, names, kind, n_columns, range)`."""
    forecast = forecasts.GaussianForecast(np.linspace(-3.0, 3.0, n), 1.5)
    names = {"score": "y", "weight": "sample_weight"}
    for name, (function, range_) in METRICS.items():

        def run(score: Any, weight: Any, function: Callable[..., Any] = function) -> Any:
            return function(forecast, score, sample_weight=weight)

        yield name, make(run, names, "score", 1, range_)
    real = (-np.inf, np.inf)
    yield "pit", make(lambda score: forecasts.pit(forecast, score, rng=0), {"score": "y"}, "score", 1, (0.0, 1.0))
    yield (
        "sharpness",
        make(
            lambda weight: forecasts.sharpness(forecast, sample_weight=weight),
            {"weight": "sample_weight"},
            "score",
            1,
            real,
        ),
    )
    yield (
        "climatology",
        make(lambda score: forecasts.climatology(score, 3).cdf(0.5), {"score": "history"}, "score", 1, (0.0, 1.0)),
    )
    yield (
        "persistence",
        make(lambda score: forecasts.persistence(score).mean(), {"score": "last"}, "score", 1, real),
    )
    yield (
        "GaussianForecast",
        make(lambda score: forecasts.GaussianForecast(score, 1.0).cdf(0.5), {"score": "mean"}, "score", 1, real),
    )
    yield (
        "SampleForecast",
        make(lambda score: forecasts.SampleForecast(score).crps(np.zeros(n)), {"score": "samples"}, "score", 3, real),
    )
