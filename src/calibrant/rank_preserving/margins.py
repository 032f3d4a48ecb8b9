"""Margins: shares of classes with intervals, taken from data, and the order of the columns that they are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.numerics import FloatArray
from calibrant.prior import ClassRates, PriorEstimate, class_rates
from calibrant.results import plain
from calibrant.validation import ArrayLike, match_classes, match_names, read_names


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """Shares of classes for the columns of a matrix, with intervals.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The labels, sorted.
    rates : ndarray of shape (K,)
        Share of each class; they sum to one.
    low, high : ndarray of shape (K,)
        Ends of the interval of each.
    level : float
        Coverage of the intervals.
    n : int
        Rows that the shares come from.
    method : str
        How shares and intervals were found.
    """

    classes: npt.NDArray[Any]
    rates: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    n: int
    method: str

    def totals(self, total: float) -> FloatArray:
        """Return what the columns of a matrix of rows of the weight `total` sum to."""
        totals: FloatArray = self.rates * total
        return totals

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values; what is not finite becomes None."""
        return {key: plain(value) for key, value in asdict(self).items()}

    def __str__(self) -> str:
        rows = zip(self.classes.tolist(), self.rates, self.low, self.high, strict=True)
        return "\n".join(f"{label}: {rate:.4f} [{low:.4f}, {high:.4f}]" for label, rate, low, high in rows)


def margins_from_labels(
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
) -> Margins:
    """Take margins from labelled rows of the population that the matrix shall agree with.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of any kind, of other rows than the matrix has or of the same.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.
    classes : array-like of shape (K,), optional
        All classes, sorted, where the rows may lack some.
    level, simultaneous
        Of the intervals, as for `calibrant.prior.class_rates`.

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
    no: 0.9000 [0.8256, 0.9448]
    yes: 0.1000 [0.0552, 0.1744]
    >>> margins.totals(500)
    array([450.,  50.])
    """
    found = class_rates(y, sample_weight=sample_weight, classes=classes, level=level, simultaneous=simultaneous)
    return margins_from_estimate(found)


def margins_from_estimate(estimate: ClassRates | PriorEstimate) -> Margins:
    """Take margins from what `calibrant.prior` estimated: `class_rates`, `estimate_prior` or `estimate_prior_bbse`.

    Parameters
    ----------
    estimate : ClassRates or PriorEstimate

    Raises
    ------
    InvalidTypeError
        If it is neither.

    Examples
    --------
    >>> import calibrant as cb
    >>> print(cb.rank_preserving.margins_from_estimate(cb.prior.class_rates([0, 1, 1, 1])))
    0: 0.2500 [0.0456, 0.6994]
    1: 0.7500 [0.3006, 0.9544]
    """
    e = estimate
    if isinstance(e, ClassRates):
        return Margins(e.classes, e.rates, e.low, e.high, e.level, e.n, e.method)
    if isinstance(e, PriorEstimate):
        return Margins(e.classes, e.new, e.low, e.high, e.level, e.n, e.method)
    raise InvalidTypeError(
        f"estimate is a {type(estimate).__name__}. Pass what class_rates, estimate_prior or estimate_prior_bbse of "
        "calibrant.prior returned."
    )


def as_margins(given: object) -> Margins | None:
    """Return margins that state their classes and are rates, or None for anything else."""
    if isinstance(given, Margins):
        return given
    return margins_from_estimate(given) if isinstance(given, (ClassRates, PriorEstimate)) else None


def read_margins(given: Any, names: Sequence[str] | None, n_columns: int) -> tuple[ArrayLike, list[int] | None, bool]:
    """Return numbers, their places in the order of the columns of P, and whether they are rates by their kind.

    Numbers that have names, in a mapping, a Series with an index or an estimate, go by these; None stands for numbers
    that are in the order of the columns.
    """
    estimate = as_margins(given)
    if estimate is None:
        numbers, labels = read_names(given)
        return numbers, match_names(labels, names, name="margins", of="P"), False
    classes = estimate.classes.tolist()
    if len(classes) != n_columns:
        raise ShapeError(
            f"margins are for the {len(classes)} classes {classes[:20]!r}, and P has {n_columns} columns. Pass one "
            "class per column."
        )
    places = None if names is None else match_classes(names, classes, name="P")
    return estimate.rates, None if places is None else np.argsort(places).tolist(), True
