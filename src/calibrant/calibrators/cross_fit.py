"""Out-of-fold calibration: each row calibrated by a fit that has not seen it, and the error of means over such rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from calibrant.dependence import overlapping
from calibrant.dependent_rows import DesignEffects
from calibrant.errors import CalibrantError, InvalidInputError, hold_warnings
from calibrant.numerics import BoolArray, FloatArray, IntArray, kish_size, mean_and_error
from calibrant.rows import Rows
from calibrant.validation import check_integer

#: A number of folds, or an object with scikit-learn's ``split(X, y, groups)``, such as `PurgedKFold`.
Folding: TypeAlias = Any
_Result = TypeVar("_Result")
#: Draws of folds, at most, until each class is among the rows that every fold's fit is to.
_MOST_DRAWS = 20


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
    is_splitter = callable(getattr(cv, "split", None)) and not isinstance(cv, (str, bytes))
    return cv if is_splitter else check_integer("cv", cv, minimum=2)


def row_splits(rows: Rows, cv: Folding, *, rng: int = 0, strata: IntArray | None = None) -> list[Split]:
    """Split rows into folds, or as a splitter does, each held out once at most.

    What a splitter puts on both sides of a split, of one cluster or with labels that overlap, is not fitted to.
    """
    if not hasattr(cv, "split"):
        found = _splits_of_folds(rows, rows.folds(min(cv, rows.n_rows), rng=rng, strata=strata))
    else:
        found = list(_splits_by(cv, rows))
    if len(found) < 2:
        what = f"cv={cv!r} holds out one part only"
        if rows.cluster is not None:  # clusters without a class in common go into one fold
            what = "each class is in one cluster alone" if rows.cluster.any() else "all rows are of one cluster"
        raise InvalidInputError(f"{what}, so nothing is left to fit to. Pass rows that can be held out in two parts.")
    bare = next((split for split in found if not split.fitted.any()), None)
    if bare is not None:
        raise InvalidInputError(
            f"all other rows overlap in their labels, or share a cluster, with the {bare.held_out.sum():,} rows that "
            f"cv={cv!r} holds out, so nothing is left to fit to. Pass more rows, or labels that are known sooner."
        )
    return found


def plain_splits(rows: Rows, cv: Folding, *, rng: int = 0) -> list[Split]:
    """Split rows into folds that are drawn without a look at labels, or as a splitter does.

    What is claimed of held-out rows is measured on these. Where each fold holds the same share of each class, fits know
    the class rates of the rows that they are measured on, which is worth about (K - 1) / n of log loss to whatever fits
    a rate. Folds are drawn again where one holds all rows of a class, and are stratified where that is no help.
    """
    if hasattr(cv, "split"):
        return row_splits(rows, cv, rng=rng)
    codes = rows.codes
    needed = np.bincount(codes, minlength=rows.n_classes) > 1
    seeds = [rng, *np.random.SeedSequence(rng).generate_state(_MOST_DRAWS - 1).tolist()]
    for seed in seeds if rows.cluster is not None or rows.time is None else seeds[:1]:
        found = row_splits(rows, cv, rng=seed, strata=np.zeros(rows.n_rows, dtype=np.int64))
        if all(np.bincount(codes[each.fitted], minlength=needed.size)[needed].all() for each in found):
            return found
    return row_splits(rows, cv, rng=rng)


def held_out_rows(splits: Sequence[Split]) -> BoolArray:
    """Say which rows are held out by some split."""
    return np.asarray(np.any([split.held_out for split in splits], axis=0))


def _splits_of_folds(rows: Rows, folds: IntArray) -> list[Split]:
    return [Split(rows.fitted_without(folds, fold), folds == fold) for fold in np.unique(folds).tolist()]


def _splits_by(cv: Any, rows: Rows) -> Iterator[Split]:
    seen = np.zeros(rows.n_rows, dtype=np.bool_)
    try:
        splits = list(cv.split(np.zeros((rows.n_rows, 1)), rows.codes, rows.cluster))
    except CalibrantError:
        raise
    except (TypeError, ValueError) as error:
        fix = "pass cluster= where it splits by groups, or another splitter" if rows.cluster is None else "pass another"
        raise InvalidInputError(f"cv={cv!r} can't split the {rows.n_rows:,} rows ({error}): {fix}.") from error
    for i, sides in enumerate(splits):
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
        yield from fits_together(rows, [split], lambda rests: [fit(rest) for rest in rests])


def fits_together(
    rows: Rows, splits: Sequence[Split], fit: Callable[[list[Rows]], Sequence[_Result]]
) -> Iterator[tuple[BoolArray, Rows, _Result | None]]:
    """Yield what `fits_by_fold` does, the fits made by one call."""
    rests = [rows.take(split.fitted) for split in splits]
    can_fit = [bool((rest.codes != rest.codes[:1]).any()) for rest in rests]
    with hold_warnings():
        fitted = iter(fit(list(itertools.compress(rests, can_fit))))
    for split, rest, can in zip(splits, rests, can_fit, strict=True):
        yield split.held_out, rest, next(fitted) if can else None


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

    out = np.full(rows.scores.shape, np.nan)
    for held_out, rest, fitted in fits_by_fold(rows, folds, fit):
        out[held_out] = _probabilities(fitted, rest, rows.take(held_out))
    return out


def probabilities_by_fit(
    calibrator: _Fittable, rows: Rows, splits: Sequence[Split]
) -> Iterator[tuple[BoolArray, FloatArray]]:
    """Yield of each split which rows are held out, and the probabilities of all rows by the fit to the others.

    Those of the rows held out are what `out_of_fold` gives; those of all rows show how much the fits differ.
    """
    for held_out, rest, fitted in fits_by_fold(rows, splits, lambda rest: calibrator.fresh().fit_rows(rest)):
        yield held_out, _probabilities(fitted, rest, rows)


def _probabilities(fitted: _Fittable | None, rest: Rows, rows: Rows) -> FloatArray:
    """Return probabilities by the fit to the rest, or what stands in for it where the rest shows one class only."""
    if fitted is not None:
        return fitted.apply(rows)
    unchanged = rows.probabilities()
    if unchanged is not None:
        return unchanged
    shares = smoothed_shares(rest)
    return np.broadcast_to(shares[1:] if rows.is_binary else shares, rows.scores.shape)


def held_out(by_fit: FloatArray, splits: Sequence[Split]) -> FloatArray:
    """Return of each row what the fit shows that has not seen it, of figures by fit, shape (k, n, ...)."""
    out: FloatArray = by_fit[0].copy()
    if len(by_fit) > 1:
        for row, split in zip(by_fit, splits, strict=True):
            out[split.held_out] = row[split.held_out]
    return out


def refit_variance(by_fit: FloatArray, splits: Sequence[Split]) -> FloatArray:
    """Return how much a figure of each row varies with the rows that are fitted to, shape (n,).

    `by_fit`, shape (k, n), holds the figure of every row by the fit of each split. This is the jackknife that leaves
    out groups of rows (Shao and Wu 1989, *A general theory for jackknife variance estimation*, Annals of Statistics
    17), of k folds (k - 1) / k times the sum of the squared deviations; of clusters it is one of clusters.
    """
    fitted = np.array([split.fitted.mean() for split in splits])
    return np.asarray(np.mean(fitted / (1.0 - fitted)) * by_fit.var(axis=0))


def held_out_mean(
    held_out: FloatArray, refits: FloatArray, rows: Rows, dependence: DesignEffects | None = None
) -> tuple[float, float]:
    """Return the mean over rows of a figure by fits that have not seen the row, and its standard error.

    `held_out`, shape (n,), is the figure of each row, such as the difference of two losses, and `refits` what
    `refit_variance` gives of it. The error is that of the mean as an estimate of what the fit to these n rows shows on
    new ones. The variance of the rows' figures over n would be that of a fit given beforehand. But the rows that one
    fold's fit is measured on are fitted to by the others: an error of the rows that makes a fit worse on new rows
    makes the same rows look better. For a fit of p parameters by maximum likelihood to rows of which it is true, log
    loss on new rows and the cross-validated one are 1/2 U and -1/2 U away from their limits, with n U a chi-squared
    figure of p degrees of freedom, so that the variance of their difference, 2 p / n^2, is twice that of the rows'
    figures over n, U / n. The mean of `refits` over n is p / n^2, the other half.
    """
    w = rows.weights
    mean, error = mean_and_error(held_out, w)
    square = error**2 + float(np.average(refits, weights=w)) / kish_size(w)
    effect = (dependence or DesignEffects.of(rows)).of_means(rows, held_out[:, None])[0]
    return mean, float(np.sqrt(square * effect))
