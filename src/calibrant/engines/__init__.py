"""Engines: calibrators at work on tables that live in files, in databases, or beyond memory."""

from calibrant.engines.applying import apply as apply
from calibrant.engines.evaluating import evaluate as evaluate
from calibrant.engines.fitting import fit as fit
from calibrant.engines.folding import FoldState as FoldState
from calibrant.engines.summarise import summarise as summarise
from calibrant.quantised import ErrorBounds as ErrorBounds, QuantisedSummary as QuantisedSummary
from calibrant.tables import (
    Applied as Applied,
    RowSource as RowSource,
    open_rows as open_rows,
    read_columns as read_columns,
)

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.engines.calibrated_source import CalibratedSource as CalibratedSource
from calibrant.engines.dependent_streams import settings_of_stream as settings_of_stream
from calibrant.engines.evaluating import (
    StreamedClassRows as StreamedClassRows,
    evaluate_groups_of as evaluate_groups_of,
    evaluate_one_score as evaluate_one_score,
    summarise_groups_of as summarise_groups_of,
)
from calibrant.engines.fitted_columns import FittedColumns as FittedColumns
from calibrant.engines.rows import CheckedBatch as CheckedBatch, RowReader as RowReader
from calibrant.engines.streams import MAX_DISTINCT as MAX_DISTINCT, SourceStream as SourceStream
