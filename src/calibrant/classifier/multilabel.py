"""Classifiers of any number of labels per row, each label calibrated on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import type_of_target

from calibrant.calibrators import BinaryCalibrator
from calibrant.classifier.array_kind import ArrayKind, as_numpy
from calibrant.classifier.methods import Method
from calibrant.classifier.pairs import Output, Pair
from calibrant.errors import InvalidTypeError, ShapeError
from calibrant.multilabel import MultilabelCalibrator
from calibrant.numerics import BoolArray, FloatArray, IntArray, expit
from calibrant.rows import Rows
from calibrant.validation import as_columns, as_indicators


@dataclass(frozen=True)
class MultilabelPair(Pair):
    """A fitted classifier of several labels and the calibrator of its output, which needs no classifier.

    It lacks no label: the calibrator says by itself which ones it couldn't calibrate.
    """

    calibrator: MultilabelCalibrator

    @property
    def is_known(self) -> BoolArray:
        return np.ones(len(self.calibrator.label_names_), dtype=np.bool_)

    def read(self, X: Any) -> Output:
        return read_labels(self.estimator, self.method, X, len(self.calibrator.label_names_))

    def calibrate(self, output: Output) -> npt.NDArray[np.floating[Any]]:
        q: FloatArray = self.calibrator.apply(Rows(output.values))
        return q.astype(np.float32) if output.is_float32 else q


def is_multilabel(y: Any) -> bool:
    """Say whether y holds indicators of several labels."""
    if len(getattr(y, "shape", ())) != 2 and not (isinstance(y, list) and y and isinstance(y[0], (list, tuple))):
        return False
    return bool(type_of_target(y, input_name="y") == "multilabel-indicator")


def label_matrix(y: Any) -> BoolArray:
    """Return which rows have which label, shape (n, L)."""
    return as_indicators(y.toarray() if hasattr(y, "toarray") else as_numpy(y, "y"), name="y")[0]


def read_labels(estimator: Any, method: Method, X: Any, n_labels: int) -> Output:
    """Return what a fitted classifier says of each label, checked."""
    raw = getattr(estimator, method.response)(X)
    name = f"{type(estimator).__name__}.{method.response}"
    if isinstance(raw, list):  # one table per label, of the probabilities that it is absent and present
        shown = estimator.classes_
        raw = np.column_stack([_present(np.asarray(p), known) for p, known in zip(raw, shown, strict=True)])
    raw = np.asarray(as_numpy(raw, name))
    if raw.ndim != 2 or raw.shape[1] != n_labels:
        raise ShapeError(f"{name} gave shape {raw.shape} for {n_labels} labels. Pass a classifier of several labels.")
    values = as_columns(raw, name=name, input=method.output_kind).values
    values = expit(values) if method.is_squashed else values
    return Output(values, np.arange(n_labels), raw.dtype == np.float32, ArrayKind.of(X))


def _present(p: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the probability that a label is present; a classifier that saw one state is sure of it."""
    at = np.flatnonzero(np.asarray(known) == 1)
    return p[:, at[0]] if at.size else np.zeros(len(p))


def fit_multilabel_pair(
    estimator: Any,
    method: Method,
    output: Output,
    has_label: BoolArray,
    weight: FloatArray | None,
    cluster: IntArray | None = None,
) -> MultilabelPair:
    """Fit the calibrator of a fitted classifier to its output of some rows and their labels."""
    template = method.template
    if not isinstance(template, BinaryCalibrator):
        raise InvalidTypeError(
            f"method {template!r} calibrates all classes at once, and labels are calibrated each on its own. "
            "Choose a calibrator of one score, such as 'sigmoid', 'isotonic' or 'auto'."
        )
    calibrator = MultilabelCalibrator(template).fit_columns(output.values, has_label, weight, cluster=cluster)
    return MultilabelPair(estimator, calibrator, method, kind=output.kind)
