"""Numbers, names and lists of them, as messages, verdicts and pages write them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

FIRST_STRONG_ISOLATE, POP_ISOLATE = "\u2068", "\u2069"
#: Control characters but for those that end lines and cells; with what turns the direction of all that follows.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ORDER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066\u2067]")
_SURROGATE = re.compile("[\ud800-\udfff]")
#: What begins and ends bold text.
_BOLD = re.compile("(\x1b\\[[01]m)")


def count(n: int, noun: str) -> str:
    """Return a number of things: "1 row", "2,000 rows"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def listed(items: Sequence[object], *, most: int = 20) -> str:
    """Return items in one line, separated by commas, and how many more there are than `most`."""
    more = f", and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(str(item) for item in items[:most]) + more


def under(heading: str, lines: Iterable[str]) -> list[str]:
    """Return a heading and the lines of its part, which stand further in."""
    return [f"{heading}:", *(f"  {line}" for line in lines)]


def quoted(values: Sequence[object], *, most: int = 20) -> str:
    """Return labels or names as Python writes them, in one line: 'a', 'b', and 7 more."""
    return listed([f"{value!r:.60}" for value in values[:most]] + [""] * max(len(values) - most, 0), most=most)


def capitalised(text: str) -> str:
    """Return a text that begins with a capital letter, and is else as it was."""
    return text[:1].upper() + text[1:]


def uncapitalised(text: str) -> str:
    """Return a text that begins with a small letter, and is else as it was."""
    return text[:1].lower() + text[1:]


def rate(value: float) -> str:
    """Write a rate with two decimals, and below 0.1 with two significant figures."""
    return f"{value:.{decimals(value, 2)}f}"


def figure(value: float, *, sign: bool = False) -> str:
    """Write what was measured with four decimals or two significant figures; what is infinite or undefined in words."""
    if math.isnan(value):
        return "n/a"
    if math.isinf(value):
        return "infinite" if value > 0.0 else "minus infinity"
    return _by_power(value, sign=True) if sign and _is_tiny(value) else fixed(value, decimals(value, 4), sign=sign)


def bracketed(low: float, high: float) -> str:
    """Write the ends of an interval with the decimals of the larger one; nothing where one is infinite or undefined."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"[{', '.join(_ends(low, high, 4))}]"


def difference(value: float, *, sign: bool = False, scale: float | None = None) -> str:
    """Write a difference of rates with three decimals, or more where `scale`, by default it, is below 0.01."""
    scale = value if scale is None else scale
    return _by_power(value, sign=sign) if _is_tiny(scale) else fixed(value, decimals(scale, 3), sign=sign)


def interval(level: float, low: float, high: float) -> str:
    """Write the interval of a difference of rates: "95% interval -0.010 to 0.016"."""
    return f"{percent_level(level)} interval {' to '.join(_ends(low, high, 3))}"


def _ends(low: float, high: float, least: int) -> tuple[str, str]:
    """Write the ends of an interval with the decimals of the larger one, `least` at least."""
    scale = max(abs(low), abs(high))
    if _is_tiny(scale):
        return _by_power(low), _by_power(high)
    digits = decimals(scale, least)
    return fixed(low, digits), fixed(high, digits)


def _is_tiny(scale: float) -> bool:
    """Say whether a difference has no figure among eight decimals, and is more than rounding."""
    return 1e-14 <= abs(scale) < 1e-8


def _by_power(value: float, *, sign: bool = False) -> str:
    return f"{value:{'+' if sign else ''}.1e}" if value else "0"


def deviations(sigma: float) -> str:
    """Write an error in standard deviations, which is infinite where nothing could vary and something did."""
    if math.isinf(sigma):
        return "infinitely many standard deviations, as nothing there could vary"
    return f"{sigma:.3g} standard deviations"


def p_value(value: float) -> str:
    """Write a p-value with two significant figures, or that it is below 0.001."""
    return "< 0.001" if value < 0.001 else f"{value:#.2g}"


def percent_level(level: float) -> str:
    """Write a level such as 0.95 as 95%; one that was corrected for many comparisons with four figures or more."""
    text = f"{100.0 * level:.4g}"
    return f"{text if text != '100' else f'{100.0 * level:.10g}'}%"


def fixed(value: float, digits: int, *, sign: bool = False) -> str:
    """Write a number with so many decimals, and commas between thousands; what has more than 15 digits by its power."""
    plus = "+" if sign else ""
    return f"{value:{plus}.4g}" if 1e15 <= abs(value) < math.inf else f"{value:{plus}z,.{digits}f}"


def decimals(value: float, least: int) -> int:
    """Return how many decimals show two significant figures: from `least` to eight, and `least` of what is smaller.

    Of 1,000 and more it is one.
    """
    if abs(value) < 1e-8 or not math.isfinite(value):
        return least
    if abs(value) >= 1e3:
        return 1
    return max(least, min(1 - math.floor(math.log10(abs(value))), 8))


def clean(text: object) -> str:
    """Return text that any page, file or terminal can hold: no control characters, no halves of surrogate pairs.

    Nor has it the two characters that `isolated` sets around names.
    """
    kept = str(text).replace(FIRST_STRONG_ISOLATE, "").replace(POP_ISOLATE, "")
    printable = _CONTROL.sub("\ufffd", re.sub("[\t\r\n]", " ", kept))
    return printable.encode("utf-8", "replace").decode("utf-8")


def has_half_pair(text: str) -> bool:
    """Say whether text holds half a surrogate pair, which UTF-8 can't."""
    return _SURROGATE.search(text) is not None


def for_terminal(text: str) -> str:
    """Return lines of text without what a terminal would obey: control characters are shown by their codes.

    Lines may be bold.
    """
    parts = _BOLD.split(text)
    shown = [_ORDER.sub(lambda found: found[0].encode("unicode_escape").decode(), part) for part in parts[::2]]
    return "".join(a + b for a, b in zip_longest(shown, parts[1::2], fillvalue=""))


def shorten(text: str, most: int) -> str:
    """Cut a long name, and say so by an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def isolated(text: str) -> str:
    """Set a name apart from the direction of the text around it: a name that runs from right to left stays one."""
    return f"{FIRST_STRONG_ISOLATE}{text}{POP_ISOLATE}"


def legible(text: object, most: int) -> str:
    """Return a name as it can stand in a sentence: cleaned, cut, and isolated if it has letters beyond ASCII."""
    shown = shorten(clean(text), most)
    return shown if shown.replace("\N{HORIZONTAL ELLIPSIS}", "").isascii() else isolated(shown)


def in_quotes(text: object, most: int) -> str:
    """Return a name in quotes, as it can stand in a sentence."""
    return f"'{legible(text, most)}'"
