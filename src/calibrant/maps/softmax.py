"""Maps of all classes by a softmax of their logits, and mixtures of these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant import kernels
from calibrant.document_field import DocumentField
from calibrant.maps.base import (
    MulticlassMap,
    PoolPart,
    check_clip,
    check_parts,
    check_reach,
    check_same_size,
    decode_maps,
    decode_optional_clip,
    decode_shares,
    mean_of,
)
from calibrant.numerics import LEAST, FloatArray, row_max, softmax
from calibrant.terms import Builder, Term
from calibrant.validation import InputKind

#: Multiplications from which loading the compiled loop is worth its time.
_COMPILED_FROM = 1 << 25
#: Numbers per block of rows: what a block's temporaries need stays in cache.
_BLOCK = 1 << 15
#: Its square divides the product of any two numbers to one that float64 holds, also summed over many classes.
_UNIT = 2.0**520


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxMap(PoolPart):
    """q = softmax(W z + bias) of logits z, or of z = log(p) with p clipped to at least `clip`; q is above 0.

    `weight` is a number (the inverse temperature) or a matrix, as an array of 0 or 2 dimensions; `clip` is None for
    logits.
    """

    kind: ClassVar[str] = "softmax"
    weight: FloatArray
    bias: FloatArray
    clip: float | None

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        """Number of classes K."""
        return self.bias.size

    def apply(self, scores: FloatArray) -> FloatArray:
        n, n_classes = scores.shape
        size = max(1, _BLOCK // n_classes)
        if n <= size or (self.weight.ndim == 2 and n * self.weight.size >= _COMPILED_FROM):
            return np.maximum(softmax(self.logits(scores)), LEAST)
        out = np.empty(scores.shape)
        for start in range(0, n, size):
            block = slice(start, start + size)
            np.maximum(softmax(self.logits(scores[block])), LEAST, out=out[block])
        return out

    def logits(self, scores: FloatArray) -> FloatArray:
        """Return what the softmax is taken of, shape (n, K); of rows that float64 can't hold, less their largest."""
        z = scores if self.clip is None else np.log(np.maximum(scores, self.clip))
        with np.errstate(over="ignore", invalid="ignore"):
            out: FloatArray = _linear(z, self.weight) + self.bias
            is_beyond = ~np.isfinite(row_max(out))
            if is_beyond.any():  # in units so large that the largest products fit
                far = _linear(z[is_beyond] / _UNIT, self.weight / _UNIT) + self.bias / _UNIT / _UNIT
                out[is_beyond] = (far - row_max(far)[:, None]) * _UNIT * _UNIT
        return out

    def log_outputs(self, scores: FloatArray, clip: float) -> FloatArray:  # noqa: ARG002
        """Return the logits less the largest of each row: a softmax is never zero before it is rounded."""
        z = self.logits(scores)
        with np.errstate(over="ignore"):  # minus infinity is right: no probability is left
            return z - row_max(z)[:, None]

    def formula(self, b: Builder, s: Term) -> Term:
        return softmax_formula(b, self.logits_formula(b, s))

    def logits_formula(self, b: Builder, s: Term) -> Term:
        """Return what `logits` does, in the terms of a builder."""
        z = s if self.clip is None else b.hold(b.ln(b.greatest(s, b.number(self.clip))))
        if self.weight.ndim == 2:
            return b.linear(z, self.weight) + b.number(self.bias)
        return float(self.weight) * z + b.number(self.bias)

    def log_formula(self, b: Builder, s: Term, clip: float) -> Term:  # noqa: ARG002
        z = b.hold(self.logits_formula(b, s))
        return z - b.largest(z)

    def describe(self, classes: Sequence[Any]) -> list[str]:  # noqa: ARG002
        z = "z" if self.clip is None else "log p"
        is_number = self.weight.ndim == 0
        by = f"{self.weight.item():.6g} * {z}" if is_number else f"W {z}, W of shape {self.weight.shape}"
        plus = f" + b, b from {self.bias.min():.6g} to {self.bias.max():.6g}" if self.bias.any() else ""
        return [f"softmax of {by}{plus}"]

    def check_input(self, input: InputKind, field: DocumentField) -> None:
        check_clip(self.clip, input, field)

    def check_fit(self, input: InputKind, n_classes: int, field: DocumentField, *, ndim: int | None = None) -> None:
        """Refuse a map, held by a field of a document, of other classes, scores or dimensions of its weight."""
        if ndim is not None and self.weight.ndim != ndim:
            kind = {0: "one number, as an inverse temperature", 2: "one row per class, as a matrix"}[ndim]
            field.member("weight").refuse(f"is not {kind} is")
        if self.n_classes != n_classes:
            field.member("bias").refuse(f"does not go with {n_classes} classes: one number per class is needed")
        self.check_input(input, field)

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        bias = parts["bias"].numbers(minimum=2)
        weight, clip = _decode_weight(parts["weight"], bias.size), decode_optional_clip(parts["clip"])
        if clip is not None:
            most = bias.size * abs(float(np.abs(weight).max()) * math.log(clip))
            check_reach(parts["weight"], most, float(np.abs(bias).max()))
        return cls(weight, bias, clip)


@dataclass(frozen=True, slots=True, eq=False)
class MixtureMap(MulticlassMap):
    """q = sum_j w_j q_j of the outputs q_j of several softmax maps; the weights sum to one."""

    kind: ClassVar[str] = "mixture"
    maps: tuple[SoftmaxMap, ...]
    weights: FloatArray

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        """Number of classes K."""
        return self.maps[0].n_classes

    def apply(self, scores: FloatArray) -> FloatArray:
        return mean_of((part.apply(scores) for part in self.maps), self.weights)

    def formula(self, b: Builder, s: Term) -> Term:
        return b.least(b.weighted_total([part.formula(b, s) for part in self.maps], self.weights), b.number(1.0))

    def describe(self, classes: Sequence[Any]) -> list[str]:
        parts = zip(self.weights.tolist(), self.maps, strict=True)
        return ["Mean of probabilities:", *(f"  {w:.3g} of {line}" for w, m in parts for line in m.describe(classes))]

    def check_input(self, input: InputKind, field: DocumentField) -> None:
        check_parts(self.maps, input, field)

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        maps = decode_maps(parts["maps"], SoftmaxMap)
        check_same_size(maps, parts["maps"])
        return cls(maps, decode_shares(parts["weights"], len(maps)))


def softmax_formula(b: Builder, z: Term) -> Term:
    """Return the probabilities of all classes from their logits, in the terms of a builder."""
    z = b.hold(z)
    e = b.hold(b.exp(z - b.largest(z)))
    return e / b.total(e)


def _decode_weight(field: DocumentField, n_classes: int) -> FloatArray:
    """Return a weight of 0 or 2 dimensions, for a number or a list of rows."""
    if not isinstance(field.value, list):
        return np.array(field.number())
    if len(field.value) != n_classes:
        field.refuse(f"does not go with a bias of {n_classes}: one row per class is needed")
    rows = [item.numbers() for item in field.items()]
    for item, row in zip(field.items(), rows, strict=True):
        if row.size != n_classes:
            item.refuse(f"does not go with {n_classes} classes: one weight per class is needed")
    return np.array(rows)


def _linear(z: FloatArray, weight: FloatArray) -> FloatArray:
    """Multiply row by row; a matrix product would round differently in batches of different size."""
    if weight.ndim < 2:
        return z * weight
    out = np.zeros((z.shape[0], weight.shape[0]))
    if z.shape[0] * weight.size >= _COMPILED_FROM and kernels.can_compile():
        kernels.multiply_rows(z, np.ascontiguousarray(weight.T), out)
        return out
    for k in range(weight.shape[1]):
        out += z[:, k : k + 1] * weight[:, k]
    return out
