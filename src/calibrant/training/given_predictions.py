"""Predictions that exist, of models that were trained elsewhere, calibrated and stacked without leaks.

A table holds out-of-fold probabilities of one model or several, beside the labels and their times. Whether a model saw
the labels that it predicts only its trainer can know. What is done here is without leaks: the last part in time is
left for measuring, and each row before it is calibrated by fits to other blocks in time, without labels that overlap.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from calibrant.errors import InvalidInputError, ShapeError, UnknownNameError, did_you_mean
from calibrant.phrases import listed, quoted
from calibrant.rows import Rows
from calibrant.tables import RowSource
from calibrant.training.calibration import calibrate_rows, cross_calibrated, new_calibrator
from calibrant.training.config import FILE_NAME, TrainConfig
from calibrant.training.dataset import Dataset
from calibrant.training.given_model import GivenModel
from calibrant.training.metrics_report import Forecasts
from calibrant.training.stacking import Stack, stack_members
from calibrant.training.trainer import Trained
from calibrant.validation import as_labels, as_probabilities, match_classes

#: Blocks in time by which the rows before the test part are calibrated.
N_FOLDS = 5
#: What our own files of predictions call what a model says before it is calibrated.
_RAW = "raw_"


def find_scores(
    source: RowSource, label: str, *, score: Sequence[Sequence[str]] = (), members: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Return the columns of each model in a table of predictions, by the model's name.

    Parameters
    ----------
    source : RowSource
    label : str
        Column of the labels.
    score : sequence of lists of str
        Columns, or patterns, of each model: one per class, or that of the larger of two labels.
    members : sequence of str
        Names of these models. Without `score`, models whose columns are named as in our own files: raw_NAME_CLASS. By
        default all of these, or the only model, of raw_CLASS, or p.
    """
    if score:
        columns = [tuple(source.select(names)) for names in score]
        empty = next((names for names, found in zip(score, columns, strict=True) if not found), None)
        if empty is not None:
            raise InvalidInputError(f"score {list(empty)!r} names no column. Name the predictions of a model.")
        if members and len(members) != len(columns):
            raise InvalidInputError(
                f"members names {len(members)} models, {quoted(members)}, and score the columns of {len(columns)}. "
                "Name each model once, in the same order."
            )
        names = list(members) or _names_of(columns)
        if len(set(names)) < len(names):
            raise InvalidInputError(f"two models are called alike: {quoted(names)}. Name them by members.")
        return dict(zip(names, columns, strict=True))
    classes = as_labels(source.read([label]).column(label), name=f"column {label!r} of {source.name}").classes.tolist()
    found = _own_columns(source.names, classes)
    several = {name: columns for name, columns in found.items() if name}
    if members:
        for name in members:
            if name not in several:
                known = f"It has {quoted(list(several))}." if several else "It has none that are named so."
                raise UnknownNameError(
                    f"{source.name} has no columns {_RAW}{name}_CLASS of a model {name!r} for the classes "
                    f"{quoted(classes)}.{did_you_mean(name, several)} {known}"
                )
        return {name: several[name] for name in members}
    if several or found:
        return several or {"raw": found[""]}
    if "p" in source.names:
        return {"p": ("p",)}
    raise InvalidInputError(
        f"{source.name} has no columns of predictions that are found by their names, {_RAW}CLASS, {_RAW}MODEL_CLASS or "
        f"p. Name them: --score p_a,p_b. Its columns are: {listed(list(map(repr, source.names)))}."
    )


def stack_given(config: TrainConfig, before: Dataset, test: Dataset) -> Stack:
    """Calibrate the predictions of each model, and stack them; the labels of the test part are read by nothing here.

    The features of the rows are the columns of predictions that ``config.score`` names.
    """
    members = {}
    for name, columns in config.score.items():
        model = _given_model(name, columns, before)
        raw, raw_test = model.predict_proba(before.X), model.predict_proba(test.X)
        rows = before.rows(raw)
        unused = new_calibrator(config.calibrator, config.seed)
        began = time.process_time()
        calibration = calibrate_rows(unused, rows, when=config.calibrate)
        cross_fitted = cross_calibrated(unused, rows, when=config.calibrate)
        seconds = time.process_time() - began
        calibrated = calibration.calibrator.apply(Rows(raw_test))
        members[name] = Trained(
            model,
            calibration,
            calibration.calibrator,
            Forecasts.beside_rates(raw, cross_fitted, before),
            Forecasts.beside_rates(raw_test, calibrated, before),
            {"train": 0.0, "calibrate": seconds},
        )
    fold = before.rows(raw).folds(N_FOLDS)
    return stack_members(members, fold, 0, before, test)


def _given_model(name: str, columns: Sequence[str], data: Dataset) -> GivenModel:
    """Return the model of these columns, in the order of the classes, or say why they are no probabilities of them."""
    import pyarrow as pa

    classes = data.classes.tolist()
    if len(columns) != len(classes) and (len(columns), len(classes)) != (1, 2):
        raise ShapeError(
            f"model {name!r} has {len(columns)} columns of predictions, {quoted(columns)}, and the labels are of "
            f"{len(classes)} classes, {quoted(classes)}. Name a column for each class."
        )
    places = [data.names.index(column) for column in columns]
    table = pa.table({column: data.X[:, place] for column, place in zip(columns, places, strict=True)})
    one = len(columns) == 1
    as_probabilities(table.column(0) if one else table, name=f"predictions of {name!r}")
    order = None if one else match_classes(columns, classes, name=f"predictions of {name!r}")
    if order is not None:
        places = [places[at] for at in order]
    return GivenModel.of(places, len(classes))


def _own_columns(names: Sequence[str], classes: Sequence[Any]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each model by its name, which is empty for raw_CLASS, of names as in our own files."""
    ends = [str(label) for label in classes]
    there = set(names)
    found = {}
    for name in names:
        if name.startswith(_RAW) and name.endswith(ends[0]):
            stem = name.removesuffix(ends[0])
            columns = tuple(stem + end for end in ends)
            if there.issuperset(columns) and (stem == _RAW or stem.endswith("_")):
                found[stem.removeprefix(_RAW).removesuffix("_")] = columns
    return found


def _names_of(columns: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a name for each model: its only column, or what its columns have in common; else its number."""
    names = []
    for number, several in enumerate(columns, start=1):
        first, last = min(several), max(several)
        n_shared = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        name = first if len(several) == 1 else first[:n_shared].rstrip("_-. ")
        names.append(name if FILE_NAME.fullmatch(name) else f"model{number}")
    return names
