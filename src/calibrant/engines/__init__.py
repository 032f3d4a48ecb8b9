"""Engines: calibrators at work on tables that live in files, in databases, or beyond memory."""

from calibrant.engines.applying import apply as apply
from calibrant.engines.evaluating import evaluate as evaluate
from calibrant.engines.fitting import fit as fit
from calibrant.engines.folding import FoldState as FoldState
from calibrant.engines.quantised import ErrorBounds as ErrorBounds, QuantisedSummary as QuantisedSummary
from calibrant.engines.summarise import summarise as summarise
from calibrant.tables import (
    Applied as Applied,
    RowSource as RowSource,
    open_rows as open_rows,
    read_columns as read_columns,
)

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.engines.class_rows import (
    StreamedClassRows as StreamedClassRows,
    materialise_rows as materialise_rows,
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
from calibrant.engines.fitted_columns import FittedColumns as FittedColumns
from calibrant.engines.quantised import LEAST_BITS as LEAST_BITS, CellTable as CellTable
from calibrant.engines.rows import CheckedRows as CheckedRows, RowReader as RowReader
from calibrant.engines.summarise import MAX_DISTINCT as MAX_DISTINCT, fold_summaries as fold_summaries
