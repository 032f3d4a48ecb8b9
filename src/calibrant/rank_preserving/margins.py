"""Margins: shares of classes with intervals, taken from data, and the order of the columns that they are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.numerics import FloatArray
from calibrant.prior import ClassRates, PriorEstimate, Shares, class_rates
from calibrant.validation import ArrayLike, match_classes, match_names, read_names


@dataclass(frozen=True, slots=True, eq=False)
class Margins(Shares):
    """Shares of classes for the columns of a matrix, with intervals; its attributes are those of `Shares`."""

    def totals(self, total: float) -> FloatArray:
        """Return what the columns of a matrix of rows of the weight `total` sum to."""
        return self.rates * total


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
    no: 0.9000 [0.8256, 0.9448]
    yes: 0.1000 [0.0552, 0.1744]
    >>> margins.totals(500)
    array([450.,  50.])
    """
    return margins_from_estimate(
        class_rates(y, sample_weight=sample_weight, classes=classes, level=level, simultaneous=simultaneous)
    )


def margins_from_estimate(estimate: ClassRates | PriorEstimate) -> Margins:
    """Take margins from what `calibrant.prior` estimated: `class_rates`, `estimate_prior` or `estimate_prior_bbse`.

    Examples
    --------
    >>> import calibrant as cb
    >>> print(cb.rank_preserving.margins_from_estimate(cb.prior.class_rates([0, 1, 1, 1])))
    0: 0.2500 [0.0456, 0.6994]
    1: 0.7500 [0.3006, 0.9544]
    """
    margins = as_margins(estimate)
    if margins is None:
        raise InvalidTypeError(
            f"estimate is a {type(estimate).__name__}. Pass what class_rates, estimate_prior or estimate_prior_bbse "
            "of calibrant.prior returned."
        )
    return margins


def as_margins(given: object) -> Margins | None:
    """Return margins that state their classes and are rates; None of anything else."""
    if not isinstance(given, (ClassRates, PriorEstimate)):
        return given if isinstance(given, Margins) else None
    rates = given.rates if isinstance(given, ClassRates) else given.new
    return Margins(given.classes, rates, given.low, given.high, given.level, given.n, given.method)


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
