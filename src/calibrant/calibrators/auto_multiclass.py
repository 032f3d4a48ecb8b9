"""Automatic calibration of more than two classes: a product of methods, weighted by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from calibrant.calibrators import auto_report as limits
from calibrant.calibrators.auto_evidence import gather
from calibrant.calibrators.auto_report import NONE, AutoReport
from calibrant.calibrators.auto_weights import MOST_LOGIT, least_weights
from calibrant.calibrators.candidate_fit import CandidateFit
from calibrant.calibrators.cross_fit import Split, fits_by_fold, row_splits, smoothed_shares
from calibrant.calibrators.matrix_scaling import MatrixScalingCalibrator
from calibrant.calibrators.one_vs_rest import OneVsRestCalibrator
from calibrant.calibrators.spline import SplineCalibrator
from calibrant.calibrators.temperature import TemperatureCalibrator
from calibrant.calibrators.vector_scaling import VectorScalingCalibrator
from calibrant.errors import DataWarning, hold_warnings
from calibrant.maps import Coupling, LogPoolMap, OneVsRestMap, PoolPart, SoftmaxMap
from calibrant.numerics import (
    SMALLEST_CLIP,
    TINY,
    BoolArray,
    FloatArray,
    IntArray,
    dot,
    log_softmax,
    own_clip,
    softmax,
)
from calibrant.row_stream import RowStream
from calibrant.rows import Rows
from calibrant.validation import InputKind

#: Classes up to which matrices and single columns are fitted: beyond, both cost too much, and rows per class are few.
_MOST_CLASSES = 100
#: Entries, rows times classes, that the cross-validation takes at most.
_MOST_ENTRIES = 1 << 21
#: Share of entries below `SMALLEST_CLIP` from which matrix scaling is tried with these clipped too.
_TINY = 0.01
#: Entries up to which what each fold's fit makes of all rows is kept, and not that of the rows held out alone.
_MOST_KEPT = 1 << 17
#: Out-of-fold log likelihood, in nats in all and per row, that splines must add to get weight: a weight that is fitted
#: to the rows gains one nat on them that it doesn't on others (Akaike).
_WORTH, _WORTH_PER_ROW = 1.0, 1e-4

#: What a calibrator can be told that it will be exported to; ONNX can all that is fitted here.
Exportable: TypeAlias = Literal["sql"]
EXPORTABLE: tuple[Exportable, ...] = get_args(Exportable)

_Fit: TypeAlias = Callable[[Rows | RowStream], PoolPart]


def fit_classes(
    rows: Rows, *, input: InputKind, cv: int, seed: int, coupling: Coupling, stream: RowStream | None = None
) -> tuple[SoftmaxMap | LogPoolMap, AutoReport]:
    """Weigh the candidates on folds of the rows; return the product of their fits to all rows, and the report.

    Where they are a sample of a stream, the fits are to all of the stream.
    """
    rank = _ranks(rows)
    every = _in_order(rows, rank)
    sample, n_held = _sample(every, seed)
    n_rows = n_held if stream is None else stream.count()
    codes = sample.codes.astype(np.intp)
    clip = own_clip(rows.scores, rows.total_weight) if input == "probability" else None
    alone = SoftmaxMap(np.array(1.0), np.zeros(rows.n_classes), clip)
    tried = _candidates(input, sample, coupling, alone)
    if clip is not None and stream is None and rows.n_classes <= _MOST_CLASSES and _has_tiny(sample.scores):
        tried["matrix_clipped"] = _fit_clipped
    may_go = np.array([isinstance(fit, CandidateFit) and fit.is_one_vs_rest for fit in tried.values()])
    evidence, z, weights = gather(
        sample,
        row_splits(sample, cv, rng=seed, strata=rank[codes]),
        lambda folds: np.array([_by_fit(name, fit, sample, folds) for name, fit in tried.items()]),
        lambda held: _pool_weights(held, codes, sample.weights, may_go),
        seed=seed,
    )
    uniform = limits.SPARE / (n_rows + limits.SPARE)
    at = np.arange(codes.size), codes

    def of_blend(weights: FloatArray) -> FloatArray:
        pooled = [softmax(np.einsum("j,jik->ik", weights, of_fit))[at] for of_fit in z.swapaxes(0, 1)]
        return -np.log((1.0 - uniform) * np.array(pooled) + uniform / rows.n_classes)

    loss = {name: -each[:, *at] for name, each in zip(tried, z, strict=True)}
    is_certain = clip is not None and not bool(rows.scores.all())
    report, weights = evidence.weigh(loss, of_blend, weights, is_certain=is_certain)
    report = limits.sampled_report(report, n_rows)
    if report.chosen == NONE:
        return alone, report
    shares = zip(tried.values(), weights.tolist(), strict=True)
    with hold_warnings(DataWarning):  # the report says which candidates were of use
        data = every if stream is None else stream
        kept = [(fit(data), share) for fit, share in shares if share >= limits.LEAST_WEIGHT]
    return _pool(kept, uniform), limits.exportable_report(report, [part for part, _ in kept])


def coupling_of(exportable: Exportable | None) -> Coupling:
    """Return how rows of one-vs-rest maps are coupled where the result is to be exported so."""
    return "normalise" if exportable == "sql" else "likelihood"


def _candidates(input: InputKind, rows: Rows, coupling: Coupling, alone: SoftmaxMap) -> dict[str, _Fit]:
    """Return what is tried on scores of kind `input`, by name."""
    n_classes = rows.n_classes
    tried: dict[str, _Fit] = {}
    if input != "score":
        tried[NONE] = lambda _: alone
    tried["temperature"] = CandidateFit(TemperatureCalibrator(input=input))
    if n_classes > _MOST_CLASSES:
        return {**tried, "vector": CandidateFit(VectorScalingCalibrator(input=input))}
    tried["matrix"] = CandidateFit(MatrixScalingCalibrator(input=input))
    # raw scores of a class say nothing without rows of it
    if input != "score" or int(np.bincount(rows.codes, minlength=n_classes).min()) > 1:
        tried["spline"] = CandidateFit(OneVsRestCalibrator(SplineCalibrator(input=input), coupling=coupling))
    return tried


def _has_tiny(p: FloatArray) -> bool:
    """Say whether so many probabilities are tiny that how far below they lie matters to a fit."""
    return bool(np.count_nonzero(p < SMALLEST_CLIP) > _TINY * p.size)


def _fit_clipped(data: Rows | RowStream) -> PoolPart:
    """Return matrix scaling of probabilities of which the tiny ones count as `SMALLEST_CLIP`.

    Naive Bayes gives probabilities of 1e-100 that say no more than these; of other models they do.
    """
    assert isinstance(data, Rows)  # noqa: S101 - of streams it is not tried
    fitted = MatrixScalingCalibrator().map_of(data.with_scores(np.maximum(data.scores, SMALLEST_CLIP)))
    assert isinstance(fitted, SoftmaxMap)  # noqa: S101 - for the type checker: there are three classes or more
    return replace(fitted, clip=SMALLEST_CLIP)


def _ranks(rows: Rows) -> IntArray:
    """Return a rank of each class that doesn't depend on its label: by weight, then by mean own score."""
    w = rows.weights
    own = _in_range(rows.scores)[np.arange(w.size), rows.codes]
    n_classes = rows.n_classes
    total, sums = (np.bincount(rows.codes, weights=v, minlength=n_classes) for v in (w, w * own))
    rank = np.empty(n_classes, dtype=np.int64)
    rank[np.lexsort((sums / np.maximum(total, 1.0), total))] = np.arange(n_classes)
    return rank


def _in_range(values: FloatArray) -> FloatArray:
    """Return scores in a unit in which none is larger than one, so that their squares are finite."""
    largest = float(np.abs(values).max())
    return values if largest <= 1.0 else values / float(2.0 ** np.frexp(largest)[1].clip(max=1023))


def _in_order(rows: Rows, rank: IntArray) -> Rows:
    """Return the rows in an order that doesn't depend on the given one, nor on that of the classes.

    It goes by class, own score, a sum of the logarithms of all scores, as those of sure rows are told apart by their
    tiny ones, a sum of the scores, and weight.
    """
    values, codes = _in_range(rows.scores), rows.codes
    own = values[np.arange(codes.size), codes]
    values = values[:, np.argsort(rank)]  # sums in one order of the classes have the same bits
    shares = np.sqrt(np.arange(2.0, values.shape[1] + 2.0))
    logs, mixed = (np.einsum("ik,k->i", each, shares) for each in (np.log(np.abs(values) + TINY), values))
    return rows.take(np.lexsort((rows.weights, mixed, logs, own, rank[codes])))


def _sample(rows: Rows, seed: int) -> tuple[Rows, int]:
    """Return the rows, or a sample of them, and their number; whole weights count as so many rows."""
    most = min(limits.MOST_ROWS, _MOST_ENTRIES // rows.scores.shape[1])
    w = rows.weight
    is_whole = w is not None and bool((w == np.floor(w)).all()) and float(w.sum()) < limits.EXACT
    ends = np.cumsum(w.astype(np.int64)) if w is not None and is_whole else np.arange(1, rows.scores.shape[0] + 1)
    n = int(ends[-1])
    if n <= most and not is_whole:
        return rows, n
    taken = np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
    if is_whole:
        rows = replace(rows, weight=None)
    return rows.take(np.searchsorted(ends, taken, side="right")), n


def _by_fit(name: str, fit: _Fit, rows: Rows, folds: list[Split]) -> FloatArray:
    """Return log-probabilities of each row by the fit without each fold, shape (k, n, K).

    Where the rest shows one class they are its smoothed shares, but for scores as they are. Of many entries only those
    of held-out rows are kept, and k is one.
    """
    is_kept = rows.scores.size <= _MOST_KEPT
    out = np.empty((len(folds) if is_kept else 1, *rows.scores.shape))
    of_part = fit.refit(rows) if isinstance(fit, CandidateFit) else fit
    for i, (held, rest, fitted) in enumerate(fits_by_fold(rows, folds, of_part)):
        at = (i, slice(None)) if is_kept else (0, held)
        if fitted is None and name == NONE:  # which takes no labels
            fitted = fit(rest)
        known = None if fitted is None else log_softmax(fitted.log_outputs(rows.scores[at[1]], SMALLEST_CLIP))
        out[at] = np.log(smoothed_shares(rest)) if known is None else known
    return np.maximum(out, np.log(SMALLEST_CLIP))


def _pool_weights(z: FloatArray, codes: npt.NDArray[np.intp], w: FloatArray, may_go: BoolArray) -> FloatArray:
    """Return the weights of the candidates in a product of their probabilities, `z` their logarithms, (J, n, K)."""
    n_tried, n, _ = z.shape
    z = np.maximum(z, -MOST_LOGIT)
    w = w * (n / w.sum())
    chosen = z[:, np.arange(n), codes]
    flat = z.reshape(n_tried, -1)
    known: list[tuple[FloatArray, FloatArray]] = []

    def logs_at(at: FloatArray) -> FloatArray:
        if not known or known[0][0] is not at:  # derivatives are asked for where the loss was
            known[:] = [(at, log_softmax(np.einsum("j,ji->i", at, flat).reshape(z.shape[1:])))]
        return known[0][1]

    def log_loss(at: FloatArray) -> float:
        return -dot(w, logs_at(at)[np.arange(n), codes])

    def derivatives(at: FloatArray) -> tuple[FloatArray, FloatArray]:
        q = np.exp(logs_at(at))
        mean = np.einsum("ik,jik->ji", q, z)
        bent = ((z - mean[:, :, None]) * np.sqrt(q * w[:, None])).reshape(n_tried, -1)
        return np.einsum("i,ji->j", w, mean - chosen), np.einsum("ji,li->jl", bent, bent)

    most_rise = min(_WORTH, _WORTH_PER_ROW * n)
    return least_weights(log_loss, derivatives, n_tried=n_tried, may_go=may_go, most_rise=most_rise)


def _pool(kept: list[tuple[PoolPart, float]], uniform: float) -> LogPoolMap:
    """Return the product of maps by their shares; softmax maps of one clip become one softmax map."""
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
