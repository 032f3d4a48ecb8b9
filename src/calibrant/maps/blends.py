"""Maps of one score that are means of other maps: of their logits, or of their probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.maps.base import BinaryMap, SingleMap, check_parts, decode_clip, decode_maps, decode_shares, mean_of
from calibrant.maps.logistic import term_logit
from calibrant.maps.tables import step_formula
from calibrant.numerics import FloatArray, clip_open, logit, open_ends, open_expit
from calibrant.terms import Builder, Term
from calibrant.validation import InputKind


class _MeanOfMaps(BinaryMap):
    __slots__ = ()
    maps: tuple[SingleMap, ...]
    weights: FloatArray

    def step_edges(self) -> FloatArray | None:
        found = [edges for part in self.maps if (edges := part.step_edges()) is not None]
        return np.unique(np.concatenate(found)) if len(found) == len(self.maps) else None

    def fitted_scores(self) -> FloatArray:
        return np.unique(np.concatenate([part.fitted_scores() for part in self.maps]))

    def words_of_parts(self) -> str:
        return "; ".join(f"{w:.3g} of {m.in_words()}" for w, m in zip(self.weights.tolist(), self.maps, strict=True))

    def check_input(self, input: InputKind, field: DocumentField) -> None:
        check_parts(self.maps, input, field)


@dataclass(frozen=True, slots=True, eq=False)
class BlendMap(_MeanOfMaps):
    """q = expit(sum_j w_j logit(q_j)) of the outputs q_j of several maps, each clipped to [clip, 1 - clip]."""

    kind: ClassVar[str] = "blend"
    maps: tuple[SingleMap, ...]
    weights: FloatArray
    clip: float

    def apply(self, scores: FloatArray) -> FloatArray:
        z = np.zeros(scores.shape)
        for weight, part in zip(self.weights.tolist(), self.maps, strict=True):
            z += weight * logit(clip_open(part.apply(scores), self.clip))
        return open_expit(z)

    def formula(self, b: Builder, s: Term) -> Term:
        if self.step_edges() is not None:
            return step_formula(b, s, self)
        logits = [term_logit(b, b.clip(part.formula(b, s), *open_ends(self.clip))) for part in self.maps]
        return b.expit(b.weighted_total(logits, self.weights))

    def in_words(self) -> str:
        return f"mean logit: {self.words_of_parts()}"

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        maps = decode_maps(parts["maps"], SingleMap)
        return cls(maps, decode_shares(parts["weights"], len(maps), is_whole=False), decode_clip(parts["clip"]))


@dataclass(frozen=True, slots=True, eq=False)
class MeanMap(_MeanOfMaps):
    """q = sum_j w_j q_j of the outputs q_j of several maps; the weights sum to one."""

    kind: ClassVar[str] = "mean"
    maps: tuple[SingleMap, ...]
    weights: FloatArray

    def apply(self, scores: FloatArray) -> FloatArray:
        return mean_of(self.maps, self.weights, scores)

    def formula(self, b: Builder, s: Term) -> Term:
        if self.step_edges() is not None:
            return step_formula(b, s, self)
        return b.least(b.weighted_total([part.formula(b, s) for part in self.maps], self.weights), b.number(1.0))

    def in_words(self) -> str:
        return f"mean: {self.words_of_parts()}"

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        maps = decode_maps(parts["maps"], SingleMap)
        return cls(maps, decode_shares(parts["weights"], len(maps)))
