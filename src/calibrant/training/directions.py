"""Probabilities of a fall, of neither, and of a rise, of the columns that forecasts have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calibrant.errors import ShapeError
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.rows import by_class
from calibrant.validation import (
    ArrayLike,
    as_labels,
    as_probabilities,
    as_weight,
    check_one_column,
    check_same_length,
)


class Directions(NamedTuple):
    """Probabilities of a fall, of neither, and of a rise, shape (n,) each."""

    down: FloatArray
    flat: FloatArray
    up: FloatArray

    def take(self, rows: IntArray | BoolArray) -> Directions:
        """Return those of some rows."""
        return Directions(*(p[rows] for p in self))


def read_directions(y_prob: ArrayLike, name: str = "y_prob") -> Directions:
    """Check probabilities of directions; columns named after -1, 0 and 1, or two of these, are put into this order."""
    checked = as_probabilities(y_prob, name=name)
    for classes in ([-1, 0, 1], [-1, 1], [0, 1]):
        if len(classes) == checked.n_columns:
            checked = by_class(checked, np.array(classes), name)
    return _directions(checked.values, name)


def read_moves(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    sample_weight: ArrayLike | None,
    classes: ArrayLike | None,
    *,
    name: str = "y_prob",
) -> tuple[Directions, IntArray, FloatArray]:
    """Check rows, and return their probabilities of directions, their moves (-1, 0, 1) and their weights."""
    checked = as_probabilities(y_prob, name=name)
    known = [-1, 0, 1] if classes is None and checked.n_columns == 3 else classes
    labels = as_labels(y_true, classes=known, n_columns=checked.n_columns)
    check_one_column(labels, checked.n_columns, "y_true")
    prob = _directions(by_class(checked, labels.classes, name).values, name)
    check_same_length(labels.codes.size, prob.up.size, "y_true", name)
    codes, weight = labels.codes.astype(np.int64), as_weight(sample_weight, prob.up.size)
    moves = codes - 1 if len(labels.classes) == 3 else 2 * codes - 1
    return prob, moves, np.ones(prob.up.size) if weight is None else weight


def _directions(values: FloatArray, name: str) -> Directions:
    if values.ndim == 1:
        return Directions(1.0 - values, np.zeros(values.size), values)
    if values.shape[1] not in (2, 3):
        raise ShapeError(
            f"{name} has {values.shape[1]} columns. Pass the probability of a rise, or two columns (fall, rise), or "
            "three (fall, neither, rise)."
        )
    flat = np.zeros(len(values)) if values.shape[1] == 2 else values[:, 1]
    return Directions(values[:, 0], flat, values[:, -1])
