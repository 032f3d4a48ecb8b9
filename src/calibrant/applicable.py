"""The contract of what makes new numbers of scores: what applying to tables and exporting take.

`Fitted` makes probabilities; a `SegmentMeanCalibrator` corrects predictions of a number.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

from calibrant.errors import InvalidInputError
from calibrant.numerics import LARGEST, FloatArray
from calibrant.phrases import quoted
from calibrant.rows import Rows
from calibrant.storable import Storable
from calibrant.terms import Builder, Term
from calibrant.validation import ArrayLike, InputKind, Labels, Scores, read_features


class Applicable(Storable):
    """Something that makes new numbers of each row's scores, its group and its features.

    Attributes
    ----------
    input : {"probability", "logit", "score"}
        What the scores are that it takes.
    n_rows_ : int
        Number of rows it was fitted on: those with weight.
    score_names_ : tuple of str or None
        Names of the columns of scores that it was fitted to.
    group_name_ : str or None
        Name of the column that says which group each row is of; None where none is needed.
    """

    #: Whether each row's group is needed besides its scores.
    needs_groups: ClassVar[bool] = False
    #: Whether it was fitted to features of rows, and takes a row's besides its scores.
    takes_features: bool = False
    #: Why it can't be written as SQL or ONNX, and what to do instead; empty where it can.
    export_problem: ClassVar[str] = ""
    #: What the scores are called in messages of the call in Python.
    score_argument: ClassVar[str] = "scores"
    #: What it makes, as ONNX models call it.
    makes: ClassVar[str] = "probabilities"
    #: The name of a new column of a table, where the caller gives none.
    default_column: ClassVar[str] = "p_calibrated"
    input: InputKind
    n_rows_: int
    score_names_: tuple[str, ...] | None
    group_name_: str | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of features that it needs: of those that it was fitted to, those that change something."""
        return ()

    def text_names(self, group: str | None) -> tuple[str, ...]:  # noqa: ARG002
        """Return which of the column of groups and those of features it was fitted to as text: `007` is not 7 then."""
        return ()

    @property
    @abstractmethod
    def takes_one(self) -> bool:
        """Whether one score of each row is enough."""

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """The numbers of columns of scores that it takes."""

    @property
    def sums_to_one(self) -> bool:
        """Whether each row of several scores must sum to one."""
        return self.input == "probability"

    @property
    def score_range(self) -> tuple[float, float]:
        """The least and the largest score that it takes."""
        return (0.0, 1.0) if self.input == "probability" else (-LARGEST, LARGEST)

    @property
    def n_numbers(self) -> int:
        """How many numbers its maps hold: a measure of how long its formula is."""
        return 0

    @abstractmethod
    def apply(self, rows: Rows) -> FloatArray:
        """Return the numbers of checked rows: as many columns as their scores have."""

    @abstractmethod
    def formula(self, b: Builder, scores: Term, n_columns: int) -> Term:
        """Return what `apply` does, in the terms of SQL or ONNX; not asked of a class with an `export_problem`."""

    @abstractmethod
    def output_names(self, column: str, n_columns: int) -> list[str]:
        """Return names of the new columns of a table: one, or one for each class."""

    @abstractmethod
    def read_scores(self, scores: ArrayLike, name: str, *, in_given_order: bool = False) -> Scores:
        """Check scores, and put named columns into the order of the fit."""

    @abstractmethod
    def check_width(self, n_columns: int, name: str) -> None:
        """Refuse a number of columns that it doesn't take."""

    def read(
        self,
        scores: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        features: object = None,
        name: str = "",
        where: str = "",
        in_given_order: bool = False,
    ) -> Rows:
        """Check the scores of new rows, and put their columns into the order of the fit.

        Columns whose names say nothing are refused, or, with `in_given_order`, taken in the order that they have.
        `name` is what messages call the scores, and `where` the table that groups and features are columns of.
        """
        self.check_fitted()
        if (groups is not None) != self.needs_groups:
            was, fix = ("", "Pass the group of each row as groups") if groups is None else ("not ", "Leave groups out")
            raise InvalidInputError(f"this {type(self).__name__} was {was}fitted by group. {fix}.")
        if features is not None and not self.takes_features:
            raise InvalidInputError(f"this {type(self).__name__} was not fitted to features. Leave features out.")
        if features is None and self.feature_names:
            raise InvalidInputError(
                f"this {type(self).__name__} was fitted to features. Pass these columns as features: "
                f"{quoted(self.feature_names)}."
            )
        name = name or self.score_argument
        checked = self.read_scores(scores, name, in_given_order=in_given_order)
        rows = Rows(checked.values, input=self.input, columns=checked.container.columns, container=checked.container)
        if groups is not None:
            rows = replace(rows, groups=self.read_groups(groups, rows.n_rows, name, where))
        if features is not None and self.feature_names:
            rows = replace(
                rows, features=read_features(features, rows.n_rows, name, where=where, **self.feature_kinds())
            )
        return rows

    def feature_kinds(self) -> dict[str, Any]:
        """Return the `names` and `kinds` of the features that it needs, as `read_features` takes them."""
        return {"names": self.feature_names, "kinds": {}}

    def read_groups(self, groups: ArrayLike, n: int, scores: str, where: str) -> dict[str, Labels]:  # noqa: ARG002
        """Check the groups of `n` rows of what messages call `scores`; what needs none has none."""
        return {}

    def check_exportable(self) -> None:
        """Raise NotFittedError or InvalidInputError unless there is a formula."""
        self.check_fitted()
        if self.export_problem:
            raise InvalidInputError(f"a {type(self).__name__} {self.export_problem}")

    def usable_formula(self, b: Builder, scores: Term, n_columns: int) -> Term:
        """Return what `formula` does for rows that can be used, and a missing number for others."""
        usable = b.usable(scores, *self.score_range, sums_to_one=self.sums_to_one and n_columns > 1)
        return b.only_where(usable, self.formula(b, scores, n_columns))
