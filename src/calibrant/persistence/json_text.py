"""Documents as JSON text: written with the shortest digits that give the same float64, read with bounds."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import numpy as np

from calibrant.errors import DocumentError
from calibrant.persistence.limits import MAX_VALUES, Unreadable, check_size, too_large

#: A string, or what there is of one that never ends; possessive, so that no text makes it backtrack.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
#: More digits than any integer of 64 bits has.
_MOST_DIGITS = 20


def dump(document: dict[str, Any]) -> bytes:
    """Return a document as JSON in UTF-8, one line."""
    return (json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n").encode()


def parse(data: bytes, fix: str = "") -> object:
    """Return what JSON text holds, with `Unreadable` in the place of duplicate keys and oversized integers.

    `fix` mends what is no JSON, of a file that is no calibrant document. It may begin with a byte order mark, which
    editors write.
    """
    try:
        text = data.decode("utf-8-sig" if fix else "utf-8")
    except UnicodeDecodeError as error:
        of_document = (
            "A calibrant document is JSON in UTF-8, or a pickle of plain data: pass the file that calibrant.save"
        )
        raise DocumentError(
            f"byte {error.start:,} is {data[error.start]:#04x}, which is not UTF-8. {fix or f'{of_document} wrote.'}"
        ) from None
    _check_structure(data)
    try:
        return json.loads(text, parse_int=_integer, object_pairs_hook=_members)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            raise DocumentError(
                f"the JSON ends too early, at {where}: {error.msg}. {fix or 'The file is cut short; copy it again.'}"
            ) from None
        raise DocumentError(
            f"not JSON, at {where}: {error.msg}. {fix or 'Pass the file that calibrant.save wrote, unchanged.'}"
        ) from None


def _check_structure(data: bytes) -> None:
    """Bound what parsing can cost, by counting brackets and commas outside strings."""
    if data.count(b'"') > 4 * MAX_VALUES:
        raise too_large(f"has more than {2 * MAX_VALUES:,} strings")
    structure = _STRING.sub(b"", data).translate(None, _NOT_STRUCTURE)
    brackets = structure.replace(b",", b"")
    check_size(len(structure) - len(brackets), len(brackets) // 2)
    codes = np.frombuffer(brackets, np.uint8)
    is_opening = (codes == ord("[")) | (codes == ord("{"))
    check_size(depth=int(np.cumsum(np.where(is_opening, 1, -1)).max(initial=0)))


def _integer(digits: str) -> object:
    if len(digits) > _MOST_DIGITS:
        return Unreadable(f"a whole number of {len(digits):,} digits needs more than 64 bits", "Write it as text.")
    return int(digits)


def _members(pairs: list[tuple[str, object]]) -> object:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
    return Unreadable(f"the key {key!r:.60} is there twice", "Remove one of the two.")
