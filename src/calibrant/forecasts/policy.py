"""Policies: what to decide from calibrated predictions, what it should cost, and what it did cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from calibrant.decisions import DecisionScores, Policy, Problem, evaluate, expected_loss
from calibrant.errors import ShapeError, not_fitted
from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.calibration import alphas_of
from calibrant.forecasts.decisions import LossFunction, ThresholdRule, as_problem
from calibrant.forecasts.points import as_numbers
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.validation import ArrayLike, as_weight, check_flag

_NO_RULE = "this ThresholdPolicy has no rule yet. Call fit(forecast) first."


class ThresholdPolicy:
    """Find the threshold rule that a forecast expects to cost least, and hold it to its promise.

    Parameters
    ----------
    loss : ThresholdLoss, Problem or callable
        A function takes decisions (booleans) and outcomes, arrays of one shape, and returns losses.
    y0 : array-like of shape (K,), optional
        Thresholds to choose from. By default the loss's own, or for a function 50 quantiles of the forecast.
    alpha : array-like, optional
        Levels to choose from. By default the best cut between the rows, exactly.
    is_above : bool, optional
        Decide yes where P(Y <= y0) is above alpha, or with False where it is at most alpha. By default whichever is
        expected to cost less. Either may come to the same decision for all rows, unless a level is exactly 0.

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
    expected_loss 0.8065 [0.7192, 0.8938] True
    >>> print(policy.evaluate(forecast, y).realised)
    realised 0.8840 [0.7784, 1.0095]
    """

    def __init__(
        self,
        loss: LossFunction | Problem,
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
        problem = as_problem(self.loss)
        weight = as_weight(sample_weight, len(forecast), rows="the forecast")
        counted = np.ones(len(forecast)) if weight is None else weight
        expected = problem.expected_losses(forecast) * counted[:, None] / counted.sum()
        saved = expected[:, 1] - expected[:, 0]  # what yes costs more than no
        alphas = None if self.alpha is None else alphas_of(self.alpha, 1)
        found = []
        for threshold in self._thresholds(forecast, problem):
            cuts, up_to = _savings(forecast.cdf(threshold), saved, alphas, is_one_way=self.is_above is not None)
            for sums, is_above in ((up_to, False), (float(saved.sum()) - up_to, True)):
                if self.is_above is not None and is_above != self.is_above:
                    continue
                j = int(sums.argmin())
                found.append((float(sums[j]), float(threshold), float(cuts[j]), is_above))
        _, y0, cut, is_above = min(found, key=lambda each: each[0])
        self.rule_ = ThresholdRule(y0, cut, is_above)
        known: dict[str, Any] = {"sample_weight": weight, "about": "rows", "evaluated_on": "rows chosen on"}
        self.promised_ = expected_loss(forecast, self.rule_, problem, **known)
        return self

    def _thresholds(self, forecast: Forecast, problem: Problem) -> FloatArray:
        if self.y0 is not None:
            return as_numbers(self.y0, name="y0")
        if problem.ranges is not None:
            return np.asarray(problem.ranges.at(len(forecast), None)[0])
        levels = np.linspace(0.02, 0.98, 50)[None, :]
        return np.unique(np.quantile(forecast.ppf(levels), levels[0]))

    def decide(self, forecast: Forecast) -> BoolArray:
        """Return whether each row is decided with yes, shape (n,)."""
        if not hasattr(self, "rule_"):
            raise not_fitted(_NO_RULE)
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
    ) -> DecisionScores:
        """Measure what the rule's decisions cost on some rows, and what the forecasts promised.

        `cluster`, or `time` with or without `label_end`, says that rows are not independent: see
        `calibrant.forecasts.evaluate`. The scores are those of `calibrant.decisions.evaluate`.
        """
        if not hasattr(self, "rule_"):
            raise not_fitted(_NO_RULE)
        known: dict[str, Any] = {"sample_weight": sample_weight, "cluster": cluster, "time": time}
        return evaluate(
            y,
            as_forecast(forecast),
            self.rule_,
            as_problem(self.loss),
            **known,
            label_end=label_end,
            level=level,
            evaluated_on=evaluated_on,
        )


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
    >>> print(policy.evaluate([0, 0, 0, 0, 1] * 20, [0.05, 0.05, 0.05, 0.2, 0.2] * 20).gap)
    gap -0.4200 [-0.7585, -0.0811]
    """

    def __init__(self, costs: ArrayLike) -> None:
        self.costs = as_numbers(costs, name="costs", ndim=2)
        if len(self.costs) < 2:
            raise ShapeError(f"costs has shape {self.costs.shape}. Pass a row per decision, at least two.")

    def decide(self, y_prob: ArrayLike) -> IntArray:
        """Return the number of the decision for each row, shape (n,); the first of those that cost the same."""
        policy = Policy(Problem(self.costs))
        return policy.codes_of(policy.problem.expected_losses(y_prob))

    def evaluate(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
        classes: Sequence[Any] | None = None,
        level: float = 0.95,
        evaluated_on: str = "held-out",
    ) -> DecisionScores:
        """Measure what the decisions cost on some rows, and what was promised; see `calibrant.decisions.evaluate`."""
        known: dict[str, Any] = {"sample_weight": sample_weight, "cluster": cluster, "time": time}
        return evaluate(
            y_true,
            y_prob,
            Problem(self.costs, classes=None if classes is None else list(classes)),
            **known,
            label_end=label_end,
            level=level,
            evaluated_on=evaluated_on,
        )


def _savings(
    levels: FloatArray, saved: FloatArray, alphas: FloatArray | None, *, is_one_way: bool
) -> tuple[FloatArray, FloatArray]:
    """Return cuts, and what saying yes to the rows at or below each costs more than no to all.

    Without given cuts: those between distinct levels, half way, one above them all, and where rules go one way, one
    below them all. Of rules of both ways the one above stands for it.
    """
    order = np.argsort(levels, kind="stable")
    ordered, sums = levels[order], np.concatenate(([0.0], np.cumsum(saved[order])))
    if alphas is None:
        last = np.flatnonzero(np.append(np.diff(ordered) > 0.0, True))
        after = np.append(ordered[1:], 1.0)
        middle = 0.5 * (ordered[last] + after[last])
        cuts, up_to = np.where(middle < after[last], middle, ordered[last]), sums[last + 1]
        if is_one_way and ordered[0] > 0.0:
            return np.append(0.5 * ordered[0], cuts), np.append(0.0, up_to)
        return cuts, up_to
    return alphas, sums[np.searchsorted(ordered, alphas, side="right")]
