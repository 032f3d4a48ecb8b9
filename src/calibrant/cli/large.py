"""Files of more rows than memory is asked to hold: the same commands in passes over them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant.calibrators import Calibrator
from calibrant.cli.data import Request, labelled_classes, order_classes, positive_class, split_names
from calibrant.cli.output import count, progress
from calibrant.engines import RowReader, evaluate, fit
from calibrant.errors import InvalidInputError
from calibrant.metrics import GroupScores
from calibrant.report import Report
from calibrant.results import Scores
from calibrant.tables import RowSource, open_rows

#: Numbers of scores that commands hold in memory; of files that don't say how many rows they have, bytes of so many.
MANY = 1 << 24
_BYTES_PER_ROW = 50


@dataclass(frozen=True, slots=True)
class LargeColumns:
    """What a request for many rows reads, and how classes and columns were matched.

    Attributes
    ----------
    source : RowSource
    score : list of str
        In the order of the classes, where there are several.
    classes : list
        The sorted classes.
    positive : object
        The class of the one column of scores; None where there are several.
    order : str
        How columns and classes were matched, for the reader.
    """

    source: RowSource
    score: list[str]
    classes: list[Any]
    positive: object
    order: str


def is_large(request: Request) -> bool:
    """Say whether the rows of a request are too many to be held."""
    path = Path(request.file)
    if request.file == "-" or not path.exists() or (path.is_file() and path.stat().st_size < MANY):
        return False
    if not path.is_dir() and not path.is_file():
        return False
    source = open_rows(request.file, format=request.format)
    n_columns = len(source.select(split_names(request.score, source.names)))
    return source.n_bytes > MANY * _BYTES_PER_ROW if source.n_rows is None else source.n_rows * n_columns > MANY


def resolve(request: Request) -> LargeColumns:
    """Find the columns and classes of a request, as it does itself for rows in memory."""
    source = open_rows(request.file, format=request.format)
    score = source.select(split_names(request.score, source.names))
    (label,) = source.select([request.label])
    first = next(iter(source.scan([label])), None)
    if first is None:
        raise InvalidInputError(f"{source.name} has no rows. Pass at least one.")
    known = None if request.classes is None else labelled_classes(request.classes, first.table.column(label).type)
    reader = RowReader(source, score=score, label=label, classes=None if known is None else sorted(known))
    classes = reader.classes.tolist()
    if len(score) == 1:
        positive = positive_class(request.positive, classes)
        return LargeColumns(source, score, classes, positive, f"{positive!r} is the positive class")
    if request.positive is not None:
        raise InvalidInputError("--positive needs one score column; with several, each class has its own.")
    score, order = order_classes(score, classes, known)
    return LargeColumns(source, score, classes, None, order)


def evaluate_large(
    request: Request, columns: LargeColumns, *, n_bins: int, level: float, seed: int, evaluated_on: str
) -> tuple[Scores, dict[str, GroupScores]]:
    """Measure probabilities in passes: of all rows, and by each column of groups."""
    more: dict[str, Any] = {
        "score": columns.score,
        "label": request.label,
        "weight": request.weight,
        "classes": columns.classes,
        "pos_label": columns.positive,
        "n_bins": n_bins,
        "level": level,
        "rng": seed,
        "evaluated_on": evaluated_on,
    }
    with progress("Measuring"):
        found: Scores = evaluate(columns.source, **more)
        groups = split_names(request.groups, columns.source.names)
        return found, {name: evaluate(columns.source, group=name, **more) for name in groups}


def fit_large(calibrator: Calibrator, request: Request) -> str:
    """Fit in passes; return lines that say to what."""
    columns = resolve(request)
    with progress("Fitting"):
        fit(
            calibrator,
            columns.source,
            score=columns.score,
            label=request.label,
            weight=request.weight,
            classes=columns.classes,
        )
    return (
        f"Fitted {calibrator!r} to {count(calibrator.n_rows_, 'row')} in passes over {request.file}; {columns.order}.\n"
        "No out-of-fold figures of so many rows: measure it on rows that it has not seen, by calibrant evaluate."
    )


def report_large(request: Request, *, title: str, n_bins: int, level: float, seed: int) -> Report:
    """Report in passes."""
    columns = resolve(request)
    with progress("Measuring"):
        return Report.from_source(
            columns.source,
            score=columns.score,
            label=request.label,
            weight=request.weight,
            group=request.groups[0] if request.groups else None,
            classes=columns.classes,
            pos_label=columns.positive,
            n_bins=n_bins,
            level=level,
            title=title,
            rng=seed,
        )
