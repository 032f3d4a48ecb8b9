"""What displays ask of fitted classifiers, and of the folds of a cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError

if TYPE_CHECKING:
    from calibrant.validation import ArrayLike


@dataclass(frozen=True, slots=True)
class Response:
    """Probabilities of rows that a classifier gave, shape (n, K), and its classes in their order."""

    prob: npt.NDArray[Any]
    classes: npt.NDArray[Any]

    def positive(self, pos_label: object = None) -> tuple[npt.NDArray[Any], Any]:
        """Return the probability of the positive one of two classes, the last by default, and its label."""
        found = self.classes.tolist()
        if pos_label is None:
            return self.prob[:, -1], found[-1]
        if pos_label not in found:
            raise InvalidInputError(f"pos_label={pos_label!r} is none of the classes {found!r}. Pass one of them.")
        return self.prob[:, found.index(pos_label)], pos_label


def response(estimator: Any, X: Any, *, is_binary: bool = False) -> Response:
    """Return the probabilities that a fitted classifier gives rows of features.

    Raises
    ------
    NotFittedError
        scikit-learn's own, if the estimator is not fitted.
    CalibrantError
        If it is no classifier with probabilities, or, where asked for, none of two classes.
    """
    wanted = f"Expected 'estimator' to be a {'binary ' if is_binary else ''}classifier."
    classes = getattr(estimator, "classes_", None)
    name = type(estimator).__name__
    if classes is None:
        _check_fitted(estimator)
        raise InvalidInputError(f"{wanted} Got {name} instead, without classes_.")
    if is_binary and len(classes) != 2:
        raise InvalidInputError(
            f"{wanted} Got {len(classes)} classes instead. For these use MulticlassReliabilityDisplay."
        )
    if not hasattr(estimator, "predict_proba"):
        raise InvalidTypeError(
            f"{name} has none of the following attributes: predict_proba. Calibrate it with CalibratedClassifierCV."
        )
    prob = np.asarray(estimator.predict_proba(X))
    if prob.ndim != 2 or prob.shape[1] != len(classes):
        raise ShapeError(
            f"{name}.predict_proba gave shape {prob.shape} for {len(classes)} classes, not one column each."
        )
    return Response(prob, np.asarray(classes))


def common_classes(answers: Mapping[str, Response]) -> list[Any]:
    """Return the classes of all classifiers, or raise InvalidInputError where these differ."""
    found: dict[str, list[Any]] = {name: answer.classes.tolist() for name, answer in answers.items()}
    (first, classes), *others = found.items()
    for name, other in others:
        if other != classes:
            raise InvalidInputError(
                f"{name} was fitted to the classes {other!r} and {first} to {classes!r}. "
                "Draw classifiers of the same classes."
            )
    return classes


def folds(
    cv_results: Mapping[str, Any], X: Any, y: ArrayLike, sample_weight: ArrayLike | None
) -> Iterator[tuple[str, Any, Any, npt.NDArray[Any], npt.NDArray[Any] | None]]:
    """Yield name, estimator, test rows, their labels and their weights for each fold of `cross_validate`.

    Raises
    ------
    CalibrantError
        If `cv_results` lacks the estimators or the rows of the folds, or these are other rows.
    """
    missing = [key for key in ("estimator", "indices") if key not in cv_results]
    if missing:
        raise InvalidInputError(
            f"cv_results lacks {missing!r}. Call cross_validate with return_estimator=True and return_indices=True."
        )
    labels = np.asarray(y)
    weight = None if sample_weight is None else np.asarray(sample_weight)
    tests = [np.asarray(test) for test in cv_results["indices"]["test"]]
    n_needed = 1 + max(int(test.max()) for test in tests)
    for values, what in ((labels, "y"), (weight, "sample_weight"), (X, "X")):
        n = None if values is None else values.shape[0] if hasattr(values, "shape") else len(values)
        if n is not None and n < n_needed:
            raise ShapeError(f"{what} has {n:,} rows, but the folds of cv_results reach row {n_needed - 1:,}.")
    for k, (estimator, test) in enumerate(zip(cv_results["estimator"], tests, strict=True), start=1):
        own = None if weight is None else weight[test]
        yield f"fold {k}", estimator, _take(X, test), labels[test], own


def _take(X: Any, rows: npt.NDArray[Any]) -> Any:
    """Return rows of any table: by place, whatever its index."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if isinstance(X, (list, tuple)):
        return [X[i] for i in rows]
    return X[rows]


def _check_fitted(estimator: Any) -> None:
    """Raise scikit-learn's NotFittedError for an estimator of its kind that is not fitted."""
    if not hasattr(estimator, "fit"):
        raise InvalidTypeError(f"estimator is a {type(estimator).__name__}. Pass a fitted classifier.")
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
