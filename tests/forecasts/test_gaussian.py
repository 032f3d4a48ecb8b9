"""Normal forecasts: far tails, and arrays of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrant.forecasts import (
    GaussianForecast,
)


def test_forecasts_keep_no_hold_on_the_arrays_they_were_made_of():
    mean = np.zeros(3)
    forecast = GaussianForecast(mean, 1.0)
    mean[:] = 9.0
    np.testing.assert_array_equal(forecast.mean(), np.zeros(3))
    with pytest.raises(ValueError, match="read-only"):
        forecast.mean()[0] = 1.0


def test_normal_distribution_far_out():
    forecast = GaussianForecast([0.0, 0.0], 1.0)
    assert forecast.cdf(8.3)[0] == 1.0
    assert forecast.sf(10.0)[0] == pytest.approx(stats.norm.sf(10.0), rel=1e-12)
    assert forecast.logpdf([40.0, -40.0])[0] == pytest.approx(-800.9189385, abs=1e-6)
    np.testing.assert_allclose(forecast.crps([1e3, -1e8]), [1e3 - 0.5641895835, 1e8 - 0.5641895835], rtol=1e-12)
    tiny = GaussianForecast([0.0], 1e-300)
    assert tiny.crps([3.0]) == 3.0
    assert tiny.logpdf([3.0]) == -np.inf
