"""The problem, checked and sorted: a matrix of probabilities, the margins it shall have, and the order to keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError, InvalidProbabilityError, ShapeError
from calibrant.numerics import BoolArray, FloatArray, IntArray, row_sum
from calibrant.rank_preserving.margins import margins_in_order
from calibrant.validation import (
    ArrayLike,
    Container,
    as_probabilities,
    as_scores,
    as_weight,
    check_choice,
    check_same_length,
)

PlaceArray: TypeAlias = npt.NDArray[np.int32]
Ties: TypeAlias = Literal["equal", "free"]
Mismatch: TypeAlias = Literal["raise", "rescale"]
MarginKind: TypeAlias = Literal["totals", "rates"]
#: Rows of P must sum to one, and margins to the rows' weight, to rounding: an order can't be kept across a repair.
ROW_TOLERANCE = 1e-9
MARGIN_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Problem:
    """Columns sorted, each with the rows it came from; see `kernels.columns` for the layout.

    Attributes
    ----------
    p : shape (K, n)
        The columns of the matrix, each rising.
    order : shape (K, n)
        Row at each place.
    unit : shape (K, n + 1), or (1, n + 1) where each row is a unit of its own in every column
        First place of each unit, that is of rows that have to stay equal; only the first `n_units + 1` count.
    n_units : shape (K,)
    runs, run_start : shape (R, 2), shape (K + 1,)
        Places of equal probabilities that may separate, and where those of each column begin.
    margins : shape (K,)
        Column totals, summing to the weight of the rows.
    weight : shape (n,)
    is_kept : shape (N,) or None
        Rows of positive weight, where there are others.
    container : Container
    """

    p: FloatArray
    order: PlaceArray
    unit: PlaceArray
    n_units: IntArray
    runs: IntArray
    run_start: IntArray
    margins: FloatArray
    weight: FloatArray
    is_kept: BoolArray | None
    container: Container

    def edges(self, j: int) -> PlaceArray:
        """Return the first place of each unit of column j, and the number of rows."""
        return self.unit[min(j, len(self.unit) - 1), : self.n_units[j] + 1]

    @property
    def total(self) -> float:
        """Weight of all rows."""
        return float(self.weight.sum())

    def matrix(self, q: FloatArray, order: PlaceArray) -> FloatArray:
        """Return sorted columns as a matrix, with NaN in the rows of weight 0."""
        n_columns, n = q.shape
        out = np.empty((n, n_columns))
        for j in range(n_columns):
            out[order[j], j] = q[j]
        if self.is_kept is None:
            return out
        full = np.full((self.is_kept.size, n_columns), np.nan)
        full[self.is_kept] = out
        return full


def check_problem(
    P: ArrayLike,
    margins: ArrayLike | Mapping[Any, float],
    *,
    margin_kind: MarginKind = "totals",
    on_mismatch: Mismatch = "raise",
    ties: Ties = "equal",
    sample_weight: ArrayLike | None = None,
) -> Problem:
    """Check the arguments of `solve` and sort the columns."""
    check_choice("margin_kind", margin_kind, get_args(MarginKind))
    check_choice("on_mismatch", on_mismatch, get_args(Mismatch))
    check_choice("ties", ties, get_args(Ties))
    checked = as_probabilities(P, name="P")
    values = checked.values
    if values.ndim == 1:
        raise ShapeError(f"P has shape {values.shape}. Pass one column per class, shape (n, K).")
    _check_sums(values)
    if isinstance(sample_weight, np.ndarray) and sample_weight.ndim == 1:
        check_same_length(values.shape[0], sample_weight.size, "P", "sample_weight")
    weight = as_weight(sample_weight, values.shape[0])
    is_kept: BoolArray | None = None
    if weight is None:
        weight = np.ones(values.shape[0])
    elif not weight.all():
        is_kept = weight > 0.0
        values, weight = values[is_kept], weight[is_kept]
    names = checked.container.columns
    totals = _check_margins(margins, names, values.shape[1], float(weight.sum()), margin_kind, on_mismatch)
    return _sorted(values, totals, weight, ties, is_kept, checked.container)


def _sorted(
    values: FloatArray,
    margins: FloatArray,
    weight: FloatArray,
    ties: Ties,
    is_kept: BoolArray | None,
    container: Container,
) -> Problem:
    n, n_columns = values.shape
    p = np.empty((n_columns, n))
    order = np.empty((n_columns, n), dtype=np.int32)
    tied: dict[int, PlaceArray] = {}
    n_units = np.full(n_columns, n)
    runs: list[npt.NDArray[np.int64]] = []
    run_start = np.zeros(n_columns + 1, dtype=np.int64)
    for j in range(n_columns):
        order[j] = np.argsort(values[:, j], kind="stable")
        p[j] = values[order[j], j]
        first = np.flatnonzero(np.concatenate(([True], p[j, 1:] > p[j, :-1])))
        if ties == "free":
            end = np.append(first[1:], n)
            is_run = end - first > 1
            runs.append(np.column_stack((first[is_run], end[is_run])))
        elif first.size < n:
            n_units[j] = first.size
            tied[j] = np.append(first, n).astype(np.int32)
        run_start[j + 1] = run_start[j] + (len(runs[-1]) if runs else 0)
    unit = np.tile(np.arange(n + 1, dtype=np.int32), (n_columns if tied else 1, 1))
    for j, places in tied.items():
        unit[j, : places.size] = places
    spans = np.concatenate(runs) if runs else np.empty((0, 2), dtype=np.int64)
    return Problem(p, order, unit, n_units, spans, run_start, margins, weight, is_kept, container)


def _check_sums(values: FloatArray) -> None:
    total = row_sum(values)
    bad = np.abs(total - 1.0) > ROW_TOLERANCE
    if bad.any():
        row = int(bad.argmax())
        raise InvalidProbabilityError(
            f"P row {row}: the {values.shape[1]} probabilities sum to {total[row].item():.12g}, not 1 to rounding "
            f"({bad.sum():,} of {bad.size:,} rows). Divide each row by its sum first."
        )


def _check_margins(
    margins: ArrayLike | Mapping[Any, float],
    names: tuple[str, ...] | None,
    n_columns: int,
    total: float,
    kind: MarginKind,
    on_mismatch: Mismatch,
) -> FloatArray:
    """Return column totals that sum to the weight of the rows, or say which column or which sum can't be met."""
    labels: list[Any] = list(names) if names is not None else list(range(n_columns))
    margins, is_rate = margins_in_order(margins, names, n_columns)
    if is_rate:
        kind = "rates"
    values = as_scores(margins, name="margins").values
    if values.shape != (n_columns,):
        raise ShapeError(f"margins has shape {values.shape} for the {n_columns} columns of P. Pass one per column.")
    whole, what = (total, "the weight of all rows") if kind == "totals" else (1.0, "all rows")
    for j, value in enumerate(values.tolist()):
        if value < 0.0:
            raise InvalidInputError(
                f"margins of column {labels[j]!r}: {value!r} is negative, and no entry of Q may be. "
                "Pass numbers of at least 0."
            )
        if value > whole * (1.0 + MARGIN_TOLERANCE) and on_mismatch == "raise":
            raise InvalidInputError(
                f"margins of column {labels[j]!r}: {value!r} is above {whole:.12g}, {what}, and no entry of Q may be "
                'above 1. Pass margin_kind="totals" for totals or "rates" for rates, or on_mismatch="rescale".'
            )
    found = float(values.sum())
    if found <= 0.0:
        raise InvalidInputError("margins are all 0, and each row of Q sums to 1. Pass at least one above 0.")
    if abs(found - whole) > MARGIN_TOLERANCE * whole and on_mismatch == "raise":
        raise InvalidInputError(
            f"margins ({kind}) sum to {found:.12g}, and each of the rows to 1, {whole:.12g} in all. "
            'Pass on_mismatch="rescale" to multiply the margins by '
            f"{whole / found:.6g}, or margins that sum to {whole:.12g}."
        )
    scaled: FloatArray = values * (total / found)
    return scaled
