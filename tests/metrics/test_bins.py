"""Bins of many rows that are not sorted: the same as those of their summary."""

from __future__ import annotations

import numpy as np
import pytest
from metric_data import draw_weights

from calibrant.metrics.bins import bin_rows, make_bins
from calibrant.rows import Rows

N = 50_000
DRAWS = {
    "spread": lambda rng: rng.random(N),
    "skewed": lambda rng: rng.beta(0.1, 3.0, N),
    "narrow": lambda rng: 0.5 + 1e-7 * rng.random(N),
    "rounded": lambda rng: rng.random(N).round(2),
    "many zeros": lambda rng: np.where(rng.random(N) < 0.6, 0.0, rng.random(N)),
    "two values": lambda rng: rng.choice([0.3, 1.0], N),
    "constant": lambda _: np.full(N, 0.25),
    "on the edges": lambda rng: rng.integers(0, 21, N) / 20,
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [1, 10, 137])
def test_bins_of_rows_equal_those_of_their_summary(draw, weighted, strategy, n_bins):
    rng = np.random.default_rng(7)
    p = DRAWS[draw](rng)
    rows = Rows.of_positives(p, rng.random(N) < p, draw_weights(N) if weighted else None)
    ours, expected = bin_rows(rows, n_bins, strategy), make_bins(rows.summary(), n_bins, strategy)
    np.testing.assert_allclose(ours.edges, expected.edges, rtol=0, atol=1e-15)
    for name in ("weight", "weight_squared", "positives", "score_sum"):
        np.testing.assert_allclose(getattr(ours, name), getattr(expected, name), rtol=1e-10, err_msg=name)


def test_few_rows_and_isotonic_blocks_are_those_of_the_summary():
    rng = np.random.default_rng(8)
    for n, strategy in ((500, "quantile"), (N, "isotonic")):
        p = rng.random(n)
        rows = Rows.of_positives(p, rng.random(n) < p, None)
        ours, expected = bin_rows(rows, 10, strategy), make_bins(rows.summary(), 10, strategy)
        np.testing.assert_array_equal(ours.edges, expected.edges)
        np.testing.assert_array_equal(ours.score_sum, expected.score_sum)
