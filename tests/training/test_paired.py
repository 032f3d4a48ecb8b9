"""Block-bootstrap means: against the exact variance of a series, and brute force."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.errors import CalibrantError
from calibrant.training.paired import block_draws, block_length, effective_rows, paired_means


def moving_sums(n: int, width: int, seed: int) -> np.ndarray:
    """Sums over `width` neighbours of independent noise: losses of labels that overlap."""
    return np.convolve(np.random.default_rng(seed).normal(size=n + width - 1), np.ones(width), mode="valid")


def test_error_of_overlapping_losses_is_that_of_the_series_and_not_that_of_independent_rows() -> None:
    n, width = 20_000, 20
    losses = {"a": moving_sums(n, width, 0)}
    true = width / np.sqrt(n)  # of the mean of sums of `width` neighbours with variance 1
    block = block_length(np.arange(n), np.arange(n) + width - 1)
    assert block == pytest.approx(4 * (width - 1), abs=1)
    assert paired_means(losses, block=block)["a"].error == pytest.approx(true, rel=0.12)
    assert paired_means(losses)["a"].error < 0.3 * true


def test_interval_covers_as_often_as_it_says() -> None:
    n, width, covered = 2_000, 10, []
    for seed in range(200):
        mean = paired_means({"a": moving_sums(n, width, seed)}, block=40, level=0.9, n_draws=200)["a"]
        covered.append(mean.low <= 0.0 <= mean.high)
    assert 0.83 <= np.mean(covered) <= 0.95


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


def test_what_all_find_hard_cancels() -> None:
    hard = np.random.default_rng(7).normal(0, 10, 500)
    better = hard - 0.1 + np.random.default_rng(8).normal(0, 0.1, 500)
    found = paired_means({"base": hard, "better": better}, baseline="base", block=5)
    assert list(found) == ["better"]
    assert found["better"].high < 0.0
    assert found["better"].value == pytest.approx((better - hard).mean())
    assert paired_means({"better": better}, block=5)["better"].error > 0.2


def test_same_seed_same_bytes() -> None:
    losses = {"a": moving_sums(300, 5, 1)}
    assert paired_means(losses, rng=3) == paired_means(losses, rng=3)
    assert paired_means(losses, rng=3) != paired_means(losses, rng=4)


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
    assert effective_rows(start, start + np.timedelta64(3)) == effective_rows(np.arange(30), np.arange(30) + 3)
    assert block_length(start, start + np.timedelta64(1)) == block_length(np.arange(30), np.arange(30) + 1)


@pytest.mark.parametrize(
    ("losses", "options", "text"),
    [
        ({}, {}, "losses is empty"),
        ({"a": [1.0, float("nan")]}, {}, r"losses\['a'\] row 1: nan is not finite"),
        ({"a": [1.0], "b": [1.0, 2.0]}, {}, r"the first loss has 1 rows and losses\['b'\] has 2"),
        ({"a": [1.0]}, {"baseline": "c"}, r"baseline='c' is none of \['a'\]"),
        ({"a": [1.0]}, {"block": 0}, "block=0 is too small"),
        ({"a": [1.0]}, {"level": 1.0}, r"level=1.0 is outside \(0, 1\)"),
        ({"a": [[1.0]]}, {}, r"losses\['a'\] has shape \(1, 1\)"),
    ],
)
def test_refuses(losses: dict[str, object], options: dict[str, object], text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        paired_means(losses, **options)  # type: ignore[arg-type]


def test_a_label_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(CalibrantError, match=r"label_end row 1: 0 is before the row's time 2 \(1 of 2 rows\)"):
        block_length([0, 2], [1, 0])
