"""Scores of predictions of a number: scikit-learn's, and intervals that hold the truth as often as they say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import mean_squared_error

from calibrant.rows import read_number_rows
from calibrant.segments import compare_numbers


def rows_of(n, rng, **more):
    p = rng.normal(size=n)
    y = p + 0.5 + rng.exponential(size=n)
    return read_number_rows(p, y, names=("predictions", "y"), **more), p, y


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    w = rng.integers(1, 4, 500)
    rows, p, y = rows_of(500, rng, sample_weight=w)
    found = compare_numbers(rows, p + 1.0, level=0.9, evaluated_on="given data")
    before, after = (mean_squared_error(y, q, sample_weight=w) for q in (p, p + 1.0))
    assert found.before["mse"].value == pytest.approx(before)
    assert found.after["mse"].value == pytest.approx(after)
    assert found.change.value == pytest.approx(after - before)
    assert found.before["mean_error"].value == pytest.approx(np.average(p - y, weights=w))
    assert found.change.high < 0.0
    assert found.verdict.startswith("The mean squared error is lower by ")
    assert found.change.level == 0.9
    assert json.loads(json.dumps(found.to_dict()))["differences"]["after"]["scores"][0]["name"] == "mse_difference"


def test_a_correction_that_changes_nothing_is_shown_to_change_nothing():
    rows, p, _ = rows_of(200, np.random.default_rng(1))
    found = compare_numbers(rows, p.copy(), level=0.95, evaluated_on="given data")
    assert (found.change.value, found.change.low, found.change.high) == (0.0, 0.0, 0.0)
    assert found.verdict.startswith("No difference of the mean squared error that these rows show")


@pytest.mark.parametrize("clustered", [False, True])
def test_the_interval_of_the_change_holds_the_truth(clustered):
    n_runs, held = 200, 0
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        cluster = rng.integers(0, 40, 200) if clustered else np.arange(200)
        p = rng.normal(size=200)
        shared = rng.normal(size=200)[cluster]
        y = p + shared + rng.normal(size=200)
        rows = read_number_rows(p, y, names=("p", "y"), cluster=cluster if clustered else None)
        found = compare_numbers(rows, p + 0.3, level=0.9, evaluated_on="given data")
        held += found.change.low <= 0.09 <= found.change.high
    assert held >= binom.ppf(0.001, n_runs, 0.88)
