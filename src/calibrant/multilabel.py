"""MultilabelCalibrator: scores of several labels, each of which a row may have or not, calibrated one by one."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from calibrant.calibrators import (
    BinaryCalibrator,
    decode_calibrator_setting,
    encode_calibrator_setting,
    make_binary_calibrator,
)
from calibrant.document_field import DocumentField
from calibrant.errors import (
    DataWarning,
    InvalidInputError,
    InvalidLabelError,
    InvalidTypeError,
    ShapeError,
    unknown_name,
)
from calibrant.fitted import Fitted, register
from calibrant.maps import IDENTITY, IDENTITY_LOGIT, BinaryMap, Examples, decode_map, examples_of
from calibrant.numerics import FloatArray
from calibrant.phrases import quoted
from calibrant.rows import Rows
from calibrant.terms import Builder, Term
from calibrant.validation import (
    ArrayLike,
    InputKind,
    as_columns,
    as_indicators,
    as_weight,
    check_same_length,
    match_columns,
)

_MOST_NAMED = 10


@register("multilabel_calibrator")
class MultilabelCalibrator(Fitted):
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

    fit_call: ClassVar[str] = "fit(scores, Y)"
    classes_called: ClassVar[str] = "labels"
    maps_: tuple[BinaryMap, ...]
    label_names_: tuple[str, ...]

    def __init__(self, calibrator: str | BinaryCalibrator = "sigmoid") -> None:
        self.calibrator = calibrator

    @property
    def input(self) -> InputKind:  # type: ignore[override]
        """What the scores are: as the calibrator of the labels has it."""
        return make_binary_calibrator(self.calibrator).input

    @property
    def is_fitted(self) -> bool:
        """Whether there are maps."""
        return hasattr(self, "maps_")

    @property
    def takes_one(self) -> bool:
        """False: each label has a column of its own."""
        return False

    @property
    def sums_to_one(self) -> bool:
        """False: a row may have any number of the labels."""
        return False

    @property
    def classes_(self) -> npt.NDArray[Any]:  # type: ignore[override]
        """The names of the labels, which is what other calibrators call classes."""
        self.check_fitted()
        return np.array(self.label_names_, dtype=object)

    def fit(self, scores: ArrayLike, Y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the map of each label.

        Parameters
        ----------
        scores : array-like of shape (n, L)
            One column per label; rows may have any sum.
        Y : array-like of shape (n, L)
            1 or True where a row has the label, else 0 or False; columns in the order of those of `scores`, or matched
            by name where both have the same names.
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
        inner.check_params()
        checked = as_columns(scores, input=inner.input)
        has_label, names = as_indicators(Y, name="Y")
        values, score_names = checked.values, checked.container.columns
        check_same_length(len(values), len(has_label), "scores", "Y")
        if values.shape[1] != has_label.shape[1]:
            raise ShapeError(
                f"scores has {values.shape[1]} columns and Y has {has_label.shape[1]}. Pass one of each per label."
            )
        if score_names and names and sorted(score_names) == sorted(names):
            places = match_columns(names, score_names, name="Y", fitted="scores")
            if places is not None:
                has_label, names = has_label[:, places], score_names
        weight = as_weight(sample_weight, len(values))
        labels = names or score_names or tuple(map(str, range(values.shape[1])))
        columns = [
            Rows.of_positives(np.ascontiguousarray(values[:, j]), np.ascontiguousarray(has_label[:, j]), weight)
            for j in range(len(labels))
        ]
        counted = [column.counted() for column in columns]
        self.maps_ = _fit_labels(inner, counted, labels)
        self.label_names_ = labels
        self.n_rows_ = counted[0].n_rows
        self.score_names_ = score_names
        return self

    @property
    def n_numbers(self) -> int:
        """How many numbers the maps hold."""
        return sum(part.n_numbers for part in self.maps_)

    def apply(self, rows: Rows) -> FloatArray:
        """Return the probability of each label of checked rows."""
        columns = [m.apply(np.ascontiguousarray(rows.scores[:, j])) for j, m in enumerate(self.maps_)]
        return np.column_stack(columns)

    def check_width(self, n_columns: int, name: str) -> None:
        """Refuse a number of columns other than that of the labels."""
        if n_columns != len(self.maps_):
            raise ShapeError(
                f"{name} has {n_columns} columns, but this calibrator was fitted for the {len(self.maps_)} labels "
                f"{quoted(self.label_names_)}. Pass one column per label."
            )

    def formula(self, b: Builder, scores: Term, n_columns: int) -> Term:  # noqa: ARG002
        """Return what `apply` does, in the terms of SQL or ONNX."""
        return b.columns([part.formula(b, b.column(scores, k)) for k, part in enumerate(self.maps_)])

    def describe(self) -> list[str]:
        """Return what the maps of the first labels do."""
        lines = [f"  {label!r}: {m.in_words()}" for label, m in zip(self.label_names_, self.maps_, strict=True)]
        more = [f"  and {len(lines) - _MOST_NAMED:,} more"] if len(lines) > _MOST_NAMED else []
        return ["One map per label:", *lines[:_MOST_NAMED], *more]

    def examples(self) -> Examples | None:
        """Return what the maps of the first labels make of some scores."""
        return examples_of(self.maps_, self.label_names_, self.input)

    def encode(self) -> dict[str, Any]:
        """Return all maps as plain data."""
        return {
            "calibrator": encode_calibrator_setting(self.calibrator),
            "labels": list(self.label_names_),
            "n_rows": self.n_rows_,
            "score_names": None if self.score_names_ is None else list(self.score_names_),
            "maps": [m.encode() for m in self.maps_],
        }

    @classmethod
    def decode(cls, body: DocumentField, version: int) -> Self:  # noqa: ARG003
        """Return the calibrator of checked maps, one for each label."""
        parts = body.members(("calibrator", "labels", "n_rows", "score_names", "maps"))
        made = cls(decode_calibrator_setting(parts["calibrator"]))  # type: ignore[arg-type]
        try:
            inner = make_binary_calibrator(made.calibrator)
            inner.check_params()
        except (InvalidInputError, InvalidTypeError) as error:
            parts["calibrator"].refuse(f"is no calibrator of one score: {error}")
        made.label_names_ = parts["labels"].names()
        n_labels = len(made.label_names_)
        made.n_rows_ = parts["n_rows"].integer(minimum=0)
        made.score_names_ = None if parts["score_names"].value is None else parts["score_names"].names()
        if made.score_names_ is not None and len(made.score_names_) != n_labels:
            parts["score_names"].refuse(f"does not go with {n_labels} labels: one name per label is needed")
        items = parts["maps"].items(minimum=2)
        if len(items) != n_labels:
            parts["maps"].refuse(f"does not go with {n_labels} labels: one map per label is needed")
        made.maps_ = tuple(_decode_map(item, inner) for item in items)
        return made

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


def _fit_labels(inner: BinaryCalibrator, columns: list[Rows], labels: tuple[str, ...]) -> tuple[BinaryMap, ...]:
    maps: list[BinaryMap] = []
    constant: list[str] = []
    for label, column in zip(labels, columns, strict=True):
        if column.positive.all() or not column.positive.any():
            constant.append(label)
            maps.append(_unchanged(inner.input, label))
        else:
            maps.append(inner.fit_map(column))
    if len(constant) == len(labels):
        raise InvalidLabelError(
            f"Y holds one class only in each of its {len(labels):,} columns. Pass rows with and without each label."
        )
    if constant:
        warnings.warn(
            f"{len(constant):,} of {len(labels):,} labels have rows of one class only to calibrate on, and keep "
            f"their scores as they are: {quoted(constant, most=_MOST_NAMED)}",
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


def _decode_map(field: DocumentField, inner: BinaryCalibrator) -> BinaryMap:
    """Return the map of a label, which its calibrator can have produced, or that of a label of one class."""
    fitted = decode_map(field, BinaryMap)  # type: ignore[type-abstract]
    if inner.input == "score" or fitted.encode() != _unchanged(inner.input, "").encode():
        inner.check_map(fitted, 2, field)
    return fitted
