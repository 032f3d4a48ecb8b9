"""Yes-or-no decisions by a threshold: their rules, what they cost, and what forecasts promised that they would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from calibrant.decisions import Problem
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.calibration import alphas_of
from calibrant.forecasts.level_maps import sum_by
from calibrant.forecasts.points import as_numbers, refuse
from calibrant.forecasts.scores import Outcomes, read_outcomes
from calibrant.numerics import BoolArray, FloatArray
from calibrant.phrases import figure
from calibrant.readable import Readable, columns_of
from calibrant.validation import ArrayLike, check_number

#: A loss of decisions and outcomes: takes arrays of one shape, booleans and numbers, and gives losses of that shape.
LossFunction: TypeAlias = Callable[[BoolArray, FloatArray], FloatArray]
#: What both errors of a decision together cost, as in the paper.
SCALE = 10.0
#: What no and yes are called as actions.
_ACTIONS = ("no", "yes")


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """Decide yes where a forecast gives values up to `y0` a probability of at most `alpha`.

    Attributes
    ----------
    y0 : float
        Threshold on the number line.
    alpha : float
        Level in [0, 1].
    is_above : bool
        Decide yes where the probability is above `alpha` instead.
    """

    y0: float
    alpha: float
    is_above: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "y0", check_number("y0", self.y0))
        object.__setattr__(self, "alpha", check_number("alpha", self.alpha, minimum=0.0, maximum=1.0))

    def decide(self, forecast: Forecast) -> BoolArray:
        """Return whether each row is decided with yes, shape (n,)."""
        return (as_forecast(forecast).cdf(self.y0) <= self.alpha) ^ self.is_above


@dataclass(frozen=True, slots=True)
class ThresholdLoss:
    """A loss that depends on a decision and on whether the number stays at or below a threshold.

    Attributes
    ----------
    y0 : float
        The threshold.
    table : pair of pairs of float
        ``table[d][e]``: what decision d (0 no, 1 yes) costs where the event Y <= y0 does not (e = 0) or does (e = 1)
        happen.

    Examples
    --------
    Spraying costs 2; frost that finds the field unprotected costs 10.

    >>> from calibrant.forecasts import ThresholdLoss
    >>> loss = ThresholdLoss(0.0, ((0.0, 10.0), (2.0, 2.0)))
    >>> float(loss.level)
    0.2
    """

    y0: float
    table: tuple[tuple[float, float], tuple[float, float]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "y0", check_number("y0", self.y0))
        try:
            table = np.asarray(self.table, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidTypeError(f"table={self.table!r} holds no numbers. Pass ((0.0, 10.0), (2.0, 2.0)).") from None
        if table.shape != (2, 2):
            raise ShapeError(f"table has shape {table.shape}. Pass a row per decision, a column per event: (2, 2).")
        if not np.isfinite(table).all():
            raise InvalidInputError(f"table={table.tolist()!r} is not finite. Pass the loss of each case.")
        object.__setattr__(self, "table", tuple(map(tuple, table.tolist())))

    @property
    def level(self) -> float:
        """The probability of the event at which both decisions cost the same; NaN where none is worth its loss."""
        (no_0, no_1), (yes_0, yes_1) = self.table
        slope = (no_1 - no_0) - (yes_1 - yes_0)
        return (yes_0 - no_0) / slope if slope else float("nan")

    def __call__(self, decision: BoolArray, y: FloatArray) -> FloatArray:
        """Return the loss of decisions with the numbers that came, of one shape."""
        table = np.array(self.table)
        return table[np.asarray(decision).astype(np.intp), (np.asarray(y) <= self.y0).astype(np.intp)]

    @property
    def problem(self) -> Problem:
        """The problem of saying no or yes, whose classes are numbers up to `y0` and above."""
        return Problem(np.array(self.table)[:, ::-1], actions=_ACTIONS, thresholds=self.y0)

    def expected(self, forecast: Forecast) -> FloatArray:
        """Return what deciding no and yes is expected to cost in each row, shape (n, 2)."""
        return self.problem.expected_losses(as_forecast(forecast))


@dataclass(frozen=True, slots=True, repr=False)
class DecisionLoss(Readable):
    """What decisions were expected to cost, and what they cost.

    Attributes
    ----------
    predicted, true : float
        Mean loss by the forecasts, and by what happened.
    """

    predicted: float
    true: float

    @property
    def gap(self) -> float:
        """How far the two are apart."""
        return abs(self.predicted - self.true)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReliabilityGaps(Readable):
    """Predicted and true losses over a family of threshold rules and losses.

    The loss of cost ratio c is `scale` * c for a decision of no where Y > y0, and `scale` * (1 - c) for one of yes
    where Y <= y0; a right decision costs nothing. A rule decides yes where P(Y <= y0) <= alpha.

    Attributes
    ----------
    y0, alpha, cost : ndarray of shape (K,), (A,) and (C,)
        Thresholds, levels and cost ratios c.
    predicted, true : ndarray of shape (K, A, C)
        Mean losses.
    """

    y0: FloatArray
    alpha: FloatArray
    cost: FloatArray
    predicted: FloatArray
    true: FloatArray

    def _columns(self) -> dict[str, Sequence[Any]]:
        grid = np.meshgrid(self.y0, self.alpha, self.cost, indexing="ij")
        parts = dict(zip(("y0", "alpha", "cost"), grid, strict=True))
        parts |= {"predicted": self.predicted, "true": self.true, "gap": self.values}
        return columns_of({name: values.ravel() for name, values in parts.items()})

    def _before(self) -> list[str]:
        return [f"Reliability gaps: mean {figure(self.mean)}."]

    @property
    def values(self) -> FloatArray:
        """Reliability gaps, shape (K, A, C)."""
        return np.abs(self.predicted - self.true)

    @property
    def mean(self) -> float:
        """Mean over the family."""
        return float(self.values.mean())

    @property
    def max(self) -> float:
        """Greatest of the family."""
        return float(self.values.max())

    @property
    def worst(self) -> tuple[float, float, float]:
        """The (y0, alpha, c) of the greatest gap."""
        k, a, c = np.unravel_index(int(self.values.argmax()), self.values.shape)
        return float(self.y0[k]), float(self.alpha[a]), float(self.cost[c])


def reliability_gap(
    forecast: Forecast,
    y: ArrayLike,
    decision: ThresholdRule | tuple[float, float],
    loss: LossFunction | Problem | ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Measure how far the mean loss that forecasts promise is from the one that comes true, in the units of the loss.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    decision : ThresholdRule or (y0, alpha)
        Yes where P(Y <= y0) <= alpha.
    loss : array-like of shape (2, 2), ThresholdLoss, Problem or callable
        A table is of the decision (row: no, yes) and of whether Y <= y0 (column: it isn't, it is), at the rule's own
        y0. A `ThresholdLoss` has a y0 of its own; a `Problem` is of two actions, the second for yes; a function takes
        decisions and outcomes.

    Notes
    -----
    Zero, up to sampling, for a forecast that is right, whatever the loss. A forecast without threshold calibration
    error promises the right loss where rule and loss share y0, and not always elsewhere. Biased upward by noise:
    `noise_floor` measures by how much.

    References
    ----------
    Sahoo, Zhao, Chen and Ermon (2021), *Reliable decisions with threshold calibration*, NeurIPS, definition 2.

    Examples
    --------
    >>> from calibrant.forecasts import GaussianForecast, reliability_gap
    >>> forecast = GaussianForecast([0.0, 0.0], 1.0)
    >>> reliability_gap(forecast, [-1.0, -2.0], (0.0, 0.6), [[0.0, 0.0], [0.0, 10.0]])
    5.0
    """
    return decision_loss(forecast, y, decision, loss, sample_weight=sample_weight).gap


def decision_loss(
    forecast: Forecast,
    y: ArrayLike,
    decision: ThresholdRule | tuple[float, float],
    loss: LossFunction | Problem | ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> DecisionLoss:
    """Measure the mean loss of a threshold rule, as the forecasts promise it and as it came true.

    Parameters
    ----------
    forecast, y, decision, loss, sample_weight
        See `reliability_gap`.
    """
    rule = as_rule(decision)
    problem = as_problem(loss, rule.y0)
    rows = read_outcomes(forecast, y, sample_weight)
    promised, realised = rule_losses(rows, rule, problem)
    return DecisionLoss(rows.mean(promised), rows.mean(realised))


def rule_losses(rows: Outcomes, rule: ThresholdRule, problem: Problem) -> tuple[FloatArray, FloatArray]:
    """Return the loss of each row that is promised, and the one that came, shape (n,) each."""
    taken = rule.decide(rows.forecast).astype(np.intp)[:, None]
    tables = problem.expected_losses(rows.forecast), problem.realised_losses(rows.y)
    promised, realised = (np.take_along_axis(table, taken, axis=1)[:, 0] for table in tables)
    return promised, realised


def reliability_gaps(
    forecast: Forecast,
    y: ArrayLike,
    *,
    y0: ArrayLike | None = None,
    alpha: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    scale: float = SCALE,
    sample_weight: ArrayLike | None = None,
) -> ReliabilityGaps:
    """Measure predicted and true losses over a family of threshold rules and losses; see `ReliabilityGaps`.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    y0 : array-like of shape (K,), optional
        Thresholds of rules and losses; by default 50 at equal steps from the least to the greatest outcome.
    alpha, cost : array-like, optional
        Levels and cost ratios; 50 each at equal steps from 0.05 to 0.95 by default, as in the paper.
    scale : float
        What both errors together cost; 10 in the paper.

    Notes
    -----
    The gap is scale * |A(alpha, y0) - c A(1, y0)| with A(alpha, y0) = mean[(h(y0) - 1{Y <= y0}) 1{h(y0) <= alpha}],
    so that the whole family takes one pass over the rows per y0.
    """
    return table_of_gaps(read_outcomes(forecast, y, sample_weight), y0, alpha, cost, scale)


def table_of_gaps(
    rows: Outcomes,
    y0: ArrayLike | None = None,
    alpha: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    scale: float = SCALE,
) -> ReliabilityGaps:
    """Return what `reliability_gaps` does of checked rows."""
    scale = check_number("scale", scale, minimum=0.0, is_open=True)
    y0 = np.linspace(rows.y.min(), rows.y.max(), 50) if y0 is None else as_numbers(y0, name="y0")
    alpha = alphas_of(alpha, 50)
    cost = np.linspace(0.05, 0.95, 50) if cost is None else as_numbers(cost, name="cost")
    fix = "Pass the share of `scale` that a wrong no costs."
    refuse((cost < 0.0) | (cost > 1.0), cost, "cost", "is outside [0, 1]", fix)
    weight = rows.weights / rows.weights.sum()
    sums = np.empty((2, 2, y0.size, alpha.size + 1))  # predicted and true; of the event, which yes is wrong of, and not
    for k, (threshold, levels) in enumerate(zip(y0, rows.levels_at(y0), strict=True)):
        first = np.searchsorted(alpha, levels).astype(np.int64)  # the first alpha at which a row is decided with yes
        for j, event in enumerate((levels, (rows.y <= threshold).astype(np.float64))):
            sums[j, :, k] = [sum_by(first, weight * each, alpha.size + 1) for each in (event, 1.0 - event)]
    of_yes = scale * sums[:, 0].cumsum(axis=2)[..., :-1, None]
    of_no = scale * np.flip(np.flip(sums[:, 1], 2).cumsum(axis=2), 2)[..., 1:, None]
    losses = cost * (of_no - of_yes)
    losses += of_yes
    return ReliabilityGaps(y0, alpha, cost, *losses)


def as_problem(loss: object, y0: float | None = None) -> Problem:
    """Return the problem of a loss: of a table at `y0`, a `ThresholdLoss`, or a function of decisions and outcomes."""
    if isinstance(loss, Problem):
        if not loss.is_of_number or len(loss.actions) != 2 or loss.needs_costs:
            raise InvalidInputError(
                f"loss is {loss!r:.80}. Pass a problem of two actions, with thresholds= and the same for all rows."
            )
        return loss
    if isinstance(loss, ThresholdLoss):
        return loss.problem
    if callable(loss):
        function = loss

        def of(_: Any, y: FloatArray, action: str) -> FloatArray:
            return np.asarray(function(np.full(y.shape, action == _ACTIONS[1]), y))

        return Problem(of, actions=_ACTIONS)
    if y0 is None:
        raise InvalidTypeError(
            f"loss is a {type(loss).__name__}. Pass a ThresholdLoss(y0, table), or a function of decisions (booleans) "
            "and outcomes."
        )
    return ThresholdLoss(y0, loss).problem  # type: ignore[arg-type]  # its own gate


def as_rule(decision: object) -> ThresholdRule:
    """Check a rule, or make one from the pair (y0, alpha)."""
    if isinstance(decision, ThresholdRule):
        return decision
    if isinstance(decision, (tuple, list)) and len(decision) == 2:
        return ThresholdRule(*decision)
    raise InvalidTypeError(f"decision={decision!r:.80} is no rule. Pass ThresholdRule(y0, alpha) or (y0, alpha).")
