"""Cross-validation splits of any kind, checked: no row calibrates a classifier that was trained on it."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, StratifiedGroupKFold, StratifiedKFold, check_cv

from calibrant.dependence import stratified_blocks
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.numerics import IntArray

#: Splitters that test each row once, so that a rare class can't reach every fold.
_FOLDS = (KFold, StratifiedKFold, GroupKFold, StratifiedGroupKFold)


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


def splits(cv: Any, X: Any, y: Any, n: int, codes: IntArray | None, params: dict[str, Any]) -> Iterator[Split]:
    """Yield the splits of n rows, as scikit-learn reads `cv`; `codes` are their classes where each has one."""
    if isinstance(cv, LeaveOneOut):
        raise InvalidInputError(
            "LeaveOneOut cross-validation does not allow all classes to be present in test splits: one row shows one "
            "class. Pass a number of folds."
        )
    is_number = cv is None or isinstance(cv, numbers.Integral)
    has_groups = params.get("groups") is not None
    if codes is None:
        cv = GroupKFold(check_cv(cv).n_splits) if is_number and has_groups else check_cv(cv, y, classifier=True)
        return _checked(cv, X, y, n, params)
    smallest = int(np.bincount(codes).min())
    if isinstance(cv, (numbers.Integral, *_FOLDS)):
        n_folds = int(getattr(cv, "n_splits", cv))
        if smallest < n_folds:
            raise InvalidInputError(
                f"Requesting {n_folds}-fold cross-validation but provided less than {n_folds} examples for at least "
                f"one class, which has {smallest}. Pass fewer folds, or drop the class."
            )
    if is_number:
        n_folds = check_cv(cv).n_splits  # it says what is wrong with the number
        if has_groups:
            cv = StratifiedGroupKFold(n_folds)
        elif smallest >= n_folds:
            return _blocks(codes, n_folds)
    return _checked(check_cv(cv, y, classifier=True), X, y, n, params)


def _blocks(codes: IntArray, n_folds: int) -> Iterator[Split]:
    """Yield the folds of scikit-learn's default, which cost it several times as much."""
    folds = stratified_blocks(codes, n_folds)
    for fold in range(n_folds):
        is_test = folds == fold
        yield Split(np.flatnonzero(~is_test), np.flatnonzero(is_test))


def _checked(cv: Any, X: Any, y: Any, n: int, params: dict[str, Any]) -> Iterator[Split]:
    i = None
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
    if i is None:
        raise InvalidInputError(
            "cv gives no split. Pass a number of folds, a splitter, or a list of splits: an iterator gives its splits "
            "to one fit only."
        )


def _rows(rows: Any, n: int) -> IntArray:
    positions = np.asarray(rows)
    if positions.dtype == np.bool_:
        if positions.shape != (n,):
            raise InvalidInputError(
                f"cv gives a mask of shape {positions.shape} for {n:,} rows. Pass one entry per row."
            )
        return np.flatnonzero(positions)
    if positions.size and positions.dtype.kind not in "iu":
        raise InvalidTypeError(
            f"cv names row {positions.ravel().tolist()[0]!r}, which is no whole number. Pass positions or masks."
        )
    out_of_range = (positions < -n) | (positions >= n)
    if out_of_range.any():
        raise InvalidInputError(f"cv names row {positions[out_of_range][0]} of {n:,} rows.")
    return np.where(positions < 0, positions + n, positions).astype(np.int64)
