"""The bars that are used where none are named: daily bars of five stocks that ship inside a dependency."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

from calibrant.errors import InvalidInputError
from calibrant.training.bars import Bars, as_bars

_PACKAGE = "bokeh_sampledata"


def default_bars() -> Bars:
    """Return daily bars of AAPL, FB, GOOG, IBM and MSFT from 2000 to 2013, adjusted for splits and dividends.

    Raises
    ------
    InvalidInputError
        If the package that holds them isn't installed.

    Notes
    -----
    File stocks.csv.gz of the package bokeh-sampledata: public domain, collected by Quandl's users (WIKI prices).
    """
    import pyarrow as pa
    import pyarrow.csv as pc

    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise InvalidInputError(
            "no --data is given, and the package with the default bars, bokeh-sampledata, is not installed. Install "
            "calibrant[training], or name a file of bars."
        )
    path = Path(found.origin).parent / "_data" / "stocks.csv.gz"
    with gzip.open(path) as file:
        return as_bars(pc.read_csv(pa.BufferReader(file.read())), source=f"{_PACKAGE}/{path.name}")
