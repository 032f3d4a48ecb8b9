"""The report of a matrix whose columns were given margins: what moved, and what is left of the order."""

from __future__ import annotations

import copy
import math
import os
from typing import TYPE_CHECKING, Any

from calibrant._version import __version__
from calibrant.rank_preserving import Diagnostics, RankPreservingResult, diagnose
from calibrant.report.summarise import clean
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    from calibrant.rank_preserving import ColumnChange

#: Below this share of the spread that is left, the page advises against.
_LITTLE = 0.5


class RankPreservingReport:
    """Report of a probability matrix before and after it got its margins, as a page.

    Parameters
    ----------
    P : array-like of shape (n, K)
        Probabilities before.
    Q : RankPreservingResult or array-like of shape (n, K)
        Those after. What `solve` returned also states how it ended.
    y, sample_weight, classes
        As for `rank_preserving.diagnose`.
    title : str
        Heading of the page.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> P = np.random.default_rng(0).dirichlet([2.0, 2.0, 2.0], 200)
    >>> report = cb.RankPreservingReport(P, cb.rank_preserving.solve(P, [80, 60, 60]))
    >>> report
    <RankPreservingReport: The order is kept and the margins are met, n = 200 rows>
    """

    def __init__(
        self,
        P: ArrayLike,
        Q: ArrayLike | RankPreservingResult,
        *,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        title: str = "Rank-preserving calibration",
    ) -> None:
        self._diagnostics = diagnose(P, Q, y=y, sample_weight=sample_weight, classes=classes)
        self._summary = _summary(self._diagnostics, Q if isinstance(Q, RankPreservingResult) else None, clean(title))

    def summary(self) -> dict[str, Any]:
        """Return all that the report says as dicts, lists, strings and numbers; what is undefined is None."""
        return copy.deepcopy(self._summary)

    def html(self) -> str:
        """Return one self-contained page: no script, nothing fetched."""
        from calibrant.displays import RankPreservingDisplay
        from calibrant.report.figures import column_panel
        from calibrant.report.render import render_page

        columns = RankPreservingDisplay(self._diagnostics).columns
        panels = [column_panel(column, key=f"column{k}") for k, column in enumerate(columns)]
        captions = [_caption(column) for column in columns]
        return render_page(
            "rank_preserving.html.j2", {**self._summary, "panels": list(zip(panels, captions, strict=True))}
        )

    def json(self) -> str:
        """Return the summary as a JSON document."""
        from calibrant.report.render import to_json

        return to_json(self._summary)

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whole or not at all.

        Raises
        ------
        OSError
            If the folder doesn't exist or can't be written to.
        """
        from calibrant.report.render import write_text

        write_text(path, self.html())

    def __repr__(self) -> str:
        return f"<RankPreservingReport: {self._summary['headline']}, n = {self._diagnostics.n_rows:,} rows>"


def _caption(column: ColumnChange) -> dict[str, Any]:
    return {"label": clean(column.column), "before": column.mean_before, "after": column.mean_after}


def _summary(found: Diagnostics, result: RankPreservingResult | None, title: str) -> dict[str, Any]:
    plain = found.to_dict()
    columns = [{key: value for key, value in column.items() if key != "curve"} for column in plain["columns"]]
    for column in columns:
        column["column"] = clean(column["column"])
    worst = [{**row, "source": clean(row["source"]), "target": clean(row["target"])} for row in plain["worst"]]
    overtaken = max(column.overtaken for column in found.columns)
    is_kept, is_flat = overtaken == 0.0, found.spread < _LITTLE
    headline = "The order is kept" if is_kept else f"The order is broken: up to {overtaken:.0%} of a column's rows"
    if result is not None and is_kept:
        headline += " and the margins are met"
    return {
        "title": title,
        "version": __version__,
        "state": "miscalibrated" if not is_kept else "unclear" if is_flat else "calibrated",
        "headline": headline,
        "advice": _advice(found),
        "columns": columns,
        "worst": worst,
        "has_auc": any(column["auc_before"] is not None for column in columns),
        **{key: plain[key] for key in ("n_rows", "mean_moved", "largest_moved", "top_changed", "spread", "flattened")},
        "solver": None if result is None else _ending(result),
    }


def _advice(found: Diagnostics) -> str:
    equal = f"{found.flattened:.0%} of neighbours that differed are equal now."
    if math.isnan(found.spread):
        return equal
    left = f"Columns keep {found.spread:.0%} of their spread on average, and {equal}"
    if found.spread < _LITTLE:
        return (
            f"{left} Little of what told rows apart is left: these margins are far from the matrix. If only the base "
            "rates of the classes have changed, calibrant.prior.prior_shift keeps more."
        )
    return left


def _ending(result: RankPreservingResult) -> dict[str, Any]:
    names = ("converged", "n_iter", "gap", "row_residual", "margin_residual", "rank_residual", "method")
    return {
        **{name: getattr(result, name) for name in names},
        "n_groups": None if result.groups is None else len(result.groups),
    }
