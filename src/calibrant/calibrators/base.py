"""What all calibrators share: the gate before a fit, the way from a map back to the caller's container."""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from calibrant.errors import DataWarning, InvalidInputError, NotFittedError, ShapeError, unknown_name
from calibrant.maps import IDENTITY, BinaryMap, Map, OneVsRestMap, is_binary
from calibrant.numerics import FloatArray, softmax
from calibrant.summary import ScoreRows, ScoreSummary
from calibrant.validation import (
    ArrayLike,
    InputKind,
    Labels,
    Scores,
    as_labels,
    as_scores,
    as_weight,
    check_both_classes,
    check_one_column,
    check_same_length,
)


class Calibrator(ABC):
    """A calibrator: `fit` on scores and labels gives a map, `predict_proba` applies it.

    Attributes
    ----------
    map_ : Map
        The fitted map: a frozen value of plain numbers.
    classes_ : ndarray of shape (K,)
        The labels, sorted; columns of probabilities follow this order.
    n_rows_ : int
        Number of rows it was fitted on: those with weight.
    score_names_ : tuple of str or None
        The column names of the scores, where they came in a named container.
    """

    #: The name in documents, on the command line and in `make_calibrator`.
    name: ClassVar[str]
    input: InputKind
    map_: Map
    classes_: npt.NDArray[Any]
    n_rows_: int
    score_names_: tuple[str, ...] | None

    def fit(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Fit the map from scores to probabilities.

        Parameters
        ----------
        scores : array-like of shape (n,) or (n, K)
            Scores of the positive class, or one column per class in the order of the sorted classes.
        y : array-like of shape (n,)
            Labels of any kind. For one column of scores: two classes, the larger one positive.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts as two rows, a weight of zero as none.
        classes : array-like of shape (K,), optional
            All classes, sorted, where `y` may lack some.

        Returns
        -------
        self

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        self._check_params()
        checked = as_scores(scores, input=self.input)
        values = checked.values
        labels = as_labels(y, name="y", classes=classes, n_columns=checked.n_columns)
        check_one_column(labels, checked.n_columns, "y", "scores")
        check_same_length(values.shape[0], labels.codes.size, "scores", "y")
        weight = as_weight(sample_weight, values.shape[0])
        check_both_classes(labels, "y", weight)
        if weight is not None and not weight.all():  # a row of weight zero is no row
            counted = weight > 0.0
            values, labels, weight = values[counted], Labels(labels.codes[counted], labels.classes), weight[counted]
        self.fit_checked(values, labels, weight)
        self.score_names_ = checked.container.columns
        return self

    def fit_checked(self, values: FloatArray, labels: Labels, weight: FloatArray | None) -> Self:
        """Fit to rows that the gate has checked; `weight` is positive, or None where all are one."""
        self.map_ = self._fit_any(values, labels, weight)
        self.classes_ = labels.classes
        self.n_rows_ = values.shape[0]
        self.score_names_ = None
        return self

    def predict_proba(self, scores: ArrayLike) -> Any:
        """Return calibrated probabilities, in the container that the scores came in.

        Parameters
        ----------
        scores : array-like of shape (n,) or (n, K)
            As in `fit`. A calibrator of two classes takes one column or two.

        Returns
        -------
        probabilities : shape (n,) or (n, K)
            Of the positive class for one column; else of each class, rows summing to one.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        CalibrantError
            If the scores can't be used.
        """
        checked = self._check_scores(scores)
        return checked.container.wrap(self.apply_checked(checked.values))

    def _check_scores(self, scores: ArrayLike) -> Scores:
        """Check scores of new rows, which must have as many columns as those of the fit."""
        fitted = self._fitted_map()
        checked = as_scores(scores, input=self.input)
        if checked.n_columns not in ((1, 2) if is_binary(fitted) else (len(self.classes_),)):
            raise ShapeError(
                f"scores has {checked.n_columns} columns, but this calibrator was fitted for the {len(self.classes_)} "
                f"classes {self.classes_.tolist()[:20]!r}. Pass one column per class."
            )
        return checked

    def apply_checked(self, values: FloatArray) -> FloatArray:
        """Return calibrated probabilities of scores that the gate has checked."""
        return self._apply(self._fitted_map(), values)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the constructor's arguments, as scikit-learn's `clone` asks for them."""
        return {name: getattr(self, name) for name in self._param_names()}

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments."""
        for name, value in params.items():
            if name not in self._param_names():
                raise unknown_name(f"parameter of {type(self).__name__}", name, self._param_names())
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = (f"{name}={value!r}" for name, value in self.get_params().items() if value != defaults[name].default)
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "map_")

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks of the objects that it is handed; nobody else calls it."""
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()

    @classmethod
    @cache  # a signature takes longer to read than a small fit
    def _param_names(cls) -> tuple[str, ...]:
        return tuple(inspect.signature(cls).parameters)

    def _check_params(self) -> None:
        """Raise if a constructor argument can't be used."""

    def _fitted_map(self) -> Map:
        if not hasattr(self, "map_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted. Call fit(scores, y) first.")
        return self.map_

    def _apply(self, fitted: Map, values: FloatArray) -> FloatArray:
        if not is_binary(fitted):
            return fitted.apply(values)
        if values.ndim == 1:
            return fitted.apply(values)
        q = fitted.apply(_positive_column(values, self.input))
        return np.column_stack((1.0 - q, q))

    @abstractmethod
    def _fit_any(self, values: FloatArray, labels: Labels, weight: FloatArray | None) -> Map:
        """Fit the map to scores of shape (n,) or (n, K)."""


class BinaryCalibrator(Calibrator):
    """A calibrator of one score; more than two columns are calibrated one-vs-rest."""

    map_: BinaryMap | OneVsRestMap

    def fit_summary(self, summary: ScoreSummary) -> Self:
        """Fit to a summary of scores, which may come from parts of the data that were merged.

        Raises
        ------
        InvalidInputError
            If the summary has rows of one class only.
        """
        self._check_params()
        if not 0.0 < summary.total_positives < summary.total_weight:
            raise InvalidInputError(
                f"the summary holds {summary.total_positives:g} positives of {summary.total_weight:g} rows. "
                "Pass rows of both classes."
            )
        self.map_ = self.fit_map(summary)
        self.classes_ = np.array([False, True])
        self.n_rows_ = round(summary.total_weight)
        self.score_names_ = None
        return self

    @abstractmethod
    def map_kinds(self, input: InputKind) -> tuple[type[BinaryMap], ...]:
        """Return the kinds of map that a fit to scores of kind `input` can give."""

    @abstractmethod
    def fit_map(self, data: ScoreRows | ScoreSummary) -> BinaryMap:
        """Fit the map to checked rows, or to their summary, of both classes."""

    def _fit_any(self, values: FloatArray, labels: Labels, weight: FloatArray | None) -> Map:
        if values.ndim == 1:
            return self.fit_map(ScoreRows(values, labels.positive, weight))
        if values.shape[1] == 2:
            return self.fit_map(ScoreRows(_positive_column(values, self.input), labels.positive, weight))
        return fit_one_vs_rest(self, values, labels, weight)


def fit_one_vs_rest(
    calibrator: BinaryCalibrator, values: FloatArray, labels: Labels, weight: FloatArray | None
) -> OneVsRestMap:
    """Fit `calibrator` to each column against the rows of its class.

    A class without rows keeps its probabilities as they are: nothing is known that would change them. Logits are
    turned into probabilities by softmax first.
    """
    is_logit = calibrator.input == "logit"
    if is_logit:
        values = softmax(values)
        calibrator = type(calibrator)(**{**calibrator.get_params(), "input": "probability"})
    counts = np.bincount(labels.codes, weights=weight, minlength=len(labels.classes))
    maps: list[BinaryMap] = []
    for k in range(values.shape[1]):
        if counts[k] == 0.0:
            maps.append(map_without_rows(calibrator.input, labels.classes.tolist()[k]))
        else:
            column = np.ascontiguousarray(values[:, k])
            maps.append(calibrator.fit_map(ScoreRows(column, labels.codes == k, weight)))
    return OneVsRestMap(tuple(maps), is_logit)


def map_without_rows(input: InputKind, label: object) -> BinaryMap:
    """Return the map of a class without rows, which leaves probabilities alone, and say so."""
    if input == "score":
        raise InvalidInputError(
            f"class {label!r} has no rows to calibrate its scores on. Drop its column, or pass rows of it."
        )
    warnings.warn(
        f"class {label!r} has no rows to calibrate on: its probabilities stay as they are before rows are normalised",
        DataWarning,
        stacklevel=5,
    )
    return IDENTITY


def _positive_column(values: FloatArray, input: InputKind) -> FloatArray:
    match input:
        case "probability":
            return np.ascontiguousarray(values[:, 1])
        case "logit":
            return values[:, 1] - values[:, 0]
        case "score":
            raise ShapeError(
                "two columns of raw scores say twice what one says. Pass the scores of the positive class, shape (n,)."
            )
