"""All scores of predictions in any source of rows, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from calibrant.engines.class_rows import StreamedClassRows, materialise_rows, probabilities_of
from calibrant.engines.columns import flipped, top_label_reader, ungrouped
from calibrant.engines.quantised import QuantisedSummary
from calibrant.engines.rows import CheckedRows, RowReader
from calibrant.engines.summarise import MAX_DISTINCT, Exact, check_exact, fold_summaries
from calibrant.errors import InvalidInputError, unknown_name
from calibrant.metrics import (
    GroupScores,
    Settings,
    check_settings,
    evaluate_group_summaries,
    evaluate_multiclass,
    evaluate_rows,
    evaluate_summary,
)
from calibrant.results import Scores
from calibrant.summary import ScoreSummary
from calibrant.tables import open_rows
from calibrant.validation import InputKind, check_integer


@overload
def evaluate(
    source: Any,
    *,
    score: str | Sequence[str] = "p",
    label: str = "y",
    weight: str | None = None,
    group: None = None,
    input: InputKind = "probability",
    classes: Sequence[Any] | None = None,
    pos_label: object = None,
    exact: Exact = "auto",
    max_distinct: int = MAX_DISTINCT,
    n_bins: int = 15,
    level: float = 0.95,
    rng: int | None = 0,
    evaluated_on: str = "given data",
    format: str | None = None,
    table: str | None = None,
) -> Scores: ...


@overload
def evaluate(
    source: Any,
    *,
    score: str | Sequence[str] = "p",
    label: str = "y",
    weight: str | None = None,
    group: str,
    input: InputKind = "probability",
    classes: Sequence[Any] | None = None,
    pos_label: object = None,
    exact: Exact = "auto",
    max_distinct: int = MAX_DISTINCT,
    n_bins: int = 15,
    level: float = 0.95,
    rng: int | None = 0,
    evaluated_on: str = "given data",
    format: str | None = None,
    table: str | None = None,
) -> GroupScores: ...


def evaluate(
    source: Any,
    *,
    score: str | Sequence[str] = "p",
    label: str = "y",
    weight: str | None = None,
    group: str | None = None,
    input: InputKind = "probability",
    classes: Sequence[Any] | None = None,
    pos_label: object = None,
    exact: Exact = "auto",
    max_distinct: int = MAX_DISTINCT,
    n_bins: int = 15,
    level: float = 0.95,
    rng: int | None = 0,
    evaluated_on: str = "given data",
    format: str | None = None,
    table: str | None = None,
) -> Scores | GroupScores:
    """Measure probabilities in any source, as `cb.evaluate` and `evaluate_groups` do in memory.

    Parameters
    ----------
    source, score, label, weight, group, classes, exact, max_distinct, format, table
        As in `cb.engines.summarise`.
    input : {"probability", "logit"}
        What the scores are; K columns of logits are turned into probabilities.
    pos_label, n_bins, level, rng, evaluated_on
        As in `cb.evaluate`.

    Returns
    -------
    Scores, or GroupScores where there is a column of groups
        Where the distinct scores fit, those of memory. Where they don't, those of cells of neighbouring scores; the
        notes of `brier`, `log_loss`, `auc` and `ece` of one column then say how far that can be from the rows' own.
        Of several columns `brier`, `log_loss` and `accuracy` are those of the rows, whatever their number; the
        others of cells. Groups of several columns are measured by their top label.

    Raises
    ------
    CalibrantError
        If the source can't be read, or a row can't be used.

    Notes
    -----
    One column takes one pass. More columns than fit in memory take four: row counts and means, summaries of each class
    and of the top label, losses, and what each row adds to the intervals of sums over classes.

    Examples
    --------
    >>> import calibrant as cb
    >>> rows = {"p": [0.1, 0.4, 0.35, 0.8] * 50, "y": [0, 0, 1, 1] * 50}
    >>> print(cb.engines.evaluate(rows)["brier"])
    brier 0.1581 [0.1356, 0.1806]
    """
    check_exact(exact)
    settings = check_settings(n_bins, level, rng)
    check_integer("max_distinct", max_distinct, minimum=1)
    if input == "score":
        raise InvalidInputError(
            "input='score' are no probabilities, which is what is measured. Calibrate them first, by cb.engines.fit "
            "and cb.engines.apply."
        )
    reader = RowReader(
        open_rows(source, format=format, table=table),
        score=score,
        label=label,
        weight=weight,
        group=group,
        input=input,
        classes=classes,
    )
    probabilities = probabilities_of(reader)
    if pos_label is not None and is_flipped(pos_label, reader):
        probabilities = flipped(probabilities)
    if group is not None:
        return evaluate_grouped(probabilities, settings, evaluated_on, exact=exact, max_distinct=max_distinct)
    if probabilities.is_binary:
        found = fold_summaries(probabilities, exact=exact, max_distinct=max_distinct)
        assert isinstance(found, ScoreSummary)  # noqa: S101
        return evaluate_streamed(found, count_weighted(probabilities, found), settings, evaluated_on)
    held = None if exact is False else materialise_rows(probabilities, max_distinct)
    if held is not None:
        return evaluate_rows(held, settings, evaluated_on)
    streamed = StreamedClassRows.read(probabilities, exact=exact, max_distinct=max_distinct)
    return evaluate_multiclass(streamed, settings, evaluated_on)


def is_flipped(pos_label: object, reader: RowReader) -> bool:
    """Say whether the positive one of two labels is the smaller one."""
    known = reader.classes.tolist()
    if len(reader.score) > 1:
        raise InvalidInputError(
            f"pos_label={pos_label!r} is for one column of scores, but {len(reader.score)} are named. Leave it out."
        )
    if pos_label not in known:
        raise unknown_name("pos_label", pos_label, known)
    return bool(pos_label == known[0])


def evaluate_streamed(summary: ScoreSummary, n_rows: int, settings: Settings, evaluated_on: str) -> Scores:
    """Measure the probabilities of a summary; of cells, notes say how far that may be from the rows' own."""
    scores = evaluate_summary(summary, n_rows, settings, evaluated_on)
    if not isinstance(summary, QuantisedSummary):
        return scores
    bounds = summary.bounds
    known = {
        "brier": bounds.brier,
        "log_loss": bounds.log_loss,
        "auc": bounds.auc,
        "ece": summary.ece_bound(settings.n_bins),
    }
    noted = [
        replace(s, note=f"of cells of scores: within {known[s.name]:.1e} of the rows' own") if s.name in known else s
        for s in scores.values()
    ]
    return Scores(noted, verdict=scores.verdict)


def group_summaries(reader: RowReader, *, exact: Exact, max_distinct: int) -> dict[Any, ScoreSummary]:
    """Summarise the groups that a reader reads: of several columns, their top label."""
    one = reader if reader.is_binary else top_label_reader(reader)
    found = fold_summaries(one, exact=exact, max_distinct=max_distinct)
    assert isinstance(found, dict)  # noqa: S101
    return found


def evaluate_grouped(
    reader: RowReader,
    settings: Settings,
    evaluated_on: str,
    *,
    exact: Exact,
    max_distinct: int,
    by_group: dict[Any, ScoreSummary] | None = None,
) -> GroupScores:
    """Measure the groups that a reader reads: of several columns, by their top label."""
    one = reader if reader.is_binary else top_label_reader(reader)
    if by_group is None:
        by_group = group_summaries(reader, exact=exact, max_distinct=max_distinct)
    overall = summary_of_all(one, by_group, exact=exact, max_distinct=max_distinct)
    return evaluate_group_summaries(
        overall,
        by_group,
        n_rows=_count_groups(one, by_group),
        is_binary=reader.is_binary,
        settings=settings,
        evaluated_on=evaluated_on,
    )


def summary_of_all(
    reader: RowReader, by_group: Mapping[Any, ScoreSummary], *, exact: Exact, max_distinct: int
) -> ScoreSummary:
    """Return the summary of all groups: of cells, which don't add up where groups share them, by one more pass."""
    if any(isinstance(summary, QuantisedSummary) for summary in by_group.values()):
        found = fold_summaries(ungrouped(reader), exact=exact, max_distinct=max_distinct)
        assert isinstance(found, ScoreSummary)  # noqa: S101
        return found
    columns = zip(*(summary.distinct for summary in by_group.values()), strict=True)
    scores, weight, squared, positives = (np.concatenate(parts) for parts in columns)
    return ScoreSummary.from_cells(scores, weight, positives, weight_squared=squared)


def count_weighted(reader: RowReader, summary: ScoreSummary) -> int:
    """Return the number of rows of a summary: its weight, unless rows have weights of their own."""
    if reader.weight is None or not reader.source.is_repeatable:
        return round(summary.total_weight)
    return reader.total(lambda rows: len(rows.scores))


def _count_groups(reader: RowReader, by_group: Mapping[Any, ScoreSummary]) -> dict[Any, int]:
    """Return the number of rows of each group."""
    if reader.weight is None or not reader.source.is_repeatable:
        return {group: round(summary.total_weight) for group, summary in by_group.items()}

    def partial(part: RowReader) -> dict[Any, int]:
        counts: dict[Any, int] = {}
        for rows in part:
            _add_counts(counts, part, rows)
        return counts

    def merge(a: dict[Any, int], b: dict[Any, int]) -> dict[Any, int]:
        return {group: a.get(group, 0) + b.get(group, 0) for group in a | b}

    return reader.reduce(partial, merge)


def _add_counts(counts: dict[Any, int], reader: RowReader, rows: CheckedRows) -> None:
    assert rows.groups is not None  # noqa: S101
    for code, n in enumerate(np.bincount(rows.groups).tolist()):
        if n:
            counts[reader.groups[code]] = counts.get(reader.groups[code], 0) + n
