"""Report: what a set of predicted probabilities is worth, as one page, document or dict."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calibrant.engines.summarise import MAX_DISTINCT
from calibrant.report.source_columns import SourceColumns
from calibrant.report.summarise import summarise
from calibrant.validation import ArrayLike

if TYPE_CHECKING:
    import numpy as np


class Report:
    """Calibration report of labels and predicted probabilities.

    Says in words whether the probabilities are calibrated, which way they are off, where, and what to do; then
    shows the scores with their intervals, the reliability diagram with its table, and what the data were.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of the positive class, or of each of the sorted classes.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.
    n_bins : int
        Number of bins of the reliability diagram, of equal weight.
    level : float
        Nominal coverage of all intervals.
    pos_label : scalar, optional
        The positive one of two labels; the larger one by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y_true` may lack some.
    by : array-like of shape (n,), optional
        The group of each row: adds a section on groups, with intervals corrected for their number.
    group_name : str
        What the page calls the groups, such as the name of their column.
    title : str
        Heading of the page.
    score_names : sequence of str, optional
        Names of the columns of `y_prob`, to be stated with the data.
    source : str, optional
        Name of the file or table that the rows come from.
    rng : int, numpy Generator or None
        Randomness of resampled intervals. The same seed gives the same bytes.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    "Not calibrated" is said only where the interval of the debiased calibration error lies above 0, and a
    correction is recommended only then. Everything is measured on the rows that are given: to judge a fitted
    calibrator, give rows that it has not seen.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(5_000)
    >>> y = rng.random(5_000) < truth
    >>> print(cb.Report(y, truth**2).summary()["verdict"]["headline"])
    Not calibrated: predictions are too low
    """

    def __init__(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        n_bins: int = 10,
        level: float = 0.95,
        pos_label: object = None,
        classes: ArrayLike | None = None,
        by: ArrayLike | None = None,
        group_name: str = "group",
        title: str = "Calibration report",
        score_names: Sequence[str] | None = None,
        source: str | None = None,
        rng: int | np.random.Generator | None = 0,
    ) -> None:
        self._summary = summarise(
            y_true,
            y_prob,
            sample_weight=sample_weight,
            n_bins=n_bins,
            level=level,
            pos_label=pos_label,
            classes=classes,
            title=title,
            score_names=score_names,
            source=source,
            rng=rng,
        )
        if by is not None:
            from calibrant.report.groups import summarise_groups

            self._summary["groups"] = summarise_groups(
                y_true,
                y_prob,
                by,
                name=group_name,
                sample_weight=sample_weight,
                n_bins=n_bins,
                level=level,
                pos_label=pos_label,
                classes=classes,
            )

    @classmethod
    def from_source(
        cls,
        source: Any,
        *,
        score: str | Sequence[str] = "p",
        label: str = "y",
        weight: str | None = None,
        group: str | None = None,
        classes: Sequence[Any] | None = None,
        pos_label: object = None,
        max_distinct: int = MAX_DISTINCT,
        format: str | None = None,
        table: str | None = None,
        n_bins: int = 10,
        level: float = 0.95,
        title: str = "Calibration report",
        rng: int | None = 0,
    ) -> Report:
        """Report on the probabilities in any source of rows, in bounded memory.

        Parameters
        ----------
        source, score, label, weight, group, classes, max_distinct, format, table
            As in `cb.engines.summarise`: a file, a folder, a DuckDB database, a relation, a frame or a stream.
        pos_label : scalar, optional
            The positive one of two labels; the larger one by default.
        n_bins, level, title, rng
            As in `Report`.

        Returns
        -------
        Report
            Where the distinct scores fit in memory its figures are those of `Report`. Where they don't, those of cells
            of neighbouring scores, and the page says how far scores were moved. More columns than fit in memory are
            reported without the table of classes; the page says so.

        Raises
        ------
        CalibrantError
            If the source can't be read, or a row can't be used; the message says where and why.

        Examples
        --------
        >>> import calibrant as cb
        >>> rows = {"p": [0.1, 0.4, 0.35, 0.8] * 50, "y": [0, 0, 1, 1] * 50}
        >>> cb.Report.from_source(rows)
        <Report: Not calibrated: predictions are off in several places, n = 200 rows>
        """
        from calibrant.report.from_source import summarise_source

        made = cls.__new__(cls)
        made._summary = summarise_source(
            source,
            SourceColumns(score, label, weight, group, classes, pos_label, format, table),
            max_distinct=max_distinct,
            n_bins=n_bins,
            level=level,
            title=title,
            rng=rng,
        )
        return made

    def summary(self) -> dict[str, Any]:
        """Return all that the report says as dicts, lists, strings and numbers; what is undefined is None."""
        return copy.deepcopy(self._summary)

    def html(self) -> str:
        """Return one self-contained page: no script, nothing fetched."""
        from calibrant.report.render import to_html

        return to_html(self._summary)

    def json(self) -> str:
        """Return the summary as a JSON document."""
        from calibrant.report.render import to_json

        return to_json(self._summary)

    def markdown(self) -> str:
        """Return the report as Markdown, with tables in place of figures."""
        from calibrant.report.render import to_markdown

        return to_markdown(self._summary)

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, whole or not at all.

        Raises
        ------
        OSError
            If the folder doesn't exist or can't be written to.
        """
        from calibrant.report.render import write_text

        write_text(path, self.html())

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own so that neither's style reaches the other."""
        from markupsafe import escape

        frame = 'style="width: 100%; height: 44rem; border: 0" sandbox title="Calibration report"'
        return f'<iframe {frame} srcdoc="{escape(self.html())}"></iframe>'

    def __repr__(self) -> str:
        return f"<Report: {self._summary['verdict']['headline']}, n = {self._summary['data']['n_rows']:,} rows>"
