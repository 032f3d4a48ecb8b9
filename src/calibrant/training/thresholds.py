"""Trade only if the confidence is above a threshold: chosen on one set of rows, judged on another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from calibrant.decisions import DecisionScores, Problem, evaluate
from calibrant.dependence import TimeArray, as_label_times, block_draws, block_length, effective_rows
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.metrics import wilson
from calibrant.numerics import BoolArray, FloatArray
from calibrant.results import plain
from calibrant.training.block_bootstrap import paired_means
from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import AFTER, BEFORE, Forecasts
from calibrant.training.sizing import StakeRule, read_moves, sizing_error
from calibrant.validation import (
    ArrayLike,
    as_generator,
    as_probabilities,
    as_scores,
    check_fraction,
    check_integer,
    check_same_length,
)

THRESHOLDS = (0.0, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7)
_N_DRAWS = 1000
_STAY_OUT, _TRADE = "stay out", "trade"
_Given: TypeAlias = ArrayLike | None
#: Trades, at least, by which a threshold can be chosen: independent ones.
_LEAST_TRADES = 10.0


@dataclass(frozen=True, slots=True)
class ThresholdResult:
    """What trading only above one threshold promised and gave.

    Attributes
    ----------
    threshold : float
    n_trades : int
        Rows whose confidence is above the threshold and whose stake is not zero.
    n_independent : float
        What these are worth where labels overlap.
    promised : float
        Mean confidence: the probability of the side that was traded. NaN without trades.
    realised, low, high : float
        Share of trades whose side came, and its interval (Wilson, with the independent number). NaN without trades.
    turnover : float
        Stakes opened and closed, per row of the table.
    growth, growth_low, growth_high : float
        Mean logarithm of what the capital grew by, per row of the table, after costs, and its block-bootstrap
        interval. Minus infinity where a loss took all.
    """

    threshold: float
    n_trades: int
    n_independent: float
    promised: float
    realised: float
    low: float
    high: float
    turnover: float
    growth: float
    growth_low: float
    growth_high: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values; what is not finite becomes None."""
        return {name: plain(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class ThresholdChoice:
    """A threshold, or None: do not trade.

    Attributes
    ----------
    threshold : float or None
    reason : str
        Why, in a sentence.
    table : tuple of ThresholdResult
        All that were tried, on the rows of the choice.
    """

    threshold: float | None
    reason: str
    table: tuple[ThresholdResult, ...]


def threshold_table(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    rule: StakeRule | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
    rng: int | np.random.Generator | None = 0,
) -> tuple[ThresholdResult, ...]:
    """Return, for each threshold, the hit rate that was promised and the one that came, turnover and growth.

    Parameters
    ----------
    y_true, y_prob, classes
        As for `calibrant.training.sizing.sizing_error`.
    thresholds : sequence of float
        In [0, 1): a row is traded where the probability of its side is above.
    rule : StakeRule, optional
        What trades win, lose and cost, and how much is staked; half Kelly at even moves by default.
    time, label_end : array-like of shape (n,), optional
        When the label of each row starts and is known: rows are taken in this order, and intervals widened for
        overlapping labels. By default rows are in order, and no labels overlap.
    level : float
        Nominal coverage of the intervals.
    rng : int or Generator, optional

    Returns
    -------
    tuple of ThresholdResult

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The side is the one that the rule stakes on, and the confidence its probability. Growth takes trades one
    after another; where they overlap, let the rule's cap be the share of each. Each interval is for one threshold: the
    best of many looks better than it is, so choose on other rows, by `choose_threshold`.

    References
    ----------
    Kelly (1956), *A new interpretation of information rate*, Bell System Technical Journal 35: growth.
    López de Prado (2018), *Advances in financial machine learning*, chapter 4: overlapping labels.

    Examples
    --------
    >>> from calibrant.training.thresholds import threshold_table
    >>> (result,) = threshold_table([1, 1, 0, 1], [0.9, 0.8, 0.7, 0.5], thresholds=[0.6])
    >>> result.n_trades, round(result.promised, 2), round(result.realised, 2)
    (3, 0.8, 0.67)
    """
    trades = _read(y_true, y_prob, time, label_end, classes, rule)
    return _table(trades, _check_thresholds(thresholds), check_fraction("level", level), rng)


def choose_threshold(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    rule: StakeRule | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
    rng: int = 0,
) -> ThresholdChoice:
    """Choose the threshold of the fastest growth among those that grow beyond chance, or none.

    Parameters
    ----------
    y_true, y_prob, thresholds, rule, time, label_end, classes, rng
        As for `threshold_table`; rows that neither the model nor the calibrator was fitted on. Judge the choice on
        others again.
    level : float
        With this probability no threshold is chosen where none grows, however many were tried.

    Returns
    -------
    ThresholdChoice
        Its `threshold` is None where none grows beyond chance: do not trade.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Each threshold's growth is divided by its block-bootstrap standard error, and must be above the quantile, at
    `level`, of the largest of all such ratios that the centred draws show: a threshold isn't chosen for being the
    luckiest of many. Thresholds with fewer than ten independent trades are out.

    References
    ----------
    White (2000), *A reality check for data snooping*, Econometrica 68; studentised as in Romano and Wolf (2005),
    *Stepwise multiple testing as formalized data snooping*, Econometrica 73.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.training.thresholds import choose_threshold
    >>> y = np.random.default_rng(0).integers(0, 2, 500)
    >>> choose_threshold(y, np.full(500, 0.6)).threshold is None  # a coin that the model believes in
    True
    """
    check_integer("rng", rng, minimum=0)
    cuts = _check_thresholds(thresholds)
    level = check_fraction("level", level)
    trades = _read(y_true, y_prob, time, label_end, classes, rule)
    table = _table(trades, cuts, level, rng)
    kept = [j for j, row in enumerate(table) if row.n_independent >= _LEAST_TRADES and np.isfinite(row.growth)]
    if not kept:
        too_few = f"no threshold has {_LEAST_TRADES:g} independent trades to be judged by, or none keeps its capital"
        return ThresholdChoice(None, f"do not trade: {too_few}", table)
    growths = trades.growths([cuts[j] for j in kept])
    means = growths.mean(axis=0)
    draws = block_draws(growths, trades.block, _N_DRAWS, as_generator(rng))
    error = draws.std(axis=0, ddof=1)
    ratio = np.divide(means, error, out=np.where(means > 0.0, np.inf, -np.inf), where=error > 0.0)
    largest = np.divide(draws - means, error, out=np.zeros_like(draws), where=error > 0.0).max(axis=1)
    needed = float(np.quantile(largest, level))
    is_better = ratio > needed
    best = int(np.argmax(np.where(is_better, means, -np.inf) if is_better.any() else means))
    cut, growth = cuts[kept[best]], f"{1e4 * means[best]:+.2f} +- {1e4 * error[best]:.2f} per 10,000 a row"
    if is_better.any():
        hurdle = f"{ratio[best]:.1f} standard errors where {needed:.1f} are needed at the level {level:g}"
        return ThresholdChoice(cut, f"trade above {cut:g}: growth of {growth}, {hurdle}", table)
    reason = (
        f"do not trade: none of {len(kept)} thresholds grows beyond chance (the best, {cut:g}, by {growth}, where "
        f"{needed:.1f} standard errors are needed at the level {level:g})"
    )
    return ThresholdChoice(None, reason, table)


def evaluate_returns(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    threshold: float = 0.0,
    rule: StakeRule | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    level: float = 0.95,
    evaluated_on: str = "given data",
) -> DecisionScores:
    """Measure what trades lost, what the probabilities promised, and what other trades would have saved.

    Parameters
    ----------
    y_true, y_prob, rule, time, label_end, classes, level
        As for `threshold_table`.
    threshold : float
        In [0, 1): a row is traded where the probability of its side is above.
    evaluated_on : str
        What the rows are; kept in each score.

    Returns
    -------
    DecisionScores
        Of the actions "stay out" and "trade", whose losses are returns on the capital after costs, per row, with the
        sign turned: see `calibrant.decisions.evaluate`.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Examples
    --------
    >>> from calibrant.training.thresholds import StakeRule, evaluate_returns
    >>> rule = StakeRule("flat", cap=0.1)
    >>> found = evaluate_returns([1, 1, 0, 1] * 20, [0.9, 0.8, 0.7, 0.6] * 20, threshold=0.65, rule=rule)
    >>> print(found.promised)
    promised -0.0450 [-0.0514, -0.0381]
    >>> print(found.gap)
    gap 0.0200 [0.0054, 0.0374]
    """
    (cut,) = _check_thresholds([threshold])
    trades = _read(y_true, y_prob, None, None, classes, rule)
    rule = StakeRule() if rule is None else rule
    is_of_three = as_probabilities(y_prob, name="y_prob").n_columns == 3
    moves = (-1, 0, 1) if is_of_three else (-1, 1)
    lost = -np.column_stack([rule.returns(trades.stakes, np.full(trades.stakes.size, move)) for move in moves])
    losses = np.stack((np.zeros_like(lost), lost), axis=1)
    known = moves if classes is None and is_of_three else classes
    problem = Problem(losses, actions=[_STAY_OUT, _TRADE], classes=None if known is None else list(known))
    taken = np.where(trades.above(cut), _TRADE, _STAY_OUT)
    about: dict[str, Any] = {"time": time, "label_end": label_end, "level": level, "evaluated_on": evaluated_on}
    return evaluate(y_true, y_prob, taken, problem, **about)


def evaluate_trading(
    earlier: Dataset, forecasts: Forecasts, test: Dataset, test_forecasts: Forecasts, *, rule: StakeRule, rng: int = 0
) -> dict[str, Any]:
    """Choose thresholds on the earlier rows, and judge them and the stakes on the test rows, before and after.

    The forecasts of the earlier rows are those of fits that had not seen them; the test rows had no part in anything.
    Returns the `rule`; and for "raw" and "calibrated": `sizing_error` on the test rows with its `floor`; `chosen`, a
    threshold or None for "do not trade", with the `reason`; `validation` and `test`, the figures of each threshold; and
    `returns` on the test rows, promised and realised, at the chosen threshold, or of all trades where none was chosen.
    """

    def about(data: Dataset) -> dict[str, Any]:
        return {"rule": rule, "time": data.time, "label_end": data.label_end, "classes": data.classes, "rng": rng}

    found: dict[str, Any] = {"rule": asdict(rule)}
    for name in (BEFORE, AFTER):
        choice = choose_threshold(earlier.y, forecasts.named()[name], **about(earlier))
        prob = test_forecasts.named()[name]
        known = {"rule": rule, "time": test.time, "label_end": test.label_end, "classes": test.classes.tolist()}
        returns = evaluate_returns(test.y, prob, threshold=choice.threshold or 0.0, evaluated_on="test part", **known)
        found[name] = {
            "sizing_error": asdict(sizing_error(test.y, prob, rule=rule, classes=test.classes, rng=rng)),
            "chosen": choice.threshold,
            "reason": choice.reason,
            "validation": [result.to_dict() for result in choice.table],
            "test": [result.to_dict() for result in threshold_table(test.y, prob, **about(test))],
            "returns": {key: returns[key].to_dict() for key in ("promised", "realised", "gap", "regret")},
        }
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Trades:
    """Rows in the order of time: stakes, probability of the side, whether it came, growth of the capital."""

    stakes: FloatArray
    confidence: FloatArray
    is_hit: BoolArray
    growth: FloatArray
    times: tuple[TimeArray, TimeArray] | None
    block: int

    def above(self, threshold: float) -> BoolArray:
        """Say which rows are traded."""
        chosen: BoolArray = (self.confidence > threshold) & (self.stakes != 0.0)
        return chosen

    def independent(self, chosen: BoolArray) -> float:
        """Return what these rows are worth where labels overlap."""
        if self.times is None or not chosen.any():
            return float(chosen.sum())
        return effective_rows(self.times[0][chosen], self.times[1][chosen])

    def growths(self, thresholds: Sequence[float]) -> FloatArray:
        """Return what each row adds to the growth under each threshold, shape (n, m)."""
        return np.column_stack([np.where(self.above(cut), self.growth, 0.0) for cut in thresholds])


def _read(
    y_true: ArrayLike, y_prob: ArrayLike, time: _Given, label_end: _Given, classes: _Given, rule: StakeRule | None
) -> _Trades:
    prob, moves, _ = read_moves(y_true, y_prob, None, classes)
    times, block = None, 1
    if time is None and label_end is not None:
        raise InvalidInputError("label_end comes without time. Pass the time of each row too.")
    if time is not None:
        start, end = as_label_times(time, time if label_end is None else label_end)
        check_same_length(start.size, moves.size, "time", "y_prob")
        block = block_length(start, end)
        order = np.argsort(start, kind="stable")
        times = (start[order], end[order])
        prob, moves = prob.take(order), moves[order]
    rule = StakeRule() if rule is None else rule
    stakes = rule.stakes_of(prob)
    confidence = np.where(stakes > 0.0, prob.up, np.where(stakes < 0.0, prob.down, 0.0))
    is_hit = (stakes != 0.0) & (moves == np.sign(stakes))
    with np.errstate(divide="ignore"):  # a stake that loses all the capital
        growth = np.log1p(np.maximum(rule.returns(stakes, moves), -1.0))
    return _Trades(stakes, confidence, is_hit, growth, times, block)


def _table(
    trades: _Trades, cuts: Sequence[float], level: float, rng: int | np.random.Generator | None
) -> tuple[ThresholdResult, ...]:
    finite = {str(j): column for j, column in enumerate(trades.growths(cuts).T) if np.isfinite(column).all()}
    means = paired_means(finite, block=trades.block, level=level, n_draws=_N_DRAWS, rng=rng) if finite else {}
    results = []
    for j, cut in enumerate(cuts):
        chosen = trades.above(cut)
        n, size = int(chosen.sum()), trades.independent(chosen)
        promised = realised = low = high = float("nan")
        if n:
            promised, realised = float(trades.confidence[chosen].mean()), float(trades.is_hit[chosen].mean())
            low, high = (float(end[0]) for end in wilson(np.array([realised]), np.array([size]), level))
        turnover = float(2.0 * np.abs(np.where(chosen, trades.stakes, 0.0)).mean())
        mean = means.get(str(j))
        growth = (-np.inf, -np.inf, -np.inf) if mean is None else (mean.value, mean.low, mean.high)
        results.append(ThresholdResult(cut, n, size, promised, realised, low, high, turnover, *growth))
    return tuple(results)


def _check_thresholds(thresholds: Sequence[float]) -> list[float]:
    values = as_scores(thresholds, name="thresholds").values
    if values.ndim != 1:
        raise ShapeError(f"thresholds has shape {values.shape}. Pass a list of numbers.")
    bad = (values < 0.0) | (values >= 1.0)
    if bad.any():
        entry = int(bad.argmax())
        raise InvalidInputError(f"thresholds row {entry}: {values[entry].item()!r} is outside [0, 1). Pass 0.6 or so.")
    cuts: list[float] = values.tolist()
    return cuts
