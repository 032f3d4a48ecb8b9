"""What a search for segments tried, what it chose and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from calibrant.calibrators import NONE, AutoReport
from calibrant.document_field import DocumentField
from calibrant.phrases import count
from calibrant.readable import Readable
from calibrant.segments.choice import Choice, TriedSize

Chosen: TypeAlias = Literal["segments", "none"]


@dataclass(frozen=True, slots=True, repr=False)
class SegmentReport(Readable):
    """What was tried, what was chosen, and why.

    Attributes
    ----------
    tried : tuple of TriedSize
        The sizes of trees that were tried on the first fold, with the rounds of the least loss and that loss.
    leaves, n_rounds : int
        The size that was grown on all folds, and the rounds of the least loss.
    share : float
        How much of the sum of the trees is used; 0 where nothing is.
    decision : AutoReport
        The held-out loss of the scores by their own calibration ("none"), of the whole trees ("segments") and of the
        part of them that is used, or would be (its `blend`), with the differences and their standard errors.
    of_numbers : bool
        Whether losses are half the squared error, of predictions of a number, and not log losses.
    """

    tried: tuple[TriedSize, ...]
    leaves: int
    n_rounds: int
    share: float
    decision: AutoReport
    of_numbers: bool = False

    @classmethod
    def of(cls, choice: Choice, *, of_numbers: bool = False) -> SegmentReport:
        """Return the report of a choice."""
        return cls(choice.tried, choice.size.leaves, choice.n_rounds, choice.share, choice.report, of_numbers)

    @property
    def chosen(self) -> Chosen:
        """What was chosen: "segments", or "none" where the scores alone decide."""
        return "none" if self.share == 0.0 else "segments"

    @property
    def reason(self) -> str:
        """Why, in a sentence."""
        return self.decision.reason

    def encode(self) -> dict[str, Any]:
        """Return the report as plain data."""
        tried = [{"leaves": each.leaves, "n_rounds": each.n_rounds, "loss": each.loss} for each in self.tried]
        rest = {"leaves": self.leaves, "n_rounds": self.n_rounds, "share": self.share}
        return {"tried": tried, **rest, "decision": self.decision.encode()}

    @classmethod
    def decode(cls, field: DocumentField, *, of_numbers: bool = False) -> SegmentReport:
        """Return the report that a document holds."""
        parts = field.members(("tried", "leaves", "n_rounds", "share", "decision"))
        share = parts["share"].share()
        return cls(
            tuple(_decoded(item) for item in parts["tried"].items()),
            parts["leaves"].integer(minimum=2),
            parts["n_rounds"].integer(minimum=0),
            share,
            AutoReport.decode(parts["decision"]),
            of_numbers,
        )

    def _columns(self) -> dict[str, Sequence[Any]]:
        rows = [*sorted(self.decision.candidates, key=lambda each: each.name != NONE), self.decision.blend]
        return {
            "candidate": [*(each.name for each in rows[:-1]), "blend" if self.chosen == "none" else "as used"],
            "half_squared_error" if self.of_numbers else "log_loss": [each.log_loss for each in rows],
            "difference": [each.difference for each in rows],
            "standard_error": [each.standard_error for each in rows],
        }

    def _before(self) -> list[str]:
        if self.chosen == "none":
            return [self.reason]
        trees = f"{count(self.n_rounds, 'round')} of trees with {self.leaves} leaves"
        return [self.reason, f"{trees}, of which {self.share:.0%} is used."]


def _decoded(field: DocumentField) -> TriedSize:
    parts = field.members(("leaves", "n_rounds", "loss"))
    return TriedSize(parts["leaves"].integer(minimum=2), parts["n_rounds"].integer(minimum=0), parts["loss"].number())
