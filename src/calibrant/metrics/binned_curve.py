"""scikit-learn's calibration curve: its arguments and its answers, faster, and for weights and own bins too."""

from __future__ import annotations

from typing import Any, Literal, NoReturn, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from calibrant import kernels, validation
from calibrant.errors import InvalidInputError, InvalidLabelError, ShapeError
from calibrant.metrics.bins import Bins, bin_rows, both_edges
from calibrant.numerics import TINY, BoolArray, FloatArray
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike, Labels

CurveBins: TypeAlias = Literal["uniform", "quantile", "isotonic"]
#: From this many rows, quantiles are found without partitioning all of them.
_MANY = 1 << 14
#: Fine bins of equal width that rows are put into to find their bins, or the rows around a rank.
_FINE_BINS = 1 << 12


def calibration_curve(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    pos_label: object = None,
    n_bins: int = 5,
    strategy: CurveBins | ArrayLike = "uniform",
    sample_weight: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return how often the event happened, and its mean predicted probability, in bins of the latter.

    A drop-in for `sklearn.calibration.calibration_curve`; `reliability_curve` gives intervals too.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of two kinds, or of one.
    y_prob : array-like of shape (n,)
        Probability of the positive label.
    pos_label : scalar, optional
        The positive label; 1 by default, which takes labels 0 and 1 or -1 and 1.
    n_bins : int
        Number of bins asked for. Empty ones are dropped.
    strategy : {"uniform", "quantile", "isotonic"} or array-like of shape (m + 1,)
        Bins of equal width over [0, 1], between quantiles of `y_prob`, or the blocks of the isotonic regression of
        outcomes on probabilities; or the rising edges of m bins that hold all of `y_prob`. The last two need no
        `n_bins`. An inner edge belongs to the bin below it.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.

    Returns
    -------
    prob_true : ndarray of shape (m,)
        Share of positives in each bin that holds rows.
    prob_pred : ndarray of shape (m,)
        Mean predicted probability in each.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Where scikit-learn 1.9 has an answer that is not NaN this is the same, but for labels that are fractions, and for a
    `pos_label` that is none of two labels: it counts no row as positive, and here both are refused.

    Quantiles interpolate linearly between sorted rows, as `numpy.percentile` does. With weights, the quantile at q is
    taken at (W - u) q of the total weight W, where each score spans its own weight less u and the rest is
    interpolated; u is one row: 1, or the least weight where that is smaller.

    Examples
    --------
    >>> import calibrant as cb
    >>> prob_true, prob_pred = cb.calibration_curve([0, 0, 1, 1], [0.1, 0.2, 0.4, 0.9], n_bins=2)
    >>> prob_true.round(3), prob_pred.round(3)
    (array([0.333, 1.   ]), array([0.233, 0.9  ]))
    >>> cb.calibration_curve([0, 0, 1, 1], [0.1, 0.2, 0.4, 0.9], strategy=[0.0, 0.3, 1.0])
    (array([0., 1.]), array([0.15, 0.65]))
    """
    rows = read_curve_rows(y_true, y_prob, sample_weight, pos_label)
    bins = curve_bins(rows, n_bins, strategy)
    return bins.rate, bins.mean_score


def read_curve_rows(y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None, pos_label: object) -> Rows:
    """Check the arguments of a calibration curve and drop rows of weight zero."""
    positive = _positive(validation.label_values(_flat(y_true), "y_true"), pos_label)
    prob = validation.as_probabilities(_flat(y_prob)).values
    if prob.ndim == 2:
        raise ShapeError(
            f"y_prob has {prob.shape[1]} columns, shape {prob.shape}. Pass that of one class, such as y_prob[:, 1], "
            "or use MulticlassReliabilityDisplay."
        )
    if positive.size != prob.size:
        raise ShapeError(
            f"Found input variables with inconsistent numbers of samples: y_true has {positive.size:,} rows and y_prob "
            f"has {prob.size:,}. Pass one row of each per observation."
        )
    weight = validation.as_weight(sample_weight, prob.size)
    labels = Labels(positive.view(np.uint8), np.array([False, True]))
    return Rows(prob, labels, weight).counted().one_column()


def curve_bins(rows: Rows, n_bins: int, strategy: CurveBins | ArrayLike) -> Bins:
    """Sum rows in the bins of a calibration curve; empty bins are dropped."""
    validation.check_integer("n_bins", n_bins, minimum=1)
    if not isinstance(strategy, str):
        return _sum_between(rows, _own_edges(strategy, rows.scores))
    validation.check_choice("strategy", strategy, get_args(CurveBins))
    if strategy == "isotonic":
        return bin_rows(rows, n_bins, "isotonic")
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    if strategy == "quantile":
        edges = _quantiles(rows, edges * 100.0 / 100.0)  # levels rounded as scikit-learn and NumPy round them
    return _sum_between(rows, edges)


def _flat(values: ArrayLike) -> ArrayLike:
    """Return a single column of shape (n, 1) as one of shape (n,), as scikit-learn does."""
    rows = values if isinstance(values, (list, tuple)) else ()
    if rows and all(isinstance(row, (list, tuple)) and len(row) == 1 for row in rows):
        return [value for (value,) in rows]
    shape = getattr(values, "shape", ())
    return np.asarray(values)[:, 0] if isinstance(shape, tuple) and len(shape) == 2 and shape[1] == 1 else values


def _positive(values: npt.NDArray[Any], pos_label: object) -> BoolArray:
    """Return whether each label is the positive one, of two labels at most."""
    if hasattr(pos_label, "__len__") and not isinstance(pos_label, str):
        raise InvalidLabelError(f"pos_label={pos_label!r} is not a single label. Pass one of the labels of y_true.")
    if values.dtype.kind not in "biuf":
        values = validation.normalise_labels(values, "y_true")
    positive = np.asarray(values == (1 if pos_label is None else pos_label), dtype=np.bool_)
    pair = values[[positive.argmax(), positive.argmin()]]
    is_odd = values.dtype.kind == "f" and bool((~np.isfinite(pair) | (pair != np.floor(pair))).any())
    if is_odd or not (positive | (values == pair[1])).all():
        _refuse_other_labels(values, pos_label)
    if pos_label is None and not positive.all() and (values.dtype.kind == "O" or pair[1] not in (0, -1)):
        raise _needs_pos_label(values)
    if pos_label is not None and not positive.any():
        _check_absent_label(values, pos_label)
    return positive


def _refuse_other_labels(values: npt.NDArray[Any], pos_label: object) -> NoReturn:
    """Raise what is wrong with labels that are fractions, missing, of more than two kinds or none that is meant."""
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values != np.floor(values)).any():
        row = int((values != np.floor(values)).argmax())
        raise InvalidLabelError(
            f"The target y is not binary. Got continuous type of target. y_true row {row}: {values[row].item()!r} is "
            "not a class label. Are labels and probabilities swapped? Pass labels first."
        )
    found = _distinct(validation.normalise_labels(values, "y_true"))
    if len(found) > 2:
        raise InvalidLabelError(
            f"The target y is not binary. Got multiclass type of target. y_true holds {len(found)} classes, "
            f"{found[:20]!r}. Pass one of them against the rest, such as y_true == {found[-1]!r}, with its column of "
            "y_prob."
        )
    if pos_label is None:
        raise _needs_pos_label(values)
    raise InvalidLabelError(f"pos_label={pos_label!r} is none of the labels {found!r} of y_true. Pass one of them.")


def _needs_pos_label(values: npt.NDArray[Any]) -> InvalidLabelError:
    listed = ", ".join(map(repr, _distinct(values)[:20]))
    return InvalidLabelError(
        f"y_true takes value in {{{listed}}} and pos_label is not specified: either make y_true take value in {{0, 1}} "
        "or {-1, 1} or pass pos_label explicitly."
    )


def _check_absent_label(values: npt.NDArray[Any], pos_label: object) -> None:
    """Raise InvalidLabelError unless `pos_label` could be the other label of rows that all hold one."""
    (only,) = _distinct(values)
    if isinstance(only, str) != isinstance(pos_label, str):
        raise InvalidLabelError(
            f"pos_label={pos_label!r} is of another kind than the labels of y_true, all {only!r}. "
            "Pass a label of their kind."
        )


def _distinct(values: npt.NDArray[Any]) -> list[Any]:
    return sorted(set(values.tolist()))


def _own_edges(edges: ArrayLike, scores: FloatArray) -> FloatArray:
    """Check the edges of bins that a caller has chosen: rising, and no probability outside them."""
    values = validation.as_scores(edges, name="strategy").values
    if values.ndim != 1 or values.size < 2:
        raise ShapeError(f"strategy has shape {values.shape}. Pass a name, or two or more rising edges of bins.")
    if (np.diff(values) <= 0.0).any():
        i = int((np.diff(values) <= 0.0).argmax()) + 1
        raise InvalidInputError(
            f"strategy row {i}: {values[i].item()!r} doesn't lie above the edge before it, {values[i - 1].item()!r}. "
            "Pass edges in rising order, each once."
        )
    outside = (scores < values[0]) | (scores > values[-1])
    if outside.any():
        row = int(outside.argmax())
        raise InvalidInputError(
            f"y_prob row {row}: {scores[row].item()!r} lies outside the bins of strategy, from {values[0].item()!r} to "
            f"{values[-1].item()!r} ({outside.sum():,} of {outside.size:,} rows). Add an edge below or above."
        )
    return values


def _sum_between(rows: Rows, edges: FloatArray) -> Bins:
    """Sum rows between edges, in the order of the rows; those outside the edges fall into the outer bins."""
    inner = np.ascontiguousarray(edges[1:-1])
    top, scale = _fine_scale(rows.scores)
    start = np.searchsorted((np.clip(inner, 0.0, top) * scale).astype(np.int64), np.arange(_FINE_BINS + 2))
    sums = np.zeros((edges.size - 1, 4))
    weight = np.empty(0) if rows.weight is None else rows.weight
    kernels.sum_between(rows.scores, rows.positive, weight, inner, start, scale, sums)
    held = sums[:, 0] > 0.0
    return Bins(both_edges(edges)[held], *np.ascontiguousarray(sums[held].T))


def _fine_scale(scores: FloatArray) -> tuple[float, float]:
    """Return the largest score, and the factor that takes scores to the fine bins up to it."""
    top = float(scores.max())
    return top, _FINE_BINS / top if top > _FINE_BINS * TINY else 1.0


def _quantiles(rows: Rows, levels: FloatArray) -> FloatArray:
    """Return the quantiles of the scores at rising levels from 0 to 1."""
    if rows.weight is not None:
        return _weighted_quantiles(rows.summary(), min(1.0, float(rows.weight.min())), levels)
    place = (rows.scores.size - 1) * levels
    below = np.floor(place).astype(np.int64)
    low, high = _order_statistics(rows.scores, np.stack((below, np.minimum(below + 1, rows.scores.size - 1))))
    return _between(low, high, place - below)


def _order_statistics(scores: FloatArray, ranks: npt.NDArray[np.int64]) -> FloatArray:
    """Return the scores at ranks, counted from 0; of many rows, only those in the fine bins of ranks are sorted."""
    if scores.size < _MANY:
        return np.asarray(np.sort(scores)[ranks])
    _, scale = _fine_scale(scores)
    counts = np.zeros(_FINE_BINS + 1, np.int64)
    kernels.count_fine_bins(scores, scale, counts)
    end = np.cumsum(counts)
    fine = np.unique(np.searchsorted(end, ranks, side="right"))
    is_wanted = np.zeros(counts.size, np.bool_)
    is_wanted[fine] = True
    found = np.empty(int(counts[fine].sum()))
    kernels.scores_in_fine_bins(scores, scale, is_wanted, found)
    passed = np.cumsum(np.where(is_wanted, 0, counts))  # rows below a rank that were not written
    places = ranks - passed[np.searchsorted(end, ranks, side="right")]
    found.partition(np.unique(places))
    return np.asarray(found[places])


def _weighted_quantiles(summary: ScoreSummary, row: float, levels: FloatArray) -> FloatArray:
    """Return the quantiles that repeated rows would have where weights count them; `row` is the weight of one."""
    scores, weight, *_ = summary.distinct
    end = np.cumsum(weight)
    place = (end[-1] - row) * levels
    i = np.minimum(np.searchsorted(end, place, side="right"), scores.size - 1)
    part = np.clip((place - (end[i] - row)) / row, 0.0, 1.0)
    return _between(scores[i], scores[np.minimum(i + 1, scores.size - 1)], part)


def _between(low: FloatArray, high: FloatArray, part: FloatArray) -> FloatArray:
    """Interpolate from the nearer end, as `numpy.percentile` does: both ends are met exactly."""
    span = high - low
    return np.where(part < 0.5, low + span * part, high - span * (1.0 - part))
