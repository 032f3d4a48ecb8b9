"""What can be exported: the map of a fitted object, what its scores are, and what its columns are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.maps import BinaryMap, Map, is_binary
from calibrant.persistence.documents import kind_of_object
from calibrant.persistence.export.formulas import binary_formula, formula
from calibrant.persistence.export.terms import Builder, Term
from calibrant.persistence.fields import show
from calibrant.validation import InputKind


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

    def formula(self, b: Builder, scores: Term) -> Term:
        """Return the calibrated probabilities of a score, or of a score for each class."""
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
    kind = kind_of_object(calibrator)
    match kind:
        case "calibrator":
            fitted: Map | LabelMaps = calibrator._fitted_map()
            input, sums_to_one = calibrator.input, calibrator.input == "probability"
        case "probability_calibrator":
            fitted, input, sums_to_one = calibrator.map_, "probability", False
        case "prior_shift":
            fitted, input, sums_to_one = calibrator.map_, "probability", True
        case "multilabel_calibrator":
            calibrator._check_fitted()
            fitted, input, sums_to_one = LabelMaps(calibrator.maps_), calibrator.input, False
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
    return Exportable(fitted, input, tuple(calibrator.classes_.tolist()), names, sums_to_one)
