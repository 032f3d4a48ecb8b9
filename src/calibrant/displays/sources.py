"""What displays are drawn from: models by name, fitted classifiers, and the folds of a cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.validation import ArrayLike

T = TypeVar("T")


def as_models(given: T | Mapping[str, T], name: str | None = None, *, argument: str = "y_prob") -> list[tuple[str, T]]:
    """Return names and models: those of a mapping, or the single one that is given, by default without a name."""
    if not isinstance(given, Mapping):
        return [(name or "", given)]
    if name is not None:
        raise InvalidInputError(f"name={name!r} is for one model, but {argument} names {len(given)}. Leave name out.")
    if not given:
        raise ShapeError(f"{argument} is an empty mapping. Pass at least one.")
    for key in given:
        if not isinstance(key, str):
            raise InvalidTypeError(f"{argument} has the key {key!r}, which is not text. Name each by a string.")
    return list(given.items())


def as_cases(
    y_true: ArrayLike | Mapping[str, ArrayLike],
    y_prob: ArrayLike | Mapping[str, ArrayLike],
    sample_weight: ArrayLike | Mapping[str, ArrayLike] | None,
    name: str | None = None,
) -> list[tuple[str, ArrayLike, ArrayLike, ArrayLike | None]]:
    """Return name, labels, probabilities and weights of each curve: labels are shared unless a mapping names them."""
    models = as_models(y_prob, name)
    if not isinstance(y_true, Mapping):
        return [(key, y_true, prob, sample_weight) for key, prob in models]
    weights = dict.fromkeys(key for key, _ in models) if sample_weight is None else sample_weight
    for argument, values in (("y_true", y_true), ("sample_weight", weights)):
        if not isinstance(values, Mapping) or set(values) != {key for key, _ in models}:
            raise InvalidInputError(
                f"{argument} has not the names of y_prob: where y_true is a mapping, y_prob and sample_weight are "
                "mappings with the same names."
            )
    return [(key, y_true[key], prob, weights[key]) for key, prob in models]


class Response(NamedTuple):
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
    """Return the probabilities that a fitted classifier gives rows of features; refuse what is no such classifier.

    Those of three or more classes follow the sorted classes.
    """
    wanted = f"Expected 'estimator' to be a {'binary ' if is_binary else ''}classifier."
    classes = getattr(estimator, "classes_", None)
    name = type(estimator).__name__
    if classes is None:
        if not hasattr(estimator, "fit"):
            raise InvalidTypeError(f"estimator is a {name}. Pass a fitted classifier.")
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
        raise InvalidInputError(f"{wanted} Got {name} instead, without classes_.")
    if is_binary and len(classes) != 2:
        raise InvalidInputError(f"{wanted} Got {len(classes)} classes instead. Use MulticlassReliabilityDisplay.")
    if not hasattr(estimator, "predict_proba"):
        raise InvalidTypeError(
            f"{name} has none of the following attributes: predict_proba. Calibrate it with CalibratedClassifierCV."
        )
    prob = np.asarray(estimator.predict_proba(X))
    if prob.ndim != 2 or prob.shape[1] != len(classes):
        what = f"{name}.predict_proba gave shape {prob.shape}"
        raise ShapeError(f"{what} for {len(classes)} classes, not one column each.")
    if len(classes) > 2:  # of two, the second is the positive one, as in scikit-learn
        order = np.argsort(np.asarray(classes))
        return Response(prob[:, order], np.asarray(classes)[order])
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
    """Yield name, estimator, test rows, their labels and their weights for each fold of `cross_validate`."""
    missing = [key for key in ("estimator", "indices") if key not in cv_results]
    if missing:
        raise InvalidInputError(
            f"cv_results lacks {missing!r}. Call cross_validate with return_estimator=True and return_indices=True."
        )
    labels = np.asarray(y)
    weight = None if sample_weight is None else np.asarray(sample_weight)
    tests = [np.asarray(test) for test in cv_results["indices"]["test"]]
    last = max(int(test.max()) for test in tests)
    for values, what in ((labels, "y"), (labels if weight is None else weight, "sample_weight"), (X, "X")):
        n = values.shape[0] if hasattr(values, "shape") else len(values)
        if n <= last:
            raise ShapeError(f"{what} has {n:,} rows, but the folds of cv_results reach row {last:,}.")
    for k, (estimator, test) in enumerate(zip(cv_results["estimator"], tests, strict=True), start=1):
        own = None if weight is None else weight[test]
        yield f"fold {k}", estimator, _take(X, test), labels[test], own


def _take(X: Any, rows: npt.NDArray[Any]) -> Any:
    """Return rows of any table: by position, whatever its index."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return [X[i] for i in rows] if isinstance(X, (list, tuple)) else X[rows]
