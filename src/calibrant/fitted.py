"""The contract of what makes probabilities of scores: what inspecting, reporting and monitoring take.

What documents hold is `Storable`, and what tables are given to, `Applicable`; each has a module of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from calibrant.applicable import Applicable
from calibrant.errors import ShapeError
from calibrant.maps import Examples, Map
from calibrant.numerics import FloatArray, two_columns
from calibrant.phrases import count, legible, listed, quoted
from calibrant.rows import Rows
from calibrant.sketch import sketch_of_curve
from calibrant.terms import Builder, Term
from calibrant.validation import (
    ArrayLike,
    InputKind,
    Scores,
    as_scores,
    column_places,
    match_classes,
    match_columns,
)

#: Scores at which the picture of a map is drawn, and letters of a label beside it.
_POINTS, _SHORT = 201, 20


class Fitted(Applicable):
    """Something that makes probabilities of scores.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted; columns of probabilities, and `score_names_`, follow this order.
    """

    called = "a calibrator of probabilities"
    #: Whether each row is of exactly one class, so that probabilities of several classes sum to one.
    is_exclusive: ClassVar[bool] = True
    #: What `classes_` holds.
    classes_called: ClassVar[str] = "classes"
    classes_: npt.NDArray[Any]

    @property
    def takes_one(self) -> bool:
        """Whether one score of each row is enough."""
        return len(self.classes_) == 2

    @property
    def widths(self) -> tuple[int, ...]:
        """The numbers of columns of scores that it takes."""
        if not self.takes_one:
            return (len(self.classes_),)
        return (1,) if self.input == "score" else (1, 2)

    def facts(self) -> dict[str, str]:
        columns = self.score_names_
        return {
            "calibrator": repr(self),
            self.classes_called: listed(self.classes_.tolist()),
            "fitted to": count(self.n_rows_, "row"),
            "score columns": listed(columns) if columns else "not stored: name them with calibrant apply --score",
            "scores are": self.input,
            **({} if self.group_name_ is None else {"group column": self.group_name_}),
            **({"features": listed(self.feature_names) or "none needed"} if self.takes_features else {}),
        }

    def predict_proba(self, scores: ArrayLike, *, groups: ArrayLike | None = None, features: object = None) -> Any:
        """Return calibrated probabilities, in the container that the scores came in.

        Parameters
        ----------
        scores : array-like of shape (n,) or (n, K)
            As in `fit`; columns with names are matched by these. What was fitted to two classes takes one column or
            two.
        groups : array-like of shape (n,), optional
            The group of each row, for what was fitted by group.
        features : dict or data frame of columns of shape (n,), optional
            The features of each row, for what was fitted to features: columns are matched by name, and those that are
            not needed may be there or not.

        Returns
        -------
        probabilities : shape (n,) or (n, K)
            Of the positive class for one column; else of each class, rows summing to one.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        CalibrantError
            If the scores can't be used.
        """
        rows = self.read(scores, groups=groups, features=features)
        return rows.container.wrap(self.apply(rows))

    def read_scores(self, scores: ArrayLike, name: str, *, in_given_order: bool = False) -> Scores:
        """Check scores, and match the names of their columns to those of the fit or to the classes."""
        checked = as_scores(scores, name=name, input=self.input, sum_to_one=self.sums_to_one, takes_one_column=True)
        self.check_width(checked.n_columns, name)
        columns = checked.container.columns
        if columns is None:
            return checked
        return checked.ordered(self.places_of(columns, name, in_given_order=in_given_order))

    def check_width(self, n_columns: int, name: str) -> None:
        """Refuse a number of columns that it doesn't take."""
        if n_columns not in self.widths:
            raise ShapeError(
                f"{name} has {count(n_columns, 'column')}, but this calibrator was fitted for the "
                f"{len(self.classes_)} classes {quoted(self.classes_.tolist())}. Pass "
                f"{'one column' if self.takes_one else 'one column per class'}."
            )

    def places_of(self, columns: Sequence[str], name: str, *, in_given_order: bool = False) -> list[int] | None:
        """Return the place of the column of each class, by the names of the fit or by the classes; None for in order.

        Raises ColumnOrderError where names are neither those of the fit nor made of the classes, or contradict them.
        """
        known, classes = self.score_names_, self.classes_.tolist()
        if len(columns) == 1:
            return None
        if known is None or len(known) != len(columns):
            return match_classes(columns, classes, name=name)
        if sorted(known) != sorted(columns):
            places = column_places(columns, classes)
            if places is not None or in_given_order:
                return places
        return match_columns(columns, known, name=name, fitted=f"this {type(self).__name__}")

    def output_names(self, column: str, n_columns: int) -> list[str]:
        """Return names of the columns of probabilities: one, or one for each class."""
        return [column] if self.takes_one and n_columns == 1 else [f"{column}_{label}" for label in self.classes_]

    def take_over(self, fitted: Fitted) -> None:
        """Take the classes, the number of rows and the names of scores from something fitted to the same rows."""
        self.classes_, self.n_rows_, self.score_names_ = fitted.classes_, fitted.n_rows_, fitted.score_names_


class MapFitted(Fitted):
    """What makes probabilities of scores by one map.

    Attributes
    ----------
    map_ : Map
        The fitted map: a frozen value of plain numbers.
    """

    map_: Map

    @property
    def is_fitted(self) -> bool:
        return hasattr(self, "map_")

    @property
    def fitted_map(self) -> Map:
        """The map, or NotFittedError."""
        self.check_fitted()
        return self.map_

    @property
    def takes_one(self) -> bool:
        return self.fitted_map.is_binary

    @property
    def n_numbers(self) -> int:
        return self.fitted_map.n_numbers

    def apply(self, rows: Rows) -> FloatArray:
        return self.apply_values(rows.scores)

    def apply_values(self, values: FloatArray) -> FloatArray:
        """Return the probabilities of checked scores."""
        return apply_map(self.fitted_map, values, self.input)

    def curve_picture(self) -> str:
        examples = self.examples()
        if examples is None or self.needs_groups or not self.fitted_map.is_binary:
            return ""
        low, high = (0.0, 1.0) if self.input == "probability" else (min(examples.scores), max(examples.scores))
        x = np.linspace(low, high, _POINTS)
        y = self.apply_values(x)
        return sketch_of_curve(
            x.tolist(),
            y.tolist(),
            x_range=(float(low), float(high)),
            words=f"Calibrated probability of {self.classes_[1]} by score",
            axes=(self.input, f"calibrated probability of {legible(self.classes_[1], _SHORT)}"),
            diagonal=self.input == "probability",
        )

    def formula(self, b: Builder, scores: Term, n_columns: int) -> Term:
        fitted = self.fitted_map
        if not fitted.is_binary or n_columns == 1:
            return fitted.formula(b, scores)
        negative, positive = b.column(scores, 0), b.column(scores, 1)
        one = positive if self.input == "probability" else b.hold(positive - negative)
        q = b.hold(fitted.formula(b, one))
        return b.columns([1.0 - q, q])

    def describe(self) -> list[str]:
        return self.fitted_map.describe(self.classes_.tolist())

    def examples(self) -> Examples | None:
        return self.fitted_map.examples(self.classes_.tolist(), self.input)


def apply_map(fitted: Map, values: FloatArray, input: InputKind) -> FloatArray:
    """Apply a map to checked scores; a map of one score gives both classes where there are two columns."""
    if not fitted.is_binary or values.ndim == 1:
        return fitted.apply(values)
    return two_columns(fitted.apply(positive_score(values, input)))


def positive_score(values: FloatArray, input: InputKind) -> FloatArray:
    """Return two columns of scores as one score of the positive class, shape (n,)."""
    match input:
        case "probability":
            return np.ascontiguousarray(values[:, 1])
        case "logit":
            return values[:, 1] - values[:, 0]
        case "score":
            raise ShapeError(
                "two columns of raw scores say twice what one says. Pass the scores of the positive class, shape (n,)."
            )


def as_one_score(rows: Rows, input: InputKind) -> Rows:
    """Return rows of two classes as rows of one score, of the positive class."""
    return rows if rows.is_binary else rows.with_scores(positive_score(rows.scores, input), input=input)
