"""Maps of one score that are means of other maps: of their logits, or of their probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.maps.base import (
    BinaryMap,
    BlendPart,
    LoggedScores,
    SingleMap,
    check_parts,
    decode_clip,
    decode_maps,
    decode_shares,
    decode_uniform,
    in_blocks,
    mean_of,
)
from calibrant.maps.tables import step_formula
from calibrant.numerics import FloatArray, open_expit
from calibrant.terms import Builder, Term
from calibrant.validation import InputKind


def mixed_with_half(q: FloatArray, share: float) -> FloatArray:
    """Return probabilities of which a share is 1/2."""
    return q if share == 0.0 else (1.0 - share) * q + 0.5 * share


class _MeanOfMaps(BinaryMap):
    __slots__ = ()
    maps: tuple[BlendPart, ...]
    weights: FloatArray

    def step_edges(self) -> FloatArray | None:
        found = [edges for part in self.maps if (edges := part.step_edges()) is not None]
        return np.unique(np.concatenate(found)) if len(found) == len(self.maps) else None

    def fitted_scores(self) -> FloatArray:
        return np.unique(np.concatenate([part.fitted_scores() for part in self.maps]))

    @abstractmethod
    def head(self) -> str:
        """Return what kind of mean it is, in words."""

    def in_words(self) -> str:
        parts = [f"{w:.3g} of {m.in_words()}" for w, m in zip(self.weights.tolist(), self.maps, strict=True)]
        return f"{self.head()} ({'; '.join(parts)})"

    def describe(self, classes: Sequence[Any]) -> list[str]:
        lines = [f"{self.head()}:"]
        for weight, part in zip(self.weights.tolist(), self.maps, strict=True):
            first, *others = part.describe(classes)
            lines += [f"  {weight:.3g} of {first}", *(f"  {line}" for line in others)]
        return lines

    def check_input(self, input: InputKind, field: DocumentField) -> None:
        check_parts(self.maps, input, field)


@dataclass(frozen=True, slots=True, eq=False)
class BlendMap(_MeanOfMaps):
    """q = (1 - uniform) r + uniform / 2, r = expit(sum_j w_j logit(q_j)) of the outputs q_j of several maps.

    Outputs are clipped to [clip, 1 - clip]. Where it `falls` they are those of the negative class, and r is one minus
    that.
    """

    kind: ClassVar[str] = "blend"
    later_fields: ClassVar[tuple[str, ...]] = ("uniform", "falls")
    maps: tuple[BlendPart, ...]
    weights: FloatArray
    clip: float
    uniform: float = 0.0
    falls: bool = False

    @property
    def signed_weights(self) -> FloatArray:
        """The weights, negative where the map falls."""
        return -self.weights if self.falls else self.weights

    def apply(self, scores: FloatArray) -> FloatArray:
        return in_blocks(self._outputs, scores)

    def _outputs(self, given: LoggedScores) -> FloatArray:
        z = np.zeros(given.scores.shape)
        for weight, part in zip(self.signed_weights.tolist(), self.maps, strict=True):
            z += weight * part.output_logits(given, self.clip)
        return mixed_with_half(open_expit(z), self.uniform)

    def formula(self, b: Builder, s: Term) -> Term:
        if self.step_edges() is not None:
            return step_formula(b, s, self)
        logits = [part.output_logit_formula(b, s, self.clip) for part in self.maps]
        q = b.expit(b.weighted_total(logits, self.signed_weights))
        return q * (1.0 - self.uniform) + 0.5 * self.uniform if self.uniform else q

    def head(self) -> str:
        mixed = f", mixed with {self.uniform:.3g} of 1/2" if self.uniform else ""
        return f"mean logit{', turned round' if self.falls else ''}{mixed}"

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        maps = decode_maps(parts["maps"], BlendPart)
        weights = decode_shares(parts["weights"], len(maps), is_whole=False)
        uniform = decode_uniform(parts["uniform"]) if "uniform" in parts else 0.0
        falls = "falls" in parts and parts["falls"].boolean()
        return cls(maps, weights, decode_clip(parts["clip"]), uniform, falls)


@dataclass(frozen=True, slots=True, eq=False)
class MeanMap(_MeanOfMaps, BlendPart):
    """q = sum_j w_j q_j of the outputs q_j of several maps; the weights sum to one."""

    kind: ClassVar[str] = "mean"
    maps: tuple[SingleMap, ...]
    weights: FloatArray

    def apply(self, scores: FloatArray) -> FloatArray:
        return in_blocks(self.outputs, scores)

    def outputs(self, given: LoggedScores) -> FloatArray:
        return mean_of((part.outputs(given) for part in self.maps), self.weights)

    def formula(self, b: Builder, s: Term) -> Term:
        if self.step_edges() is not None:
            return step_formula(b, s, self)
        return b.least(b.weighted_total([part.formula(b, s) for part in self.maps], self.weights), b.number(1.0))

    def head(self) -> str:
        return "mean"

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        maps = decode_maps(parts["maps"], SingleMap)
        return cls(maps, decode_shares(parts["weights"], len(maps)))
