"""One table of the ways to give a matrix its margins: what each moves, meets, breaks and costs."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError, InvalidInputError, unknown_name
from calibrant.kernels import SortedColumns
from calibrant.metrics import row_brier, row_log_loss
from calibrant.numerics import ROW_SUM_TOLERANCE, FloatArray, dot, row_sum
from calibrant.prior import PriorShift
from calibrant.rank_preserving.diagnostics import SortedPair, column_aucs, labels_of
from calibrant.rank_preserving.nearest import SolveOptions, find_nearest
from calibrant.rank_preserving.nearly import LambdaPenalty, Nearly
from calibrant.rank_preserving.ordered_raking import row_divergence
from calibrant.rank_preserving.problem import (
    MarginKind,
    Mismatch,
    Origin,
    Problem,
    affine_columns,
    affine_feasible_point,
    check_problem,
    check_rows,
    unsorted,
)
from calibrant.rank_preserving.raking import rake_problem
from calibrant.readable import Readable, rows_as_columns
from calibrant.results import Plain
from calibrant.rows import Rows
from calibrant.validation import NUMPY, ArrayLike, Labels, Scores

METHODS = (
    "none",
    "rank_preserving",
    "nearly",
    "straight",
    "margins_only",
    "raking",
    "isotonic_raking",
    "prior_shift",
    "isotonic",
)
#: Figures of a method in tables, and those that need labels.
_FIGURES = ("distance", "divergence", "margin_residual", "row_residual", "rank_residual", "overtaken", "flattened")
_FIGURES_OF_LABELS = ("auc_change", "log_loss", "brier")
#: Raking in order stops where it has passed over so many entries, but not before so many passes, and aims no lower
#: than this: its last digits take most of its passes.
_MOST_ENTRIES, _LEAST_PASSES, _LEAST_TOL = 30_000_000, 30, 1e-6


@dataclass(frozen=True, slots=True, repr=False)
class ComparedMatrix(Plain):
    """What a method made of the matrix.

    Attributes
    ----------
    method : str
        Its name.
    Q : ndarray of shape (m, K)
        The rows of positive weight.
    distance : float
        Root of the mean over rows of the squared distance to P.
    divergence : float
        Mean over rows of the Kullback-Leibler divergence from P; infinite where Q has what P lacks.
    margin_residual, row_residual : float
        Largest distance of a column's mean from its margin per row, and of a row sum from 1.
    rank_residual : float
        Largest amount by which the order of a column is broken.
    overtaken : float
        Share of entries that lie below one which was not above them; mean over the columns.
    flattened : float
        Share of neighbours in a column that differed and are equal now; mean over the columns.
    auc_change : float
        Change of the mean AUC of the columns against the rest; NaN without labels.
    log_loss, brier : float
        Mean over rows; NaN without labels, or where rows don't sum to one.
    converged, time_s : bool, float
        Whether it converged, and the seconds that it took.
    """

    method: str
    Q: FloatArray = field(repr=False)
    distance: float
    divergence: float
    margin_residual: float
    row_residual: float
    rank_residual: float
    overtaken: float
    flattened: float
    auc_change: float
    log_loss: float
    brier: float
    converged: bool
    time_s: float


@dataclass(frozen=True, slots=True, repr=False)
class MatrixComparison(Readable):
    """Methods beside each other, printed as a table in the order of `METHODS`; `left_out` says why any is missing."""

    rows: tuple[ComparedMatrix, ...]
    left_out: dict[str, str]
    n_rows: int

    def __getitem__(self, method: str) -> ComparedMatrix:
        """Return the row of a method."""
        found = {row.method: row for row in self.rows}
        if method not in found:
            raise unknown_name("method", method, found)
        return found[method]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields without the matrices, as plain Python values; what is not finite becomes None."""
        rows = [{key: value for key, value in row.to_dict().items() if key != "Q"} for row in self.rows]
        return {"rows": rows, "left_out": dict(self.left_out), "n_rows": self.n_rows}

    def _columns(self) -> dict[str, Sequence[Any]]:
        has_labels = any(math.isfinite(row.brier) for row in self.rows)
        names = ("method", "converged", *_FIGURES, *(_FIGURES_OF_LABELS if has_labels else ()), "time_s")
        return rows_as_columns([{name: getattr(row, name) for name in names} for row in self.rows])

    def _after(self) -> list[str]:
        return [f"{method} left out: {why}" for method, why in self.left_out.items()]


def compare(
    P: ArrayLike,
    margins: ArrayLike | Mapping[Any, float],
    *,
    y: ArrayLike | None = None,
    methods: list[str] | None = None,
    margin_kind: MarginKind = "totals",
    on_mismatch: Mismatch = "raise",
    sample_weight: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    nearly: Nearly | None = None,
    tol: float = 1e-9,
    gap_tol: float | None = None,
    max_iter: int = 20_000,
) -> MatrixComparison:
    """Give a matrix its margins in every way there is, and measure what each does to it.

    Parameters
    ----------
    P, margins, margin_kind, on_mismatch, sample_weight, tol, gap_tol, max_iter
        As for `solve`.
    y : array-like of shape (n,), optional
        Labels of the rows: adds log loss, Brier score and the change of the AUC, and the method "isotonic", which
        is fitted to these very labels and so looks better than it is. Columns are those of the sorted classes,
        unless their names are the classes in another order.
    nearly : EpsilonSlack or LambdaPenalty, optional
        As for `solve`: adds the method "nearly", what "rank_preserving" is where the order may be broken so.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y` may lack some.
    methods : list of str, optional
        All by default. "none": the matrix as it is. "rank_preserving": the nearest with the margins and the order.
        "straight": a_j + c P, both in closed form. "margins_only": the nearest with the margins, whatever the order.
        "raking": that in Kullback-Leibler divergence, and "isotonic_raking" with the order kept. "prior_shift": Bayes'
        rule for a change of base rates. "isotonic": each column fitted to the labels by itself, rows as they come.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    "prior_shift" takes the means of the columns of `P` for the old base rates. It is exact where only base rates have
    changed and `P` was calibrated before, which margins alone can't tell; its own margins then agree with those given
    up to sampling error.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> P = np.random.default_rng(0).dirichlet([2.0, 2.0, 2.0], 200)
    >>> table = cb.rank_preserving.compare(P, [80, 60, 60])
    >>> table["rank_preserving"].overtaken, table["raking"].overtaken > 0.5
    (0.0, True)
    """
    options = SolveOptions(nearly=nearly, tol=tol, gap_tol=gap_tol, max_iter=max_iter)
    wanted = _wanted(methods, nearly)
    given = check_rows(P, sample_weight)
    problem = check_problem(given, margins, margin_kind=margin_kind, on_mismatch=on_mismatch)
    labels = labels_of(y, classes, Scores(given.scores, given.container))
    if labels is not None and problem.origin.is_kept is not None:
        labels = labels.take(problem.origin.is_kept)
    elif labels is None and methods is not None and "isotonic" in methods:
        raise InvalidInputError('"isotonic" is fitted to labels. Pass y, or leave it out of methods.')
    problem = replace(problem, origin=Origin(NUMPY, None))  # of the rows that have weight, as arrays
    columns = problem.columns()
    rows, left_out = [], {}
    for name in METHODS:
        if name not in wanted or (name == "isotonic" and labels is None):  # as it is by default
            continue
        start = time.perf_counter()
        try:
            q, converged = _make(name, problem, columns, labels, options)
        except CalibrantError as error:
            if name not in ("raking", "isotonic_raking", "prior_shift"):
                raise
            left_out[name] = str(error)
        else:
            rows.append(_measured(name, q, converged, time.perf_counter() - start, problem, labels))
    return MatrixComparison(tuple(rows), left_out, len(problem.values))


def _wanted(methods: list[str] | None, nearly: Nearly | None) -> set[str]:
    """Return the methods that are asked for: "nearly" is one where there is something to take it from."""
    wanted = set(METHODS if methods is None else methods)
    for name in methods or ():
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    if nearly is not None:
        return wanted | {"nearly"}
    if methods is not None and "nearly" in wanted:
        raise InvalidInputError('"nearly" is the method of a slack or a price. Pass nearly too, or leave it out.')
    return wanted - {"nearly"}


def _make(
    name: str, problem: Problem, columns: SortedColumns, labels: Labels | None, options: SolveOptions
) -> tuple[FloatArray, bool]:
    """Return the matrix of a method, and whether it converged."""
    p = problem.values
    if name in ("rank_preserving", "nearly", "margins_only"):
        nearly = {"nearly": options.nearly, "margins_only": LambdaPenalty(0.0)}.get(name)
        result = find_nearest(columns, problem.origin, replace(options, nearly=nearly))
        return result.Q, result.converged
    if name in ("raking", "isotonic_raking"):
        tol, max_iter = options.tol, options.max_iter
        if name == "isotonic_raking":
            tol, max_iter = max(tol, _LEAST_TOL), min(max_iter, max(_LEAST_PASSES, _MOST_ENTRIES // p.size))
        raked = rake_problem(problem, keep_order=name == "isotonic_raking", tol=tol, max_iter=max_iter)
        return raked.Q, raked.converged
    if name == "straight":
        return unsorted(affine_columns(columns, *affine_feasible_point(columns)), columns.order), True
    if name == "prior_shift":
        old = np.average(p, axis=0, weights=problem.weight)
        shift = PriorShift.from_priors(old=old / old.sum(), new=problem.rates)
        return shift.apply(Rows(p)), True
    if name == "isotonic" and labels is not None:
        rows = Rows(p, labels, problem.weight)
        return np.column_stack([_isotonic(rows.of_class(k)) for k in range(p.shape[1])]), True
    return p, True


def _isotonic(rows: Rows) -> FloatArray:
    """Return a column fitted to its labels; one whose rows are of one class is the constant that they are."""
    from calibrant.calibrators import IsotonicCalibrator

    if rows.positive.all() or not rows.positive.any():
        return np.full(rows.scores.size, float(rows.positive[0]))
    return IsotonicCalibrator().fit_rows(rows).apply(rows)


def _measured(
    name: str, q: FloatArray, converged: bool, time_s: float, problem: Problem, labels: Labels | None
) -> ComparedMatrix:
    p, weight, total = problem.values, problem.weight, problem.total
    pairs = [SortedPair.of(p[:, j], q[:, j], weight) for j in range(p.shape[1])]
    row_residual = float(np.abs(row_sum(q) - 1.0).max())
    log_loss = brier = math.nan
    if labels is not None and row_residual <= ROW_SUM_TOLERANCE:
        rows = Rows(q, labels, weight)
        log_loss, brier = (dot(weight, losses(rows)) / total for losses in (row_log_loss, row_brier))
    change = np.subtract(column_aucs(q, labels, weight), column_aucs(p, labels, weight))
    return ComparedMatrix(
        method=name,
        Q=q,
        distance=math.sqrt(dot(weight, row_sum(np.square(q - p))) / total),
        divergence=float(np.sum(weight * row_divergence(q, p))) / total,
        margin_residual=float(np.abs(np.einsum("i,ij->j", weight, q) / total - problem.rates).max()),
        row_residual=row_residual,
        rank_residual=max(pair.largest_violation() for pair in pairs),
        overtaken=float(np.mean([pair.overtaken_share() for pair in pairs])),
        flattened=float(np.mean([pair.flattened_share() for pair in pairs])),
        auc_change=float(np.nanmean(change)) if np.isfinite(change).any() else math.nan,
        log_loss=log_loss,
        brier=brier,
        converged=converged,
        time_s=time_s,
    )
