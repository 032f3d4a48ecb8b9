"""MultilabelCalibrator: scores of several labels, each of which a row may have or not, calibrated one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
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
from calibrant.errors import DataWarning, InvalidInputError, InvalidLabelError, ShapeError, warn
from calibrant.fitted import Fitted
from calibrant.maps import (
    IDENTITY,
    IDENTITY_LOGIT,
    BinaryMap,
    Examples,
    apply_each,
    decode_map,
    examples_of,
    first_lines,
)
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.phrases import quoted
from calibrant.rows import Rows
from calibrant.settings import Configured
from calibrant.storable import register
from calibrant.terms import Builder, Term
from calibrant.validation import (
    ArrayLike,
    InputKind,
    as_columns,
    as_indicators,
    as_weight,
    check_same_length,
    match_classes,
)


@register("multilabel_calibrator")
class MultilabelCalibrator(Configured, Fitted):
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

    Notes
    -----
    Labels are calibrated separately: a row of probabilities has any sum, and dependence between labels is not changed.
    A label that all rows have, or none, keeps its scores as they are, with a DataWarning. For classes of which each row
    has exactly one, take any other calibrator.

    Examples
    --------
    >>> import calibrant as cb
    >>> scores = [[0.9, 0.2], [0.8, 0.7], [0.3, 0.6], [0.1, 0.1], [0.4, 0.9], [0.7, 0.3]]
    >>> Y = [[1, 0], [1, 1], [0, 0], [0, 0], [1, 1], [0, 1]]
    >>> cb.MultilabelCalibrator("sigmoid").fit(scores, Y).predict_proba([[0.9, 0.9]]).round(2)
    array([[0.75, 0.78]])
    """

    is_exclusive: ClassVar[bool] = False
    fit_call: ClassVar[str] = "fit(scores, Y)"
    classes_called: ClassVar[str] = "labels"
    maps_: tuple[BinaryMap, ...]
    label_names_: tuple[str, ...]

    def __init__(self, calibrator: str | BinaryCalibrator = "sigmoid") -> None:
        self.calibrator = calibrator

    @property
    def input(self) -> InputKind:  # type: ignore[override]
        """What the scores are that the calibrator of the labels takes."""
        return make_binary_calibrator(self.calibrator).input

    @property
    def is_fitted(self) -> bool:
        return hasattr(self, "maps_")

    @property
    def takes_one(self) -> bool:
        return False

    @property
    def sums_to_one(self) -> bool:
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
            by name where those are named after these: `p_cat` and `cat`.
        sample_weight : array-like of shape (n,), optional
            A weight of two counts as two rows, a weight of zero as none.

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
        if score_names and names:
            places = match_classes(score_names, names, name="scores")
            if places is not None:  # labels in the order of their scores
                order = np.argsort(places)
                has_label, names = has_label[:, order], tuple(names[k] for k in order)
        return self.fit_columns(values, has_label, as_weight(sample_weight, len(values)), names, score_names)

    def fit_columns(
        self,
        values: FloatArray,
        has_label: BoolArray,
        weight: FloatArray | None,
        names: tuple[str, ...] | None = None,
        score_names: tuple[str, ...] | None = None,
        *,
        cluster: IntArray | None = None,
    ) -> Self:
        """Fit to checked scores, and to which rows have which label, both of shape (n, L)."""
        labels = names or score_names or tuple(map(str, range(values.shape[1])))
        cluster = None if cluster is None else np.unique(cluster, return_inverse=True)[1]
        binary = (
            Rows.of_positives(np.ascontiguousarray(column), np.ascontiguousarray(has), weight)
            for column, has in zip(values.T, has_label.T, strict=True)
        )
        columns = [replace(rows, cluster=cluster).counted() for rows in binary]
        self.maps_ = _fit_labels(make_binary_calibrator(self.calibrator), columns, labels)
        self.label_names_, self.n_rows_, self.score_names_ = labels, columns[0].n_rows, score_names
        return self

    @property
    def n_numbers(self) -> int:
        return sum(part.n_numbers for part in self.maps_)

    def apply(self, rows: Rows) -> FloatArray:
        return apply_each(self.maps_, rows.scores)

    def check_width(self, n_columns: int, name: str) -> None:
        if n_columns != len(self.maps_):
            raise ShapeError(
                f"{name} has {n_columns} columns, but this calibrator was fitted for the {len(self.maps_)} labels "
                f"{quoted(self.label_names_)}. Pass one column per label."
            )

    def formula(self, b: Builder, scores: Term, n_columns: int) -> Term:  # noqa: ARG002
        return b.columns([part.formula(b, b.column(scores, k)) for k, part in enumerate(self.maps_)])

    def describe(self) -> list[str]:
        lines = [f"  {label!r}: {m.in_words()}" for label, m in zip(self.label_names_, self.maps_, strict=True)]
        return ["One map per label:", *first_lines(lines)]

    def examples(self) -> Examples | None:
        return examples_of(self.maps_, self.label_names_, self.input)

    def encode(self) -> dict[str, Any]:
        return {
            "settings": {"calibrator": encode_calibrator_setting(self.calibrator)},
            "label_names": self.label_names_,
            "n_rows": self.n_rows_,
            "score_names": self.score_names_,
            "maps": [m.encode() for m in self.maps_],
        }

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        parts = body.members(("settings", "label_names", "n_rows", "score_names", "maps"))
        settings = parts["settings"].members(("calibrator",))
        made = cls(decode_calibrator_setting(settings["calibrator"], BinaryCalibrator))
        inner = make_binary_calibrator(made.calibrator)
        made.label_names_ = parts["label_names"].names(minimum=2)
        n_labels = len(made.label_names_)
        made.n_rows_ = parts["n_rows"].integer(minimum=0)
        made.score_names_ = parts["score_names"].score_names(n_labels)
        items = parts["maps"].items(minimum=2)
        if len(items) != n_labels:
            parts["maps"].refuse(f"does not go with {n_labels} labels: one map per label is needed")
        made.maps_ = tuple(_decode_map(item, inner) for item in items)
        return made


def _fit_labels(inner: BinaryCalibrator, columns: list[Rows], labels: tuple[str, ...]) -> tuple[BinaryMap, ...]:
    has_both = [bool(column.positive.any() and not column.positive.all()) for column in columns]
    fitted = iter(inner.fit_maps(compress(columns, has_both)))
    constant = [label for label, has in zip(labels, has_both, strict=True) if not has]
    maps = [
        next(fitted) if has else _unchanged(inner.input, label) for label, has in zip(labels, has_both, strict=True)
    ]
    if len(constant) == len(labels):
        raise InvalidLabelError(
            f"Y holds one class only in each of its {len(labels):,} columns. Pass rows with and without each label."
        )
    if constant:
        warn(
            f"{len(constant):,} of {len(labels):,} labels have rows of one class only to calibrate on, and keep "
            f"their scores as they are: {quoted(constant, most=10)}",
            DataWarning,
        )
    return tuple(maps)


def _unchanged(input: InputKind, label: str) -> BinaryMap:
    if input == "score":
        raise InvalidInputError(
            f"Y column {label!r} holds one class only, so nothing says what its raw scores mean. Drop the column, or "
            "pass rows of both classes."
        )
    return IDENTITY if input == "probability" else IDENTITY_LOGIT


def _decode_map(field: DocumentField, inner: BinaryCalibrator) -> BinaryMap:
    """Return the map of a label, which its calibrator can have produced, or that of a label of one class."""
    fitted = decode_map(field, BinaryMap)
    if inner.input == "score" or fitted.encode() != _unchanged(inner.input, "").encode():
        inner.check_map(fitted, 2, field)
    return fitted
