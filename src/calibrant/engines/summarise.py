"""Score summaries of any source of rows, in one pass and bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant.engines.folding import Fold
from calibrant.engines.rows import CheckedRows, RowReader
from calibrant.errors import InvalidInputError
from calibrant.numerics import softmax
from calibrant.summary import ScoreSummary
from calibrant.tables import open_rows
from calibrant.validation import InputKind, check_integer

Exact: TypeAlias = bool | Literal["auto"]
#: Summaries by group, by class, or by group and then class.
Summaries: TypeAlias = ScoreSummary | dict[Any, Any]

#: Distinct scores that an exact summary holds by default: about 400 MB while it is made.
MAX_DISTINCT = 1 << 22


def summarise(
    source: Any,
    *,
    score: str | Sequence[str] = "p",
    label: str = "y",
    weight: str | None = None,
    group: str | None = None,
    input: InputKind = "probability",
    classes: Sequence[Any] | None = None,
    exact: Exact = "auto",
    max_distinct: int = MAX_DISTINCT,
    format: str | None = None,
    table: str | None = None,
) -> Summaries:
    """Summarise the scores and labels of any source in one pass, in bounded memory.

    Parameters
    ----------
    source : path-like, frame, mapping of columns, Arrow stream, DuckDB relation, Spark data frame, or callable
        A Parquet, Arrow, CSV, TSV or JSON-lines file; a folder of such files; a DuckDB database; a data frame, an Arrow
        table, or a mapping from names to columns; an Arrow record-batch reader; anything else with
        `__arrow_c_stream__`; a DuckDB relation; a Spark data frame or a session with a `table`, whose partitions are
        summarised where they are, by workers that can import calibrant; or a function that returns a new one of these.
    score : str or sequence of str
        The column of the scores of the positive class; or one column per class in the order of the sorted classes,
        by names or patterns such as `p*`.
    label, weight, group : str
        The columns of the labels, of sample weights, and of what names groups of rows.
    input : {"probability", "logit", "score"}
        What the scores are. K columns of logits are turned into probabilities.
    classes : sequence, optional
        All classes, sorted, where the labels may lack some.
    exact : bool or "auto"
        True: every distinct score is kept, or an error says that they are too many. False: neighbouring scores are
        gathered into cells. "auto": exact where the scores fit, else cells.
    max_distinct : int
        Distinct scores that may be held, of all groups and classes together; 100 bytes each.
    format : {"parquet", "arrow", "csv", "tsv", "jsonl"}, optional
        What files are, whatever their names say.
    table : str, optional
        Which table of a DuckDB database or a Spark session.

    Returns
    -------
    ScoreSummary, or dict
        By group where there is a column of groups; by class where there are several columns of scores; by group and
        then class where there are both. A summary of cells is a `QuantisedSummary`, whose `bounds` say how far metrics
        of it can be from those of the rows.

    Raises
    ------
    CalibrantError
        If the source can't be read, or a row can't be used; the message says which one, and of missing values how many
        there are in all of the source.

    Notes
    -----
    Where the source tells how many rows it has, "auto" goes by the first 131,072 of them: if these show that all scores
    can't fit, cells are filled at once. Pass `exact=True` where the first rows are not like the others.

    Exact summaries of unweighted rows are equal, bit for bit, to `ScoreSummary.from_arrays` of the same rows; sums of
    weights are equal to rounding. Cells have relative width 2^-12 of the distance to 0 or 1 (of the score itself, where
    it is no probability), wider where there are many groups or classes.

    Examples
    --------
    >>> import calibrant as cb
    >>> summary = cb.engines.summarise({"p": [0.2, 0.7, 0.7, 0.9], "y": [0, 1, 0, 1]})
    >>> summary.scores.tolist(), summary.weight.tolist(), summary.positives.tolist()
    ([0.2, 0.7, 0.9], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0])
    """
    check_exact(exact)
    check_integer("max_distinct", max_distinct, minimum=1)
    reader = RowReader(
        open_rows(source, format=format, table=table),
        score=score,
        label=label,
        weight=weight,
        group=group,
        input=input,
        classes=classes,
    )
    return fold_summaries(reader, exact=exact, max_distinct=max_distinct)


def check_exact(exact: object) -> None:
    """Raise unless `exact` is True, False or "auto"."""
    if not (isinstance(exact, bool) or exact == "auto"):
        raise InvalidInputError(f"exact={exact!r} is none of True, False and 'auto'. Pass one of them.")


def fold_summaries(reader: RowReader, *, exact: Exact, max_distinct: int, n_groups: int | None = None) -> Summaries:
    """Summarise what a reader reads; `n_groups` is told where the source has no column of the groups."""
    n_classes = 1 if reader.is_binary else len(reader.classes)
    is_probability = reader.input == "probability" or (reader.input == "logit" and not reader.is_binary)
    n_rows = reader.source.n_rows
    kind = None if exact == "auto" else bool(exact)
    if n_groups is None:
        n_groups = 1 if reader.group is None else reader.source.count_distinct(reader.group)
    n_states = n_classes * n_groups

    def partial(part: RowReader) -> Fold:
        fold = Fold(kind, max_distinct, is_probability, n_states, n_rows=n_rows)
        for rows in part:
            add_rows(fold, rows, part)
        fold.settle()
        if part.group is not None:  # numbers of groups are a part's own
            fold.states = {(part.groups[g], k): state for (g, k), state in fold.states.items()}
        return fold

    fold = reader.reduce(partial, Fold.merge, is_large=True)
    classes = reader.classes.tolist()
    if not fold.states:
        raise InvalidInputError(f"{reader.source.name} has no row with weight. Give at least one a positive weight.")
    found = dict(fold.summaries())
    if reader.group is None:
        by_class = {classes[k]: summary for (_, k), summary in sorted(found.items())}
        return found[0, 0] if reader.is_binary else by_class
    groups = sorted({group for group, _ in found})
    if reader.is_binary:
        return {group: found[group, 0] for group in groups}
    return {group: {classes[k]: found[group, k] for k in range(n_classes)} for group in groups}


def add_rows(fold: Fold, rows: CheckedRows, reader: RowReader) -> None:
    """Add checked rows to the states of their groups and classes."""
    if rows.groups is None:
        _add_classes(fold, 0, rows, reader)
        return
    fold.n_states = max(fold.n_states, len(reader.groups) * (1 if reader.is_binary else len(reader.classes)))
    order = np.argsort(rows.groups, kind="stable")
    ordered = rows.groups[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), order.size], strict=True):
        at = order[start:stop]
        part = CheckedRows(rows.scores[at], rows.codes[at], None if rows.weight is None else rows.weight[at], None)
        _add_classes(fold, int(ordered[start]), part, reader)


def _add_classes(fold: Fold, group: int, rows: CheckedRows, reader: RowReader) -> None:
    if reader.is_binary:
        fold.add((group, 0), rows.scores, rows.codes.view(np.bool_), rows.weight)
        return
    values = softmax(rows.scores) if reader.input == "logit" else rows.scores
    for k in range(values.shape[1]):
        fold.add((group, k), np.ascontiguousarray(values[:, k]), rows.codes == k, rows.weight)
