"""What a model is worth to who acts on it: stakes and thresholds, chosen on one part of the rows, judged on another."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from calibrant.numerics import FloatArray
from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import AFTER, BEFORE, Forecasts
from calibrant.training.sizing import StakeRule, sizing_error
from calibrant.training.thresholds import THRESHOLDS, ThresholdResult, choose_threshold, threshold_table


def judge_actions(
    validation: Dataset,
    validation_forecasts: Forecasts,
    test: Dataset,
    test_forecasts: Forecasts,
    *,
    rule: StakeRule | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Choose thresholds on the validation rows, and judge them and the stakes on the test rows, before and after.

    Parameters
    ----------
    validation, test : Dataset
        The rows of a choice, and those that nothing was fitted to or chosen on.
    validation_forecasts, test_forecasts : Forecasts
        Those of the validation rows by fits that had not seen them.
    rule : StakeRule, optional
        Half Kelly at even moves of one barrier, without costs, by default.
    seed : int
        Of the bootstrap.

    Returns
    -------
    dict
        `rule`; and for "raw" and "calibrated": `sizing_error` on the test rows with its `floor`; `chosen`, a
        threshold or None for "do not trade", with the `reason`; `validation` and `test`, the figures of each
        threshold.
    """
    rule = StakeRule() if rule is None else rule
    found: dict[str, Any] = {"rule": asdict(rule)}
    for name in (BEFORE, AFTER):
        chosen_on, judged_on = validation_forecasts.named()[name], test_forecasts.named()[name]
        choice = choose_threshold(
            validation.y,
            chosen_on,
            rule=rule,
            time=validation.time,
            label_end=validation.label_end,
            classes=validation.classes,
            rng=seed,
        )
        found[name] = {
            "sizing_error": asdict(sizing_error(test.y, judged_on, rule=rule, classes=test.classes, rng=seed)),
            "chosen": choice.threshold,
            "reason": choice.reason,
            "validation": [result.to_dict() for result in choice.table],
            "test": [result.to_dict() for result in _table(test, judged_on, rule, seed)],
        }
    return found


def _table(data: Dataset, prob: FloatArray, rule: StakeRule, seed: int) -> tuple[ThresholdResult, ...]:
    return threshold_table(
        data.y,
        prob,
        thresholds=THRESHOLDS,
        rule=rule,
        time=data.time,
        label_end=data.label_end,
        classes=data.classes,
        rng=seed,
    )
