"""The search for segments among predictions of a number, which say nothing of how much outcomes vary.

The variance of a step is that of its segment's own gaps about their mean, but no less than the gaps of all rows with
predictions as large show: of rare events, such as claims, most segments hold none, and seem not to vary. A draw takes
each row, or cluster, or block of time, a Poisson number of times with mean 1. The largest statistic of such rows, their
walks about what was seen on average and over a standard deviation of their own, is what chance makes of it: the
bootstrap-t (Efron and Tibshirani 1993, *An introduction to the bootstrap*, section 12.5). It knows of skewness: random
signs, of outcomes such as costs, find far more off than they say. Of few rows or clusters it finds too much, and there
random signs are right: a draw is the larger one of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from calibrant import kernels
from calibrant.dependence import Units
from calibrant.dependent_rows import parts_of_groups
from calibrant.metrics.segment_search import Steps
from calibrant.metrics.segments import CodeArray
from calibrant.numerics import FloatArray, IntArray

#: Ranges of predictions whose gaps show how much outcomes vary at least: at most, and rows in each at least.
_MOST_RANGES, _ROWS_IN_RANGE = 20, 500
#: Deviations from a mean that are this part of the values are rounding.
_ROUNDING = 1e-12
#: Parts of segments from which on no more are kept: some 300 MB.
_MOST_KEPT = 10_000_000


class _Parts(NamedTuple):
    """What units have of segments: the segment of each part, its sums of weights and of steps, a row of it."""

    segment: CodeArray
    weight: FloatArray
    step: FloatArray
    row: IntArray

    def moments(self, drawn: FloatArray, n_segments: int) -> FloatArray:
        """Return the moments of the parts of each segment in each draw, as the kernel adds them up."""
        found = np.zeros((n_segments, 5, kernels.DRAWS))
        kernels.taken_moments(self.segment, drawn[self.row], self.weight, self.step, found)
        return found


class NumberSteps(Steps):
    """Rows in the order of their predictions of a number."""

    unmoved = np.inf

    @cached_property
    def _kept(self) -> dict[tuple[int, int], _Parts]:
        """The parts of ways and families, as many as are kept from draw to draw: to find them takes sorting."""
        return {}

    @cached_property
    def least(self) -> FloatArray:
        """The variance of each step by the gaps of all rows with predictions as large."""
        n = self.score.size
        k = min(max(n // _ROWS_IN_RANGE, 1), _MOST_RANGES)
        of = np.arange(n) * k // n
        weight = np.bincount(of, self.weight, k)
        away = _without_rounding(self.residual - (np.bincount(of, self.steps, k) / weight)[of], self.residual)
        return np.asarray(self.weight**2 * (np.bincount(of, self.weight * away**2, k) / weight)[of])

    def draws(self, rng: np.random.Generator) -> Iterator[list[FloatArray]]:
        """Yield how often each row is taken, without end: (n, DRAWS) for each way in which rows depend.

        Each way is there twice, the second time with a sign for each unit: it is taken once, or -1 times.
        """
        while True:
            ways: list[FloatArray] = []
            for units in self.units or (None,):
                shape = (self.score.size if units is None else units.n), kernels.DRAWS
                both = rng.poisson(1.0, shape).astype(np.float64), np.asarray(rng.integers(0, 2, shape) * 2.0 - 1.0)
                ways += both if units is None else (drawn[units.code] for drawn in both)
            yield ways

    def walks_of(
        self, drawn: FloatArray, way: int, family: int, codes: CodeArray, scale: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        n = scale.size
        steps = self._centred(codes, n) if way % 2 == 0 else self.steps
        moments = np.zeros((n, 5, kernels.DRAWS))
        kernels.taken_moments(codes, drawn, self.weight, steps, moments)
        taken, total = moments[:, 0], moments[:, 1]
        mean = np.divide(total, taken, out=np.zeros(total.shape), where=taken > 0.0)
        variance, lost = np.maximum(_about(mean, moments), np.bincount(codes, self.least, n)[:, None]), 0.0
        if self.units:
            units = self.units[way // 2]
            lost = units.lost
            parts = self._kept.get((way, family)) or self._parts(units, codes, steps)
            if sum(each.row.size for each in self._kept.values()) < _MOST_KEPT:
                self._kept[way, family] = parts
            variance = np.maximum(variance, _about(mean, parts.moments(drawn, n)) / (1.0 - lost))
        own = np.divide(1.0, np.sqrt(variance), out=np.full(variance.shape, np.inf), where=variance > 0.0)
        return drawn * (steps / np.sqrt(1.0 - lost))[:, None], np.where(scale[:, None] > 0.0, own, 0.0)

    def variances(self, codes: CodeArray, n_segments: int) -> FloatArray:
        own = np.bincount(codes, self._centred(codes, n_segments) ** 2, n_segments)
        return np.maximum(own, np.bincount(codes, self.least, n_segments))

    def deviations(self, codes: CodeArray, n_segments: int) -> FloatArray:
        variance, centred = self.variances(codes, n_segments), self._centred(codes, n_segments)
        for units in self.units:
            parts = self._parts(units, codes, centred)
            between = np.bincount(parts.segment, parts.step**2, n_segments) / (1.0 - units.lost)
            variance = np.maximum(variance, between)
        return np.sqrt(variance)

    def _centred(self, codes: CodeArray, n_segments: int) -> FloatArray:
        """Return the step of each row less its part of the mean of its segment."""
        weight = np.bincount(codes, self.weight, n_segments)
        mean = np.bincount(codes, self.steps, n_segments) / np.where(weight > 0.0, weight, 1.0)
        return _without_rounding(self.steps - self.weight * mean[codes], self.steps)

    def _parts(self, units: Units, codes: CodeArray, steps: FloatArray) -> _Parts:
        segment, part = parts_of_groups(units, codes.astype(np.int64))
        weight, step = (np.bincount(part, each).astype(np.float64) for each in (self.weight, steps))
        return _Parts(segment.astype(np.uint32), weight, step, np.unique(part, return_index=True)[1])


def _about(mean: FloatArray, moments: FloatArray) -> FloatArray:
    """Return the sums of squares of steps about a mean, by their weights; what is rounding is 0."""
    _, _, squares, crossed, squared = np.moveaxis(moments, 1, 0)
    found = squares - 2.0 * mean * crossed + mean**2 * squared
    return np.where(found <= _ROUNDING * squares, 0.0, found)


def _without_rounding(away: FloatArray, values: FloatArray) -> FloatArray:
    """Return how far values are from their means, 0 where that is rounding."""
    return np.where(np.abs(away) <= _ROUNDING * np.abs(values).max(initial=0.0), 0.0, away)
