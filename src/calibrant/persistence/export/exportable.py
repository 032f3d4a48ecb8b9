"""What can be exported: the map of a fitted object, what its scores are, and what its columns are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.maps import BinaryMap, Map, is_binary
from calibrant.persistence.documents import kind_of_object
from calibrant.persistence.export.formulas import binary_formula, formula
from calibrant.persistence.export.terms import Builder, Term
from calibrant.persistence.fields import show
from calibrant.validation import InputKind

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class LabelMaps:
    """One binary map for each label, of which a row may have any number."""

    maps: tuple[BinaryMap, ...]


@dataclass(frozen=True, slots=True)
class Exportable:
    """A fitted map with what its scores are.

    Attributes
    ----------
    map : Map or LabelMaps
    input : {"probability", "logit", "score"}
    classes : tuple
        Labels, in the order of the columns.
    score_names : tuple of str or None
        The columns that it was fitted to.
    sums_to_one : bool
        Whether rows of several probabilities must sum to one.
    """

    map: Map | LabelMaps
    input: InputKind
    classes: tuple[Any, ...]
    score_names: tuple[str, ...] | None
    sums_to_one: bool

    @property
    def takes_one(self) -> bool:
        """Whether one score of each row is enough."""
        return not isinstance(self.map, LabelMaps) and is_binary(self.map)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest score that it takes."""
        return (0.0, 1.0) if self.input == "probability" else (-_LARGEST, _LARGEST)

    def check_columns(self, n_columns: int, argument: str) -> None:
        """Refuse a number of columns that the calibrator doesn't take."""
        allowed = (len(self.classes),) if not self.takes_one else (1,) if self.input == "score" else (1, 2)
        if n_columns not in allowed:
            raise ShapeError(
                f"{argument} gives {n_columns} columns, but the calibrator was fitted for the {len(self.classes)} "
                f"classes {list(self.classes[:20])!r}. Give {allowed[0]}."
            )

    def calibrated(self, b: Builder, scores: Term, n_columns: int) -> Term:
        """Return calibrated probabilities of the rows that `predict_proba` takes, and a missing number for others."""
        usable = b.usable(scores, *self.range, sums_to_one=self.sums_to_one and n_columns > 1)
        return b.only_where(usable, self.formula(b, scores, n_columns))

    def formula(self, b: Builder, scores: Term, n_columns: int) -> Term:
        """Return the calibrated probability of a score, or of each class of scores in as many columns."""
        if self.takes_one and n_columns == 2:
            negative, positive = b.column(scores, 0), b.column(scores, 1)
            one = positive if self.input == "probability" else b.hold(positive - negative)
            q = b.hold(self._formula(b, one))
            return b.columns([1.0 - q, q])
        return self._formula(b, scores)

    def _formula(self, b: Builder, scores: Term) -> Term:
        if isinstance(self.map, LabelMaps):
            return b.columns([binary_formula(b, part, b.column(scores, k)) for k, part in enumerate(self.map.maps)])
        return formula(b, self.map, scores)


def as_exportable(calibrator: Any) -> Exportable:
    """Return what there is to export of a fitted object.

    Raises
    ------
    NotFittedError
        If it has not been fitted.
    InvalidInputError
        If it is a calibrator by group, whose map is chosen by a column of its own.
    InvalidTypeError
        If it is no calibrator.
    """
    fitted: Map | LabelMaps
    match kind_of_object(calibrator):
        case "calibrator":
            fitted, of, sums_to_one = calibrator._fitted_map(), calibrator.input, calibrator.input == "probability"
        case "probability_calibrator":
            fitted, of, sums_to_one = calibrator.map_, "probability", False
        case "prior_shift":
            fitted, of, sums_to_one = calibrator.map_, "probability", True
        case "multilabel_calibrator":
            calibrator._check_fitted()
            fitted, of, sums_to_one = LabelMaps(calibrator.maps_), calibrator.input, False
        case "grouped_calibrator":
            raise InvalidInputError(
                "a GroupedCalibrator has one map for each group, and can't be exported as one. Fit and export one "
                "calibrator per group, or apply it with calibrant apply."
            )
        case _:
            raise InvalidTypeError(
                f"can't export {show(calibrator)} of type {type(calibrator).__name__}. Pass a fitted calibrator."
            )
    names = getattr(calibrator, "score_names_", None)
    return Exportable(fitted, of, tuple(calibrator.classes_.tolist()), names, sums_to_one)
