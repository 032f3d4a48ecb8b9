"""What `method` of a calibrated classifier may be, and which of a classifier's outputs it calibrates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant.calibrators import ALIASES, CALIBRATORS, BinaryCalibrator, Calibrator, make_calibrator
from calibrant.classifier.regressors import RegressorCalibrator
from calibrant.errors import InvalidInputError, InvalidTypeError, did_you_mean, unknown_name
from calibrant.numerics import FloatArray, expit, softmax
from calibrant.validation import InputKind

Response: TypeAlias = Literal["decision_function", "predict_proba"]
AnyCalibrator: TypeAlias = Calibrator | RegressorCalibrator

#: Where a classifier has both outputs, scikit-learn's own methods calibrate the decision function.
_SCIKIT_LEARN = ("sigmoid", "isotonic", "temperature")
_DECISION_FIRST: tuple[Response, ...] = ("decision_function", "predict_proba")
_PROBABILITY_FIRST: tuple[Response, ...] = ("predict_proba", "decision_function")


@dataclass(frozen=True, slots=True)
class Method:
    """How the output of one kind of classifier is calibrated.

    Attributes
    ----------
    template : Calibrator or RegressorCalibrator
        Unfitted; each pair fits a new one like it.
    response : {"decision_function", "predict_proba"}
        The output that it calibrates.
    is_squashed : bool
        Whether decision values pass through the logistic function (softmax for several classes) first, for a
        calibrator that takes nothing but probabilities.
    """

    template: AnyCalibrator
    response: Response
    is_squashed: bool = False

    @property
    def input(self) -> InputKind:
        """What the calibrator takes the scores for."""
        return self.template.input

    def scores(self, values: FloatArray) -> FloatArray:
        """Return what the calibrator gets of checked outputs."""
        return squashed(values) if self.is_squashed else values

    def new(self) -> AnyCalibrator:
        """Return an unfitted calibrator."""
        return self.template.fresh()


def refuse_misspelt(method: object) -> None:
    """Say which name is meant, where `method` is close to one."""
    if isinstance(method, str) and method not in (*CALIBRATORS, *ALIASES) and did_you_mean(method, CALIBRATORS):
        raise unknown_name("method", method, CALIBRATORS)


def resolve(method: object, estimator: Any) -> Method:
    """Return how `method` calibrates the outputs that `estimator` has.

    Raises
    ------
    UnknownNameError, InvalidTypeError
        If `method` names or is no calibrator.
    InvalidInputError
        If the estimator has neither output.
    """
    if isinstance(method, type):
        raise InvalidTypeError(f"method={method.__name__} is a class. Pass an instance: method={method.__name__}().")
    if isinstance(method, str):
        name = ALIASES.get(method, method)
        if name not in CALIBRATORS:
            raise unknown_name("method", method, CALIBRATORS)
        response = _response(estimator, _DECISION_FIRST if name in _SCIKIT_LEARN else _PROBABILITY_FIRST)
        return _adapted(make_calibrator(name), response)
    if isinstance(method, Calibrator):
        wanted = _PROBABILITY_FIRST if method.input == "probability" else _DECISION_FIRST
        response = _response(estimator, wanted)
        if (response == "predict_proba") == (method.input == "probability"):
            return Method(method, response)
        return _adapted(method, response)
    if hasattr(method, "fit") and RegressorCalibrator.takes(method):
        response = _response(estimator, _DECISION_FIRST)
        return Method(RegressorCalibrator(method, input=_input_of(response)), response)
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


def _input_of(response: Response) -> InputKind:
    return "probability" if response == "predict_proba" else "score"


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
