"""Columns of several models in one file: which they are, and the rows of each, read once.

--versus names the columns of further models. Without it several score columns are the classes of one model wherever
they can be; with labels of two classes they are separate models where they can't: their names are not those of the
classes, --classes doesn't name them, and most rows don't sum to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calibrant.errors import InvalidInputError, InvalidProbabilityError
from calibrant.phrases import count, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.cli.data import FileRows, OpenedFile
    from calibrant.validation import InputKind

#: Models that a line names before it counts the others.
_MOST_NAMED = 6
#: Memory that a comparison of models takes at its peak, for each score: rows, losses of both models, and their sorted
#: copies; and what one of methods adds for each row: the losses by the fits of all folds, of a method and of the first.
_BYTES_PER_SCORE, BYTES_BY_FOLDS = 100, 230


def read_models(
    opened: OpenedFile,
    *,
    input: InputKind = "probability",
    both_classes: bool = False,
    bytes_per_row: int = 0,
) -> dict[str, FileRows]:
    """Read a file once, and return the rows with the scores of each model by its name, the champion's first.

    There is one model unless --versus names others, or the score columns can't be the classes of one. Of many rows it
    is said how much memory they will take: what comparisons do, and `bytes_per_row` more.
    """
    from calibrant.metrics import check_widths

    how: dict[str, Any] = {"input": input, "both_classes": both_classes}
    columns = [name for each in (opened.models or {"": opened.score}).values() for name in each]
    if opened.is_large:
        what = "Models are compared on" if opened.models else "Methods are compared on"
        opened.tell_of_memory(what, _BYTES_PER_SCORE * len(columns) + bytes_per_row)
    if not opened.models and len(opened.score) == 1:
        return {opened.score[0]: opened.read(**how)}
    beside = [*opened.request.beside, *opened.groups, *opened.features]
    table = opened.source.read(list(dict.fromkeys([*columns, *beside])))
    models = opened.models
    if not models and input == "probability" and _are_separate(opened, table):
        models = {name: [name] for name in opened.score}
        if opened.groups or opened.features:
            option = "--group" if opened.groups else "--features"
            raise InvalidInputError(
                f"{option} is for one model, and {quoted(opened.score, most=_MOST_NAMED)} are taken as separate "
                "models, as they are not the classes of one. Name one column in --score."
            )
    if not models:
        with hinting_at_versus(opened):
            return {",".join(opened.score): opened.read(table=table, **how)}
    found = {name: replace(opened, score=each).read(table=table, **how) for name, each in models.items()}
    check_widths({name: each.rows for name, each in found.items()})
    return found


@contextmanager
def hinting_at_versus(opened: OpenedFile) -> Iterator[None]:
    """Add to the error of score columns whose rows don't sum to one: separate models are named by --versus."""
    try:
        yield
    except InvalidProbabilityError as error:
        if len(opened.score) == 1 or "sum to" not in str(error):
            raise
        first, second, *_ = opened.score
        hint = f"Or, if they are separate models: --score {first} --versus {second}."
        raise InvalidProbabilityError(f"{error} {hint}") from None


def _are_separate(opened: OpenedFile, table: pa.Table) -> bool:
    """Say whether several score columns can't be the classes of one model, and the labels have two classes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from calibrant.numerics import ROW_SUM_TOLERANCE
    from calibrant.validation import column_places

    of, score = opened.request, opened.score
    if of.classes is not None or of.calibrator is not None:
        return False
    classes = [label for label in pc.unique(table.column(of.label)).to_pylist() if label is not None]
    known = [classes, list(range(len(score)))]  # labels may lack a class
    if len(classes) != 2 or any(column_places(score, each) is not None for each in known):
        return False
    if not all(pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in table.select(score).schema.types):
        return False
    total = sum((table.column(name).to_numpy().astype(float) for name in score[1:]), table.column(score[0]).to_numpy())
    return bool((abs(total - 1.0) <= ROW_SUM_TOLERANCE).mean() < 0.5)


def describe_models(found: Mapping[str, FileRows]) -> str:
    """Return a line that says what was read."""
    first = next(iter(found.values()))
    of, source = first.columns.request, first.columns.source
    weight = "" if of.weight is None else f", weight {of.weight!r}"
    skipped = f" ({source.skipped})" if source.skipped else ""
    models = f"models {quoted(list(found), most=_MOST_NAMED)}"
    models += "" if of.versus else " (--classes makes them the classes of one)"
    rows = f"{count(first.n_read, 'row')}{skipped}"
    return f"{source.name}: {rows}, label {of.label!r}, {models}{weight}; {first.columns.order}"


def models_facts(found: Mapping[str, FileRows]) -> dict[str, Any]:
    """Return what was read, as the first members of a document."""
    first = next(iter(found.values()))
    facts = first.columns.facts(first.n_read)
    columns = {key: value for key, value in facts["columns"].items() if key != "score"}
    columns |= {"models": {name: each.columns.score for name, each in found.items()}}
    return facts | {"columns": columns}
