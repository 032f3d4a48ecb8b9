"""All scores of predictions in any source of rows, in bounded memory."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from calibrant.dependent_rows import DependenceSums
from calibrant.engines.calibrated_source import CalibratedSource
from calibrant.engines.dependent_streams import gap_sums_of_groups, settings_of_stream
from calibrant.engines.fitted_columns import FittedColumns
from calibrant.engines.rows import RowReader
from calibrant.engines.streams import MAX_DISTINCT, Exact, SourceStream
from calibrant.errors import InvalidInputError
from calibrant.fitted import Fitted
from calibrant.metrics import (
    GroupScores,
    RowValues,
    Settings,
    check_settings,
    evaluate_group_summaries,
    evaluate_multiclass,
    evaluate_rows,
    evaluate_summary,
    label_notes,
)
from calibrant.numerics import FloatArray
from calibrant.quantised import QuantisedSummary
from calibrant.results import Scores
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.tables import FormatLike, Missing, open_rows, opened_for
from calibrant.validation import InputKind


class _Options(TypedDict, total=False):
    score: str | Sequence[str] | None
    label: str
    weight: str | None
    input: InputKind
    classes: Sequence[Any] | None
    calibrator: Fitted | None
    cluster: str | None
    time: str | None
    label_end: str | None
    missing: Missing
    pos_label: object
    exact: Exact
    max_distinct: int
    n_bins: int
    level: float
    rng: int | None
    evaluated_on: str
    format: FormatLike
    table: str | None


@overload
def evaluate(source: Any, *, group: None = None, **options: Unpack[_Options]) -> Scores: ...
@overload
def evaluate(source: Any, *, group: str, **options: Unpack[_Options]) -> GroupScores: ...
def evaluate(
    source: Any,
    *,
    score: str | Sequence[str] | None = None,
    label: str = "y",
    weight: str | None = None,
    group: str | None = None,
    input: InputKind = "probability",
    classes: Sequence[Any] | None = None,
    calibrator: Fitted | None = None,
    cluster: str | None = None,
    time: str | None = None,
    label_end: str | None = None,
    missing: Missing = "error",
    pos_label: object = None,
    exact: Exact = "auto",
    max_distinct: int = MAX_DISTINCT,
    n_bins: int = 15,
    level: float = 0.95,
    rng: int | None = 0,
    evaluated_on: str = "given data",
    format: FormatLike = None,
    table: str | None = None,
) -> Scores | GroupScores:
    """Measure probabilities in any source, as `cb.evaluate` and `evaluate_groups` do in memory.

    Parameters
    ----------
    source, label, weight, group, classes, exact, max_distinct, format, table
        As in `cb.engines.summarise`.
    score : str or sequence of str, optional
        The columns of the scores, as there; p by default. Two columns are measured as one score, that of the second
        class, where `cb.evaluate` measures both by their top label.
    input : {"probability", "logit"}
        What the scores are; K columns of logits are turned into probabilities.
    calibrator : Fitted, optional
        Measure what this makes of the scores, of what kind it takes: anything that `cb.save` takes. Scores, groups and
        features are then by default the columns that it was fitted to, found by name; a feature may be missing.
    cluster, time, label_end : str, optional
        The columns of what `cb.evaluate` takes under these names. Clusters may span batches, files and partitions.
    missing : {"error", "skip"}
        What becomes of rows that lack a value, null or NaN, in a column that is read. "skip" leaves them out; the
        attribute `n_skipped` of the scores, or of the `overall` ones, says how many.
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
    One column takes one pass. More columns than fit in memory take six: row counts and means, summaries of each class,
    of the top label and of it by class, losses, and what each row adds to the intervals of sums over classes. Rows that
    are not independent take one more, which holds sums for each cluster, or time.

    Examples
    --------
    >>> import calibrant as cb
    >>> rows = {"p": [0.1, 0.4, 0.35, 0.8] * 50, "y": [0, 0, 1, 1] * 50}
    >>> print(cb.engines.evaluate(rows)["brier"])
    brier 0.1581 [0.1356, 0.1806]
    """
    settings = check_settings(n_bins, level, rng)
    if input == "score" and calibrator is None:
        raise InvalidInputError(
            "input='score' are no probabilities, which is what is measured. Calibrate them first, by cb.engines.fit "
            "and cb.engines.apply."
        )
    rows = open_rows(source, format=format, table=table)
    of: dict[str, Any] = {"label": label, "weight": weight, "group": group}
    of |= {"cluster": cluster, "time": time, "label_end": label_end}
    if calibrator is not None:
        columns = FittedColumns.to_measure(calibrator, rows, score=score, group=group)
        needed = list(dict.fromkeys([*columns.required, *(name for name in of.values() if name is not None)]))
        calibrated = CalibratedSource(opened_for(missing, rows.with_text(columns.as_text), needed), columns)
        reader = RowReader(calibrated, score=calibrated.outputs, classes=calibrated.classes, **of)
    else:
        reader = RowReader(rows, score=score or "p", input=input, classes=classes, missing=missing, **of)
    stream = SourceStream.of(reader, exact=exact, max_distinct=max_distinct).as_probabilities(pos_label)
    if group is not None:
        found = evaluate_groups_of(stream, summarise_groups_of(stream), settings, evaluated_on)
        found.overall.n_skipped = reader.source.n_skipped
        return found
    scores = _evaluate_all(stream, settings, evaluated_on)
    if len(reader.score) == 1:  # of two columns the stream has become one, but each has a name
        scores.notes = [*label_notes(stream, pos_label), *scores.notes]
    scores.n_skipped = reader.source.n_skipped
    return scores


def _evaluate_all(stream: SourceStream, settings: Settings, evaluated_on: str) -> Scores:
    """Measure the probabilities of a stream."""
    if stream.is_binary:
        summary = stream.summary()
        return evaluate_one_score(stream, summary, settings_of_stream(stream, summary, settings), evaluated_on)
    held = None if stream.exact is False else stream.materialise(stream.max_distinct // len(stream.classes))
    if held is not None:
        return evaluate_rows(held, settings, evaluated_on)
    rows = StreamedClassRows.read(stream)
    return evaluate_multiclass(rows, settings_of_stream(stream, rows.top, settings, rows.by_class), evaluated_on)


def evaluate_one_score(stream: SourceStream, summary: ScoreSummary, settings: Settings, evaluated_on: str) -> Scores:
    """Measure the probabilities of a summary; of cells, notes say how far that may be from the rows' own."""
    # the weight of unweighted rows is their number
    n_rows = stream.total(lambda rows: rows.n_rows) if stream.can_count else round(summary.total_weight)
    scores = evaluate_summary(summary, n_rows, settings, evaluated_on)
    if not isinstance(summary, QuantisedSummary):
        return scores
    bounds = summary.bounds
    known = {name: getattr(bounds, name) for name in ("brier", "log_loss", "auc")}
    known["ece"] = summary.ece_bound(settings.n_bins)
    notes = {name: f"of cells of scores: within {bound:.1e} of the rows' own" for name, bound in known.items()}
    noted = [replace(s, note=notes.get(s.name, s.note)) for s in scores.values()]
    return Scores(noted, verdict=scores.verdict, test=scores.test)


def summarise_groups_of(stream: SourceStream) -> dict[Any, ScoreSummary]:
    """Summarise the groups of a stream: of several columns, their top label."""
    return {group: found for group, (found,) in stream.one_column().summaries().items()}


def evaluate_groups_of(
    stream: SourceStream, by_group: Mapping[Any, ScoreSummary], settings: Settings, evaluated_on: str
) -> GroupScores:
    """Measure the groups of a stream, of several columns by their top label, whose summaries are given."""
    one = stream.one_column()
    sums = gap_sums_of_groups(one)
    of_group = None if sums is None else {group: settings.with_sums(each) for group, each in sums.items()}
    return evaluate_group_summaries(
        _summary_of_all(one, by_group),
        by_group,
        n_rows=_count_groups(one, by_group),
        is_binary=stream.is_binary,
        settings=settings if sums is None else settings.with_sums(DependenceSums.joined(list(sums.values()))),
        evaluated_on=evaluated_on,
        of_group=of_group,
    )


def _summary_of_all(stream: SourceStream, by_group: Mapping[Any, ScoreSummary]) -> ScoreSummary:
    """Return the summary of all groups: of cells, which don't add up where groups share them, by one more pass."""
    if any(isinstance(summary, QuantisedSummary) for summary in by_group.values()):
        return stream.summary()
    columns = zip(*(summary.distinct for summary in by_group.values()), strict=True)
    scores, weight, squared, positives = (np.concatenate(parts) for parts in columns)
    return ScoreSummary.from_cells(scores, weight, positives, weight_squared=squared)


def _count_groups(stream: SourceStream, by_group: Mapping[Any, ScoreSummary]) -> dict[Any, int]:
    """Return the number of rows of each group."""
    name = stream.group
    if not stream.can_count or name is None:
        return {group: round(summary.total_weight) for group, summary in by_group.items()}

    def partial(part: SourceStream) -> Counter[Any]:
        counts: Counter[Any] = Counter()
        for rows in part:
            labels = rows.groups[name]
            counts.update(dict(zip(labels.classes.tolist(), labels.counts().tolist(), strict=True)))
        return counts

    return stream.reduce(partial, operator.iadd)


@dataclass(frozen=True, slots=True)
class StreamedClassRows:
    """Rows of K columns that are read again for each mean over them; see `calibrant.metrics.multiclass.ClassRows`."""

    stream: SourceStream
    n_rows: int
    total: float
    effective_size: float
    mean_prob: FloatArray
    top: ScoreSummary
    by_class: Sequence[ScoreSummary]
    on_top: Sequence[tuple[ScoreSummary, int] | None]

    @classmethod
    def read(cls, stream: SourceStream) -> StreamedClassRows:
        """Count the rows and summarise their columns."""

        def part(rows: Rows) -> tuple[int, float, float, FloatArray]:
            w = rows.weights
            return w.size, float(w.sum()), float(np.square(w).sum()), w @ rows.scores

        n_rows, total, squared, sums = stream.total(part)
        by_class, by_top = stream.class_summaries(), stream.by_top_label()
        found = summarise_groups_of(by_top)
        counts = _count_groups(by_top, found)
        return cls(
            stream,
            n_rows,
            total,
            total**2 / squared,
            sums / total,
            stream.top_label().summary(),
            by_class,
            [(found[label], counts[label]) if label in found else None for label in stream.classes.tolist()],
        )

    @property
    def classes(self) -> list[Any]:
        """The sorted classes."""
        found: list[Any] = self.stream.classes.tolist()
        return found

    def top_summary(self) -> ScoreSummary:
        """Summarise the largest probability of each row, and whether it is of the row's class."""
        return self.top

    def summaries_on_top(self) -> Sequence[tuple[ScoreSummary, int] | None]:
        """Summarise the rows where each class is the top label, and count them."""
        return self.on_top

    def class_summary(self, k: int) -> ScoreSummary:
        """Summarise one column against its class."""
        return self.by_class[k]

    def moments(self, values: RowValues) -> list[tuple[float, float]]:
        """Return mean and variance over the rows of each value that a function gives of them.

        Squares are taken about the mean of the first rows, so that no digits are lost to a large mean.
        """
        first = next(iter(self.stream))
        about = [float(np.average(found, weights=first.weight)) for found in values(first)]
        about = [centre if np.isfinite(centre) else 0.0 for centre in about]

        def part(rows: Rows) -> FloatArray:
            w = rows.weights
            away = [found - centre for found, centre in zip(values(rows), about, strict=True)]
            return np.array([(float(w @ x), float(w @ np.square(x))) for x in away])

        sums = self.stream.total(part) / self.total
        return [
            (centre + mean, max(square - mean**2, 0.0) if np.isfinite(mean) else np.nan)
            for centre, (mean, square) in zip(about, sums.tolist(), strict=True)
        ]
