"""The integrated calibration index: how far probabilities lie from a local regression of the outcomes on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrant.metrics.bins import merged
from calibrant.metrics.estimates import Column, Estimate, measured_rows, noise_bounds
from calibrant.numerics import FloatArray, dot
from calibrant.readable import Readable
from calibrant.summary import ScoreSummary, equal_mass_starts
from calibrant.validation import ArrayLike, check_number

#: Share of the rows that each local regression takes in: the default of R's `loess`, which the index was defined by.
SPAN = 0.75
#: More distinct probabilities than this are put into as many bins of near-equal weight.
_MOST_BINS = 2048
#: The regression is solved at this many probabilities and interpolated between them.
_VERTICES = 128
#: Draws of the noise of the regression, and the number of ranges of scores whose noise is drawn as one: the regression
#: is so smooth that noise of neighbours has the same effect on it.
_DRAWS = 1000
_SOURCES = 32
#: The power of the moment in each place of the normal equations of a parabola.
_HANKEL = np.arange(3)[:, None] + np.arange(3)
#: Normal equations whose determinant is larger, in units of radius and weight, are solved by cofactors.
_WELL_POSED = 1e-7
#: What rounding may take from a running sum of the shares of all bins.
_ROUNDING = 1e-12
#: The least radius of a regression.
_LEAST_RADIUS = 2.0**-52


@dataclass(frozen=True, slots=True, repr=False)
class CalibrationIndex(Readable):
    """How far the probabilities of the rows lie from the smoothed rate of the event at them.

    Attributes
    ----------
    ici : float
        The mean over rows of the absolute difference: the integrated calibration index.
    e50, e90 : float
        The median and the 90th percentile of it.
    emax : float
        The largest.
    """

    ici: float
    e50: float
    e90: float
    emax: float


def integrated_calibration_index(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    quantile: float | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the mean absolute difference between probabilities and a local regression of the outcomes on them.

    Parameters
    ----------
    y_true, y_prob, sample_weight, pos_label, classes
        As in `evaluate`; of several classes the top label is judged.
    quantile : float, optional
        In [0, 1]: return this quantile of the absolute differences instead of their mean. 0.5 is known as E50, 0.9 as
        E90, 1 as Emax; `calibration_index` gives all of them.

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    The smoother is loess without robustness steps: at a probability t, a parabola is fitted by least squares to the
    outcomes of the 75% of rows nearest to t, with tricube weights that fall to zero at the furthest of them, and its
    value at t, cut to [0, 1], is the rate. It is solved directly at 128 probabilities of near-equal weight between
    them and interpolated linearly; more than 2,048 distinct probabilities are first put into as many bins, each at
    its mean. Where the nearest rows hold fewer than three distinct probabilities, the smallest of the fitting
    parabolas is taken.

    The index estimates the mean distance to the true rate so far as the smoother can follow it: it flattens narrow
    gaps, and noise biases it upward, less than a binned error because so many rows are averaged.

    A quantile is the smallest difference that is not below the wanted share of weight.

    References
    ----------
    Austin and Steyerberg (2019), *The Integrated Calibration Index (ICI) and related metrics for quantifying the
    calibration of logistic regression models*, Statistics in Medicine 38. Cleveland and Devlin (1988), *Locally
    weighted regression*, JASA 83.

    Examples
    --------
    >>> from calibrant.metrics import integrated_calibration_index
    >>> round(integrated_calibration_index([0, 1, 1, 1] * 9, [0.25, 0.5, 0.75, 1.0] * 9), 4)
    0.25
    """
    if quantile is not None:
        quantile = check_number("quantile", quantile, minimum=0.0, maximum=1.0, example="0.5, or None for the mean")
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    bins = _fine_bins(rows.one_column().summary())
    error = np.abs(_smooth(bins).gap)
    return float(np.sum(bins.share * error)) if quantile is None else _quantile(error, bins.share, quantile)


def calibration_index(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> CalibrationIndex:
    """Return the integrated calibration index with E50, E90 and Emax.

    Parameters, definitions and bias are those of `integrated_calibration_index`.

    Returns
    -------
    CalibrationIndex

    Examples
    --------
    >>> from calibrant.metrics import calibration_index
    >>> index = calibration_index([0, 1, 1, 1] * 9, [0.25, 0.5, 0.75, 1.0] * 9)
    >>> round(index.e50, 4), round(index.emax, 4)
    (0.25, 0.5)
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    bins = _fine_bins(rows.one_column().summary())
    error = np.abs(_smooth(bins).gap)
    e50, e90, largest = (_quantile(error, bins.share, q) for q in (0.5, 0.9, 1.0))
    return CalibrationIndex(float(np.sum(bins.share * error)), e50, e90, largest)


def calibration_index_estimate(column: Column) -> Estimate:
    """Estimate the integrated calibration index of one column, with an interval from the noise of the smoother."""
    bins = _fine_bins(column.summary)
    vertices, gap, fitted, parabolas = _smooth(bins)
    smoother, value = parabolas.smoother(), _mean_gap(bins, gap)
    rate = np.clip(np.interp(bins.scores, vertices, fitted), 0.0, 1.0)
    near = bins.share * column.size * SPAN / bins.share.max()  # rows that a fitted rate rests on
    rate = (rate * near + 1.0) / (near + 2.0)
    variance = smoother**2 * (rate * (1.0 - rate) / bins.size)[:, None]
    source = equal_mass_starts(bins.share, _SOURCES)
    influence = np.sqrt(np.add.reduceat(variance, source)) * np.sign(np.add.reduceat(smoother, source))
    noise = np.einsum("ds,sv->dv", column.rng.standard_normal((_DRAWS, source.size)), influence)
    nearest = np.searchsorted(0.5 * (vertices[1:] + vertices[:-1]), bins.scores)
    share = np.bincount(nearest, bins.share, vertices.size)
    at_vertices = share * (vertices - fitted)
    between = max(float(np.sum(bins.share * gap**2)) - value**2, 0.0) / column.size
    return noise_bounds(value, at_vertices, noise * share, between, column.level, column.rng)


def index_of(summary: ScoreSummary) -> float:
    """Return the integrated calibration index of the rows of a summary."""
    bins = _fine_bins(summary)
    return _mean_gap(bins, _smooth(bins).gap)


class _FineBins(NamedTuple):
    """Bins of rows in rising order: mean score, share of all weight, rate, and effective number of rows of each."""

    scores: FloatArray
    share: FloatArray
    rate: FloatArray
    size: FloatArray


class _Parabolas(NamedTuple):
    """Parabolas around vertices: where the bins lie, in radii, what they weigh, and what each power of u weighs.

    `u` and `near` have shape (bins, vertices), `power_weight` (3, vertices).
    """

    u: FloatArray
    near: FloatArray
    power_weight: FloatArray

    def smoother(self) -> FloatArray:
        """Return the weight of each bin's rate in the value at each vertex."""
        a, b, c = self.power_weight
        weight: FloatArray = c * self.u
        weight += b
        weight *= self.u
        weight += a
        weight *= self.near
        return weight


class _Smooth(NamedTuple):
    """Vertices; at each bin the mean probability less the rate; the fit at each vertex, and what it was found by."""

    vertices: FloatArray
    gap: FloatArray
    fitted: FloatArray
    parabolas: _Parabolas


def _fine_bins(summary: ScoreSummary) -> _FineBins:
    distinct = summary.distinct
    if distinct.scores.size > _MOST_BINS:
        distinct = merged(distinct, equal_mass_starts(distinct.weight, _MOST_BINS))
    scores, weight, weight_squared, positives = distinct
    return _FineBins(scores, weight / weight.sum(), positives / weight, weight**2 / weight_squared)


def _smooth(bins: _FineBins) -> _Smooth:
    vertices = bins.scores
    if vertices.size > _VERTICES:
        inner = equal_mass_starts(bins.share, _VERTICES - 1)
        vertices = bins.scores[np.unique(np.append(inner, bins.scores.size - 1))]
    fitted, parabolas = _local_parabolas(bins, vertices)
    return _Smooth(vertices, bins.scores - np.interp(bins.scores, vertices, fitted), fitted, parabolas)


def _mean_gap(bins: _FineBins, gap: FloatArray) -> float:
    return dot(bins.share, np.abs(gap))


def _local_parabolas(bins: _FineBins, vertices: FloatArray) -> tuple[FloatArray, _Parabolas]:
    """Return the value at each vertex, cut to [0, 1], of a parabola fitted around it, and the parabolas."""
    u = bins.scores[:, None] - vertices
    u /= _radius(bins, vertices)
    distance = np.abs(u)
    inside = distance * distance  # products: powers of arrays are slow
    inside *= distance
    np.maximum(np.subtract(1.0, inside, out=inside), 0.0, out=inside)
    near = inside * inside
    near *= inside
    near *= bins.share[:, None]
    moments, rates, power = np.empty((5, vertices.size)), np.empty((3, vertices.size)), near.copy()
    for k in range(5):
        np.add.reduce(power, axis=0, out=moments[k])
        if k < 3:
            np.einsum("bv,b->v", power, bins.rate, out=rates[k])
        power *= u
    total = moments[0].copy()
    moments /= total
    power_weight = _first_of_inverse(moments) / total
    fitted = np.clip((power_weight * rates).sum(axis=0), 0.0, 1.0)
    return fitted, _Parabolas(u, near, power_weight)


def _first_of_inverse(moments: FloatArray) -> FloatArray:
    """Return the first row of the inverse of normal equations, shape (3, n), by their moments, of which the first is 1.

    Where few bins are near, so that many parabolas fit, it is that of the pseudo-inverse, which takes the smallest.
    """
    _, m1, m2, m3, m4 = moments
    cofactors = np.stack((m2 * m4 - m3 * m3, m2 * m3 - m1 * m4, m1 * m3 - m2 * m2))
    determinant = cofactors[0] + m1 * cofactors[1] + m2 * cofactors[2]
    is_well_posed = determinant > _WELL_POSED
    if is_well_posed.all():
        return np.asarray(cofactors / determinant)
    out = np.linalg.pinv(moments.T[:, _HANKEL], rcond=1e-10, hermitian=True)[:, 0, :].T
    out[:, is_well_posed] = cofactors[:, is_well_posed] / determinant[is_well_posed]
    return np.asarray(out)


def _radius(bins: _FineBins, vertices: FloatArray) -> FloatArray:
    """Return the distance from each vertex within which `SPAN` of the weight lies; never zero.

    Those rows are a run of bins: of all the runs that weigh enough it is the one that ends nearest to the vertex.
    """
    scores, cumulative = bins.scores, np.concatenate(([0.0], np.cumsum(bins.share)))
    wanted = SPAN * cumulative[-1] * (1.0 - _ROUNDING)
    first = np.arange(np.searchsorted(cumulative, cumulative[-1] - wanted, side="right"))
    last = np.minimum(np.searchsorted(cumulative, cumulative[first] + wanted), scores.size) - 1
    below, above = vertices - scores[first][:, None], scores[last][:, None] - vertices
    return np.asarray(np.maximum(np.maximum(below, above, out=below).min(axis=0), _LEAST_RADIUS))


def _quantile(error: FloatArray, share: FloatArray, quantile: float) -> float:
    order = np.argsort(error, kind="stable")
    cumulative = np.cumsum(share[order])
    reached = np.searchsorted(cumulative, quantile * cumulative[-1] * (1.0 - _ROUNDING))
    return float(error[order[min(int(reached), order.size - 1)]])
