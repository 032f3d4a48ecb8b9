"""Probabilities of exactly 0 and 1 that a fit gives: counted after it, and said aloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant.errors import DataWarning, warn
from calibrant.fitted import apply_map
from calibrant.maps import InterpolatedMap
from calibrant.rows import Rows

if TYPE_CHECKING:
    from calibrant.calibrators.base import Calibrator


def warn_if_certain(calibrator: Calibrator, rows: Rows) -> None:
    """Warn where a calibrator that could have been bounded gives 0 or 1 to some of the rows that it was fitted to."""
    if getattr(calibrator, "bounded", None) is not False:
        return
    fitted = calibrator.fitted_map
    if isinstance(fitted, InterpolatedMap) and rows.is_binary:
        lowest, highest = fitted.x[fitted.y == 0.0], fitted.x[fitted.y == 1.0]  # the map rises
        n_certain = sum(int(np.count_nonzero(rows.scores <= x)) for x in lowest[-1:].tolist())
        n_certain += sum(int(np.count_nonzero(rows.scores >= x)) for x in highest[:1].tolist())
    else:
        outputs = apply_map(fitted, rows.scores, calibrator.input)
        n_certain = int(np.isin(outputs, (0.0, 1.0)).reshape(rows.n_rows, -1).any(axis=1).sum())
    if n_certain:
        warn(
            f"{calibrator.name} gives probabilities of 0 or 1 to {n_certain:,} of {rows.n_rows:,} rows: where what "
            "they rule out happens, the log loss is infinite. Pass bounded=True (--bounded) to keep them between.",
            DataWarning,
        )
