"""The gate of the forecasts' numbers: refusals name the argument, the place and the value."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrant.errors import (
    InvalidInputError,
    InvalidProbabilityError,
    InvalidTypeError,
    InvalidWeightError,
    ShapeError,
)
from calibrant.forecasts import (
    GaussianForecast,
    GridForecast,
    QuantileForecast,
    SampleForecast,
    ScipyForecast,
)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: GaussianForecast([0.0, 1.0], [1.0, 0.0]), InvalidInputError, r"std row 1: 0.0 is not above"),
        (lambda: GaussianForecast([0.0, np.nan], 1.0), InvalidInputError, "mean row 1: nan is not finite"),
        (lambda: GaussianForecast([0.0], np.inf), InvalidInputError, r"std=inf is outside \(-inf, inf\)"),
        (lambda: GaussianForecast([0.0, 1.0], [1.0] * 3), ShapeError, "mean has 2 rows and std has 3"),
        (lambda: QuantileForecast([0.5, 0.5], [[0.0, 1.0]]), InvalidInputError, "levels row 1: 0.5 doesn't rise"),
        (lambda: QuantileForecast([0.5, 1.5], [[0.0, 1.0]]), InvalidInputError, r"levels row 1: 1.5 doesn't"),
        (lambda: QuantileForecast([0.5, 0.6, 0.7], [[0.0, 1.0]]), ShapeError, "values has 2 columns for 3 levels"),
        (lambda: QuantileForecast([0.1, 0.9], [[0, 1]], tails="fat"), InvalidInputError, "value of tails: 'fat'"),
        (lambda: SampleForecast([0.0, 1.0]), ShapeError, r"samples has shape \(2,\). Pass several numbers per row"),
        (lambda: SampleForecast([[0.0, 1.0]], [1.0]), ShapeError, r"weights has shape \(1,\) for samples of"),
        (lambda: SampleForecast([[0.0, 1.0]], [0.0, 0.0]), InvalidWeightError, "row 0: 0.0 is the weight of all"),
        (lambda: SampleForecast([[0.0, 1.0]], [1.0, -2.0]), InvalidWeightError, "weights row 0: -2.0 is negative"),
        (lambda: GridForecast([0.0, 1.0], [[0.5, 0.4]]), InvalidInputError, "cdf row 0: 0.4 comes after 0.5"),
        (lambda: GridForecast([1.0, 0.0], [[0.4, 0.5]]), InvalidInputError, "y row 0: 0.0 comes after 1.0"),
        (lambda: GridForecast([0.0, 1.0], [[0.4, 1.5]]), InvalidProbabilityError, r"1.5 is outside \[0, 1\]"),
        (lambda: GridForecast([0.0, 1.0], [[0.4, 0.4]]), InvalidProbabilityError, "cdf row 0: 0.4 at all points"),
        (lambda: GridForecast([1.0, 1.0], [[0.4, 0.5]]), InvalidInputError, "y row 0: 1.0 at all points"),
        (lambda: GridForecast([0.0, 1.0, 2.0], [[0.4, 0.5]]), ShapeError, r"Pass points of shape \(2,\)"),
        (lambda: ScipyForecast(stats.norm), InvalidTypeError, "not a frozen distribution"),
        (lambda: ScipyForecast(stats.norm([0.0], [-1.0])), InvalidInputError, "frozen row 0: norm has no distribution"),
        (lambda: ScipyForecast(stats.norm([[0.0]], 1.0)), ShapeError, r"Pass numbers, or arrays of one shape \(n,\)"),
        (lambda: GaussianForecast([0.0], 1.0).cdf(np.nan), InvalidInputError, "y row 0: nan is not a number"),
        (lambda: GaussianForecast([0.0], 1.0).ppf(1.5), InvalidProbabilityError, r"u row 0: 1.5 is outside \[0, 1\]"),
        (lambda: GaussianForecast([0.0, 1.0], 1.0).cdf([1, 2, 3]), ShapeError, "the forecast has 2 rows and y has 3"),
        (lambda: GaussianForecast([0.0] * 2, 1.0).cdf(np.ones((3, 2))), ShapeError, r"\(1, m\) for the same m values"),
        (lambda: GaussianForecast([0.0, 1.0], 1.0).cdf([0.0, [1.0]]), ShapeError, "y is not a rectangular array"),
        (lambda: GaussianForecast([0.0], 1.0).sample(0), InvalidInputError, "n=0 is too small"),
        (lambda: GaussianForecast([0.0], 1.0).interval(1.0), InvalidInputError, "level=1.0 is outside"),
    ],
)  # fmt: skip
def test_refusals_name_argument_place_and_value(make, error, text):
    with pytest.raises(error, match=text):
        make()
