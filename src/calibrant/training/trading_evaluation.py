"""What a model is worth to who trades by it: thresholds chosen on one part of the rows, stakes judged on another."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import AFTER, BEFORE, Forecasts
from calibrant.training.sizing import StakeRule, sizing_error
from calibrant.training.thresholds import choose_threshold, threshold_table


def evaluate_trading(
    earlier: Dataset,
    forecasts: Forecasts,
    test: Dataset,
    test_forecasts: Forecasts,
    *,
    rule: StakeRule | None = None,
    rng: int = 0,
) -> dict[str, Any]:
    """Choose thresholds on the earlier rows, and judge them and the stakes on the test rows, before and after.

    The forecasts of the earlier rows are those of fits that had not seen them; the test rows had no part in anything.
    Returns the `rule`, by default half Kelly at even moves of one barrier without costs; and for "raw" and
    "calibrated": `sizing_error` on the test rows with its `floor`; `chosen`, a threshold or None for "do not trade",
    with the `reason`; `validation` and `test`, the figures of each threshold.
    """
    rule = StakeRule() if rule is None else rule

    def about(data: Dataset) -> dict[str, Any]:
        return {"rule": rule, "time": data.time, "label_end": data.label_end, "classes": data.classes, "rng": rng}

    found: dict[str, Any] = {"rule": asdict(rule)}
    for name in (BEFORE, AFTER):
        choice = choose_threshold(earlier.y, forecasts.named()[name], **about(earlier))
        prob = test_forecasts.named()[name]
        found[name] = {
            "sizing_error": asdict(sizing_error(test.y, prob, rule=rule, classes=test.classes, rng=rng)),
            "chosen": choice.threshold,
            "reason": choice.reason,
            "validation": [result.to_dict() for result in choice.table],
            "test": [result.to_dict() for result in threshold_table(test.y, prob, **about(test))],
        }
    return found
