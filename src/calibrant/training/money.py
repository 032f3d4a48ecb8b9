"""What a run's probabilities are worth in money: raw and calibrated, beside holding and not trading at all.

The stake rule is told by the rows before the test part what a rise and a fall are worth, and how many labels are open
at once; a threshold is chosen on them. Then the test part is traded: every stake is paid what its row really returned,
less costs, out of one capital.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from calibrant.results import plain
from calibrant.training.block_bootstrap import PairedMean
from calibrant.training.dataset import Dataset
from calibrant.training.equity import Equity, Moments, compare_growth
from calibrant.training.metrics_report import AFTER, BEFORE, Forecasts
from calibrant.training.sizing import StakeKind, StakeRule
from calibrant.training.stake_errors import SizingReduction, sizing_error, sizing_reduction
from calibrant.training.thresholds import Trades, choose_threshold, evaluate_returns, threshold_table

HOLD, NO_TRADE = "buy and hold", "no trade"
#: Shares by which calibration was specified to lower the sizing error, and the log loss of an ensemble.
SPECIFIED_SIZING, SPECIFIED_ENSEMBLE = (0.3, 0.5), (0.05, 0.1)
_LEVEL = 0.95
#: Held for less of the time than this, holding is another thing than what was traded.
NEARLY_ALL = 0.99
#: Why nothing can be staked on the rows of a table.
NO_STAKES = (
    "a table needs a column of returns (price_return), and labels -1, 0 and 1 for a fall, neither "
    "and a rise, or two of them"
)
DEFINITIONS = (
    "Each stake opens at its row's time with a share of one capital and is paid its row's realised return when its "
    "label ends; gains compound, and open positions together never take more than the limit. Costs are basis points of "
    "all capital moved, at opening and at closing. Growth: the logarithm of what the capital grew by. Falls are those "
    "of the capital at ends of labels. Intervals: block bootstrap over moments. Promised returns take a rise, a fall "
    "and neither for what they returned on average before the test part, neither for nothing."
)


@dataclass(frozen=True, slots=True, eq=False)
class Money:
    """What metrics.json says of money, and the paths of the capital by name: none where nothing can be staked."""

    figures: dict[str, Any]
    paths: Mapping[str, Equity] = field(default_factory=dict)

    def columns(self) -> dict[str, Any]:
        """Return the paths as columns for a file: the times, and a capital of 1 under each name."""
        if not self.paths:
            return {}
        first = next(iter(self.paths.values()))
        return {"time": first.time} | {name.replace(" ", "_"): path.capital for name, path in self.paths.items()}


def rule_before(earlier: Dataset, kind: StakeKind, cost_bp: float) -> StakeRule | str:
    """Return the stake rule that the rows before the test part tell, or why they tell none.

    A rise and a fall are worth what rows of their label returned on average. A stake of 1 moves one part of the capital
    of as many as there are labels open at once.
    """
    if not earlier.has_stakes or earlier.label_return is None:
        return NO_STAKES
    returns, labels = earlier.label_return, earlier.classes
    moves = {}
    for name, label, side in (("rise", labels[-1], 1.0), ("fall", labels[0], -1.0)):
        found = returns[earlier.y == label]
        mean = float(found.mean()) if found.size else math.nan
        if not side * mean > 0.0:
            what = f"returned {mean:+z.4f} on average" if found.size else "are of no row"
            return f"labels {label} {what} before the test part, so they are no {name} of the price"
        moves[name] = side * mean
    share = 1.0 / Moments.of(returns, earlier.time, earlier.label_end).overlap()
    return StakeRule(kind, up=moves["rise"], down=moves["fall"], cost_bp=cost_bp, share=share)


def evaluate_money(
    earlier: Dataset,
    forecasts: Forecasts,
    test: Dataset,
    test_forecasts: Forecasts,
    *,
    stakes: StakeKind = "linear",
    cost_bp: float = 5.0,
    rng: int = 0,
) -> Money:
    """Choose the stake rule and thresholds on the earlier rows, and judge them on the test rows, before and after.

    The forecasts of the earlier rows are those of fits that had not seen them; the test rows had no part in anything.

    The figures: `rule`; `paths` with growth, final capital, largest fall, turnover and exposure of all stakes, of those
    above a threshold if one was chosen, of holding and of no trade; for "raw" and "calibrated" `sizing_error`, `chosen`
    with its `reason`, thresholds on both parts, and returns promised and realised; `sizing_reduction`; `specified`.
    Where nothing can be staked they are `left_out`, the reason.
    """
    rule = rule_before(earlier, stakes, cost_bp)
    if isinstance(rule, str) or earlier.label_return is None or test.label_return is None:
        return Money({"left_out": rule if isinstance(rule, str) else NO_STAKES})

    def about(data: Dataset) -> dict[str, Any]:
        spans = {"time": data.time, "label_end": data.label_end, "label_return": data.label_return}
        return {**spans, "rule": rule, "classes": data.classes, "rng": rng}

    moments = Moments.of(test.label_return, test.time, test.label_end)
    paths: dict[str, Equity] = {}
    found: dict[str, Any] = {}
    for name in (BEFORE, AFTER):
        choice = choose_threshold(earlier.y, forecasts.named()[name], **about(earlier))
        prob = test_forecasts.named()[name]
        trades = Trades.of(test.y, prob, test.label_return, test.time, test.label_end, test.classes, rule)
        paths[name] = trades.path(0.0)
        if choice.threshold:
            paths[f"{name} above {choice.threshold:g}"] = trades.path(choice.threshold)
        returns = evaluate_returns(test.y, prob, threshold=choice.threshold or 0.0, **about(test))
        found[name] = {
            "sizing_error": asdict(sizing_error(test.y, prob, rule=rule, classes=test.classes, rng=rng)),
            "chosen": choice.threshold,
            "reason": choice.reason,
            "validation": [result.to_dict() for result in choice.table],
            "test": [result.to_dict() for result in threshold_table(test.y, prob, **about(test))],
            "returns": returns.to_dict(),
        }
    symbols = np.unique(test.symbol.astype(str), return_inverse=True)[1]
    fault = moments.why_not_held(symbols)
    if not fault:
        paths[HOLD] = moments.hold(symbols, rule.cost_bp)
        found["held_share"] = moments.held_share(symbols)
    paths[NO_TRADE] = moments.trade(np.zeros(test.n_rows), 0.0, 1.0)
    of_rows: dict[str, Any] = {"time": test.time, "label_end": test.label_end, "classes": test.classes}
    forecasts_of = (test_forecasts.raw, test_forecasts.calibrated)
    reduction = sizing_reduction(test.y, *forecasts_of, rule=rule, level=_LEVEL, rng=rng, **of_rows)
    figures = {
        "definitions": DEFINITIONS,
        "rule": asdict(rule),
        "per": paths[BEFORE].per,
        "length": paths[BEFORE].length,
        "level": _LEVEL,
        "paths": describe_paths(paths, rng=rng),
        **({"not_held": fault} if fault else {}),
        **found,
        "sizing_reduction": asdict(reduction),
        "specified": [_sizing_compared(reduction, floor=found[BEFORE]["sizing_error"]["floor"])],
    }
    return Money(plain(figures), paths)


def describe_paths(paths: Mapping[str, Equity], *, rng: int = 0) -> dict[str, Any]:
    """Return growth, final capital, largest fall, turnover and exposure of paths of the same rows, with intervals."""
    growths = compare_growth(paths, level=_LEVEL, rng=rng)
    over = compare_growth(paths, over=HOLD, level=_LEVEL, rng=rng) if HOLD in paths else {}
    ends = (0.5 - 0.5 * _LEVEL, 0.5 + 0.5 * _LEVEL)
    found = {}
    for name, path in paths.items():
        growth = growths[name]
        low, high = np.quantile(path.resampled_drawdowns(rng), ends)
        found[name] = {
            "growth": _ends(growth),
            "over_buy_and_hold": _ends(over[name]) if name in over else None,
            "final": {
                "value": path.final,
                "low": math.exp(growth.low * path.length),
                "high": math.exp(growth.high * path.length),
            },
            "max_drawdown": {"value": path.max_drawdown, "low": float(low), "high": float(high)},
            "turnover": float(path.turnover.sum()) / path.length,
            "mean_exposure": float(path.exposure.mean()),
            "max_exposure": float(path.exposure.max()),
            "n_trades": path.n_trades,
        }
    return found


def compared(what: str, specified: tuple[float, float], value: float, low: float, high: float) -> dict[str, Any]:
    """Return a share that calibration was specified to gain, and the one that was found, with a verdict.

    "met" where all of its interval reaches what was specified, "not met" where none of it does, else "within noise".
    """
    least, _ = specified
    verdict = "within noise"
    if not math.isfinite(value):
        verdict = "not measured"
    elif low >= least:
        verdict = "met"
    elif high < least:
        verdict = "not met"
    return {"what": what, "specified": list(specified), "value": value, "low": low, "high": high, "verdict": verdict}


def _sizing_compared(found: SizingReduction, *, floor: float) -> dict[str, Any]:
    """Compare a reduction of the sizing error; an error that chance alone would make can't be told from none."""
    verdict = compared("sizing error", SPECIFIED_SIZING, found.value, found.low, found.high)
    is_chance = 0.0 < found.before <= floor
    return {**verdict, "verdict": "within noise"} if is_chance else verdict


def ensembles_compared(gains: Mapping[str, PairedMean]) -> list[dict[str, Any]]:
    """Return by which share calibrated inputs lower the log loss of ensembles, beside what was specified."""
    names = {"average": "log loss of the models' average", "meta-learner": "log loss of the meta-learner"}
    return [
        compared(what, SPECIFIED_ENSEMBLE, gains[name].value, gains[name].low, gains[name].high)
        for name, what in names.items()
        if name in gains
    ]


def _ends(found: PairedMean) -> dict[str, float]:
    return {"value": found.value, "low": found.low, "high": found.high}
