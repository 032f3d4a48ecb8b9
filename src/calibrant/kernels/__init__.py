"""The project's compiled loops. Importing this folder imports no compiler; the first use of a loop does."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.kernels.lookup import interpolate, take_step
    from calibrant.kernels.pav import pool_keys, pool_weighted
    from calibrant.kernels.refit import refit_drawn_labels
    from calibrant.kernels.sorting import (
        count_distinct,
        mend_order,
        pack_signed,
        radix_sort,
        run_lengths,
        weighted_runs,
    )

_HOME = {
    "count_distinct": "sorting",
    "interpolate": "lookup",
    "mend_order": "sorting",
    "pack_signed": "sorting",
    "pool_keys": "pav",
    "pool_weighted": "pav",
    "radix_sort": "sorting",
    "refit_drawn_labels": "refit",
    "run_lengths": "sorting",
    "take_step": "lookup",
    "weighted_runs": "sorting",
}

__all__ = [
    "count_distinct",
    "interpolate",
    "mend_order",
    "pack_signed",
    "pool_keys",
    "pool_weighted",
    "radix_sort",
    "refit_drawn_labels",
    "run_lengths",
    "take_step",
    "weighted_runs",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"calibrant.kernels.{_HOME[name]}"), name)
