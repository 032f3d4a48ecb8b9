"""Report: what a set of predicted probabilities is worth, as one page, document or dict."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from calibrant.decisions import as_policy
from calibrant.engines import MAX_DISTINCT, RowReader, SourceStream
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.metrics import (
    SCORE_BINS,
    SegmentSettings,
    check_settings,
    groups_of_rows,
    measured_rows,
    segment_rows,
)
from calibrant.phrases import clean, listed, percent_level
from calibrant.report import pages
from calibrant.report.before_after import (
    Calibrated,
    apply_to,
    measure_both,
    summarise_calibrator,
    words_of_fit,
)
from calibrant.report.decisions import Decisions, decision_section, summarise_decisions
from calibrant.report.measured import ON, About, groups_in_source, main_curve, of_rows, of_source, summarise
from calibrant.report.parts import class_sections, group_section
from calibrant.report.reliability import reliability_section
from calibrant.report.scores import methods_of, score_section
from calibrant.report.segments import segment_section, summarise_segments
from calibrant.rows import Rows
from calibrant.tables import FormatLike, Missing, RowSource, open_rows
from calibrant.validation import ArrayLike, check_integer, series_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from calibrant.decisions import Policy, Problem
    from calibrant.fitted import Fitted
    from calibrant.metrics import ClassScores
    from calibrant.results import Scores

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
    groups : array-like of shape (n,), optional
        The group of each row: adds a section on groups, with intervals corrected for their number.
    group_name : str, optional
        What the page calls the groups; by default the name of their series.
    features : dict or data frame, optional
        Columns that segments are made of: adds a section on the segments that are off, as `metrics.audit` finds them.
    categorical, depth, min_rows : optional
        As in `metrics.audit`.
    title : str
        Heading of the page.
    score_names : sequence of str, optional
        Names of the columns of `y_prob`, to be stated with the data.
    label_name : str, optional
        Name of the column of labels, for the command that the page advises; by default that of their series.
    source : str, optional
        Name of the file or table that the rows come from.
    calibrator : fitted calibrator, optional
        `y_prob` are the scores that it takes, in probabilities, logits or other numbers: the page is of what it makes
        of them, and shows the scores before and after it, with paired differences, where they are probabilities or
        logits. One that was fitted by group takes `groups`, one by segments `features`. Give rows that it was not
        fitted to.
    problem : Problem, Policy or mapping, optional
        What decisions cost, as `decisions.evaluate` takes it: adds a section on what to do with the probabilities.
    costs, per : optional
        As in `decisions.evaluate`: costs of the rows, and what capacities are for each of.
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
        groups: ArrayLike | None = None,
        group_name: str | None = None,
        features: object = None,
        categorical: Collection[str] = (),
        depth: int = 2,
        min_rows: int = 50,
        title: str = "Calibration report",
        score_names: Sequence[str] | None = None,
        label_name: str | None = None,
        source: str | None = None,
        calibrator: Fitted | None = None,
        problem: Problem | Policy | Mapping[str, Any] | None = None,
        costs: Any = None,
        per: ArrayLike | None = None,
        rng: int | np.random.Generator | None = 0,
    ) -> None:
        decisions = None
        if problem is not None:
            per_name = "" if per is None else series_name(per) or ""
            decisions = Decisions(as_policy(problem, name="problem"), costs, per, per_name)
        if decisions is None and (costs is not None or per is not None):
            raise InvalidInputError("costs and per are of a problem. Pass problem, or leave them out.")
        named = None if groups is None else {group_name or series_name(groups) or "group": groups}
        known: dict[str, Any] = {"groups": named, "cluster": cluster, "time": time, "label_end": label_end}
        scores: Any = None
        if calibrator is not None:
            if pos_label is not None or classes is not None:
                raise InvalidInputError("pos_label and classes are what the calibrator says. Leave them out.")
            scores, y_prob = apply_to(calibrator, y_prob, groups, features)
            classes = calibrator.classes_
        known |= {"sample_weight": sample_weight, "pos_label": pos_label, "classes": classes}
        segments = SegmentSettings.checked(depth=depth, min_rows=min_rows)
        rows = segment_rows(y_true, y_prob, features, categorical, **known)
        if decisions is not None:
            decisions.check_weight(len(y_prob) - rows.n_rows, len(y_prob))
        calibrated = None
        if calibrator is not None:
            of_scores = {"input": calibrator.input, "sum_to_one": calibrator.sums_to_one}
            calibrated = Calibrated(calibrator, measured_rows(y_true, scores, **of_scores, **known))
        names = _check_score_names(score_names, rows.n_columns)
        about = About(title, source, file=source, label_name=label_name or series_name(y_true), score_names=names)
        beside = Beside(calibrated, decisions, segments)
        self._summary = _summary_of_rows(rows, about, beside, n_bins=n_bins, level=level, rng=rng)

    @classmethod
    def of_rows(
        cls,
        rows: Rows,
        about: About,
        *,
        n_bins: int,
        level: float,
        rng: int,
        calibrated: Calibrated | None = None,
        decisions: Decisions | None = None,
        segments: SegmentSettings | None = None,
        scores: Scores | None = None,
        by_class: ClassScores | None = None,
    ) -> Report:
        """Report on checked rows, their groups by the first column of these, and their segments by their features.

        Scores are called by the names of `about`, or by those of their columns if it has none: where the rows hold the
        output of a calibrator, `about` names its input. `scores` and `by_class` are what `metrics` measured of the rows
        by the same settings; without them they are measured here.
        """
        about = replace(about, score_names=about.score_names or rows.columns or ())
        beside = Beside(calibrated, decisions, segments or SegmentSettings())
        known: dict[str, Any] = {"scores": scores, "by_class": by_class}
        summary = _summary_of_rows(rows, about, beside, n_bins=n_bins, level=level, rng=rng, **known)
        return cls.__new__(cls).keep(summary)

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
        cluster: str | None = None,
        time: str | None = None,
        label_end: str | None = None,
        missing: Missing = "error",
        pos_label: object = None,
        max_distinct: int = MAX_DISTINCT,
        format: FormatLike = None,
        table: str | None = None,
        n_bins: int = 10,
        level: float = 0.95,
        title: str = "Calibration report",
        problem: Problem | Policy | Mapping[str, Any] | None = None,
        rng: int | None = 0,
    ) -> Report:
        """Report on the probabilities in any source of rows, in bounded memory.

        Parameters
        ----------
        source, score, label, weight, group, classes, max_distinct, format, table
            As in `cb.engines.summarise`: a file, a folder, a DuckDB database, a relation, a frame or a stream.
        cluster, time, label_end, missing
            As in `cb.engines.evaluate`; the page says how many rows were left out.
        pos_label, n_bins, level, title, rng
            As in `Report`.
        problem : Problem, Policy or mapping, optional
            As in `Report`, with losses that are the same for all rows. Decisions are judged on all rows in memory: at
            most `max_distinct` of them, of a source that can be read again.

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
        decisions = None if problem is None else Decisions(as_policy(problem, name="problem"))
        if decisions is not None and decisions.policy.problem.table is None:
            raise InvalidInputError(
                "these losses differ from row to row, which takes the rows in memory. Pass Report(y, p, problem=, "
                "costs=)."
            )
        rows = open_rows(source, format=format, table=table)
        of: dict[str, Any] = {"label": label, "weight": weight, "group": group}
        of |= {"cluster": cluster, "time": time, "label_end": label_end}
        reader = RowReader(rows, score=score, classes=classes, missing=missing, **of)
        found = SourceStream.of(reader, max_distinct=max_distinct).as_probabilities(pos_label)
        names, where = _check_score_names(reader.score, len(reader.score)), clean(rows.name)
        groups = None if group is None else (group, groups_in_source(found, settings))
        measured = of_source(found, settings)
        file = where if isinstance(source, (str, os.PathLike, RowSource)) else None
        n_skipped = reader.source.n_skipped
        about = About(title, where, file, label_name=label, score_names=names, n_skipped=n_skipped)
        summary = summarise(measured, about, n_bins=n_bins, groups=groups, rng=rng)
        if decisions is not None:
            held = found.materialise(max_distinct)
            if held is None:
                raise InvalidInputError(
                    f"decisions are judged on rows in memory, and {where} has more than max_distinct={max_distinct:,} "
                    "of them, or can't be read again. Raise it, or pass a sample of the rows."
                )
            summary["decisions"] = _decided(held, decisions, summary, level)
        return cls.__new__(cls).keep(summary)

    def page(self) -> pages.Page:
        summary = self._summary
        found = summary["verdict"]
        sections = [reliability_section(summary), score_section(summary), *class_sections(summary)]
        if summary["groups"] is not None:
            sections.append(group_section(summary["groups"]))
        if summary["segments"] is not None:
            sections.append(segment_section(summary["segments"]))
        sections.append(_data_section(summary))
        if summary["decisions"] is not None:
            sections.insert(2, decision_section(summary["decisions"]))
        state, headline = found["state"], found["headline"]
        if summary["calibrator"] is not None and summary["calibrator"]["is_of_these_rows"]:
            state, headline = "unclear", f"{headline}, on rows that the calibrator was fitted to"
        return pages.Page(summary["title"], state, headline, _answers(summary), sections)

    def __repr__(self) -> str:
        rows = pages.count(self._summary["data"]["n_rows"], "row")
        return f"<Report: {self._summary['verdict']['headline']}, n = {rows}>"


def _answers(summary: dict[str, Any]) -> list[pages.Answer]:
    """Return what the first screen answers."""
    found, of = summary["verdict"], summary["calibrator"]
    last = pages.Answer(_QUESTIONS["what_to_do"], found["what_to_do"], found["command"])
    answers = [pages.Answer(question, found[part]) for part, question in _QUESTIONS.items() if part != "what_to_do"]
    if of is not None:
        answers.insert(1, pages.Answer("Did the calibrator help?", of["verdict"]))
        last = pages.Answer(last.question, of["what_to_do"], found["command"] if of["is_of_verdict"] else None)
    return [*answers, last]


def _decided(rows: Rows, decisions: Decisions, summary: dict[str, Any], level: float) -> dict[str, Any]:
    """Summarise decisions on rows whose report is summarised."""
    return summarise_decisions(rows, decisions, level=level, upper=summary["curve"]["upper"], on=ON)


@dataclass(frozen=True, slots=True)
class Beside:
    """What a page has beside scores: a calibrator, decisions, and how segments are cut where rows have features."""

    calibrated: Calibrated | None
    decisions: Decisions | None
    segments: SegmentSettings


def _summary_of_rows(
    rows: Rows,
    about: About,
    beside: Beside,
    *,
    n_bins: int,
    level: float,
    rng: int | np.random.Generator | None,
    scores: Scores | None = None,
    by_class: ClassScores | None = None,
) -> dict[str, Any]:
    """Return what a report says of checked rows."""
    calibrated, decisions = beside.calibrated, beside.decisions
    settings = check_settings(SCORE_BINS, level, rng)
    check_integer("n_bins", n_bins, minimum=1)
    name = next(iter(rows.groups), None)
    groups = None if name is None else (name, groups_of_rows(rows, name, settings, ON))
    before = None if calibrated is None else calibrated.before
    both = None if before is None else measure_both(before, rows, settings)
    measured = of_rows(rows, settings, scores, by_class) if both is None else both.after
    summary = summarise(measured, about, n_bins=n_bins, groups=groups, rng=rng)
    if calibrated is not None:
        curve = None
        if both is not None:
            curve = main_curve(both.before, n_bins, rng, least_end=summary["curve"]["upper"])
            if curve["upper"] > summary["curve"]["upper"]:
                summary["curve"] = main_curve(measured, n_bins, rng, least_end=curve["upper"])
        summary["calibrator"] = summarise_calibrator(calibrated, summary["verdict"], both, curve)
    if decisions is not None:
        summary["decisions"] = _decided(rows, decisions, summary, settings.level)
    if rows.features:
        earlier = None if before is None else rows.with_scores(before.scores)
        summary["segments"] = summarise_segments(rows, beside.segments, level=settings.level, before=earlier)
    return summary


def _data_section(summary: dict[str, Any]) -> pages.Section:
    """Return the section on the rows and on how intervals were found."""
    level = percent_level(summary["data"]["level"])
    how = ("Intervals", f"Level {level}, pointwise. {methods_of(summary)}")
    of = summary["calibrator"]
    by = [] if of is None else [("Calibrator", words_of_fit(of))]
    return pages.Section("Data and method", [pages.Facts([*by, *data_facts(summary), how])])


def data_facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the rows are, as terms and texts."""
    data = summary["data"]
    facts = [] if data["source"] is None else [("Source", pages.name(data["source"]))]
    if data["score_names"]:
        names = [pages.name(each, _SHORT) for each in data["score_names"]]
        facts.append(("Scores from", listed(names, most=_MOST_NAMED)))
    classes = [
        f"{pages.name(each['label'], _SHORT)} ({pages.count(each['n'], 'row')}"
        f"{', positive' if each['label'] == data['positive_class'] else ''})"
        for each in data["classes"]
    ]
    weights = "None: every row counts once"
    if data["is_weighted"]:
        worth = pages.count(int(data["effective_rows"]), "equally weighted row")
        weights = f"Total {pages.count(data['total_weight'])}; worth {worth}"
    if data["design_effect"] > 1.0:
        worth = pages.count(int(data["effective_rows"]), "independent one")
        facts.append(("Dependence", f"Rows are not independent; they are worth about {worth}"))
    if data["n_skipped"]:
        facts.append(("Left out", f"{pages.count(data['n_skipped'], 'row')}, for missing values"))
    return [
        *facts,
        ("Rows", pages.count(data["n_rows"])),
        ("Classes", listed(classes, most=_MOST_NAMED)),
        ("Weights", weights),
    ]


def _check_score_names(score_names: Sequence[str] | None, n_columns: int) -> list[str]:
    """Return the names of the score columns, one for each."""
    if score_names is None:
        return []
    if isinstance(score_names, str):
        score_names = [score_names]
    if len(score_names) != n_columns:
        raise ShapeError(f"score_names has {len(score_names)} names for {n_columns} columns. Pass one for each column.")
    return list(score_names)
