"""The search for segments among predictions of a number, which say nothing of how much outcomes vary.

The standard deviation of a segment's walk is that of its rows' own gaps about their mean. A draw takes each row, or
cluster, or block of time, a Poisson number of times with mean 1. The largest statistic of such rows, their walks about
what was seen on average and over a standard deviation of their own, is what chance makes of it: the bootstrap-t (Efron
and Tibshirani 1993, *An introduction to the bootstrap*, section 12.5). It knows of skewness: random signs, of outcomes
such as costs, find far more off than they say. Of few clusters it finds too much, and there random signs are right: of
clusters, and of blocks of time, a draw is the larger one of both.
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

#: What the range of a segment is multiplied by in a draw of rows that don't vary: it is as large as any.
_ANY = 1e100
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

    @cached_property
    def _kept(self) -> dict[tuple[int, int], _Parts]:
        """The parts of ways and families, as many as are kept from draw to draw: to find them takes sorting."""
        return {}

    def draws(self, rng: np.random.Generator) -> Iterator[list[FloatArray]]:
        """Yield how often each row is taken, without end: (n, DRAWS) for each way in which rows depend.

        Of units that are declared the next way is with a sign each: they are taken once, or -1 times.
        """
        n = self.score.size
        while not self.units:
            yield [rng.poisson(1.0, (n, kernels.DRAWS)).astype(np.float64)]
        while True:
            ways: list[FloatArray] = []
            for units in self.units:
                shape = units.n, kernels.DRAWS
                ways += [rng.poisson(1.0, shape).astype(np.float64), np.asarray(rng.integers(0, 2, shape) * 2.0 - 1.0)]
            yield [drawn[self.units[way // 2].code] for way, drawn in enumerate(ways)]

    def walks_of(
        self, drawn: FloatArray, way: int, family: int, codes: CodeArray, scale: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        n = scale.size
        steps = self._centred(codes, n) if way % 2 == 0 else self.steps
        moments = np.zeros((n, 5, kernels.DRAWS))
        kernels.taken_moments(codes, drawn, self.weight, steps, moments)
        taken, total = moments[:, 0], moments[:, 1]
        mean = np.divide(total, taken, out=np.zeros(total.shape), where=taken > 0.0)
        variance, lost = _about(mean, moments), 0.0
        if self.units:
            units = self.units[way // 2]
            lost = units.lost
            parts = self._kept.get((way, family)) or self._parts(units, codes, steps)
            if sum(each.row.size for each in self._kept.values()) < _MOST_KEPT:
                self._kept[way, family] = parts
            variance = np.maximum(variance, _about(mean, parts.moments(drawn, n)) / (1.0 - lost))
        own = np.divide(1.0, np.sqrt(variance), out=np.full(variance.shape, _ANY), where=variance > 0.0)
        return drawn * (steps / np.sqrt(1.0 - lost))[:, None], np.where(scale[:, None] > 0.0, own, 0.0)

    def variances(self, codes: CodeArray, n_segments: int) -> FloatArray:
        found = np.bincount(codes, self._centred(codes, n_segments) ** 2, n_segments)
        return np.where(found <= _ROUNDING**2 * np.bincount(codes, self.steps**2, n_segments), 0.0, found)

    def deviations(self, codes: CodeArray, n_segments: int) -> FloatArray:
        variance, centred = self.variances(codes, n_segments), self._centred(codes, n_segments)
        for units in self.units:
            parts = self._parts(units, codes, centred)
            between = np.bincount(parts.segment, parts.step**2, n_segments) / (1.0 - units.lost)
            variance = np.where(variance > 0.0, np.maximum(variance, between), 0.0)
        return np.sqrt(variance)

    def _centred(self, codes: CodeArray, n_segments: int) -> FloatArray:
        """Return the step of each row less its part of the mean of its segment."""
        weight = np.bincount(codes, self.weight, n_segments)
        mean = np.bincount(codes, self.steps, n_segments) / np.where(weight > 0.0, weight, 1.0)
        return np.asarray(self.steps - self.weight * mean[codes])

    def _parts(self, units: Units, codes: CodeArray, steps: FloatArray) -> _Parts:
        segment, part = parts_of_groups(units, codes.astype(np.int64))
        weight, step = (np.bincount(part, each).astype(np.float64) for each in (self.weight, steps))
        return _Parts(segment.astype(np.uint32), weight, step, np.unique(part, return_index=True)[1])


def _about(mean: FloatArray, moments: FloatArray) -> FloatArray:
    """Return the sums of squares of steps about a mean, by their weights; what is rounding is 0."""
    _, _, squares, crossed, squared = np.moveaxis(moments, 1, 0)
    found = squares - 2.0 * mean * crossed + mean**2 * squared
    return np.where(found <= _ROUNDING * squares, 0.0, found)
