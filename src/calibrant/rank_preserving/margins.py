"""Margins: shares of classes with intervals, taken from data, and the order of the columns that they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy.typing as npt

from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.numerics import FloatArray
from calibrant.prior import ClassRates, PriorEstimate, class_rates
from calibrant.rank_preserving.names import class_places, match_names, places_without_names
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


def margins_in_order(given: Any, names: Sequence[str] | None, n_columns: int) -> tuple[Any, bool]:
    """Return margins in the order of the columns of P, and whether they are rates by their kind.

    Entries that have names, those of mappings, of Series with an index and of estimates, go by them, see `names`.
    """
    estimate = as_margins(given)
    if estimate is not None:
        classes = estimate.classes.tolist()
        order = class_places(classes, names)
        if order is None and len(classes) != n_columns:
            raise ShapeError(
                f"margins are for the {len(classes)} classes {classes[:20]!r}, and P has {n_columns} columns. Pass one "
                "class per column."
            )
        return (estimate.rates if order is None else estimate.rates[order]), True
    labels, values = named_entries(given)
    if labels is None:
        return given, False
    if names is None:
        order = places_without_names(labels, n_columns)
    else:
        order = match_names(names, labels, what="margins names", whose="P has the columns")
    return [values[i] for i in order], False


def named_entries(given: Any) -> tuple[list[Any] | None, list[Any]]:
    """Return the names and the entries of a mapping or Series; anything else has no names.

    Neither has a Series whose index only counts, as pandas makes one where none is given.
    """
    if isinstance(given, Mapping):
        return list(given), list(given.values())
    import narwhals as nw

    series = nw.from_native(given, series_only=True, pass_through=True)
    index = nw.maybe_get_index(series) if isinstance(series, nw.Series) else None
    if index is None or list(index) == list(range(len(index))):
        return None, []
    return list(index), series.to_list()
