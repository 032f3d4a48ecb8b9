"""Policies: what to decide from calibrated predictions, what it should cost, and what it did cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibrant.dependence import Units, read_dependence
from calibrant.errors import InvalidTypeError, NotFittedError, ShapeError
from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.calibration import alphas_of
from calibrant.forecasts.decisions import (
    LossFunction,
    ThresholdLoss,
    ThresholdRule,
    as_loss,
    expected_losses,
    realised_losses,
)
from calibrant.forecasts.points import as_numbers
from calibrant.forecasts.promise import actions_of, expected_loss
from calibrant.forecasts.row_losses import RowLoss
from calibrant.forecasts.scores import deviations, mean_estimate, read_outcomes
from calibrant.metrics import named_scores
from calibrant.numerics import BoolArray, FloatArray, IntArray, kish_size
from calibrant.readable import Readable, rows_as_columns
from calibrant.results import Score
from calibrant.validation import (
    ArrayLike,
    as_labels,
    as_probabilities,
    as_weight,
    check_flag,
    check_fraction,
    check_same_length,
)


@dataclass(frozen=True, slots=True, repr=False)
class PolicyScores(Readable):
    """What a policy's decisions were expected to cost on some rows, and what they cost.

    Attributes
    ----------
    promised, realised : Score
        Mean loss by the predictions, and by what happened.
    gap : Score
        Promised less realised, paired by row: above zero where the policy cost less than it promised.
    baseline : Score
        Mean loss of the best single decision for all rows, chosen with hindsight.
    """

    promised: Score
    realised: Score
    gap: Score
    baseline: Score

    _left_to_frames = ("level", "n")

    def _columns(self) -> dict[str, Sequence[Any]]:
        parts = ("name", "value", "low", "high", "level", "n")
        scores = (self.promised, self.realised, self.gap, self.baseline)
        return rows_as_columns([{part: getattr(score, part) for part in parts} for score in scores])

    def _coverage(self) -> float:
        return self.promised.level


class ThresholdPolicy:
    """Find the threshold rule that a forecast expects to cost least, and hold it to its promise.

    Parameters
    ----------
    loss : ThresholdLoss or callable
        A function takes decisions (booleans) and outcomes, arrays of one shape, and returns losses.
    y0 : array-like of shape (K,), optional
        Thresholds to choose from. By default the loss's own, or for a function 50 quantiles of the forecast.
    alpha : array-like, optional
        Levels to choose from. By default the best cut between the rows, exactly.
    is_above : bool, optional
        Decide yes where P(Y <= y0) is above alpha, or with False where it is at most alpha. By default whichever is
        expected to cost less.

    Attributes
    ----------
    rule_ : ThresholdRule
        Yes where P(Y <= y0) is at most alpha, or above it.
    promised_ : Score
        Mean loss that the forecast expects of the rule on the rows that it was chosen on, with an interval, at 95%, for
        the mean loss that comes of them if the forecast is right: that of `expected_loss`, which with calibration rows
        allows for forecasts that are not.

    Notes
    -----
    The rule is chosen from forecasts alone, so outcomes of the same rows still judge it without favour. The promise
    is kept, up to sampling, where the forecast is threshold calibrated and rule and loss share y0: recalibrate first
    (`ThresholdRecalibrator`), on other rows.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, ThresholdLoss, ThresholdPolicy
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(2.0, 2.0, 1000)
    >>> forecast, y = GaussianForecast(mean, 1.0), mean + rng.normal(size=1000)
    >>> frost = ThresholdLoss(0.0, ((0.0, 10.0), (2.0, 2.0)))
    >>> policy = ThresholdPolicy(frost).fit(forecast)
    >>> print(policy.promised_, policy.rule_.is_above)
    expected_loss 0.8065 [0.7229, 0.8976] True
    >>> print(policy.evaluate(forecast, y).realised)
    realised 0.8840 [0.7784, 1.0095]
    """

    def __init__(
        self,
        loss: LossFunction,
        *,
        y0: ArrayLike | None = None,
        alpha: ArrayLike | None = None,
        is_above: bool | None = None,
    ) -> None:
        self.loss = loss
        self.y0 = y0
        self.alpha = alpha
        self.is_above = is_above

    def fit(self, forecast: Forecast, *, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the rule that these forecasts expect to cost least; nothing that happened is needed."""
        forecast = as_forecast(forecast)
        if self.is_above is not None:
            check_flag("is_above", self.is_above)
        loss = as_loss(self.loss)
        weight = as_weight(sample_weight, len(forecast), rows="the forecast")
        counted = np.ones(len(forecast)) if weight is None else weight
        expected = expected_losses(forecast, loss) * counted[:, None] / counted.sum()
        saved = expected[:, 1] - expected[:, 0]  # what yes costs more than no
        alphas = None if self.alpha is None else alphas_of(self.alpha, 1)
        found = []
        for threshold in self._thresholds(forecast, loss):
            cuts, up_to = _savings(forecast.cdf(threshold), saved, alphas)
            for sums, is_above in ((up_to, False), (float(saved.sum()) - up_to, True)):
                if self.is_above is not None and is_above != self.is_above:
                    continue
                j = int(sums.argmin())
                found.append((float(sums[j]), float(threshold), float(cuts[j]), is_above))
        _, y0, cut, is_above = min(found, key=lambda each: each[0])
        self.rule_ = ThresholdRule(y0, cut, is_above)
        told = expected_loss(forecast, self.rule_, loss, sample_weight=weight, evaluated_on="rows chosen on")
        self.promised_ = told["expected_loss"]
        return self

    def _thresholds(self, forecast: Forecast, loss: LossFunction) -> FloatArray:
        if self.y0 is not None:
            return as_numbers(self.y0, name="y0")
        if isinstance(loss, ThresholdLoss):
            return np.array([loss.y0])
        levels = np.linspace(0.02, 0.98, 50)[None, :]
        return np.unique(np.quantile(forecast.ppf(levels), levels[0]))

    def decide(self, forecast: Forecast) -> BoolArray:
        """Return whether each row is decided with yes, shape (n,)."""
        if not hasattr(self, "rule_"):
            raise NotFittedError("this ThresholdPolicy has no rule yet. Call fit(forecast) first.")
        return self.rule_.decide(forecast)

    def evaluate(
        self,
        forecast: Forecast,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
        level: float = 0.95,
        evaluated_on: str = "held-out",
    ) -> PolicyScores:
        """Measure what the rule's decisions were expected to cost on some rows, and what they cost.

        Intervals are as in `evaluate`; that of the gap is of paired differences. `cluster`, or `time` with or without
        `label_end`, says that rows are not independent: see `calibrant.forecasts.evaluate`.
        """
        level = check_fraction("level", level)
        rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
        decided = self.decide(rows.forecast).astype(np.int64)
        loss = as_loss(self.loss)
        expected, realised = expected_losses(rows.forecast, loss), realised_losses(rows.y, loss)
        how: dict[str, Any] = {"level": level, "evaluated_on": evaluated_on}
        return _policy_scores(expected, realised, decided, rows.weights, rows.units, **how)


class ActionPolicy:
    """Take, in each row, the action that a forecast expects to cost least.

    Parameters
    ----------
    loss : StepLoss or FunctionLoss
        What each of the actions costs; it may differ from row to row.

    Notes
    -----
    Ties take the first action. `expected_loss(forecast, None, loss)` promises what it will cost. The promise is kept,
    up to sampling, where the forecast is right about each action's loss among the rows that take it.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import ActionPolicy, GaussianForecast, StepLoss
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(60.0, 20.0, 1000)
    >>> forecast, y = GaussianForecast(mean, 10.0), mean + 10.0 * rng.normal(size=1000)
    >>> table = [[1.0, 6.0, 20.0], [2.0, 2.0, 9.0], [4.0, 4.0, 4.0]]
    >>> policy = ActionPolicy(StepLoss([50.0, 80.0], table, actions=["few", "some", "all"]))
    >>> policy.decide(forecast)[:5]
    array([1, 1, 1, 1, 1])
    >>> print(policy.evaluate(forecast, y).gap)
    promised_less_realised -0.0093 [-0.0967, 0.0633]
    """

    def __init__(self, loss: RowLoss) -> None:
        if not isinstance(loss, RowLoss):
            raise InvalidTypeError(f"loss is a {type(loss).__name__}. Pass a StepLoss or a FunctionLoss.")
        self.loss = loss

    def decide(self, forecast: Forecast) -> IntArray:
        """Return the number of the action for each row, shape (n,)."""
        forecast = as_forecast(forecast)
        self.loss.check_rows(len(forecast), "loss")
        return actions_of(None, forecast, self.loss)

    def evaluate(
        self,
        forecast: Forecast,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
        level: float = 0.95,
        evaluated_on: str = "held-out",
    ) -> PolicyScores:
        """Measure what the actions were expected to cost on some rows, and what they cost; see `ThresholdPolicy`."""
        level = check_fraction("level", level)
        forecast = as_forecast(forecast)
        self.loss.check_rows(len(forecast), "loss")
        rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
        weight = as_weight(sample_weight, len(forecast))
        loss = self.loss if weight is None else self.loss.take(np.flatnonzero(weight))
        expected, realised = loss.expected(rows.forecast), loss.realised(rows.y)
        decided = expected.argmin(axis=1).astype(np.int64)
        how: dict[str, Any] = {"level": level, "evaluated_on": evaluated_on}
        return _policy_scores(expected, realised, decided, rows.weights, rows.units, **how)


class CostPolicy:
    """Decide what calibrated class probabilities expect to cost least.

    Parameters
    ----------
    costs : array-like of shape (n_decisions, n_classes)
        What each decision costs where each class, in sorted order, is the true one; at least two decisions.

    Notes
    -----
    The same as `ThresholdPolicy` for classifiers: the decision with the least expected cost, sum over k of
    p_k costs[d, k] (Elkan 2001, *The foundations of cost-sensitive learning*, IJCAI). Its promise is kept where the
    probabilities are calibrated.

    Examples
    --------
    >>> from calibrant.forecasts import CostPolicy
    >>> policy = CostPolicy([[0.0, 10.0], [1.0, 0.0]])
    >>> policy.decide([0.05, 0.2])
    array([0, 1])
    >>> print(policy.evaluate([0, 1] * 50, [0.05, 0.2] * 50).realised)
    realised 0.0000 [0.0000, 0.0000]
    """

    def __init__(self, costs: ArrayLike) -> None:
        self.costs = as_numbers(costs, name="costs", ndim=2)
        if len(self.costs) < 2:
            raise ShapeError(f"costs has shape {self.costs.shape}. Pass a row per decision, at least two.")

    def decide(self, y_prob: ArrayLike) -> IntArray:
        """Return the number of the decision for each row, shape (n,); the first of those that cost the same."""
        return np.asarray(self._expected(y_prob).argmin(axis=1).astype(np.int64))

    def evaluate(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        level: float = 0.95,
        evaluated_on: str = "held-out",
    ) -> PolicyScores:
        """Measure what the decisions were expected to cost on some rows, and what they cost; see `ThresholdPolicy`."""
        level = check_fraction("level", level)
        expected = self._expected(y_prob)
        labels = as_labels(y_true, classes=classes, n_columns=self.costs.shape[1])
        check_same_length(labels.codes.size, len(expected), "y_true", "y_prob")
        weight = as_weight(sample_weight, len(expected))
        counted = np.ones(len(expected)) if weight is None else weight
        dependence = read_dependence(len(expected), cluster, time, label_end, rows="y_prob")
        kept = np.flatnonzero(counted)
        decided = expected.argmin(axis=1).astype(np.int64)[kept]
        realised = self.costs.T[labels.codes[kept]]
        how: dict[str, Any] = {"level": level, "evaluated_on": evaluated_on}
        dependence, weight = dependence.take(kept), counted[kept]

        def units(values: FloatArray) -> Units | None:
            return dependence.units(deviations(values, weight))

        return _policy_scores(expected[kept], realised, decided, weight, units, **how)

    def _expected(self, y_prob: ArrayLike) -> FloatArray:
        """Return the expected cost of each decision in each row, shape (n, n_decisions)."""
        prob = as_probabilities(y_prob).values
        prob = np.column_stack((1.0 - prob, prob)) if prob.ndim == 1 else prob
        if prob.shape[1] != self.costs.shape[1]:
            n_classes = self.costs.shape[1]
            raise ShapeError(f"y_prob is of {prob.shape[1]} classes and costs of {n_classes}. Pass a column per class.")
        return np.asarray(np.einsum("nk,dk->nd", prob, self.costs))


def _savings(levels: FloatArray, saved: FloatArray, alphas: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return cuts, and what saying yes to the rows at or below each costs more than no to all.

    Without given cuts: those between distinct levels, half way, and one above them all.
    """
    order = np.argsort(levels, kind="stable")
    ordered, sums = levels[order], np.concatenate(([0.0], np.cumsum(saved[order])))
    if alphas is None:
        last = np.flatnonzero(np.append(np.diff(ordered) > 0.0, True))
        after = np.append(ordered[1:], 1.0)
        middle = 0.5 * (ordered[last] + after[last])
        return np.where(middle < after[last], middle, ordered[last]), sums[last + 1]
    return alphas, sums[np.searchsorted(ordered, alphas, side="right")]


def _policy_scores(
    expected: FloatArray,
    losses: FloatArray,
    decided: IntArray,
    weight: FloatArray,
    units: Callable[[FloatArray], Units | None],
    *,
    level: float,
    evaluated_on: str,
) -> PolicyScores:
    """Score decisions, of which each of D was `expected` to lose so much in each row and has its `losses` there."""
    promised, realised = (np.take_along_axis(table, decided[:, None], axis=1)[:, 0] for table in (expected, losses))
    best = int(np.average(losses, axis=0, weights=weight).argmin())
    named = {
        "promised": promised,
        "realised": realised,
        "promised_less_realised": promised - realised,
        "best_single_decision": losses[:, best],
    }
    found = {name: mean_estimate(values, weight, units(values), level) for name, values in named.items()}
    found["best_single_decision"] = replace(found["best_single_decision"], note=f"decision {best} for all rows")
    known: dict[str, Any] = {"level": level, "n": len(losses), "n_eff": kish_size(weight), "evaluated_on": evaluated_on}
    return PolicyScores(*named_scores(found, **known).values())
