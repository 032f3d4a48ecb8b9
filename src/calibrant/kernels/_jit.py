"""The compiler's settings, said once."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first call, without the GIL, and keep the machine code on disk where that can be written."""
    try:
        return cast("Callable[P, R]", numba.njit(function, cache=True, nogil=True))
    except RuntimeError:  # no writable cache folder: a read-only install without a home directory
        return cast("Callable[P, R]", numba.njit(function, nogil=True))
