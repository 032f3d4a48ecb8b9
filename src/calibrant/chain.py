"""Chains: several fitted objects in a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy.typing as npt

from calibrant.document_field import DocumentField
from calibrant.errors import CalibrantError, ColumnOrderError, InvalidInputError, InvalidTypeError
from calibrant.fitted import Fitted
from calibrant.numerics import FloatArray
from calibrant.phrases import count, quoted
from calibrant.rows import Rows
from calibrant.storable import decode_fitted, encode_fitted, register
from calibrant.terms import Builder, Term
from calibrant.validation import InputKind


@register("chain")
class Chain(Fitted):
    """Several fitted objects in a row: each takes the probabilities that the one before it makes.

    What a pipeline deploys: undo class weights, calibrate, shift to new base rates.

    Parameters
    ----------
    steps : sequence of fitted objects
        The first one says what the scores are; all others take probabilities. All have the same classes.

    Examples
    --------
    >>> import calibrant as cb
    >>> from calibrant.prior import PriorShift
    >>> shift = PriorShift.from_priors(old=0.5, new=0.1)
    >>> chain = cb.Chain([cb.SigmoidCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]), shift])
    >>> chain.predict_proba([0.5]).round(2)
    array([0.1])
    """

    def __init__(self, steps: Sequence[Fitted]) -> None:
        if isinstance(steps, Fitted) or not isinstance(steps, Iterable):
            raise InvalidTypeError(f"steps is a {type(steps).__name__}. Pass a list of two or more fitted calibrators.")
        self.steps = tuple(steps)
        _check_steps(self.steps)
        if not self.widths:
            raise InvalidInputError(
                "no number of columns goes through all steps: some take one column, others one per class. Fit all "
                "steps to scores of one shape."
            )

    @property
    def is_fitted(self) -> bool:
        return True

    @property
    def input(self) -> InputKind:  # type: ignore[override]
        """What the scores are that the first step takes."""
        return self.steps[0].input

    @property
    def classes_(self) -> npt.NDArray[Any]:  # type: ignore[override]
        """The labels, sorted."""
        return self.steps[0].classes_

    @property
    def n_rows_(self) -> int:  # type: ignore[override]
        """Number of rows of the step that was fitted to most."""
        return max(step.n_rows_ for step in self.steps)

    @property
    def score_names_(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """Names of the columns of scores that the first step was fitted to."""
        return self.steps[0].score_names_

    @property
    def takes_features(self) -> bool:  # type: ignore[override]
        """Whether some step was fitted to features of rows."""
        return any(step.takes_features for step in self.steps)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for step in self.steps for name in step.feature_names))

    def text_names(self, group: str | None) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for step in self.steps for name in step.text_names(group)))

    def feature_kinds(self) -> dict[str, Any]:
        kinds: dict[str, Any] = {}
        for step in self.steps:
            for name, kind in step.feature_kinds()["kinds"].items():
                if kinds.setdefault(name, kind) != kind:
                    raise InvalidInputError(
                        f"steps read column {name!r} as {kinds[name]} and as {kind}. Fit them alike."
                    )
        return {"names": self.feature_names, "kinds": kinds}

    @property
    def takes_one(self) -> bool:
        return 1 in self.widths

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(n for n in self.steps[0].widths if all(n in step.widths for step in self.steps))

    @property
    def sums_to_one(self) -> bool:
        return self.steps[0].sums_to_one

    @property
    def is_exclusive(self) -> bool:  # type: ignore[override]
        """Whether each row is of exactly one class."""
        return self.steps[0].is_exclusive

    @property
    def n_numbers(self) -> int:
        return sum(step.n_numbers for step in self.steps)

    def apply(self, rows: Rows) -> FloatArray:
        for step in self.steps[:-1]:
            rows = rows.with_scores(step.apply(rows))
        return self.steps[-1].apply(rows)

    def formula(self, b: Builder, scores: Term, n_columns: int) -> Term:
        for step in self.steps:
            scores = b.hold(step.formula(b, scores, n_columns))
        return scores

    def describe(self) -> list[str]:
        lines = []
        for number, step in enumerate(self.steps, start=1):
            lines += [f"{number}. {type(step).__name__}:", *(f"   {line}" for line in step.describe())]
        return lines

    def encode(self) -> dict[str, Any]:
        return {"steps": [encode_fitted(step) for step in self.steps]}

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        field = body.members(("steps",))["steps"]
        steps: list[Any] = [decode_fitted(item) for item in field.items(minimum=2)]
        try:
            return cls(steps)
        except CalibrantError as error:
            field.refuse(f"can't be a chain: {str(error).removesuffix('.')}")

    def __repr__(self) -> str:
        return f"Chain([{', '.join(map(repr, self.steps))}])"


def _check_steps(steps: Sequence[Fitted]) -> None:
    if len(steps) < 2:
        raise InvalidInputError(f"steps holds {count(len(steps), 'object')}. Pass two or more, or the one by itself.")
    for number, step in enumerate(steps):
        if not isinstance(step, Fitted):
            raise InvalidTypeError(f"steps[{number}] is a {type(step).__name__}. Pass fitted calibrators.")
        step.check_fitted()
        if step.needs_groups:
            raise InvalidInputError(
                f"steps[{number}], a {type(step).__name__}, needs groups, which a chain doesn't pass on. Apply it by "
                "itself."
            )
        if number and step.input != "probability":
            raise InvalidInputError(
                f"steps[{number}] takes input={step.input!r}, but the step before it gives probabilities. Fit it to "
                "probabilities."
            )
        if step.classes_.tolist() != steps[0].classes_.tolist():
            raise ColumnOrderError(
                f"steps[{number}] has the classes {quoted(step.classes_.tolist())}, and steps[0] "
                f"{quoted(steps[0].classes_.tolist())}. Fit all steps to the same labels."
            )
        if step.is_exclusive != steps[0].is_exclusive:
            raise InvalidInputError(
                f"steps[{number}] and steps[0] differ in whether a row is of one class or may have several labels. "
                "Chain objects of one kind."
            )
