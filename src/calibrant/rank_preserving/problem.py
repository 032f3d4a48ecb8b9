"""The problem, checked once at the gate: rows of probabilities, their margins, and the order with what may break it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from calibrant.errors import DataWarning, InvalidInputError, InvalidProbabilityError, ShapeError, warn
from calibrant.kernels import SortedColumns
from calibrant.numerics import EPS, BoolArray, FloatArray, IntArray, row_sum
from calibrant.rank_preserving.margins import Wanted, read_margins
from calibrant.rows import Rows
from calibrant.validation import (
    ArrayLike,
    Container,
    Scores,
    as_probabilities,
    as_weight,
    check_choice,
    read_native,
)

Ties: TypeAlias = Literal["equal", "free"]
Mismatch: TypeAlias = Literal["raise", "rescale"]
MarginKind: TypeAlias = Literal["totals", "rates"]
#: Rows of P must sum to one, and margins to the rows' weight, to rounding: an order can't be kept across a repair.
ROW_TOLERANCE = 1e-9
MARGIN_TOLERANCE = 1e-9
#: Margins that are multiplied by a number this far from 1 are warned of.
_LARGE_RESCALING = 0.01
#: Of an interval, so that nothing is left of it.
_HALVINGS = 100
#: What rounding makes of the sum of a row of so many bits: such rows are divided by it.
_ROUNDING = {np.dtype(np.float32): 1e-5, np.dtype(np.float16): 5e-2}


@dataclass(frozen=True, slots=True)
class Origin:
    """What an answer goes back to: the container of P, which of its rows have weight, and the totals asked for."""

    container: Container
    is_kept: BoolArray | None
    margins_given: FloatArray | None = None

    def wrap(self, q: FloatArray) -> Any:
        """Return a matrix of the rows that have weight as the kind that came in; the other rows are NaN."""
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
    room: FloatArray
    give: FloatArray
    origin: Origin

    @property
    def total(self) -> float:
        """Weight of all rows."""
        return float(self.weight.sum())

    @property
    def rates(self) -> FloatArray:
        """What the columns shall have on average."""
        return self.margins / self.total

    def names(self) -> list[Any]:
        """Return the names of the columns, or their numbers."""
        return list(self.origin.container.columns or range(self.margins.size))

    def columns(self, ties: Ties = "equal", order_tol: float = 0.0) -> SortedColumns:
        """Sort each column by itself, and find the rows that have to stay equal there or may change places."""
        n, n_columns = self.values.shape
        p = np.empty((n_columns, n))
        order = np.empty((n_columns, n), dtype=np.int32)
        tied: dict[int, IntArray] = {}
        n_ties = np.full(n_columns, n)
        free = [np.empty((0, 2), dtype=np.int64)] * n_columns
        for j in range(n_columns):
            order[j] = np.argsort(self.values[:, j], kind="stable")
            p[j] = self.values[order[j], j]
            edges = np.flatnonzero(np.concatenate(([True], p[j, 1:] > p[j, :-1], [True])))
            if order_tol > 0.0:
                edges = _windows(p[j], order_tol)
            if ties == "free" or order_tol > 0.0:
                free[j] = np.column_stack((edges[:-1], edges[1:]))[np.diff(edges) > 1]
            elif edges.size <= n:
                n_ties[j], tied[j] = edges.size - 1, edges
        tie = np.tile(np.arange(n + 1, dtype=np.int32), (n_columns if tied else 1, 1))
        for j, edges in tied.items():
            tie[j, : edges.size] = edges
        free_start = np.cumsum([0, *map(len, free)])
        free_rows, margins = np.concatenate(free), (self.margins, self.weight, self.room, self.give)
        return SortedColumns(p, order, tie, n_ties, free_rows, free_start, *margins)


def _windows(p: FloatArray, width: float) -> IntArray:
    """Return the edges of runs of rising entries that lie within `width` of their first one."""
    edges = [0]
    while edges[-1] < p.size:
        edges.append(max(int(np.searchsorted(p, p[edges[-1]] + width)), edges[-1] + 1))
    return np.array(edges)


def largest_violation(columns: SortedColumns, q: FloatArray) -> float:
    """Return the largest excess of an entry over one that the order puts at or above it."""
    violation = 0.0
    for j, column in enumerate(q):
        first = columns.edges(j)[:-1]
        highest = np.maximum.accumulate(np.maximum.reduceat(column, first))
        violation = max(violation, float((highest - np.minimum.reduceat(column, first)).max()))
    return violation


def unsorted(q: FloatArray, order: npt.NDArray[np.int32]) -> FloatArray:
    """Return sorted columns as a matrix."""
    out = np.empty(q.shape[::-1])
    for j, rows in enumerate(order):
        out[rows, j] = q[j]
    return out


def check_floor(floor: float, highest: FloatArray, total: float, names: Sequence[Any]) -> None:
    """Refuse a least entry that leaves nothing of a row, or whose total lies above the `highest` that one may be."""
    n_columns = highest.size
    if n_columns * floor >= 1.0:
        raise InvalidInputError(
            f"floor={floor:g} leaves nothing of a row of {n_columns} entries. Pass less than {1.0 / n_columns:.6g}."
        )
    if (highest < floor * total * (1.0 - n_columns * EPS)).any():
        j = int(highest.argmin())
        raise InvalidInputError(
            f"margins of column {names[j]!r}: {highest[j]:.12g} is below the {floor * total:.12g} that floor={floor:g} "
            f"gives {total:,.12g} rows. Pass a floor of at most {highest.min() / total:.6g}."
        )


def above_floor(columns: SortedColumns, floor: float) -> SortedColumns:
    """Return columns and margins as shares of what is left above the least entry `floor`, in place of `columns.p`."""
    total, room = columns.total, 1.0 - len(columns.p) * floor
    high = columns.margins + columns.room - floor * total
    low = np.maximum(columns.margins - columns.room - floor * total, 0.0)
    least = np.where(columns.give > 0.0, -np.inf, 0.0)  # what a total is drawn to at a price may lie below the floor
    exact = np.maximum(columns.margins - floor * total, least)
    margins = np.where(columns.room > 0.0, 0.5 * (low + high), exact)
    columns.p[:] -= floor
    columns.p[:] /= room
    return columns._replace(margins=margins / room, room=np.where(columns.room > 0.0, high - margins, 0.0) / room)


def affine_feasible_point(columns: SortedColumns, *, share: float = 1.0) -> tuple[FloatArray, float]:
    """Return a and c of a_j + c P_ij, with `share` of the largest c in [0, 1] that leaves no entry negative.

    Totals fix a_j = (M_j - c sum_i w_i P_ij) / sum_i w_i, and sum_j a_j = 1 - c follows. Every order is kept,
    strictly while c > 0; c = 0, equal rows, is feasible whatever P is. So margins that are not negative and sum to
    the weight of the rows are never at odds with the order.
    """
    mean = np.array([np.average(p, weights=columns.weight[o]) for p, o in zip(columns.p, columns.order, strict=True)])
    rates = reachable_totals(columns, mean * columns.total) / columns.total
    return affine_point(rates, mean, columns.p[:, 0], share=share)


def reachable_totals(columns: SortedColumns, near: FloatArray) -> FloatArray:
    """Return totals that the columns may have, which sum to the weight of the rows: near these where there is room."""
    if columns.is_exact:
        return columns.margins
    gives = columns.give > 0.0
    low = np.where(gives, 0.0, np.maximum(columns.margins - columns.room, 0.0))
    high = np.where(gives, columns.total, columns.margins + columns.room)
    least, most = -columns.total, columns.total
    for _ in range(_HALVINGS):  # of the interval of the one constant that, added to all, gives the right sum
        middle = 0.5 * (least + most)
        is_less = np.clip(near + middle, low, high).sum() < columns.total
        least, most = (middle, most) if is_less else (least, middle)
    totals = np.clip(near + most, low, high)
    inside = (totals > low) & (totals < high)
    totals[inside] += (columns.total - totals.sum()) / max(inside.sum(), 1)
    return totals


def affine_point(
    rate: FloatArray, mean: FloatArray, least: FloatArray, *, share: float = 1.0
) -> tuple[FloatArray, float]:
    """Return a and c of the columns a_j + c p of this mean and least p that have these rates for their means."""
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.where(mean > least, rate / (mean - least), np.inf)
    c = share * min(1.0, float(largest.min()))
    constant: FloatArray = rate - c * mean
    return constant, c


def affine_columns(columns: SortedColumns, constant: FloatArray, slope: float) -> FloatArray:
    """Return the sorted columns a_j + c P_ij; what rounding leaves below 0 is 0."""
    q: FloatArray = slope * columns.p
    q += constant[:, None]
    return np.maximum(q, 0.0, out=q)


def as_matrix(P: ArrayLike, name: str, *, sum_to_one: bool = True) -> Scores:
    """Check a matrix of probabilities, a column per class."""
    shape = getattr(P, "shape", None)
    if shape is None and isinstance(P, (list, tuple)):
        widths = {len(row) if isinstance(row, (list, tuple)) else 1 for row in P}
        shape = (len(P), *widths) if len(widths) == 1 else (0, 0)  # rows of several lengths are refused below
    shape = shape or (0, 0)
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        raise ShapeError(
            f"{name} has shape {tuple(shape)}. Pass one column per class, at least two: np.column_stack((1 - p, p)) "
            "where p is the probability of one of two classes."
        )
    return as_probabilities(P, name=name, sum_to_one=sum_to_one)


def column_names(container: Container) -> tuple[str, ...] | None:
    """Return the names of a frame's columns; a frame whose columns are merely numbered has none."""
    names = container.columns
    return None if names == tuple(map(str, range(len(names or ())))) else names


def check_rows(P: ArrayLike, sample_weight: ArrayLike | None, *, normalise: bool = False, name: str = "P") -> Rows:
    """Check P and the weights of its rows, some of which may be 0: each row sums to 1 to the rounding of its type.

    Rows of fewer bits than float64, and any rows with `normalise`, are divided by their sums.
    """
    checked = as_matrix(P, name, sum_to_one=not normalise)
    values, total = checked.values, row_sum(checked.values)
    allowed = _ROUNDING.get(_dtype(P), ROW_TOLERANCE)
    bad = total <= 0.0 if normalise else np.abs(total - 1.0) > allowed
    if bad.any():
        row = int(bad.argmax())
        n_bad = f"({bad.sum():,} of {bad.size:,} rows)"
        if normalise:
            raise InvalidProbabilityError(f"{name} row {row}: all probabilities are 0 {n_bad}. Leave these rows out.")
        raise InvalidProbabilityError(
            f"{name} row {row}: the {checked.n_columns} probabilities sum to {total[row].item():.12g}, not 1 to "
            f"rounding {n_bad}. Pass normalise=True to divide each row by its sum."
        )
    if normalise or allowed > ROW_TOLERANCE:
        values = values / total[:, None]
    return Rows(values, weight=as_weight(sample_weight, total.size, rows=name), container=checked.container)


def _dtype(P: ArrayLike) -> np.dtype[Any]:
    """Return the type of a matrix's numbers; float64 where it is not one for all."""
    import narwhals as nw

    table = read_native(P, "P")
    if isinstance(table, nw.DataFrame):  # its own types: as an array, nullable columns are objects
        types = {str(of_column).lower() for of_column in table.schema.values()}
        return np.dtype(types.pop() if types in ({"float32"}, {"float16"}) else np.float64)
    try:
        return np.asarray(P[:1]).dtype.newbyteorder("=")
    except (TypeError, KeyError, IndexError, ValueError):
        return np.dtype(np.float64)


def check_problem(
    rows: Rows,
    margins: ArrayLike | Mapping[Any, float],
    *,
    margin_kind: MarginKind = "totals",
    on_mismatch: Mismatch = "raise",
    may_give: bool = False,
) -> Problem:
    """Check margins against the rows, and leave out rows of weight 0; say which margin or which sum can't be met.

    With `may_give`, totals may have a tolerance, an interval or a price.
    """
    check_choice("margin_kind", margin_kind, get_args(MarginKind))
    check_choice("on_mismatch", on_mismatch, get_args(Mismatch))
    values, weight, is_kept = rows.scores, rows.weights, None
    if not weight.all():
        is_kept = weight > 0.0
        values, weight = values[is_kept], weight[is_kept]
    n_columns, total = values.shape[1], float(weight.sum())
    wanted = read_margins(margins, column_names(rows.container), n_columns)
    if not (wanted.is_exact or may_give):
        raise InvalidInputError("margins with a tolerance, an interval or a penalty are for solve alone. Pass totals.")
    kind = "rates" if wanted.is_rate else margin_kind
    whole = total if kind == "totals" else 1.0
    names = rows.container.columns or range(n_columns)
    _check_margins(wanted, names, whole, kind, on_mismatch)
    scale = total / whole
    given = wanted.values * scale
    if wanted.is_exact:
        margins, room = _rescaled(given, total, kind, whole, on_mismatch), np.zeros(n_columns)
    elif wanted.penalty is None:
        margins, room = _check_intervals(wanted.low * scale, wanted.high * scale, total, names)
    else:
        margins, room = given, np.zeros(n_columns)
    give = np.full(n_columns, 0.0 if wanted.penalty is None else total / wanted.penalty)
    return Problem(values, weight, margins, room, give, Origin(rows.container, is_kept, given))


def _check_margins(wanted: Wanted, labels: Sequence[Any], whole: float, kind: str, on_mismatch: Mismatch) -> None:
    """Refuse margins that no column can have."""
    what = "the weight of all rows" if kind == "totals" else "all rows"
    for label, value, low in zip(labels, wanted.values.tolist(), wanted.low.tolist(), strict=True):
        if value < 0.0:
            raise InvalidInputError(
                f"margins of column {label!r}: {value!r} is negative, and no entry of Q may be. Pass 0 or more."
            )
        if low > whole * (1.0 + MARGIN_TOLERANCE) and on_mismatch == "raise":
            raise InvalidInputError(
                f"margins of column {label!r}: {low!r} is above {whole:.12g}, {what}, and no entry of Q may be "
                'above 1. Pass margin_kind="totals" for totals or "rates" for rates, or on_mismatch="rescale".'
            )
    if wanted.high.sum() <= 0.0:
        raise InvalidInputError("margins are all 0, and each row of Q sums to 1. Pass at least one above 0.")


def _rescaled(wanted: FloatArray, total: float, kind: str, whole: float, on_mismatch: Mismatch) -> FloatArray:
    """Return totals that sum to what the rows do; a large change is warned of."""
    factor = total / float(wanted.sum())
    off = abs(factor - 1.0)
    if off > MARGIN_TOLERANCE and on_mismatch == "raise":
        if kind == "totals" and abs(whole / factor - 1.0) < _LARGE_RESCALING:
            raise InvalidInputError(
                f"margins (totals) sum to {whole / factor:.12g}, as shares do, and the rows to {whole:.12g}. "
                'Pass margin_kind="rates" for shares of the rows, or margins that sum to what the rows do.'
            )
        raise InvalidInputError(
            f"margins ({kind}) sum to {whole / factor:.12g}, and each of the rows to 1, {whole:.12g} in all. "
            f'Pass on_mismatch="rescale" to multiply the margins by {factor:.9g}, Margins with a tolerance, or margins '
            f"that sum to {whole:.12g}."
        )
    if off > _LARGE_RESCALING:
        warn(
            f"margins sum to {wanted.sum():.9g} and the rows to {total:.9g}: all margins are multiplied by "
            f"{factor:.6g}. Look whether they are of the same rows.",
            DataWarning,
        )
    return wanted * factor


def _check_intervals(
    low: FloatArray, high: FloatArray, total: float, names: Sequence[Any]
) -> tuple[FloatArray, FloatArray]:
    """Return the middle of the intervals of the totals and how far their ends are, where totals of the rows fit."""
    if (low > high).any():
        j = int((low > high).argmax())
        raise InvalidInputError(
            f"margins of column {names[j]!r}: low={low[j]:.9g} is above high={high[j]:.9g}. Swap the two."
        )
    high = np.minimum(high, total)
    if low.sum() > total * (1.0 + MARGIN_TOLERANCE) or high.sum() < total * (1.0 - MARGIN_TOLERANCE):
        raise InvalidInputError(
            f"margins sum to between {low.sum():.9g} and {high.sum():.9g} within their tolerance, and the rows to "
            f"{total:.9g}. Widen the tolerance, or rescale the margins by {2.0 * total / (low + high).sum():.6g}."
        )
    return 0.5 * (low + high), 0.5 * (high - low)
