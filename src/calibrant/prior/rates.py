"""Rates of the classes of labelled rows, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.metrics import wilson
from calibrant.numerics import FloatArray, kish_size
from calibrant.results import Plain
from calibrant.validation import (
    ArrayLike,
    Labels,
    as_groups,
    as_labels,
    as_weight,
    check_flag,
    check_fraction,
    check_same_length,
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shares(Plain):
    """Shares of classes, with intervals.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The labels, sorted.
    rates, low, high : ndarray of shape (K,)
        Share of each class, and the ends of its interval; the shares sum to one.
    level : float
        Coverage of each interval, or of all of them at once where they are simultaneous.
    n : int
        Rows, with a weight above zero, that the shares come from.
    method : str
        How shares and intervals were found; of labels "Wilson", or "Goodman" for simultaneous intervals.
    """

    classes: npt.NDArray[Any]
    rates: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    n: int
    method: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ClassRates(Shares):
    """How often each class occurs: its share of labelled rows, with what `Shares` has and the size of the sample.

    Attributes
    ----------
    effective_size : float
        Kish's effective number of rows, (sum w)^2 / sum w^2; n where all weights are equal.
    """

    effective_size: float


def class_rates(
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
) -> ClassRates:
    """Estimate how often each class occurs where the labelled rows come from.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of any kind.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none. Intervals use Kish's effective number of rows,
        which equal weights leave as it is.
    classes : array-like of shape (K,), optional
        All classes, sorted, where the rows may lack some.
    level : float
        Coverage of the intervals.
    simultaneous : bool
        Whether the intervals shall hold for all classes at once with `level`, and not each for itself.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Wilson's intervals, which are never of width zero; simultaneous ones are Goodman's, Wilson's at the level
    1 - (1 - level) / K. Rows are taken for independent.

    References
    ----------
    Wilson (1927), *Probable inference, the law of succession, and statistical inference*, JASA 22. Goodman (1965),
    *On simultaneous confidence intervals for multinomial proportions*, Technometrics 7.

    Examples
    --------
    >>> from calibrant.prior import class_rates
    >>> print(class_rates(["no"] * 90 + ["yes"] * 10))
    level 95%, n 100, method Wilson, effective size 100
    classes   rates      95% interval
    no       0.9000  [0.8256, 0.9448]
    yes      0.1000  [0.0552, 0.1744]
    """
    labels = as_labels(y, name="y", classes=classes)
    weight = as_weight(sample_weight, labels.codes.size, rows="y")
    return _rates_of(labels, weight, level, simultaneous)


def class_rates_of_groups(
    y: ArrayLike,
    groups: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
) -> dict[Any, ClassRates]:
    """Estimate how often each class occurs in each group of rows.

    Parameters
    ----------
    groups : array-like of shape (n,)
        The group of each row: booleans, integers, strings or a categorical.
    y, sample_weight, classes, level, simultaneous
        As for `class_rates`; `simultaneous` is over the classes of a group, not over groups.

    Returns
    -------
    dict
        By group the rates of every class, with rows of it or not; without groups that have no row of positive weight.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Examples
    --------
    >>> from calibrant.prior import class_rates_of_groups
    >>> rates = class_rates_of_groups([0, 1, 1, 1, 0, 0], ["a", "a", "a", "b", "b", "b"])
    >>> rates["a"].rates.round(3)
    array([0.333, 0.667])
    """
    labels = as_labels(y, name="y", classes=classes)
    grouped = as_groups(groups)
    check_same_length(labels.codes.size, grouped.codes.size, "y", "groups")
    weight = as_weight(sample_weight, labels.codes.size, rows="y")
    found = {}
    for code, group in enumerate(grouped.classes.tolist()):
        rows = grouped.codes == code
        part = None if weight is None else weight[rows]
        if part is None or part.any():
            found[group] = _rates_of(Labels(labels.codes[rows], labels.classes), part, level, simultaneous)
    return found


def _rates_of(labels: Labels, weight: FloatArray | None, level: float, simultaneous: bool) -> ClassRates:
    level, n_classes = check_fraction("level", level), len(labels.classes)
    check_flag("simultaneous", simultaneous)
    rates, size, n = weighted_rates(labels, weight)
    each = 1.0 - (1.0 - level) / n_classes if simultaneous else level
    low, high = wilson(rates, np.full(n_classes, size), each)
    return ClassRates(labels.classes, rates, low, high, level, n, "Goodman" if simultaneous else "Wilson", size)


def weighted_rates(labels: Labels, weight: FloatArray | None) -> tuple[FloatArray, float, int]:
    """Return the share of each class, the effective number of rows, and the number with a weight above zero."""
    if weight is None:
        n = labels.codes.size
        return labels.counts() / n, float(n), n
    share = weight / weight.max()
    total = np.bincount(labels.codes, weights=share, minlength=len(labels.classes))
    return total / total.sum(), kish_size(share), int(np.count_nonzero(weight))
