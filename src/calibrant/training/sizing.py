"""How much to stake on a calibrated probability."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.numerics import FloatArray
from calibrant.training.directions import Directions, read_directions
from calibrant.training.equity import BASIS_POINT, check_cost
from calibrant.validation import ArrayLike, as_scores, check_choice, check_fraction, check_number, check_same_length

Amount: TypeAlias = float | FloatArray
StakeKind: TypeAlias = Literal["kelly", "linear", "flat"]
#: The stake on winning b with probability p, losing c with r and a with q, of (p, r, q, b, a, c).
Stake: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray, Amount, Amount, Amount], FloatArray]


@dataclass(frozen=True, slots=True)
class StakeRule:
    """What a trade wins, loses and costs, how the stake follows from the probabilities, and how much may be open.

    Attributes
    ----------
    kind : {"kelly", "linear", "flat"}
        `kelly_stakes`, `linear_stakes`, or the whole cap on the side that is worth more before costs.
    up, down : float
        Relative move of a rise and of a fall: 0.02 where the price moves by 2%. Neither is taken for no move.
    cost_bp : float
        Of opening and of closing, in basis points (hundredths of a percent) of the capital moved, whatever happens.
    fraction : float
        Of the Kelly stake; of no account for the others.
    cap : float
        Largest stake.
    short : bool
        Whether falls are traded too.
    share : float
        The part of the capital that a stake of 1 moves: one over the number of labels that are usually open at once.
    gross : float
        The most that all open positions take together, as a share of the capital.

    Raises
    ------
    CalibrantError
        If a value can't be used.

    Examples
    --------
    >>> from calibrant.training.sizing import StakeRule
    >>> StakeRule("linear", up=0.02, down=0.02, cost_bp=10).stakes([0.3, 0.5, 0.6, 0.9])
    array([-0.33340733,  0.        ,  0.11101224,  0.77775306])
    """

    kind: StakeKind = "kelly"
    up: float = 1.0
    down: float = 1.0
    cost_bp: float = 0.0
    fraction: float = 0.5
    cap: float = 1.0
    short: bool = True
    share: float = 1.0
    gross: float = 1.0

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(StakeKind))
        for name in ("up", "down", "cap", "share", "gross"):
            check_number(name, getattr(self, name), minimum=0.0, is_open=True)
        check_cost(self.cost_bp)
        _check_share(self.fraction)

    def stakes(self, y_prob: ArrayLike) -> FloatArray:
        """Return the signed stake of each row, of probabilities as for `kelly_stakes`; below zero to gain by a fall."""
        return self.stakes_of(read_directions(y_prob))

    def stakes_of(self, prob: Directions) -> FloatArray:
        """Return the signed stakes of checked probabilities."""
        terms = (self.up, self.down, self.cost_bp)
        match self.kind:
            case "kelly":
                wanted = self.fraction * _signed(_kelly, prob, *terms)
            case "linear":
                wanted = self.cap * _signed(_linear, prob, *terms)
            case "flat":
                wanted = self.cap * np.sign(prob.up * self.up - prob.down * self.down)
        return _limited(wanted, self.cap, self.short)

    def promised(self, side: FloatArray, prob: Directions) -> FloatArray:
        """Return what a unit on the side (1, -1, or 0 for none) of each row is expected to earn after costs."""
        cost = self.cost_bp * BASIS_POINT
        move = prob.up * self.up - prob.down * self.down
        earned: FloatArray = side * move - np.abs(side) * cost * (2.0 + move)
        return earned


def as_rule(rule: StakeRule | None) -> StakeRule:
    """Check a stake rule; without one, it is half Kelly at even moves."""
    if rule is None:
        return StakeRule()
    if not isinstance(rule, StakeRule):
        raise InvalidTypeError(f"rule={rule!r:.60} is not a stake rule. Pass StakeRule('linear'), or leave it out.")
    return rule


def kelly_stakes(
    y_prob: ArrayLike,
    *,
    up: ArrayLike = 1.0,
    down: ArrayLike = 1.0,
    cost_bp: ArrayLike = 0.0,
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
    cost_bp : float or array-like of shape (n,)
        Of opening and of closing, in basis points (hundredths of a percent) of the capital moved, whatever happens.
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
    With costs k of what is opened and of what is closed, a stake on a rise wins b = up - k (2 + up) with probability p,
    loses a = down + k (2 - down) with q, and c = 2 k with r = 1 - p - q. Full Kelly maximises
    p log(1 + f b) + r log(1 - f c) + q log(1 - f a), whose derivative is zero at the smaller root of
    a b c f^2 - (p b (a + c) + r c (b - a) + q a (b - c)) f + (p b - r c - q a) = 0. With two outcomes this is
    f = p / a - q / b. Where a loss is impossible, f = 1 / a is its limit. A stake on a fall swaps the moves. It is
    optimal for one trade at a time: where trades overlap, let each have its share of the capital.

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
    >>> kelly_stakes([[0.2, 0.3, 0.5]], up=0.02, down=0.02, cost_bp=5, cap=2.0).round(3)
    array([2.])
    """
    full, limit = _full(_kelly, y_prob, {"up": up, "down": down, "cost_bp": cost_bp}, cap)
    return _limited(_check_share(fraction) * full, limit, short)


def linear_stakes(
    y_prob: ArrayLike,
    *,
    up: ArrayLike = 1.0,
    down: ArrayLike = 1.0,
    cost_bp: ArrayLike = 0.0,
    cap: float = 1.0,
    short: bool = True,
) -> FloatArray:
    """Return stakes that rise in a line from zero at break-even to the cap at certainty, signed by direction.

    Parameters
    ----------
    y_prob, up, down, cost_bp, cap, short
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
    full, limit = _full(_linear, y_prob, {"up": up, "down": down, "cost_bp": cost_bp}, cap)
    return _limited(limit * full, limit, short)


def _signed(stake: Stake, prob: Directions, up: Amount, down: Amount, cost_bp: Amount) -> FloatArray:
    """Return the stake on a rise less that on a fall: one of them is zero at least."""
    cost = cost_bp * BASIS_POINT
    ends = (cost * (2.0 + up), cost * (2.0 - down))  # of opening, and of closing what has become of it
    rise = stake(prob.up, prob.flat, prob.down, up - ends[0], down + ends[1], 2.0 * cost)
    fall = stake(prob.down, prob.flat, prob.up, down - ends[1], up + ends[0], 2.0 * cost)
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
    terms = [_amount(value, name, prob.up.size, may_be_zero=name == "cost_bp") for name, value in amounts.items()]
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
