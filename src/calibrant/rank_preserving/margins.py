"""Margins: shares of classes with intervals, taken from data, and the order of the columns that they are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.numerics import FloatArray
from calibrant.prior import ClassRates, PriorEstimate, Shares, class_rates
from calibrant.validation import ArrayLike, as_scores, check_number, match_classes, match_names, read_names, read_native


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EstimatedMargins(Shares):
    """Shares of classes for the columns of a matrix, with intervals; its attributes are those of `Shares`."""

    def totals(self, total: float) -> FloatArray:
        """Return what the columns of a matrix of rows of the weight `total` sum to."""
        return self.rates * total

    def within(self) -> Margins:
        """Return margins that only ask each column to lie within its interval."""
        labels = self.classes.tolist()
        sides = (dict(zip(labels, side.tolist(), strict=True)) for side in (self.rates, self.low, self.high))
        values, low, high = sides
        return Margins(values, low=low, high=high, is_rate=True)


@dataclass(frozen=True, slots=True)
class Margins:
    """Totals that need not be met to the last digit: within a tolerance, within an interval, or at a price.

    Parameters
    ----------
    values : as `margins` of `solve`, optional
        The totals. May be left out where `low` and `high` are given.
    tolerance : float, array-like of shape (K,) or mapping, optional
        How far each total may lie from its value, in the unit of the values.
    low, high : array-like of shape (K,) or mapping, optional
        Ends of the interval in which each total has to lie, instead of a tolerance.
    penalty : float, optional
        Instead of both: totals are free, and `penalty` times the sum of their squared distances from the values,
        divided by the weight of all rows, is added to the objective. The larger, the nearer they come.
    is_rate : bool
        Whether the numbers are shares of the rows, whatever `margin_kind` says.

    Raises
    ------
    InvalidInputError
        If more than one of the three ways is given, or none.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> P = np.random.default_rng(0).dirichlet([2.0, 2.0, 2.0], 300)
    >>> margins = cb.rank_preserving.Margins([130, 90, 79], tolerance=5)
    >>> result = cb.rank_preserving.solve(P, margins)
    >>> result.margins_used.round()
    array([125.,  92.,  83.])
    >>> result.binds.tolist()
    [True, False, False]
    """

    values: Any = None
    tolerance: Any = None
    low: Any = None
    high: Any = None
    penalty: float | None = None
    is_rate: bool = False

    def __post_init__(self) -> None:
        has_ends = [end is not None for end in (self.low, self.high)]
        ways = [self.tolerance is not None, any(has_ends), self.penalty is not None]
        if sum(ways) != 1 or any(has_ends) != all(has_ends):
            raise InvalidInputError("Margins takes a tolerance, or low and high, or a penalty. Pass one of the three.")
        if self.values is None and not all(has_ends):
            raise InvalidInputError("Margins has no values. Pass them, or low and high.")
        if self.penalty is not None:
            check_number("penalty", self.penalty, minimum=0.0, is_open=True)


def margins_from_labels(
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
) -> EstimatedMargins:
    """Take margins from labelled rows of the population that the matrix shall agree with.

    Parameters
    ----------
    y, sample_weight, classes, level, simultaneous
        As for `calibrant.prior.class_rates`. Labels may be of other rows than the matrix has or of the same.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Margins that are met exactly pass on the sampling error of the rows they come from: the intervals say how large
    it is.

    Examples
    --------
    >>> import calibrant as cb
    >>> margins = cb.rank_preserving.margins_from_labels(["no"] * 90 + ["yes"] * 10)
    >>> print(margins)
    level 95%, n 100, method Wilson
    classes   rates      95% interval
    no       0.9000  [0.8256, 0.9448]
    yes      0.1000  [0.0552, 0.1744]
    >>> margins.totals(500)
    array([450.,  50.])
    """
    return margins_from_estimate(
        class_rates(y, sample_weight=sample_weight, classes=classes, level=level, simultaneous=simultaneous)
    )


def margins_from_estimate(estimate: ClassRates | PriorEstimate) -> EstimatedMargins:
    """Take margins from what `calibrant.prior` estimated: `class_rates`, `estimate_prior` or `estimate_prior_bbse`.

    Examples
    --------
    >>> import calibrant as cb
    >>> print(cb.rank_preserving.margins_from_estimate(cb.prior.class_rates([0, 1, 1, 1])))
    level 95%, n 4, method Wilson
    classes   rates      95% interval
          0  0.2500  [0.0456, 0.6994]
          1  0.7500  [0.3006, 0.9544]
    """
    margins = as_margins(estimate)
    if margins is None:
        raise InvalidTypeError(
            f"estimate is a {type(estimate).__name__}. Pass what class_rates, estimate_prior or estimate_prior_bbse "
            "of calibrant.prior returned."
        )
    return margins


def as_margins(given: object) -> EstimatedMargins | None:
    """Return margins that state their classes and are rates; None of anything else."""
    if not isinstance(given, (ClassRates, PriorEstimate)):
        return given if isinstance(given, EstimatedMargins) else None
    rates = given.rates if isinstance(given, ClassRates) else given.new
    return EstimatedMargins(given.classes, rates, given.low, given.high, given.level, given.n, given.method)


class Wanted(NamedTuple):
    """What margins ask for, in the order of the columns of P: values, and the ends of their intervals."""

    values: FloatArray
    low: FloatArray
    high: FloatArray
    penalty: float | None
    is_rate: bool

    @property
    def is_exact(self) -> bool:
        """Whether every total is given to the last digit."""
        return self.penalty is None and bool((self.low == self.high).all())


def read_margins(given: Any, names: Sequence[str] | None, n_columns: int) -> Wanted:
    """Return the numbers that margins ask for, in the order of the columns of P.

    Numbers that have names, in a mapping, a Series with an index, a frame of one row or an estimate, go by these.
    """

    def read(side: Any, name: str) -> FloatArray:
        return _read_side(side, names, n_columns, name)[0]

    if not isinstance(given, Margins):
        values, is_rate = _read_side(given, names, n_columns, "margins")
        return Wanted(values, values, values, None, is_rate)
    if given.values is None:
        low, high = read(given.low, "low"), read(given.high, "high")
        return Wanted(0.5 * (low + high), low, high, None, given.is_rate)
    values, is_rate = _read_side(given.values, names, n_columns, "margins")
    low = high = values
    if given.tolerance is not None:
        tolerance = read(given.tolerance, "tolerance")
        low, high = np.maximum(values - tolerance, 0.0), values + tolerance
    elif given.penalty is None:
        low, high = read(given.low, "low"), read(given.high, "high")
    return Wanted(values, low, high, given.penalty, is_rate or given.is_rate)


def _read_side(given: Any, names: Sequence[str] | None, n_columns: int, name: str) -> tuple[FloatArray, bool]:
    """Return numbers in the order of the columns of P, and whether they are rates by their kind."""
    estimate = as_margins(given)
    if estimate is None:
        numbers, labels = read_names(_row_by_name(given, name), name=name)
        if np.ndim(numbers) == 0 and name != "margins":
            numbers = np.full(n_columns, check_number(name, numbers, minimum=0.0))
        order = match_names(labels, names, name=name, of="P")
        values = as_scores(numbers, name=name).values
        values = values if order is None else values[order]
        if values.shape != (n_columns,):
            raise ShapeError(f"{name} has shape {values.shape} for the {n_columns} columns of P. Pass one per column.")
        if name != "margins" and (values < 0.0).any():
            column = (names or range(n_columns))[int(values.argmin())]
            raise InvalidInputError(
                f"{name} of column {column!r}: {values.min().item()!r} is negative ({(values < 0.0).sum():,} of "
                f"{n_columns:,}). Pass 0 or more."
            )
        return values, False
    classes = estimate.classes.tolist()
    if len(classes) != n_columns:
        raise ShapeError(
            f"margins are for the {len(classes)} classes {classes[:20]!r}, and P has {n_columns} columns. Pass one "
            "class per column."
        )
    places = None if names is None else match_classes(names, classes, name="P")
    return (estimate.rates if places is None else estimate.rates[np.argsort(places)]), True


def _row_by_name(given: Any, name: str) -> Any:
    """Return a frame of one row as a mapping from its columns to its numbers, and anything else as it is."""
    import narwhals as nw

    frame = read_native(given, name)
    if isinstance(frame, nw.DataFrame) and frame.shape[0] == 1:
        return dict(zip(frame.columns, frame.row(0), strict=True))
    return given
