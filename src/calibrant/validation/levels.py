"""Levels of a category, or names of groups, found among those of a fit, whatever types the two have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

_TRUTH_VALUES = {"true": True, "false": False}
#: A whole number of 64 bits as a text file writes it, which may be one of a column of floats.
_WHOLE = re.compile(r"(-?[0-9]{1,20})(\.0*)?")


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
