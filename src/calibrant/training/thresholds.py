"""Trade only if the confidence is above a threshold, in realised returns: chosen on some rows, judged on others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from calibrant.dependence import effective_rows
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.metrics import wilson
from calibrant.numerics import BoolArray, FloatArray
from calibrant.readable import rows_as_columns
from calibrant.results import Plain, plain
from calibrant.training.block_bootstrap import PairedMean, paired_means
from calibrant.training.directions import Directions, read_moves
from calibrant.training.equity import Equity, Moments, compare_growth, growth_draws
from calibrant.training.sizing import StakeRule, as_rule
from calibrant.validation import ArrayLike, as_scores, check_fraction, check_integer

THRESHOLDS = (0.0, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7)
_Given: TypeAlias = ArrayLike | None
#: Trades, at least, by which a threshold can be chosen: independent ones.
_LEAST_TRADES = 10.0
_N_DRAWS = 1000


@dataclass(frozen=True, slots=True, repr=False)
class ThresholdResult(Plain):
    """What trading only above one threshold promised and gave.

    Attributes
    ----------
    threshold : float
    n_trades : int
        Positions that were opened: of rows whose confidence is above the threshold, whose stake is not zero, and for
        which some of the capital was free.
    n_independent : float
        What these are worth where labels overlap.
    promised : float
        Mean confidence: the probability of the side that was traded. NaN without trades.
    realised, low, high : float
        Share of trades whose side came, and its interval (Wilson, with the independent number). NaN without trades.
    turnover : float
        What was opened and closed, over the capital, a year or bar.
    growth, growth_low, growth_high : float
        Logarithm of what the capital grew by, a year or bar, after costs, and its block-bootstrap interval. Minus
        infinity where all was lost.
    final : float
        What a capital of 1 became.
    per : {"year", "bar"}
        What turnover and growth are given for: a year, or a moment where times are no dates.
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
    final: float
    per: str


@dataclass(frozen=True, slots=True, repr=False)
class ThresholdChoice(Plain):
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

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([asdict(each) for each in self.table])

    def _before(self) -> list[str]:
        return [self.reason]


@dataclass(frozen=True, slots=True)
class TradeReturns:
    """What trades were promised to earn by the probabilities, and earned, on the capital.

    Attributes
    ----------
    promised, realised, gap : PairedMean
        Returns a year or bar, after costs, each on the capital at the opening of its position and without compounding;
        `gap` is realised less promised.
    per : {"year", "bar"}
    """

    promised: PairedMean
    realised: PairedMean
    gap: PairedMean
    per: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values; what is not finite becomes None."""
        return {name: plain(value) for name, value in asdict(self).items()}


def threshold_table(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    label_return: ArrayLike,
    thresholds: Sequence[float] = THRESHOLDS,
    rule: StakeRule | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
    rng: int = 0,
) -> tuple[ThresholdResult, ...]:
    """Return, for each threshold, the hit rate that was promised and the one that came, turnover and growth.

    Parameters
    ----------
    y_true, y_prob, classes
        As for `calibrant.training.sizing_error`.
    label_return : array-like of shape (n,)
        Simple return from the time of each row to the end of its label: what a stake is paid.
    thresholds : sequence of float
        In [0, 1): a row is traded where the probability of its side is above.
    rule : StakeRule, optional
        What trades are expected to win and lose, what they cost, how much is staked, and how much may be open at once;
        half Kelly at even moves by default.
    time, label_end : array-like of shape (n,), optional
        When the label of each row starts and is known: rows are taken in this order, and intervals widened for
        overlapping labels. By default rows are in order, and no labels overlap.
    level : float
        Nominal coverage of the intervals.
    rng : int
        For the intervals.

    Returns
    -------
    tuple of ThresholdResult

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The side is the one that the rule stakes on, and the confidence its probability. Positions share one capital, as
    `calibrant.training.trade` says: where labels overlap, let the rule's share be that of each. Each interval is for
    one threshold: the best of many looks better than it is, so choose on other rows, by `choose_threshold`.

    References
    ----------
    Kelly (1956), *A new interpretation of information rate*, Bell System Technical Journal 35: growth.
    López de Prado (2018), *Advances in financial machine learning*, chapter 4: overlapping labels.

    Examples
    --------
    >>> from calibrant.training.thresholds import threshold_table
    >>> earned = [0.02, 0.01, -0.03, 0.01]
    >>> (result,) = threshold_table([1, 1, 0, 1], [0.9, 0.8, 0.7, 0.5], label_return=earned, thresholds=[0.6])
    >>> result.n_trades, round(result.promised, 2), round(result.realised, 2), round(result.final, 4)
    (3, 0.8, 0.67, 1.005)
    """
    trades = Trades.of(y_true, y_prob, label_return, time, label_end, classes, rule)
    cuts, level = _check_thresholds(thresholds), check_fraction("level", level)
    return _table(trades, cuts, level, check_integer("rng", rng, minimum=0))


def choose_threshold(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    label_return: ArrayLike,
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
    y_true, y_prob, label_return, thresholds, rule, time, label_end, classes, rng
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
    >>> y = np.random.default_rng(1).integers(0, 2, 500)
    >>> earned = np.where(y == 1, 0.01, -0.01)
    >>> choose_threshold(y, np.full(500, 0.6), label_return=earned).threshold is None  # a coin the model believes in
    True
    """
    check_integer("rng", rng, minimum=0)
    cuts = _check_thresholds(thresholds)
    level = check_fraction("level", level)
    trades = Trades.of(y_true, y_prob, label_return, time, label_end, classes, rule)
    table = _table(trades, cuts, level, rng)
    kept = [j for j, row in enumerate(table) if row.n_independent >= _LEAST_TRADES and np.isfinite(row.growth)]
    if not kept:
        too_few = f"no threshold has {_LEAST_TRADES:g} independent trades to be judged by, or none keeps its capital"
        return ThresholdChoice(None, f"do not trade: {too_few}", table)
    means = np.array([table[j].growth for j in kept])
    draws = growth_draws([trades.path(cuts[j]) for j in kept], rng)
    error = draws.std(axis=0, ddof=1)
    ratio = np.divide(means, error, out=np.where(means > 0.0, np.inf, -np.inf), where=error > 0.0)
    largest = np.divide(draws - means, error, out=np.zeros_like(draws), where=error > 0.0).max(axis=1)
    needed = float(np.quantile(largest, level))
    is_better = ratio > needed
    best = int(np.argmax(np.where(is_better, means, -np.inf) if is_better.any() else means))
    cut, growth = cuts[kept[best]], f"{means[best]:+z.4f} +- {error[best]:.4f} a {table[0].per}"
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
    label_return: ArrayLike,
    threshold: float = 0.0,
    rule: StakeRule | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
    rng: int = 0,
) -> TradeReturns:
    """Measure what trades earned, beside what the stake rule and the probabilities promised.

    Parameters
    ----------
    y_true, y_prob, label_return, rule, time, label_end, classes, level, rng
        As for `threshold_table`.
    threshold : float
        In [0, 1): a row is traded where the probability of its side is above.

    Returns
    -------
    TradeReturns

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    A position is promised the rule's moves, each with its probability, and is paid its row's return.

    Examples
    --------
    >>> from calibrant.training import StakeRule
    >>> from calibrant.training.thresholds import evaluate_returns
    >>> rule = StakeRule("flat", up=0.02, down=0.02, cap=0.1)
    >>> earned = [0.02, 0.02, -0.02, 0.02] * 20
    >>> y, p = [1, 1, 0, 1] * 20, [0.9, 0.8, 0.7, 0.6] * 20
    >>> found = evaluate_returns(y, p, label_return=earned, threshold=0.65, rule=rule)
    >>> print(f"{found.promised.value:.4f} a {found.per}, {found.realised.value:.4f} came: {found.gap.value:+.4f}")
    0.0009 a bar, 0.0005 came: -0.0004
    """
    (cut,) = _check_thresholds([threshold])
    level = check_fraction("level", level)
    trades = Trades.of(y_true, y_prob, label_return, time, label_end, classes, rule)
    path = trades.path(cut)
    promised = np.abs(path.share) * trades.rule.promised(np.sign(path.share), trades.prob)
    per_unit = path.time.size / path.length
    columns = {
        name: trades.moments.sum_at_start(values) * per_unit
        for name, values in (("promised", promised), ("realised", path.earned))
    }
    columns["gap"] = columns["realised"] - columns["promised"]
    rng = check_integer("rng", rng, minimum=0)
    means = paired_means(columns, block=path.block, level=level, n_draws=_N_DRAWS, rng=rng)
    return TradeReturns(**means, per=path.per)


@dataclass(frozen=True, slots=True, eq=False)
class Trades:
    """Rows with stakes, the probability of the side, whether it came, and what was returned."""

    rule: StakeRule
    prob: Directions
    stakes: FloatArray
    confidence: FloatArray
    is_hit: BoolArray
    moments: Moments
    has_times: bool

    @classmethod
    def of(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        label_return: ArrayLike,
        time: _Given,
        label_end: _Given,
        classes: _Given,
        rule: StakeRule | None,
    ) -> Trades:
        """Check rows."""
        prob, moves, _ = read_moves(y_true, y_prob, None, classes)
        moments = Moments.of(label_return, time, label_end, n_rows=moves.size, what="y_prob")
        rule = as_rule(rule)
        stakes = rule.stakes_of(prob)
        confidence = np.where(stakes > 0.0, prob.up, np.where(stakes < 0.0, prob.down, 0.0))
        is_hit = (stakes != 0.0) & (moves == np.sign(stakes))
        return cls(rule, prob, stakes, confidence, is_hit, moments, time is not None)

    def path(self, threshold: float) -> Equity:
        """Return what the capital becomes where rows above the threshold are staked on."""
        wanted = np.where(self.confidence > threshold, self.rule.share * self.stakes, 0.0)
        return self.moments.trade(wanted, self.rule.cost_bp, self.rule.gross)

    def independent(self, chosen: BoolArray) -> float:
        """Return what these rows are worth where labels overlap."""
        if not self.has_times or not chosen.any():
            return float(chosen.sum())
        start, end = (self.moments.time[place[chosen]] for place in (self.moments.start, self.moments.end))
        return effective_rows(start, end)


def _table(trades: Trades, cuts: Sequence[float], level: float, rng: int) -> tuple[ThresholdResult, ...]:
    paths = {str(j): trades.path(cut) for j, cut in enumerate(cuts)}
    growths = compare_growth(paths, level=level, rng=rng)
    results = []
    for j, cut in enumerate(cuts):
        path, growth = paths[str(j)], growths[str(j)]
        chosen = path.share != 0.0
        size = trades.independent(chosen)
        promised = realised = low = high = float("nan")
        if path.n_trades:
            promised = math.fsum(trades.confidence[chosen]) / path.n_trades
            realised = float(trades.is_hit[chosen].mean())
            low, high = (float(end[0]) for end in wilson(np.array([realised]), np.array([size]), level))
        rates = (path.n_trades, size, promised, realised, low, high, float(path.turnover.sum()) / path.length)
        results.append(ThresholdResult(cut, *rates, growth.value, growth.low, growth.high, path.final, path.per))
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
