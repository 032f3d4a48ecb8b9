"""The search for segments that are off: cumulative calibration errors of all segments, and what chance makes of them.

Within a segment, rows sorted by score, the walk is C_k = sum_{i <= k} w_i (y_i - p_i). Its range over its standard
deviation is the statistic of the segment, and the largest over all segments that of the search. What chance makes of
the largest is found by drawing it: the walks of all segments belong to the same rows, so that one draw of the rows'
steps gives one draw of all statistics together, however much segments overlap.

* Independent rows: labels are drawn from the probabilities, which is the very distribution that calibrated ones have.
  The p-value is exact, for any number of rows (Barnard's test: Davison and Hinkley 1997, *Bootstrap methods and their
  application*, section 4.2).
* Rows of clusters, or of blocks of time: the steps of each get one random sign. The variance of a segment, the larger
  one of that by the probabilities and of the sum over clusters of squared sums, is the same for all signs. Exact where
  the steps of clusters are symmetric, else for many clusters (Cameron, Gelbach and Miller 2008, *Bootstrap-based
  improvements for inference with clustered errors*, Review of Economics and Statistics 90; the wild bootstrap that
  imposes the null). One cluster tells nothing: p is 1.

Drawing ends early where the p-value is known to be large (Besag and Clifford 1991, *Sequential Monte Carlo p-values*,
Biometrika 78).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from calibrant import kernels
from calibrant.dependence import Units
from calibrant.dependent_rows import parts_of_groups, units_of
from calibrant.metrics.segments import CodeArray, Segments
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.rows import Rows
from calibrant.validation import Features

#: So many draws beyond the statistic end the drawing.
_ENOUGH = 50
#: So few segments have numbers of 16 bits, which are sorted ten times as fast.
_FEW_SEGMENTS = 1 << 16
#: Draws that differ from the statistic by rounding alone are as large as it.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Steps:
    """Rows in the order of their scores, with the step that each adds to the walks.

    `residual` is outcome less prediction, `tie` the number of each row's run of near-equal scores. `units` say which
    rows are not independent; without any, they are. Predictions are probabilities; of numbers see `NumberSteps`.
    """

    #: What ranges of segments are multiplied by that can't vary, in draws: they stay as they are.
    unmoved: ClassVar[float] = 0.0

    score: FloatArray
    residual: FloatArray
    weight: FloatArray
    tie: IntArray
    features: Features
    units: tuple[Units, ...]

    @classmethod
    def of(cls, rows: Rows, features: Features) -> Self:
        """Sort rows of one score."""
        order = np.argsort(rows.scores, kind="stable")
        rows = rows.take(order)
        columns = {name: feature.take(order) for name, feature in features.items()}
        return cls(rows.scores, rows.residuals, rows.weights, _ties(rows.scores), columns, units_of(rows))

    @cached_property
    def steps(self) -> FloatArray:
        """The step of each row."""
        return self.weight * self.residual

    def draws(self, rng: np.random.Generator) -> Iterator[list[FloatArray]]:
        """Yield draws of what chance does, without end: (n, DRAWS) for each way in which rows depend.

        What the numbers mean `walks_of` says: here they are steps of calibrated rows.
        """
        shape = self.score.size, kernels.DRAWS
        if not self.units:
            p, w = self.score[:, None], self.weight[:, None]
            while True:
                yield [w * ((rng.random(shape) < p) - p)]
        while True:
            yield [
                (rng.integers(0, 2, (units.n, kernels.DRAWS)) * 2.0 - 1.0)[units.code]
                * (self.steps / np.sqrt(1.0 - units.lost))[:, None]
                for units in self.units
            ]

    def walks_of(
        self, drawn: FloatArray, way: int, family: int, codes: CodeArray, scale: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the steps of a draw in one way, and what ranges of the segments of one family are multiplied by.

        Ways and families are numbered. These have shapes (n, DRAWS) and (n_segments, DRAWS). `scale` is that of the
        rows as they are, 0 for segments that are not looked at.
        """
        del way, family, codes
        return drawn, np.repeat(scale[:, None], kernels.DRAWS, axis=1)

    def variances(self, codes: CodeArray, n_segments: int) -> FloatArray:
        """Return the variance of the end of the walk of each segment, if rows are independent."""
        return np.asarray(np.bincount(codes, self.weight**2 * self.score * (1.0 - self.score), n_segments))

    def deviations(self, codes: CodeArray, n_segments: int) -> FloatArray:
        """Return the standard deviation that the end of the walk of each segment has if the predictions are right."""
        variance = self.variances(codes, n_segments)
        for units in self.units:
            segment, part = parts_of_groups(units, codes.astype(np.int64))
            squares = np.bincount(part, self.steps) ** 2
            variance = np.maximum(variance, np.bincount(segment, squares, n_segments) / (1.0 - units.lost))
        return np.sqrt(variance)


def _ties(scores: FloatArray) -> IntArray:
    """Return the number of each sorted score's tie; near-equal scores are one."""
    is_new = np.concatenate(([True], scores[1:] != scores[:-1]))
    distinct = scores[is_new] + 0.0  # one zero
    starts = np.empty(distinct.size, np.int64)
    starts = starts[: kernels.near_starts(distinct.view(np.uint64), starts)]
    first = np.zeros(distinct.size, np.int64)
    first[starts] = 1
    tie: IntArray = (np.cumsum(first) - 1)[np.cumsum(is_new) - 1]
    return tie


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """What the walks of the segments of a family are like, one entry per code.

    `reach` is the range of the walk; `start` and `stop` are the rows, in the order of scores, between which it runs
    from one end of its range to the other, `crossed` their weight, and `is_rising` says that it rises there: more
    happens than was predicted.
    """

    reach: FloatArray
    deviation: FloatArray
    start: IntArray
    stop: IntArray
    crossed: FloatArray
    is_rising: BoolArray

    @property
    def sigma(self) -> FloatArray:
        """The range in standard deviations; infinite where nothing could vary and something did."""
        sigma = np.where(self.reach > 0.0, np.inf, 0.0)
        np.divide(self.reach, self.deviation, out=sigma, where=self.deviation > 0.0)
        return sigma


def walk(data: Steps, codes: CodeArray, n_segments: int) -> Walks:
    """Walk through the segments of a family; those without rows have a range of 0."""
    order = np.argsort(codes.astype(np.uint16) if n_segments < _FEW_SEGMENTS else codes, kind="stable")
    of, tie = codes[order], data.tie[order]
    sums = np.cumsum(data.steps[order])
    size = np.bincount(of, minlength=n_segments)
    first = np.cumsum(size) - size
    walks = sums - np.where(first > 0, sums[first - 1], 0.0)[of]
    place = np.flatnonzero(np.append((of[1:] != of[:-1]) | (tie[1:] != tie[:-1]), True))  # the ends of ties
    walks, at = walks[place], of[place]
    high, low = np.zeros(n_segments), np.zeros(n_segments)
    np.maximum.at(high, at, walks)
    np.minimum.at(low, at, walks)
    at_high, at_low = first - 1, first - 1  # before the first row, where the walk is 0
    for end, found in ((high, at_high), (low, at_low)):
        reached = np.flatnonzero((walks == end[at]) & (walks != 0.0))[::-1]
        found[at[reached]] = place[reached]  # the first of several is written last
    is_flat = high == low
    start = np.where(is_flat, first, np.minimum(at_high, at_low) + 1)
    stop = np.where(is_flat, first + size - 1, np.maximum(at_high, at_low))
    start, stop = (np.clip(each, 0, order.size - 1) for each in (start, stop))
    weight = data.weight[order]
    held = np.cumsum(weight)
    crossed = held[stop] - held[start] + weight[start]
    deviation = data.deviations(codes, n_segments)
    return Walks(high - low, deviation, order[start], order[stop], crossed, at_high > at_low)


def draw_largest(
    data: Steps,
    segments: Segments,
    scales: list[FloatArray],
    *,
    reached: float,
    n_draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return draws of the largest statistic that calibrated rows have: `n_draws`, or as many as show that p is large.

    `scales` holds, for each family, what ranges are multiplied by: 0 for segments that are not looked at. `reached` is
    the largest statistic that was seen.
    """
    found = np.empty(0)
    for ways in data.draws(rng):
        widest = np.zeros(kernels.DRAWS)
        for k, (family, scale) in enumerate(zip(segments.families, scales, strict=True)):
            codes = family.codes(data.score.size)
            for way, drawn in enumerate(ways):
                kernels.widest_walks(codes, data.tie, *data.walks_of(drawn, way, k, codes, scale), widest)
        found = np.append(found, widest)
        if found.size >= n_draws or np.count_nonzero(_reaches(found, reached)) >= _ENOUGH:
            break
    return found[:n_draws]


def p_values(sigma: FloatArray, drawn: FloatArray) -> FloatArray:
    """Return the p-value of each statistic: of one as large anywhere among the segments."""
    ranked = np.sort(drawn)
    reached = drawn.size - np.searchsorted(ranked, sigma * (1.0 - _ROUNDING), side="left")
    p = (1.0 + reached) / (1.0 + drawn.size)
    for k in np.flatnonzero(reached >= _ENOUGH).tolist():
        stopped = np.flatnonzero(_reaches(drawn, sigma[k]))[_ENOUGH - 1] + 1
        p[k] = _ENOUGH / stopped
    return np.asarray(np.minimum(p, 1.0))


def _reaches(drawn: FloatArray, sigma: float) -> BoolArray:
    return np.asarray(drawn >= sigma * (1.0 - _ROUNDING))
