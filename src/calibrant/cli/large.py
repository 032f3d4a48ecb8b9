"""Files of more rows than memory is asked to hold: the same commands in passes over them."""

from __future__ import annotations

from pathlib import Path

from calibrant.calibrators import Calibrator
from calibrant.cli.data import Request, split_list
from calibrant.cli.output import count, progress
from calibrant.engines import count_rows, evaluate, fit, is_many, open_rows
from calibrant.results import Scores

#: Rows that commands hold in memory; of files that don't say how many they have, bytes of this many rows.
MANY = 1 << 24
_BYTES_PER_ROW = 50


def is_large(request: Request) -> bool:
    """Say whether the rows of a request are too many to be held."""
    path = Path(request.file)
    if request.file == "-" or not path.exists() or (path.is_file() and path.stat().st_size < MANY):
        return False
    if not path.is_dir() and not is_many(path) and not path.is_file():
        return False
    source = open_rows(request.file, format=request.format)
    n_rows, n_bytes = count_rows(source)
    return n_rows > MANY if n_rows is not None else n_bytes > MANY * _BYTES_PER_ROW


def evaluate_large(request: Request, *, n_bins: int, level: float, seed: int, evaluated_on: str) -> Scores:
    """Measure one column of probabilities in one pass."""
    with progress("Measuring"):
        return evaluate(
            request.file,
            score=",".join(request.score),
            label=request.label,
            weight=request.weight,
            format=request.format,
            n_bins=n_bins,
            level=level,
            rng=seed,
            evaluated_on=evaluated_on,
        )


def fit_large(calibrator: Calibrator, request: Request) -> str:
    """Fit in passes; return a line that says to what."""
    with progress("Fitting"):
        fit(
            calibrator,
            request.file,
            score=[name for text in request.score for name in split_list(text)],
            label=request.label,
            weight=request.weight,
            classes=None if request.classes is None else split_list(request.classes),
            format=request.format,
        )
    return (
        f"Fitted {calibrator!r} to {count(calibrator.n_rows_, 'row')} in passes over {request.file}.\n"
        "No out-of-fold figures of so many rows: measure it on rows that it has not seen, by calibrant evaluate."
    )
