"""Score summaries of any source of rows, in one pass and bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibrant.engines.rows import RowReader
from calibrant.engines.streams import MAX_DISTINCT, Exact, SourceStream
from calibrant.summary import ScoreSummary
from calibrant.tables import FormatLike, Missing, open_rows
from calibrant.validation import InputKind


def summarise(
    source: Any,
    *,
    score: str | Sequence[str] = "p",
    label: str = "y",
    weight: str | None = None,
    group: str | None = None,
    input: InputKind = "probability",
    classes: Sequence[Any] | None = None,
    missing: Missing = "error",
    exact: Exact = "auto",
    max_distinct: int = MAX_DISTINCT,
    format: FormatLike = None,
    table: str | None = None,
) -> ScoreSummary | dict[Any, Any]:
    """Summarise the scores and labels of any source in one pass, in bounded memory.

    Parameters
    ----------
    source : path-like, frame, mapping of columns, Arrow stream, DuckDB relation, Spark data frame, or callable
        A Parquet, Arrow, CSV, TSV or JSON-lines file, the text ones also packed (.csv.gz, .csv.zst); a folder of such
        files, or a pattern of their names (`part-*.csv`); an address of these, `s3://` or `https://`; a DuckDB
        database; a data frame, an Arrow table, or a mapping from names to columns; an Arrow record-batch reader;
        anything else with `__arrow_c_stream__`; a DuckDB relation, or a connection, of which a `table` is read; a Spark
        data frame or a session with a `table`, whose partitions are summarised where they are, by workers that can
        import calibrant; or a function that returns a new one of these.
    score : str or sequence of str
        The column of the scores of the positive class; or one column per class in the order of the sorted classes,
        by names or patterns such as `p*`.
    label, weight, group : str
        The columns of the labels, of sample weights, and of what names groups of rows.
    input : {"probability", "logit", "score"}
        What the scores are. K columns of logits are turned into probabilities.
    classes : sequence, optional
        All classes, sorted, where the labels may lack some.
    missing : {"error", "skip"}
        What becomes of rows that lack a value, null or NaN, in a column that is read. "skip" leaves them out, and a
        DataWarning says how many.
    exact : bool or "auto"
        True: every distinct score is kept, or an error says that they are too many. False: neighbouring scores are
        gathered into cells. "auto": exact where the scores fit, else cells.
    max_distinct : int
        Distinct scores that may be held, of all groups and classes together; 100 bytes each.
    format : {"parquet", "arrow", "csv", "tsv", "jsonl"} or calibrant.tables.TableFormat, optional
        What files are, whatever their names say; a `TableFormat` says delimiter, decimal point and encoding too.
    table : str, optional
        Which table of a DuckDB database or connection, or a Spark session; of another schema ``schema.table``.

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

    One score of a Spark data frame is put into cells by Spark's own aggregation, unless a row is unusual (a probability
    nearer to 0 than 2^-150, a label of floating point); with "auto" that is where an estimate by Spark shows that there
    are too many distinct scores.

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
    rows = open_rows(source, format=format, table=table)
    of: dict[str, Any] = {"score": score, "label": label, "weight": weight, "group": group, "input": input}
    reader = RowReader(rows, classes=classes, missing=missing, **of)
    stream = SourceStream.of(reader, exact=exact, max_distinct=max_distinct)
    by_group: dict[Any, Any] = {
        key: found[0] if stream.is_binary else dict(zip(stream.classes.tolist(), found, strict=True))
        for key, found in stream.summaries().items()
    }
    reader.warn_of_skipped()
    return by_group[None] if group is None else by_group
