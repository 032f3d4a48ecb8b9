"""Margins that come from data: shares of classes with intervals, and the columns that they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy.typing as npt

from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.numerics import FloatArray
from calibrant.prior import ClassRates, PriorEstimate, class_rates
from calibrant.results import plain
from calibrant.validation import ArrayLike


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
    Margins that are met exactly pass on the sampling error of the rows they come from: look at the intervals before
    asking for more than they can bear.

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


def margins_in_order(given: Any, names: Sequence[str] | None, n_columns: int) -> tuple[Any, bool]:
    """Return margins in the order of the columns, and whether they are rates by their kind.

    Mappings, and estimates some of whose classes are names of columns, are matched by name; other estimates follow
    the order of the sorted classes, as columns do everywhere.
    """
    labels: list[Any] = list(names) if names is not None else list(range(n_columns))
    found = as_margins(given)
    if found is not None:
        classes = [str(label) for label in found.classes.tolist()]
        if names is None or not set(classes) & set(names):
            if len(classes) != n_columns:
                raise ShapeError(
                    f"margins are for the {len(classes)} classes {found.classes.tolist()[:20]!r}, and P has "
                    f"{n_columns} columns. Pass one class per column."
                )
            return found.rates, True
        given = dict(zip(classes, found.rates.tolist(), strict=True))
    if not isinstance(given, Mapping):
        return given, False
    by_name = {str(key): value for key, value in given.items()}
    missing = [label for label in labels if str(label) not in by_name]
    extra = [key for key in by_name if key not in set(map(str, labels))]
    if missing or extra:
        what = f"has none for column {missing[0]!r}" if missing else f"names {extra[0]!r}, which is no column of P"
        raise ShapeError(f"margins {what}. Name each column of P once: {labels!r:.200}.")
    return [by_name[str(label)] for label in labels], found is not None
