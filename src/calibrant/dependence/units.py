"""What was declared of rows that are not independent, and the units that they make: clusters, or blocks of time.

Sums over a unit are taken to be independent of those over others, so that the variance of a mean is that of the sums.
Of clusters this is the cluster jackknife. Rows in time make consecutive blocks, long enough that little of their
dependence crosses the ends; what does is allowed for (`dependence.overlap`). Few units say little of how units vary:
intervals go by Student's t (Cameron and Miller 2015, *A practitioner's guide to cluster-robust inference*, Journal of
Human Resources 50; Bell and McCaffrey 2002, *Bias reduction in standard errors for linear regression with multi-stage
samples*, Survey Methodology 28; of blocks, Ibragimov and Müller 2010, *t-statistic based correlation and heterogeneity
robust inference*, Journal of Business and Economic Statistics 28).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from calibrant.dependence.folds import cluster_folds, time_blocks
from calibrant.dependence.overlap import Blocks, label_blocks, overlapping, serial_blocks
from calibrant.dependence.times import TimeArray, as_label_times, as_times
from calibrant.errors import InvalidInputError
from calibrant.numerics import BoolArray, FloatArray, IntArray, dot, kish_size
from calibrant.phrases import count
from calibrant.validation import ArrayLike, as_groups, check_same_length

#: A skewness below this moves no interval that could be told from another.
_SYMMETRIC = 1e-6


class MeanError(NamedTuple):
    """The standard error of a mean, its degrees of freedom, and the skewness of the mean."""

    error: float
    degrees: float
    skewness: float

    def ends(self, mean: float, level: float) -> tuple[float, float]:
        """Return the ends of the interval: Student's t, by Hall's transformation that removes skewness.

        Hall (1992), *On the removal of skewness by transformation*, Journal of the Royal Statistical Society B 54,
        equation 2.3: of losses, whose few large values decide both mean and error, the upper end lies further away.
        """
        if not math.isfinite(self.error):
            return -math.inf, math.inf
        t = t_quantile(self.degrees, level)
        above, below = (_without_skewness(each, self.skewness) for each in (t, -t))
        return mean - self.error * above, mean - self.error * below


def _without_skewness(t: float, skewness: float) -> float:
    moved = t - skewness / 6.0
    if abs(skewness) < _SYMMETRIC:
        return moved
    return 3.0 / skewness * (float(np.cbrt(1.0 + skewness * moved)) - 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The unit of each row, from 0 to `n` - 1, and the share of the variance that the ends of blocks lose."""

    code: IntArray
    n: int
    lost: float = 0.0
    words: str = ""

    @classmethod
    def of_rows(cls, n: int) -> Self:
        """Return the units of independent rows: each is one."""
        return cls(np.arange(n), n)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sum of the values of each unit."""
        return np.bincount(self.code, weights=values, minlength=self.n).astype(np.float64)

    def error_of_mean(self, values: FloatArray, weight: FloatArray) -> MeanError:
        """Return the error of a weighted mean; of one unit it is infinite, with no degree of freedom.

        The jackknife over units: of G of equal weight it is the sum of their squared sums of influence, times
        G / (G - 1), with G - 1 degrees of freedom. Of others G is Kish's effective number.
        """
        share = self.sums(weight) / weight.sum()
        if self.n == 1 or share.max() == 1.0:  # beside one unit the others weigh nothing
            return MeanError(math.inf, 0.0, 0.0)
        left_out = self.sums(weight * (values - np.average(values, weights=weight))) / weight.sum() / (1.0 - share)
        error = math.sqrt((self.n - 1) / self.n * dot(left_out, left_out) / (1.0 - self.lost))
        scaled = left_out / error if error > 0.0 else np.zeros(1)
        skewness = dot(scaled, scaled * scaled)  # a power of floats is thirty times as slow
        return MeanError(error, kish_size(share) - 1.0, skewness)

    def chance(self, table: FloatArray, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Return draws of how far chance moves the means of the columns of rows that count alike, (n_draws, m).

        They have the covariance of the units' sums, and the tails of Student's t with as many degrees of freedom as
        there are units but one. Of one unit nothing is known: infinite.
        """
        if self.n == 1:
            return np.full((n_draws, table.shape[1]), np.inf)
        centred = table - table.mean(axis=0)
        sums = np.column_stack([self.sums(column) for column in centred.T]) / len(table)
        degrees = self.n - 1
        scale = np.sqrt(self.n / (rng.chisquare(degrees, (n_draws, 1)) * (1.0 - self.lost)))
        return np.asarray(scale * (rng.normal(size=(n_draws, self.n)) @ sums))


@dataclass(frozen=True, slots=True, eq=False)
class Dependence:
    """Clusters of rows, numbered from 0; or times, with the ends of labels where these overlap; or nothing.

    With times alone, neighbours in time may be correlated, as far as the values show.
    """

    cluster: IntArray | None = None
    time: TimeArray | None = None
    label_end: TimeArray | None = None

    def __bool__(self) -> bool:
        return self.cluster is not None or self.time is not None

    @property
    def is_one(self) -> bool:
        """Whether all rows are of one cluster, or of one time."""
        known = self.time if self.cluster is None else self.cluster
        return known is not None and bool((known == known[0]).all())

    def take(self, at: npt.NDArray[Any]) -> Self:
        """Return what is known of some of the rows, by number or by a mask."""
        cluster = None if self.cluster is None else np.unique(self.cluster[at], return_inverse=True)[1]
        time, end = (None if each is None else each[at] for each in (self.time, self.label_end))
        return type(self)(cluster, time, end)

    @property
    def is_serial(self) -> bool:
        """Whether times are all that is known, so that it takes a series to tell how long blocks are."""
        return self.time is not None and self.label_end is None

    def units(self, *series: FloatArray) -> Units | None:
        """Return the units of rows; None where they are independent.

        Where nothing but times is known, blocks are the longest that one of the series asks for: of the rows' weighted
        deviations from a mean.
        """
        if self.cluster is not None:
            n = int(self.cluster.max()) + 1
            return Units(self.cluster, n, 0.0, count(n, "cluster"))
        if self.time is None:
            return None
        times, rank = np.unique(self.time, return_inverse=True)
        blocks = self._blocks(times, rank, series)
        n = max(times.size // blocks.length, 1)
        words = f"{count(n, 'block')} of {count(blocks.length, 'time')}"
        return Units((rank * n // times.size).astype(np.int64), n, blocks.lost, words)

    def _blocks(self, times: TimeArray, rank: IntArray, series: tuple[FloatArray, ...]) -> Blocks:
        if self.label_end is None:
            return max(serial_blocks(np.bincount(rank, weights=each).astype(np.float64)) for each in series)
        known = np.full(times.size, self.label_end.min(), dtype=self.label_end.dtype)
        np.maximum.at(known, rank, self.label_end)
        return label_blocks(times, known)

    def folds(self, n_folds: int, seed: int) -> IntArray:
        """Return the fold of each row that is not independent: clusters stay whole, times make consecutive parts."""
        if self.cluster is not None:
            nothing = np.zeros(self.cluster.size, dtype=np.int64)
            return cluster_folds(nothing, self.cluster, min(n_folds, int(self.cluster.max()) + 1), seed)
        assert self.time is not None  # noqa: S101
        times, rank = np.unique(self.time, return_inverse=True)
        folds: IntArray = time_blocks(times, min(n_folds, times.size))[rank]
        return folds

    def fitted_without(self, folds: IntArray, fold: int) -> BoolArray:
        """Say which rows may be fitted to where a fold is held out: those whose labels overlap none of its labels."""
        held_out: BoolArray = folds == fold
        if self.time is None or self.label_end is None:
            return ~held_out
        return ~overlapping(self.time, self.label_end, held_out)


def read_dependence(
    n: int,
    cluster: ArrayLike | None,
    time: ArrayLike | None,
    label_end: ArrayLike | None,
    *,
    rows: str,
    names: tuple[str, str, str] = ("cluster", "time", "label_end"),
) -> Dependence:
    """Check what is declared of `n` rows, which are those of `rows`; `names` is what the caller calls the columns."""
    if cluster is not None and (time is not None or label_end is not None):
        raise InvalidInputError("cluster and time are two ways to say which rows hang together. Pass one of them.")
    if label_end is not None and time is None:
        raise InvalidInputError("label_end says when a label was known, and needs time, when its row was predicted.")
    if cluster is not None:
        codes = as_groups(cluster, name=names[0]).codes
        check_same_length(n, codes.size, rows, names[0])
        return Dependence(cluster=codes.astype(np.int64))
    if time is None:
        return Dependence()
    if label_end is None:
        start, end = as_times(time, name=names[1]), None
    else:
        start, end = as_label_times(time, label_end, name=names[1], end_name=names[2])
    check_same_length(n, start.size, rows, names[1])
    return Dependence(time=start, label_end=end)


def t_quantile(degrees: float, level: float) -> float:
    """Return t such that Student's t lies within [-t, t] with probability `level`; infinite without degrees."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + 0.5 * level)) if degrees > 0.0 else math.inf
