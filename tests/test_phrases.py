"""How figures are written: large ones, small differences, and what is rounding."""

from __future__ import annotations

import re

import numpy as np
import pytest

from calibrant.metrics import compare_models
from calibrant.phrases import bracketed, figure


@pytest.mark.parametrize(
    ("value", "text", "ends"),
    [
        (3593.911, "3,593.9", "[3,593.9, 7,187.8]"),
        (-12_345_678.0, "-12,345,678.0", "[-24,691,356.0, -12,345,678.0]"),
        (0.25, "0.2500", "[0.2500, 0.5000]"),
        (999.5, "999.5000", "[999.5, 1,999.0]"),
        (3.85e19, "3.85e+19", "[3.85e+19, 7.7e+19]"),
    ],
)
def test_large_figures_have_thousands_and_one_decimal(value: float, text: str, ends: str) -> None:
    assert figure(value) == text
    assert bracketed(*sorted((value, 2.0 * value))) == ends


@pytest.mark.parametrize("size", [3e-9, 2e-12])
def test_a_difference_beside_a_verdict_is_not_shown_as_none(size: float) -> None:
    """'b' was better by 0.000, with an interval from 0.000 to 0.000."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, 2_000)
    y = (rng.random(2_000) < p).astype(int)
    said = compare_models(y, {"a": p, "b": p + (2 * y - 1) * size}).verdict
    number = r"\d\.\de-\d\d"
    assert re.search(rf"its log loss is lower by {number} \(95% interval {number} to {number}\)", said), said


def test_the_interval_of_a_small_difference_holds_it() -> None:
    """+6.0e-09 stood beside [0.0000, 0.0000]."""
    assert bracketed(5.9e-9, 6.2e-9) == "[5.9e-09, 6.2e-09]"
    assert bracketed(-2e-12, 0.0) == "[-2.0e-12, 0]"
    assert bracketed(-1e-16, 1e-16) == "[0.0000, 0.0000]"


def test_rounding_is_shown_as_no_difference() -> None:
    assert (figure(1e-16, sign=True), figure(-3e-10, sign=True), figure(3e-10)) == ("+0.0000", "-3.0e-10", "0.0000")
