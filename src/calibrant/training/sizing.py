"""How much to stake on a calibrated probability, and how wrong the stake is where probabilities are not."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from calibrant.errors import InvalidInputError, ShapeError
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.rows import by_class
from calibrant.summary import equal_mass_bins
from calibrant.validation import (
    ArrayLike,
    as_generator,
    as_labels,
    as_probabilities,
    as_scores,
    as_weight,
    check_choice,
    check_fraction,
    check_integer,
    check_number,
    check_one_column,
    check_same_length,
)

Amount: TypeAlias = float | FloatArray
StakeKind: TypeAlias = Literal["kelly", "linear", "flat"]
#: The stake on winning b with probability p, losing c with r and a with q, of (p, r, q, b, a, c).
Stake: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray, Amount, Amount, Amount], FloatArray]
_N_DRAWS = 200


class Directions(NamedTuple):
    """Probabilities of a fall, of neither, and of a rise, shape (n,) each."""

    down: FloatArray
    flat: FloatArray
    up: FloatArray

    def take(self, rows: IntArray | BoolArray) -> Directions:
        """Return those of some rows."""
        return Directions(*(p[rows] for p in self))


@dataclass(frozen=True, slots=True)
class StakeRule:
    """What a trade wins, loses and costs, and how the stake follows from the probabilities.

    Attributes
    ----------
    kind : {"kelly", "linear", "flat"}
        `kelly_stakes`, `linear_stakes`, or the whole cap on the side that is worth more before costs.
    up, down : float
        Relative move of a rise and of a fall, in the unit that stakes are in: with moves of one barrier, a stake is
        the part of the capital that one barrier wins or loses.
    cost : float
        Of opening and closing, in the same unit, whatever happens.
    fraction : float
        Of the Kelly stake; of no account for the others.
    cap : float
        Largest stake.
    short : bool
        Whether falls are traded too.

    Raises
    ------
    CalibrantError
        If a value can't be used.

    Examples
    --------
    >>> from calibrant.training.sizing import StakeRule
    >>> StakeRule(cost=0.1).stakes([0.3, 0.5, 0.6, 0.9])
    array([-0.15151515,  0.        ,  0.05050505,  0.35353535])
    """

    kind: StakeKind = "kelly"
    up: float = 1.0
    down: float = 1.0
    cost: float = 0.0
    fraction: float = 0.5
    cap: float = 1.0
    short: bool = True

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(StakeKind))
        for name in ("up", "down", "cap"):
            check_number(name, getattr(self, name), minimum=0.0, is_open=True)
        check_number("cost", self.cost, minimum=0.0)
        _check_share(self.fraction)

    def stakes(self, y_prob: ArrayLike) -> FloatArray:
        """Return the signed stake of each row, of probabilities as for `kelly_stakes`; below zero to gain by a fall."""
        return self.stakes_of(read_directions(y_prob))

    def stakes_of(self, prob: Directions) -> FloatArray:
        """Return the signed stakes of checked probabilities."""
        terms = (self.up, self.down, self.cost)
        match self.kind:
            case "kelly":
                wanted = self.fraction * _signed(_kelly, prob, *terms)
            case "linear":
                wanted = self.cap * _signed(_linear, prob, *terms)
            case "flat":
                wanted = self.cap * np.sign(prob.up * self.up - prob.down * self.down)
        return _limited(wanted, self.cap, self.short)

    def returns(self, stakes: FloatArray, moves: FloatArray | IntArray) -> FloatArray:
        """Return what each stake earned on the capital, after costs, where the price fell (-1), stayed or rose."""
        move = np.where(moves > 0.0, self.up, np.where(moves < 0.0, -self.down, 0.0))
        earned: FloatArray = stakes * move - np.abs(stakes) * self.cost
        return earned


def kelly_stakes(
    y_prob: ArrayLike,
    *,
    up: ArrayLike = 1.0,
    down: ArrayLike = 1.0,
    cost: ArrayLike = 0.0,
    fraction: float = 0.5,
    cap: float = 1.0,
    short: bool = True,
) -> FloatArray:
    """Return a fraction of the stake that makes capital grow fastest, signed by direction.

    Parameters
    ----------
    y_prob : array-like of shape (n,), (n, 2) or (n, 3)
        Probability of a rise; or of a fall and a rise; or of a fall, of neither, and of a rise. Calibrated.
    up, down : float or array-like of shape (n,)
        Relative move of a rise and of a fall: 0.02 where the price moves by 2%. Stakes are shares of the capital.
    cost : float or array-like of shape (n,)
        Relative cost of opening and closing, paid whatever happens.
    fraction : float
        Of the full stake, in (0, 1]. Half a stake keeps three quarters of the growth at half the volatility, and
        forgives probabilities that are somewhat off.
    cap : float
        Largest stake; 1 is all capital, without borrowing.
    short : bool
        Whether falls are traded too.

    Returns
    -------
    ndarray of shape (n,)
        In [-cap, cap]. Zero where no side is worth its cost.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    A stake on a rise wins b = up - cost with probability p, loses a = down + cost with q, and loses the cost c with
    r = 1 - p - q. Full Kelly maximises p log(1 + f b) + r log(1 - f c) + q log(1 - f a), whose derivative is zero at
    the smaller root of a b c f^2 - (p b (a + c) + r c (b - a) + q a (b - c)) f + (p b - r c - q a) = 0. With two
    outcomes this is f = p / a - q / b. Where a loss is impossible, f = 1 / a is its limit. A stake on a fall swaps
    the moves. It is optimal for one trade at a time: where trades overlap, let `cap` be the share of each.

    References
    ----------
    Kelly (1956), *A new interpretation of information rate*, Bell System Technical Journal 35.
    Thorp (2006), *The Kelly criterion in blackjack, sports betting and the stock market*, Handbook of Asset and
    Liability Management 1, sections 2 and 7.

    Examples
    --------
    >>> from calibrant.training.sizing import kelly_stakes
    >>> kelly_stakes([0.4, 0.5, 0.6], fraction=1.0)
    array([-0.2,  0. ,  0.2])
    >>> kelly_stakes([[0.2, 0.3, 0.5]], up=0.02, down=0.02, cost=0.001, cap=2.0).round(3)
    array([2.])
    """
    full, limit = _full(_kelly, y_prob, {"up": up, "down": down, "cost": cost}, cap)
    return _limited(_check_share(fraction) * full, limit, short)


def linear_stakes(
    y_prob: ArrayLike,
    *,
    up: ArrayLike = 1.0,
    down: ArrayLike = 1.0,
    cost: ArrayLike = 0.0,
    cap: float = 1.0,
    short: bool = True,
) -> FloatArray:
    """Return stakes that rise in a line from zero at break-even to the cap at certainty, signed by direction.

    Parameters
    ----------
    y_prob, up, down, cost, cap, short
        As for `kelly_stakes`.

    Returns
    -------
    ndarray of shape (n,)
        The cap times the expected gain over the largest possible one: (p b - r c - q a) / b in the terms of
        `kelly_stakes`, and (p - p0) / (1 - p0) with the break-even p0 = a / (a + b) for two outcomes.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Examples
    --------
    >>> from calibrant.training.sizing import linear_stakes
    >>> linear_stakes([0.5, 0.75, 1.0], cap=0.2)
    array([0. , 0.1, 0.2])
    """
    full, limit = _full(_linear, y_prob, {"up": up, "down": down, "cost": cost}, cap)
    return _limited(limit * full, limit, short)


@dataclass(frozen=True, slots=True)
class SizingError:
    """How far stakes are from those that the realised rates ask for.

    Attributes
    ----------
    value : float
        Mean over rows of |stake of the mean forecast - stake of the realised rates|, bin by bin.
    floor : float
        What `value` would be on average if the probabilities were calibrated: the noise of the rates.
    n_bins, n_rows : int
    """

    value: float
    floor: float
    n_bins: int
    n_rows: int


def sizing_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    rule: StakeRule | None = None,
    n_bins: int = 10,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    rng: int | np.random.Generator | None = 0,
) -> SizingError:
    """Measure by how much miscalibration distorts stakes.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        With three columns -1 for a fall, 0 for neither and 1 for a rise; else two labels, of which the larger is a
        rise.
    y_prob : array-like of shape (n,), (n, 2) or (n, 3)
        Probability of a rise; or of a fall and a rise; or of a fall, of neither, and of a rise.
    rule : StakeRule, optional
        Half Kelly at even moves by default.
    n_bins : int
        Bins of near-equal weight of the difference between the probabilities of rise and fall.
    sample_weight : array-like of shape (n,), optional
    classes : array-like, optional
        All labels, sorted as fall, (neither,) rise, where they are others or `y_true` may lack some.
    rng : int or Generator, optional
        For the floor.

    Returns
    -------
    SizingError

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Rates are noisy, so the value is above zero for calibrated probabilities too: compare it with the floor, the mean
    over labels drawn from the probabilities. Labels that overlap are fewer than they look, and the floor then is too
    low.

    Examples
    --------
    >>> from calibrant.training.sizing import sizing_error
    >>> error = sizing_error([0, 1, 0, 1, 0, 1], [0.9] * 6)  # stakes 0.4, where nothing is to be won
    >>> round(error.value, 3)
    0.4
    """
    prob, moves, weight = read_moves(y_true, y_prob, sample_weight, classes)
    rule = StakeRule() if rule is None else rule
    n_bins = check_integer("n_bins", n_bins, minimum=1)
    counted = weight > 0.0
    prob, moves, weight = prob.take(counted), moves[counted], weight[counted]
    _, place = np.unique(prob.up - prob.down, return_inverse=True)
    of_score = equal_mass_bins(np.asarray(np.bincount(place, weights=weight), dtype=np.float64), n_bins)
    bins = np.unique(of_score[place], return_inverse=True)[1]  # from 0, none of them empty
    total = np.bincount(bins, weights=weight)
    promised = Directions(*(np.bincount(bins, weights=weight * p) / total for p in prob))
    stake = rule.stakes_of(promised)

    def error(drawn: IntArray) -> float:
        up, down = (np.bincount(bins, weights=weight * (drawn == side)) / total for side in (1, -1))
        realised = rule.stakes_of(Directions(down, np.maximum(1.0 - up - down, 0.0), up))
        return float(np.average(np.abs(stake - realised), weights=total))

    generator = as_generator(rng)
    cuts = np.column_stack((prob.down, prob.down + prob.flat))
    draws = [error((generator.random(moves.size)[:, None] >= cuts).sum(axis=1) - 1) for _ in range(_N_DRAWS)]
    return SizingError(error(moves), math.fsum(draws) / _N_DRAWS, total.size, moves.size)


def read_directions(y_prob: ArrayLike, name: str = "y_prob") -> Directions:
    """Check probabilities of directions; columns named after -1, 0 and 1, or two of these, are put into this order."""
    checked = as_probabilities(y_prob, name=name)
    for classes in ([-1, 0, 1], [-1, 1], [0, 1]):
        if len(classes) == checked.n_columns:
            checked = by_class(checked, np.array(classes), name)
    return _directions(checked.values, name)


def read_moves(
    y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None, classes: ArrayLike | None
) -> tuple[Directions, IntArray, FloatArray]:
    """Check rows, and return their probabilities of directions, their moves (-1, 0, 1) and their weights."""
    checked = as_probabilities(y_prob, name="y_prob")
    known = [-1, 0, 1] if classes is None and checked.n_columns == 3 else classes
    labels = as_labels(y_true, classes=known, n_columns=checked.n_columns)
    check_one_column(labels, checked.n_columns, "y_true")
    prob = _directions(by_class(checked, labels.classes, "y_prob").values, "y_prob")
    check_same_length(labels.codes.size, prob.up.size, "y_true", "y_prob")
    codes, weight = labels.codes.astype(np.int64), as_weight(sample_weight, prob.up.size)
    moves = codes - 1 if len(labels.classes) == 3 else 2 * codes - 1
    return prob, moves, np.ones(prob.up.size) if weight is None else weight


def _directions(values: FloatArray, name: str) -> Directions:
    if values.ndim == 1:
        return Directions(1.0 - values, np.zeros(values.size), values)
    if values.shape[1] not in (2, 3):
        raise ShapeError(
            f"{name} has {values.shape[1]} columns. Pass the probability of a rise, or two columns (fall, rise), or "
            "three (fall, neither, rise)."
        )
    flat = np.zeros(len(values)) if values.shape[1] == 2 else values[:, 1]
    return Directions(values[:, 0], flat, values[:, -1])


def _signed(stake: Stake, prob: Directions, up: Amount, down: Amount, cost: Amount) -> FloatArray:
    """Return the stake on a rise less that on a fall: one of them is zero at least."""
    rise = stake(prob.up, prob.flat, prob.down, up - cost, down + cost, cost)
    fall = stake(prob.down, prob.flat, prob.up, down - cost, up + cost, cost)
    return rise - fall


def _kelly(p: FloatArray, r: FloatArray, q: FloatArray, b: Amount, a: Amount, c: Amount) -> FloatArray:
    """Return the full Kelly stake on winning b with p, losing c with r and a with q."""
    edge = p * b - r * c - q * a
    slope = p * b * (a + c) + r * c * (b - a) + q * a * (b - c)
    is_worth = edge > 0.0
    root = np.sqrt(np.maximum(slope**2 - 4.0 * (a * b * c) * edge, 0.0))
    f = np.divide(2.0 * edge, slope + root, out=np.zeros(p.size), where=is_worth)
    return np.where(is_worth, np.minimum(f, 1.0 / a), 0.0)


def _linear(p: FloatArray, r: FloatArray, q: FloatArray, b: Amount, a: Amount, c: Amount) -> FloatArray:
    """Return the expected gain as a share of the largest possible one."""
    edge = p * b - r * c - q * a
    best = np.broadcast_to(np.asarray(b, dtype=np.float64), edge.shape)
    return np.divide(edge, best, out=np.zeros(p.size), where=edge > 0.0)


def _limited(stakes: FloatArray, cap: float, short: bool) -> FloatArray:
    limited: FloatArray = np.clip(stakes, -cap if short else 0.0, cap) + 0.0  # never a negative zero
    return limited


def _full(stake: Stake, y_prob: ArrayLike, amounts: dict[str, ArrayLike], cap: object) -> tuple[FloatArray, float]:
    """Return the full stakes of what a caller gave, and the checked cap."""
    prob = read_directions(y_prob)
    terms = [_amount(value, name, prob.up.size, may_be_zero=name == "cost") for name, value in amounts.items()]
    return _signed(stake, prob, *terms), check_number("cap", cap, minimum=0.0, is_open=True)


def _check_share(fraction: object) -> float:
    return 1.0 if fraction == 1 and not isinstance(fraction, bool) else check_fraction("fraction", fraction)


def _amount(value: ArrayLike, name: str, n: int, *, may_be_zero: bool) -> Amount:
    if isinstance(value, (bool, str, numbers.Real)) or value is None:
        return check_number(name, value, minimum=0.0, is_open=not may_be_zero)
    amounts = as_scores(value, name=name).values
    if amounts.ndim != 1:
        raise ShapeError(f"{name} has shape {amounts.shape}. Pass a number, or one per row, shape ({n},).")
    check_same_length(n, amounts.size, "y_prob", name)
    bad = amounts < 0.0 if may_be_zero else amounts <= 0.0
    if bad.any():
        row = int(bad.argmax())
        raise InvalidInputError(
            f"{name} row {row}: {amounts[row].item()!r} can't be used ({bad.sum():,} of {n:,} rows). "
            f"Pass numbers {'of at least 0' if may_be_zero else 'above 0'}."
        )
    return amounts
