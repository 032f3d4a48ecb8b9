"""Maps of all classes that are made of maps of one score: one-vs-rest, the top label, and products of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from calibrant.document_field import DocumentField
from calibrant.maps.base import (
    BinaryMap,
    Examples,
    MulticlassMap,
    PoolPart,
    apply_each,
    check_same_size,
    decode_clip,
    decode_maps,
    decode_shares,
    decode_uniform,
    examples_of,
    first_lines,
)
from calibrant.maps.coupling import COUPLINGS, Coupling, couple, coupling_formula
from calibrant.maps.softmax import softmax_formula
from calibrant.numerics import TINY, FloatArray, row_max, row_sum, softmax
from calibrant.terms import Builder, Term
from calibrant.validation import InputKind

_JUST_BELOW_ONE = float(np.nextafter(1.0, 0.0))
_COUPLED = {"normalise": "divided by {} sum", "likelihood": "made the most likely distribution"}


@dataclass(frozen=True, slots=True, eq=False)
class OneVsRestMap(PoolPart):
    """One binary map per column, of softmax of the logits where `is_logit` says so, then each row coupled."""

    kind: ClassVar[str] = "one_vs_rest"
    maps: tuple[BinaryMap, ...]
    is_logit: bool = False
    coupling: Coupling = "normalise"

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        """Number of classes K."""
        return len(self.maps)

    def apply(self, scores: FloatArray) -> FloatArray:
        if self.is_logit:
            scores = softmax(scores)
        return couple(apply_each(self.maps, scores), self.coupling)

    def log_outputs(self, scores: FloatArray, clip: float) -> FloatArray:
        return np.log(np.maximum(self.apply(scores), clip))

    def formula(self, b: Builder, s: Term) -> Term:
        p = b.hold(softmax_formula(b, s)) if self.is_logit else s
        rates = b.hold(b.columns([part.formula(b, b.column(p, k)) for k, part in enumerate(self.maps)]))
        return coupling_formula(b, rates, len(self.maps), self.coupling)

    def log_formula(self, b: Builder, s: Term, clip: float) -> Term:
        return b.ln(b.greatest(self.formula(b, s), b.number(clip)))

    def describe(self, classes: Sequence[Any]) -> list[str]:
        coupled = _COUPLED[self.coupling].format("its")
        return [f"One map per class, then each row {coupled}:", *_each(classes, self.maps)]

    def examples(self, classes: Sequence[Any], input: InputKind) -> Examples:
        title = f"Before rows are {_COUPLED[self.coupling].format('their')}:"
        return examples_of(self.maps, classes, "probability" if self.is_logit else input, title=title)

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        maps = decode_maps(parts["maps"], BinaryMap, minimum=2)
        return cls(maps, parts["is_logit"].boolean(), parts["coupling"].choice(COUPLINGS))


@dataclass(frozen=True, slots=True, eq=False)
class TopLabelMap(MulticlassMap):
    """The largest probability p of each row becomes q, by a binary map; the other classes share 1 - q.

    They share it in their old proportions, or equally where all others were zero. Where one of them would then reach q,
    the shares are moved towards equal ones, just as far as the top label stays on top; a q below 1 / K, which no top
    label of K classes can have, is raised to it. `maps` holds one map, or one for each class that may be on top.
    Logits, where `is_logit` says so, are turned into probabilities by softmax first. Of equal probabilities the first
    is on top.
    """

    kind: ClassVar[str] = "top_label"
    n_classes: int
    maps: tuple[BinaryMap, ...]
    is_logit: bool = False

    def apply(self, scores: FloatArray) -> FloatArray:
        p = softmax(scores) if self.is_logit else scores
        top = p.argmax(axis=1)
        at = np.arange(top.size)
        q = np.maximum(self._confidence(p[at, top], top), 1.0 / self.n_classes)
        others = p.copy()
        others[at, top] = 0.0
        total = row_sum(others)
        equal = 1.0 / (self.n_classes - 1.0)
        share = np.full_like(p, equal)
        np.divide(others, total[:, None], out=share, where=total[:, None] > 0.0)
        share[at, top] = 0.0
        left, highest = 1.0 - q, row_max(share)
        excess = np.maximum(left * highest - q, 0.0)
        pull = np.minimum(excess / np.maximum(left * (highest - equal), TINY), 1.0)
        share += pull[:, None] * (equal - share)
        out = np.minimum(left[:, None] * share, np.nextafter(q, 0.0)[:, None])  # below q, however it was rounded
        out[at, top] = q
        return out

    def formula(self, b: Builder, s: Term) -> Term:
        """Return what `apply` does, whose names these are."""
        p = b.hold(softmax_formula(b, s)) if self.is_logit else s
        is_top, largest = b.is_first_largest(p), b.hold(b.largest(p))
        nothing = b.number(0.0)
        if len(self.maps) == 1:
            confidence = self.maps[0].formula(b, largest)
        else:
            each = b.columns([part.formula(b, largest) for part in self.maps])
            confidence = b.total(b.choose(is_top, each, nothing))
        q = b.hold(b.greatest(confidence, b.number(1.0 / self.n_classes)))
        others = b.hold(b.choose(is_top, nothing, p))
        total = b.hold(b.total(others))
        equal = 1.0 / (self.n_classes - 1.0)
        share = b.hold(b.choose(is_top, nothing, b.choose(total > 0.0, others / total, b.number(equal))))
        left, highest = b.hold(1.0 - q), b.hold(b.largest(share))
        excess = b.greatest(left * highest - q, nothing)
        pull = b.hold(b.least(excess / b.greatest(left * (highest - equal), b.number(TINY)), b.number(1.0)))
        drawn = left * (share + pull * (equal - share))
        return b.choose(is_top, q, b.least(drawn, q * _JUST_BELOW_ONE))

    def describe(self, classes: Sequence[Any]) -> list[str]:
        if len(self.maps) == 1:
            return ["The largest of each row; the others share the rest:", f"  {self.maps[0].in_words()}"]
        first = "The largest of each row, by the class that it is of; the others share the rest:"
        return [first, *_each(classes, self.maps)]

    def examples(self, classes: Sequence[Any], input: InputKind) -> Examples:  # noqa: ARG002
        title, names = "The largest of a row, by its class:", classes
        if len(self.maps) == 1:
            title, names = "The largest of a row:", ["becomes"]
        return examples_of(self.maps, names, "probability", title=title, least=1.0 / self.n_classes)

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        n_classes = parts["n_classes"].integer(minimum=3)
        maps = decode_maps(parts["maps"], BinaryMap)
        if len(maps) not in (1, n_classes):
            parts["maps"].refuse(f"does not go with {n_classes} classes: one map, or one per class, is needed")
        return cls(n_classes, maps, parts["is_logit"].boolean())

    def _confidence(self, p: FloatArray, top: npt.NDArray[np.intp]) -> FloatArray:
        if len(self.maps) == 1:
            return self.maps[0].apply(p)
        q = np.empty_like(p)
        for k, fitted in enumerate(self.maps):
            rows = top == k
            if rows.any():
                q[rows] = fitted.apply(p[rows])
        return q


@dataclass(frozen=True, slots=True, eq=False)
class LogPoolMap(MulticlassMap):
    """q = (1 - uniform) r + uniform / K, r proportional to prod_j q_j^w_j of the outputs q_j of several maps.

    The weights are positive and sum to one. Outputs of one-vs-rest maps, which may be zero, are clipped to at least
    `clip`; those of softmax maps are not.
    """

    kind: ClassVar[str] = "log_pool"
    maps: tuple[PoolPart, ...]
    weights: FloatArray
    clip: float
    uniform: float

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        """Number of classes K."""
        return self.maps[0].n_classes

    def apply(self, scores: FloatArray) -> FloatArray:
        z = np.zeros(scores.shape)
        for weight, part in zip(self.weights.tolist(), self.maps, strict=True):
            z += weight * part.log_outputs(scores, self.clip)
        q = softmax(z)
        q *= 1.0 - self.uniform
        q += self.uniform / q.shape[1]
        return q

    def formula(self, b: Builder, s: Term) -> Term:
        logs = [part.log_formula(b, s, self.clip) for part in self.maps]
        q = softmax_formula(b, b.weighted_total(logs, self.weights))
        return q * (1.0 - self.uniform) + self.uniform / self.n_classes

    def describe(self, classes: Sequence[Any]) -> list[str]:
        mixed = f", mixed with {self.uniform:.3g} of equal ones" if self.uniform > 0.0 else ""
        lines = [f"Product of probabilities, each to the power of its weight{mixed}:"]
        for weight, part in zip(self.weights.tolist(), self.maps, strict=True):
            first, *rest = part.describe(classes)
            lines += [f"  {weight:.3g} of {first}", *(f"  {line}" for line in rest)]
        return lines

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        maps = decode_maps(parts["maps"], PoolPart)
        check_same_size(maps, parts["maps"])
        weights = decode_shares(parts["weights"], len(maps))
        if not weights.all():
            parts["weights"].refuse("holds a zero: a map without weight is no part")
        return cls(maps, weights, decode_clip(parts["clip"]), decode_uniform(parts["uniform"]))


def _each(classes: Sequence[Any], maps: Sequence[BinaryMap]) -> list[str]:
    return first_lines([f"  {label!r}: {part.in_words()}" for label, part in zip(classes, maps, strict=True)])
