"""A fitted object and the columns of tables that it takes: files, frames and Spark are calibrated in this one way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from calibrant.applicable import Applicable
from calibrant.errors import InvalidInputError, InvalidScoreError
from calibrant.fitted import Fitted
from calibrant.numerics import FloatArray
from calibrant.persistence import check_fitted
from calibrant.rows import Rows
from calibrant.tables import (
    KEEP_HINT,
    SKIP_HINT,
    MissingInput,
    NewColumns,
    RowSource,
    check_numbers,
    refuse_missing,
)

if TYPE_CHECKING:
    import pyarrow as pa


_Applicable = TypeVar("_Applicable", bound=Applicable)


@dataclass(frozen=True, slots=True)
class FittedColumns(Generic[_Applicable]):
    """What is fitted, and the columns of its scores, names or patterns, and of its groups, where it needs them.

    `is_named` says whether the caller named the columns of scores; else they are those of the fit. `where` is what
    messages call the table, `hint` what they advise where a value is missing.
    """

    fitted: _Applicable
    score: tuple[str, ...]
    group: str | None
    is_named: bool
    where: str
    hint: str = SKIP_HINT

    @classmethod
    def of(
        cls, fitted: _Applicable, *, score: str | Sequence[str] | None = None, group: str | None = None, where: str = ""
    ) -> FittedColumns[_Applicable]:
        """Find the columns: those that the caller names, or those of the fit."""
        check_fitted(fitted, Applicable, "apply")
        given = [score] if isinstance(score, str) else list(score or ())
        names = given or list(fitted.score_names_ or ())
        if not names:
            raise InvalidInputError(
                f"this {type(fitted).__name__} doesn't say which columns it was fitted to. Name them with --score "
                "(score= in Python)."
            )
        if group is not None and not fitted.needs_groups:
            raise InvalidInputError(
                f"this {type(fitted).__name__} was not fitted by group. Leave --group (group= in Python) out."
            )
        group = group or (fitted.group_name_ if fitted.needs_groups else None)
        if group is None and fitted.needs_groups:
            raise InvalidInputError(
                f"this {type(fitted).__name__} doesn't say which column names its groups. Name it with --group "
                "(group= in Python)."
            )
        return cls(fitted, tuple(names), group, bool(given), where)

    @classmethod
    def to_measure(
        cls,
        fitted: Fitted,
        source: RowSource,
        *,
        score: str | Sequence[str] | None = None,
        group: str | None = None,
        own_group: str | None = None,
    ) -> FittedColumns[Fitted]:
        """Find the columns of a table whose calibrated probabilities are measured, all of which are there.

        `group`, which may be named for other ends, is that of the calibrator where its own is not there; `own_group` is
        named for it alone.
        """
        check_fitted(fitted, Fitted, "measure")
        if not fitted.is_exclusive:
            raise InvalidInputError(
                f"a {type(fitted).__name__} calibrates several labels at once, but what is measured here is one label "
                "per row. Add its probabilities by calibrant apply, and measure the column of each label against that "
                "label."
            )
        own = fitted.group_name_
        of_group = (own if own in source.names else group) if fitted.needs_groups else None
        columns = FittedColumns.of(fitted, score=score, group=own_group or of_group, where=source.name)
        source.select(columns.inputs)
        return replace(columns, score=tuple(source.select(columns.score)))

    @property
    def inputs(self) -> list[str]:
        """Names or patterns of all columns that are read."""
        group = [] if self.group is None else [self.group]
        return list(dict.fromkeys([*self.score, *group, *self.fitted.feature_names]))

    @property
    def optional(self) -> list[str]:
        """Names of the columns of features, whose values may be missing."""
        return [name for name in self.fitted.feature_names if name not in self.score and name != self.group]

    @property
    def as_text(self) -> list[str]:
        """Names of the columns of groups and features that are text, also where a file has but numbers in them."""
        return [name for name in self.fitted.text_names(self.group) if name not in self.score]

    @property
    def required(self) -> list[str]:
        """Names or patterns of the columns that no row may lack."""
        return [name for name in self.inputs if name not in self.optional]

    def new_columns(self, column: str | None = None, missing: MissingInput = "error") -> NewColumns:
        """Return the columns of probabilities, called `column`, or with what the classes are called behind it.

        By default they are called as what is fitted says.
        """
        column = self.fitted.default_column if column is None else column
        is_pattern = any(c in "*?[" for c in "".join(self.score))
        outputs = self.fitted.output_names(column, 1 if len(self.score) == 1 and not is_pattern else 2)
        compute = replace(self, hint=KEEP_HINT).probabilities
        return NewColumns(self.inputs, outputs, compute, missing, optional=self.optional, as_text=self.as_text)

    def probabilities(self, table: pa.Table) -> FloatArray:
        """Return the probabilities of the rows of a table that holds the inputs and nothing else."""
        return self.fitted.apply(self.rows(table))

    def rows(self, table: pa.Table) -> Rows:
        """Check the scores and groups of a table that holds the inputs and nothing else."""
        beside = {self.group, *self.optional}
        names = [name for name in table.column_names if name not in beside or name in self.score]
        for name in names:
            check_numbers(table.column(name), f"column {name!r}{self._of_where()}")
        whole = table.select(list(dict.fromkeys([*names, *([] if self.group is None else [self.group])])))
        refuse_missing(whole, self.where, dict.fromkeys(names, InvalidScoreError), self.hint)
        scores = table.column(names[0]) if len(names) == 1 else table.select(names)
        where = self.where or "the table"
        called = f"column {names[0]!r}{self._of_where()}" if len(names) == 1 else where
        groups = None if self.group is None else table.column(self.group)
        features = table.select(list(self.fitted.feature_names)) if self.fitted.feature_names else None
        return self.fitted.read(
            scores, groups=groups, features=features, name=called, where=where, in_given_order=self.is_named
        )

    def _of_where(self) -> str:
        return f" of {self.where}" if self.where else ""
