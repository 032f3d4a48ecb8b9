"""Average recalibration: one map of levels for all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.level_maps import PackedMaps, decode_knots, empirical_map, smooth_map
from calibrant.forecasts.outcomes import Outcomes
from calibrant.forecasts.recalibrated import ChainRows, RowMaps
from calibrant.forecasts.recalibrators.base import Layer, MapLayer, Recalibrator, named
from calibrant.numerics import FloatArray
from calibrant.validation import check_integer, check_number


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
        """Return the same map for each row."""
        return ChainRows(PackedMaps.pack([(self.x, self.y)]), np.zeros((len(forecast), 1), dtype=np.int32))

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        """Check plain data, and return the layer that they are of."""
        return cls(*decode_knots(body.members(("x", "y"))))
