"""Maps of one score that are means of other maps: of their logits, or of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.maps.base import BinaryMap, SingleMap, decode_clip, decode_maps, decode_shares
from calibrant.maps.logistic import BetaMap, LogisticMap, term_logit
from calibrant.maps.tables import step_formula
from calibrant.numerics import FloatArray, clip_open, expit, logit
from calibrant.terms import Builder, Term
from calibrant.validation import InputKind


class _MeanOfMaps(BinaryMap):
    """What both means have in common."""

    __slots__ = ()
    maps: tuple[SingleMap, ...]
    weights: FloatArray

    def step_edges(self) -> FloatArray | None:
        """Return the edges of all parts, if each is made of steps alone."""
        found = [edges for part in self.maps if (edges := part.step_edges()) is not None]
        return np.unique(np.concatenate(found)) if len(found) == len(self.maps) else None

    def fitted_scores(self) -> FloatArray:
        """Return those of all parts."""
        return np.unique(np.concatenate([part.fitted_scores() for part in self.maps]))

    def words_of_parts(self) -> str:
        """Return the parts with their weights."""
        return "; ".join(f"{w:.3g} of {m.in_words()}" for w, m in zip(self.weights.tolist(), self.maps, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class BlendMap(_MeanOfMaps):
    """q = expit(sum_j w_j logit(q_j)) of the outputs q_j of several maps, each clipped to [clip, 1 - clip]."""

    kind: ClassVar[str] = "blend"
    maps: tuple[SingleMap, ...]
    weights: FloatArray
    clip: float

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the blended probability of the positive class for each score, shape (n,)."""
        z = np.zeros(scores.shape)
        for weight, part in zip(self.weights.tolist(), self.maps, strict=True):
            z += weight * logit(clip_open(part.apply(scores), self.clip))
        return expit(z)

    def formula(self, b: Builder, s: Term) -> Term:
        """Return what `apply` does."""
        if self.step_edges() is not None:
            return step_formula(b, s, self)
        logits = [term_logit(b, b.clip(part.formula(b, s), self.clip, 1.0 - self.clip)) for part in self.maps]
        return b.expit(b.weighted_total(logits, self.weights))

    def in_words(self) -> str:
        """Return the parts with their weights."""
        return f"mean logit: {self.words_of_parts()}"

    def check_input(self, input: InputKind, field: DocumentField) -> None:
        """Refuse a part that can't be one of scores of this kind."""
        _check_parts(self.maps, input, field)

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        """Return the map of several single ones with a share each."""
        maps = decode_maps(parts["maps"], SingleMap)  # type: ignore[type-abstract]
        return cls(maps, decode_shares(parts["weights"], len(maps), is_whole=False), decode_clip(parts["clip"]))


@dataclass(frozen=True, slots=True, eq=False)
class MeanMap(_MeanOfMaps):
    """q = sum_j w_j q_j of the outputs q_j of several maps; the weights sum to one."""

    kind: ClassVar[str] = "mean"
    maps: tuple[SingleMap, ...]
    weights: FloatArray

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the mean probability of the positive class for each score, shape (n,)."""
        q = np.zeros(scores.shape)
        for weight, part in zip(self.weights.tolist(), self.maps, strict=True):
            q += weight * part.apply(scores)
        return np.minimum(q, 1.0, out=q)

    def formula(self, b: Builder, s: Term) -> Term:
        """Return what `apply` does."""
        if self.step_edges() is not None:
            return step_formula(b, s, self)
        return b.least(b.weighted_total([part.formula(b, s) for part in self.maps], self.weights), b.number(1.0))

    def in_words(self) -> str:
        """Return the parts with their weights."""
        return f"mean: {self.words_of_parts()}"

    def check_input(self, input: InputKind, field: DocumentField) -> None:
        """Refuse a part that can't be one of scores of this kind."""
        kind: type[SingleMap] = BetaMap if input == "probability" else LogisticMap
        for item, part in zip(field.member("maps").items(), self.maps, strict=True):
            if not isinstance(part, kind):
                item.member("kind").refuse(f"does not go with input {input!r}")

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        """Return the map of several single ones with shares that sum to one."""
        maps = decode_maps(parts["maps"], SingleMap)  # type: ignore[type-abstract]
        return cls(maps, decode_shares(parts["weights"], len(maps)))


def _check_parts(maps: Sequence[BinaryMap], input: InputKind, field: DocumentField) -> None:
    for item, part in zip(field.member("maps").items(), maps, strict=True):
        part.check_input(input, item)
