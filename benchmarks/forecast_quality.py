"""Held-out quality of the recalibrators of forecasts: what decisions promise and lose, scores, and density."""

from __future__ import annotations

import copy
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import t as student

from benchmarks._harness import RESULTS, machine_facts, table
from benchmarks.forecast_sets import Run, runs
from calibrant.errors import CalibrantWarning
from calibrant.forecasts import (
    AverageRecalibrator,
    ConformalRecalibrator,
    DistributionRecalibrator,
    Forecast,
    Outcomes,
    Recalibrator,
    ThresholdRecalibrator,
    VarianceScalingRecalibrator,
    crps,
    log_score,
    noise_floor,
    reliability_gaps,
    threshold_calibration_errors,
)
from calibrant.forecasts.recalibrators.direct import fit_levels
from calibrant.forecasts.recalibrators.rounds import MeanOfChains

N_SEEDS = 10
METHODS: dict[str, Callable[[], Recalibrator] | None] = {
    "none": None,
    "average": AverageRecalibrator,
    "average, smooth": lambda: AverageRecalibrator(n_knots=20),
    "threshold": ThresholdRecalibrator,
    "threshold, bagged": lambda: ThresholdRecalibrator(bagged=True),
    "threshold, direct": lambda: ThresholdRecalibrator(direct_layer=True),
    "threshold, paper": lambda: ThresholdRecalibrator("paper"),
    "distribution": DistributionRecalibrator,
    "conformal": ConformalRecalibrator,
    "variance": VarianceScalingRecalibrator,
}
FIGURES = ("tce", "tce max", "gap", "gap floor", "gap max", "crps", "log score", "decision loss")
#: Differences that the issue asks about: of what, to which other method, and which way is better.
CLAIMS = (
    ("threshold", "average", ("gap", "crps", "log score", "decision loss")),
    ("threshold, paper", "average", ("gap", "crps", "log score", "decision loss")),
    ("threshold, direct", "average", ("gap", "crps", "decision loss")),
    ("threshold", "none", ("gap", "crps", "log score", "decision loss")),
    ("threshold", "distribution", ("gap", "crps")),
)
_N_FLOOR = 5
_LEGEND = f"""Held-out rows of regression sets: means over {N_SEEDS} random splits, half for training.
tce: threshold calibration error, mean and greatest over 50 y0 and 20 alpha. gap: |promised - true loss| of threshold
decisions, mean and greatest over 50 y0, 50 alpha and 50 cost ratios (losses add up to 10); its floor is what the same
forecasts would have if outcomes were drawn from them. decision loss: of the best rule for each of the 50 cost ratios.
log score: negative mean log density; it is bought with atoms where outcomes repeat (wine_red, forest_fires, appliances)
and a layer gives single values a probability. Lower is better throughout.
In differences, the 95% interval is Student's over splits of the same rows: a guide, and not exact."""


def _bagged(fitted: ThresholdRecalibrator, _: Run) -> ThresholdRecalibrator:
    """Return what `bagged=True` gives: the folds' rounds, that the choice was made by."""
    bagged = copy.copy(fitted)
    if fitted.choice_ == "rounds" and fitted.cv_ is not None:
        bagged.layers_ = (MeanOfChains(fitted.cv_.chains),)
    return bagged


def _direct(fitted: ThresholdRecalibrator, one: Run) -> ThresholdRecalibrator:
    """Return what `direct_layer=True` gives: a layer more, fitted to the recalibrated rows."""
    forecast, y = one.calibration
    direct = copy.copy(fitted)
    rows = Outcomes(fitted.transform(forecast), y, None)
    direct.layers_ = (*fitted.layers_, fit_levels(rows, fitted.n_thresholds, fitted.pseudo_counts))
    return direct


#: What comes of one fit of "threshold", whose folds cost more than all else.
FROM_THRESHOLD: dict[str, Callable[[ThresholdRecalibrator, Run], ThresholdRecalibrator]] = {
    "threshold": lambda fitted, _: fitted,
    "threshold, bagged": _bagged,
    "threshold, direct": _direct,
}


@dataclass
class ForecastQuality:
    """Figures of every run and method, shape (runs, methods, figures)."""

    names: list[tuple[str, str, int]] = field(default_factory=list)
    figures: list[list[list[float]]] = field(default_factory=list)
    choices: list[tuple[str, int]] = field(default_factory=list)
    cpu_s: float = 0.0

    def write(self, name: str) -> str:
        """Write `results/<name>.txt` and `.json`; return the text."""
        RESULTS.mkdir(exist_ok=True)
        facts = machine_facts()
        text = "\n\n".join(
            [_LEGEND, table(("", ""), [*facts.items(), ("CPU time", f"{self.cpu_s:.0f} s")])]
            + [self._table(group) for group in self.groups()]
            + [self._claims()]
        )
        (RESULTS / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
        document = {
            "machine": facts,
            "methods": list(METHODS),
            "figures": FIGURES,
            "runs": [
                {"set": s, "base": b, "seed": seed, "choice": choice, "values": values}
                for (s, b, seed), choice, values in zip(self.names, self.choices, self.figures, strict=True)
            ],
        }
        (RESULTS / f"{name}.json").write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")
        return text

    def groups(self) -> list[tuple[str, str]]:
        """Return the sets and bases."""
        return list(dict.fromkeys((s, b) for s, b, _ in self.names))

    def of(self, group: tuple[str, str]) -> Any:
        """Return the figures of a set and base, shape (seeds, methods, figures)."""
        kept = [f for (s, b, _), f in zip(self.names, self.figures, strict=True) if (s, b) == group]
        return np.array(kept)

    def _table(self, group: tuple[str, str]) -> str:
        mean = self.of(group).mean(axis=0)
        rows = [
            (method, *(f"{value:.4g}" if np.isfinite(value) else "-" for value in mean[i]))
            for i, method in enumerate(METHODS)
        ]
        made = [choice for (s, b, _), choice in zip(self.names, self.choices, strict=True) if (s, b) == group]
        rounds = ", ".join(f"{n}" if choice == "rounds" else choice for choice, n in made)
        heading = f"{group[0]}, {group[1]}; rounds of threshold: {rounds}"
        return heading + "\n" + table(("method", *FIGURES), rows, right=range(1, len(FIGURES) + 1))

    def _claims(self) -> str:
        rows = []
        for a, b, figures in CLAIMS:
            for group in self.groups():
                values = self.of(group)
                cells = []
                for figure in figures:
                    j, k = FIGURES.index(figure), list(METHODS)
                    cells.append(_difference(values[:, k.index(a), j] - values[:, k.index(b), j]))
                cells += [""] * (4 - len(cells))
                rows.append((f"{a} - {b}", f"{group[0]}, {group[1]}", *cells))
        head = ("paired difference", "set", "gap", "crps", "log score, or decision loss of direct", "decision loss")
        return table(head, rows)


def run() -> ForecastQuality:
    """Fit every method in every run, and measure it on held-out rows."""
    quality = ForecastQuality()
    start = time.process_time()
    for one in runs(N_SEEDS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            _measure_all(quality, one)
    quality.cpu_s = time.process_time() - start
    return quality


def _measure_all(quality: ForecastQuality, one: Run) -> None:
    rows = []
    threshold = ThresholdRecalibrator().fit(*one.calibration)
    quality.choices.append((threshold.choice_, len(threshold.rounds_)))
    for name, make in METHODS.items():
        forecast, y = one.test
        if name in FROM_THRESHOLD:
            forecast = FROM_THRESHOLD[name](threshold, one).transform(forecast)
        elif make is not None:
            forecast = make().fit(*one.calibration).transform(forecast)
        rows.append(measure(forecast, y))
    quality.names.append((one.set, one.base, one.seed))
    quality.figures.append(rows)


def measure(forecast: Forecast, y: Any) -> list[float]:
    """Return the figures of a forecast, in the order of `FIGURES`."""
    errors = threshold_calibration_errors(forecast, y)
    gaps = reliability_gaps(forecast, y)
    floor = noise_floor(
        forecast,
        lambda f, drawn, sample_weight: reliability_gaps(f, drawn, y0=gaps.y0, sample_weight=sample_weight).mean,
        n_draws=_N_FLOOR,
    )
    best = np.arange(gaps.cost.size)
    loss = float(gaps.true[:, best, best].mean())
    density = log_score(forecast, y) if forecast.has_density else np.nan
    return [errors.mean, errors.max, gaps.mean, floor.mean, gaps.max, crps(forecast, y), density, loss]


def _difference(values: Any) -> str:
    mean, n = float(values.mean()), values.size
    half = float(student.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))
    mark = "" if abs(mean) <= half or not np.isfinite(half) else " better" if mean < 0 else " worse"
    return f"{mean:+.4f} ± {half:.4f}{mark}"
