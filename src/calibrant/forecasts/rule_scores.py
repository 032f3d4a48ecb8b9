"""What one threshold rule is worth: how often it says yes, what it promises and what comes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.decisions import Problem
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.calibration import distance_of_sides
from calibrant.forecasts.decisions import LossFunction, ThresholdRule, as_problem, as_rule, rule_losses
from calibrant.forecasts.evaluation import bounded_estimate, design_effect, scores_of
from calibrant.forecasts.noise import GapByChance, level_noise
from calibrant.forecasts.scores import Outcomes, read_outcomes
from calibrant.metrics import Estimate
from calibrant.numerics import BoolArray, FloatArray
from calibrant.results import Scores
from calibrant.validation import ArrayLike, as_generator, check_fraction

#: Draws from which noise floors are taken.
_DRAWS = 50


def evaluate_rule(
    forecast: Forecast,
    y: ArrayLike,
    decision: ThresholdRule | tuple[float, float],
    loss: LossFunction | Problem | ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    level: float = 0.95,
    rng: int | np.random.Generator | None = 0,
    evaluated_on: str = "given data",
) -> Scores:
    """Measure one threshold rule, each figure with an interval and each gap beside its noise floor.

    Parameters
    ----------
    forecast, y, sample_weight, cluster, time, label_end, level, rng, evaluated_on
        See `evaluate`.
    decision : ThresholdRule or (y0, alpha)
        Yes where P(Y <= y0) <= alpha.
    loss : array-like of shape (2, 2), ThresholdLoss, Problem or callable, optional
        See `reliability_gap`.

    Returns
    -------
    Scores
        `decided_yes` (the share of rows) and `threshold_calibration_error`; with a loss also `promised_loss`,
        `realised_loss` and `reliability_gap`.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The interval of `decided_yes` is Wilson's, those of the losses are as in `evaluate`, and that of the reliability gap
    holds the sizes of the numbers in such an interval of promised less realised loss, paired by row. The threshold
    calibration error has "noise bounds", as in `evaluate`. Noise floors are means over outcomes drawn from the
    forecast.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, evaluate_rule
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=1000)
    >>> forecast, y = GaussianForecast(mean, 0.5), mean + rng.normal(size=1000)
    >>> print(evaluate_rule(forecast, y, (0.0, 0.2), ((0.0, 0.0), (-1.0, 4.0)))["reliability_gap"])
    reliability_gap 0.2289 [0.1642, 0.3054]
    """
    level, generator = check_fraction("level", level), as_generator(rng)
    rule = as_rule(decision)
    checked = None if loss is None else as_problem(loss, rule.y0)
    rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
    picked = rule.decide(rows.forecast)
    drawn = [rows.drawn(generator) for _ in range(_DRAWS)]
    estimates = rule_estimates(rows, rule, checked, level)
    noise = _noise_of_rule(rows, picked, generator)
    alone = _noise_of_rule(rows.as_independent(), picked, generator) if rows.dependence else noise
    effect = design_effect(noise, alone)
    share = (1.0 - level) / (1 if checked is None else 2)
    chance = GapByChance.of_draws(np.array([distance_of_sides(each, picked) for each in drawn]), share)
    chance = chance.raised(effect, noise, share) if effect > 1.0 else chance
    error = bounded_estimate(distance_of_sides(rows, picked), noise, chance, level)
    estimates["threshold_calibration_error"] = replace(error, effect=effect)
    off = ["threshold_calibration_error"] if error.value > chance.limit else []
    if checked is not None:
        if rule_estimates(rows, rule, checked, 1.0 - share)["reliability_gap"].low > 0.0:
            off.append("reliability_gap")
        gap = estimates.pop("reliability_gap")  # told last
        gaps = [abs(rows.mean(np.subtract(*rule_losses(each, rule, checked)))) for each in drawn]
        estimates["reliability_gap"] = replace(gap, note=f"noise floor {np.mean(gaps) * gap.effect**0.5:.4f}")
    return Scores(scores_of(estimates, rows, level, evaluated_on), verdict=_rule_verdict(estimates, off))


def rule_estimates(rows: Outcomes, rule: ThresholdRule, loss: Problem | None, level: float) -> dict[str, Estimate]:
    """Estimate how often a rule says yes and, of a loss, what it promises, what comes of it, and the gap between."""
    decided = rule.decide(rows.forecast).astype(np.float64)
    estimates = {"decided_yes": rows.rate_estimate(decided, level)}
    if loss is None:
        return estimates
    promised, realised = rule_losses(rows, rule, loss)
    signed = rows.mean_estimate(promised - realised, level)
    near, far = sorted((abs(signed.low), abs(signed.high)))
    low = 0.0 if signed.low <= 0.0 <= signed.high else near
    return estimates | {
        "promised_loss": rows.mean_estimate(promised, level),
        "realised_loss": rows.mean_estimate(realised, level),
        "reliability_gap": replace(signed, value=abs(signed.value), low=low, high=far),
    }


def _noise_of_rule(rows: Outcomes, picked: BoolArray, rng: np.random.Generator) -> FloatArray:
    """Draw the noise of the threshold calibration error of a rule, shape (draws,)."""
    (noise,) = level_noise(rows, [(~picked).astype(np.int64)], 1, rng)
    return np.asarray(noise[:, 0].sum(axis=1))


def _rule_verdict(estimates: dict[str, Estimate], off: list[str]) -> str:
    said = []
    if "threshold_calibration_error" in off:
        error = estimates["threshold_calibration_error"].value
        said.append(f"Not calibrated on the sides of this rule (error {error:.3f}), beyond what chance gives.")
    if "reliability_gap" in off:
        promised, realised = (estimates[name].value for name in ("promised_loss", "realised_loss"))
        said.append(f"Decisions lose {realised:.3f} where {promised:.3f} was promised.")
    return " ".join(said) or "Neither its sides nor its promise are off by more than chance."
