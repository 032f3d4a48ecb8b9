"""Probabilities of exactly 0 and 1 that a fit gives: counted after it, and said aloud."""

from __future__ import annotations

import numpy as np

from calibrant.errors import DataWarning, warn
from calibrant.fitted import apply_map
from calibrant.maps import InterpolatedMap, Map
from calibrant.rows import Rows
from calibrant.validation import InputKind


def warn_if_certain(name: str, fitted: Map, rows: Rows, input: InputKind) -> None:
    """Warn where the map, fitted to these rows by the method of this name, gives some of them 0 or 1."""
    if isinstance(fitted, InterpolatedMap) and rows.is_binary:
        lowest, highest = fitted.x[fitted.y == 0.0], fitted.x[fitted.y == 1.0]  # the map rises
        n_certain = sum(int(np.count_nonzero(rows.scores <= x)) for x in lowest[-1:].tolist())
        n_certain += sum(int(np.count_nonzero(rows.scores >= x)) for x in highest[:1].tolist())
    else:
        outputs = apply_map(fitted, rows.scores, input)
        n_certain = int(np.isin(outputs, (0.0, 1.0)).reshape(rows.n_rows, -1).any(axis=1).sum())
    if n_certain:
        warn(
            f"{name} gives probabilities of 0 or 1 to {n_certain:,} of {rows.n_rows:,} rows: where what they rule out "
            "happens, the log loss is infinite. Pass bounded=True (--bounded) to keep them between.",
            DataWarning,
        )
