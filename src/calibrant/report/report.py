"""Report: what a set of predicted probabilities is worth, as one page, document or dict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calibrant.engines import MAX_DISTINCT, RowReader, SourceStream
from calibrant.errors import ShapeError
from calibrant.metrics import SCORE_BINS, check_settings, groups_of_rows, measured_rows
from calibrant.phrases import clean, listed, percent_level
from calibrant.report import pages
from calibrant.report.measured import ON, groups_in_source, of_rows, of_source, summarise
from calibrant.report.parts import class_sections, group_section
from calibrant.report.reliability import reliability_section
from calibrant.report.scores import methods_of, score_section
from calibrant.rows import Rows
from calibrant.tables import open_rows
from calibrant.validation import ArrayLike, check_integer

if TYPE_CHECKING:
    import numpy as np

#: What the first screen answers: the part of the verdict, and the question.
_QUESTIONS = {
    "is_it_calibrated": "Is it calibrated?",
    "which_way": "Which way is it off?",
    "where": "Where?",
    "what_to_do": "What to do",
}
#: Names of classes and columns that the page lists.
_MOST_NAMED = 12
_SHORT = 60


class Report(pages.PageReport):
    """Calibration report of labels and predicted probabilities.

    Says in words whether the probabilities are calibrated, which way they are off, where, and what to do; then
    shows the scores with their intervals, the reliability diagram with its table, and what the data were.

    Parameters
    ----------
    y_true, y_prob, sample_weight, cluster, time, label_end, pos_label, classes
        As in `evaluate`.
    n_bins : int
        Number of bins of the reliability diagram, of equal weight.
    level : float
        Nominal coverage of all intervals.
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

    Notes
    -----
    The scores and the verdict are those of `evaluate` with its 15 bins, word for word. Everything is measured on the
    rows that are given: to judge a fitted calibrator, give rows that it has not seen.

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

    name = "Calibration report"

    def __init__(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
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
        groups = None if by is None else {"by": by}
        known = {"groups": groups, "cluster": cluster, "time": time, "label_end": label_end}
        rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes, **known)
        names = _check_score_names(score_names, 1 if rows.is_binary else rows.scores.shape[1])
        what = {"title": title, "source": source, "score_names": names}
        self._summary = _summary_of_rows(rows, group_name, n_bins, level, rng, **what)

    @classmethod
    def of_rows(cls, rows: Rows, *, n_bins: int, level: float, title: str, source: str, rng: int) -> Report:
        """Report on checked rows, and on their groups by the first column of these, as the constructor does."""
        names, group_name = [clean(each) for each in rows.columns or ()], next(iter(rows.groups), "")
        what = {"title": title, "source": source, "score_names": names}
        return cls.__new__(cls).keep(_summary_of_rows(rows, group_name, n_bins, level, rng, **what))

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
        pos_label, n_bins, level, title, rng
            As in `Report`.

        Returns
        -------
        Report
            Where the distinct scores fit in memory its figures are those of `Report`. Where they don't, those of cells
            of neighbouring scores, and the page says how far scores were moved. More columns than fit in memory are
            reported without the table of classes; the page says so.

        Examples
        --------
        >>> import calibrant as cb
        >>> rows = {"p": [0.1, 0.4, 0.35, 0.8] * 50, "y": [0, 0, 1, 1] * 50}
        >>> cb.Report.from_source(rows)
        <Report: Not calibrated: predictions are too low, n = 200 rows>
        """
        settings = check_settings(SCORE_BINS, level, rng)
        check_integer("n_bins", n_bins, minimum=1)
        rows = open_rows(source, format=format, table=table)
        reader = RowReader(rows, score=score, label=label, weight=weight, group=group, classes=classes)
        found = SourceStream.of(reader, max_distinct=max_distinct).as_probabilities(pos_label)
        names, where = _check_score_names(reader.score, len(reader.score)), clean(rows.name)
        groups = None if group is None else (group, groups_in_source(found, settings))
        measured = of_source(found, settings)
        return cls.__new__(cls).keep(
            summarise(measured, n_bins=n_bins, title=title, source=where, score_names=names, groups=groups, rng=rng)
        )

    def page(self) -> pages.Page:
        summary = self._summary
        found = summary["verdict"]
        sections = [score_section(summary), reliability_section(summary), *class_sections(summary)]
        if summary["groups"] is not None:
            sections.append(group_section(summary["groups"]))
        sections.append(_data_section(summary))
        answers = [
            pages.Answer(question, found[part], found["command"] if part == "what_to_do" else None)
            for part, question in _QUESTIONS.items()
        ]
        return pages.Page(summary["title"], found["state"], found["headline"], answers, sections)

    def __repr__(self) -> str:
        return f"<Report: {self._summary['verdict']['headline']}, n = {self._summary['data']['n_rows']:,} rows>"


def _summary_of_rows(
    rows: Rows, group_name: str, n_bins: int, level: float, rng: int | np.random.Generator | None, **what: Any
) -> dict[str, Any]:
    """Return what a report says of checked rows; `what` goes to `summarise`."""
    settings = check_settings(SCORE_BINS, level, rng)
    check_integer("n_bins", n_bins, minimum=1)
    by = next(iter(rows.groups), None)
    groups = None if by is None else (group_name, groups_of_rows(rows, by, settings, ON))
    return summarise(of_rows(rows, settings), n_bins=n_bins, groups=groups, rng=rng, **what)


def _data_section(summary: dict[str, Any]) -> pages.Section:
    """Return the section on the rows and on how intervals were found."""
    data = summary["data"]
    facts = []
    if data["source"] is not None:
        facts.append(("Source", pages.name(data["source"])))
    if data["score_names"]:
        names = [pages.name(each, _SHORT) for each in data["score_names"]]
        facts.append(("Scores from", listed(names, most=_MOST_NAMED)))
    classes = [
        f"{pages.name(each['label'], _SHORT)} ({pages.count(each['n'])} rows"
        f"{', positive' if each['label'] == data['positive_class'] else ''})"
        for each in data["classes"]
    ]
    weights = "None: every row counts once"
    if data["is_weighted"]:
        worth = f"{int(data['effective_rows']):,} equally weighted rows"
        weights = f"Total {pages.count(data['total_weight'])}; worth {worth}"
    if data["design_effect"] > 1.0:
        worth = f"{int(data['effective_rows']):,} independent ones"
        facts.append(("Dependence", f"Rows are not independent; they are worth about {worth}"))
    level = percent_level(data["level"])
    facts += [
        ("Rows", pages.count(data["n_rows"])),
        ("Classes", listed(classes, most=_MOST_NAMED)),
        ("Weights", weights),
        ("Intervals", f"Level {level}, pointwise. {methods_of(summary)}"),
    ]
    return pages.Section("Data and method", [pages.Facts(facts)])


def _check_score_names(score_names: Sequence[str] | None, n_columns: int) -> list[str]:
    """Return the names of the score columns as text, one for each."""
    if score_names is None:
        return []
    if isinstance(score_names, str):
        score_names = [score_names]
    if len(score_names) != n_columns:
        raise ShapeError(f"score_names has {len(score_names)} names for {n_columns} columns. Pass one for each column.")
    return [clean(each) for each in score_names]
