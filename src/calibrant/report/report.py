"""Report: what a set of predicted probabilities is worth, as one page, document or dict."""

from __future__ import annotations

import os
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
from calibrant.rows import Rows
from calibrant.tables import Missing, RowSource, open_rows
from calibrant.validation import ArrayLike, check_integer, series_name

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

_GAP = "Mean gap between predicted and observed"
_NOISE = "Noise alone makes it positive."
_OF_THE_TOP = "Mean gap between the probability of the most probable class and"
#: Title and meaning of each score that the page shows, in the order of the table.
MEANINGS = {
    "brier": ("Brier score", "Mean squared distance between prediction and outcome. Lower is better, 0 is perfect."),
    "log_loss": ("Log loss", "Mean surprise at what happened. Confident mistakes cost most; lower is better."),
    "ece": ("Calibration error", f"{_GAP} over bins. {_NOISE}"),
    "ece_debiased": (
        "Calibration error, debiased",
        "Root mean squared gap over bins less the part that noise explains. 0 where predictions are calibrated.",
    ),
    "smooth_ece": ("Calibration error, smooth", f"{_GAP}, smoothed without bins. {_NOISE}"),
    "ici": ("Integrated calibration index", f"Mean gap between predictions and a smooth fit to the outcomes. {_NOISE}"),
    "classwise_ece": (
        "Class-wise calibration error",
        f"The mean gap for each class against the rest, averaged over the classes. {_NOISE}",
    ),
    "marginal_calibration_error": (
        "Marginal calibration error",
        "Root mean squared gap of all classes over bins less the part that noise explains.",
    ),
    "auc": ("AUC", "Chance that an event is ranked above a non-event. Says nothing about calibration."),
    "miscalibration": ("Miscalibration", "Part of the Brier score that a perfect recalibration would remove."),
    "discrimination": ("Discrimination", "Part of the Brier score that is earned by telling events apart."),
    "uncertainty": ("Uncertainty", "Brier score of predicting the base rate for every row: no skill."),
    "accuracy": ("Accuracy", "Share of rows whose most probable class was right."),
    "mean_gap": ("Mean gap", "Mean prediction less the share of events. Above 0, too much is predicted overall."),
    "slope": ("Calibration slope", "Below 1, predictions are over-confident; above 1, under-confident."),
    "intercept": (
        "Calibration intercept",
        "True log-odds where 50% is predicted: 0 is right, and above 0 such predictions are too low.",
    ),
    "base_rate": ("Base rate", "Share of events."),
}
#: What differs where there is one probability per class.
_MULTICLASS_MEANINGS = {
    "ece": f"{_OF_THE_TOP} how often it was right, over bins. {_NOISE}",
    "smooth_ece": f"{_OF_THE_TOP} how often it was right, smoothed without bins. {_NOISE}",
    "ici": f"{_OF_THE_TOP} a smooth fit of how often it was right. {_NOISE}",
    "auc": "Chance that a row of a class is ranked above a row of another, averaged over classes. Says nothing about "
    "calibration.",
    "discrimination": "Part of the Brier score that is earned by telling classes apart.",
    "uncertainty": "Brier score of predicting the class frequencies for every row: no skill.",
    "mean_gap": "Mean probability of the most probable class less its share of right ones. Above 0, it is too sure.",
}
#: Scores that the page shows first; the others are folded.
_FIRST = ("brier", "log_loss", "ece_debiased", "mean_gap", "slope", "auc")
#: Scores that the verdict tells in words.
_IN_VERDICT = ("worst_bin_gap", "class_gap", "class_share_gap")
#: Decimals of scores of the size of 1.
_COARSE = {"slope": 3, "intercept": 3}


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
    title : str
        Heading of the page.
    score_names : sequence of str, optional
        Names of the columns of `y_prob`, to be stated with the data.
    label_name : str, optional
        Name of the column of labels, for the command that the page advises; by default that of their series.
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
        groups: ArrayLike | None = None,
        group_name: str | None = None,
        title: str = "Calibration report",
        score_names: Sequence[str] | None = None,
        label_name: str | None = None,
        source: str | None = None,
        rng: int | np.random.Generator | None = 0,
    ) -> None:
        named = None if groups is None else {group_name or series_name(groups) or "group": groups}
        known = {"groups": named, "cluster": cluster, "time": time, "label_end": label_end}
        rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes, **known)
        names = _check_score_names(score_names, 1 if rows.is_binary else rows.scores.shape[1])
        what = {
            "title": title,
            "source": source,
            "score_names": names,
            "label_name": label_name or series_name(y_true),
            "file": source,
        }
        self._summary = _summary_of_rows(rows, n_bins, level, rng, **what)

    @classmethod
    def of_rows(
        cls,
        rows: Rows,
        *,
        n_bins: int,
        level: float,
        title: str,
        source: str,
        rng: int,
        n_skipped: int = 0,
        label_name: str | None = None,
        file: str | None = None,
    ) -> Report:
        """Report on checked rows, and on their groups by the first column of these, as the constructor does."""
        names = [clean(each) for each in rows.columns or ()]
        what: dict[str, Any] = {"title": title, "source": source, "score_names": names}
        what |= {"n_skipped": n_skipped, "label_name": label_name, "file": file}
        return cls.__new__(cls).keep(_summary_of_rows(rows, n_bins, level, rng, **what))

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
        cluster, time, label_end, missing
            As in `cb.engines.evaluate`; the page says how many rows were left out.
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
        of: dict[str, Any] = {"label": label, "weight": weight, "group": group}
        of |= {"cluster": cluster, "time": time, "label_end": label_end}
        reader = RowReader(rows, score=score, classes=classes, missing=missing, **of)
        found = SourceStream.of(reader, max_distinct=max_distinct).as_probabilities(pos_label)
        names, where = _check_score_names(reader.score, len(reader.score)), clean(rows.name)
        groups = None if group is None else (group, groups_in_source(found, settings))
        measured = of_source(found, settings)
        what: dict[str, Any] = {"title": title, "source": where, "score_names": names, "groups": groups}
        what |= {"n_skipped": reader.source.n_skipped, "label_name": label}
        what |= {"file": where if isinstance(source, (str, os.PathLike, RowSource)) else None}
        return cls.__new__(cls).keep(summarise(measured, n_bins=n_bins, rng=rng, **what))

    def page(self) -> pages.Page:
        summary = self._summary
        found = summary["verdict"]
        sections = [reliability_section(summary), score_section(summary), *class_sections(summary)]
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
    rows: Rows, n_bins: int, level: float, rng: int | np.random.Generator | None, **what: Any
) -> dict[str, Any]:
    """Return what a report says of checked rows; `what` goes to `summarise`."""
    settings = check_settings(SCORE_BINS, level, rng)
    check_integer("n_bins", n_bins, minimum=1)
    name = next(iter(rows.groups), None)
    groups = None if name is None else (name, groups_of_rows(rows, name, settings, ON))
    return summarise(of_rows(rows, settings), n_bins=n_bins, groups=groups, rng=rng, **what)


def score_section(summary: dict[str, Any]) -> pages.Section:
    """Return the section of the scores that a summary holds."""
    scores, data = summary["scores"], summary["data"]
    shown = _shown(summary)
    fine = 5 if 0.0 < scores["brier"]["value"] < 0.01 else 4  # scores of rare events are small

    def value(name: str) -> str | pages.Cell:
        text = pages.figure(scores[name], _COARSE.get(name, fine))
        return text if pages.ends(scores[name]) else pages.Cell(text, "undefined-value")

    def note(name: str) -> str:
        meaning = shown[name][1]
        said = scores[name]["note"].rstrip(".")
        return f"{meaning} {said[:1].upper()}{said[1:]}.".strip() if said else meaning

    def ends(name: str) -> str:
        return pages.ends(scores[name], _COARSE.get(name, fine))

    def title(name: str) -> str:
        return shown[name][0]

    columns = [("Score", title), ("Value", value), (f"{percent_level(data['level'])} interval", ends)]
    first = [name for name in _FIRST if name in shown]
    rest = [name for name in shown if name not in first]
    look: dict[str, Any] = {"note": note, "look": "scores", "note_title": "Meaning"}
    tables = [pages.table("Scores", first, columns, **look)]
    if rest:
        tables.append(pages.table("More scores", rest, columns, folded=f"{len(rest)} more scores", **look))
    lead = f"Measured on the {pages.count(data['n_rows'])} rows given{', weighted' if data['is_weighted'] else ''}."
    worth = f"They are not independent, and worth about {int(data['effective_rows']):,} rows that are."
    notes = [*([worth] if data["design_effect"] > 1.0 else []), *data["notes"]]
    return pages.Section("Scores", [pages.Text(" ".join([lead, *notes])), *tables])


def _methods_of(summary: dict[str, Any]) -> str:
    """Say how the intervals were found."""
    methods: dict[str, list[str]] = {}
    for name, (title, _) in _shown(summary).items():
        if pages.ends(summary["scores"][name]):
            methods.setdefault(summary["scores"][name]["method"], []).append(title)
    return " ".join(f"{method[:1].upper()}{method[1:]}: {', '.join(titles)}." for method, titles in methods.items())


def _shown(summary: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return title and meaning of each score that the page shows; one that has no words yet follows by its name."""
    scores = summary["scores"]
    without_words = [name for name in scores if name not in MEANINGS and name not in _IN_VERDICT]
    shown = {name: words for name, words in MEANINGS.items() if name in scores}
    shown |= {name: (name.replace("_", " ").capitalize(), "") for name in without_words}
    if summary["kind"] == "multiclass":
        shown |= {name: (shown[name][0], words) for name, words in _MULTICLASS_MEANINGS.items() if name in shown}
    return shown


def _data_section(summary: dict[str, Any]) -> pages.Section:
    """Return the section on the rows and on how intervals were found."""
    data = summary["data"]
    facts = [] if data["source"] is None else [("Source", pages.name(data["source"]))]
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
    if data["n_skipped"]:
        facts.append(("Left out", f"{pages.count(data['n_skipped'])} rows, for missing values"))
    level = percent_level(data["level"])
    facts += [
        ("Rows", pages.count(data["n_rows"])),
        ("Classes", listed(classes, most=_MOST_NAMED)),
        ("Weights", weights),
        ("Intervals", f"Level {level}, pointwise. {_methods_of(summary)}"),
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
