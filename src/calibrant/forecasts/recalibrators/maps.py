"""Recalibration by maps of levels: one map for all rows, or one for each bin of the forecasts' centre and width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.level_maps import (
    IDENTITY,
    PackedMaps,
    decode_knots,
    empirical_map,
    smooth_map,
    weighted_quantiles,
)
from calibrant.forecasts.points import check_bins
from calibrant.forecasts.recalibrated import ChainRows, RowMaps
from calibrant.forecasts.recalibrators.base import Layer, MapLayer, Recalibrator, named, numbers_within_reach
from calibrant.forecasts.scores import Outcomes
from calibrant.numerics import FloatArray, IntArray
from calibrant.validation import check_integer, check_number

#: Levels of the quartiles and the median.
_QUARTILES = np.array([[0.25, 0.5, 0.75]])


@named("average")
@dataclass(kw_only=True, eq=False, repr=False)
class AverageRecalibrator(Recalibrator):
    """Recalibrate so that, over all rows, a share c of outcomes lies below the quantile of level c.

    Parameters
    ----------
    n_knots : int, optional
        Steps of equal weight that the map follows. By default it goes through every row: the isotonic regression of
        Kuleshov et al., whose density is rough.
    pseudo_counts : float
        With `n_knots`, the rows of the identity that the map is drawn towards.

    Notes
    -----
    The map goes through (u_(i), i / (n + 2)), u_(i) being the i-th smallest level of an outcome, tied ones at their
    mean, and through (0, 0) and (1, 1). It says nothing of groups of rows: those whose forecast is too wide and those
    where it is too narrow may balance each other.

    References
    ----------
    Kuleshov, Fenner and Ermon (2018), *Accurate uncertainties for deep learning using calibrated regression*, ICML,
    algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import AverageRecalibrator, GaussianForecast
    >>> y = np.random.default_rng(0).normal(scale=2.0, size=5000)
    >>> narrow = GaussianForecast(np.zeros(5000), 1.0)
    >>> wide = AverageRecalibrator().fit(narrow, y).transform(narrow[:1])
    >>> wide.cdf([[-2.0, 0.0, 2.0]]).round(2)
    array([[0.16, 0.51, 0.84]])
    """

    n_knots: int | None = None
    pseudo_counts: float = 20.0

    def _check_settings(self) -> None:
        check_number("pseudo_counts", self.pseudo_counts, minimum=0.0)
        if self.n_knots is not None:
            check_integer("n_knots", self.n_knots, minimum=1)

    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        level = rows.levels()
        if self.n_knots is None:
            return (OneMap(*empirical_map(level, rows.weights)),)
        return (OneMap(*smooth_map(level, rows.weights, self.n_knots, self.pseudo_counts)),)


@named("one_map")
@dataclass(frozen=True, slots=True)
class OneMap(MapLayer):
    """One map for all rows."""

    x: FloatArray
    y: FloatArray

    def rows(self, forecast: Forecast) -> RowMaps:
        return ChainRows(PackedMaps.pack([(self.x, self.y)]), np.zeros((len(forecast), 1), dtype=np.int32))

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        return cls(*decode_knots(body.members(("x", "y"))))


@named("distribution")
@dataclass(kw_only=True, eq=False, repr=False)
class DistributionRecalibrator(Recalibrator):
    """Recalibrate rows of like forecasts by themselves: one map of levels per bin of median and width.

    Parameters
    ----------
    n_bins : pair of int
        Bins of the forecast's median, and within each, bins of its width (the distance between its quartiles), all
        of equal weight. Fewer where the rows would not give each bin `min_leaf`.
    min_leaf : int
        Least weight per bin.
    n_knots : int
        Steps of equal weight of each map.
    pseudo_counts : float
        Rows of the identity that each map is drawn towards.

    Notes
    -----
    A forecast is calibrated in distribution where, of all rows that were given the same distribution, the outcomes
    follow it (Song et al., definition 3). They model the map as a function of mean and standard deviation by a
    Gaussian process; here it is constant within bins, which needs no optimiser, and takes every kind of forecast.

    References
    ----------
    Song, Diethe, Kull and Flach (2019), *Distribution calibration for regression*, ICML. Boström, Johansson and
    Löfström (2021), *Mondrian conformal predictive distributions*, COPA.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import DistributionRecalibrator, GaussianForecast
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=3000)
    >>> y = mean + np.where(mean > 0, 2.0, 0.5) * rng.normal(size=3000)
    >>> recalibrator = DistributionRecalibrator(n_bins=(4, 1)).fit(GaussianForecast(mean, 1.0), y)
    >>> low, high = recalibrator.transform(GaussianForecast([-1.0, 1.0], 1.0)).interval(0.9)
    >>> (high - low).round(1)
    array([1.7, 6.4])
    """

    n_bins: tuple[int, int] = (5, 3)
    min_leaf: int = 20
    n_knots: int = 20
    pseudo_counts: float = 20.0

    def _check_settings(self) -> None:
        check_integer("min_leaf", self.min_leaf, minimum=1)
        check_integer("n_knots", self.n_knots, minimum=1)
        check_number("pseudo_counts", self.pseudo_counts, minimum=0.0)
        check_bins("n_bins", self.n_bins)

    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        n_medians, n_widths = self.n_bins
        weight = rows.weights
        most = max(int(weight.sum() // self.min_leaf), 1)
        n_medians = min(n_medians, most)
        n_widths = min(n_widths, max(most // n_medians, 1))
        median, width = _centre_and_width(rows.forecast)
        inner = np.arange(1, n_medians) / n_medians
        edges = weighted_quantiles(median, weight, inner)
        column = np.searchsorted(edges, median, side="left")
        width_edges = np.zeros((n_medians, n_widths - 1))
        inner = np.arange(1, n_widths) / n_widths
        for j in range(n_medians):
            own = column == j
            if own.any():  # tied medians may leave bins empty
                width_edges[j] = weighted_quantiles(width[own], weight[own], inner)
        bins = _bins(median, width, edges, width_edges)
        level = rows.levels()
        of_bins = (bins == j for j in range(n_medians * n_widths))
        maps = [
            smooth_map(level[own], weight[own], self.n_knots, self.pseudo_counts) if own.any() else IDENTITY
            for own in of_bins
        ]
        return (BinnedMaps(edges, width_edges, PackedMaps.pack(maps)),)


@named("binned_maps")
@dataclass(frozen=True, slots=True)
class BinnedMaps(MapLayer):
    """A map per bin: `edges` between the bins of the median, and for each of them, `width_edges` between widths."""

    edges: FloatArray
    width_edges: FloatArray
    maps: PackedMaps

    def rows(self, forecast: Forecast) -> RowMaps:
        bins = _bins(*_centre_and_width(forecast), self.edges, self.width_edges)
        return ChainRows(self.maps, bins.astype(np.int32)[:, None])

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        fields = body.members(("edges", "width_edges", "maps"))
        edges = _decode_edges(fields["edges"])
        rows = fields["width_edges"].items()
        if len(rows) != edges.size + 1:
            fields["width_edges"].refuse(f"does not go with {edges.size} edges: one list for each bin is needed")
        widths = [_decode_edges(row) for row in rows]
        for row, width in zip(rows, widths, strict=True):
            if width.size != widths[0].size:
                row.refuse("is not as long as the first list")
        maps = PackedMaps.decode(fields["maps"], len(rows) * (widths[0].size + 1))
        return cls(edges, np.array(widths).reshape(len(rows), -1), maps)


def _decode_edges(field: DocumentField) -> FloatArray:
    """Return numbers that don't fall; there may be none."""
    edges = numbers_within_reach(field, field.numbers(minimum=0))
    if (np.diff(edges) < 0.0).any():
        field.refuse("holds a number that is below the one before")
    return edges


def _centre_and_width(forecast: Forecast) -> tuple[FloatArray, FloatArray]:
    quartiles = forecast.ppf(_QUARTILES)
    return quartiles[:, 1], quartiles[:, 2] - quartiles[:, 0]


def _bins(median: FloatArray, width: FloatArray, edges: FloatArray, width_edges: FloatArray) -> IntArray:
    column = np.searchsorted(edges, median, side="left")
    inner = (width[:, None] > width_edges[column]).sum(axis=1)
    bins: IntArray = column * (width_edges.shape[1] + 1) + inner
    return bins
