"""Levels of a category, labels and groups: which numbers name one, and which of a fit they are, whatever their type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.numerics import BoolArray

#: What to do about floats that are no names for certain.
FLOAT_FIX = (
    "A float of this size stands for many whole numbers. Pass integers of 64 bits, or strings; in a text file write a "
    "letter before each."
)
_TOO_LARGE = np.float64(2.0**63)
_TRUTH_VALUES = {"true": True, "false": False}
#: A whole number of 64 bits as a text file writes it, which may be one of a column of floats.
_WHOLE = re.compile(r"(-?[0-9]{1,20})(\.0*)?")


def beyond_64_bits(values: npt.NDArray[np.floating[Any]]) -> BoolArray:
    """Say which floats are no whole numbers of 64 bits, as which they would all become the same one."""
    return np.asarray((values >= _TOO_LARGE) | (values < -_TOO_LARGE))


def match_levels(given: Sequence[Any], known: Sequence[Any]) -> list[float]:
    """Return the place of each given level among the known ones, NaN for others.

    Each are of one type, but files, and parts of one, may differ in types. Truth values are the numbers 0 and 1. Text
    is the number or the truth value that it spells. A number is the level whose text it has: where the text `007` was
    read as a number, that is the level whose text is the number 7, if no level is the text `7`.
    """
    place = {level: float(i) for i, level in enumerate(known)}
    if not known or not given or isinstance(known[0], str) == isinstance(given[0], str):
        return [place.get(level, np.nan) for level in given]  # True is 1 and False is 0, as dicts compare them
    if isinstance(given[0], str):
        return [place.get(_spelled_by(text), np.nan) for text in given]
    place = {level_text(level): i for level, i in place.items()}
    if type(given[0]) is int:
        for text, i in list(place.items()):
            if text.isdecimal():
                place.setdefault(str(int(text)), i)
    return [place.get(level_text(level), np.nan) for level in given]


def level_text(level: object) -> str:
    """Return the text of a level; true and false as files write them."""
    text = str(level)
    return text.lower() if text.lower() in _TRUTH_VALUES else text


def _spelled_by(text: str) -> int | None:
    """Return the whole number or truth value that a text spells, or None."""
    word = text.strip().lower()
    whole = _WHOLE.fullmatch(word)
    return _TRUTH_VALUES.get(word) if whole is None else int(whole[1])
