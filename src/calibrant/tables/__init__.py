"""Tables of any format and size, read and written: files, folders, databases, frames, streams and Spark."""

from calibrant.tables.formats import FORMATS as FORMATS
from calibrant.tables.formats import Format as Format
from calibrant.tables.opening import open_rows as open_rows
from calibrant.tables.opening import read_columns as read_columns
from calibrant.tables.parts import Applied as Applied
from calibrant.tables.sources import RowSource as RowSource

# isort: split
# For other folders of calibrant; no part of the public API.
from calibrant.tables.appending import append_columns as append_columns
from calibrant.tables.parts import PART_ROWS as PART_ROWS
from calibrant.tables.sources import Batch as Batch
from calibrant.tables.spark import SparkSource as SparkSource
from calibrant.tables.spark import column_of as column_of
from calibrant.tables.spark import is_spark as is_spark
from calibrant.tables.spark import mapped as mapped
from calibrant.tables.spark import open_spark as open_spark
from calibrant.tables.writing import NewColumns as NewColumns
from calibrant.tables.writing import Progress as Progress
