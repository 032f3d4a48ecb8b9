"""The problem, checked once at the gate: rows of probabilities, the margins they shall have, the order to keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError, InvalidProbabilityError, ShapeError
from calibrant.kernels import SortedColumns
from calibrant.numerics import BoolArray, FloatArray, row_sum
from calibrant.rank_preserving.margins import read_margins
from calibrant.validation import (
    ArrayLike,
    Container,
    Scores,
    as_probabilities,
    as_scores,
    as_weight,
    check_choice,
    check_same_length,
)

Ties: TypeAlias = Literal["equal", "free"]
Mismatch: TypeAlias = Literal["raise", "rescale"]
MarginKind: TypeAlias = Literal["totals", "rates"]
#: Rows of P must sum to one, and margins to the rows' weight, to rounding: an order can't be kept across a repair.
ROW_TOLERANCE = 1e-9
MARGIN_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """Rows of probabilities that have passed the gate: shape (n, K), with weights of shape (n,), some of them 0."""

    values: FloatArray
    weight: FloatArray
    container: Container

    def take(self, rows: BoolArray) -> WeightedRows:
        """Return some of the rows, as an array."""
        return WeightedRows(self.values[rows], self.weight[rows], Container(None, self.container.columns))


@dataclass(frozen=True, slots=True)
class Origin:
    """What an answer needs to become what the caller passed: its container, and which rows have weight."""

    container: Container
    is_kept: BoolArray | None

    def wrap(self, q: FloatArray) -> Any:
        """Return a matrix of the rows that have weight as the kind that came in, NaN in all others."""
        if self.is_kept is not None:
            full = np.full((self.is_kept.size, q.shape[1]), np.nan)
            full[self.is_kept] = q
            q = full
        return self.container.wrap(q)


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows of positive weight, shape (n, K), their weights, and the totals that the columns shall have."""

    values: FloatArray
    weight: FloatArray
    margins: FloatArray
    origin: Origin

    @property
    def total(self) -> float:
        """Weight of all rows."""
        return float(self.weight.sum())

    @property
    def rates(self) -> FloatArray:
        """What the columns shall have on average."""
        rates: FloatArray = self.margins / self.total
        return rates

    def names(self) -> list[Any]:
        """Return the names of the columns, or their numbers."""
        return list(self.origin.container.columns or range(self.margins.size))

    def columns(self, ties: Ties = "equal") -> SortedColumns:
        """Sort each column by itself, and find the rows that have to stay equal there or may separate."""
        n, n_columns = self.values.shape
        p = np.empty((n_columns, n))
        order = np.empty((n_columns, n), dtype=np.int32)
        tied: dict[int, npt.NDArray[np.int64]] = {}
        n_ties = np.full(n_columns, n)
        free: list[npt.NDArray[np.int64]] = [np.empty((0, 2), dtype=np.int64)]
        free_start = np.zeros(n_columns + 1, dtype=np.int64)
        for j in range(n_columns):
            order[j] = np.argsort(self.values[:, j], kind="stable")
            p[j] = self.values[order[j], j]
            first = np.flatnonzero(np.concatenate(([True], p[j, 1:] > p[j, :-1])))
            end = np.append(first[1:], n)
            free_start[j + 1] = free_start[j]
            if ties == "free":
                free.append(np.column_stack((first, end))[end - first > 1])
                free_start[j + 1] += len(free[-1])
            elif first.size < n:
                n_ties[j] = first.size
                tied[j] = np.append(first, n)
        tie = np.tile(np.arange(n + 1, dtype=np.int32), (n_columns if tied else 1, 1))
        for j, places in tied.items():
            tie[j, : places.size] = places
        return SortedColumns(p, order, tie, n_ties, np.concatenate(free), free_start, self.margins, self.weight)


def unsorted(q: FloatArray, order: npt.NDArray[np.int32]) -> FloatArray:
    """Return sorted columns as a matrix."""
    out = np.empty(q.shape[::-1])
    for j, rows in enumerate(order):
        out[rows, j] = q[j]
    return out


def affine_feasible_point(columns: SortedColumns, *, share: float = 1.0) -> tuple[FloatArray, float]:
    """Return a and c of a_j + c P_ij, with `share` of the largest c in [0, 1] that leaves no entry negative.

    Notes
    -----
    The margins fix a_j = (M_j - c sum_i w_i P_ij) / sum_i w_i, and sum_j a_j = 1 - c follows. Every order is kept,
    strictly while c > 0; c = 0, equal rows, is feasible whatever P is. So margins that are not negative and sum to
    the weight of the rows are never at odds with the order.
    """
    mean = np.array([np.average(p, weights=columns.weight[o]) for p, o in zip(columns.p, columns.order, strict=True)])
    rate = columns.margins / columns.total
    spread = mean - columns.p[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.where(spread > 0.0, rate / spread, np.inf)
    c = share * min(1.0, float(largest.min()))
    constant: FloatArray = rate - c * mean
    return constant, c


def affine_columns(columns: SortedColumns, constant: FloatArray, slope: float) -> FloatArray:
    """Return the sorted columns a_j + c P_ij; what rounding leaves below 0 is 0."""
    q: FloatArray = slope * columns.p
    q += constant[:, None]
    return np.maximum(q, 0.0, out=q)


def as_matrix(P: ArrayLike, name: str) -> Scores:
    """Check a matrix of probabilities, a column per class."""
    checked = as_probabilities(P, name=name)
    if checked.values.ndim == 1:
        raise ShapeError(f"{name} has shape {checked.values.shape}. Pass one column per class, shape (n, K).")
    return checked


def column_names(container: Container) -> tuple[str, ...] | None:
    """Return the names of a frame's columns; a frame whose columns are merely numbered has none."""
    names = container.columns
    return None if names == tuple(map(str, range(len(names or ())))) else names


def check_rows(P: ArrayLike, sample_weight: ArrayLike | None) -> WeightedRows:
    """Check P and the weights of its rows: each row sums to 1 to rounding."""
    checked = as_matrix(P, "P")
    values = checked.values
    total = row_sum(values)
    bad = np.abs(total - 1.0) > ROW_TOLERANCE
    if bad.any():
        row = int(bad.argmax())
        raise InvalidProbabilityError(
            f"P row {row}: the {values.shape[1]} probabilities sum to {total[row].item():.12g}, not 1 to rounding "
            f"({bad.sum():,} of {bad.size:,} rows). Divide each row by its sum first."
        )
    if isinstance(sample_weight, np.ndarray) and sample_weight.ndim == 1:
        check_same_length(values.shape[0], sample_weight.size, "P", "sample_weight")
    weight = as_weight(sample_weight, values.shape[0])
    return WeightedRows(values, np.ones(values.shape[0]) if weight is None else weight, checked.container)


def check_problem(
    rows: WeightedRows,
    margins: ArrayLike | Mapping[Any, float],
    *,
    margin_kind: MarginKind = "totals",
    on_mismatch: Mismatch = "raise",
) -> Problem:
    """Check margins against the rows, and leave out rows of weight 0."""
    check_choice("margin_kind", margin_kind, get_args(MarginKind))
    check_choice("on_mismatch", on_mismatch, get_args(Mismatch))
    values, weight, is_kept = rows.values, rows.weight, None
    if not weight.all():
        is_kept = weight > 0.0
        values, weight = values[is_kept], weight[is_kept]
    totals = _check_margins(margins, rows.container, values.shape[1], float(weight.sum()), margin_kind, on_mismatch)
    return Problem(values, weight, totals, Origin(rows.container, is_kept))


def _check_margins(
    margins: ArrayLike | Mapping[Any, float],
    container: Container,
    n_columns: int,
    total: float,
    kind: MarginKind,
    on_mismatch: Mismatch,
) -> FloatArray:
    """Return column totals that sum to the weight of the rows, or say which column or which sum can't be met."""
    labels: list[Any] = list(container.columns or range(n_columns))
    margins, order, is_rate = read_margins(margins, column_names(container), n_columns)
    if is_rate:
        kind = "rates"
    values = as_scores(margins, name="margins").values
    if order is not None:
        values = values[order]
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
