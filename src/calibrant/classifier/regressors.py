"""scikit-learn regressors as calibrators: one for each class, then each row divided by its sum."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray, normalise_rows
from calibrant.rows import Rows
from calibrant.validation import InputKind


class RegressorCalibrator:
    """A regressor of 0/1 outcomes on scores, or a classifier of them, for each column.

    Parameters
    ----------
    regressor : estimator
        A scikit-learn regressor or classifier; each fit takes a clone of it.
    input : {"probability", "score"}
        What the scores are.

    Attributes
    ----------
    regressors_ : list of estimators
        One for two classes, else one for each class.
    """

    regressors_: list[Any]

    def __init__(self, regressor: Any, *, input: InputKind) -> None:
        self.regressor = regressor
        self.input = input

    @staticmethod
    def takes(regressor: object) -> bool:
        """Say whether outcomes can be predicted by it."""
        return hasattr(regressor, "predict_proba") or hasattr(regressor, "predict")

    def fresh(self) -> RegressorCalibrator:
        """Return an unfitted one of the same regressor."""
        return RegressorCalibrator(self.regressor, input=self.input)

    def fit_rows(self, rows: Rows) -> RegressorCalibrator:
        """Fit to checked rows that show every class."""
        from sklearn.base import clone

        columns = rows.scores.reshape(rows.n_rows, -1).T
        classes = (1,) if len(columns) == 1 else range(len(columns))
        self.regressors_ = []
        for k, column in zip(classes, columns, strict=True):
            fitted = clone(self.regressor)
            outcome = rows.codes == k
            fitted.fit(column[:, None], outcome.astype(np.float64), **self._weights(rows.weight))
            self.regressors_.append(fitted)
        return self

    def apply_values(self, values: FloatArray) -> FloatArray:
        """Return probabilities of checked scores."""
        if values.ndim == 1:
            return self._predict(self.regressors_[0], values)
        columns = [self._predict(fitted, column) for fitted, column in zip(self.regressors_, values.T, strict=True)]
        return normalise_rows(np.column_stack(columns))

    def _weights(self, weight: FloatArray | None) -> dict[str, FloatArray]:
        if weight is None:
            return {}
        parameters = inspect.signature(self.regressor.fit).parameters.values()
        if any(p.name == "sample_weight" or p.kind is p.VAR_KEYWORD for p in parameters):
            return {"sample_weight": weight}
        raise InvalidInputError(
            f"method={self.regressor!r} takes no sample_weight. Fit without weights, or choose a regressor that does."
        )

    @staticmethod
    def _predict(fitted: Any, column: FloatArray) -> FloatArray:
        """Return predicted rates within [0, 1]; of a classifier, the probability of its class 1."""
        x = np.ascontiguousarray(column)[:, None]
        if hasattr(fitted, "predict_proba"):
            return np.asarray(fitted.predict_proba(x)[:, 1], dtype=np.float64)
        return np.clip(np.asarray(fitted.predict(x), dtype=np.float64).reshape(-1), 0.0, 1.0)

    def __repr__(self) -> str:
        return f"RegressorCalibrator({self.regressor!r}, input={self.input!r})"
