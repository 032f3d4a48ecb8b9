"""What bets are made of: probabilities of a fall and of a rise, what each moves, what it costs."""

from __future__ import annotations

import math
import numbers
from typing import NamedTuple, TypeAlias

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.numerics import FloatArray, IntArray
from calibrant.validation import (
    ArrayLike,
    as_labels,
    as_probabilities,
    as_scores,
    as_weight,
    check_one_column,
    check_same_length,
)

Amount: TypeAlias = float | FloatArray


class Directions(NamedTuple):
    """Probabilities of a fall, of neither, and of a rise, shape (n,) each."""

    down: FloatArray
    flat: FloatArray
    up: FloatArray


def read_directions(y_prob: ArrayLike, name: str = "y_prob") -> Directions:
    """Check probabilities of directions."""
    return _directions(as_probabilities(y_prob, name=name).values, name)


def read_bets(
    y_true: ArrayLike, y_prob: ArrayLike, sample_weight: ArrayLike | None, classes: ArrayLike | None
) -> tuple[Directions, IntArray, FloatArray]:
    """Check rows, and return their probabilities, their moves (-1, 0, 1) and their weights."""
    checked = as_probabilities(y_prob, name="y_prob")
    prob = _directions(checked.values, "y_prob")
    known = [-1, 0, 1] if classes is None and checked.n_columns == 3 else classes
    labels = as_labels(y_true, classes=known, n_columns=checked.n_columns)
    check_one_column(labels, checked.n_columns, "y_true", "y_prob")
    check_same_length(labels.codes.size, prob.up.size, "y_true", "y_prob")
    moves = labels.codes.astype(np.int64) - 1 if len(labels.classes) == 3 else 2 * labels.codes.astype(np.int64) - 1
    weight = as_weight(sample_weight, prob.up.size)
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
        return check_number(value, name, may_be_zero=may_be_zero)
    amounts = as_scores(value, name=name).values
    if amounts.ndim != 1:
        raise ShapeError(f"{name} has shape {amounts.shape}. Pass a number, or one per row, shape ({n},).")
    check_same_length(n, amounts.size, "y_prob", name)
    bad = amounts < 0.0 if may_be_zero else amounts <= 0.0
    if bad.any():
        row = int(bad.argmax())
        raise InvalidInputError(
            f"{name} row {row}: {amounts[row].item()!r} can't be used ({bad.sum():,} of {n:,} rows). "
            f"Pass numbers {_least(may_be_zero)}."
        )
    return amounts


def check_number(value: object, name: str, *, may_be_zero: bool) -> float:
    """Check one positive number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name}={value!r} is not a number. Pass a number {_least(may_be_zero)}.")
    number = float(value)
    if not math.isfinite(number) or number < 0.0 or (number == 0.0 and not may_be_zero):
        raise InvalidInputError(f"{name}={value!r} can't be used. Pass a number {_least(may_be_zero)}.")
    return number


def _least(may_be_zero: bool) -> str:
    return "of at least 0" if may_be_zero else "above 0"
