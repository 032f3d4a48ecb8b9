"""Automatic calibration of more than two classes: a product of methods, weighted by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.calibrators.auto_report import (
    EXACT,
    LEAST_WEIGHT,
    MOST_LOGIT,
    MOST_ROWS,
    NONE,
    PULL,
    AutoReport,
    make_report,
)
from calibrant.calibrators.base import BinaryCalibrator, Calibrator, fit_one_vs_rest
from calibrant.calibrators.matrix_scaling import MatrixScalingCalibrator
from calibrant.calibrators.spline import SplineCalibrator
from calibrant.calibrators.temperature import TemperatureCalibrator
from calibrant.calibrators.vector_scaling import VectorScalingCalibrator
from calibrant.calibrators.venn_abers import VennAbersCalibrator
from calibrant.dependence import stratified_folds
from calibrant.errors import CalibrantWarning, DataWarning
from calibrant.maps import LogPoolMap, OneVsRestMap, PoolPart, SoftmaxMap
from calibrant.numerics import (
    SMALLEST_CLIP,
    FloatArray,
    IntArray,
    dot,
    log_softmax,
    minimise_on_simplex,
    project_simplex,
    softmax,
)
from calibrant.rows import Rows
from calibrant.validation import InputKind

#: Classes up to which matrices and single columns are fitted: both cost too much beyond, and few rows show much.
_MOST_CLASSES = 100
#: Rows that count as having shown any class alike: what a product of sure methods leaves to surprises.
_SPARE = 0.5
#: Entries of a table of rows and classes that the cross-validation looks at.
_MOST_ENTRIES = 1 << 21
_MAX_ITER = 50
_TOL = 1e-9

_Fit: TypeAlias = Callable[[Rows], PoolPart]


def fit_classes(
    rows: Rows,
    *,
    input: InputKind,
    cv: int,
    seed: int,
    n_rows: int | None = None,
    fit_all: Callable[[str], PoolPart] | None = None,
) -> tuple[SoftmaxMap | LogPoolMap, AutoReport]:
    """Weigh the candidates on folds of the rows; return the product of their fits to all rows, and the report.

    Where these are a sample of `n_rows` rows, `fit_all` fits the named candidate to all of them.
    """
    rank = _ranks(rows)
    every = _in_order(rows, rank)
    sample, n_held = _sample(every, seed)
    n_rows = n_rows or n_held
    codes = sample.codes.astype(np.intp)
    tried = _candidates(input, sample)
    n_folds = min(cv, codes.size)
    folds = stratified_folds(rank[codes], n_folds, seed)
    z = np.array([_held_out(fit, sample, folds) for fit in tried.values()])
    w = sample.weights
    weights = _pool_weights(z, codes, w)
    at = np.arange(codes.size), codes
    loss = {name: -row[at] for name, row in zip(tried, z, strict=True)}
    uniform = _SPARE / (n_rows + _SPARE)
    pooled = (1.0 - uniform) * softmax(np.einsum("j,jik->ik", weights, z))[at] + uniform / rows.n_classes
    report = make_report(loss, -np.log(pooled), weights, w, n_folds)
    if report.chosen == NONE:
        return _leave_alone(rows.n_classes, input), report
    shares = zip(tried.items(), weights.tolist(), strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the report says which candidates were of use
        kept = [
            (fit(every) if fit_all is None or name == NONE else fit_all(name), share)
            for (name, fit), share in shares
            if share >= LEAST_WEIGHT
        ]
    return _pool(kept, uniform), report


def _candidates(input: InputKind, rows: Rows) -> dict[str, _Fit]:
    """Return what is tried on scores of kind `input`, by name."""
    n_classes = rows.n_classes
    tried: dict[str, _Fit] = {}
    if input != "score":
        tried[NONE] = lambda _: _leave_alone(n_classes, input)
    tried["temperature"] = _softmax_fit(TemperatureCalibrator(input=input))
    if n_classes > _MOST_CLASSES:
        return {**tried, "vector": _softmax_fit(VectorScalingCalibrator(input=input))}
    tried["matrix"] = _softmax_fit(MatrixScalingCalibrator(input=input))
    # raw scores of a class say nothing without its rows
    if input != "score" or int(np.bincount(rows.codes, minlength=n_classes).min()) > 1:
        tried["spline"] = _column_fit(SplineCalibrator(input=input))
        tried["venn_abers"] = _column_fit(VennAbersCalibrator(input=input))
    return tried


def _leave_alone(n_classes: int, input: InputKind) -> SoftmaxMap:
    return SoftmaxMap(np.array(1.0), np.zeros(n_classes), SMALLEST_CLIP if input == "probability" else None)


def _softmax_fit(calibrator: Calibrator) -> _Fit:
    def fit(rows: Rows) -> PoolPart:
        fitted = calibrator.map_of(rows)
        if not isinstance(fitted, SoftmaxMap):
            raise TypeError(f"{calibrator!r} gave a {type(fitted).__name__}")
        return fitted

    return fit


def _column_fit(calibrator: BinaryCalibrator) -> _Fit:
    def fit(rows: Rows) -> PoolPart:
        return replace(fit_one_vs_rest(calibrator, rows), coupling="likelihood")

    return fit


def _ranks(rows: Rows) -> IntArray:
    """Return a rank of each class that doesn't depend on how classes are called: by weight, then by mean own score."""
    w = rows.weights
    own = _in_range(rows.scores)[np.arange(w.size), rows.codes]
    n_classes = rows.n_classes
    total, sums = (np.bincount(rows.codes, weights=v, minlength=n_classes) for v in (w, w * own))
    rank = np.empty(n_classes, dtype=np.int64)
    rank[np.lexsort((sums / np.maximum(total, 1.0), total))] = np.arange(n_classes)
    return rank


def _in_range(values: FloatArray) -> FloatArray:
    """Return scores in a unit in which they are no larger than one: the order, and squares that are numbers."""
    largest = float(np.abs(values).max())
    return values if largest <= 1.0 else values / float(2.0 ** np.frexp(largest)[1].clip(max=1023))


def _in_order(rows: Rows, rank: IntArray) -> Rows:
    """Return the rows in an order of their own: by class, own score, and two figures that tell rows apart."""
    values, codes = _in_range(rows.scores), rows.codes
    own = values[np.arange(codes.size), codes]
    squares = np.einsum("ik,ik->i", values, values)
    mixed = np.einsum("ik,k->i", values, np.sqrt(np.arange(2.0, values.shape[1] + 2.0)))
    return rows.take(np.lexsort((mixed, squares, own, rank[codes])))


def _sample(rows: Rows, seed: int) -> tuple[Rows, int]:
    """Return the rows, or a sample of them, and their number; whole weights count as so many rows."""
    most = min(MOST_ROWS, _MOST_ENTRIES // rows.scores.shape[1])
    w = rows.weight
    is_whole = w is not None and bool((w == np.floor(w)).all()) and float(w.sum()) < EXACT
    ends = np.cumsum(w.astype(np.int64)) if w is not None and is_whole else np.arange(1, rows.scores.shape[0] + 1)
    n = int(ends[-1])
    taken = np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
    if is_whole:
        rows = replace(rows, weight=None)
    return rows.take(np.searchsorted(ends, taken, side="right")), n


def _held_out(fit: _Fit, rows: Rows, folds: IntArray) -> FloatArray:
    """Return log-probabilities by a fit to the other folds; where those show one class, by their smoothed shares."""
    out = np.empty(rows.scores.shape)
    for fold in range(int(folds.max()) + 1):
        held = folds == fold
        rest = rows.take(~held)
        counts = np.bincount(rest.codes, minlength=rest.n_classes)
        if np.count_nonzero(counts) < 2:
            out[held] = np.log((counts + 1.0) / (counts.sum() + counts.size))
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)  # said, where it matters, by the fit to all rows
            fitted = fit(rest)
        out[held] = log_softmax(fitted.log_outputs(rows.scores[held], SMALLEST_CLIP))
    return np.maximum(out, np.log(SMALLEST_CLIP))


def _pool_weights(z: FloatArray, codes: npt.NDArray[np.intp], w: FloatArray) -> FloatArray:
    """Return the weights on the simplex of least log loss, pulled to equal ones, by Newton's method.

    `z` holds the log-probabilities of each candidate, shape (J, n, K).
    """
    n_tried, n, _ = z.shape
    z = np.maximum(z, -MOST_LOGIT)
    w = w * (n / w.sum())
    chosen = z[:, np.arange(n), codes]
    equal = np.full(n_tried, 1.0 / n_tried)
    weights = equal

    def loss(at: FloatArray) -> tuple[float, FloatArray]:
        logs = log_softmax(np.einsum("j,jik->ik", at, z))
        away = at - equal
        return -dot(w, logs[np.arange(n), codes]) + PULL * dot(away, away), np.exp(logs)

    value, q = loss(weights)
    for _ in range(_MAX_ITER):
        mean = np.einsum("ik,jik->ji", q, z)
        gradient = np.einsum("i,ji->j", w, mean - chosen) + 2.0 * PULL * (weights - equal)
        spread = q * w[:, None]
        hessian = 2.0 * PULL * np.eye(n_tried)
        for j in range(n_tried):
            bent = spread * (z[j] - mean[j][:, None])
            hessian[j] += np.einsum("ik,lik->l", bent, z)
        step = _simplex_newton(weights, gradient, hessian) - weights
        slope = dot(gradient, step)
        if float(np.abs(step).max()) < _TOL or slope >= 0.0:
            break
        share = 1.0
        new_value, new_q = loss(weights + step)
        while new_value > value + 1e-4 * share * slope and share > _TOL:
            share *= 0.5
            new_value, new_q = loss(weights + share * step)
        if share <= _TOL:  # no descent left beyond rounding
            break
        weights, value, q = weights + share * step, new_value, new_q
    return project_simplex(weights)


def _simplex_newton(weights: FloatArray, gradient: FloatArray, hessian: FloatArray) -> FloatArray:
    """Return the point of the simplex that minimises the quadratic model."""

    def slope(at: FloatArray) -> FloatArray:
        change: FloatArray = np.einsum("jl,l->j", hessian, at - weights)
        return gradient + change

    step = 1.0 / float(np.linalg.eigvalsh(hessian)[-1])
    return minimise_on_simplex(slope, weights, step=step, tol=0.01 * _TOL, max_iter=1_000)


def _pool(kept: list[tuple[PoolPart, float]], uniform: float) -> LogPoolMap:
    """Return the product of maps by their shares; softmax maps of one clip are one softmax map."""
    parts: list[tuple[PoolPart, float]] = []
    for clip in dict.fromkeys(m.clip for m, _ in kept if isinstance(m, SoftmaxMap)):
        linear = [(m, share) for m, share in kept if isinstance(m, SoftmaxMap) and m.clip == clip]
        parts.append(_merge(linear) if len(linear) > 1 else linear[0])
    parts += [(m, share) for m, share in kept if isinstance(m, OneVsRestMap)]
    shares = np.array([share for _, share in parts])
    return LogPoolMap(tuple(m for m, _ in parts), shares / shares.sum(), SMALLEST_CLIP, uniform)


def _merge(parts: list[tuple[SoftmaxMap, float]]) -> tuple[SoftmaxMap, float]:
    total = sum(share for _, share in parts)
    n_classes = parts[0][0].n_classes
    size = max(m.weight.ndim for m, _ in parts)
    matrix = np.zeros((n_classes,) * size)
    for m, share in parts:
        is_scalar_of_matrix = size == 2 and m.weight.ndim == 0
        matrix = matrix + share / total * (m.weight * np.eye(n_classes) if is_scalar_of_matrix else m.weight)
    bias = np.sum([share / total * m.bias for m, share in parts], axis=0)
    return SoftmaxMap(matrix, bias, parts[0][0].clip), total
