"""What trading by a model is worth: chosen on one part of the rows, judged on another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.training.bars import Bars
from calibrant.training.config import TrainConfig
from calibrant.training.metrics_report import Forecasts
from calibrant.training.sizing import StakeRule, sizing_error
from calibrant.training.thresholds import threshold_table
from calibrant.training.trading_evaluation import evaluate_trading
from calibrant.training.training_run import run_dataset


def test_thresholds_are_chosen_on_one_part_and_judged_on_the_other(make_bars: Callable[..., Bars]) -> None:
    data = run_dataset(TrainConfig(horizon=10), make_bars(900))
    before, test = data.last(0.2)
    rng = np.random.default_rng(1)
    forecasts = [
        Forecasts(*(rng.dirichlet([3, 3, 3], data.n_rows) for _ in range(2)), np.full((data.n_rows, 3), 1 / 3))
        for data in (before, test)
    ]
    rule = StakeRule(cost=0.01)
    found = evaluate_trading(before, forecasts[0], test, forecasts[1], rule=rule)
    expected = threshold_table(
        test.y, forecasts[1].calibrated, rule=rule, time=test.time, label_end=test.label_end, classes=test.classes
    )
    assert found["calibrated"]["test"] == [row.to_dict() for row in expected]
    error = sizing_error(test.y, forecasts[1].raw, rule=rule, classes=test.classes)
    assert found["raw"]["sizing_error"]["value"] == error.value
    assert found["rule"]["cost"] == 0.01
