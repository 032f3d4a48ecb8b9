"""Numbers as pages write them."""

from __future__ import annotations

from typing import Any


def percent(share: float) -> str:
    """Write a share as a percentage with one decimal, or three below 0.1%."""
    return f"{100.0 * share:.{3 if 0.0 < abs(share) < 0.00095 else 1}f}%"


def decimals(value: float, digits: int = 4) -> str:
    """Write a number with fixed decimals, a true minus sign, and no sign on zero."""
    if round(value, digits) == 0.0:
        value = 0.0
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def signed(value: float, digits: int = 3) -> str:
    """Write a difference with its sign."""
    text = decimals(value, digits)
    return f"+{text}" if round(value, digits) > 0.0 else text


def figure(score: dict[str, Any], digits: int = 4) -> str:
    """Write the value of a score that may be undefined."""
    return "undefined" if score["value"] is None else decimals(score["value"], digits)


def ends(score: dict[str, Any], digits: int = 4) -> str:
    """Write the interval of a score that may have none."""
    if score["low"] is None or score["high"] is None:
        return ""
    return f"{decimals(score['low'], digits)} to {decimals(score['high'], digits)}"


def count(value: float) -> str:
    """Write a count of rows, or a sum of weights with one decimal."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def digits_of(upper: float) -> int:
    """Return the decimals that numbers up to `upper` need for three figures."""
    return 3 if upper > 0.2 else 4 if upper > 0.02 else 5


def sentence(text: str) -> str:
    """Write a note as a sentence."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
