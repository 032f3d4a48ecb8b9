"""The fits behind a calibrated classifier: which rows train, which calibrate, and what goes with them."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from calibrant.classifier.methods import Method
from calibrant.classifier.multilabel import MultilabelPair, fit_multilabel_pair, read_labels
from calibrant.classifier.pairs import CalibratedPair, Output, Pair, fit_pair, read_output
from calibrant.classifier.splits import Split
from calibrant.errors import DataWarning, InvalidInputError
from calibrant.numerics import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class HeldOut:
    """What a classifier said of the rows of a split that it was not trained on."""

    output: Output
    rows: IntArray


@dataclass(frozen=True)
class Fitting(ABC):
    """The arguments of a fit, checked."""

    estimator: Any
    method: Method
    X: Any
    y: Any
    weight: FloatArray | None
    params: dict[str, Any]
    cluster: IntArray | None

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @abstractmethod
    def read(self, estimator: Any, X: Any) -> Output:
        """Return what a fitted classifier says of some rows, checked."""

    @abstractmethod
    def calibrate(self, estimator: Any, output: Output, rows: IntArray, weight: FloatArray | None) -> Pair:
        """Fit the calibrator of a fitted classifier to its output of the given rows."""

    @abstractmethod
    def like_the_final(self, found: list[HeldOut]) -> list[HeldOut]:
        """Return the parts whose classifiers were trained as the final one is."""

    def pair(self, estimator: Any, split: Split) -> Pair:
        """Fit a classifier to the training rows, and its calibrator to the test rows."""
        held_out = self.held_out(estimator, split)
        return self.calibrate(estimator, held_out.output, held_out.rows, self._weight_of(held_out.rows))

    def held_out(self, estimator: Any, split: Split) -> HeldOut:
        """Fit a classifier to the training rows, and return its output of the test rows."""
        train = split.train
        estimator.fit(_rows_of(self.X, train), _rows_of(self.y, train), **self._params_of(train))
        return HeldOut(self.read(estimator, _rows_of(self.X, split.test)), split.test)

    def from_held_out(self, found: list[HeldOut]) -> Pair:
        """Fit a classifier to all rows, and its calibrator to the output of all splits."""
        estimator = clone(self.estimator)
        estimator.fit(self.X, self.y, **self.params)
        kept = self.like_the_final(found)
        rows = np.concatenate([part.rows for part in kept])
        values = np.concatenate([part.output.values for part in kept])
        weight = self._weight_of(rows)
        times = np.bincount(rows)
        if int(times.max()) > 1:  # rows that came several times count once in all
            weight = (1.0 if weight is None else weight) / times[rows]
        is_float32 = all(part.output.is_float32 for part in kept)
        return self.calibrate(
            estimator, Output(values, kept[0].output.known, is_float32, kept[0].output.kind), rows, weight
        )

    def of_all_rows(self) -> Pair:
        """Calibrate a classifier that was fitted before on all rows."""
        estimator = clone(self.estimator)
        return self.calibrate(estimator, self.read(estimator, self.X), np.arange(self.n_rows), self.weight)

    def _weight_of(self, rows: IntArray) -> FloatArray | None:
        return None if self.weight is None else self.weight[rows]

    def _params_of(self, rows: IntArray) -> dict[str, Any]:
        """Return the arguments of the classifier's fit, those of one entry per row cut to the rows."""
        return {
            name: _rows_of(value, rows) if value is not None and _length(value) == self.n_rows else value
            for name, value in self.params.items()
        }


@dataclass(frozen=True)
class ClassFitting(Fitting):
    """A fit to one label per row; `codes` are their positions in `classes`, and `y` too where `is_coded`."""

    classes: npt.NDArray[Any]
    codes: IntArray
    is_coded: bool = False

    @property
    def n_rows(self) -> int:
        return self.codes.size

    def read(self, estimator: Any, X: Any) -> Output:
        return read_output(estimator, self.method, X, self.classes, is_coded=self.is_coded)

    def calibrate(self, estimator: Any, output: Output, rows: IntArray, weight: FloatArray | None) -> CalibratedPair:
        cluster = None if self.cluster is None else self.cluster[rows]
        codes = self.codes[rows]
        return fit_pair(estimator, self.method, self.classes, output, codes, weight, cluster, is_coded=self.is_coded)

    def like_the_final(self, found: list[HeldOut]) -> list[HeldOut]:
        whole = [part for part in found if part.output.known.size == self.classes.size]
        if not whole:
            raise InvalidInputError(
                "no split has training rows of all classes, so no prediction is like those of a classifier fitted to "
                "all rows. Pass stratified splits, fewer folds, or ensemble=True."
            )
        if len(whole) < len(found):
            n_dropped = sum(part.rows.size for part in found) - sum(part.rows.size for part in whole)
            warnings.warn(
                f"{len(found) - len(whole)} of {len(found)} splits were trained without one of the classes: their "
                f"{n_dropped:,} test rows don't calibrate",
                DataWarning,
                stacklevel=4,
            )
        return whole


@dataclass(frozen=True)
class MultilabelFitting(Fitting):
    """A fit to any number of labels per row; `has_label` has one column for each."""

    has_label: BoolArray

    @property
    def n_rows(self) -> int:
        return len(self.has_label)

    def read(self, estimator: Any, X: Any) -> Output:
        return read_labels(estimator, self.method, X, self.has_label.shape[1])

    def calibrate(self, estimator: Any, output: Output, rows: IntArray, weight: FloatArray | None) -> MultilabelPair:
        cluster = None if self.cluster is None else self.cluster[rows]
        return fit_multilabel_pair(estimator, self.method, output, self.has_label[rows], weight, cluster)

    def like_the_final(self, found: list[HeldOut]) -> list[HeldOut]:
        return found  # every classifier says something of every label


def _rows_of(values: Any, rows: IntArray) -> Any:
    if type(values) is np.ndarray:
        return values.take(rows, axis=0)  # several times as fast as an index
    return _safe_indexing(values, rows)


def _length(value: Any) -> int | None:
    if isinstance(value, (str, bytes, dict)):
        return None
    shape = getattr(value, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    return len(value) if hasattr(value, "__len__") else None
