"""A fitted classifier with the calibrator of its output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.frozen import FrozenEstimator

from calibrant.calibrators import BinaryCalibrator, Calibrator, VennAbersCalibrator
from calibrant.classifier.array_kind import ArrayCalibrator, ArrayKind, as_given, as_numpy
from calibrant.classifier.methods import AnyCalibrator, Method, Response, binary_of, squashed
from calibrant.errors import InvalidInputError, InvalidScoreError, ShapeError
from calibrant.maps import OneVsRestMap
from calibrant.multilabel import MultilabelCalibrator
from calibrant.numerics import BoolArray, FloatArray, IntArray, normalise_rows, two_columns
from calibrant.rows import Rows
from calibrant.validation import ArrayLike, Labels, as_scores

#: How far outside [0, 1] a probability may lie by rounding.
_ROUNDING = 1e-5


@dataclass(frozen=True, slots=True)
class Output:
    """What a classifier said of some rows, checked.

    `values` has one score for two classes, else one for each class that the classifier knows; `known` are those
    classes, as positions among all; `is_float32` says whether it came in single precision, and `kind` of which kind
    of arrays it was, if not of NumPy's.
    """

    values: FloatArray
    known: IntArray
    is_float32: bool
    kind: ArrayKind | None = None


@dataclass(frozen=True)
class Pair(ABC):
    """A fitted classifier with the calibrator of its output, which is applied as `method` says.

    `kind` says which arrays the classifier computes with; None stands for NumPy's.
    """

    estimator: Any
    calibrator: Any
    method: Method
    kind: ArrayKind | None = field(default=None, kw_only=True)

    @property
    def lacking(self) -> list[Any]:
        """The classes that the classifier knows and the calibration rows lack."""
        return []

    @property
    @abstractmethod
    def is_known(self) -> BoolArray:
        """Which of the columns the classifier says something of."""

    @abstractmethod
    def read(self, X: Any) -> Output:
        """Return what the classifier says of X, checked."""

    def interval(self, output: Output) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """Return lower and upper Venn-Abers probabilities of every class, each of shape (n, K)."""
        raise InvalidInputError("several labels at once have no pair of probabilities. Calibrate each label by itself.")

    @abstractmethod
    def calibrate(self, output: Output) -> npt.NDArray[np.floating[Any]]:
        """Return calibrated probabilities of what the classifier said."""

    def predict_proba(self, X: Any) -> npt.NDArray[np.floating[Any]]:
        """Return the calibrated probability of every class, or label, shape (n, K).

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            As the classifier takes it.
        """
        found: npt.NDArray[np.floating[Any]] = as_given(self.calibrate(self.read(X)), X)
        return found


@dataclass(frozen=True, slots=True)
class ColumnCalibrator:
    """What scikit-learn calls a calibrator: it predicts the probability of one class from its scores.

    Attributes
    ----------
    apply : callable
        The fitted map of checked scores.
    """

    apply: Callable[[FloatArray], FloatArray]

    def predict(self, T: ArrayLike) -> FloatArray:
        """Return the calibrated probability of each score.

        Parameters
        ----------
        T : array-like of shape (n,)
            What the classifier says of the class: its column.

        Returns
        -------
        probabilities : ndarray of shape (n,)
            Of the class against the rest; those of several classes sum to one only once they are divided by their sum.

        Raises
        ------
        CalibrantError
            If T holds what is no finite number.
        """
        return self.apply(as_scores(T, name="T").values)


@dataclass(frozen=True)
class CalibratedPair(Pair):
    """A fitted classifier and the calibrator of its output.

    Attributes
    ----------
    estimator : estimator
        The fitted classifier.
    calibrator : Calibrator or None
        The fitted calibrator: `calibrant.save` writes it, and it needs no classifier. None where the rows it would
        have been fitted on show one class only.
    classes : ndarray of shape (K,)
        All classes.
    method : Method
        Which output is calibrated, and as what.
    known, fitted : ndarray
        The classes that the classifier was trained on, and those that the calibration rows show, as positions in
        `classes`.
    n_rows : float
        Number of calibration rows, by weight.
    is_coded : bool
        Whether the classifier was fitted to positions in `classes`, since its library has no arrays of text.

    Notes
    -----
    A class that the classifier never saw gets probability zero from it, and calibration leaves that so. A class that
    the calibration rows lack keeps the classifier's probability (of decision values, their softmax), but at least
    1 / (n + 2), the mean of a uniform prior after n rows without it. The calibrated classes share the rest. Without any
    calibration row of a class that it knows, such as where all weights of a fold are zero, its probabilities stay.
    """

    calibrator: AnyCalibrator | None
    classes: npt.NDArray[Any]
    known: IntArray
    fitted: IntArray
    n_rows: float
    is_coded: bool = False

    @property
    def calibrators(self) -> list[Any]:
        """As scikit-learn has it: a `ColumnCalibrator` for the score of two classes, or for that of each of K.

        What needs the scores of all classes at once, such as temperature, is the calibrator itself.
        """
        found = self._calibrators
        return found if self.kind is None else [ArrayCalibrator(each, self.kind) for each in found]

    @property
    def _calibrators(self) -> list[Any]:
        fitted = self.calibrator
        if fitted is None:
            return []
        if not isinstance(fitted, Calibrator):
            return [ColumnCalibrator(part) for part in fitted.columns()]
        found = fitted.fitted_map
        if isinstance(found, OneVsRestMap) and not (found.is_logit or self.method.is_squashed):
            return [ColumnCalibrator(part.apply) for part in found.maps]
        if isinstance(fitted, BinaryCalibrator) and found.is_binary:
            return [ColumnCalibrator(self._of_one_score)]
        return [fitted]

    def _of_one_score(self, score: FloatArray) -> FloatArray:
        """Return the probability of the second of two classes, of what the classifier said."""
        assert self.calibrator is not None  # noqa: S101 - for the type checker
        return self.calibrator.apply_values(self.method.scores(score))

    @property
    def lacking(self) -> list[Any]:
        return list(self.classes[np.setdiff1d(self.known, self.fitted)].tolist())

    @property
    def is_known(self) -> BoolArray:
        found = np.zeros(self.classes.size, dtype=np.bool_)
        found[self.known] = True
        return found

    def read(self, X: Any) -> Output:
        return read_output(self.estimator, self.method, X, self.classes, is_coded=self.is_coded)

    def interval(self, output: Output) -> tuple[FloatArray, FloatArray]:
        fitted = self.calibrator
        if not isinstance(self.method.template, VennAbersCalibrator):
            raise InvalidInputError(
                f"method={self.method.template!r} gives no pair of probabilities. Pass method='venn_abers'."
            )
        if not isinstance(fitted, VennAbersCalibrator) or self.fitted.size < self.classes.size:
            lacking = np.setdiff1d(np.arange(self.classes.size), self.fitted)
            raise InvalidInputError(
                f"class {self.classes[lacking].tolist()[0]!r} is not in all calibration rows, so that it has no "
                "interval. Pass fewer folds, or stratified ones."
            )
        p0, p1 = fitted.interval_of_values(output.values)
        if p0.ndim == 2:
            return p0, p1
        return np.column_stack((1.0 - p1, p0)), np.column_stack((1.0 - p0, p1))

    def calibrate(self, output: Output) -> npt.NDArray[np.floating[Any]]:
        q = self._of_known(output.values)
        if output.known.size < self.classes.size:
            out = np.zeros((len(q), self.classes.size))
            out[:, output.known] = q
            q = out
        return q.astype(np.float32) if output.is_float32 else q

    def _of_known(self, values: FloatArray) -> FloatArray:
        """Return probabilities of the classes that the classifier knows, shape (n, S)."""
        if self.known.size == 1:
            return np.ones((len(values), 1))
        if self.calibrator is not None and self.fitted.size == self.known.size:
            return two_columns(self.calibrator.apply_values(values))
        return self._partly(values)

    def _partly(self, values: FloatArray) -> FloatArray:
        columns = np.flatnonzero(np.isin(self.known, self.fitted))
        others = np.setdiff1d(np.arange(self.known.size), columns)
        least = 1.0 / (self.n_rows + 2.0) if columns.size else 0.0  # no rows speak against any class
        p = two_columns(values if self.method.input == "probability" else squashed(values))
        out = np.empty(p.shape)
        out[:, others] = np.maximum(p[:, others], least)
        rest = np.maximum(p[:, columns].sum(axis=1), least)
        if self.calibrator is None:
            out[:, columns] = rest[:, None]
        else:
            among = self.calibrator.apply_values(_among(values, columns, self.method))
            out[:, columns] = rest[:, None] * two_columns(among)
        return normalise_rows(out)


def read_output(estimator: Any, method: Method, X: Any, classes: npt.NDArray[Any], *, is_coded: bool = False) -> Output:
    """Return what a fitted classifier says of X, checked; `is_coded` says that its classes are positions in ours."""
    model = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    name = f"{type(model).__name__}.{method.response}"
    known = _positions(estimator.classes_, np.arange(classes.size) if is_coded else classes)
    said = getattr(estimator, method.response)(X)
    raw = np.asarray(as_numpy(said, name))
    is_float32 = raw.dtype == np.float32
    if known.size == 1:  # nothing is said where there is no choice
        return Output(np.ones((len(raw), 1)), known, is_float32, ArrayKind.of(said))
    if raw.ndim == 2 and raw.shape[1] == 1 and known.size == 2:
        raw = raw[:, 0]
    if (np.diff(known) < 0).any():  # wrappers of other libraries need not sort their classes
        raw, known = _in_sorted_order(raw, known, method.response)
    if method.response == "predict_proba" and known.size == 2 and raw.ndim == 2:
        raw = raw[:, 1]
    if raw.ndim == 1 and known.size > 2:  # one score for several classes may speak for or against each
        raw = np.repeat(raw[:, None], known.size, axis=1)
    if raw.ndim != (1 if known.size == 2 else 2) or (raw.ndim == 2 and raw.shape[1] != known.size):
        raise ShapeError(
            f"{name} gave shape {raw.shape} for {known.size} classes. "
            "Pass a classifier that gives one column per class (decision_function_shape='ovr' for SVC)."
        )
    if method.output_kind == "probability":
        raw = _within_unit(raw)
    values = as_scores(raw, name=name, input=method.output_kind).values
    return Output(method.scores(values), known, is_float32, ArrayKind.of(said))


def _in_sorted_order(raw: npt.NDArray[Any], known: IntArray, response: Response) -> tuple[npt.NDArray[Any], IntArray]:
    """Return outputs as those of the classes in sorted order, and the classes so."""
    order = np.argsort(known)
    if raw.ndim == 2 and raw.shape[1] == known.size:
        raw = raw[:, order]
    elif raw.ndim == 1 and known.size == 2:  # of the class that the classifier has second
        raw = 1.0 - raw if response == "predict_proba" else -raw
    return raw, known[order]


def fit_pair(
    estimator: Any,
    method: Method,
    classes: npt.NDArray[Any],
    output: Output,
    codes: IntArray,
    weight: FloatArray | None,
    cluster: IntArray | None = None,
    *,
    is_coded: bool = False,
) -> CalibratedPair:
    """Fit the calibrator of a classifier that was fitted on other rows.

    `codes` are the positions of the rows' labels in `classes`; weights may be zero. A calibrator that cross-validates
    keeps rows of one `cluster` together.
    """
    values, known = output.values, output.known
    counted = None if weight is None or weight.all() else weight > 0.0
    if known.size < classes.size:  # nothing can be learned from rows of a class that the classifier does not know
        is_known = np.isin(codes, known)
        counted = is_known if counted is None else counted & is_known
    if counted is not None:
        values, codes = values[counted], codes[counted]
        weight = None if weight is None else weight[counted]
        cluster = None if cluster is None else cluster[counted]
    cluster = None if cluster is None else np.unique(cluster, return_inverse=True)[1]  # those of these rows, from 0
    fitted = np.flatnonzero(np.bincount(codes, minlength=classes.size)).astype(np.int64)
    calibrator = None
    if fitted.size > 1:
        if fitted.size < known.size:
            values = _among(values, np.flatnonzero(np.isin(known, fitted)), method)
        if fitted.size < classes.size:
            codes = np.searchsorted(fitted, codes)
        labels = Labels(codes.astype(np.uint8) if fitted.size == 2 else codes, classes[fitted])
        calibrator = method.template.fresh()
        calibrator.fit_rows(Rows(values, labels, weight, input=method.input, cluster=cluster))
    n_rows = float(codes.size if weight is None else weight.sum())
    return CalibratedPair(estimator, calibrator, method, classes, known, fitted, n_rows, is_coded, kind=output.kind)


def mean_of_pairs(pairs: Sequence[Pair], X: Any) -> npt.NDArray[np.floating[Any]]:
    """Return the mean of what the pairs say of X, each filled in where it says nothing.

    A class that a pair doesn't know gets the mean probability that the others give it, and what the pair says of
    its own classes is scaled to the rest.
    """
    said = _calibrated(pairs, X)
    is_known = np.array([pair.is_known for pair in pairs])
    if is_known.all():
        total = next(said)
        for q in said:
            total += q
        return total if len(pairs) == 1 else np.divide(total, len(pairs), out=total)
    probabilities = list(said)
    if len(pairs) == 1:
        return probabilities[0]
    total = sum(probabilities[1:], start=probabilities[0])
    elsewhere = total / np.maximum(is_known.sum(axis=0), 1)
    mean = np.zeros_like(total, dtype=np.float64)
    for q, knows in zip(probabilities, is_known, strict=True):
        rest = np.maximum(1.0 - elsewhere[:, ~knows].sum(axis=1), 0.0)
        mean += np.where(knows, q * rest[:, None], elsewhere)
    return normalise_rows(mean).astype(total.dtype)


def interval_of_pairs(pairs: Sequence[Pair], X: Any) -> tuple[FloatArray, FloatArray]:
    """Return the means of the lower and of the upper Venn-Abers probabilities of the pairs, each of shape (n, K)."""
    ends = [pair.interval(pair.read(X)) for pair in pairs]
    low, high = (np.mean([each[side] for each in ends], axis=0) for side in (0, 1))
    return low, high


def _calibrated(pairs: Sequence[Pair], X: Any) -> Iterator[npt.NDArray[np.floating[Any]]]:
    """Yield the calibrated probabilities of each pair; a classifier that all of them share is asked once."""
    if all(pair.estimator is pairs[0].estimator for pair in pairs):
        output = pairs[0].read(X)
        yield from (pair.calibrate(output) for pair in pairs)
    else:
        yield from (pair.calibrate(pair.read(X)) for pair in pairs)


def saved_form(pair: Pair) -> Calibrator | MultilabelCalibrator:
    """Return the calibrator of a pair, which can be saved and applied without the classifier."""
    if isinstance(pair.calibrator, (Calibrator, MultilabelCalibrator)):
        return pair.calibrator
    what = "rows of one class only" if pair.calibrator is None else "a scikit-learn regressor"
    raise InvalidInputError(f"this pair was calibrated by {what}, which is no calibrator of calibrant.")


def _among(values: FloatArray, columns: IntArray, method: Method) -> FloatArray:
    """Return the scores of some classes, given that it is one of them."""
    part = values[:, columns]
    if columns.size == 2:
        return binary_of(part, method.input)
    return normalise_rows(part) if method.input == "probability" else part


def _within_unit(p: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return probabilities without what rounding added above one, or took below zero."""
    if p.size and p.dtype.kind == "f" and (p.max() > 1.0 or p.min() < 0.0):
        is_rounding = (p > -_ROUNDING) & (p < 1.0 + _ROUNDING)
        return np.where(is_rounding, np.clip(p, 0.0, 1.0), p)
    return p


def _positions(known: npt.NDArray[Any], classes: npt.NDArray[Any]) -> IntArray:
    """Return where the classes of a fitted classifier stand among all classes."""
    known = np.asarray(as_numpy(known, "classes_"))
    if known.shape == classes.shape and bool((known == classes).all()):
        return np.arange(classes.size)
    at = np.searchsorted(classes, known)
    is_there = at < classes.size
    is_there[is_there] = classes[at[is_there]] == known[is_there]
    if not is_there.all():
        raise InvalidScoreError(
            f"the classifier knows class {known[~is_there][0]!r}, which y does not hold. "
            f"Classes of y: {classes.tolist()[:20]!r}. Pass rows of it, or fit the classifier on the same labels."
        )
    return at.astype(np.int64)
