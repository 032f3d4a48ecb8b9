"""Numbers and names as pages write them."""

from __future__ import annotations

import pytest

from calibrant.phrases import percent_level, shorten
from calibrant.report.pages import decimals, percent, signed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (percent(0.1234), "12.3%"),
        (percent(0.00042), "0.042%"),
        (percent(0.0), "0.0%"),
        (percent(1.0), "100.0%"),
        (percent_level(0.999), "99.9%"),
        (decimals(-0.00001), "\N{MINUS SIGN}0.000010"),
        (decimals(-1e-9), "0.0000"),
        (decimals(-0.5), "\N{MINUS SIGN}0.5000"),
        (signed(0.0401), "+0.040"),
        (signed(-0.0401), "\N{MINUS SIGN}0.040"),
        (signed(0.00037), "+0.00037"),
        (signed(1e-9), "0.000"),
        (signed(-0.0001), "\N{MINUS SIGN}0.00010"),
        (shorten("abcdef", 4), "abc\N{HORIZONTAL ELLIPSIS}"),
        (shorten("abcd", 4), "abcd"),
    ],
)
def test_numbers_and_names_are_written_plainly(text: str, expected: str) -> None:
    assert text == expected
