"""Labels that overlap: how many independent ones they are worth, block lengths and bootstrap draws by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.dependence import block_draws, block_length, effective_rows
from calibrant.errors import CalibrantError


def test_draws_are_the_means_of_circular_blocks() -> None:
    rng = np.random.default_rng(5)
    table = rng.normal(size=(23, 2))
    got = block_draws(table, 7, 50, np.random.default_rng(6))
    starts = np.random.default_rng(6).integers(0, 23, (50, 4))
    for draw, first in zip(got, starts, strict=True):
        sizes = (2, 7, 7, 7)  # the first block is cut, so that 23 rows are drawn
        rows = [(s + i) % 23 for s, size in zip(first, sizes, strict=True) for i in range(size)]
        assert len(rows) == 23
        np.testing.assert_allclose(draw, table[rows].mean(axis=0), atol=1e-12)


def test_a_block_is_a_tenth_of_the_rows_at_most() -> None:
    assert block_length(np.arange(50), np.arange(50) + 30) == 5
    assert block_length([0, 1, 2], [0, 1, 2]) == 1


def test_independent_rows_are_what_concurrent_labels_share() -> None:
    assert effective_rows(np.arange(10), np.arange(10)) == pytest.approx(10.0)
    assert effective_rows(np.zeros(4), np.ones(4)) == pytest.approx(1.0)
    n, width = 2_000, 20
    assert effective_rows(np.arange(n), np.arange(n) + width - 1) == pytest.approx(n / width, rel=0.01)
    rng = np.random.default_rng(9)
    start = np.sort(rng.integers(0, 60, 40))
    end = start + rng.integers(0, 9, 40)
    moments = np.unique(start)
    brute = sum(
        np.mean([1.0 / np.sum((start <= t) & (t <= end)) for t in moments if s <= t <= e])
        for s, e in zip(start, end, strict=True)
    )
    assert effective_rows(start, end) == pytest.approx(brute)


def test_datetimes_count_like_numbers() -> None:
    start = np.datetime64("2020-01-01") + np.arange(30)
    assert effective_rows(start, start + np.timedelta64(3, "D")) == effective_rows(np.arange(30), np.arange(30) + 3)
    assert block_length(start, start + np.timedelta64(1, "D")) == block_length(np.arange(30), np.arange(30) + 1)


def test_a_label_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(CalibrantError, match=r"label_end row 1: 0 is before the row's time 2 \(1 of 2 rows\)"):
        block_length([0, 2], [1, 0])
