"""Recalibration by maps of levels: one for all rows, of any shape or normal, or one per bin of centre and width."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri

from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.kinds import GaussianForecast
from calibrant.forecasts.level_maps import (
    IDENTITY,
    PackedMaps,
    decode_knots,
    empirical_map,
    smooth_map,
    weighted_quantiles,
)
from calibrant.forecasts.points import check_bins
from calibrant.forecasts.recalibrated import ChainRows, RecalibratedForecast, RowMaps, RowNumbers
from calibrant.forecasts.recalibrators.base import Layer, Recalibrator, named, numbers_within_reach
from calibrant.forecasts.scores import Outcomes
from calibrant.numerics import SMALLEST_CLIP, FloatArray, IntArray, dot
from calibrant.validation import check_flag, check_integer, check_number

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
class OneMap(Layer):
    """One map for all rows."""

    x: FloatArray
    y: FloatArray

    def apply(self, forecast: Forecast) -> Forecast:
        maps = ChainRows(PackedMaps.pack([(self.x, self.y)]), np.zeros((len(forecast), 1), dtype=np.int32))
        return RecalibratedForecast(forecast, maps)

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
        for j in np.unique(column):  # tied medians may leave bins empty
            own = column == j
            width_edges[j] = weighted_quantiles(width[own], weight[own], inner)
        bins = _bins(median, width, edges, width_edges)
        level = rows.levels()
        maps = [IDENTITY] * (n_medians * n_widths)
        for j in np.unique(bins):
            own = bins == j
            maps[j] = smooth_map(level[own], weight[own], self.n_knots, self.pseudo_counts)
        return (BinnedMaps(edges, width_edges, PackedMaps.pack(maps)),)


@named("binned_maps")
@dataclass(frozen=True, slots=True)
class BinnedMaps(Layer):
    """A map per bin: `edges` between the bins of the median, and for each of them, `width_edges` between widths."""

    edges: FloatArray
    width_edges: FloatArray
    maps: PackedMaps

    def apply(self, forecast: Forecast) -> Forecast:
        bins = _bins(*_centre_and_width(forecast), self.edges, self.width_edges)
        return RecalibratedForecast(forecast, ChainRows(self.maps, bins.astype(np.int32)[:, None]))

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
    return np.asarray(column * (width_edges.shape[1] + 1) + inner)


@named("variance")
@dataclass(kw_only=True, eq=False, repr=False)
class VarianceScalingRecalibrator(Recalibrator):
    """Widen or narrow all forecasts by one factor, and on request move them by one number of standard deviations.

    Parameters
    ----------
    shift : bool
        Whether to move the forecasts too.

    Attributes
    ----------
    scale_ : float
        What standard deviations are multiplied by.
    shift_ : float
        By how many of its standard deviations, before scaling, each forecast moves up.

    Notes
    -----
    The likelihood is greatest at scale^2 = mean (z - shift)^2 and shift = mean z, z being (y - mean) / std of normal
    forecasts, which stay normal. Of other forecasts z is the normal score of the level of the outcome, moved into
    [1e-12, 1 - 1e-12] first, and levels are mapped by z -> (z - shift) / scale.

    References
    ----------
    Levi, Gispan, Giladi and Fetaya (2022), *Evaluating and calibrating uncertainty prediction in regression tasks*,
    Sensors 22, equation 8. Laves et al. (2020), *Well-calibrated regression uncertainty in medical imaging with deep
    learning*, MIDL.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, VarianceScalingRecalibrator
    >>> y = np.random.default_rng(0).normal(scale=2.0, size=5000)
    >>> recalibrator = VarianceScalingRecalibrator().fit(GaussianForecast(np.zeros(5000), 1.0), y)
    >>> recalibrator.transform(GaussianForecast([10.0], 1.0)).std().round(2)
    array([1.99])
    """

    shift: bool = False
    scale_: float = field(init=False)
    shift_: float = field(init=False)

    def _check_settings(self) -> None:
        check_flag("shift", self.shift)

    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        if isinstance(rows.forecast, GaussianForecast):
            z = (rows.y - rows.forecast.mean()) / rows.forecast.std()
        else:
            z = ndtri(np.clip(rows.levels(), SMALLEST_CLIP, 1.0 - SMALLEST_CLIP))
        weight = rows.weights
        total = float(weight.sum())
        self.shift_ = dot(weight, z) / total if self.shift else 0.0
        centred = z - self.shift_
        self.scale_ = float(np.sqrt(dot(weight, centred * centred) / total))
        if self.scale_ < SMALLEST_CLIP:
            raise InvalidInputError(
                "y lies on the forecasts' centre in every row, so that the likelihood grows without bound as they "
                "narrow. Fit on rows of which the outcomes differ from the forecast."
            )
        return (ProbitScale(self.scale_, self.shift_),)

    def describe(self) -> list[str]:
        moved = f", moved by {self.shift_:.4g} of them" if self.shift_ else ""
        return [f"standard deviations times {self.scale_:.4g}{moved}"]

    def restore(self, body: DocumentField) -> None:
        super().restore(body)
        only = self._only_layer(ProbitScale, body)
        self.scale_, self.shift_ = only.scale, only.shift


@dataclass(frozen=True, slots=True)
class ProbitRows(RowMaps):
    """The map z -> (z - shift) / scale of the levels' normal scores, the same in all rows."""

    scale: float
    shift: float

    def apply(self, v: FloatArray) -> FloatArray:
        return np.asarray(ndtr((ndtri(v) - self.shift) / self.scale))

    def invert(self, u: FloatArray) -> FloatArray:
        return np.asarray(ndtr(ndtri(u) * self.scale + self.shift))

    def log_slope(self, v: FloatArray) -> FloatArray:
        """Return the log of the maps' slopes; levels near 0 and 1 are first moved inward."""
        z = ndtri(np.clip(v, SMALLEST_CLIP, 1.0 - SMALLEST_CLIP))
        return np.asarray(0.5 * (z * z - ((z - self.shift) / self.scale) ** 2) - np.log(self.scale))

    def take(self, rows: RowNumbers) -> Self:  # noqa: ARG002 - one map for all rows
        return self


@named("probit_scale")
@dataclass(frozen=True, slots=True)
class ProbitScale(Layer):
    """The map z -> (z - shift) / scale of normal scores."""

    scale: float
    shift: float

    def apply(self, forecast: Forecast) -> Forecast:
        if isinstance(forecast, GaussianForecast):  # stays normal
            std = forecast.std()
            return GaussianForecast(forecast.mean() + self.shift * std, self.scale * std)
        return RecalibratedForecast(forecast, ProbitRows(self.scale, self.shift))

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        fields = body.members(("scale", "shift"))
        scale, shift = fields["scale"].number(), fields["shift"].number()
        if scale <= 0.0:
            fields["scale"].refuse("is not above 0")
        numbers_within_reach(fields["scale"], np.array([scale]))
        numbers_within_reach(fields["shift"], np.array([shift]))
        return cls(scale, shift)
