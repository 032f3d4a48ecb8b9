"""What `method` of a calibrated classifier may be, and which of a classifier's outputs it calibrates."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import clone

from calibrant.calibrators import ALIASES, CALIBRATORS, BinaryCalibrator, Calibrator, make_calibrator
from calibrant.errors import InvalidInputError, InvalidScoreError, InvalidTypeError, did_you_mean, unknown_name
from calibrant.fitted import Fitted
from calibrant.numerics import FloatArray, expit, normalise_rows, softmax
from calibrant.rows import Rows
from calibrant.validation import InputKind

Response: TypeAlias = Literal["decision_function", "predict_proba"]

#: Where a classifier has both outputs, scikit-learn's own methods calibrate the decision function.
_SCIKIT_LEARN = ("sigmoid", "isotonic", "temperature")
_DECISION_FIRST: tuple[Response, ...] = ("decision_function", "predict_proba")
_PROBABILITY_FIRST: tuple[Response, ...] = ("predict_proba", "decision_function")


class RegressorCalibrator:
    """A scikit-learn regressor of 0/1 outcomes on scores, or a classifier of them, for each column.

    `regressors_` are its fitted clones: one for two classes, else one for each class, whose rates are divided by
    their sum.
    """

    regressors_: list[Any]

    def __init__(self, regressor: Any, *, input: InputKind) -> None:
        self.regressor = regressor
        self.input = input

    def fresh(self) -> RegressorCalibrator:
        """Return an unfitted one of the same regressor."""
        return RegressorCalibrator(self.regressor, input=self.input)

    def fit_rows(self, rows: Rows) -> RegressorCalibrator:
        """Fit to checked rows that show every class."""
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

    def columns(self) -> list[Callable[[FloatArray], FloatArray]]:
        """Return what predicts the rate of each class from its column."""
        return [partial(self._predict, fitted) for fitted in self.regressors_]

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
        said = fitted.predict_proba(x)[:, 1] if hasattr(fitted, "predict_proba") else fitted.predict(x)
        rates = np.asarray(said, dtype=np.float64).reshape(-1)
        missing = np.isnan(rates)
        if missing.any():
            row = int(missing.argmax())
            raise InvalidScoreError(
                f"method {fitted!r:.80} gave no number for the score {column[row].item()!r} of row {row} "
                f"({int(missing.sum()):,} of {missing.size:,} rows). Pass a regressor that predicts all scores."
            )
        return np.clip(rates, 0.0, 1.0)

    def __repr__(self) -> str:
        return f"RegressorCalibrator({self.regressor!r}, input={self.input!r})"


AnyCalibrator: TypeAlias = Calibrator | RegressorCalibrator


@dataclass(frozen=True, slots=True)
class Method:
    """How the output of one kind of classifier is calibrated."""

    #: Unfitted; each pair fits a new one like it.
    template: AnyCalibrator
    #: The output that it calibrates.
    response: Response
    #: Whether decision values pass through the logistic function (softmax for several classes) first, for a calibrator
    #: that takes nothing but probabilities.
    is_squashed: bool = False

    @property
    def input(self) -> InputKind:
        """What the calibrator takes the scores for."""
        return self.template.input

    @property
    def output_kind(self) -> InputKind:
        """What the classifier's output is."""
        return "probability" if self.response == "predict_proba" else "score"

    def scores(self, values: FloatArray) -> FloatArray:
        """Return what the calibrator gets of checked outputs."""
        return squashed(values) if self.is_squashed else values


def refuse_misspelt(method: object) -> None:
    """Say which name is meant, where `method` is close to one."""
    if isinstance(method, str) and method not in (*CALIBRATORS, *ALIASES) and did_you_mean(method, CALIBRATORS):
        raise unknown_name("method", method, CALIBRATORS)


def resolve(method: object, estimator: Any) -> Method:
    """Return how `method` calibrates the outputs that `estimator` has, or say why it can't."""
    if isinstance(method, type):
        raise InvalidTypeError(f"method={method.__name__} is a class. Pass an instance: method={method.__name__}().")
    if isinstance(method, str):
        name = ALIASES.get(method, method)
        if name not in CALIBRATORS:
            raise unknown_name("method", method, CALIBRATORS)
        response = _response(estimator, _DECISION_FIRST if name in _SCIKIT_LEARN else _PROBABILITY_FIRST)
        return _adapted(make_calibrator(name), response)
    if isinstance(method, Calibrator):
        method.check_params()
        wanted = _PROBABILITY_FIRST if method.input == "probability" else _DECISION_FIRST
        response = _response(estimator, wanted)
        if (response == "predict_proba") == (method.input == "probability"):
            return Method(method, response)
        return _adapted(method, response)
    if isinstance(method, Fitted):
        raise InvalidTypeError(
            f"method={method!r:.80} is a {type(method).__name__}, which a classifier's scores alone don't fit. Pass a "
            "calibrator of these, such as 'isotonic', or fit it by itself to predictions of held-out rows."
        )
    if hasattr(method, "fit") and (hasattr(method, "predict_proba") or hasattr(method, "predict")):
        if getattr(method, "out_of_bounds", None) == "nan":  # of scikit-learn's isotonic regression, by default
            raise InvalidInputError(
                f"method={method!r} predicts NaN for scores outside of those that it was fitted to. Pass "
                "out_of_bounds='clip', or method='isotonic'."
            )
        response = _response(estimator, _DECISION_FIRST)
        kind: InputKind = "probability" if response == "predict_proba" else "score"
        return Method(RegressorCalibrator(method, input=kind), response)
    raise InvalidTypeError(
        f"method={method!r} is a {type(method).__name__}. Pass the name of a calibrator, an instance of one, "
        "or a scikit-learn regressor."
    )


def _adapted(calibrator: Calibrator, response: Response) -> Method:
    """Return a method of the calibrator's kind that takes the scores for what they are."""
    if response == "predict_proba":
        return Method(_with_input(calibrator, "probability") or calibrator, response)
    kind: InputKind = "score" if isinstance(calibrator, BinaryCalibrator) else "logit"
    changed = _with_input(calibrator, kind)
    return Method(changed or calibrator, response, is_squashed=changed is None)


def _with_input(calibrator: Calibrator, input: InputKind) -> Calibrator | None:
    """Return a calibrator like it that takes scores of kind `input`; None where it can't be told to."""
    params = calibrator.get_params(deep=False)
    if "input" in params:
        return type(calibrator)(**{**params, "input": input})
    return calibrator if calibrator.input == input else None


def _response(estimator: Any, wanted: tuple[Response, ...]) -> Response:
    for response in wanted:
        if hasattr(estimator, response):
            return response
    raise InvalidInputError(
        f"{type(estimator).__name__} has neither decision_function nor predict_proba, so there is nothing to "
        "calibrate. Pass a classifier that has one of them."
    )


def squashed(values: FloatArray) -> FloatArray:
    """Return decision values as if they were logits, turned into probabilities."""
    return expit(values) if values.ndim == 1 else softmax(values)


def binary_of(values: FloatArray, input: InputKind) -> FloatArray:
    """Return one score per row of two columns: the probability of the second given either, or the difference."""
    if input != "probability":
        difference: FloatArray = values[:, 1] - values[:, 0]
        return difference
    total = values.sum(axis=1)
    share: FloatArray = np.divide(values[:, 1], total, out=np.full(total.size, 0.5), where=total > 0.0)
    return share
