"""MultilabelCalibrator: scores of several labels, each of which a row may have or not, calibrated one by one."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant import persistence
from calibrant.calibrators import BinaryCalibrator
from calibrant.calibrators.registry import make_binary_calibrator
from calibrant.errors import DataWarning, InvalidInputError, InvalidLabelError, NotFittedError, ShapeError, unknown_name
from calibrant.maps import IDENTITY, IDENTITY_LOGIT, BinaryMap
from calibrant.numerics import BoolArray, FloatArray
from calibrant.persistence.calibrator_codec import decode_nested, encode_nested
from calibrant.persistence.fields import Field
from calibrant.persistence.origins import check_origin
from calibrant.summary import ScoreRows
from calibrant.validation import ArrayLike, InputKind, as_columns, as_indicators, as_weight, check_same_length

KIND = "multilabel_calibrator"
_MOST_NAMED = 10


class MultilabelCalibrator:
    """Calibrate the scores of several labels, each by its own map: a row may have any number of the labels.

    Parameters
    ----------
    calibrator : str or BinaryCalibrator
        The calibrator of each label, by name or as an instance, which is left unfitted.

    Attributes
    ----------
    maps_ : tuple of BinaryMap
        The fitted map of each label.
    label_names_ : tuple of str
        The names of the columns of `Y`, or of `scores`, where they came in a named container; else "0", "1", ...
    n_rows_ : int
        Number of rows it was fitted on: those with weight.
    score_names_ : tuple of str or None
        The column names of the scores, where they came in a named container.

    Notes
    -----
    Labels are calibrated separately, so rows of probabilities sum to anything, and what the labels have to do with
    each other is left alone. A label that all rows have, or none, keeps its scores as they are, with a DataWarning.
    For classes of which each row has exactly one, take any other calibrator.

    Examples
    --------
    >>> import calibrant as cb
    >>> scores = [[0.9, 0.2], [0.8, 0.7], [0.3, 0.6], [0.1, 0.1], [0.4, 0.9], [0.7, 0.3]]
    >>> Y = [[1, 0], [1, 1], [0, 0], [0, 0], [1, 1], [0, 1]]
    >>> cb.MultilabelCalibrator("sigmoid").fit(scores, Y).predict_proba([[0.9, 0.9]]).round(2)
    array([[0.75, 0.78]])
    """

    maps_: tuple[BinaryMap, ...]
    label_names_: tuple[str, ...]
    n_rows_: int
    score_names_: tuple[str, ...] | None
    metadata_: dict[str, Any]

    def __init__(self, calibrator: str | BinaryCalibrator = "sigmoid") -> None:
        self.calibrator = calibrator

    @property
    def input(self) -> InputKind:
        """What the scores are: as the calibrator of the labels has it."""
        return make_binary_calibrator(self.calibrator).input

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The names of the labels, which is what other calibrators call classes."""
        self._check_fitted()
        return np.array(self.label_names_, dtype=object)

    def fit(self, scores: ArrayLike, Y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the map of each label.

        Parameters
        ----------
        scores : array-like of shape (n, L)
            One column per label; rows may have any sum.
        Y : array-like of shape (n, L)
            1 or True where a row has the label, else 0 or False; columns in the order of those of `scores`.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts as two rows, a weight of zero as none.

        Returns
        -------
        self

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        inner = make_binary_calibrator(self.calibrator)
        inner._check_params()
        checked = as_columns(scores, input=inner.input)
        has_label, names = as_indicators(Y, name="Y")
        values, score_names = checked.values, checked.container.columns
        check_same_length(len(values), len(has_label), "scores", "Y")
        if values.shape[1] != has_label.shape[1]:
            raise ShapeError(
                f"scores has {values.shape[1]} columns and Y has {has_label.shape[1]}. Pass one of each per label."
            )
        _check_order(score_names, names)
        weight = as_weight(sample_weight, len(values))
        if weight is not None and not weight.all():  # a row of weight zero is no row
            counted = weight > 0.0
            values, has_label, weight = values[counted], has_label[counted], weight[counted]
        labels = names or score_names or tuple(map(str, range(values.shape[1])))
        self.maps_ = _fit_labels(inner, values, has_label, weight, labels)
        self.label_names_ = labels
        self.n_rows_ = len(values)
        self.score_names_ = score_names
        return self

    def predict_proba(self, scores: ArrayLike) -> Any:
        """Return the calibrated probability of each label, in the container that the scores came in.

        Parameters
        ----------
        scores : array-like of shape (n, L)
            As in `fit`.

        Returns
        -------
        probabilities : shape (n, L)
            Each in [0, 1]; rows need not sum to one.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        CalibrantError
            If the scores can't be used.
        """
        self._check_fitted()
        checked = as_columns(scores, input=self.input)
        values = checked.values
        if values.shape[1] != len(self.maps_):
            raise ShapeError(
                f"scores has {values.shape[1]} columns, but this calibrator was fitted for the {len(self.maps_)} "
                f"labels {list(self.label_names_[:20])!r}. Pass one column per label."
            )
        columns = [m.apply(np.ascontiguousarray(values[:, j])) for j, m in enumerate(self.maps_)]
        return checked.container.wrap(np.column_stack(columns))

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the constructor's arguments, as scikit-learn's `clone` asks for them."""
        return {"calibrator": self.calibrator}

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments."""
        for name, value in params.items():
            if name != "calibrator":
                raise unknown_name(f"parameter of {type(self).__name__}", name, ["calibrator"])
            self.calibrator = value
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.calibrator!r})"

    def _check_fitted(self) -> None:
        if not hasattr(self, "maps_"):
            raise NotFittedError("this MultilabelCalibrator is not fitted. Call fit(scores, Y) first.")


def _check_order(score_names: tuple[str, ...] | None, names: tuple[str, ...] | None) -> None:
    """Refuse columns of the same names in another order: one label would be calibrated to another."""
    if score_names and names and score_names != names and sorted(score_names) == sorted(names):
        j = next(j for j, pair in enumerate(zip(score_names, names, strict=True)) if pair[0] != pair[1])
        raise ShapeError(
            f"column {j} of scores is {score_names[j]!r} and of Y {names[j]!r}. Pass Y with its columns in the order "
            "of those of scores."
        )


def _fit_labels(
    inner: BinaryCalibrator,
    values: FloatArray,
    has_label: BoolArray,
    weight: FloatArray | None,
    labels: tuple[str, ...],
) -> tuple[BinaryMap, ...]:
    maps: list[BinaryMap] = []
    constant: list[str] = []
    for j, label in enumerate(labels):
        positive = np.ascontiguousarray(has_label[:, j])
        if positive.all() or not positive.any():
            constant.append(label)
            maps.append(_unchanged(inner.input, label))
        else:
            maps.append(inner.fit_map(ScoreRows(np.ascontiguousarray(values[:, j]), positive, weight)))
    if len(constant) == len(labels):
        raise InvalidLabelError(
            f"Y holds one class only in each of its {len(labels):,} columns. Pass rows with and without each label."
        )
    if constant:
        named = ", ".join(map(repr, constant[:_MOST_NAMED])) + (", ..." if len(constant) > _MOST_NAMED else "")
        warnings.warn(
            f"{len(constant):,} of {len(labels):,} labels have rows of one class only to calibrate on, and keep "
            f"their scores as they are: {named}",
            DataWarning,
            stacklevel=3,  # the caller of fit
        )
    return tuple(maps)


def _unchanged(input: InputKind, label: str) -> BinaryMap:
    match input:
        case "probability":
            return IDENTITY
        case "logit":
            return IDENTITY_LOGIT
        case "score":
            raise InvalidInputError(
                f"Y column {label!r} holds one class only, so nothing says what its raw scores mean. Drop the column, "
                "or pass rows of both classes."
            )


def _encode(calibrator: MultilabelCalibrator) -> dict[str, Any]:
    calibrator._check_fitted()
    names = calibrator.score_names_
    return {
        "calibrator": encode_nested(calibrator.calibrator),
        "labels": list(calibrator.label_names_),
        "n_rows": calibrator.n_rows_,
        "score_names": None if names is None else list(names),
        "maps": [persistence.encode_map(m) for m in calibrator.maps_],
    }


def _decode(body: dict[str, Any]) -> MultilabelCalibrator:
    fields = Field(body).members(("calibrator", "labels", "n_rows", "score_names", "maps"))
    made = MultilabelCalibrator(decode_nested(fields["calibrator"]))
    made.label_names_ = _decode_names(fields["labels"])
    n_labels = len(made.label_names_)
    made.n_rows_ = fields["n_rows"].integer(minimum=0)
    made.score_names_ = None
    if fields["score_names"].value is not None:
        made.score_names_ = _decode_names(fields["score_names"])
        if len(made.score_names_) != n_labels:
            fields["score_names"].refuse(f"does not go with {n_labels} labels: one name per label is needed")
    items = fields["maps"].items(minimum=2)
    if len(items) != n_labels:
        fields["maps"].refuse(f"does not go with {n_labels} labels: one map per label is needed")
    inner = make_binary_calibrator(made.calibrator)
    made.maps_ = tuple(_decode_map(item, inner) for item in items)
    return made


def _decode_names(field: Field) -> tuple[str, ...]:
    """Return names of columns, which are text and distinct."""
    items = field.items(minimum=2)
    seen: set[str] = set()
    for item in items:
        if item.text() in seen:
            item.refuse("is there twice, but names are distinct")
        seen.add(item.text())
    return tuple(item.text() for item in items)


def _decode_map(field: Field, inner: BinaryCalibrator) -> BinaryMap:
    """Return the map of a label, which its calibrator can have produced, or that of a label of one class."""
    fitted = persistence.decode_map(field)
    if not isinstance(fitted, BinaryMap):
        field.member("kind").refuse("is a kind of map of several columns, but each label has one")
    if inner.input == "score" or persistence.encode_map(fitted) != persistence.encode_map(_unchanged(inner.input, "")):
        check_origin(inner, fitted, 2, field)
    return fitted


persistence.register_kind(KIND, MultilabelCalibrator, _encode, _decode)
