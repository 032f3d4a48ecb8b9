"""Tables of any format and size, read and written: files, folders, databases, frames, streams and Spark."""

from calibrant.tables.appending import Applied as Applied
from calibrant.tables.opening import open_rows as open_rows, read_columns as read_columns
from calibrant.tables.sources import RowSource as RowSource
from calibrant.tables.table_format import (
    FORMATS as FORMATS,
    Format as Format,
    FormatLike as FormatLike,
    TableFormat as TableFormat,
)

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.tables.appending import (
    PART_ROWS as PART_ROWS,
    append_columns as append_columns,
    write_table as write_table,
)
from calibrant.tables.derived_source import DerivedSource as DerivedSource
from calibrant.tables.finding import is_many as is_many
from calibrant.tables.formats import format_of_other as format_of_other, text_options as text_options
from calibrant.tables.lines import in_lines as in_lines
from calibrant.tables.missing import (
    MISSING as MISSING,
    SKIP_HINT as SKIP_HINT,
    Missing as Missing,
    complete_rows as complete_rows,
    count_missing as count_missing,
    in_all_rows as in_all_rows,
    is_missing as is_missing,
    listed_counts as listed_counts,
    missing_rows as missing_rows,
    opened_for as opened_for,
    refuse_missing as refuse_missing,
)
from calibrant.tables.recoding import without_packing as without_packing
from calibrant.tables.remote import is_remote as is_remote, name_of as name_of
from calibrant.tables.sources import Batch as Batch, check_numbers as check_numbers
from calibrant.tables.spark import (
    SparkSource as SparkSource,
    column_of as column_of,
    gathered as gathered,
    is_spark as is_spark,
    open_spark as open_spark,
)
from calibrant.tables.writing import (
    KEEP_HINT as KEEP_HINT,
    MISSING_INPUT as MISSING_INPUT,
    MissingInput as MissingInput,
    NewColumns as NewColumns,
    Progress as Progress,
)
