"""One table of the ways to give a matrix its margins: what each moves, meets, breaks and costs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError, InvalidInputError, unknown_name
from calibrant.kernels import SortedColumns
from calibrant.metrics.proper_scores import row_brier, row_log_loss
from calibrant.metrics.rows import Rows
from calibrant.numerics import ROW_SUM_TOLERANCE, FloatArray, dot, row_sum
from calibrant.prior import PriorShift
from calibrant.rank_preserving.diagnostics import (
    column_aucs,
    flattened_share,
    labels_of,
    largest_fall,
    overtaken_share,
    text_table,
)
from calibrant.rank_preserving.nearly import LambdaPenalty
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
from calibrant.rank_preserving.raking import rake_problem, row_divergence
from calibrant.rank_preserving.solving import SolveOptions, find_nearest
from calibrant.results import plain
from calibrant.summary import ScoreRows
from calibrant.validation import ArrayLike, Container, Labels, Scores

#: Each method, and what it is.
METHODS = {
    "none": "the matrix as it is",
    "rank_preserving": "the nearest with the margins and the order",
    "straight": "a_j + c P: the margins and the order in closed form",
    "margins_only": "the nearest with the margins, whatever the order",
    "raking": "the nearest in Kullback-Leibler divergence with the margins",
    "isotonic_raking": "that with the order kept",
    "prior_shift": "Bayes' rule for a change of base rates",
    "isotonic": "each column fitted to the labels by itself, rows as they come",
}
#: Raking in order stops where it has passed over so many entries, but not before so many passes, and aims no lower
#: than this: its last digits take most of its passes.
_MOST_ENTRIES, _LEAST_PASSES, _LEAST_TOL = 30_000_000, 30, 1e-6


@dataclass(frozen=True, slots=True)
class ComparedMatrix:
    """What a method made of the matrix.

    Attributes
    ----------
    method : str
    Q : ndarray of shape (m, K)
        The rows of positive weight.
    distance : float
        Root of the mean over rows of the squared distance to P.
    divergence : float
        Mean over rows of the Kullback-Leibler divergence from P; infinite where Q has what P lacks.
    margin_residual : float
        Largest distance of a column's mean from its margin per row.
    row_residual : float
        Largest distance of a row sum from 1.
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
    converged : bool
    time_s : float
        Seconds taken.
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


@dataclass(frozen=True, slots=True)
class MatrixComparison:
    """Methods beside each other, in the order of `METHODS`; `left_out` says why any is missing."""

    rows: tuple[ComparedMatrix, ...]
    left_out: dict[str, str]
    n_rows: int

    def __getitem__(self, method: str) -> ComparedMatrix:
        """Return the row of a method."""
        for row in self.rows:
            if row.method == method:
                return row
        raise unknown_name("method", method, [row.method for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields without the matrices, as plain Python values; what is not finite becomes None."""
        rows = [{key: value for key, value in asdict(row).items() if key != "Q"} for row in self.rows]
        result: dict[str, Any] = plain({"rows": rows, "left_out": self.left_out, "n_rows": self.n_rows})
        return result

    def __str__(self) -> str:
        header = ["method", "distance", "KL", "margins off", "rows off", "order broken", "overtaken", "flattened"]
        lines = [
            [
                row.method + ("" if row.converged else " *"),
                f"{row.distance:.4f}",
                f"{row.divergence:.4f}",
                f"{row.margin_residual:.1e}",
                f"{row.row_residual:.1e}",
                f"{row.rank_residual:.1e}",
                f"{row.overtaken:.1%}",
                f"{row.flattened:.1%}",
            ]
            for row in self.rows
        ]
        if any(math.isfinite(row.brier) for row in self.rows):
            header += ["AUC change", "log loss", "Brier"]
            for line, row in zip(lines, self.rows, strict=True):
                line += [_figure(row.auc_change, "+.4f"), _figure(row.log_loss, ".4f"), _figure(row.brier, ".4f")]
        header.append("seconds")
        for line, row in zip(lines, self.rows, strict=True):
            line.append(f"{row.time_s:.3f}")
        notes = ["* stopped before it had converged"] if not all(row.converged for row in self.rows) else []
        notes += [f"{method} left out: {why}" for method, why in self.left_out.items()]
        return "\n".join([*text_table(header, lines), *notes])


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
    tol: float = 1e-8,
    gap_tol: float | None = None,
    max_iter: int = 5_000,
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
    methods : list of str, optional
        Some of "none", "rank_preserving", "straight", "margins_only", "raking", "isotonic_raking", "prior_shift" and
        "isotonic"; all by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y` may lack some.

    Returns
    -------
    MatrixComparison
        Printed, it is a table.

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
    wanted = list(METHODS) if methods is None else list(methods)
    for name in wanted:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    options = SolveOptions(tol=tol, gap_tol=gap_tol, max_iter=max_iter)
    given = check_rows(P, sample_weight)
    problem = check_problem(given, margins, margin_kind=margin_kind, on_mismatch=on_mismatch)
    labels = labels_of(y, classes, Scores(given.values, given.container))
    if labels is not None and problem.origin.is_kept is not None:
        labels = Labels(labels.codes[problem.origin.is_kept], labels.classes)
    elif labels is None and methods is not None and "isotonic" in methods:
        raise InvalidInputError('"isotonic" is fitted to labels. Pass y, or leave it out of methods.')
    problem = replace(problem, origin=Origin(Container(), None))  # of the rows that have weight, as arrays
    run = _Run(problem, problem.columns(), labels, options)
    rows, left_out = [], {}
    for name in METHODS:
        if name not in wanted or (name == "isotonic" and labels is None):
            continue
        start = time.perf_counter()
        try:
            q, converged = run.make(name)
        except CalibrantError as error:
            if name not in ("raking", "isotonic_raking", "prior_shift"):
                raise
            left_out[name] = str(error)
        else:
            rows.append(_measured(name, q, converged, time.perf_counter() - start, run))
    return MatrixComparison(tuple(rows), left_out, len(problem.values))


@dataclass(frozen=True, slots=True)
class _Run:
    """A problem, and the answer of each method to it."""

    problem: Problem
    columns: SortedColumns
    labels: Labels | None
    options: SolveOptions

    def make(self, name: str) -> tuple[FloatArray, bool]:
        """Return the matrix of a method, and whether it converged."""
        makers: dict[str, Callable[[], tuple[FloatArray, bool]]] = {
            "none": lambda: (self.problem.values, True),
            "rank_preserving": lambda: self._solved(None),
            "straight": self._straight,
            "margins_only": lambda: self._solved(LambdaPenalty(0.0)),
            "raking": lambda: self._raked(keep_order=False),
            "isotonic_raking": lambda: self._raked(keep_order=True),
            "prior_shift": self._shifted,
            "isotonic": self._isotonic,
        }
        return makers[name]()

    def _solved(self, nearly: LambdaPenalty | None) -> tuple[FloatArray, bool]:
        result = find_nearest(self.columns, self.problem.origin, replace(self.options, nearly=nearly))
        return result.Q, result.converged

    def _straight(self) -> tuple[FloatArray, bool]:
        q = affine_columns(self.columns, *affine_feasible_point(self.columns))
        return unsorted(q, self.columns.order), True

    def _raked(self, *, keep_order: bool) -> tuple[FloatArray, bool]:
        tol, max_iter = self.options.tol, self.options.max_iter
        if keep_order:
            max_iter = min(max_iter, max(_LEAST_PASSES, _MOST_ENTRIES // self.problem.values.size))
            tol = max(tol, _LEAST_TOL)
        raked = rake_problem(self.problem, keep_order=keep_order, tol=tol, max_iter=max_iter)
        return raked.Q, raked.converged

    def _shifted(self) -> tuple[FloatArray, bool]:
        p = self.problem.values
        old = np.average(p, axis=0, weights=self.problem.weight)
        shift = PriorShift.from_priors(old=old / old.sum(), new=self.problem.rates)
        return np.asarray(shift.predict_proba(p)), True

    def _isotonic(self) -> tuple[FloatArray, bool]:
        from calibrant.calibrators import IsotonicCalibrator

        assert self.labels is not None  # noqa: S101
        p = self.problem.values
        rows = Rows(p, self.labels, self.problem.weight)
        return np.column_stack([_fitted(rows.of_class(k), IsotonicCalibrator()) for k in range(p.shape[1])]), True


def _fitted(rows: ScoreRows, calibrator: Any) -> FloatArray:
    """Return a column fitted to its labels; one whose rows are of one class is the constant that they are."""
    if rows.positive.all() or not rows.positive.any():
        return np.full(rows.scores.size, float(rows.positive[0]))
    fitted: FloatArray = calibrator.fit_summary(rows.summary()).predict_proba(rows.scores)
    return fitted


def _measured(name: str, q: FloatArray, converged: bool, time_s: float, run: _Run) -> ComparedMatrix:
    p, weight, labels = run.problem.values, run.problem.weight, run.labels
    total, columns = run.problem.total, range(p.shape[1])
    row_residual = float(np.abs(row_sum(q) - 1.0).max())
    every = np.ones(len(p), dtype=np.bool_)
    log_loss = brier = math.nan
    if labels is not None and row_residual <= ROW_SUM_TOLERANCE:
        rows = Rows(q, labels, weight)
        log_loss, brier = (dot(weight, losses(rows)) / total for losses in (row_log_loss, row_brier))
    change = np.subtract(column_aucs(q, labels, weight, every), column_aucs(p, labels, weight, every))
    return ComparedMatrix(
        method=name,
        Q=q,
        distance=math.sqrt(dot(weight, row_sum(np.square(q - p))) / total),
        divergence=float(np.sum(weight * row_divergence(q, p))) / total,
        margin_residual=float(np.abs(np.einsum("i,ij->j", weight, q) / total - run.problem.rates).max()),
        row_residual=row_residual,
        rank_residual=max(largest_fall(p[:, j], q[:, j]) for j in columns),
        overtaken=float(np.mean([overtaken_share(p[:, j], q[:, j], weight) for j in columns])),
        flattened=float(np.mean([flattened_share(p[:, j], q[:, j]) for j in columns])),
        auc_change=float(np.nanmean(change)) if np.isfinite(change).any() else math.nan,
        log_loss=log_loss,
        brier=brier,
        converged=converged,
        time_s=time_s,
    )


def _figure(value: float, form: str) -> str:
    return "n/a" if math.isnan(value) else f"{value:{form}}"
