"""Out-of-fold calibration: each row calibrated by a fit that has not seen it."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from calibrant.dependence import overlapping
from calibrant.errors import CalibrantWarning, InvalidInputError
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.rows import Rows
from calibrant.validation import check_integer

#: A number of folds, or an object with scikit-learn's ``split(X, y, groups)``, such as `PurgedKFold`.
Folding: TypeAlias = Any
_Result = TypeVar("_Result")


class _Fittable(Protocol):
    def fresh(self) -> Self: ...
    def fit_rows(self, rows: Rows) -> Self: ...
    def apply(self, rows: Rows) -> FloatArray: ...


class Split(NamedTuple):
    """Which rows are fitted to, and which are held out."""

    fitted: BoolArray
    held_out: BoolArray


def check_folding(cv: Folding) -> Folding:
    """Return a number of folds from 2 on, or a splitter."""
    return cv if callable(getattr(cv, "split", None)) else check_integer("cv", cv, minimum=2)


def row_splits(
    rows: Rows, cv: Folding, *, rng: int = 0, most: int | None = None, strata: IntArray | None = None
) -> list[Split]:
    """Split rows into folds, of a number at most `most`, or as a splitter does, each held out once at most.

    What a splitter puts on both sides of a split, of one cluster or with labels that overlap, is not fitted to.
    """
    if not hasattr(cv, "split"):
        found = _splits_of_folds(rows, rows.folds(min(cv, most or rows.n_rows), rng=rng, strata=strata))
    else:
        found = list(_splits_by(cv, rows))
    if len(found) < 2:
        what = "all rows are of one cluster" if rows.cluster is not None else f"cv={cv!r} holds out one part only"
        raise InvalidInputError(f"{what}, so nothing is left to fit to. Pass rows that can be held out in two parts.")
    return found


def held_out_rows(splits: Sequence[Split]) -> BoolArray:
    """Say which rows are held out by some split."""
    return np.asarray(np.any([split.held_out for split in splits], axis=0))


def _splits_of_folds(rows: Rows, folds: IntArray) -> list[Split]:
    return [Split(rows.fitted_without(folds, fold), folds == fold) for fold in np.unique(folds).tolist()]


def _splits_by(cv: Any, rows: Rows) -> Iterator[Split]:
    seen = np.zeros(rows.n_rows, dtype=np.bool_)
    for i, sides in enumerate(cv.split(np.zeros((rows.n_rows, 1)), rows.codes, rows.cluster)):
        fitted, held_out = np.zeros_like(seen), np.zeros_like(seen)
        for side, at in zip((fitted, held_out), sides, strict=True):
            side[at] = True
        again = held_out & (seen | fitted)
        if again.any() or not (fitted.any() and held_out.any()):
            twice = f"row {int(again.argmax())} is held out twice, or fitted to as well"
            raise InvalidInputError(
                f"split {i} of cv={cv!r} can't be used: {twice if again.any() else 'a side is empty'}. Pass a splitter "
                "that holds each row out once at most, such as PurgedKFold or GroupKFold."
            )
        seen |= held_out
        if rows.cluster is not None:
            fitted &= ~np.isin(rows.cluster, rows.cluster[held_out])
        if rows.time is not None and rows.label_end is not None:
            fitted &= ~overlapping(rows.time, rows.label_end, held_out)
        yield Split(fitted, held_out)


def fits_by_fold(
    rows: Rows, folds: IntArray | Sequence[Split], fit: Callable[[Rows], _Result]
) -> Iterator[tuple[BoolArray, Rows, _Result | None]]:
    """Yield of each fold which rows are held out, the rows to fit to, and the fit; None where these show one class.

    Warnings of the fits are dropped: the fit to all rows gives them where they matter.
    """
    for split in _splits_of_folds(rows, folds) if isinstance(folds, np.ndarray) else folds:
        rest = rows.take(split.fitted)
        fitted = None
        if (rest.codes != rest.codes[:1]).any():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrantWarning)
                fitted = fit(rest)
        yield split.held_out, rest, fitted


def smoothed_shares(rows: Rows) -> FloatArray:
    """Return the share of each class among the rows, each class counted once more than it was seen, shape (K,)."""
    counts = np.bincount(rows.codes, minlength=rows.n_classes)
    shares: FloatArray = (counts + 1.0) / (counts.sum() + counts.size)
    return shares


def out_of_fold(
    calibrator: _Fittable,
    rows: Rows,
    folds: IntArray | Sequence[Split],
    *,
    on_fold: Callable[[int], None] | None = None,
) -> FloatArray:
    """Return the probabilities of each fold by a fit to the others.

    Where the others show one class only, scores of the fold stay as they are; raw scores, which are no probabilities,
    become the smoothed shares of the classes. Rows that no split holds out are NaN. The calibrator is not changed: each
    fold fits a new one of its kind. `on_fold` is called with the number of each fold, from 1, before it is fitted.
    """
    numbers = itertools.count(1)

    def fit(rest: Rows) -> _Fittable:
        if on_fold is not None:
            on_fold(next(numbers))
        return calibrator.fresh().fit_rows(rest)

    unchanged = rows.probabilities()
    out = np.full(rows.scores.shape, np.nan)
    for held_out, rest, fitted in fits_by_fold(rows, folds, fit):
        if fitted is not None:
            out[held_out] = fitted.apply(rows.take(held_out))
        elif unchanged is not None:
            out[held_out] = unchanged[held_out]
        else:
            shares = smoothed_shares(rest)
            out[held_out] = shares[1:] if rows.is_binary else shares
    return out
