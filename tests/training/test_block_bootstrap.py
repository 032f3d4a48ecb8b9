"""Block-bootstrap means: against the exact variance of a series."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.dependence import block_length
from calibrant.errors import CalibrantError
from calibrant.training.block_bootstrap import paired_means


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
