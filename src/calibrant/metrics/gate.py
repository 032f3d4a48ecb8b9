"""The gate of the metrics: labels first, then probabilities, as scikit-learn's metrics have them."""

from __future__ import annotations

from typing import Any

from calibrant.rows import Rows, read_rows
from calibrant.validation import ArrayLike


def measured_rows(y_true: ArrayLike, y_prob: ArrayLike, **what: Any) -> Rows:
    """Check the arguments of a metric; `what` goes to `calibrant.rows.read_rows`."""
    return read_rows(y_prob, y_true, names=("y_prob", "y_true"), **what)
