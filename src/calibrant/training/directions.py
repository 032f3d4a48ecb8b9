"""What stakes are made of: probabilities of a fall and of a rise, what each moves, what a trade costs."""

from __future__ import annotations

import numbers
from typing import NamedTuple, TypeAlias

import numpy as np

from calibrant.errors import InvalidInputError, ShapeError
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.rows import by_class
from calibrant.validation import (
    ArrayLike,
    as_labels,
    as_probabilities,
    as_scores,
    as_weight,
    check_number,
    check_one_column,
    check_same_length,
)

Amount: TypeAlias = float | FloatArray


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
    y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None, classes: ArrayLike | None
) -> tuple[Directions, IntArray, FloatArray]:
    """Check rows, and return their probabilities of directions, their moves (-1, 0, 1) and their weights."""
    checked = as_probabilities(y_prob, name="y_prob")
    known = [-1, 0, 1] if classes is None and checked.n_columns == 3 else classes
    labels = as_labels(y_true, classes=known, n_columns=checked.n_columns)
    check_one_column(labels, checked.n_columns, "y_true")
    prob = _directions(by_class(checked, labels.classes, "y_prob").values, "y_prob")
    check_same_length(labels.codes.size, prob.up.size, "y_true", "y_prob")
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


def check_amount(value: ArrayLike, name: str, n: int, *, may_be_zero: bool) -> Amount:
    """Check a positive amount: one number, or one per row."""
    if isinstance(value, (bool, str, numbers.Real)) or value is None:
        return check_number(name, value, minimum=0.0, is_open=not may_be_zero)
    amounts = as_scores(value, name=name).values
    if amounts.ndim != 1:
        raise ShapeError(f"{name} has shape {amounts.shape}. Pass a number, or one per row, shape ({n},).")
    check_same_length(n, amounts.size, "y_prob", name)
    bad = amounts < 0.0 if may_be_zero else amounts <= 0.0
    if bad.any():
        row = int(bad.argmax())
        raise InvalidInputError(
            f"{name} row {row}: {amounts[row].item()!r} can't be used ({bad.sum():,} of {n:,} rows). "
            f"Pass numbers {'of at least 0' if may_be_zero else 'above 0'}."
        )
    return amounts
