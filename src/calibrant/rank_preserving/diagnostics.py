"""What moved between two matrices of probabilities, and what is left of the order in each column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibrant.errors import InvalidInputError, ShapeError
from calibrant.metrics import rank
from calibrant.numerics import BoolArray, FloatArray, IntArray, row_sum
from calibrant.rank_preserving.problem import as_matrix, column_names
from calibrant.rank_preserving.result import RankPreservingResult
from calibrant.readable import Readable, rows_as_columns
from calibrant.results import Plain
from calibrant.rows import Rows
from calibrant.validation import (
    ArrayLike,
    Labels,
    Scores,
    as_labels,
    as_weight,
    check_integer,
    check_same_length,
    match_classes,
    match_names,
)

#: Lower by less than this is no lower.
FLAT = 1e-12
#: Neighbours count as flattened where less than this share of their distance is left: a solver need not leave 0.
_FLAT_SHARE = 1e-3
#: Points of a column's curve at most.
_POINTS = 200
#: Quantiles of the moves that are kept.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
#: Figures of a column in the printed table.
_FIGURES = (
    "mean_before",
    "mean_after",
    "mean_move",
    "largest_move",
    "spread",
    "flattened",
    "steps_before",
    "steps_after",
)
_WORST_FALL = ("overtaken", "worst_fall")
_AUCS = ("auc_before", "auc_after")


@dataclass(frozen=True, slots=True, repr=False)
class ColumnChange(Readable):
    """How one column moved.

    Attributes
    ----------
    column : object
        Name of the column, or its number where columns have no names.
    mean_before, mean_after : float
        Mean over the rows.
    mean_move, largest_move : float
        Mean and largest distance between the entries of a row.
    quantiles : tuple of float
        Quantiles 0.05, 0.25, 0.5, 0.75 and 0.95 of after less before.
    spread : float
        Standard deviation after as a share of that before; NaN where that is 0.
    flattened : float
        Share of the neighbours in the order of the column that differed before and are equal after: less than a
        thousandth of their distance is left.
    steps_before, steps_after : float
        Effective number of levels, 1 / sum of squared shares of rows at one level: n where all rows differ, 1 where
        none do. Flattened neighbours are at one level.
    overtaken : float
        Share of rows that lie below one that was not above them before; 0 where the order is kept.
    worst_fall : float
        Largest amount by which a row lies below one that was not above it before; 0 where the order is kept.
    auc_before, auc_after : float
        Area under the ROC curve of the column's class against the rest; NaN without labels, or with one class only.
        Unchanged where the order is strict: only ties can change it.
    curve : tuple of (before, low, high)
        Ranges of the entries after, at up to 200 places of those before.
    """

    column: Any
    mean_before: float
    mean_after: float
    mean_move: float
    largest_move: float
    quantiles: tuple[float, ...]
    spread: float
    flattened: float
    steps_before: float
    steps_after: float
    overtaken: float
    worst_fall: float
    auc_before: float
    auc_after: float
    curve: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True, repr=False)
class RowChange(Readable):
    """A row that moved: its number, the probability that changed column, and where most came from and went to."""

    row: int
    moved: float
    source: Any
    target: Any


@dataclass(frozen=True, slots=True, repr=False)
class Diagnostics(Plain):
    """What moved between two matrices.

    Attributes
    ----------
    columns : tuple of ColumnChange
    worst : tuple of RowChange
        The rows that moved most, the farthest first.
    n_rows : int
        Rows of positive weight.
    mean_moved, largest_moved : float
        Probability that changed column in a row, half the sum of absolute changes: mean and largest.
    top_changed : float
        Share of rows whose most probable column changed.
    spread, flattened : float
        Mean over the columns.
    """

    columns: tuple[ColumnChange, ...]
    worst: tuple[RowChange, ...]
    n_rows: int
    mean_moved: float
    largest_moved: float
    top_changed: float
    spread: float
    flattened: float

    def _columns(self) -> dict[str, Sequence[Any]]:
        has_auc = any(math.isfinite(c.auc_before) for c in self.columns)
        is_broken = any(c.worst_fall for c in self.columns)
        names = _FIGURES + is_broken * _WORST_FALL + has_auc * _AUCS
        return rows_as_columns([{"column": c.column, **{n: getattr(c, n) for n in names}} for c in self.columns])

    def _before(self) -> list[str]:
        moved = f"moved per row: {self.mean_moved:.4f} on average, {self.largest_moved:.4f} at most"
        return [f"{moved}; another column on top in {self.top_changed:.1%} of {self.n_rows:,} rows"]

    def _after(self) -> list[str]:
        return ["moved most: " + ", ".join(f"row {r.row} ({r.moved:.4f})" for r in self.worst)]


def diagnose(
    P: ArrayLike,
    Q: ArrayLike | RankPreservingResult,
    *,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    n_worst: int = 10,
) -> Diagnostics:
    """Say what moved from one matrix of probabilities to another, and how much of each column's order is left.

    Parameters
    ----------
    P : array-like of shape (n, K)
        Probabilities before, one column per class.
    Q : RankPreservingResult or array-like of shape (n, K)
        Those after.
    y, classes
        As for `compare`: labels add the area under the ROC curve of each column.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none; rows of NaN that `solve` left for these are
        passed over.
    n_worst : int
        Number of rows to name.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Examples
    --------
    >>> import calibrant as cb
    >>> P = [[0.7, 0.3], [0.6, 0.4], [0.2, 0.8]]
    >>> print(cb.rank_preserving.diagnose(P, cb.rank_preserving.solve(P, [1.2, 1.8]), n_worst=2))
    moved per row: 0.1000 on average, 0.1000 at most; another column on top in 0.0%
    of 3 rows
    column  mean before  mean after  mean move  largest move  spread  flattened
         0       0.5000      0.4000     0.1000        0.1000  1.0000     0.0000
         1       0.5000      0.6000     0.1000        0.1000  1.0000     0.0000
    <BLANKLINE>
    column  steps before  steps after
         0             3            3
         1             3            3
    moved most: row 0 (0.1000), row 1 (0.1000)
    """
    n_worst = check_integer("n_worst", n_worst, minimum=1)
    checked = as_matrix(P, "P")
    weight = as_weight(sample_weight, checked.values.shape[0], rows="P")
    kept = np.ones(checked.values.shape[0], dtype=np.bool_) if weight is None else weight > 0.0
    labels = labels_of(y, classes, checked)
    labels = None if labels is None else labels.take(kept)
    p, q = checked.values[kept], _after(Q, checked, kept)
    w = np.ones(len(p)) if weight is None else weight[kept]
    names: list[Any] = list(checked.container.columns or range(p.shape[1]))
    aucs = [column_aucs(matrix, labels, None if weight is None else w) for matrix in (p, q)]
    columns = tuple(_column_change(*of_column, weight=w) for of_column in zip(names, p.T, q.T, *aucs, strict=True))
    stays_on_top = (p == p.max(axis=1)[:, None]) & (q >= q.max(axis=1)[:, None] - FLAT)
    move = q - p
    moved = 0.5 * row_sum(np.abs(move))
    number = np.flatnonzero(kept)
    worst = np.lexsort((number, -moved.round(12)))[:n_worst]
    changes = [(int(number[i]), float(moved[i]), names[move[i].argmin()], names[move[i].argmax()]) for i in worst]
    return Diagnostics(
        columns=columns,
        worst=tuple(RowChange(*change) for change in changes),
        n_rows=len(p),
        mean_moved=float(np.average(moved, weights=w)),
        largest_moved=float(moved.max()),
        top_changed=float(np.average(~stays_on_top.any(axis=1), weights=w)),
        spread=float(np.mean([c.spread for c in columns if not math.isnan(c.spread)] or [math.nan])),
        flattened=float(np.mean([c.flattened for c in columns])),
    )


def labels_of(y: ArrayLike | None, classes: ArrayLike | None, matrix: Scores) -> Labels | None:
    """Check labels for the rows of a matrix."""
    if y is None:
        if classes is not None:
            raise InvalidInputError("classes are those of y. Pass y too, or leave them out.")
        return None
    labels = as_labels(y, name="y", classes=classes, n_columns=matrix.n_columns)
    check_same_length(matrix.values.shape[0], labels.codes.size, "P", "y")
    names = matrix.container.columns
    places = None if names is None else match_classes(names, labels.classes.tolist(), name="P")
    return labels if places is None else Labels(np.array(places)[labels.codes], labels.classes[np.argsort(places)])


def column_aucs(q: FloatArray, labels: Labels | None, weight: FloatArray | None) -> list[float]:
    """Return the AUC of each column against the rest, NaN where it is not defined."""
    present = set() if labels is None else set(labels.codes.tolist())
    if len(present) < 2:
        return [math.nan] * q.shape[1]
    rows = Rows(q, labels, weight)
    return [rank(rows.of_class(k).summary()).auc if k in present else math.nan for k in range(q.shape[1])]


class SortedPair(NamedTuple):
    """A column before and after with the rows' weights, sorted by what was before, and where that is equal by after."""

    before: FloatArray
    after: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, p: FloatArray, q: FloatArray, weight: FloatArray) -> SortedPair:
        """Sort the rows of a column."""
        order = np.lexsort((q, p))
        return cls(p[order], q[order], weight[order])

    def flattened_share(self) -> float:
        """Return the share of neighbouring distinct entries that have become equal."""
        apart = np.diff(self.before)
        differs = apart > 0.0
        is_flat = np.abs(np.diff(self.after)) <= _FLAT_SHARE * apart
        return float(np.mean(is_flat[differs])) if differs.any() else 0.0

    def largest_violation(self) -> float:
        """Return the largest amount by which a row lies below one that was not above it."""
        return float((np.maximum.accumulate(self.after) - self.after).max())

    def overtaken_share(self) -> float:
        """Return the share of rows that lie below one which was not above them; equal entries may separate."""
        below = self.after < np.maximum.accumulate(self.after) - FLAT
        return float(np.average(below, weights=self.weight))

    def n_levels(self) -> float:
        """Return one over the sum of squared shares of the rows at one level: neighbours that are equal after."""
        apart, after = np.diff(self.before), np.abs(np.diff(self.after))
        first = np.flatnonzero(np.append(True, after > np.where(apart > 0.0, _FLAT_SHARE * apart, FLAT)))
        level = np.add.reduceat(self.weight, first)
        return float(self.weight.sum() ** 2 / np.square(level).sum())

    def curve(self) -> tuple[tuple[float, float, float], ...]:
        """Return places before, and the lowest and the highest entry after at each."""
        n = self.before.size
        first = np.unique(np.linspace(0, n, min(n, _POINTS), endpoint=False).astype(np.int64))
        low, high = np.minimum.reduceat(self.after, first), np.maximum.reduceat(self.after, first)
        middle = np.add.reduceat(self.before, first) / np.diff(np.append(first, n))
        return tuple(zip(middle.tolist(), low.tolist(), high.tolist(), strict=True))


def _after(Q: ArrayLike | RankPreservingResult, before: Scores, kept: BoolArray) -> FloatArray:
    """Return the kept rows of the matrix after, in the columns of the one before; rows of weight 0 may be NaN."""
    import narwhals as nw

    given, shape, rows = Q.Q if isinstance(Q, RankPreservingResult) else Q, before.values.shape, kept
    if not kept.all() and np.shape(given) == shape:
        table = np.asarray(given)
        if table.dtype == np.float64 and np.isnan(table[~kept]).all():
            frame = nw.from_native(given, eager_only=True, pass_through=True)
            given = frame.filter(kept.tolist()) if isinstance(frame, nw.DataFrame) else table[kept]
            rows, shape = kept[kept], (int(kept.sum()), shape[1])
    after = as_matrix(given, "Q")
    if after.values.shape != shape:
        raise ShapeError(f"P has shape {shape} and Q {after.values.shape}. Pass both for the same rows and columns.")
    names, found = column_names(before.container), column_names(after.container)
    if names is None or found is None or not set(names) & set(found):
        return after.values[rows]
    return np.ascontiguousarray(after.values[rows][:, match_names(found, names, name="Q", of="P")])


def _column_change(
    name: Any, p: FloatArray, q: FloatArray, auc_before: float, auc_after: float, *, weight: FloatArray
) -> ColumnChange:
    move, pair = q - p, SortedPair.of(p, q, weight)
    before, after = (_deviation(values, weight) for values in (p, q))
    fall = pair.largest_violation()
    return ColumnChange(
        column=name,
        mean_before=float(np.average(p, weights=weight)),
        mean_after=float(np.average(q, weights=weight)),
        mean_move=float(np.average(np.abs(move), weights=weight)),
        largest_move=float(np.abs(move).max()),
        quantiles=tuple(_quantiles(move, weight).tolist()),
        spread=after / before if before > 0.0 else math.nan,
        flattened=pair.flattened_share(),
        steps_before=SortedPair.of(p, p, weight).n_levels(),
        steps_after=pair.n_levels(),
        overtaken=pair.overtaken_share(),
        worst_fall=fall if fall > FLAT else 0.0,
        auc_before=auc_before,
        auc_after=auc_after,
        curve=pair.curve(),
    )


def _deviation(values: FloatArray, weight: FloatArray) -> float:
    if values.min() == values.max():
        return 0.0
    mean = np.average(values, weights=weight)
    return math.sqrt(float(np.average(np.square(values - mean), weights=weight)))


def _quantiles(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the smallest values that hold the shares `QUANTILES` of the weight at or below them."""
    order: IntArray = np.argsort(values, kind="stable")
    mass = np.cumsum(weight[order])
    at = np.searchsorted(mass, np.array(QUANTILES) * mass[-1] * (1.0 - 1e-12))
    return np.asarray(values[order][at])
