"""The sufficient summary of a one-dimensional calibration problem: distinct scores, weights and positives.

Methods that tie take scores within 8 units in the last place as one, their lowest (`ScoreSummary.near_ties`): means of
the same votes, added in other orders, differ so much. Sums over rows, such as losses, take all scores as they are.

Unweighted rows are kept as sorted 64-bit integers, the score's bits above and the label in bit 0, which sort several
times faster than floats with labels beside them; `kernels.sorting` says how. Rows with weights are sorted by an order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.errors import InvalidLabelError, InvalidWeightError, ShapeError
from calibrant.numerics import LARGEST, BoolArray, FloatArray, IntArray
from calibrant.phrases import count
from calibrant.readable import Readable, columns_of
from calibrant.validation import (
    ArrayLike,
    InputKind,
    as_labels,
    as_scores,
    as_weight,
    check_both_classes,
    check_same_length,
)

if TYPE_CHECKING:
    from calibrant.kernels import KeyArray

#: Below this many rows `np.sort` is as fast as any other sort.
_SMALL = 1 << 15
#: What shares of weight are multiplied by, so that rounding takes none below the edge of a bin.
_AT_EDGE = 1.0 + 1e-12
#: Rows of the sample on which the two sorts race, once in a process.
_RACE = 1 << 14


class Blocks(NamedTuple):
    """Blocks of rising rate, from left to right: first and last score, weight and weighted positives."""

    first: FloatArray
    last: FloatArray
    weight: FloatArray
    positives: FloatArray

    @property
    def rate(self) -> FloatArray:
        """Weighted share of positives in each block."""
        return self.positives / self.weight


class DistinctScores(NamedTuple):
    """The summary as four arrays over the distinct scores, in rising order."""

    scores: FloatArray
    weight: FloatArray
    weight_squared: FloatArray
    positives: FloatArray


@dataclass(frozen=True, slots=True)
class TiedScores:
    """Rows of equal scores, in any order: a score, the weight and the weighted positives of each tie."""

    scores: FloatArray
    weight: FloatArray
    positives: FloatArray


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Unweighted rows as sorted integers.

    The label takes the place of the sign bit, so the `n_negative` rows of negative scores come first, as a part of
    their own.
    """

    keys: KeyArray
    n_negative: int


class ScoreSummary(Readable):
    """Sorted distinct scores with their weight and weighted positives.

    All that a calibrator of one score, or a metric of one probability, needs to know of the rows. Summaries of
    parts of the data merge into the summary of all. Unweighted summaries are exact whatever the order of
    the rows; weighted sums are exact to rounding.

    Use `ScoreSummary.from_arrays` or `ScoreSummary.from_cells`.

    Examples
    --------
    >>> import calibrant as cb
    >>> summary = cb.ScoreSummary.from_arrays([0.2, 0.7, 0.7, 0.9], [0, 1, 0, 1])
    >>> summary.scores.tolist(), summary.weight.tolist(), summary.positives.tolist()
    ([0.2, 0.7, 0.9], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0])
    """

    def __init__(self, source: PackedRows | DistinctScores) -> None:
        self.source = source

    def _columns(self) -> dict[str, Sequence[Any]]:
        scores, weight, _, positives = self.distinct
        return columns_of({"score": scores, "weight": weight, "positives": positives, "rate": positives / weight})

    def _before(self) -> list[str]:
        return [f"Summary of rows of weight {self.total_weight:,.10g} with {count(self.scores.size, 'distinct score')}"]

    @classmethod
    def from_arrays(
        cls, scores: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None, input: InputKind = "score"
    ) -> ScoreSummary:
        """Summarise one score and one binary label for each row.

        Parameters
        ----------
        scores : array-like of shape (n,)
        y : array-like of shape (n,)
            Two classes; the larger one is positive.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts as two rows, a weight of zero as none.
        input : {"score", "probability", "logit"}
            What the scores are; probabilities are checked to lie in [0, 1].

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        checked = as_scores(scores, input=input, takes_one_column=True)
        if checked.values.ndim != 1:
            raise ShapeError(f"scores has shape {checked.values.shape}. Pass one score per row, shape (n,).")
        labels = as_labels(y, name="y")
        if len(labels.classes) != 2:
            raise InvalidLabelError(f"y holds {len(labels.classes)} classes, {labels.classes.tolist()!r}. Pass two.")
        n = checked.values.size
        check_same_length(n, labels.codes.size, "scores", "y")
        weight = as_weight(sample_weight, n)
        check_both_classes(labels, "y", weight)
        return cls.from_rows(checked.values, labels.positive, weight)

    @classmethod
    def from_rows(cls, scores: FloatArray, positive: BoolArray, weight: FloatArray | None) -> ScoreSummary:
        """Summarise arrays that the gate has checked; contiguous, and `weight` None where all are one."""
        if weight is None:
            return cls(_pack(scores, positive))
        order = _order(scores)
        columns = np.empty((4, scores.size))
        m = kernels.weighted_runs(scores[order] + 0.0, np.where(positive, weight, -weight)[order], columns)
        return cls(DistinctScores(*columns[:, :m]))

    @classmethod
    def from_cells(
        cls, scores: ArrayLike, weight: ArrayLike, positives: ArrayLike, *, weight_squared: ArrayLike | None = None
    ) -> ScoreSummary:
        """Build from cells of rows: a score, the weight and the weighted positives of each.

        Cells may come in any order and share scores. `weight_squared` is the sum of the rows' squared weights;
        by default the rows are taken to have weight one each.
        """
        s = as_scores(scores).values
        w = as_scores(weight, name="weight").values
        p = as_scores(positives, name="positives").values
        w2 = w if weight_squared is None else as_scores(weight_squared, name="weight_squared").values
        for name, array in (("weight", w), ("positives", p), ("weight_squared", w2)):
            check_same_length(s.size, array.size, "scores", name)
        bad = (w < 0.0) | (p < 0.0) | (p > w)
        if bad.any():
            row = int(bad.argmax())
            raise InvalidWeightError(
                f"cell {row}: weight {w[row].item()!r} with positives {p[row].item()!r} "
                f"({bad.sum():,} of {bad.size:,} cells). Positives must lie in [0, weight]."
            )
        kept = w > 0.0
        order = np.argsort(s[kept], kind="stable")
        ordered = s[kept][order] + 0.0
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if ordered.size else order
        sums = (np.add.reduceat(a[kept][order], starts) for a in (w, w2, p)) if ordered.size else (ordered,) * 3
        return cls(DistinctScores(ordered[starts], *sums))

    def merge(self, other: ScoreSummary) -> ScoreSummary:
        """Return the summary of the rows of both."""
        a, b = self.source, other.source
        if isinstance(a, PackedRows) and isinstance(b, PackedRows):
            negative = (a.keys[: a.n_negative], b.keys[: b.n_negative])
            rest = (a.keys[a.n_negative :], b.keys[b.n_negative :])
            n_negative = a.n_negative + b.n_negative
            return ScoreSummary(PackedRows(_sort_parts(np.concatenate((*negative, *rest)), n_negative), n_negative))
        scores, weight, squared, positives = map(np.concatenate, zip(self.distinct, other.distinct, strict=True))
        return ScoreSummary.from_cells(scores, weight, positives, weight_squared=squared)

    @cached_property
    def distinct(self) -> DistinctScores:
        """The distinct scores with weight, sum of squared weights and positives."""
        if isinstance(self.source, DistinctScores):
            return self.source
        keys, n_negative = self.source.keys, self.source.n_negative
        m = kernels.count_distinct(keys, n_negative)
        codes, count, positives = np.empty(m, np.uint64), np.empty(m), np.empty(m)
        kernels.run_lengths(keys, n_negative, codes, count, positives)
        n_distinct_negative = kernels.count_distinct(keys[:n_negative], -1)
        return DistinctScores(_unpack(codes, n_distinct_negative), count, count, positives)

    @cached_property
    def near_ties(self) -> DistinctScores:
        """The distinct scores, but those within 8 units in the last place of the lowest of them are one.

        Isotonic regression, Venn-Abers, bins and whatever else ties scores see these. Zero is a score of its own.
        """
        starts = self._near_starts()
        distinct = self.distinct
        if starts.size == distinct.scores.size:
            return distinct
        return DistinctScores(distinct.scores[starts], *(np.add.reduceat(column, starts) for column in distinct[1:]))

    def _near_starts(self) -> IntArray:
        scores = self.distinct.scores
        starts = np.empty(scores.size, np.int64)
        return starts[: kernels.near_starts(scores.view(np.uint64), starts)]

    def summary(self) -> ScoreSummary:
        """Return the summary itself, as rows return theirs: a fit takes either."""
        return self

    def tied(self) -> TiedScores:
        """Return each distinct score as a tie."""
        return TiedScores(self.scores, self.weight, self.positives)

    @property
    def scores(self) -> FloatArray:
        """Distinct scores in rising order, shape (m,)."""
        return self.distinct.scores

    @property
    def weight(self) -> FloatArray:
        """Total weight at each distinct score, shape (m,)."""
        return self.distinct.weight

    @property
    def positives(self) -> FloatArray:
        """Weight of the positive rows at each distinct score, shape (m,)."""
        return self.distinct.positives

    @property
    def weight_squared(self) -> FloatArray:
        """Sum of the squared row weights at each distinct score, shape (m,)."""
        return self.distinct.weight_squared

    @cached_property
    def total_weight(self) -> float:
        """Weight of all rows: their number, where unweighted."""
        if isinstance(self.source, PackedRows):
            return float(self.source.keys.size)
        return float(self.source.weight.sum())

    @cached_property
    def total_positives(self) -> float:
        """Weight of all positive rows."""
        if isinstance(self.source, PackedRows):
            return float(np.count_nonzero(self.source.keys & np.uint64(1)))
        return float(self.source.positives.sum())

    @property
    def effective_size(self) -> float:
        """Kish's effective number of rows, (sum w)^2 / sum w^2: the number of rows, where unweighted."""
        if isinstance(self.source, PackedRows):
            return self.total_weight
        return self.total_weight**2 / float(self.source.weight_squared.sum())

    @property
    def base_rate(self) -> float:
        """Weighted share of positive rows."""
        return self.total_positives / self.total_weight

    def last_below(self, scores: FloatArray) -> FloatArray:
        """Return the largest score of the rows below each of some scores."""
        known = self.distinct.scores
        return known[np.searchsorted(known, scores) - 1]

    def isotonic_blocks(self) -> Blocks:
        """Pool adjacent violators: the maximal blocks of the isotonic regression of the labels on `near_ties`."""
        source = self.source
        if isinstance(source, DistinctScores):
            ties = self.near_ties
            m = ties.scores.size
            weight, positives, end = np.empty(m), np.empty(m), np.empty(m, np.int64)
            top = kernels.pool_weighted(ties.weight, ties.positives, weight, positives, end)
            first = ties.scores[np.append(0, end[: top - 1])]
            last = np.append(self.last_below(first[1:]), source.scores[-1])
            return Blocks(first, last, weight[:top].copy(), positives[:top].copy())
        keys, n_negative = source.keys, source.n_negative
        room = int(keys.size ** (2 / 3)) + 64
        count, positive, ends = (np.empty(room, np.int64) for _ in range(3))
        top = kernels.pool_keys(keys, n_negative, count, positive, ends)
        first_score, last_score = (
            _unpack(keys[row] >> np.uint64(1), int((row < n_negative).sum()))
            for row in (np.append(0, ends[: top - 1]), ends[:top] - 1)
        )
        return Blocks(first_score, last_score, count[:top].astype(np.float64), positive[:top].astype(np.float64))


def equal_mass_bins(weight: FloatArray, n_bins: int) -> IntArray:
    """Return the bin, rising from 0, of each of the sorted distinct scores, so that bins have near-equal weight.

    A score belongs to the bin that the middle of its own weight falls into, so that ties stay whole.
    """
    return bins_of_mass(np.cumsum(weight) - 0.5 * weight, float(weight.sum()), n_bins)


def bins_of_mass(below: FloatArray, total: float, n_bins: int) -> IntArray:
    """Return the bin of equal weight that each place falls into, given the weight below it.

    A place on the edge of two bins, but for rounding, belongs to the upper one, whatever the scale of the weights.
    """
    bin_of: IntArray = np.minimum((below * (n_bins * _AT_EDGE / total)).astype(np.int64), n_bins - 1)
    return bin_of


def midpoints(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return edges midway between neighbours, never below `left` nor at or above a larger `right`."""
    middle = 0.5 * left + 0.5 * right
    return np.where((middle < left) | ((middle >= right) & (left < right)), left, middle)


def near_ends(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest number that is as good as each score: within 8 units in the last place."""
    with np.errstate(over="ignore"):
        size = np.abs(scores)
        reach = np.where(size == 0.0, 0.0, kernels.NEAR * (size - np.nextafter(size, 0.0)))
        return np.maximum(scores - reach, -LARGEST), np.minimum(scores + reach, LARGEST)


def clear_edges(edges: FloatArray, left: FloatArray, right: FloatArray) -> FloatArray:
    """Move edges between the scores on their left and right, which they may touch, clear of both."""
    low, high = near_ends(left)[1], np.nextafter(near_ends(right)[0], -np.inf)
    return np.where(low < high, np.clip(edges, low, np.maximum(low, high)), midpoints(left, right))


def equal_mass_starts(weight: FloatArray, n_bins: int) -> IntArray:
    """Return the index of the first score of each of `equal_mass_bins` that holds one."""
    bin_of = equal_mass_bins(weight, n_bins)
    return np.concatenate(([0], np.flatnonzero(bin_of[1:] != bin_of[:-1]) + 1))


def sort_keys(keys: KeyArray, *, n_ignored: int = 0) -> KeyArray:
    """Sort 64-bit keys, in place or into a new array, by the sort that is faster on this machine.

    Keys that differ in their lowest `n_ignored` bits only may come in any order.
    """
    if keys.size < _SMALL or _numpy_sorts_faster():
        keys.sort()
        return keys
    scratch = np.empty_like(keys)
    place = kernels.radix_sort(keys, scratch, n_ignored)
    if place == 2:
        keys.sort()
    return scratch if place == 1 else keys


@cache
def _numpy_sorts_faster() -> bool:
    """Race `np.sort` against our radix sort: NumPy's is 10 times faster where it has vector instructions for it."""
    sample = np.random.default_rng(0).random(_RACE).view(np.uint64)
    kernels.radix_sort(sample[:64].copy(), np.empty(64, np.uint64), 0)  # compile outside the race
    seconds: dict[str, float] = {}
    for name in ("radix", "numpy") * 3:
        keys, scratch = sample.copy(), np.empty_like(sample)
        start = time.perf_counter()
        if name == "numpy":
            keys.sort()
        else:
            kernels.radix_sort(keys, scratch, 0)
        seconds[name] = min(seconds.get(name, np.inf), time.perf_counter() - start)
    return bool(seconds["numpy"] <= seconds["radix"])


def _pack(scores: FloatArray, positive: BoolArray) -> PackedRows:
    bits: npt.NDArray[np.uint64] = (scores + 0.0).view(np.uint64)  # + 0.0 makes -0.0 the same score as 0.0
    label = positive.view(np.uint8)
    if scores.min() >= 0.0:
        bits <<= np.uint64(1)  # the sign bit falls off
        bits |= label
        return PackedRows(sort_keys(bits, n_ignored=1), 0)
    n_negative = int(np.count_nonzero(scores < 0.0))
    keys = np.empty_like(bits)
    kernels.pack_signed(bits, label if label.flags.writeable else label.copy(), n_negative, keys)
    return PackedRows(_sort_parts(keys, n_negative), n_negative)


def _sort_parts(keys: KeyArray, n_negative: int) -> KeyArray:
    """Sort the packed keys of negative scores and those of the others, each in their part."""
    parts = (sort_keys(part, n_ignored=1) for part in (keys[:n_negative], keys[n_negative:]))
    return np.concatenate(tuple(parts))


def _unpack(codes: KeyArray, n_negative: int) -> FloatArray:
    bits = codes.copy()
    bits[:n_negative] = ~bits[:n_negative]
    bits[:n_negative] |= np.uint64(1 << 63)
    return bits.view(np.float64)


def _order(scores: FloatArray) -> npt.NDArray[np.int64]:
    """Return the order that sorts the scores, ties by row, by sorting (leading bits of the score | row) as one key.

    Few neighbours are out of order by the bits that are cut off; where many are, a stable argsort does the work.
    """
    n = scores.size
    row_bits = np.uint64(max(1, (n - 1).bit_length()))
    bits = (scores + 0.0).view(np.uint64)
    sign = np.uint64(1 << 63)
    ordered = np.where(bits & sign, ~bits, bits | sign)
    keys = (ordered >> row_bits << row_bits) | np.arange(n, dtype=np.uint64)
    order = (sort_keys(keys) & ((np.uint64(1) << row_bits) - np.uint64(1))).astype(np.int64)
    if kernels.finish_order(scores, order):
        return order
    return np.argsort(scores, kind="stable")
