"""Engines: calibrators at work on tables that live in files."""

from calibrant.engines.appending import append_columns
from calibrant.engines.formats import FORMATS, Format
from calibrant.engines.reading import TableFile, open_table, read_columns
from calibrant.engines.targets import open_target

__all__ = [
    "FORMATS",
    "Format",
    "TableFile",
    "append_columns",
    "open_table",
    "open_target",
    "read_columns",
]
