"""Engines: calibrators at work on tables that live in files, in databases, or beyond memory."""

from calibrant.engines.appending import append_columns
from calibrant.engines.applying import apply, is_folder
from calibrant.engines.batches import RowSource, count_rows, is_many, open_rows, read_rows
from calibrant.engines.evaluating import evaluate
from calibrant.engines.fitting import fit
from calibrant.engines.folding import FoldState
from calibrant.engines.formats import FORMATS, Format
from calibrant.engines.quantised import ErrorBounds, QuantisedSummary
from calibrant.engines.reading import TableFile, open_table, read_columns
from calibrant.engines.resume import Applied, apply_parts
from calibrant.engines.summarise import summarise
from calibrant.engines.targets import open_target

__all__ = [
    "FORMATS",
    "Applied",
    "ErrorBounds",
    "FoldState",
    "Format",
    "QuantisedSummary",
    "RowSource",
    "TableFile",
    "append_columns",
    "apply",
    "apply_parts",
    "count_rows",
    "evaluate",
    "fit",
    "is_folder",
    "is_many",
    "open_rows",
    "open_table",
    "open_target",
    "read_columns",
    "read_rows",
    "summarise",
]

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.engines.class_rows import (
    StreamedClassRows as StreamedClassRows,
    held_rows as held_rows,
    probabilities_of as probabilities_of,
)
from calibrant.engines.columns import flipped as flipped, ungrouped as ungrouped
from calibrant.engines.evaluating import (
    count_weighted as count_weighted,
    evaluate_grouped as evaluate_grouped,
    evaluate_streamed as evaluate_streamed,
    group_summaries as group_summaries,
    is_flipped as is_flipped,
)
from calibrant.engines.quantised import LEAST_BITS as LEAST_BITS, CellTable as CellTable
from calibrant.engines.rows import CheckedRows as CheckedRows, RowReader as RowReader
from calibrant.engines.summarise import MAX_DISTINCT as MAX_DISTINCT, fold_summaries as fold_summaries
