"""Cross-validation splits of any kind, checked: no row calibrates a classifier that was trained on it."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)

from calibrant.errors import InvalidInputError
from calibrant.numerics import IntArray


@dataclass(frozen=True, slots=True)
class Split:
    """The rows that a classifier is trained on, and those that it is then calibrated on, as positions."""

    train: IntArray
    test: IntArray


def refuse_prefit(cv: Any) -> None:
    """Say what stands for ``cv="prefit"``, which scikit-learn had once."""
    if isinstance(cv, str) and cv == "prefit":
        raise InvalidInputError(
            "cv='prefit' is no way to split. For a classifier that is already fitted, pass "
            "estimator=sklearn.frozen.FrozenEstimator(classifier)."
        )


def splitter(cv: Any, y: Any, smallest_class: int) -> Any:
    """Return what splits the rows, as scikit-learn reads `cv`.

    Raises
    ------
    InvalidInputError
        If a class has fewer rows than there are folds, or each fold would hold one row.
    """
    if isinstance(cv, LeaveOneOut):
        raise InvalidInputError(
            "LeaveOneOut cross-validation does not allow all classes to be present in test splits: one row shows one "
            "class. Pass a number of folds."
        )
    n_folds = cv if isinstance(cv, numbers.Integral) else getattr(cv, "n_splits", None)
    is_partition = isinstance(cv, numbers.Integral) or _cuts_folds(cv)
    if is_partition and isinstance(n_folds, numbers.Integral) and smallest_class < int(n_folds):
        raise InvalidInputError(
            f"Requesting {n_folds}-fold cross-validation but provided less than {n_folds} examples for at least one "
            f"class, which has {smallest_class}. Pass fewer folds, or drop the class."
        )
    return check_cv(cv, y, classifier=True)


def _cuts_folds(cv: Any) -> bool:
    """Say whether each row is tested once, so that a rare class can't reach every fold."""
    return isinstance(cv, (KFold, StratifiedKFold, GroupKFold, StratifiedGroupKFold))


def splits(cv: Any, X: Any, y: Any, n: int, params: dict[str, Any]) -> Iterator[Split]:
    """Yield the splits, with the rows of each as positions.

    Raises
    ------
    InvalidInputError
        If a split trains or tests on nothing, or tests a row that it trains on.
    """
    for i, (train, test) in enumerate(cv.split(X, y, **params)):
        split = Split(_rows(train, n), _rows(test, n))
        for rows, what in ((split.train, "training"), (split.test, "test")):
            if rows.size == 0:
                raise InvalidInputError(f"cv split {i} has no {what} rows. Pass splits with rows on both sides.")
        seen = np.zeros(n, dtype=np.bool_)
        seen[split.train] = True
        leaked = seen[split.test]
        if leaked.any():
            row = int(split.test[leaked.argmax()])
            raise InvalidInputError(
                f"cv split {i} trains on {int(leaked.sum()):,} of the {split.test.size:,} rows that it calibrates on, "
                f"the first of them row {row}. Pass splits whose training and test rows are disjoint."
            )
        yield split


def _rows(rows: Any, n: int) -> IntArray:
    positions = np.asarray(rows)
    if positions.dtype == np.bool_:
        return np.flatnonzero(positions)
    out_of_range = (positions < -n) | (positions >= n)
    if out_of_range.any():
        raise InvalidInputError(f"cv names row {positions[out_of_range][0]} of {n:,} rows.")
    return np.where(positions < 0, positions + n, positions).astype(np.int64)
